"""The proof: every obligation of every rule, for any number of keys, requests, tiers and slots.

*quantified* is the theorem of record: uninterpreted sorts, quantified invariants, the negated
goal at elements of which nothing else is known. *instantiated* is the daily run: the same with
the invariants taken only at the terms of `pool`. That weakens what is known and nothing else, so
it proves the same theorem without a side condition.

What is not proved is looked for in small finite worlds. Found, it is *refuted*, and the world
before and after the rule is shown; not found, it is *unknown*, which counts as an error."""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from functools import cache, partial
from typing import TypeAlias

import z3

from ..model.events import EVENTS, Event
from ..model.rules import RULES, Rule
from .consequences import CONSEQUENCES
from .invariants import INVARIANTS, Invariant
from .obligations import OBLIGATIONS, Obligation, Step
from .prover import RLIMIT, Decision, Prover, describe
from .symbolic import ROLE_SORTS, Transition, check_locality, transition
from .terms import Term
from .totality import OFFERED, claims

Stated: TypeAlias = tuple[Mapping[str, Term], Term, Transition | None]
"""Guard, goal, and the transition that both are about."""
START, ALWAYS = "start", "any state"


@dataclass(frozen=True)
class Verdict:
    """What became of one obligation.

    `rule` is a rule, an event, `start` or `any state`. `core` names the cells and invariants that
    the proof used; it is empty where rewriting alone closed the goal. `before` and `after` show,
    for a refuted obligation, the words of what rule and obligation are about."""

    contract: str
    obligation: str
    rule: str
    verdict: str
    core: tuple[str, ...] = ()
    before: Mapping[str, str] = field(default_factory=dict)
    after: Mapping[str, str] = field(default_factory=dict)
    seconds: float = 0.0


def versions() -> dict[str, str]:
    """The solver that speaks."""
    return {"z3": str(z3.get_version_string())}


@cache
def _reads(invariant: Invariant) -> frozenset[str]:
    """The fields and links that an invariant is about."""
    prover = _lookout()
    state = prover.signature.now.with_functions({})
    prover.holds(invariant, state)
    return frozenset(state.reads)


@cache
def _lookout() -> Prover:
    """A prover over small finite worlds, which finds what refutes."""
    return Prover("finite")


class _Judge:
    """Decides obligations with one prover and turns what fails into counterexamples."""

    def __init__(self, prover: Prover, events: Mapping[str, Event]) -> None:
        self.prover, self.events = prover, events

    def judge(
        self,
        contract: str,
        name: str,
        rule: str,
        goal_in: Callable[[Prover], Stated],
        opened: Sequence[Term] | None = None,
        goal: Term | None = None,
    ) -> Verdict:
        """Decide one goal; `goal_in` states it anew, with its guard, over finite sorts."""
        began = time.perf_counter()
        names, pushed = opened, False
        if names is None or goal is None:
            cells, goal, _ = goal_in(self.prover)
            names, pushed = self.prover.open(cells), True
        simple = z3.simplify(goal)
        decision = Decision("proved") if z3.is_true(simple) else self.prover.decide(goal, names)
        if pushed:
            self.prover.close()
        before: Mapping[str, str] = {}
        after: Mapping[str, str] = {}
        word = decision.word
        if word != "proved":
            word, before, after = _refute(goal_in)
        seconds = time.perf_counter() - began
        return Verdict(contract, name, rule, word, decision.core, before, after, seconds)

    def rule(self, rule: Rule) -> Iterator[Verdict]:
        """Invariants kept, obligations met, and the rule able to fire."""
        step = transition(self.prover.signature, self.events[rule.event], rule)
        names = self.prover.open(step.guard(self.prover.known))
        try:
            for inv in INVARIANTS:
                if not _reads(inv) & step.writes:  # the hypothesis itself
                    core = (f"invariant: {inv.name}",)
                    yield Verdict(inv.contract, f"keeps: {inv.name}", rule.name, "proved", core)
                    continue
                again = partial(self._kept, rule, inv)
                goal = self.prover.holds(inv, step.after)
                yield self.judge(inv.contract, f"keeps: {inv.name}", rule.name, again, names, goal)
            for ob in OBLIGATIONS:
                if ob.applies(rule):
                    again = partial(self._met, rule, ob)
                    goal = ob.goal(Step(step, self.prover.goal), *self.prover.subjects(ob.sorts))
                    yield self.judge(ob.contract, ob.name, rule.name, again, names, goal)
        finally:
            self.prover.close()
        yield self._can_fire(rule)

    def _step(self, rule: Rule, prover: Prover) -> tuple[Mapping[str, Term], Transition]:
        step = transition(prover.signature, self.events[rule.event], rule)
        return step.guard(prover.known), step

    def _kept(self, rule: Rule, inv: Invariant, prover: Prover) -> Stated:
        cells, step = self._step(rule, prover)
        return cells, prover.holds(inv, step.after), step

    def _met(self, rule: Rule, ob: Obligation, prover: Prover) -> Stated:
        cells, step = self._step(rule, prover)
        return cells, ob.goal(Step(step, prover.goal), *prover.subjects(ob.sorts)), step

    def _can_fire(self, rule: Rule) -> Verdict:
        """Guard and invariants hold together somewhere: what is proved is not proved of nothing."""
        began = time.perf_counter()
        contract = OFFERED[rule.event][0]
        cells, _ = self._step(rule, _lookout())
        names = _lookout().open(cells)
        decision = _lookout().decide(z3.BoolVal(False), names)
        _lookout().close()
        word = {"sat": "proved", "proved": "refuted"}.get(decision.word, "unknown")
        seconds = time.perf_counter() - began
        return Verdict(contract, "can happen", rule.name, word, decision.core, seconds=seconds)

    def start(self) -> Iterator[Verdict]:
        """The invariants hold where everything begins; nothing may be assumed there."""
        for inv in INVARIANTS:
            yield Verdict(
                inv.contract, f"begins with: {inv.name}", START, _begins(inv), (), {}, {}, 0.0
            )

    def always(self) -> Iterator[Verdict]:
        """What follows from the invariants."""
        for theorem in CONSEQUENCES:
            again = partial(_theorem, theorem)
            yield self.judge(theorem.contract, theorem.name, ALWAYS, again)

    def totality(self, rules: Sequence[Rule], only: set[str] | None) -> Iterator[Verdict]:
        """Each event is accepted where it is offered, in one way."""
        for i, claim in enumerate(claims(self.prover.signature, rules, self.events)):
            if only is None or claim.event in only:

                def again(prover: Prover, i: int = i) -> Stated:
                    same = list(claims(prover.signature, rules, self.events))[i]
                    return {f"{same.event}.offered": same.given}, same.goal, None

                yield self.judge(claim.contract, claim.name, claim.event, again)


def _theorem(theorem: Invariant, prover: Prover) -> Stated:
    return {}, prover.holds(theorem, prover.signature.now), None


def _begins(inv: Invariant) -> str:
    prover = _beginning()
    decision = prover.decide(prover.holds(inv, prover.signature.start()))
    return {"proved": "proved", "sat": "refuted"}.get(decision.word, "unknown")


@cache
def _beginning() -> Prover:
    return Prover("quantified", invariants=())


def _refute(
    goal_in: Callable[[Prover], Stated],
) -> tuple[str, Mapping[str, str], Mapping[str, str]]:
    prover = _lookout()
    cells, goal, step = goal_in(prover)
    names = prover.open(cells)
    decision = prover.decide(goal, names)
    prover.close()
    if decision.model is None:
        return "unknown", {}, {}
    sig = prover.signature
    if step is None:
        roles = {name: sig.constant(name, sort) for name, sort in ROLE_SORTS.items()}
        return "refuted", describe(decision.model, sig, roles, sig.now), {}
    before = describe(decision.model, sig, step.roles, step.before)
    return "refuted", before, describe(decision.model, sig, step.roles, step.after)


def _part(
    rules: Sequence[Rule],
    events: Mapping[str, Event],
    chosen: Sequence[str],
    rest: bool,
    only: Sequence[str] | None,
    how: str,
    seed: int,
    rlimit: int,
) -> list[Verdict]:
    judge = _Judge(Prover(how, seed, rlimit), events)
    out = [v for rule in rules if rule.name in chosen for v in judge.rule(rule)]
    if rest:
        mentioned = None if only is None else {r.event for r in rules if r.name in only}
        out += judge.totality(rules, mentioned)
        if only is None:
            out += [*judge.start(), *judge.always()]
    return out


def prove(
    rules: Sequence[Rule] = RULES,
    *,
    seed: int = 0,
    how: str = "quantified",
    rlimit: int = RLIMIT,
    only: Iterable[str] | None = None,
    events: Mapping[str, Event] = EVENTS,
    workers: int = 1,
) -> list[Verdict]:
    """Prove every obligation of a table, or those of the rules named in `only`.

    With two workers or more, processes share the rules; the verdicts and their order are the
    same.

    Raises:
        ValueError: a rule speaks of what its event does not mention, or `how` is unknown.
    """
    check_locality(rules, events)
    wanted = None if only is None else sorted(set(only))
    names = [rule.name for rule in rules if wanted is None or rule.name in wanted]
    if workers <= 1:
        return _part(rules, events, names, True, wanted, how, seed, rlimit)
    # small heaps first come, first served: rules differ much in cost
    heaps = [names[i :: 4 * workers] for i in range(4 * workers)]
    with ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context("spawn")) as pool:
        jobs = [
            pool.submit(_part, rules, events, heap, i == 0, wanted, how, seed, rlimit)
            for i, heap in enumerate(heaps)
            if heap or i == 0
        ]
        verdicts = [verdict for job in jobs for verdict in job.result()]
    order = {name: i for i, name in enumerate(names)}
    return sorted(verdicts, key=lambda v: order.get(v.rule, len(order)))
