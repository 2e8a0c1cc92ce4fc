"""Whether every word of the rule table is one of the vocabulary; told before anything reads it.

The table is data that people edit. A word that does not exist would surface as a `KeyError` deep in
one of the readings, or as a rule that never fires.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from difflib import get_close_matches

from ..model.events import EVENTS, Rule
from ..model.rules import RULES
from ..model.vocabulary import ANSWERS, FIELDS, LINKS, REASONS, VERBS, WORDS, split

ROLES = {role for event in EVENTS.values() for role in event.roles} | {"all", "heir"}
"""What may stand in brackets, or be what a link leads to."""


def misspelt(rules: Iterable[Rule] = RULES) -> list[str]:
    """What is wrong with the words of a table, a sentence each; empty when nothing is."""
    return [f"the rule {rule.name!r}: {wrong}" for rule in rules for wrong in _of(rule)]


def _of(rule: Rule) -> Iterator[str]:
    yield from _unknown("event", rule.event, EVENTS)
    if rule.answer is not None:
        yield from _unknown("answer", rule.answer, ANSWERS)
    if rule.reason is not None:
        yield from _unknown("reason", rule.reason, REASONS)
    for cell, allowed in rule.when.items():
        yield from _cell(cell, WORDS)
        if not allowed:
            yield f"the guard {cell!r} allows nothing"
        for value in allowed:
            yield from _unknown(f"value of {cell}", value, WORDS.get(split(cell)[0], (value,)))
    for cell, effect in rule.then.items():
        yield from _cell(cell, {**FIELDS, **LINKS, **VERBS})
        values = (*effect, *effect.values()) if isinstance(effect, Mapping) else (effect,)
        for value in values:
            yield from _unknown(f"effect on {cell}", value, _effects(split(cell)[0]) or (value,))


def _effects(name: str) -> tuple[str, ...]:
    values = FIELDS[name].values if name in FIELDS else ()
    roles = tuple(ROLES) if name in LINKS else ()
    return (*values, *VERBS.get(name, ()), *roles)


def _cell(cell: str, known: Iterable[str]) -> Iterator[str]:
    name, role = split(cell)
    yield from _unknown("word", name, known)
    if role is not None:
        yield from _unknown("role", role, ROLES)


def _unknown(what: str, said: str, known: Iterable[str]) -> Iterator[str]:
    names = list(known)
    if said not in names:
        close = get_close_matches(said, names, n=1)
        hint = f"did you mean {close[0]!r}?" if close else f"it may be {', '.join(sorted(names))}"
        yield f"there is no {what} {said!r}; {hint}"
