"""Who has a slot, and what a report may touch: S2, S3, S4, F1, F2, P2, rule by rule."""

from __future__ import annotations

from .invariants import PINS, fresh, runs
from .logic import FALSE, TRUE, And, Implies, Not, Or, Term
from .steps import Step, change, obligation, on, starting
from .terms import BERTHS, PERMITS
from .words import unused_token

S2, S3, S4 = "S2-no-reuse-under-transfer", "S3-pins", "S4-operations"
F1, F2, P2 = "F1-partial-failure", "F2-claim-retracted", "P2-room-for-stores"

WRITERS_REPORT = ("load_landed", "load_failed", "store_landed", "store_failed")
REPORTS = (*WRITERS_REPORT, "unpin")


def _takes(word: str) -> bool:
    return word == "take"


# --------------------------------------------------------------------- S2: no reuse under transfer


@obligation(
    S2,
    "a slot that is given out was free, and is then owned",
    of=lambda r: r.then.get("slot") == "take",
)
def _(c: Step) -> Term:
    taken = And(c.n.slot_state(c.slot, "OWNED"), c.n.owner(c.slot) == c.key)
    return And(c.s.slot_state(c.slot, "FREE"), taken, c.n.slot_of(c.key) == c.slot)


@obligation(
    S2,
    "no transfer can touch a slot that is given out",
    "transfer",
    of=lambda r: r.then.get("slot") == "take",
)
def _(c: Step, y: Term) -> Term:
    return Implies(runs(c.s, y), c.s.at(y) != c.slot)


@obligation(S2, "a slot under a transfer becomes neither free nor another's", "transfer")
def _(c: Step, y: Term) -> Term:
    s, n, f = c.s, c.n, c.s.at(y)
    still = And(runs(s, y), runs(n, y))
    same = Or(n.slot_state(f, "QUARANTINED"), n.owner(f) == s.owner(f))
    return Implies(still, And(Not(n.slot_state(f, "FREE")), same, n.at(y) == f))


# ---------------------------------------------------------------------------------------- S3: pins


@obligation(S3, "no pinned block is evicted", "transfer", of=on("evict"))
def _(c: Step, y: Term) -> Term:
    return Not(And(fresh(c.s, y), c.s.of(y) == c.key))


@obligation(S3, "no promised block is evicted", "request", of=on("evict"))
def _(c: Step, r: Term) -> Term:
    return Not(c.s.waits(c.key, r))


@obligation(S3, "only a resident block is evicted, and its slot is free then", of=on("evict"))
def _(c: Step) -> Term:
    gone = And(c.n.phase(c.key, "ABSENT"), c.n.slot_state(c.slot, "FREE"))
    return And(c.s.phase(c.key, "RESIDENT"), gone)


@obligation(S3, "only its own report ends a transfer", "transfer")
def _(c: Step, y: Term) -> Term:
    s, n = c.s, c.n
    others = TRUE if c.rule.event not in REPORTS else y != c.x
    same = [n.raw(name)(y) == s.raw(name)(y) for name in ("kind", "of", "at", "by", "to")]
    return Implies(And(runs(s, y), others), And(runs(n, y), *same))


@obligation(S3, "who reads or copies a block pins it, on its slot", of=starting(*PINS))
def _(c: Step) -> Term:
    n, x = c.n, c.x
    pinned = And(fresh(n, x, *PINS), n.of(x) == c.key, n.at(x) == c.s.slot_of(c.key))
    return And(c.s.phase(c.key, "RESIDENT"), pinned)


@obligation(S3, "a resident block can be read, whoever else reads it", of=on("read"))
def _(c: Step) -> Term:
    return And(runs(c.n, c.x, "READ"), c.n.phase(c.key, "RESIDENT"))


# ---------------------------------------------------------------------------------- S4: operations


@obligation(S4, "a report of a transfer that does not run matches nothing", of=on(*REPORTS))
def _(c: Step) -> Term:
    return runs(c.s, c.x)


@obligation(S4, "a report is about a transfer of its kind", of=on(*REPORTS))
def _(c: Step) -> Term:
    kinds = {"load": ("LOAD",), "store": ("STORE",), "unpin": PINS}
    return c.s.kind(c.x, *kinds[c.rule.event.partition("_")[0]])


BEGINNINGS = {
    "submit": "LOAD",
    "accept": "STORE",
    "read": "READ",
    "copy": "CASCADE",
    "export": "EXPORT",
}


@obligation(S4, "what an event begins is a transfer that runs", of=on(*BEGINNINGS))
def _(c: Step) -> Term:
    return runs(c.n, c.x, BEGINNINGS[c.rule.event])


@obligation(S4, "a reported transfer has ended", of=on(*REPORTS))
def _(c: Step) -> Term:
    return c.n.state(c.x, "ENDED")


@obligation(S4, "an id is used once", "transfer")
def _(c: Step, y: Term) -> Term:
    s, n = c.s, c.n
    ended = Implies(s.state(y, "ENDED"), n.state(y, "ENDED"))
    return And(ended, Implies(runs(s, y), n.state(y, "RUNNING", "ENDED")))


@obligation(
    S4,
    "a transfer that is started runs, on the slot of its block, and is fresh",
    of=lambda r: str(r.then.get("transfer", "")).startswith("start"),
)
def _(c: Step) -> Term:
    n, x = c.n, c.x
    placed = And(n.of(x) == c.key, n.at(x) == n.slot_of(c.key))
    return And(c.s.state(x, "UNUSED"), fresh(n, x), placed)


@obligation(
    S4, "a writer's report changes no block but the one it writes", "key", of=on(*WRITERS_REPORT)
)
def _(c: Step, k: Term) -> Term:
    mine = And(c.s.writer(k) == c.x, Not(c.s.stale(c.x)))
    return Implies(change(c.s, c.n, "phase", k), mine)


@obligation(S4, "the end of a read or copy changes no block's phase", "key", of=on("unpin"))
def _(c: Step, k: Term) -> Term:
    return Not(change(c.s, c.n, "phase", k))


@obligation(S4, "what a reset has forgotten stays forgotten", "transfer")
def _(c: Step, y: Term) -> Term:
    return Implies(And(runs(c.s, y), c.s.stale(y)), c.n.stale(y))


# ----------------------------------------------------------------------------- F1: partial failure


def _says(landed: bool) -> tuple[str, str]:
    return ("load_landed", "store_landed") if landed else ("load_failed", "store_failed")


@obligation(F1, "what landed is resident, with its own bytes", of=on(*_says(True)))
def _(c: Step) -> Term:
    n, k = c.n, c.key
    there = And(n.phase(k, "RESIDENT"), n.filled(c.slot), n.content(c.slot) == k)
    return Or(c.s.stale(c.x), And(there, n.slot_of(k) == c.slot))


@obligation(F1, "what failed is absent", of=on(*_says(False)))
def _(c: Step) -> Term:
    return Or(c.s.stale(c.x), c.n.phase(c.key, "ABSENT"))


@obligation(
    F1,
    "no slot is lost: a failed or late writer gives its slot and permit back",
    of=on(*WRITERS_REPORT),
)
def _(c: Step) -> Term:
    free = And(c.n.slot_state(c.slot, "FREE"), Not(c.n.permit(c.slot)))
    failed = c.rule.event in _says(False)
    return free if failed else Implies(c.s.stale(c.x), free)


@obligation(F1, "a failed key touches no other key", "key", of=on(*_says(False)))
def _(c: Step, k: Term) -> Term:
    touched = Or(change(c.s, c.n, "phase", k), change(c.s, c.n, "slot_of", k))
    return Implies(touched, k == c.key)


# ------------------------------------------------------------------------ F2: claims are retracted


@obligation(
    F2,
    "a promotion starts from a tier whose claim is not retracted, and remembers it",
    of=lambda r: r.event == "lookup" and r.then.get("phase") == "QUEUED",
)
def _(c: Step) -> Term:
    allowed = And(c.sig.allowed(c.asker, c.tier), Not(c.s.retracted(c.key, c.tier)))
    return And(allowed, c.n.source(c.key) == c.tier)


@obligation(F2, "a failed load retracts the claim, from before a reset too", of=on("load_failed"))
def _(c: Step) -> Term:
    return c.n.retracted(c.s.of(c.x), c.s.to(c.x))


@obligation(F2, "only new evidence restores a claim", "key", "tier")
def _(c: Step, k: Term, t: Term) -> Term:
    restored = And(c.s.retracted(k, t), Not(c.n.retracted(k, t)))
    if c.rule.event == "verified":
        return Implies(restored, And(k == c.key, t == c.tier))
    return Not(restored)


@obligation(F2, "new evidence does restore it", of=on("verified"))
def _(c: Step) -> Term:
    return Not(c.n.retracted(c.key, c.tier))


@obligation(F2, "only a failed load or a cleared tier retracts a claim", "key", "tier")
def _(c: Step, k: Term, t: Term) -> Term:
    lost = And(Not(c.s.retracted(k, t)), c.n.retracted(k, t))
    if c.rule.event in ("load_failed", "unfounded"):
        return Implies(lost, And(k == c.key, t == c.tier))
    return Not(lost)


@obligation(F2, "a tier that was cleared claims nothing any more", of=on("unfounded"))
def _(c: Step) -> Term:
    return c.n.retracted(c.key, c.tier)


# -------------------------------------------------------------------------------------- P2: shares


@obligation(P2, "a permit that is taken was free", of=lambda r: r.then.get("permit") == "take")
def _(c: Step) -> Term:
    held = And(c.n.permit(c.slot), c.n.permit_of(c.slot) == c.roles["permit"])
    return And(unused_token(c.s, "permit", c.roles["permit"]), held)


@obligation(P2, "a berth that is taken was free", of=lambda r: r.then.get("berth") == "take")
def _(c: Step) -> Term:
    held = And(c.n.berth(c.slot), c.n.berth_of(c.slot) == c.roles["berth"])
    return And(unused_token(c.s, "berth", c.roles["berth"]), held)


@obligation(P2, "permits change hands only where a rule says so", PERMITS)
def _(c: Step, p: Term) -> Term:
    taken = And(unused_token(c.s, "permit", p), Not(unused_token(c.n, "permit", p)))
    mine = p == c.roles["permit"] if _takes(str(c.rule.then.get("permit"))) else FALSE
    return Implies(taken, mine)


@obligation(P2, "berths change hands only where a rule says so", BERTHS)
def _(c: Step, b: Term) -> Term:
    taken = And(unused_token(c.s, "berth", b), Not(unused_token(c.n, "berth", b)))
    mine = b == c.roles["berth"] if _takes(str(c.rule.then.get("berth"))) else FALSE
    return Implies(taken, mine)
