"""A world that the solver made, copied into a concrete `World`, and what each says afterwards."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any

import z3

from ..model.reading import Limits, World
from ..model.rules import Rule
from ..model.vocabulary import ENVIRONMENT, FIELDS, OWNING, WORDS, WRITTEN
from .invariants import LOADS
from .logic import And, Read, Term, constant
from .prover import Prover
from .symbolic import Transition
from .terms import BERTHS, PERMITS, State, decode, sort_of
from .words import atom, tiers_say

Index = tuple[Any, ...]
TRANSFERS_LINKS = ("of", "at", "by", "to")


class Copy:
    """One model of a transition's guard, as ids and values instead of elements and terms."""

    def __init__(self, prover: Prover, step: Transition, model: z3.ModelRef) -> None:
        self._prover, self._step, self._model = prover, step, model
        self._ids: dict[int, Any] = {}
        self._elements: dict[str, list[tuple[Any, Term]]] = {}
        for sort, elements in prover.signature.elements.items():
            # slots are numbers to a World; everything else may have any name
            named = [(i if sort == "slot" else f"{sort}{i}", e) for i, e in enumerate(elements)]
            self._elements[sort] = named
            self._ids.update((e.get_id(), name) for name, e in named)

    # -- reading the model -----------------------------------------------------------------------

    def _eval(self, term: Term) -> Term:
        return self._model.eval(term, model_completion=True)

    def _id(self, term: Term) -> Any:
        return self._ids[self._eval(term).get_id()]

    def _true(self, formula: Term) -> bool:
        return bool(z3.is_true(self._eval(formula)))

    def _value(self, name: str, term: Term) -> str:
        return decode(name, self._eval(term))

    def _values(self, s: State) -> Iterator[tuple[str, Index, str]]:
        for name, field in FIELDS.items():
            for at in itertools.product(*(self._elements[sort] for sort in field.of)):
                said = self._value(name, s.raw(name)(*(element for _, element in at)))
                if field.of == ("transfer",):
                    # to a World, a transfer that does not run is gone
                    running = self._true(s.state(at[0][1], "RUNNING"))
                    said = said if running else field.values[0]
                yield name, tuple(i for i, _ in at), said

    def _links(self, s: State) -> Iterator[tuple[str, Any, Any]]:
        """The links that mean something; elsewhere a World has none, and a function anything."""
        meant: dict[str, Read] = {
            "slot_of": lambda k: s.phase(k, *OWNING),
            "owner": lambda f: s.slot_state(f, "OWNED"),
            "source": lambda k: s.phase(k, *LOADS),
            "asked_by": lambda k: s.phase(k, "QUEUED"),
            "writer": lambda k: s.phase(k, *WRITTEN),
            "content": lambda f: s.filled(f),
            **dict.fromkeys(TRANSFERS_LINKS, lambda x: s.state(x, "RUNNING")),
        }
        of = {"owner": "slot", "content": "slot", **dict.fromkeys(TRANSFERS_LINKS, "transfer")}
        for name, means in meant.items():
            for index, element in self._elements[of.get(name, "key")]:
                if self._true(means(element)):
                    yield name, index, self._id(getattr(s, name)(element))

    # -- the concrete side -----------------------------------------------------------------------

    def world(self, rules: Sequence[Rule]) -> World:
        """The state before, as a World that reads `rules`."""
        sig = self._prover.signature
        tiers = tuple(name for name, _ in self._elements["tier"])
        allowed = {
            r: tuple(
                t for t, tier in self._elements["tier"] if self._true(sig.allowed(request, tier))
            )
            for r, request in self._elements["request"]
        }
        count = {sort: len(elements) for sort, elements in self._elements.items()}
        limits = Limits(count["slot"], count[PERMITS], count[BERTHS], tiers, allowed)
        world = World(limits, rules)
        for name, index, said in self._values(self._step.before):
            world.put(name, index, said)
        for name, index, to in self._links(self._step.before):
            world.links[name][index] = to
        return world

    @property
    def roles(self) -> dict[str, Any]:
        """What the event is about, by id, with the slot that it would take."""
        named = {name: self._id(term) for name, term in self._step.roles.items()}
        if self._step.event.roles == ("transfer",):
            return {"transfer": named["transfer"]}
        if self._step.event.name == "submit":  # a job is submitted under its queue's request
            s, key = self._step.before, self._step.roles["key"]
            named |= {"asker": self._id(s.asked_by(key)), "tier": self._id(s.source(key))}
        named["fresh_slot"] = named.pop("slot")
        return named

    @cached_property
    def said(self) -> dict[str, str]:
        """The words of the environment."""
        out = {word: self._value(word, constant(word, sort_of(word))) for word in ENVIRONMENT}
        sig, s, roles, q = (
            self._prover.signature,
            self._step.before,
            self._step.roles,
            self._prover.known,
        )
        for said in WORDS["tiers"]:
            if self._true(tiers_say(sig, s, said, roles, q)):
                out["tiers"] = said
        return out

    def matching(self, world: World) -> list[Rule]:
        """The rules that match in the concrete world; of a broadcast, those that match each key."""
        event, roles = self._step.event, self.roles
        bound = world.bind(event, roles)
        for cell, allowed in event.given.items():
            if world.word(cell, bound, self.said) not in allowed:
                return []
        if not event.every:
            return world.matching(event.name, roles, self.said)
        keys = [key for key, _ in self._elements["key"]]
        each = [world.matching(event.name, {**roles, "key": key}, self.said) for key in keys]
        return [rule for rule in each[0] if all(rule in rules for rules in each)]

    def matches(self, other: Transition) -> bool:
        """Does a rule of the event match symbolically, in the model?"""
        sig, s, q = self._prover.signature, self._step.before, self._prover.known
        roles = {**self._step.roles, "slot": other.roles["slot"]}
        given = [atom(sig, s, c, a, roles, q) for c, a in other.event.given.items()]

        def holds(key: Term) -> Term:
            at = {**roles, "key": key}
            return And([*given, *(atom(sig, s, c, a, at, q) for c, a in other.rule.when.items())])

        everywhere = q.all(("key",), holds) if other.event.every else holds(roles["key"])
        return self._true(everywhere)

    def fire(self, world: World) -> None:
        """Let the event happen in the concrete world."""
        event = self._step.event
        if event.every:
            world.broadcast(event.name, [key for key, _ in self._elements["key"]], self.roles)
        else:
            world.fire(event.name, self.roles, self.said)

    def values_after(self) -> Iterator[tuple[str, Index, str]]:
        """Every value of the symbolic state after: field, index, value."""
        return self._values(self._step.after)

    def links_after(self) -> Iterator[tuple[str, Any, Any]]:
        """Every link of the symbolic state after that means something: name, index, where to."""
        return self._links(self._step.after)
