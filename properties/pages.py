"""The generated pages: the table and the contracts as a specification to read.

The same input gives the same text, so a page that differs from what is committed is stale.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from ..impl.counted import counted
from ..model.events import EVENTS, Event
from ..model.rules import RULES, Rule
from ..model.vocabulary import DERIVED, ENVIRONMENT, FIELDS, LINKS
from . import phrases, promises, protocol_page
from .contracts import CONTRACTS, VERSION
from .decisions import CALLS, DECISIONS

NOTICE = "<!-- Written by `tierproof spec` from the rule table and the contracts. Do not edit. -->"


def _row(*cells: str) -> str:
    return "| " + " | ".join(c.replace("|", "\\|").replace("\n", " ") for c in cells) + " |"


def _table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> Iterator[str]:
    names = tuple(head)
    yield _row(*names)
    yield "|" + "---|" * len(names)
    for row in rows:
        yield _row(*row)
    yield ""


def _code(word: str) -> str:
    return f"`{word}`"


def specification(rules: tuple[Rule, ...] = RULES) -> str:
    """The page `specification.md`."""
    return "\n".join(_specification(rules)).rstrip() + "\n"


def _specification(rules: tuple[Rule, ...]) -> Iterator[str]:
    yield from (NOTICE, "", "# Specification", "")
    yield (
        "What a tiered KV-cache offloading manager answers, and what happens to a block. The rules "
        "below are the rows of `model/rules.py`; the reference model executes them, z3 reads them, "
        "and this page prints them. A *block* is the unit that is offloaded: one key, whose bytes "
        "never change. The *primary tier* is host memory that the GPU copies to and from, in "
        "block-sized *slots*; *secondary tiers* (files, an object store, a server) reach the GPU "
        "only through it. A *promotion* brings a block from a secondary tier into the primary one, "
        "a *cascade* copies it the other way."
    )
    yield from ("", "## The four answers", "")
    yield from _table(("answer", "says"), ((_code(a), s) for a, s in phrases.ANSWERS.items()))
    yield from ("A MISS names its reason:", "")
    yield from _table(("reason", "says"), ((_code(r), s) for r, s in phrases.REASONS.items()))
    yield from ("## Phases of a block", "")
    yield from _table(("phase", "says"), ((_code(p), s) for p, s in phrases.PHASES.items()))
    yield from ("## The rules", "")
    yield (
        f"{counted(len(rules), 'rule')} for {len(EVENTS)} events. Exactly one rule matches "
        "whenever an event "
        "is offered, which is proved. What a rule does not mention stays as it is."
    )
    yield ""
    for event in EVENTS.values():
        yield from _event(event, [r for r in rules if r.event == event.name])
    yield from _calls()
    yield from _contracts()
    yield from _glossary()


def _event(event: Event, rules: list[Rule]) -> Iterator[str]:
    about = ", ".join(_code(role) for role in event.roles) or "the whole cache"
    yield from (f"### {event.name}", "")
    told = f"{event.says[:1].upper()}{event.says[1:]}. About: {about}."
    if event.given:
        given = phrases.when(event.given)
        told += f" Offered when: {given[:1].lower()}{given[1:]}."
    if event.every:
        told += " It happens to every block at once."
    yield from (told, "")
    answers = any(r.answer for r in rules)
    head = ("rule", "when", "then", "answer") if answers else ("rule", "when", "then")
    rows = []
    for r in rules:
        row = [_code(r.name), phrases.when(r.when) or "Always", phrases.then(r.then) or "Nothing"]
        if answers:
            row.append(_code(r.answer or "") + (f" ({r.reason})" if r.reason else ""))
        rows.append(row)
    yield from _table(head, rows)


def _calls() -> Iterator[str]:
    yield from ("## What a call is made of", "")
    yield from _table(("call", "events"), ((_code(call), says) for call, says in CALLS.items()))
    yield from ("## Decisions", "")
    for title, says in DECISIONS:
        yield from (f"**{title}.** {says}", "")


def _contracts() -> Iterator[str]:
    yield from ("## Contracts", "")
    yield (
        f"Version {VERSION} of the set. *proof*: on the rules, for any number of keys, tiers, "
        "requests, slots and transfers. *tour*: every reachable case driven on the real manager. "
        "*runs*: random histories on the real manager, next to the reference model. Some facts "
        "can be seen only through a probe that the manager under test offers."
    )
    yield ""
    methods = list(dict.fromkeys(m for c in CONTRACTS.values() for m in c.methods))
    rows = (
        (
            _code(c.id),
            c.words,
            *("x" if m in c.methods else "" for m in methods),
            ", ".join(map(_code, c.needs)),
        )
        for c in CONTRACTS.values()
    )
    yield from _table(("contract", "says", *methods, "probes"), rows)


def _glossary() -> Iterator[str]:
    yield from ("## Words", "")
    yield from ("Roles, in the brackets of a cell:", "")
    yield from _table(("role", "is"), ((_code(r), s) for r, s in phrases.ROLES.items()))
    yield from ("Stored values; a *ghost* is kept for the sake of a contract only:", "")
    rows = (
        (
            _code(f.name),
            ", ".join(f.of) or "the whole cache",
            ", ".join(f.values),
            f.says + (" (ghost)" if f.ghost else ""),
        )
        for f in FIELDS.values()
    )
    yield from _table(("field", "of", "values", "says"), rows)
    yield from ("Links from one thing to another:", "")
    yield from _table(
        ("link", "from", "to", "says"),
        (
            (_code(link.name), link.of, link.to, link.says + (" (ghost)" if link.ghost else ""))
            for link in LINKS.values()
        ),
    )
    yield from ("Words that are derived from many values, and choices of the environment:", "")
    yield from _table(
        ("word", "values", "says"),
        (
            (_code(w.name), ", ".join(w.values), w.says)
            for w in (*DERIVED.values(), *ENVIRONMENT.values())
        ),
    )


PAGES: dict[str, Callable[[], str]] = {
    "specification.md": specification,
    "promises.md": lambda: promises.page(NOTICE),
    "protocols.md": lambda: protocol_page.page(NOTICE),
}
"""Every generated page by its name under `docs/`."""


def why_stale(path: Path, text: str) -> str:
    """Why the page on disk is not the page that it should be; empty when it is."""
    try:
        there = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return f"{path} is missing; write it with: tierproof spec"
    except (OSError, UnicodeDecodeError) as error:
        return f"{path} cannot be read: {error}"
    if there == text:
        return ""
    return f"{path} is stale; renew it with: tierproof spec"
