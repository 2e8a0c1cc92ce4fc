"""The concrete and the symbolic reading of the table, compared on every rule.

They share no code: one reads values, the other builds terms. Two comparisons:
* cell by cell: every combination of the values that a rule's guard and effects can meet;
* world by world: the solver makes small worlds in which a rule can fire; each is copied into a
  concrete `World`, the event happens in both, and every value and link must agree afterwards.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import z3

from ..model.events import EVENTS, Event
from ..model.reading import matches, new_value
from ..model.rules import RULES, Rule
from ..model.vocabulary import FIELDS, VERBS, split
from .copies import Copy
from .logic import TRUE, And, Not, Or, Term
from .prover import SMALL, Prover
from .symbolic import Transition, new_term, transition
from .terms import among, value
from .words import atom


@dataclass
class Comparison:
    """How many cases were compared, and what differed, in words."""

    cases: int = 0
    differences: list[str] = field(default_factory=list)

    def same(self, what: str, concrete: object, symbolic: object) -> None:
        """Compare one case."""
        self.cases += 1
        if concrete != symbolic:
            self.differences.append(f"{what}: concrete {concrete}, symbolic {symbolic}")


def compare(
    rules: Sequence[Rule] = RULES,
    events: Mapping[str, Event] = EVENTS,
    worlds: int = 3,
    seed: int = 0,
) -> Comparison:
    """Compare the two readings of a table; `worlds` for each rule."""
    found = Comparison()
    for rule in rules:
        _compare_cells(rule, found)
    prover = Prover("finite", seed=seed, sizes=SMALL)
    for rule in rules:
        _compare_worlds(prover, rule, rules, events, worlds, found)
    return found


# ------------------------------------------------------------------------------------ cell by cell


def _compare_cells(rule: Rule, found: Comparison) -> None:
    stored = [cell for cell in rule.when if split(cell)[0] in FIELDS]
    for values in itertools.product(*(FIELDS[split(cell)[0]].values for cell in stored)):
        view = dict(zip(stored, values, strict=True))
        guard = {cell: rule.when[cell] for cell in stored}
        terms = []
        for cell, said in view.items():
            name = split(cell)[0]
            terms.append(among(name, value(name, said), guard[cell]))
        symbolic = z3.is_true(z3.simplify(And([TRUE, *terms])))
        found.same(f"{rule.name} when {view}", matches(guard, view), symbolic)
    for cell, effect in rule.then.items():
        name = split(cell)[0]
        if name in FIELDS and not (name in VERBS and effect in VERBS[name]):
            for old in FIELDS[name].values:
                symbolic = z3.simplify(new_term(name, effect, value(name, old)))
                concrete = value(name, new_value(effect, old))
                found.same(f"{rule.name} then {cell} of {old}", str(concrete), str(symbolic))


# ---------------------------------------------------------------------------------- world by world


def _compare_worlds(
    prover: Prover,
    rule: Rule,
    rules: Sequence[Rule],
    events: Mapping[str, Event],
    worlds: int,
    found: Comparison,
) -> None:
    step = transition(prover.signature, events[rule.event], rule)
    others = [transition(prover.signature, step.event, r) for r in rules if r.event == rule.event]
    prover.open(step)
    try:
        prover.solver.add(_room_is_exact(prover, step))
        for model in _models(prover, step, worlds):
            _compare_one(Copy(prover, step, model), rule, others, rules, found)
    finally:
        prover.close()


def _room_is_exact(prover: Prover, step: Transition) -> Term:
    # `room` is a free slot here; to the concrete reading an evictable block is room as well, which
    # the events of `evict` that come first turn into a free slot
    s, q = prover.signature.now, prover.known
    idle = {"phase": ("RESIDENT",), "pins": ("NONE",), "waiters": ("NONE",), "hits": ("NONE",)}

    def evictable(key: Term) -> Term:
        roles = {**step.roles, "key": key}
        return And([atom(prover.signature, s, c, a, roles, q) for c, a in idle.items()])

    free = q.some("slot", lambda f: s.slot_state(f, "FREE"), "")
    return Or(free, q.all(("key",), lambda k: Not(evictable(k))))


def _models(prover: Prover, step: Transition, worlds: int) -> Iterator[z3.ModelRef]:
    """Worlds in which the rule can fire, each with other values at what it is about."""
    s = step.before
    shown = [s.raw("phase")(k) for k in prover.signature.elements["key"]]
    shown += [s.raw("slot_state")(f) for f in prover.signature.elements["slot"]]
    shown += [s.raw("kind")(x) for x in prover.signature.elements["transfer"]]
    for _ in range(worlds):
        model = prover.model()
        if model is None:
            return
        yield model
        prover.solver.add(Or([t != model.eval(t, model_completion=True) for t in shown]))


def _compare_one(
    copy: Copy,
    rule: Rule,
    others: Sequence[Transition],
    rules: Sequence[Rule],
    found: Comparison,
) -> None:
    world = copy.world(rules)
    concrete = sorted(r.name for r in copy.matching(world))
    symbolic = sorted(other.rule.name for other in others if copy.matches(other))
    found.same(f"rules of {rule.event} that match", concrete, symbolic)
    if concrete != [rule.name]:
        return
    copy.fire(world)
    for name, index, said in copy.values_after():
        found.same(f"{rule.name}: {name}{list(index)}", world.get(name, *index), said)
    for name, index, to in copy.links_after():
        found.same(f"{rule.name}: {name}[{index}]", world.links[name].get(index), to)
