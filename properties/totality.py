"""Where an event must be accepted, and that one rule at most says how.

`OFFERED` says for each event, apart from its `given`, when a caller may rely on a rule: a report
must never find the table without an answer, a lookup least of all. It is stated here once more,
so that a rule that is deleted or narrowed is noticed."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import z3

from ..model.events import Event, Guard
from ..model.rules import Rule
from ..model.vocabulary import FIELDS, OWNING, PHASES, split
from .quantifiers import Quantified
from .symbolic import atom, bind
from .terms import Signature, Term, among, sort_of

RESIDENT: Guard = {"phase": ("RESIDENT",)}
IDLE: Guard = {**RESIDENT, "pins": ("NONE",), "waiters": ("NONE",), "hits": ("NONE",)}
DUE: Guard = {**RESIDENT, "cascade[tier]": ("DUE",), "copying": ("NONE",)}
BERTH = ({"cascading": ("NONE",), "berths": ("YES",)}, {"cascading": ("SOME",)})
ALWAYS: tuple[Guard, ...] = ({},)

OFFERED: Mapping[str, tuple[str, tuple[Guard, ...]]] = {
    "lookup": ("L1-answer-true", ALWAYS),
    "submit": ("L4-submitted-once", ({"phase": ("QUEUED",)},)),
    "step_end": ("P1-progress", ({"phase": tuple(p for p in PHASES if p != "QUEUED")},)),
    "let_go": ("L3-until-read", ALWAYS),
    "overdue": ("P1-progress", ({"phase": ("LOADING", "STORING")},)),
    "load_landed": ("F1-partial-failure", ALWAYS),
    "load_failed": ("F1-partial-failure", ALWAYS),
    "verified": ("F2-claim-retracted", ALWAYS),
    "unfounded": ("F2-claim-retracted", ALWAYS),
    "store_begin": ("P2-room-for-stores", ALWAYS),
    "accept": ("P2-room-for-stores", ({"room": ("YES",)},)),
    "store_landed": ("S4-operations", ALWAYS),
    "store_failed": ("S4-operations", ALWAYS),
    "read": ("L6-hit-holds", (RESIDENT,)),
    "unpin": (
        "S4-operations",
        (
            {"kind": ("READ", "EXPORT")},
            {"stale": ("YES",)},
            {"cascade[tier]": ("NONE", "DUE", "DONE")},
        ),
    ),
    "evict": ("P2-room-for-stores", (IDLE,)),
    "park": ("C1-cascade-once", ({"phase": ("STORING",)},)),
    "offer": ("C1-cascade-once", ({**RESIDENT, "cascade[tier]": ("NONE",)},)),
    "copy": ("C1-cascade-once", tuple({**DUE, **berth} for berth in BERTH)),
    "export": ("P2-room-for-stores", tuple({**RESIDENT, **berth} for berth in BERTH)),
    "copied": (
        "C2-cascade-reoffered",
        (
            {"cascade[tier]": ("RUNNING",), "outcome": ("LANDED", "FAILED")},
            {"cascade[tier]": ("DUE",), "outcome": ("REFUSED",)},
        ),
    ),
    "forget": ("R1-reset", ({"phase": OWNING},)),
    "reset_end": ("R1-reset", ({"phase": ("ABSENT",)},)),
    "flushed": ("R1-reset", ALWAYS),
    "finish": ("Q1-finish", ({"waits[asker]": ("NO",)},)),
    "tell": ("Q1-finish", ({"parked[asker]": ("NO",)},)),
}
"""Event -> the contract that needs it, and when it must be accepted (any of the guards)."""


@dataclass(frozen=True)
class Claim:
    """Something about all rules of an event; `given` holds where it is claimed."""

    contract: str
    name: str
    event: str
    given: Term
    goal: Term


def _cell(
    sig: Signature, event: Event, cell: str, allowed: tuple[str, ...], roles: Mapping[str, Term]
) -> Term:
    # A derived word has exactly one value whatever it means, so it may stay a name here.
    name, _ = split(cell)
    if name in FIELDS:
        return atom(sig, sig.now, event, cell, allowed, roles, Quantified(sig))
    return among(name, z3.Const(f"word {cell}", sort_of(name)), allowed)


def _guard(sig: Signature, event: Event, guard: Guard, roles: Mapping[str, Term]) -> Term:
    return z3.And([_cell(sig, event, cell, allowed, roles) for cell, allowed in guard.items()])


def claims(sig: Signature, rules: Sequence[Rule], events: Mapping[str, Event]) -> Iterator[Claim]:
    """Totality of each event where it is offered, and determinism of its rules.

    Raises:
        ValueError: nobody has said when an event must be accepted.
    """
    for event in events.values():
        if event.name not in OFFERED:
            raise ValueError(f"say in OFFERED when {event.name} must be accepted")
        contract, offered = OFFERED[event.name]
        roles = bind(sig, event, Rule("", event.name, {}))
        mine = {
            rule.name: _guard(sig, event, rule.when, roles)
            for rule in rules
            if rule.event == event.name
        }
        given = _guard(sig, event, event.given, roles)
        when = z3.And(given, z3.Or([_guard(sig, event, guard, roles) for guard in offered]))
        some = z3.Or(list(mine.values())) if mine else z3.BoolVal(False)
        yield Claim(contract, "is accepted wherever it is offered", event.name, when, some)
        pairs = itertools.combinations(mine.values(), 2)
        twice = [z3.And(a, b) for a, b in pairs]
        if twice:
            yield Claim(
                contract, "has one outcome at most", event.name, given, z3.Not(z3.Or(twice))
            )
