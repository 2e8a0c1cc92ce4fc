"""Where an event must be accepted, and that one rule at most says how.

`OFFERED` says for each event, apart from its `given`, when a caller may rely on a rule: a report
must never find the table without an answer, a lookup least of all. It is stated here once more,
so that a rule that is deleted or narrowed is noticed.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

from ..model.events import Event, Guard
from ..model.rules import Rule
from ..model.vocabulary import FIELDS, OWNING, PHASES, split
from .logic import FALSE, And, Implies, Not, Or, Term, constant
from .quantifiers import Quantified
from .symbolic import bind
from .terms import Signature, among, sort_of
from .words import atom

RESIDENT: Guard = {"phase": ("RESIDENT",)}
IDLE: Guard = {**RESIDENT, "pins": ("NONE",), "waiters": ("NONE",), "hits": ("NONE",)}
DUE: Guard = {**RESIDENT, "cascade[tier]": ("DUE",), "copying": ("NONE",)}
BERTH = ({"cascading": ("NONE",), "berths": ("YES",)}, {"cascading": ("SOME",)})
ALWAYS: tuple[Guard, ...] = ({},)

OFFERED: Mapping[str, tuple[str, tuple[Guard, ...]]] = {
    "lookup": ("L1-answer-true", ALWAYS),
    "plan": (
        "A1-promote-what-is-read",
        (
            {"phase": ("QUEUED", "LOADING")},
            {"phase": ("STORING", "RESIDENT"), "permit": ("YES",)},
            {"phase": ("STORING", "RESIDENT"), "permits": ("YES",)},
            {
                "phase": ("ABSENT",),
                "held": ("NO",),
                "tiers": ("CLAIMED",),
                "permits": ("YES",),
                "room": ("YES",),
            },
        ),
    ),
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


TOTAL, SINGLE = "is accepted wherever it is offered", "has one outcome at most"


def _cell(sig: Signature, cell: str, allowed: tuple[str, ...], roles: Mapping[str, Term]) -> Term:
    # A derived word has exactly one value whatever it means, so it may stay a name here.
    name, _ = split(cell)
    if name in FIELDS:
        return atom(sig, sig.now, cell, allowed, roles, Quantified(sig))
    return among(name, constant(f"word {cell}", sort_of(name)), allowed)


def _guard(sig: Signature, guard: Guard, roles: Mapping[str, Term]) -> Term:
    return And([_cell(sig, cell, allowed, roles) for cell, allowed in guard.items()])


def claim_names(rules: Sequence[Rule], event: Event) -> list[tuple[str, str]]:
    """Contract and name of what is claimed of an event.

    Raises:
        ValueError: nobody has said when an event must be accepted.
    """
    if event.name not in OFFERED:
        raise ValueError(f"say in OFFERED when {event.name} must be accepted")
    several = sum(rule.event == event.name for rule in rules) > 1
    return [(OFFERED[event.name][0], name) for name in ((TOTAL, SINGLE) if several else (TOTAL,))]


def claim(sig: Signature, rules: Sequence[Rule], event: Event, name: str) -> Term:
    """Totality of an event where it is offered, or determinism of its rules."""
    roles = bind(sig, event, Rule("", event.name, {}))
    mine = [_guard(sig, rule.when, roles) for rule in rules if rule.event == event.name]
    given = _guard(sig, event.given, roles)
    if name == SINGLE:
        twice = Or([And(a, b) for a, b in itertools.combinations(mine, 2)])
        return Implies(given, Not(twice))
    offered = Or([_guard(sig, guard, roles) for guard in OFFERED[event.name][1]])
    return Implies(And(given, offered), Or(mine) if mine else FALSE)
