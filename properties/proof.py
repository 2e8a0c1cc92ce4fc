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
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from functools import cache

import z3

from ..model.events import EVENTS, Event
from ..model.rules import RULES, Rule
from . import waiting_proof
from .invariants import Invariant
from .logic import TRUE, And
from .processes import deaf_workers
from .prover import RLIMIT, TINY, Decision, Prover, describe
from .questions import CAN_HAPPEN, Question, Scene, scenes
from .symbolic import Transition, check_locality


@dataclass(frozen=True)
class Verdict:
    """What became of one obligation.

    `rule` is a rule, `event ...`, `start` or `any state`; `verdict` is proved, refuted or unknown.
    `core` names the cells and invariants that the proof used; it is empty where rewriting alone
    closed the goal. `before` and `after` show, for a refuted obligation, what a small world says
    of whatever rule and obligation are about."""

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

    With two workers or more, processes share the rules; verdicts and their order are the same.

    Raises:
        ValueError: a rule speaks of what its event does not mention, or `how` is unknown.
    """
    check_locality(rules, events)
    chosen = None if only is None else frozenset(only)
    timeless = _prove_rules(rules, events, chosen, how, seed, rlimit, workers)
    return timeless if only is not None else [*timeless, *about_time(seed)]


def about_time(seed: int = 0) -> list[Verdict]:
    """What is proved of deadlines, which the table does not speak of."""
    return [
        Verdict(waiting_proof.P1, name, "any probe", word, ("arithmetic of probes",))
        for name, word in waiting_proof.prove(seed).items()
    ]


def _prove_rules(
    rules: Sequence[Rule],
    events: Mapping[str, Event],
    chosen: frozenset[str] | None,
    how: str,
    seed: int,
    rlimit: int,
    workers: int,
) -> list[Verdict]:
    if workers <= 1:
        return _share(rules, events, chosen, how, seed, rlimit, 0, 1)
    # Rules differ much in cost: each worker takes its share of every kind.
    with ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context("spawn")) as pool:
        with deaf_workers():
            jobs = [
                pool.submit(_share, rules, events, chosen, how, seed, rlimit, i, workers)
                for i in range(workers)
            ]
        verdicts = [verdict for job in jobs for verdict in job.result()]
    order = {scene.rule: i for i, scene in enumerate(scenes(rules, events, chosen))}
    return sorted(verdicts, key=lambda verdict: order[verdict.rule])


def _share(
    rules: Sequence[Rule],
    events: Mapping[str, Event],
    only: frozenset[str] | None,
    how: str,
    seed: int,
    rlimit: int,
    first: int,
    every: int,
) -> list[Verdict]:
    prover = Prover(how, seed, rlimit)
    mine = scenes(rules, events, only)[first::every]
    return [verdict for scene in mine for verdict in judge(prover, scene)]


def judge(prover: Prover, scene: Scene) -> Iterator[Verdict]:
    """Ask every question of a scene."""
    step = scene.step(prover)
    prover.open(step, scene.assuming)
    try:
        if prover.how == "instantiated":
            yield from _answer_together(prover, scene, step)
        else:
            for question in scene.questions:
                yield _answer(prover, scene, step, question)
    finally:
        prover.close()


def _answer_together(prover: Prover, scene: Scene, step: Transition | None) -> Iterator[Verdict]:
    # The ground problem is large and each goal small: one question for all is many times faster.
    began = time.perf_counter()
    asked = [q for q in scene.questions if q.name != CAN_HAPPEN and not untouched(q, step)]
    decision = prover.decide(And([TRUE, *(q.goal(prover, step) for q in asked)]), scene.assuming)
    each = (time.perf_counter() - began) / max(1, len(asked))
    for question in scene.questions:
        if decision.word == "proved" and question in asked:
            what = (question.contract, question.name, scene.rule)
            yield Verdict(*what, "proved", decision.core, seconds=each)
        else:
            yield _answer(prover, scene, step, question)


def untouched(question: Question, step: Transition | None) -> bool:
    """Is the goal the hypothesis itself, as the rule writes nothing that it reads?"""
    if question.invariant is None or step is None:
        return False
    return not _reads(question.invariant) & step.writes


def _answer(prover: Prover, scene: Scene, step: Transition | None, question: Question) -> Verdict:
    began = time.perf_counter()
    what = (question.contract, question.name, scene.rule)
    if question.name == CAN_HAPPEN:
        return Verdict(*what, _can_happen(scene), seconds=time.perf_counter() - began)
    if question.invariant and untouched(question, step):
        return Verdict(*what, "proved", (f"invariant: {question.invariant.name}",))
    decision = prover.decide(question.goal(prover, step), scene.assuming)
    if decision.word == "proved":
        return Verdict(*what, "proved", decision.core, seconds=time.perf_counter() - began)
    word, before, after = refute(scene, question)
    return Verdict(*what, word, (), before, after, time.perf_counter() - began)


@cache
def _reads(invariant: Invariant) -> frozenset[str]:
    """The fields and links that an invariant is about: a rule that writes none of them keeps it."""
    prover = _lookout(small=True)
    state = prover.signature.now.with_functions({})
    prover.holds(invariant, state)
    return frozenset(state.reads)


@cache
def _lookout(*, small: bool) -> Prover:
    """A prover over finite worlds, which finds what refutes, or that a rule can fire."""
    return Prover("finite") if small else Prover("finite", sizes=TINY)


def _can_happen(scene: Scene) -> str:
    for small in (False, True):
        decision = _ask_finite(_lookout(small=small), scene, scene.questions[-1])[0]
        if decision.word == "sat":
            return "proved"
    return "refuted" if decision.word == "proved" else "unknown"


def refute(scene: Scene, question: Question) -> tuple[str, Mapping[str, str], Mapping[str, str]]:
    """Look for a small world in which the answer is no: `refuted` with it, or `unknown`."""
    decision, step = _ask_finite(_lookout(small=True), scene, question)
    if decision.model is None:
        return "unknown", {}, {}
    sig = _lookout(small=True).signature
    if step is None:
        return "refuted", describe(decision.model, sig, None, sig.now), {}
    before = describe(decision.model, sig, step.roles, step.before)
    return "refuted", before, describe(decision.model, sig, step.roles, step.after)


def _ask_finite(
    prover: Prover, scene: Scene, question: Question
) -> tuple[Decision, Transition | None]:
    step = scene.step(prover)
    prover.open(step, scene.assuming)
    try:
        return prover.decide(question.goal(prover, step), scene.assuming), step
    finally:
        prover.close()
