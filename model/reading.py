"""The concrete reading of the table: which rule fires, and what it does to a world of values.

A `World` holds every field and link that differs from its start value. `World.fire` is the one
place where the reference model changes; it reads the table and nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from .rules import EVENTS, RULES, Event, Guard, Rule
from .vocabulary import CASCADES, FIELDS, LINKS, VERBS, WORDS, split

Id = Any
"""Names one key, request, tier, slot or transfer; anything hashable."""


class NotOffered(Exception):
    """The event's `given` does not hold: the caller asked for what cannot happen."""


class TableError(Exception):
    """No rule, or more than one, matches: the table is not total or not deterministic."""


@dataclass(frozen=True)
class Limits:
    """What bounds a world: sizes, and which tiers each request may use."""

    slots: int
    permits: int
    berths: int
    tiers: tuple[Id, ...] = ()
    allowed: Mapping[Id, Sequence[Id]] = field(default_factory=dict)


def matches(guard: Guard, view: Mapping[str, str]) -> bool:
    """Does `view` (cell -> value) satisfy every cell of `guard`?"""
    return all(view[cell] in allowed for cell, allowed in guard.items())


def new_value(effect: str | Mapping[str, str], old: str) -> str:
    """What an effect makes of an old value."""
    return effect if isinstance(effect, str) else effect[old]


_ORDER = {"slot": 0, "transfer": 2}


def _effects(rule: Rule) -> list[tuple[str, str | None, Any]]:
    """A rule's effects, taken apart, in the order in which they are carried out.

    A slot is taken first, so that what else the rule does to "the slot" is done to that one, and a
    transfer is ended last, since the other effects find their block through it.
    """
    cells = sorted(rule.then, key=lambda cell: _ORDER.get(cell, 1))
    return [(*split(cell), rule.then[cell]) for cell in cells]


def refuse_bad_rules(rules: Iterable[Rule], events: Mapping[str, Event] = EVENTS) -> None:
    """Raise TableError for a cell that is not in the vocabulary, or an empty set of values.

    An empty set would make a guard vacuously false for a solver and go unnoticed.
    """
    guards = [(e.name, e.given) for e in events.values()] + [(r.name, r.when) for r in rules]
    for name, guard in guards:
        for cell, allowed in guard.items():
            known = WORDS.get(split(cell)[0])
            if known is None:
                raise TableError(f"{name}: {cell!r} is not a word of the vocabulary")
            if not allowed or not set(allowed) <= set(known):
                raise TableError(f"{name}: {cell} may be some of {known}, not {allowed!r}")


class World:
    """Values that differ from their start, by field or link and then by index."""

    def __init__(self, limits: Limits, rules: Sequence[Rule] = RULES) -> None:
        self.limits = limits
        self.by_event: dict[str, list[Rule]] = {name: [] for name in EVENTS}
        self.effects: dict[str, list[tuple[str, str | None, Any]]] = {}
        for rule in rules:
            self.by_event[rule.event].append(rule)
            self.effects[rule.name] = _effects(rule)
        self.fields: dict[str, dict[tuple[Id, ...], str]] = {name: {} for name in FIELDS}
        self.links: dict[str, dict[Id, Id]] = {name: {} for name in LINKS}
        self.fired: list[str] = []
        """Names of the rules that fired since the last copy: what coverage is counted from."""

    def copy(self) -> World:
        """An independent world with the same values."""
        twin = object.__new__(World)
        twin.limits = self.limits
        twin.by_event, twin.effects = self.by_event, self.effects
        twin.fields = {name: values.copy() for name, values in self.fields.items()}
        twin.links = {name: values.copy() for name, values in self.links.items()}
        twin.fired = []
        return twin

    # -- reading ---------------------------------------------------------------------------------

    def get(self, name: str, *index: Id) -> str:
        """The value of a field at an index; its start value where nothing was written."""
        return self.fields[name].get(index) or FIELDS[name].values[0]

    def put(self, name: str, index: tuple[Id, ...], value: str) -> None:
        """Write a value; start values are not kept, so equal worlds look equal."""
        if value == FIELDS[name].values[0]:
            self.fields[name].pop(index, None)
        else:
            self.fields[name][index] = value

    def phase(self, key: Id) -> str:
        """Where the key is in its life."""
        return self.get("phase", key)

    def holders(self, name: str, key: Id) -> list[Id]:
        """Requests (or tiers) for which the two-index field `name` of `key` is not at its start."""
        return [other for k, other in self.fields[name] if k == key]

    def running(self, key: Id | None = None, slot: Id | None = None) -> list[Id]:
        """Transfers that run: of a key (only while it remembers them), or on a slot."""
        of, at = self.links["of"], self.links["at"]
        return [
            x
            for (x,), state in self.fields["state"].items()
            if state == "RUNNING"
            and (key is None or (of[x] == key and self.get("stale", x) == "NO"))
            and (slot is None or at[x] == slot)
        ]

    def pins(self, key: Id) -> list[Id]:
        """The reads, cascades and exports that run on a resident block."""
        return [x for x in self.running(key) if self.get("kind", x) not in ("LOAD", "STORE")]

    def free_slots(self) -> list[int]:
        """Slots that nobody owns and no transfer may touch."""
        taken = self.fields["slot_state"]
        return [s for s in range(self.limits.slots) if (s,) not in taken]

    def evictable(self, spared: Iterable[Id] = ()) -> list[Id]:
        """The blocks that the rule of `evict` allows to go, without those in `spared`."""
        return [
            k
            for (k,), phase in self.fields["phase"].items()
            if phase == "RESIDENT" and k not in spared and self.matching("evict", {"key": k})
        ]

    def heirs(self, key: Id, asker: Id) -> list[Id]:
        """Who may take over a queued promotion from `asker`, longest waiting first."""
        source = self.links["source"][key]
        return [
            r for r in self.holders("waits", key) if r != asker and source in self.limits.allowed[r]
        ]

    def word(self, cell: str, roles: Mapping[str, Id], said: Mapping[str, str]) -> str:
        """The value of a guard's cell for these roles; `said` holds the environment's words."""
        name, role = split(cell)
        if name in said:
            return said[name]
        if name in FIELDS:
            return self.get(*self._address(name, role, roles))
        return str(getattr(self, f"_word_{name}")(roles))

    def _address(self, name: str, role: str | None, roles: Mapping[str, Id]) -> tuple[Any, ...]:
        of = FIELDS[name].of
        if role is None:
            return (name, *(roles[sort] for sort in of))
        return (name, *(roles[sort] for sort in of[:-1]), roles[role])

    @staticmethod
    def _some(found: object) -> str:
        return "SOME" if found else "NONE"

    def _word_waiters(self, roles: Mapping[str, Id]) -> str:
        return self._some(self.holders("waits", roles["key"]))

    def _word_others(self, roles: Mapping[str, Id]) -> str:
        return self._some([r for r in self.holders("waits", roles["key"]) if r != roles["asker"]])

    def _word_heirs(self, roles: Mapping[str, Id]) -> str:
        return self._some(self.heirs(roles["key"], roles["asker"]))

    def _word_hits(self, roles: Mapping[str, Id]) -> str:
        return self._some(self.holders("hit", roles["key"]))

    def _word_pins(self, roles: Mapping[str, Id]) -> str:
        return self._some(self.pins(roles["key"]))

    def _word_company(self, roles: Mapping[str, Id]) -> str:
        return self._some([x for x in self.running(slot=roles["slot"]) if x != roles["transfer"]])

    def _word_cascading(self, roles: Mapping[str, Id]) -> str:
        here = [x for x in self.running(slot=roles["slot"]) if x != roles.get("transfer")]
        return self._some([x for x in here if self.get("kind", x) in CASCADES])

    def _word_copying(self, roles: Mapping[str, Id]) -> str:
        return self._some(self.copies(roles["key"], roles["tier"]))

    def copies(self, key: Id, tier: Id) -> list[Id]:
        """Cascades of the key to the tier that run, those from before a reset too."""
        of, to = self.links["of"], self.links["to"]
        return [
            x
            for x in self.running()
            if self.get("kind", x) == "CASCADE" and of[x] == key and to[x] == tier
        ]

    def _word_queuer(self, roles: Mapping[str, Id]) -> str:
        return "SELF" if self.links["asked_by"].get(roles["key"]) == roles["asker"] else "OTHER"

    def _word_duties(self, roles: Mapping[str, Id]) -> str:
        of, by = self.links["of"], self.links["by"]
        return self._some(
            [
                x
                for x in self.running()
                if by[x] == roles["asker"]
                and self.get("stale", x) == "NO"
                and self.phase(of[x]) == "STORING"
                and self.get("kind", x) == "STORE"
            ]
        )

    def _word_room(self, roles: Mapping[str, Id]) -> str:
        return "YES" if self.free_slots() or self.evictable() else "NO"

    def _word_permits(self, roles: Mapping[str, Id]) -> str:
        return "YES" if len(self.fields["permit"]) < self.limits.permits else "NO"

    def _word_berths(self, roles: Mapping[str, Id]) -> str:
        return "YES" if len(self.fields["berth"]) < self.limits.berths else "NO"

    # -- firing ----------------------------------------------------------------------------------

    def bind(self, event: Event, roles: Mapping[str, Id]) -> dict[str, Id]:
        """The roles that follow from those given: a transfer's key and slot, a block's slot."""
        bound = dict(roles)
        if event.roles == ("transfer",):
            x = bound["transfer"]
            for role, link in (("key", "of"), ("slot", "at"), ("asker", "by"), ("tier", "to")):
                bound[role] = self.links[link].get(x)
        elif "key" in bound and bound["key"] in self.links["slot_of"]:
            bound["slot"] = self.links["slot_of"][bound["key"]]
        bound.setdefault("slot", None)
        return bound

    def matching(
        self, event: str, roles: Mapping[str, Id], said: Mapping[str, str] | None = None
    ) -> list[Rule]:
        """The rules of an event whose guards hold here."""
        bound = self.bind(EVENTS[event], roles)
        seen: dict[str, str] = {}
        found = []
        for rule in self.by_event[event]:
            for cell, allowed in rule.when.items():
                if cell not in seen:
                    seen[cell] = self.word(cell, bound, said or {})
                if seen[cell] not in allowed:
                    break
            else:
                found.append(rule)
        return found

    def fire(
        self, event: str, roles: Mapping[str, Id], said: Mapping[str, str] | None = None
    ) -> Rule:
        """Let an event happen to one key; returns the rule that said how.

        Raises:
            NotOffered: the event's `given` does not hold.
            TableError: not exactly one rule matches.
        """
        about = EVENTS[event]
        bound = self.bind(about, roles)
        for cell, allowed in about.given.items():
            if self.word(cell, bound, said or {}) not in allowed:
                raise NotOffered(f"{event}: {cell} is not {' or '.join(allowed)}")
        found = self.matching(event, roles, said)
        if len(found) != 1:
            names = ", ".join(r.name for r in found) or "none"
            raise TableError(f"{event} {dict(roles)} {dict(said or {})}: rules that match: {names}")
        self._apply(found[0], bound)
        return found[0]

    def broadcast(self, event: str, keys: Iterable[Id], roles: Mapping[str, Id]) -> None:
        """Let an event happen to every key at once; it needs a rule for each of them."""
        about = EVENTS[event]
        for cell, allowed in about.given.items():
            if self.word(cell, roles, {}) not in allowed:
                raise NotOffered(f"{event}: {cell} is not {' or '.join(allowed)}")
        chosen = []
        for key in keys:
            mine = {**roles, "key": key}
            found = self.matching(event, mine)
            if len(found) != 1:
                raise TableError(f"{event}: {len(found)} rules match {key} ({self.phase(key)})")
            chosen.append((found[0], self.bind(about, mine)))
        for rule, bound in chosen:
            self._apply(rule, bound)

    def _apply(self, rule: Rule, roles: dict[str, Id]) -> None:
        self.fired.append(rule.name)
        for name, role, effect in self.effects[rule.name]:
            if name in VERBS:
                getattr(self, f"_verb_{name}")(str(effect), roles)
            elif name in FIELDS:
                self._write(name, role, effect, roles)
            else:
                self.links[name][roles["key"]] = roles[str(effect)]

    def _write(
        self, name: str, role: str | None, effect: str | Mapping[str, str], roles: dict[str, Id]
    ) -> None:
        if role != "all":
            _, *index = self._address(name, role, roles)
            self.put(name, tuple(index), new_value(effect, self.get(name, *index)))
            return
        others = set(self.holders(name, roles["key"]))
        if name == "cascade":
            others |= set(self.limits.tiers)
        for other in others:
            index2 = (roles["key"], other)
            self.put(name, index2, new_value(effect, self.get(name, *index2)))

    def _verb_slot(self, verb: str, roles: dict[str, Id]) -> None:
        key, slot = roles["key"], roles["slot"]
        if verb == "take":
            slot = roles["slot"] = roles["fresh_slot"]
            self.links["slot_of"][key] = slot
            self.links["owner"][slot] = key
            self.put("slot_state", (slot,), "OWNED")
            return
        if self.links["slot_of"].get(key) == slot:
            del self.links["slot_of"][key]
            self.links["source"].pop(key, None)
            self.links["asked_by"].pop(key, None)
            self.links["writer"].pop(key, None)
        self.links["owner"].pop(slot, None)
        self.put("slot_state", (slot,), "QUARANTINED" if verb == "quarantine" else "FREE")

    def _verb_permit(self, verb: str, roles: dict[str, Id]) -> None:
        self.put("permit", (roles["slot"],), "YES" if verb == "take" else "NO")

    def _verb_berth(self, verb: str, roles: dict[str, Id]) -> None:
        self.put("berth", (roles["slot"],), "YES" if verb == "take" else "NO")

    def _verb_content(self, verb: str, roles: dict[str, Id]) -> None:
        slot = roles["slot"]
        self.put("filled", (slot,), "YES" if verb == "own" else "NO")
        self.links["content"].pop(slot, None)
        if verb == "own":
            self.links["content"][slot] = roles["key"]

    def _verb_transfers(self, verb: str, roles: dict[str, Id]) -> None:
        for x in self.running(roles["key"]):
            self.put("stale", (x,), "YES")

    def _verb_transfer(self, verb: str, roles: dict[str, Id]) -> None:
        x = roles["transfer"]
        if verb == "end":  # forgotten, not marked: an id is never used again
            for name in ("state", "kind", "stale"):
                self.fields[name].pop((x,), None)
            for name in ("of", "at", "by", "to"):
                self.links[name].pop(x, None)
            if self.links["writer"].get(roles["key"]) == x:
                del self.links["writer"][roles["key"]]
            return
        key, kind = roles["key"], verb.removeprefix("start ")
        self.fields["state"][x,] = "RUNNING"
        self.put("kind", (x,), kind)
        if kind in ("LOAD", "STORE"):
            self.links["writer"][key] = x
        self.links["of"][x] = key
        self.links["at"][x] = roles["slot"]
        self.links["by"][x] = roles.get("asker")
        self.links["to"][x] = roles.get("tier")


refuse_bad_rules(RULES)
