"""P1: every promise settles, by two rankings and without temporal logic.

*Of a promise*: QUEUED 3, LOADING or STORING 2, RESIDENT and unread 1, settled 0. No rule raises
it while the promise lives; each stage has an event that is always possible there and lowers it.

*Of an asker*, who keeps asking for a key: the claims that a promotion may still act on, and then
the stage, with ABSENT 4. A claim counts until it is retracted, and while a load from it is on its
way. No rule but the named adversaries adds a claim, and none raises the stage without using one
up. So only adversaries can make anybody ask again, and a table in which a failed load keeps its
claim, which is safe, and livelocks, does not pass.

*Bound on waiting*: a promise that lives has one writer at most in its life, so one pending
deadline ends it, and `overdue` is possible at each writing stage and ends it at once. Between
promises an asker is told RETRY for at most one probe deadline for each tier (`waiting_proof`).
"""

from __future__ import annotations

import z3

from ..model.vocabulary import WRITTEN
from .invariants import LOADS
from .logic import TRUE, And, Implies, Not, Or, Term
from .steps import Step, but, obligation, on
from .terms import State

P1 = "P1-progress"

ADVERSARIES = {
    "store_failed": "the GPU's store failed",
    "verified": "new evidence restores a claim",
    "dropped": "a queued promotion is dropped or withdrawn",
    "evicted": "the slot was needed",
    "queue_forgotten": "reset",
    "load_overdue": "a deadline passed",
    "store_overdue": "a deadline passed",
    "writer_quarantined": "reset",
    "readers_quarantined": "reset",
    "block_forgotten": "reset",
}
"""Rules that may set an asker back; a late completion is one too (its stage is that of a guest)."""

LATE = ("OVERDUE_LOADING", "OVERDUE_STORING")
STAGES = {"ABSENT": 4, "QUEUED": 3, "LOADING": 2, "STORING": 2, "RESIDENT": 1}


def stage(s: State, k: Term) -> Term:
    """How many steps the block is from being read; an overdue block answers MISS, it is at 4."""
    term = z3.IntVal(4)
    for phase, left in STAGES.items():
        term = z3.If(s.phase(k, phase), z3.IntVal(left), term)
    return term


def rank(s: State, k: Term, r: Term) -> Term:
    """The rank of a promise; 0 if there is none."""
    return z3.If(s.waits(k, r), stage(s, k), z3.IntVal(0))


def may_act_on(s: State, k: Term, t: Term) -> Term:
    """The tier's claim may still lead to a load, or has led to one that is on its way."""
    return Or(Not(s.retracted(k, t)), And(s.phase(k, *LOADS), s.source(k) == t))


@obligation(P1, "no rule sets a living promise back", "key", "request")
def _(c: Step, k: Term, r: Term) -> Term:
    return Implies(c.s.waits(k, r), rank(c.n, k, r) <= rank(c.s, k, r))


@obligation(
    P1,
    "each stage has an event that brings every promise on",
    "request",
    of=on("submit", "load_landed", "load_failed", "store_landed", "store_failed"),
)
def _(c: Step, r: Term) -> Term:
    fresh = TRUE if c.rule.event == "submit" else Not(c.s.stale(c.x))
    promised = And(fresh, c.s.waits(c.key, r))
    return Implies(promised, rank(c.n, c.key, r) < rank(c.s, c.key, r))


@obligation(P1, "reading or letting go settles a promise", of=on("let_go"))
def _(c: Step) -> Term:
    return rank(c.n, c.key, c.asker) == 0


@obligation(P1, "the deadline passes once for a writer", of=on("overdue"))
def _(c: Step) -> Term:
    s, n, k = c.s, c.n, c.key
    load = And(s.phase(k, "LOADING"), n.phase(k, "OVERDUE_LOADING"))
    return Or(load, And(s.phase(k, "STORING"), n.phase(k, "OVERDUE_STORING")))


@obligation(P1, "a store begins in time, and at an absent block", of=on("accept"))
def _(c: Step) -> Term:
    return And(c.s.phase(c.key, "ABSENT"), c.n.phase(c.key, "STORING"))


@obligation(P1, "the deadline settles every promise", "request", of=on("overdue"))
def _(c: Step, r: Term) -> Term:
    return rank(c.n, c.key, r) == 0


@obligation(P1, "a promise has at most one writer, so one deadline bounds it", "key", "request")
def _(c: Step, k: Term, r: Term) -> Term:
    s, n = c.s, c.n
    lives = And(s.waits(k, r), n.waits(k, r))
    written = And(s.phase(k, *WRITTEN), n.phase(k, *WRITTEN))
    return Implies(And(lives, written), n.writer(k) == s.writer(k))


@obligation(P1, "no claim comes back without new evidence", "key", "tier", of=but(*ADVERSARIES))
def _(c: Step, k: Term, t: Term) -> Term:
    return Implies(may_act_on(c.n, k, t), may_act_on(c.s, k, t))


@obligation(P1, "nobody is set back unless a claim is used up", "key", of=but(*ADVERSARIES))
def _(c: Step, k: Term) -> Term:
    s, n = c.s, c.n
    onward = Or(stage(n, k) <= stage(s, k), s.phase(k, *LATE), n.phase(k, *LATE))
    if c.rule.event != "load_failed":
        return onward
    t = c.s.to(c.x)
    used_up = And(may_act_on(s, k, t), Not(may_act_on(n, k, t)))
    return Or(onward, used_up)


@obligation(P1, "an asker is settled, brought on, or told to wait for a tier", of=on("lookup"))
def _(c: Step) -> Term:
    if c.rule.answer in ("HIT", "MISS", "RETRY"):
        return TRUE
    return And(c.n.waits(c.key, c.asker), stage(c.n, c.key) < 4)
