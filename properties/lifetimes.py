"""What outlives what: cascades, resets, the ends of requests, pending work: C1, C2, R1, Q1, W1."""

from __future__ import annotations

from .custody import REPORTS
from .invariants import fresh, runs
from .logic import FALSE, And, If, Implies, Not, Or, Term
from .steps import Step, but, change, obligation, on, starting

C1, C2, R1 = "C1-cascade-once", "C2-cascade-reoffered", "R1-reset"
Q1, W1 = "Q1-finish", "W1-pending-work"

GIVEN_UP = ("copying_given_up", "refused_for_good")
"""Rules that give a cascade up, once its re-offers are spent."""


# ----------------------------------------------------------------------------------- C1: once each


@obligation(C1, "what is copied was due and is resident", of=starting("CASCADE"))
def _(c: Step) -> Term:
    k, t = c.key, c.tier
    due = And(c.s.phase(k, "RESIDENT"), c.s.cascade(k, t, "DUE"))
    return And(due, c.n.cascade(k, t, "RUNNING"), c.n.to(c.x) == t)


@obligation(
    C1,
    "no other copy of it to the tier is in flight, from before a reset either",
    "transfer",
    of=starting("CASCADE"),
)
def _(c: Step, y: Term) -> Term:
    same = And(c.s.of(y) == c.key, c.s.to(y) == c.tier)
    return Not(And(runs(c.s, y, "CASCADE"), same))


@obligation(C1, "each tier gets a newly stored block", "tier", of=on("store_landed"))
def _(c: Step, t: Term) -> Term:
    return Or(c.s.stale(c.x), c.n.cascade(c.key, t, "DUE"))


@obligation(C1, "a failed store is copied nowhere", "tier", of=on("store_failed"))
def _(c: Step, t: Term) -> Term:
    return Or(c.s.stale(c.x), c.n.cascade(c.key, t, "NONE"))


@obligation(
    C1, "a promoted block is not copied back to where it came from", "tier", of=on("load_landed")
)
def _(c: Step, t: Term) -> Term:
    known = If(t == c.s.to(c.x), c.n.cascade(c.key, t, "DONE"), c.n.cascade(c.key, t, "NONE"))
    return Or(c.s.stale(c.x), known)


@obligation(C1, "a block that was copied is not copied again in its life", "key", "tier")
def _(c: Step, k: Term, t: Term) -> Term:
    here = And(c.s.phase(k, "RESIDENT"), c.n.phase(k, "RESIDENT"))
    return Implies(And(here, c.s.cascade(k, t, "DONE")), c.n.cascade(k, t, "DONE"))


@obligation(C1, "a success is counted, and nothing else is", "key", "tier")
def _(c: Step, k: Term, t: Term) -> Term:
    s, n = c.s, c.n
    alive = And(s.phase(k, "RESIDENT"), n.phase(k, "RESIDENT"))
    if c.rule.event != "copied":
        return Implies(alive, Not(change(s, n, "successes", k, t)))
    landed = And(k == c.key, t == c.tier, c.said("outcome", "LANDED"))
    counted = And(s.successes(k, t, "0"), n.successes(k, t, "1"), n.cascade(k, t, "DONE"))
    return If(landed, counted, Not(change(s, n, "successes", k, t)))


# ------------------------------------------------------------------------------- C2: offered again


@obligation(
    C2,
    "a cascade moves on in a named way while its block is resident",
    "key",
    "tier",
    of=but(*GIVEN_UP),
)
def _(c: Step, k: Term, t: Term) -> Term:
    s, n = c.s, c.n
    here = And(s.phase(k, "RESIDENT"), n.phase(k, "RESIDENT"))
    due = Implies(s.cascade(k, t, "DUE"), n.cascade(k, t, "DUE", "RUNNING"))
    running = Implies(s.cascade(k, t, "RUNNING"), Not(n.cascade(k, t, "NONE")))
    return Implies(here, And(due, running))


@obligation(C2, "a refused or failed cascade is due again while offers are left", of=on("copied"))
def _(c: Step) -> Term:
    again = And(c.said("outcome", "FAILED", "REFUSED"), c.said("tries", "LEFT"))
    return Implies(again, c.n.cascade(c.key, c.tier, "DUE"))


@obligation(C2, "and given up when they are spent", of=on("copied"))
def _(c: Step) -> Term:
    over = And(c.said("outcome", "FAILED", "REFUSED"), c.said("tries", "SPENT"))
    return Implies(over, c.n.cascade(c.key, c.tier, "NONE"))


@obligation(C2, "only what was offered is refused, only what runs lands or fails", of=on("copied"))
def _(c: Step) -> Term:
    refused = c.said("outcome", "REFUSED")
    s, k, t = c.s, c.key, c.tier
    return If(refused, s.cascade(k, t, "DUE"), s.cascade(k, t, "RUNNING"))


@obligation(
    C2, "a whole-request offer makes due what was neither copied nor on its way", of=on("offer")
)
def _(c: Step) -> Term:
    k, t = c.key, c.tier
    idle = And(c.s.phase(k, "RESIDENT"), c.s.cascade(k, t, "NONE"))
    return And(idle, c.n.cascade(k, t, "DUE"))


@obligation(C2, "an offer is parked while the block is stored", of=on("park"))
def _(c: Step) -> Term:
    return And(c.s.phase(c.key, "STORING"), c.n.parked(c.key, c.asker))


@obligation(
    C2,
    "a parked offer waits for the write to end",
    "key",
    "request",
    of=but(
        "stored_for_waiters",
        "stored_without_permit",
        "stored_unawaited",
        "store_failed",
        "store_overdue",
        "writer_quarantined",
    ),
)
def _(c: Step, k: Term, r: Term) -> Term:
    return Implies(c.s.parked(k, r), c.n.parked(k, r))


# --------------------------------------------------------------------------------------- R1: reset


@obligation(
    R1, "after a reset no key owns a slot, and promotions are held", "key", of=on("reset_end")
)
def _(c: Step, k: Term) -> Term:
    return And(c.n.phase(k, "ABSENT"), c.n.held())


@obligation(R1, "whatever still runs then can land nowhere", "transfer", of=on("reset_end"))
def _(c: Step, y: Term) -> Term:
    return Implies(runs(c.n, y), c.n.stale(y))


@obligation(
    R1,
    "a forgotten block has no promise, no parked offer and no cascade",
    "request",
    "tier",
    of=on("forget"),
)
def _(c: Step, r: Term, t: Term) -> Term:
    n, k = c.n, c.key
    promises = Or(n.waits(k, r), n.hit(k, r), n.parked(k, r))
    return And(n.phase(k, "ABSENT"), Not(promises), n.cascade(k, t, "NONE"))


@obligation(
    R1,
    "a forgotten block's slot is quarantined while a transfer may touch it",
    "transfer",
    of=on("forget"),
)
def _(c: Step, y: Term) -> Term:
    n = c.n
    kept = And(n.slot_state(c.slot, "QUARANTINED"), n.stale(y))
    return Implies(And(runs(c.s, y), c.s.at(y) == c.slot), kept)


@obligation(
    R1,
    "a forgotten block withholds nothing for promises unless it is being written",
    "transfer",
    of=on("forget"),
)
def _(c: Step, y: Term) -> Term:
    writing = fresh(c.s, c.s.writer(c.key), "LOAD", "STORE")
    writing = And(writing, c.s.at(c.s.writer(c.key)) == c.slot)
    return Implies(c.n.permit(c.slot), writing)


@obligation(R1, "a late report changes no block", "key", "request", "tier", of=on(*REPORTS))
def _(c: Step, k: Term, r: Term, t: Term) -> Term:
    s, n = c.s, c.n
    changed = [change(s, n, name, k) for name in ("phase", "slot_of", "submits")]
    changed += [change(s, n, name, k, r) for name in ("waits", "hit", "parked")]
    changed += [change(s, n, name, k, t) for name in ("cascade", "successes")]
    return Implies(s.stale(c.x), Not(Or(changed)))


@obligation(R1, "a late report touches no slot but its own", "slot", of=on(*REPORTS))
def _(c: Step, f: Term) -> Term:
    s, n = c.s, c.n
    names = ("slot_state", "permit", "berth", "filled")
    changed = Or([change(s, n, name, f) for name in names])
    return Implies(And(s.stale(c.x), changed), f == s.at(c.x))


@obligation(R1, "a late report leaves nothing readable", "slot", of=on(*REPORTS))
def _(c: Step, f: Term) -> Term:
    filled = And(Not(c.s.filled(f)), c.n.filled(f))
    return Implies(c.s.stale(c.x), Not(filled))


@obligation(R1, "the hold ends with the flush, and only then")
def _(c: Step) -> Term:
    if c.rule.event == "flushed":
        return Not(c.n.held())
    return Implies(c.s.held(), c.n.held())


@obligation(R1, "only a reset begins a hold", of=but("reset_ends"))
def _(c: Step) -> Term:
    return Implies(c.n.held(), c.s.held())


@obligation(R1, "no promotion starts during a hold", of=lambda r: r.then.get("phase") == "QUEUED")
def _(c: Step) -> Term:
    return Not(c.s.held())


# -------------------------------------------------------------------------------- Q1: request ends


@obligation(Q1, "a request lives, ends, has ended, in this order", "request")
def _(c: Step, r: Term) -> Term:
    s, n = c.s, c.n
    ends = r == c.asker if c.rule.event in ("finish", "tell") else FALSE
    to = {"finish": ("LIVE", "ENDING"), "tell": ("ENDING", "ENDED")}.get(c.rule.event)
    moved = FALSE if to is None else And(s.life(r, to[0]), n.life(r, to[1]))
    same = s.raw("life")(r) == n.raw("life")(r)
    return If(ends, moved, same)


@obligation(Q1, "a request that ends is promised nothing", "key", of=on("finish"))
def _(c: Step, k: Term) -> Term:
    return Not(Or(c.n.waits(k, c.asker), c.n.hit(k, c.asker)))


@obligation(
    Q1, "the end is told when nothing of the request is parked or queued", "key", of=on("tell")
)
def _(c: Step, k: Term) -> Term:
    queued = And(c.s.phase(k, "QUEUED"), c.s.asked_by(k) == c.asker)
    return Not(Or(c.s.parked(k, c.asker), queued))


@obligation(
    Q1, "nor does a store of it run whose block would then be offered", "transfer", of=on("tell")
)
def _(c: Step, y: Term) -> Term:
    due = And(fresh(c.s, y, "STORE"), c.s.phase(c.s.of(y), "STORING"))
    return Not(And(due, c.s.by(y) == c.asker))


@obligation(
    Q1,
    "nothing is submitted under a request that ends",
    of=starting("LOAD", "STORE", "EXPORT", "READ"),
)
def _(c: Step) -> Term:
    return c.s.life(c.n.by(c.x), "LIVE")


@obligation(
    Q1,
    "only the living look up, store, read, park and export",
    of=on("lookup", "accept", "read", "park", "export"),
)
def _(c: Step) -> Term:
    return c.s.life(c.asker, "LIVE")


# -------------------------------------------------------------------------------- W1: pending work


@obligation(
    W1,
    "whatever happens by itself is pending work before",
    of=on("submit", "overdue", "let_go", "copy", "copied", "tell", *REPORTS),
)
def _(c: Step) -> Term:
    s, k = c.s, c.key
    pending = {
        "submit": lambda: s.phase(k, "QUEUED"),
        "overdue": lambda: runs(s, s.writer(k)),
        "let_go": lambda: s.waits(k, c.asker),
        "copy": lambda: s.cascade(k, c.tier, "DUE"),
        "copied": lambda: s.cascade(k, c.tier, "DUE", "RUNNING"),
        "tell": lambda: s.life(c.asker, "ENDING"),
    }
    return pending.get(c.rule.event, lambda: runs(s, c.x))()
