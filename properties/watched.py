"""From what a watch saw to verdicts, counterexamples and tests, as for managers in lockstep.

A manager with policies of its own says `judged_by_what_is_seen = True`; see `watch`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..impl.counted import counted
from ..model.operations import Operation, Setting
from ..model.reference import Submitted
from .checks import A2, NEEDED_CALLS, NOT_DRIVEN, Progress, driving
from .contracts import CONTRACTS, RUNS, TOUR
from .counterexamples import Counterexample, Shown, watching
from .driver import Factory
from .found import Found
from .lockstep import Divergence
from .managers import Chosen
from .report import Report, Result
from .under_test import Probes
from .watch import Watch
from .watch_tour import Result as Watched
from .watch_tour import broken_by, runs, tour


@dataclass(frozen=True)
class SeenAlone(Shown):
    """An operation of a watched manager: nothing is expected of it but to keep the contract."""

    @property
    def answer(self) -> str:
        """What was answered."""
        return f"{self.got}   <- here".strip() if self.wrong else str(self.got)


def by_tour(chosen: Chosen, report: Report, progress: Progress | None = None) -> list[Found]:
    """Lead the manager everywhere in small rooms."""
    with driving(chosen):
        result = tour(chosen.factory, progress=progress)
    judge(chosen, report, TOUR, result)
    report.lines.append(
        f"tour: {counted(result.cases, 'case')}, {counted(result.states, 'state')}, "
        f"{counted(result.operations, 'operation')} "
        f"in {result.seconds:.1f} s; judged by what is seen alone"
    )
    if result.cut:
        report.lines.append(f"not to their full depth: {', '.join(result.cut)}")
    return as_found(result)


def by_runs(
    chosen: Chosen,
    report: Report,
    *,
    examples: int,
    seed: int,
    progress: Progress | None = None,
) -> list[Found]:
    """Drive the manager through random histories."""
    with driving(chosen):
        result = runs(chosen.factory, examples=examples, seed=seed, progress=progress)
    judge(chosen, report, RUNS, result)
    unseen = Result(A2, RUNS, "not_observable", says=NOT_DRIVEN)
    report.results.append(unseen if A2 in chosen.claims else Result(A2, RUNS, "not_claimed"))
    report.lines.append(
        f"runs: {counted(result.cases, 'history', 'histories')}, "
        f"{counted(result.operations, 'operation')} in "
        f"{result.seconds:.1f} s (seed {seed}); judged by what is seen alone"
    )
    return as_found(result)


def as_found(result: Watched) -> list[Found]:
    """The findings as other checks have them."""
    return [
        Found(s.setting, divergence(s.contract, s.said, s.history), s.method)
        for s in result.found.values()
    ]


def divergence(contract: str, said: str, history: Sequence[Operation]) -> Divergence:
    """A broken contract as other checks raise it."""
    broken = Divergence(contract, said)
    broken.history = tuple(history)
    return broken


def judge(chosen: Chosen, report: Report, method: str, result: Watched) -> None:
    """A verdict on each contract that the method can check."""
    for contract in CONTRACTS.values():
        if method not in contract.methods or contract.id == A2:
            continue
        verdict, says = verdict_on(chosen, contract.id, result)
        gap = chosen.known_gaps.get(contract.id)
        if gap is not None and (method, verdict) == (TOUR, "holds"):  # it is the same every time
            verdict, says = "gap_closed", f"it is kept now: take it out of known_gaps ({gap})"
        counts = {"cases": result.cases, "operations": result.operations}
        counts["tests"] = result.reached[contract.id]
        report.results.append(Result(contract.id, method, verdict, counts, result.seconds, says))


def verdict_on(chosen: Chosen, contract: str, result: Watched) -> tuple[str, str]:
    """The verdict on one contract, and why it is none of holds and violated."""
    if contract not in chosen.claims:
        return "not_claimed", ""
    if contract in result.found:
        gap = chosen.known_gaps.get(contract)
        return ("violated", "") if gap is None else ("expected_failure", gap)
    if contract in chosen.inexpressible:
        return "not_observable", chosen.inexpressible[contract]
    missing = [p for p in CONTRACTS[contract].needs if p not in chosen.probes]
    if missing:
        return "not_observable", f"the manager has no probe {', '.join(missing)}"
    missing = [call for call in NEEDED_CALLS.get(contract, ()) if call in chosen.lacks]
    if missing:
        return "not_observable", f"the manager has no {', '.join(missing)}"
    if contract in UNDRIVEN:
        return "not_observable", UNDRIVEN[contract]
    if not result.reached[contract]:
        return "not_reached", _lacking(chosen, contract)
    return "holds", ""


def _lacking(chosen: Chosen, contract: str) -> str:
    """What never came about, and which call or probe would have brought it about."""
    said, *helps = PUT_TO_THE_TEST[contract]
    missing = [name for name in helps if name in chosen.lacks or name in _probes_not(chosen)]
    return said + (f"; the manager has no {', no '.join(missing)}" if missing else "")


def _probes_not(chosen: Chosen) -> set[str]:
    return {name for name in vars(Probes) if name[0] != "_"} - set(chosen.probes)


UNDRIVEN = {
    "A1-promote-what-is-read": "load plans are not driven where a manager is judged by what is "
    "seen alone"
}
PUT_TO_THE_TEST: dict[str, tuple[str, ...]] = {
    "L1-answer-true": ("no lookup was made",),
    "L2-until-landed": ("no block on its way from a tier was looked up again",),
    "L3-until-read": ("no request looked again at what it was promised",),
    "L4-submitted-once": ("no load was submitted to a tier",),
    "L5-tiers-asked": ("no tier was asked",),
    "L6-hit-holds": ("no block answered HIT was loaded",),
    "S1-slot-exclusive": ("no block was seen to own a slot", "slot_of"),
    "S2-no-reuse-under-transfer": ("no slot was given out beside a transfer",),
    "S3-pins": ("no block was evicted, and no pins could be counted", "pins"),
    "S4-operations": (
        "no operation was completed while a later one of the same block went on, as two loads at "
        "once or a store before and one after a reset would be",
        "reset_cache",
    ),
    "F1-partial-failure": (
        "no load failed in part, and no slot was wanted after a failure",
        "resident_keys",
        "slot_of",
    ),
    "F2-claim-retracted": ("no promotion began after a load had failed",),
    "F3-tier-raises": ("no tier was called that raises",),
    "C1-cascade-once": ("no block was copied to a tier",),
    "C2-cascade-reoffered": ("no copy to a tier was refused or failed",),
    "R1-reset": ("the cache was not reset", "reset_cache"),
    "Q1-finish": ("no tier was told of an end",),
    "P1-progress": ("nothing was waited for longer than a deadline",),
    "P2-room-for-stores": ("no store was offered",),
    "W1-pending-work": ("it was not asked whether work is pending",),
    "E1-events": ("no block was answered HIT or seen to be resident", "resident_keys"),
    "D1-bytes": ("no bytes were read",),
}
"""What never came about where a contract was not put to the test, and the optional calls and probes
that help to bring it about."""


def replay(
    factory: Factory, setting: Setting, history: Sequence[Operation], contract: str
) -> tuple[list[Shown], str]:
    """A history as it goes on a new manager, up to where it breaks the contract; and how."""
    watch = Watch(factory, setting)
    shown: list[Shown] = []
    for op in history:
        jobs, copies = len(watch.facts.jobs), len(watch.facts.copies)
        broken = dict(reversed(watch.do(op)))
        starts = [
            f"job {n}: {'a load' if j.kind == 'LOAD' else 'a copy'} of {', '.join(j.keys)} "
            f"{'from' if j.kind == 'LOAD' else 'to'} {j.tier} for {j.request}"
            for n, j in watch.facts.jobs.items()
            if n > jobs
        ]
        starts += [f"operation {n}" for n in watch.facts.copies if n > copies]
        said = watch.shown[-1][1]
        new = [(n, j) for n, j in watch.facts.jobs.items() if n > jobs]
        given = tuple(Submitted(n, j.kind, j.tier, j.request, tuple(j.keys)) for n, j in new)
        here = contract in broken
        shown.append(SeenAlone(op, said, said, tuple(starts), wrong=here, jobs=given))
        if contract in broken:
            return shown, broken[contract]
    return shown, ""


def counterexample(chosen: Chosen, found: Found, methods: Sequence[str]) -> Counterexample:
    """A finding, replayed on a new manager so that it is shown as it went."""
    with watching(chosen) as raised:
        shown, said = replay(chosen.factory, found.setting, found.history, found.contract)
    return Counterexample(
        found.contract,
        chosen.spec,
        tuple(methods),
        found.setting,
        tuple(shown),
        said or found.divergence.said,
        again=bool(said),
        raised=tuple(raised),
    )


def hold(chosen: Chosen, setting: Setting, history: Sequence[Operation], contract: str) -> None:
    """Drive a watched manager through a history.

    Raises:
        AssertionError: it breaks the contract.
    """
    if contract in broken_by(chosen.factory, setting, history):
        found = Found(setting, divergence(contract, "", history), "")
        raise AssertionError("\n".join(counterexample(chosen, found, ()).lines()))
