"""What a load plan does, rule by rule: A1. It promotes what it loads and lacks, and holds all."""

from __future__ import annotations

from .logic import FALSE, And, Implies, Not, Or, Term, truth
from .steps import Step, change, obligation, on
from .terms import among
from .words import may_be_asked

A1 = "A1-promote-what-is-read"


@obligation(A1, "a promotion begins only for a plan or a lookup, at an absent block", "key")
def _(c: Step, k: Term) -> Term:
    begins = And(c.n.phase(k, "QUEUED"), Not(c.s.phase(k, "QUEUED")))
    mine = k == c.key if c.rule.event in ("plan", "lookup") else FALSE
    return Implies(begins, And(mine, c.s.phase(k, "ABSENT")))


@obligation(A1, "what a plan finds there or in flight is not promoted again", of=on("plan"))
def _(c: Step) -> Term:
    s, n, k = c.s, c.n, c.key
    names = ("phase", "slot_of", "source", "asked_by", "writer", "submits")
    changed = Or([change(s, n, name, k) for name in names])
    return Or(s.phase(k, "ABSENT"), Not(changed))


@obligation(A1, "what it does not find is promoted, once", of=on("plan"))
def _(c: Step) -> Term:
    n, k = c.n, c.key
    begun = And(n.phase(k, "QUEUED"), n.submits(k, "0"), n.asked_by(k) == c.asker)
    return Implies(c.s.phase(k, "ABSENT"), And(begun, Not(c.s.held())))


@obligation(A1, "from a tier that claims it and may be asked", of=on("plan"))
def _(c: Step) -> Term:
    t = c.n.source(c.key)
    claims = And(may_be_asked(c.sig, c.s, c.roles, t), among("says", c.sig.says(t), ("CLAIMS",)))
    return Implies(c.s.phase(c.key, "ABSENT"), claims)


@obligation(A1, "every block of a plan is held for its request until read", of=on("plan"))
def _(c: Step) -> Term:
    n, slot = c.n, c.n.slot_of(c.key)
    mine = And(n.slot_state(slot, "OWNED"), n.owner(slot) == c.key)
    return And(n.waits(c.key, c.asker), n.permit(slot), mine)


@obligation(A1, "a plan touches no block but those that it loads", "key", "request", of=on("plan"))
def _(c: Step, k: Term, r: Term) -> Term:
    s, n = c.s, c.n
    changed = [change(s, n, name, k) for name in ("phase", "slot_of", "submits")]
    changed += [change(s, n, name, k, r) for name in ("waits", "hit", "parked")]
    return Or(k == c.key, Not(Or(changed)))


@obligation(A1, "a plan takes nobody's promise", "key", "request", of=on("plan"))
def _(c: Step, k: Term, r: Term) -> Term:
    s, n = c.s, c.n
    kept = And(Implies(s.waits(k, r), n.waits(k, r)), Implies(s.hit(k, r), n.hit(k, r)))
    return And(kept, truth(c.rule.answer is None))
