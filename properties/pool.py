"""The terms at which the daily run takes the invariants, and the names of what a goal is about."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence

from .logic import Term
from .quantifiers import skolem
from .symbolic import ROLE_SORTS, Transition
from .terms import ALL_SORTS, BERTHS, PERMITS, Signature


def subject(signature: Signature, sort: str, number: int) -> Term:
    """The element that a goal is about: arbitrary, since nothing else is said about it."""
    return signature.constant(f"{sort.replace(' ', '_')}{number}'", sort)


NEAR = {"transfer": 4, "key": 4, "slot": 4}
"""How many terms of a pool are near: two far ones of one sort are not taken together."""


def tuples(pool: Mapping[str, Sequence[Term]], sorts: Sequence[str]) -> Iterator[tuple[Term, ...]]:
    """The tuples of terms at which an invariant over these sorts is taken."""
    for at in itertools.product(*(list(enumerate(pool[sort])) for sort in sorts)):
        far = [sort for sort, (i, _) in zip(sorts, at, strict=True) if i >= NEAR.get(sort, i + 1)]
        if len(far) == len(set(far)):
            yield tuple(term for _, term in at)


def pool_of(sig: Signature, step: Transition | None) -> dict[str, list[Term]]:
    """Terms by sort, the near ones first: roles, what a guard found, subjects; then what is linked.

    A term more costs time, a term too few makes a provable goal unknown; never a false proof."""
    pool: dict[str, dict[str, Term]] = {sort: {} for sort in ALL_SORTS}

    def enter(sort: str, *terms: Term) -> None:
        for term in terms:
            pool[sort].setdefault(str(term), term)

    def some(sort: str, most: int = 99) -> list[Term]:
        return list(pool[sort].values())[:most]

    s = sig.now
    for role, sort in ROLE_SORTS.items():
        if step is None:
            enter(sort, sig.constant(role, sort))
        elif role in step.mentions:
            enter(sort, step.roles[role])
    for name, sort in step.witnesses if step else ():
        enter(sort, sig.constant(name, sort))
    for sort in ALL_SORTS:
        # two of a sort are what an invariant compares, or a theorem about any state
        twice = sort == "transfer" or step is None
        enter(sort, *(subject(sig, sort, number) for number in ((1, 2) if twice else (1,))))
    enter("slot", *(s.permit_holder(p) for p in some(PERMITS)))
    enter("slot", *(s.berth_holder(b) for b in some(BERTHS)))
    enter("slot", *(s.slot_of(k) for k in some("key")), *(s.at(x) for x in some("transfer")))
    enter("key", *(s.owner(f) for f in some("slot", 3)), *(s.of(x) for x in some("transfer")))
    enter("transfer", *(s.writer(k) for k in some("key", 3 if step else 6)))
    enter("request", *(s.asked_by(k) for k in some("key", 3)))
    enter("request", *(skolem(sig, "reader to come", "request", k) for k in some("key", 3)))
    enter("tier", *(s.source(k) for k in some("key", 1)), *(s.to(x) for x in some("transfer", 1)))
    for f in some("slot", 3):
        for witness in ("last toucher", "late writer", "berthed"):
            enter("transfer", skolem(sig, witness, "transfer", f))
    enter("key", *(s.of(skolem(sig, "berthed", "transfer", f)) for f in some("slot", 3)))
    pairs = ((k, t) for k in some("key", 2) for t in some("tier", 2))
    enter("transfer", *(skolem(sig, "copy", "transfer", k, t) for k, t in pairs))
    return {sort: list(terms.values()) for sort, terms in pool.items()}
