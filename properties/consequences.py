"""Theorems about every reachable state that follow from the invariants, whatever the rules are."""

from __future__ import annotations

import z3

from ..model.vocabulary import CASCADES, OWNING
from .invariants import Invariant, Known, fresh, runs
from .logic import And, Implies, Not, Or, Term


def _two_keys(c: Known, k: Term, j: Term) -> Term:
    s = c.s
    both = And(s.phase(k, *OWNING), s.phase(j, *OWNING), s.slot_of(k) == s.slot_of(j))
    return Implies(both, k == j)


def _partition(c: Known, f: Term, k: Term) -> Term:
    # "exactly one of three" is the type of slot_state; owned is what some block owns
    s = c.s
    owned = And(s.phase(s.owner(f), *OWNING), s.slot_of(s.owner(f)) == f)
    claimed = And(s.phase(k, *OWNING), s.slot_of(k) == f)
    return And(
        Implies(s.slot_state(f, "OWNED"), owned),
        Implies(claimed, s.slot_state(f, "OWNED")),
    )


def _pins(c: Known, x: Term) -> Term:
    s = c.s
    pinned = And(s.phase(s.of(x), "RESIDENT"), s.slot_of(s.of(x)) == s.at(x))
    return Implies(fresh(s, x, "READ", *CASCADES), pinned)


def _permits(c: Known, f: Term, g: Term) -> Term:
    s = c.s
    same = And(s.permit(f), s.permit(g), s.permit_of(f) == s.permit_of(g))
    return Implies(same, f == g)


def _berths(c: Known, f: Term, g: Term) -> Term:
    s = c.s
    same = And(s.berth(f), s.berth(g), s.berth_of(f) == s.berth_of(g))
    return Implies(same, f == g)


def _withheld(c: Known, f: Term, r: Term) -> Term:
    s, k = c.s, c.s.owner(f)
    busy = c.q.some("transfer", lambda x: And(runs(s, x, "STORE", "READ"), s.at(x) == f), "gpu", f)
    evictable = And(s.phase(k, "RESIDENT"), s.slot_of(k) == f, Not(s.waits(k, r)))
    return Or(s.slot_state(f, "FREE"), s.permit(f), s.berth(f), busy, evictable)


def _gone(c: Known, r: Term, k: Term) -> Term:
    s = c.s
    left = Or(s.waits(k, r), s.hit(k, r), s.parked(k, r))
    queued = And(s.phase(k, "QUEUED"), s.asked_by(k) == r)
    return Implies(s.life(r, "ENDED"), Not(Or(left, queued)))


def _shares(c: Known) -> Term:
    # The defaults: half of the slots for promotions, but never the last of several; a quarter for
    # cascades; each at least one. What remains is for stores, even if every tier hangs both ways.
    slots = z3.Int("slots")
    half, quarter = slots / 2, slots / 4
    share = z3.If(half > 1, half, z3.IntVal(1))
    permits = z3.If(share < slots - 1, share, slots - 1)
    berths = z3.If(quarter > 1, quarter, z3.IntVal(1))
    return z3.Implies(slots >= 3, permits + berths <= slots - 1)


def _room(c: Known) -> Term:
    slots, permits = z3.Ints("slots permits")
    capped = z3.If(permits < slots - 1, permits, slots - 1)
    return z3.Implies(z3.And(slots >= 2, permits >= 1), z3.And(capped >= 1, capped <= slots - 1))


# What W1 says is pending can go on, so that "true" does not last for ever.


def _promise_goes_on(c: Known, k: Term, r: Term) -> Term:
    s = c.s
    where = s.phase(k, "QUEUED", "LOADING", "STORING", "RESIDENT")
    return Implies(s.waits(k, r), And(s.life(r, "LIVE"), where))


def _queued_goes_on(c: Known, k: Term) -> Term:
    s = c.s
    return Implies(
        s.phase(k, "QUEUED"), And(s.waits(k, s.asked_by(k)), s.life(s.asked_by(k), "LIVE"))
    )


def _due_goes_on(c: Known, k: Term, t: Term) -> Term:
    return Implies(c.s.cascade(k, t, "DUE"), c.s.phase(k, "RESIDENT"))


def _parked_goes_on(c: Known, k: Term, r: Term) -> Term:
    s = c.s
    writes = And(s.phase(k, "STORING"), fresh(s, s.writer(k), "STORE"), s.of(s.writer(k)) == k)
    return Implies(s.parked(k, r), writes)


S1, P2, W1 = "S1-slot-exclusive", "P2-room-for-stores", "W1-pending-work"
CONSEQUENCES = (
    Invariant(S1, "no slot belongs to two keys", ("key", "key"), _two_keys),
    Invariant(
        S1, "every slot is free, owned by a block, or quarantined", ("slot", "key"), _partition
    ),
    Invariant("S3-pins", "what reads or copies a block pins it where it is", ("transfer",), _pins),
    Invariant(P2, "slots that hold permits are no more than permits", ("slot", "slot"), _permits),
    Invariant(P2, "slots that hold berths are no more than berths", ("slot", "slot"), _berths),
    Invariant(
        P2,
        "only permits, berths and the GPU's own transfers keep a slot from stores",
        ("slot", "request"),
        _withheld,
    ),
    Invariant(P2, "permits leave a slot of two or more to stores", (), _room),
    Invariant(
        P2, "with the defaults and three slots or more, so do permits and berths", (), _shares
    ),
    Invariant(
        "Q1-finish",
        "nothing is left of a request whose end was told",
        ("request", "key"),
        _gone,
    ),
    Invariant(
        W1,
        "a promise that is pending is a live request's, of a block on its way or there",
        ("key", "request"),
        _promise_goes_on,
    ),
    Invariant(W1, "a queued promotion is waited on by whose it is", ("key",), _queued_goes_on),
    Invariant(W1, "a due cascade is of a resident block", ("key", "tier"), _due_goes_on),
    Invariant(
        W1, "a parked offer waits for a write that runs", ("key", "request"), _parked_goes_on
    ),
)
