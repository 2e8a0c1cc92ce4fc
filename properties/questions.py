"""What is to be proved of a table, apart from who proves it: scenes and the questions asked there.

A *scene* is a rule about to fire, an event about to be offered, the start, or any reachable
state. The same scenes are put to z3 over sorts of any size, to z3 over small finite ones, and
exported."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from ..model.events import Event
from ..model.rules import Rule
from .consequences import CONSEQUENCES
from .invariants import INVARIANTS, Invariant
from .logic import FALSE, Term
from .obligations import OBLIGATIONS, Obligation, Step
from .prover import Prover
from .symbolic import Transition, transition
from .totality import claim, claim_names

START, ANY_STATE = "start", "any state"
KEEPS, BEGINS = "keeps: ", "begins with: "
CAN_HAPPEN = "can happen"
"""No goal but its opposite: without a model of guard and invariants, all is proved of nothing."""

Goal = Callable[[Prover, Transition | None], Term]


@dataclass(frozen=True)
class Question:
    """One obligation; `goal` states it over the sorts of a prover."""

    contract: str
    name: str
    goal: Goal
    invariant: Invariant | None = None


@dataclass(frozen=True)
class Scene:
    """Where questions are asked: `rule` names a rule, `event ...`, the start or any state."""

    rule: str
    questions: tuple[Question, ...]
    step: Callable[[Prover], Transition | None]
    assuming: bool = True
    """Do the invariants hold here already?"""


def _no_step(_: Prover) -> None:
    return None


def _state(inv: Invariant, prover: Prover, step: Transition | None) -> Term:
    return prover.holds(inv, prover.signature.now if step is None else step.after)


def _start(inv: Invariant, prover: Prover, _: Transition | None) -> Term:
    return prover.holds(inv, prover.signature.start())


def _met(ob: Obligation, prover: Prover, step: Transition | None) -> Term:
    assert step is not None, "an obligation is about a rule"
    return ob.goal(Step(step, prover.goal), *prover.subjects(ob.sorts))


def _nothing(_: Prover, __: Transition | None) -> Term:
    return FALSE


def rule_scene(rule: Rule, events: Mapping[str, Event]) -> Scene:
    """A rule about to fire: invariants to keep, obligations to meet, and that it can fire."""
    asked = [Question(i.contract, KEEPS + i.name, partial(_state, i), i) for i in INVARIANTS]
    asked += [
        Question(ob.contract, ob.name, partial(_met, ob)) for ob in OBLIGATIONS if ob.applies(rule)
    ]
    contract, _ = claim_names([rule], events[rule.event])[0]
    asked.append(Question(contract, CAN_HAPPEN, _nothing))
    return Scene(
        rule.name, tuple(asked), lambda p: transition(p.signature, events[rule.event], rule)
    )


def event_scenes(
    rules: Sequence[Rule], events: Mapping[str, Event], names: Collection[str]
) -> Iterator[Scene]:
    """Events about to be offered: accepted where they must be, in one way at most."""

    def claimed(event: Event, name: str, prover: Prover, _: Transition | None) -> Term:
        return claim(prover.signature, rules, event, name)

    for event in (events[name] for name in names):
        asked = [
            Question(contract, name, partial(claimed, event, name))
            for contract, name in claim_names(rules, event)
        ]
        yield Scene(f"event {event.name}", tuple(asked), _no_step)


def table_scenes() -> Iterator[Scene]:
    """The start, and what follows from the invariants in any state."""
    begins = [Question(i.contract, BEGINS + i.name, partial(_start, i)) for i in INVARIANTS]
    yield Scene(START, tuple(begins), _no_step, assuming=False)
    follows = [Question(c.contract, c.name, partial(_state, c)) for c in CONSEQUENCES]
    yield Scene(ANY_STATE, tuple(follows), _no_step)


def scenes(
    rules: Sequence[Rule], events: Mapping[str, Event], only: Collection[str] | None = None
) -> list[Scene]:
    """Every scene of a table, or those that the rules named in `only` have a part in."""
    chosen = [rule for rule in rules if only is None or rule.name in only]
    named = list(events) if only is None else list(dict.fromkeys(r.event for r in chosen))
    out = [rule_scene(rule, events) for rule in chosen]
    out += event_scenes(rules, events, named)
    return out + list(table_scenes()) if only is None else out
