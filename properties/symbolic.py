"""The symbolic reading of the table: guards as named formulas, effects as new functions.

It shares no code with the concrete reading (`model.reading`), which reads values where this one
builds terms; `readings` compares the two.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from ..model.events import Event
from ..model.rules import Rule
from ..model.vocabulary import FIELDS, VERBS, WRITES, split
from .logic import FALSE, TRUE, And, If, Read, Term
from .quantifiers import Guarding, Quantifiers
from .terms import BERTHS, PERMITS, Signature, State, value
from .words import WITNESSES, Roles, atom, index_of

ROLE_SORTS = {
    "key": "key",
    "asker": "request",
    "heir": "request",
    "tier": "tier",
    "transfer": "transfer",
    "slot": "slot",
    "permit": PERMITS,
    "berth": BERTHS,
}


ASKING = ("lookup", "plan")
"""Events that speak of a tier that claims the block."""


def bind(signature: Signature, event: Event, rule: Rule) -> dict[str, Term]:
    """The terms that an event is about: constants, or what follows from its transfer or key."""
    roles = {name: signature.constant(name, sort) for name, sort in ROLE_SORTS.items()}
    now, x = signature.now, roles["transfer"]
    if event.roles == ("transfer",):
        roles.update(key=now.of(x), slot=now.at(x), asker=now.by(x), tier=now.to(x))
    elif rule.then.get("slot") != "take":
        roles["slot"] = now.slot_of(roles["key"])
    return roles


# ----------------------------------------------------------------------------------------- effects


def new_term(name: str, effect: str | Mapping[str, str], old: Term) -> Term:
    """What an effect makes of the value of a field."""
    if isinstance(effect, str):
        return value(name, effect)
    term = old
    for before, now in effect.items():
        term = If(old == value(name, before), value(name, now), term)
    return term


@dataclass
class _Writer:
    """Collects the changes of one rule; every term in them is about the state before."""

    before: State
    roles: Roles
    here: Callable[[Term], Term]
    """Does the rule happen to this key?"""

    def __post_init__(self) -> None:
        self.functions: dict[str, Read] = {}

    def write(self, name: str, where: Callable[..., Term], new: Callable[[Term], Term]) -> None:
        """The function `name` has a new value `where` its indices say so."""
        old = self.functions.get(name) or self.before.raw(name)
        self.functions[name] = lambda *i: If(where(*i), new(old(*i)), old(*i))

    def put(self, name: str, index: Term, term: Term) -> None:
        """One value at one index."""
        self.write(name, lambda i: i == index, lambda _: term)

    def field(self, name: str, role: str | None, effect: str | Mapping[str, str]) -> None:
        """A cell that replaces or maps a value."""
        of = FIELDS[name].of
        index = None if role == "all" else index_of(name, role, self.roles)

        def where(*at: Term) -> Term:
            same = []
            for i, sort in enumerate(of):
                if sort == "key":
                    same.append(self.here(at[i]))
                elif index is not None:
                    same.append(at[i] == index[i])
            return And(same)

        self.write(name, where, lambda old: new_term(name, effect, old))

    def link(self, name: str, to: Term) -> None:
        """A cell that points a key's link to a role."""
        self.write(name, self.here, lambda _: to)

    def verb(self, name: str, verb: str) -> None:
        """A cell that moves a slot, a permit, a berth or a transfer."""
        slot, key = self.roles["slot"], self.roles["key"]
        yes, no = TRUE, FALSE
        if name == "slot":
            states = {"take": "OWNED", "free": "FREE", "quarantine": "QUARANTINED"}
            self.put("slot_state", slot, value("slot_state", states[verb]))
            if verb == "take":
                self.put("owner", slot, key)
                self.put("slot_of", key, slot)
        elif name in ("permit", "berth"):
            self.put(name, slot, yes if verb == "take" else no)
            if verb == "take":
                self.put(f"{name}_of", slot, self.roles[name])
                self.put(f"{name}_holder", self.roles[name], slot)
        elif name == "content":
            self.put("filled", slot, yes if verb == "own" else no)
            if verb == "own":
                self.put("content", slot, key)
        elif name == "transfers":
            s = self.before
            mine = lambda x: And(s.state(x, "RUNNING"), s.of(x) == key)  # noqa: E731
            self.write("stale", mine, lambda _: yes)
        elif verb == "end":
            self.put("state", self.roles["transfer"], value("state", "ENDED"))
        else:
            self._start(verb.removeprefix("start "))

    def _start(self, kind: str) -> None:
        x, key, s = self.roles["transfer"], self.roles["key"], self.before
        self.put("state", x, value("state", "RUNNING"))
        self.put("kind", x, value("kind", kind))
        self.put("stale", x, FALSE)
        self.put("of", x, key)
        self.put("at", x, self.roles["slot"])
        # a promotion is submitted under whoever queued it, from the tier that claimed the block
        self.put("by", x, s.asked_by(key) if kind == "LOAD" else self.roles["asker"])
        self.put("to", x, s.source(key) if kind == "LOAD" else self.roles["tier"])
        if kind in WRITES:
            self.put("writer", key, x)

    def rule(self, rule: Rule) -> None:
        """All effects of a rule."""
        for cell, effect in rule.then.items():
            name, role = split(cell)
            if name in VERBS:  # first: the permit is a field too, the content a link
                self.verb(name, str(effect))
            elif name in FIELDS:
                self.field(name, role, effect)
            else:
                self.link(name, self.roles[str(effect)])


# ------------------------------------------------------------------------------------- transitions


@dataclass(frozen=True)
class Transition:
    """What can happen in one go: a rule at one key, or at every key at once."""

    rule: Rule
    event: Event
    signature: Signature
    roles: Roles
    before: State
    after: State
    writes: frozenset[str]

    def guard(self, q: Quantifiers) -> dict[str, Term]:
        """The cells that must hold, each under its own name, so that a core can point at it."""
        guarding = Guarding(self.signature, q)
        cells = {
            f"{self.event.name}.given.{cell}": self._atom(cell, allowed, self.roles, guarding)
            for cell, allowed in self.event.given.items()
        }
        for cell, allowed in self.rule.when.items():
            cells[f"{self.rule.name}.when.{cell}"] = self._cell(cell, allowed, guarding)
        if str(self.rule.then.get("transfer", "")).startswith("start"):  # ids are never used again
            unused = self.before.state(self.roles["transfer"], "UNUSED")
            cells[f"{self.rule.name}.then.transfer"] = unused
        return cells

    @property
    def witnesses(self) -> list[tuple[str, str]]:
        """Name and sort of what the guard may find."""
        words = {split(cell)[0] for cell in (*self.event.given, *self.rule.when)}
        return [WITNESSES[word] for word in sorted(words & set(WITNESSES))]

    @property
    def mentions(self) -> set[str]:
        """The roles that the event or the rule's effects speak of."""
        roles = {"slot", *self.event.roles}
        if "transfer" in roles or self.event.name in ASKING:
            roles |= {"key", "asker", "tier"}
        roles |= {str(effect) for effect in self.rule.then.values() if str(effect) in ROLE_SORTS}
        return roles | {verb for verb in ("permit", "berth") if self.rule.then.get(verb) == "take"}

    def _cell(self, cell: str, allowed: tuple[str, ...], q: Quantifiers) -> Term:
        if not self.event.every:
            return self._atom(cell, allowed, self.roles, q)
        return q.all(("key",), lambda k: self._atom(cell, allowed, {**self.roles, "key": k}, q))

    def _atom(self, cell: str, allowed: tuple[str, ...], roles: Roles, q: Quantifiers) -> Term:
        return atom(self.signature, self.before, cell, allowed, roles, q)


def transition(signature: Signature, event: Event, rule: Rule) -> Transition:
    """The transition that a rule makes.

    Raises:
        ValueError: a rule of an event of every key moves a slot or starts a transfer.
    """
    if event.every and set(rule.then) & {"slot", "permit", "berth", "content", "transfer"}:
        raise ValueError(f"{rule.name}: an event of every key cannot move one slot")
    roles, before = bind(signature, event, rule), signature.now
    here: Callable[[Term], Term] = (
        (lambda _: TRUE) if event.every else (lambda k: k == roles["key"])
    )
    writer = _Writer(before, roles, here)
    writer.rule(rule)
    after = before.with_functions(writer.functions)
    writes = frozenset(writer.functions)
    return Transition(rule, event, signature, roles, before, after, writes)


def transitions(
    signature: Signature, rules: Sequence[Rule], events: Mapping[str, Event]
) -> list[Transition]:
    """Every transition of a table.

    Raises:
        ValueError: several rules for an event of every key, which no table has needed so far.
    """
    for event in events.values():
        mine = [rule.name for rule in rules if rule.event == event.name]
        if event.every and len(mine) > 1:
            raise ValueError(f"{event.name} happens to every key: join its rules {mine} into one")
    return [transition(signature, events[rule.event], rule) for rule in rules]


def check_locality(rules: Sequence[Rule], events: Mapping[str, Event]) -> None:
    """A rule mentions what its event is about, or everything, and nothing else.

    This is what lets one arbitrary key stand for all of them.

    Raises:
        ValueError: a cell's role is not one of the event's, or does not follow from one.
    """
    for rule in rules:
        event = events[rule.event]
        known = {*event.roles, "all", "heir"}
        if event.roles == ("transfer",):
            known |= {"key", "asker", "tier"}
        if event.name in ASKING:
            known.add("tier")  # the first that claims the block
        for cell in (*event.given, *rule.when, *rule.then):
            role = split(cell)[1]
            if role is not None and role not in known:
                raise ValueError(f"{rule.name}: {cell} is about what {event.name} does not mention")
