"""What the answers promise: L1, L2, L3, L4 and L6, rule by rule.

The named releases are data: whoever adds a rule that ends a promise has to say so here.
"""

from __future__ import annotations

from ..model.vocabulary import ANSWERS, OVERDUE, REASONS, WRITES
from .invariants import fresh
from .logic import And, Implies, Not, Or, Term, truth
from .steps import Step, answering, but, named, obligation, on, starting
from .terms import PERMITS, among
from .words import may_be_asked, unused_token

PROMOTION_ENDS = {
    "dropped": "dropped or withdrawn before it was submitted",
    "load_overdue": "it is overdue",
    "failed": "it failed",
    "queue_forgotten": "the cache was reset",
    "writer_quarantined": "the cache was reset",
}
"""How a promotion may end but by landing (L2): rule -> words."""

ASKERS_RELEASES = ("leaves_queue", "passed_on", "leaves_writer", "one_of_many", "last_waiter")
"""A request has read the block, ended, withdrew, was scheduled without it, or its lease ran out."""

PROMISE_ENDS = {
    **dict.fromkeys(ASKERS_RELEASES, "the waiter has read the block or lets go"),
    **PROMOTION_ENDS,
    "store_overdue": "the deadline passed",
    "store_failed": "the store failed",
    "stored_without_permit": "it landed without a permit",
    "readers_quarantined": "the cache was reset",
    "block_forgotten": "the cache was reset",
}
"""The named releases of a promise (L3): rule -> words."""

HIT_ENDS = {
    "pinned": "it is loaded",
    "step_ends": "the step ends",
    "store_begins": "the next store begins",
    "finished": "the request ends",
    "queue_forgotten": "reset",
    "writer_quarantined": "reset",
    "readers_quarantined": "reset",
    "block_forgotten": "reset",
}
"""What ends the short promise of a HIT (L6): rule -> words."""

L1, L2, L3 = "L1-answer-true", "L2-until-landed", "L3-until-read"
L4, L6 = "L4-submitted-once", "L6-hit-holds"


# ------------------------------------------------------------------------- L1: each answer is true


@obligation(L1, "a lookup has an answer, a MISS a reason, and nothing else has either")
def _(c: Step) -> Term:
    rule = c.rule
    answered = rule.answer in ANSWERS if rule.event == "lookup" else rule.answer is None
    reasoned = rule.reason in REASONS if rule.answer == "MISS" else rule.reason is None
    return truth(answered and reasoned)


@obligation(L1, "HIT: the block's bytes are there", of=answering("HIT"))
def _(c: Step) -> Term:
    slot = c.n.slot_of(c.key)
    there = And(c.n.filled(slot), c.n.content(slot) == c.key)
    return And(c.n.phase(c.key, "RESIDENT"), there)


@obligation(
    L1,
    "HIT_PENDING: a writer in time or a live request's queued promotion owns the slot",
    of=answering("HIT_PENDING"),
)
def _(c: Step) -> Term:
    n, k, x, r = c.n, c.key, c.n.writer(c.key), c.n.asked_by(c.key)
    slot = n.slot_of(k)
    written = And(n.phase(k, "LOADING", "STORING"), fresh(n, x, *WRITES), n.at(x) == slot)
    queued = And(n.phase(k, "QUEUED"), n.waits(k, r), n.life(r, "LIVE"), n.permit(slot))
    return And(n.slot_state(slot, "OWNED"), n.owner(slot) == k, Or(written, queued))


@obligation(L1, "HIT_PENDING: there is no second writer", "transfer", of=answering("HIT_PENDING"))
def _(c: Step, y: Term) -> Term:
    n, k = c.n, c.key
    mine = And(fresh(n, y, *WRITES), n.of(y) == k)
    return Implies(mine, And(y == n.writer(k), Not(n.phase(k, "QUEUED"))))


@obligation(L1, "RETRY and MISS change nothing", of=answering("RETRY", "MISS"))
def _(c: Step) -> Term:
    return truth(not c.transition.writes)


def _asks(rule: object) -> bool:
    reason = getattr(rule, "reason", None)
    return getattr(rule, "answer", None) == "RETRY" or reason in (
        "ABSENT",
        "FULL",
        "FAILED",
        "TIER_ERROR",
        "PROBE_TIMEOUT",
    )


def _unclaimed(rule: object) -> bool:
    return _asks(rule) and getattr(rule, "reason", None) != "FULL"


def _says(c: Step, tier: Term, *what: str) -> Term:
    asked = may_be_asked(c.sig, c.s, c.roles, tier)
    return And(asked, among("says", c.sig.says(tier), what))


@obligation(
    L1, "the tiers decide only about an absent block, and not between reset and flush", of=_asks
)
def _(c: Step) -> Term:
    return And(c.s.phase(c.key, "ABSENT"), Not(c.s.held()))


@obligation(L1, "no tier that may be asked claims the block", "tier", of=_unclaimed)
def _(c: Step, t: Term) -> Term:
    return Not(_says(c, t, "CLAIMS"))


@obligation(L1, "RETRY: a tier has not answered", of=answering("RETRY"))
def _(c: Step) -> Term:
    return c.q.some("tier", lambda t: _says(c, t, "UNDECIDED"), "sayer")


@obligation(
    L1, "MISS: every tier has answered", "tier", of=lambda r: _unclaimed(r) and r.answer == "MISS"
)
def _(c: Step, t: Term) -> Term:
    return Not(_says(c, t, "UNDECIDED"))


@obligation(L1, "MISS: the reason that is named holds", of=lambda r: r.answer == "MISS")
def _(c: Step) -> Term:
    s, k, reason = c.s, c.key, c.rule.reason

    def retracted(t: Term) -> Term:
        return And(c.sig.allowed(c.asker, t), s.retracted(k, t))

    if reason == "OVERDUE":
        return s.phase(k, *OVERDUE)
    if reason == "HELD":
        return And(s.phase(k, "ABSENT"), s.held())
    if reason == "FULL":
        return c.q.some("tier", lambda t: _says(c, t, "CLAIMS"), "sayer")
    if reason == "TIER_ERROR":
        return c.q.some("tier", lambda t: _says(c, t, "RAISED"), "sayer")
    if reason == "PROBE_TIMEOUT":
        return c.q.some("tier", lambda t: _says(c, t, "TIMED_OUT"), "sayer")
    if reason == "FAILED":
        return c.q.some("tier", retracted, "sayer")
    return And(s.phase(k, "ABSENT"), Not(s.held()))


@obligation(
    L1,
    "MISS FULL: every permit is in use or no slot is free",
    PERMITS,
    "slot",
    of=lambda r: r.reason == "FULL",
)
def _(c: Step, p: Term, f: Term) -> Term:
    return Or(Not(unused_token(c.s, "permit", p)), Not(c.s.slot_state(f, "FREE")))


@obligation(
    L1,
    "MISS ABSENT: no allowed tier failed, raised or took too long",
    "tier",
    of=lambda r: r.reason == "ABSENT",
)
def _(c: Step, t: Term) -> Term:
    trouble = Or(
        _says(c, t, "RAISED", "TIMED_OUT"),
        And(c.sig.allowed(c.asker, t), c.s.retracted(c.key, t)),
    )
    return Not(trouble)


# -------------------------------------------------- L2: until it lands, whoever asks waits or hits


@obligation(
    L2, "MISS and RETRY only where no promotion is under way", of=answering("MISS", "RETRY")
)
def _(c: Step) -> Term:
    return Not(c.s.phase(c.key, "QUEUED", "LOADING"))


@obligation(
    L2,
    "a promotion is queued, then loads, then lands, or ends in a named way",
    "key",
    of=but(*PROMOTION_ENDS),
)
def _(c: Step, k: Term) -> Term:
    s, n = c.s, c.n
    queued = Implies(s.phase(k, "QUEUED"), n.phase(k, "QUEUED", "LOADING"))
    return And(queued, Implies(s.phase(k, "LOADING"), n.phase(k, "LOADING", "RESIDENT")))


@obligation(L2, "a promotion keeps its source", "key")
def _(c: Step, k: Term) -> Term:
    s, n = c.s, c.n
    on_its_way = And(s.phase(k, "QUEUED", "LOADING"), n.phase(k, "QUEUED", "LOADING"))
    return Implies(on_its_way, n.source(k) == s.source(k))


# ---------------------------------------------------------------------------- L3: until it is read


@obligation(L3, "who waits is not answered MISS or RETRY", of=answering("MISS", "RETRY"))
def _(c: Step) -> Term:
    return Not(c.s.waits(c.key, c.asker))


@obligation(L3, "who is answered HIT_PENDING waits", of=answering("HIT_PENDING"))
def _(c: Step) -> Term:
    return c.n.waits(c.key, c.asker)


@obligation(
    L3, "a promise lives on unless a named release ends it", "key", "request", of=but(*PROMISE_ENDS)
)
def _(c: Step, k: Term, r: Term) -> Term:
    return Implies(c.s.waits(k, r), c.n.waits(k, r))


@obligation(
    L3, "letting go ends nobody else's promise", "key", "request", of=named(*ASKERS_RELEASES)
)
def _(c: Step, k: Term, r: Term) -> Term:
    return Implies(And(c.s.waits(k, r), r != c.asker), c.n.waits(k, r))


@obligation(L3, "who lets go waits no more", of=on("let_go"))
def _(c: Step) -> Term:
    return Not(c.n.waits(c.key, c.asker))


@obligation(
    L3,
    "a promise with a permit outlives the landing",
    "key",
    "request",
    of=on("load_landed", "store_landed"),
)
def _(c: Step, k: Term, r: Term) -> Term:
    promised = And(c.s.waits(k, r), c.s.permit(c.s.slot_of(k)))
    return Implies(promised, c.n.waits(k, r))


@obligation(
    L3, "a wait on a store takes a permit if one is free", PERMITS, of=answering("HIT_PENDING")
)
def _(c: Step, p: Term) -> Term:
    could = And(c.s.phase(c.key, "STORING"), unused_token(c.s, "permit", p))
    return Implies(could, c.n.permit(c.n.slot_of(c.key)))


@obligation(
    L3,
    "a promotion is dropped only when nobody else may load it",
    "request",
    of=lambda r: r.event == "let_go" and r.then.get("slot") == "free",
)
def _(c: Step, r: Term) -> Term:
    could = And(c.s.waits(c.key, r), c.sig.allowed(r, c.s.source(c.key)))
    return Implies(could, r == c.asker)


# ------------------------------------------------------------------------------ L4: submitted once


@obligation(L4, "what is submitted was queued, and was not submitted before", of=starting("LOAD"))
def _(c: Step) -> Term:
    k = c.key
    return And(c.s.phase(k, "QUEUED"), c.s.submits(k, "0"), c.n.phase(k, "LOADING"))


@obligation(L4, "no other load of the promotion runs", "transfer", of=starting("LOAD"))
def _(c: Step, y: Term) -> Term:
    return Not(And(fresh(c.s, y, "LOAD"), c.s.of(y) == c.key))


@obligation(
    L4,
    "it is submitted under a living request that waits, to the tier that claimed it",
    of=starting("LOAD"),
)
def _(c: Step) -> Term:
    s, n, r = c.s, c.n, c.n.by(c.x)
    whose = And(s.waits(c.key, r), s.life(r, "LIVE"), c.sig.allowed(r, n.to(c.x)))
    return And(whose, n.to(c.x) == s.source(c.key))


@obligation(
    L4,
    "the queue is left by a submission, a drop or a reset",
    "key",
    of=but("dropped", "queue_forgotten"),
)
def _(c: Step, k: Term) -> Term:
    left = And(c.s.phase(k, "QUEUED"), Not(c.n.phase(k, "QUEUED")))
    return Implies(left, And(c.n.phase(k, "LOADING"), fresh(c.n, c.n.writer(k), "LOAD")))


@obligation(L4, "nothing is queued when its step has ended", "key", of=on("step_end"))
def _(c: Step, k: Term) -> Term:
    return Not(c.n.phase(k, "QUEUED"))


@obligation(L4, "only a submission counts as one, and only a new promotion begins at none", "key")
def _(c: Step, k: Term) -> Term:
    s, n = c.s, c.n
    counted = And(s.phase(k, "QUEUED"), n.phase(k, "LOADING"))
    begun = And(s.phase(k, "ABSENT"), n.phase(k, "QUEUED"), n.submits(k, "0"))
    return Or(n.raw("submits")(k) == s.raw("submits")(k), counted, begun)


# ----------------------------------------------------------------------------------- L6: HIT holds


@obligation(L6, "who is answered HIT holds the short promise", of=answering("HIT"))
def _(c: Step) -> Term:
    return c.n.hit(c.key, c.asker)


@obligation(L6, "the short promise lives on until a named end", "key", "request", of=but(*HIT_ENDS))
def _(c: Step, k: Term, r: Term) -> Term:
    return Implies(c.s.hit(k, r), c.n.hit(k, r))


@obligation(L6, "a load uses the short promise up", of=on("read"))
def _(c: Step) -> Term:
    return Not(c.n.hit(c.key, c.asker))


@obligation(
    L6,
    "a load or an end takes nobody else's short promise",
    "key",
    "request",
    of=named("pinned", "finished"),
)
def _(c: Step, k: Term, r: Term) -> Term:
    return Implies(And(c.s.hit(k, r), r != c.asker), c.n.hit(k, r))


@obligation(L6, "no block that somebody holds a HIT on is evicted", "request", of=on("evict"))
def _(c: Step, r: Term) -> Term:
    return Not(c.s.hit(c.key, r))


@obligation(
    L6,
    "a short promise ends when a store begins or the step ends",
    "key",
    "request",
    of=on("store_begin", "step_end"),
)
def _(c: Step, k: Term, r: Term) -> Term:
    return Not(c.n.hit(k, r))
