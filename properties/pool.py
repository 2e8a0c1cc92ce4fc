"""The terms at which the daily run takes the invariants, and the names of what a goal is about."""

from __future__ import annotations

from .quantifiers import skolem
from .symbolic import ROLE_SORTS
from .terms import ALL_SORTS, Signature, Term

WITNESSES = {
    "waiter": "request",
    "other": "request",
    "hitter": "request",
    "pin": "transfer",
    "companion": "transfer",
    "cascader": "transfer",
    "copier": "transfer",
    "duty": "transfer",
    "sayer": "tier",
}
"""What a guard's SOME calls the element that it found, where no role names it."""


def subject(signature: Signature, sort: str, number: int) -> Term:
    """The element that a goal is about: arbitrary, since nothing else is said about it."""
    return signature.constant(f"{sort.replace(' ', '_')}{number}'", sort)


def pool_of(sig: Signature) -> dict[str, list[Term]]:
    """Terms by sort: roles, witnesses, subjects, and what is linked to them."""
    s = sig.now
    pool: dict[str, list[Term]] = {sort: [] for sort in ALL_SORTS}
    for names in (ROLE_SORTS, WITNESSES):
        for name, sort in names.items():
            pool[sort].append(sig.constant(name, sort))
    for sort in ALL_SORTS:
        pool[sort] += [subject(sig, sort, 1), subject(sig, sort, 2)]
    role = {name: sig.constant(name, sort) for name, sort in ROLE_SORTS.items()}
    transfers = [role["transfer"], subject(sig, "transfer", 1), subject(sig, "transfer", 2)]
    slots = [role["slot"], subject(sig, "slot", 1)]
    keys = [role["key"], subject(sig, "key", 1), subject(sig, "key", 2)]
    moved, owners = [s.of(x) for x in transfers], [s.owner(f) for f in slots]
    pool["key"] += [*moved, *owners]
    keys = keys + moved[:2]
    places = [s.slot_of(k) for k in keys] + [s.at(x) for x in transfers]
    pool["slot"] += places
    pool["slot"] += [s.permit_holder(role["permit"]), s.berth_holder(role["berth"])]
    pool["transfer"] += [s.writer(k) for k in keys]
    pool["request"] += [s.asked_by(k) for k in keys]
    pool["tier"] += [s.source(role["key"]), s.to(role["transfer"])]
    mine = s.slot_of(role["key"])
    for witness in ("last toucher", "late writer", "berthed"):
        pool["transfer"] += [
            skolem(sig, witness, "transfer", f)
            for f in (role["slot"], mine, s.at(role["transfer"]), subject(sig, "slot", 1))
        ]
    pool["request"] += [skolem(sig, "reader to come", "request", k) for k in pool["key"][:3]]
    pool["transfer"].append(skolem(sig, "copy", "transfer", pool["key"][0], pool["tier"][0]))
    pool["transfer"].append(
        skolem(sig, "copy", "transfer", subject(sig, "key", 1), subject(sig, "tier", 1))
    )
    return pool
