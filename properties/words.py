"""The words of a guard as formulas: fields, derived words, and what the tiers say.

Derived words are exactly what `model.vocabulary` says of them; "some" names its witness, so that
the effects of a rule, or the choice of instances, can speak of it.
"""

from __future__ import annotations

from collections.abc import Mapping

from ..model.vocabulary import CASCADES, ENVIRONMENT, FIELDS, split
from .logic import TRUE, And, Not, Or, Read, Term, constant
from .quantifiers import Quantifiers
from .terms import BERTHS, PERMITS, Signature, State, among, sort_of

Roles = Mapping[str, Term]
WITNESSES = {
    "waiters": ("waiter", "request"),
    "others": ("other", "request"),
    "heirs": ("heir", "request"),
    "hits": ("hitter", "request"),
    "pins": ("pin", "transfer"),
    "company": ("companion", "transfer"),
    "cascading": ("cascader", "transfer"),
    "copying": ("copier", "transfer"),
    "duties": ("duty", "transfer"),
    "room": ("slot", "slot"),
    "permits": ("permit", PERMITS),
    "berths": ("berth", BERTHS),
    "tiers": ("sayer", "tier"),
}
"""Word -> what the element is called that a word of SOME (or YES) has found, and its sort."""


def _runs(s: State, x: Term, *kinds: str) -> Term:
    return And(s.state(x, "RUNNING"), s.kind(x, *kinds))


def _found(sig: Signature, s: State, word: str, of: Roles) -> Read:
    """What is said of the element that a word of NONE and SOME is about."""
    key, asker, slot = of["key"], of["asker"], of["slot"]

    def on_slot(x: Term) -> Term:
        # A transfer that an event starts is not running yet; one that it is about is no other.
        return And(x != of["transfer"], s.state(x, "RUNNING"), s.at(x) == slot)

    def unfinished(x: Term) -> Term:
        mine = And(_runs(s, x, "STORE"), s.by(x) == asker)
        return And(mine, Not(s.stale(x)), s.phase(s.of(x), "STORING"))

    def heir(r: Term) -> Term:
        return And(r != asker, s.waits(key, r), sig.allowed(r, s.source(key)))

    def pin(x: Term) -> Term:
        return And(_runs(s, x, "READ", *CASCADES), Not(s.stale(x)), s.of(x) == key)

    def copy(x: Term) -> Term:
        return And(_runs(s, x, "CASCADE"), s.of(x) == key, s.to(x) == of["tier"])

    return {
        "waiters": lambda r: s.waits(key, r),
        "others": lambda r: And(r != asker, s.waits(key, r)),
        "heirs": heir,
        "hits": lambda r: s.hit(key, r),
        "pins": pin,
        "company": on_slot,
        "cascading": lambda x: And(on_slot(x), s.kind(x, *CASCADES)),
        "copying": copy,
        "duties": unfinished,
        "room": lambda f: s.slot_state(f, "FREE"),
        "permits": lambda p: unused_token(s, "permit", p),
        "berths": lambda b: unused_token(s, "berth", b),
    }[word]


def unused_token(s: State, kind: str, token: Term) -> Term:
    """No slot holds this permit (or berth)."""
    holder = getattr(s, f"{kind}_holder")(token)
    return Not(And(getattr(s, kind)(holder), getattr(s, f"{kind}_of")(holder) == token))


def may_be_asked(sig: Signature, s: State, roles: Roles, tier: Term) -> Term:
    """The asker's filter allows the tier, and its claim on the key is not retracted."""
    return And(sig.allowed(roles["asker"], tier), Not(s.retracted(roles["key"], tier)))


def tiers_say(sig: Signature, s: State, said: str, roles: Roles, q: Quantifiers) -> Term:
    """What the tiers that may be asked say, taken together: the strongest that one of them says."""

    def says(tier: Term, *what: str) -> Term:
        return And(may_be_asked(sig, s, roles, tier), among("says", sig.says(tier), what))

    def nobody(*what: str) -> Term:
        return q.all(("tier",), lambda t: Not(says(t, *what)))

    def retracted(t: Term) -> Term:
        return And(sig.allowed(roles["asker"], t), s.retracted(roles["key"], t))

    order = ("CLAIMS", "UNDECIDED", "RAISED", "TIMED_OUT")
    if said == "CLAIMED":
        return q.some("tier", lambda t: says(t, "CLAIMS"), "tier")
    if said in order:
        stronger = order[: order.index(said)]
        return And(nobody(*stronger), q.some("tier", lambda t: says(t, said), "sayer"))
    if said == "RETRACTED":
        return And(nobody(*order), q.some("tier", retracted, "sayer"))
    return And(nobody(*order), q.all(("tier",), lambda t: Not(retracted(t))))


def atom(
    sig: Signature,
    s: State,
    cell: str,
    allowed: tuple[str, ...],
    roles: Roles,
    q: Quantifiers,
) -> Term:
    """One cell of a guard."""
    name, role = split(cell)
    if name in FIELDS:
        return among(name, s.raw(name)(*index_of(name, role, roles)), allowed)
    if name in ENVIRONMENT:
        return among(name, constant(name, sort_of(name)), allowed)
    if name == "queuer":
        mine = s.asked_by(roles["key"]) == roles["asker"]
        return Or([mine if a == "SELF" else Not(mine) for a in allowed])
    if name == "tiers":
        return Or([tiers_say(sig, s, a, roles, q) for a in allowed])
    if len(set(allowed)) == 2:
        return TRUE
    (witness, sort), holds = WITNESSES[name], _found(sig, s, name, roles)
    if allowed[0] in ("SOME", "YES"):
        return q.some(sort, holds, witness)
    return q.all((sort,), lambda v: Not(holds(v)))


def index_of(name: str, role: str | None, roles: Roles) -> list[Term]:
    """What a cell's field is read at."""
    of = FIELDS[name].of
    return [roles[r] for r in (of if role is None else (*of[:-1], role))]
