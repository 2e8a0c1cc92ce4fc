"""What is true in every reachable state, for any number of keys, requests, tiers, slots, transfers.

Each invariant is named in English and tagged with the contract that it states or that needs it.
All of them together are inductive: true at the start, and kept by every rule from any state in
which they are true. Ghosts (`submits`, `successes`, `filled`) have invariants that tie them to
what they count; without those, a contract over a ghost stays green when the counting stops.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ..model.vocabulary import CASCADES, OWNING, WRITES, WRITTEN
from .logic import And, Implies, Not, Or, Term
from .quantifiers import Quantifiers
from .terms import Signature, State

PINS = ("READ", *CASCADES)
LOADS = ("QUEUED", "LOADING", "OVERDUE_LOADING")
AWAITED = ("QUEUED", "LOADING", "STORING", "RESIDENT")
"""The phases in which a promise can be alive."""


@dataclass(frozen=True)
class Known:
    """A state, the signature it is over, and how to read quantifiers in it."""

    s: State
    sig: Signature
    q: Quantifiers


@dataclass(frozen=True)
class Invariant:
    """`holds` for all elements of `sorts`, in every reachable state."""

    contract: str
    name: str
    sorts: tuple[str, ...]
    holds: Callable[..., Term]


INVARIANTS: list[Invariant] = []


def invariant(contract: str, name: str, *sorts: str) -> Callable[[Callable[..., Term]], None]:
    """Enter a function of a `Known` and of elements of `sorts` as an invariant."""

    def enter(holds: Callable[..., Term]) -> None:
        INVARIANTS.append(Invariant(contract, name, sorts, holds))

    return enter


def runs(s: State, x: Term, *kinds: str) -> Term:
    """The transfer is in flight (and of one of these kinds)."""
    return And(s.state(x, "RUNNING"), s.kind(x, *kinds)) if kinds else s.state(x, "RUNNING")


def fresh(s: State, x: Term, *kinds: str) -> Term:
    """It is in flight, and no reset has forgotten its block."""
    return And(runs(s, x, *kinds), Not(s.stale(x)))


# ------------------------------------------------------------------------------------------- slots


@invariant("S1-slot-exclusive", "the slot of a block is owned, by that block", "key")
def _(c: Known, k: Term) -> Term:
    s, slot = c.s, c.s.slot_of(k)
    return Implies(s.phase(k, *OWNING), And(s.slot_state(slot, "OWNED"), s.owner(slot) == k))


@invariant("S1-slot-exclusive", "an owned slot is the slot of a block", "slot")
def _(c: Known, f: Term) -> Term:
    s, k = c.s, c.s.owner(f)
    return Implies(s.slot_state(f, "OWNED"), And(s.phase(k, *OWNING), s.slot_of(k) == f))


@invariant("S2-no-reuse-under-transfer", "a free slot is touched by no transfer", "transfer")
def _(c: Known, x: Term) -> Term:
    return Implies(runs(c.s, x), Not(c.s.slot_state(c.s.at(x), "FREE")))


@invariant(
    "S2-no-reuse-under-transfer",
    "a transfer from before a reset is on a quarantined slot",
    "transfer",
)
def _(c: Known, x: Term) -> Term:
    s = c.s
    return Implies(And(runs(s, x), s.stale(x)), s.slot_state(s.at(x), "QUARANTINED"))


@invariant(
    "S2-no-reuse-under-transfer", "a quarantined slot has a transfer that will report", "slot"
)
def _(c: Known, f: Term) -> Term:
    s = c.s
    touching = c.q.some("transfer", lambda x: And(runs(s, x), s.at(x) == f), "last toucher", f)
    return Implies(s.slot_state(f, "QUARANTINED"), touching)


# --------------------------------------------------------------------------------------- transfers


@invariant("S4-operations", "a fresh transfer is on the slot of its block", "transfer")
def _(c: Known, x: Term) -> Term:
    s, k = c.s, c.s.of(x)
    return Implies(fresh(s, x), And(s.phase(k, *OWNING), s.slot_of(k) == s.at(x)))


@invariant("S4-operations", "a fresh transfer does what the phase of its block says", "transfer")
def _(c: Known, x: Term) -> Term:
    s, k = c.s, c.s.of(x)
    return Implies(
        fresh(s, x),
        Or(
            And(s.kind(x, "LOAD"), s.phase(k, "LOADING", "OVERDUE_LOADING")),
            And(s.kind(x, "STORE"), s.phase(k, "STORING", "OVERDUE_STORING")),
            And(s.kind(x, *PINS), s.phase(k, "RESIDENT")),
        ),
    )


@invariant("L1-answer-true", "a block that is being written has its writer", "key")
def _(c: Known, k: Term) -> Term:
    s, x = c.s, c.s.writer(k)
    return Implies(s.phase(k, *WRITTEN), And(fresh(s, x, *WRITES), s.of(x) == k))


@invariant("L1-answer-true", "a fresh writer is the writer of its block", "transfer")
def _(c: Known, x: Term) -> Term:
    return Implies(fresh(c.s, x, *WRITES), c.s.writer(c.s.of(x)) == x)


@invariant("S2-no-reuse-under-transfer", "no slot has two writers", "transfer", "transfer")
def _(c: Known, x: Term, y: Term) -> Term:
    s = c.s
    return Implies(And(runs(s, x, *WRITES), runs(s, y, *WRITES), s.at(x) == s.at(y)), x == y)


@invariant(
    "S2-no-reuse-under-transfer", "no slot is written and read at once", "transfer", "transfer"
)
def _(c: Known, x: Term, y: Term) -> Term:
    s = c.s
    return Implies(And(runs(s, x, *WRITES), runs(s, y, *PINS)), s.at(x) != s.at(y))


@invariant("F2-claim-retracted", "a load reads from the source of its promotion", "transfer")
def _(c: Known, x: Term) -> Term:
    return Implies(fresh(c.s, x, "LOAD"), c.s.to(x) == c.s.source(c.s.of(x)))


# ------------------------------------------------------------------------------ permits and berths


@invariant("P2-room-for-stores", "a promotion holds a permit", "key")
def _(c: Known, k: Term) -> Term:
    return Implies(c.s.phase(k, *LOADS), c.s.permit(c.s.slot_of(k)))


@invariant("L3-until-read", "a landed block that is waited for holds a permit", "key", "request")
def _(c: Known, k: Term, r: Term) -> Term:
    s = c.s
    return Implies(And(s.phase(k, "RESIDENT"), s.waits(k, r)), s.permit(s.slot_of(k)))


@invariant("P2-room-for-stores", "a landed block holds a permit only while it is waited for", "key")
def _(c: Known, k: Term) -> Term:
    s = c.s
    held = And(s.phase(k, "RESIDENT"), s.permit(s.slot_of(k)))
    return Implies(held, c.q.some("request", lambda r: s.waits(k, r), "reader to come", k))


@invariant("P2-room-for-stores", "a free slot holds neither permit nor berth", "slot")
def _(c: Known, f: Term) -> Term:
    s = c.s
    return Implies(s.slot_state(f, "FREE"), And(Not(s.permit(f)), Not(s.berth(f))))


@invariant(
    "P2-room-for-stores", "a load in flight holds a permit, from before a reset too", "transfer"
)
def _(c: Known, x: Term) -> Term:
    return Implies(runs(c.s, x, "LOAD"), c.s.permit(c.s.at(x)))


@invariant(
    "P2-room-for-stores", "a quarantined slot holds a permit only while it has a writer", "slot"
)
def _(c: Known, f: Term) -> Term:
    s = c.s
    writing = c.q.some(
        "transfer", lambda x: And(runs(s, x, *WRITES), s.at(x) == f), "late writer", f
    )
    return Implies(And(s.slot_state(f, "QUARANTINED"), s.permit(f)), writing)


@invariant(
    "P2-room-for-stores", "a cascade in flight holds a berth, from before a reset too", "transfer"
)
def _(c: Known, x: Term) -> Term:
    return Implies(runs(c.s, x, *CASCADES), c.s.berth(c.s.at(x)))


@invariant("P2-room-for-stores", "a slot holds a berth only while a cascade runs on it", "slot")
def _(c: Known, f: Term) -> Term:
    s = c.s
    cascading = c.q.some(
        "transfer", lambda x: And(runs(s, x, *CASCADES), s.at(x) == f), "berthed", f
    )
    return Implies(s.berth(f), cascading)


@invariant("P2-room-for-stores", "no two slots share a permit", "slot")
def _(c: Known, f: Term) -> Term:
    return Implies(c.s.permit(f), c.s.permit_holder(c.s.permit_of(f)) == f)


@invariant("P2-room-for-stores", "no two slots share a berth", "slot")
def _(c: Known, f: Term) -> Term:
    return Implies(c.s.berth(f), c.s.berth_holder(c.s.berth_of(f)) == f)


# ---------------------------------------------------------------------------------------- promises


@invariant(
    "L3-until-read", "a promise is about a block that is there or on its way", "key", "request"
)
def _(c: Known, k: Term, r: Term) -> Term:
    return Implies(c.s.waits(k, r), c.s.phase(k, *AWAITED))


@invariant("Q1-finish", "only the living wait", "key", "request")
def _(c: Known, k: Term, r: Term) -> Term:
    return Implies(c.s.waits(k, r), c.s.life(r, "LIVE"))


@invariant("L6-hit-holds", "a block answered HIT is resident", "key", "request")
def _(c: Known, k: Term, r: Term) -> Term:
    return Implies(c.s.hit(k, r), c.s.phase(k, "RESIDENT"))


@invariant("Q1-finish", "only the living hold a short promise", "key", "request")
def _(c: Known, k: Term, r: Term) -> Term:
    return Implies(c.s.hit(k, r), c.s.life(r, "LIVE"))


@invariant("L4-submitted-once", "a queued promotion belongs to a request that waits on it", "key")
def _(c: Known, k: Term) -> Term:
    return Implies(c.s.phase(k, "QUEUED"), c.s.waits(k, c.s.asked_by(k)))


@invariant("L4-submitted-once", "whose filter allows the tier", "key")
def _(c: Known, k: Term) -> Term:
    s = c.s
    return Implies(s.phase(k, "QUEUED"), c.sig.allowed(s.asked_by(k), s.source(k)))


@invariant("L4-submitted-once", "no promotion is submitted twice", "key")
def _(c: Known, k: Term) -> Term:
    return c.s.submits(k, "0", "1")


@invariant("L4-submitted-once", "a queued promotion is not submitted yet", "key")
def _(c: Known, k: Term) -> Term:
    return Implies(c.s.phase(k, "QUEUED"), c.s.submits(k, "0"))


@invariant("L4-submitted-once", "submissions are counted", "key")
def _(c: Known, k: Term) -> Term:
    return Implies(c.s.phase(k, "LOADING", "OVERDUE_LOADING"), c.s.submits(k, "1"))


# ----------------------------------------------------------------------------------------- content


@invariant("D1-bytes", "a resident block's slot holds its bytes", "key")
def _(c: Known, k: Term) -> Term:
    s, f = c.s, c.s.slot_of(k)
    return Implies(s.phase(k, "RESIDENT"), And(s.filled(f), s.content(f) == k))


@invariant("D1-bytes", "whoever reads a slot reads the bytes of its key", "transfer")
def _(c: Known, x: Term) -> Term:
    s, f = c.s, c.s.at(x)
    return Implies(runs(s, x, *PINS), And(s.filled(f), s.content(f) == s.of(x)))


@invariant("D1-bytes", "a slot that is being written is not whole", "transfer")
def _(c: Known, x: Term) -> Term:
    return Implies(runs(c.s, x, *WRITES), Not(c.s.filled(c.s.at(x))))


# ---------------------------------------------------------------------------------------- cascades


@invariant(
    "C1-cascade-once",
    "at most one cascade of a block to a tier is in flight",
    "transfer",
    "transfer",
)
def _(c: Known, x: Term, y: Term) -> Term:
    s = c.s
    both = And(runs(s, x, "CASCADE"), runs(s, y, "CASCADE"))
    return Implies(And(both, s.of(x) == s.of(y), s.to(x) == s.to(y)), x == y)


@invariant("C1-cascade-once", "only a resident block is cascaded", "key", "tier")
def _(c: Known, k: Term, t: Term) -> Term:
    s = c.s
    idle = And(s.cascade(k, t, "NONE"), s.successes(k, t, "0"))
    return Or(s.phase(k, "RESIDENT"), idle)


@invariant("C1-cascade-once", "a cascade succeeds at most once for each store", "key", "tier")
def _(c: Known, k: Term, t: Term) -> Term:
    return c.s.successes(k, t, "0", "1")


@invariant("C1-cascade-once", "successes are counted", "key", "tier")
def _(c: Known, k: Term, t: Term) -> Term:
    return Or(c.s.cascade(k, t, "DONE"), c.s.successes(k, t, "0"))


@invariant("C2-cascade-reoffered", "a cascade said to run is in flight", "key", "tier")
def _(c: Known, k: Term, t: Term) -> Term:
    s = c.s
    copying = c.q.some(
        "transfer",
        lambda x: And(fresh(s, x, "CASCADE"), s.of(x) == k, s.to(x) == t),
        "copy",
        k,
        t,
    )
    return Implies(s.cascade(k, t, "RUNNING"), copying)


@invariant(
    "Q1-finish",
    "an offer is parked only while its block is stored, and its request lives",
    "key",
    "request",
)
def _(c: Known, k: Term, r: Term) -> Term:
    s = c.s
    return Implies(s.parked(k, r), And(s.phase(k, "STORING"), s.life(r, "LIVE", "ENDING")))


@invariant(
    "Q1-finish", "no store that is due can follow the end that the tiers were told", "transfer"
)
def _(c: Known, x: Term) -> Term:
    s = c.s
    due = And(fresh(s, x, "STORE"), s.phase(s.of(x), "STORING"))
    return Implies(due, s.life(s.by(x), "LIVE", "ENDING"))
