"""From what a proof, a tour or a fuzzer returns to a verdict on each contract.

Each check is imported when it is used: `tierproof --help` should not wait for a solver.
"""

from __future__ import annotations

import logging
import os
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

from ..impl.counted import counted
from ..model.rules import RULES
from .contracts import CONTRACTS, PROOF, RUNS, TOUR
from .counterexamples import gather
from .driver import NotAManager
from .managers import SHIPPED, Chosen, UsageError, raised_by
from .report import Report, Result, versions
from .situations import not_reached
from .telling import told

if TYPE_CHECKING:
    from ..model.rules import Rule
    from .found import Found
    from .proof import Verdict

Progress = Callable[[int, int], None]
PROOF_WORKERS = min(4, os.cpu_count() or 1)
A2 = "A2-ask-no-more"
ASKINGS = 200
"""Random workloads on which the two-phase consumer is held to A2."""
NOT_DRIVEN = "the two-phase consumer is driven on built-in managers only"
NEEDED_CALLS = {
    "R1-reset": ("reset_cache", "on_reset_flushed"),
    "A1-promote-what-is-read": ("exists", "plan_load"),
}
"""Optional calls without which a manager cannot be held to a contract at all."""


# -- proof ---------------------------------------------------------------------------------------


def by_proof(
    chosen: Chosen | None, report: Report, *, seeds: Sequence[int] = (0,)
) -> list[Verdict]:
    """Prove the table, or the break of it that a built-in faulty manager brings."""
    from .proof import prove

    rules = _table_of(chosen)
    started = time.monotonic()
    every: list[Verdict] = []
    for seed in seeds:
        every += prove(rules, seed=seed, workers=PROOF_WORKERS)
    by_contract: dict[str, list[Verdict]] = {
        c.id: [] for c in CONTRACTS.values() if PROOF in c.methods
    }
    for verdict in every:
        by_contract.setdefault(verdict.contract, []).append(verdict)
    report.results += [_proof_result(c, mine) for c, mine in by_contract.items()]
    found = Counter(v.verdict for v in every)
    told_seeds = counted(len(seeds), "seed") if len(seeds) > 1 else f"seed {seeds[0]}"
    report.lines.append(
        f"proof: {counted(len(every), 'obligation')} in {time.monotonic() - started:.1f} s: "
        f"{', '.join(f'{n:,} {verdict}' for verdict, n in found.items())} "
        f"(z3 {versions()['z3']}, {told_seeds})"
    )
    return every


def _table_of(chosen: Chosen | None) -> Sequence[Rule]:
    return RULES if chosen is None or chosen.rules is None else chosen.rules


def by_readings(chosen: Chosen | None, report: Report) -> None:
    """Compare what the model executes with what the solver reads: the proof is about the latter."""
    from .readings import compare

    started = time.monotonic()
    found = compare(_table_of(chosen))
    report.doubts += [f"the readings of the table differ: {d}" for d in found.differences[:5]]
    agree = f"{len(found.differences):,} differ" if found.differences else "all agree"
    report.lines.append(
        f"readings: {counted(found.cases, 'comparison')} of the concrete and the symbolic reading "
        "in "
        f"{time.monotonic() - started:.1f} s: {agree}"
    )


def _proof_result(contract: str, mine: Sequence[Verdict]) -> Result:
    found = Counter(v.verdict for v in mine)
    counts = {"obligations": len(mine), **found}
    seconds = sum(v.seconds for v in mine)
    if found["refuted"]:
        says = _refutations([v for v in mine if v.verdict == "refuted"])
        return Result(contract, PROOF, "violated", counts, seconds, says)
    if found["unknown"]:
        first = next(v for v in mine if v.verdict == "unknown")
        says = f"the solver could not decide {first.obligation!r} for the rule {first.rule}"
        return Result(contract, PROOF, "unknown", counts, seconds, says)
    if not mine:  # nothing proved is not a proof
        return Result(contract, PROOF, "unknown", counts, seconds, "no obligation speaks of it")
    return Result(contract, PROOF, "proved", counts, seconds)


SHOWN = 6
"""How many words of a refuting world are worth reading."""
ALSO = 3
"""How many refuted obligations are named besides the one that is shown in full."""


def _refutations(refuted: Sequence[Verdict]) -> str:
    """The first in full, those of other rules or obligations by name."""
    first, *others = refuted
    told = _refutation(first)
    named = dict.fromkeys(f"the rule {v.rule} breaks {v.obligation!r}" for v in others)
    if not named:
        return told
    left = f" and {len(named) - ALSO} more" if len(named) > ALSO else ""
    return f"{told}; also {', '.join(list(named)[:ALSO])}{left}"


def _refutation(verdict: Verdict) -> str:
    """What a refuted obligation is about: the rule, and what it changes in the world shown."""
    before, after = verdict.before, verdict.after
    mine = {word: value for word, value in before.items() if "other" not in word}
    changed = [f"{w} {v} -> {after[w]}" for w, v in mine.items() if after.get(w, v) != v]
    changed += [f"{w} {v}" for w, v in after.items() if w not in before]
    if len(changed) < 2:  # nothing moves: what is wrong is the answer, given in this state
        changed = [f"{word} {value}" for word, value in mine.items()] + changed
    told = f"the rule {verdict.rule} breaks {verdict.obligation!r}"
    return f"{told}: {', '.join(changed[:SHOWN])}" if changed else told


# -- on a manager --------------------------------------------------------------------------------


def by_tour(chosen: Chosen, report: Report, progress: Progress | None = None) -> list[Found]:
    """Drive the manager through every reachable case."""
    if chosen.watched:
        from . import watched

        return watched.by_tour(chosen, report, progress)
    from .tour import Patience, tour

    patience = Patience(counts=chosen.answers_for)
    with driving(chosen):
        result = tour(chosen.factory, progress=progress, patience=patience)
    rules = len(result.rules)
    counts = {
        "cases": result.cases,
        "states": result.states,
        "operations": result.operations,
        "rules": rules,
    }
    judge(chosen, report, TOUR, counts, result)
    report.lines.append(
        f"tour: {counted(result.cases, 'case')}, {counted(result.states, 'state')}, "
        f"{counted(result.operations, 'operation')} "
        f"in {result.seconds:.1f} s; {rules} of "
        f"{counted(rules + len(result.missing_rules), 'rule')} fired"
    )
    if result.divergences:
        report.lines.append(
            "where it has gone wrong it is not led on: what holds, holds in the cases that were "
            "reached"
        )
    elif result.missing_rules:
        missing = f"rules that never fired: {', '.join(result.missing_rules)}"
        # a manager that lacks a call cannot be led everywhere
        (report.lines if chosen.lacks else report.doubts).append(missing)
    return result.divergences


def by_runs(
    chosen: Chosen,
    report: Report,
    *,
    examples: int,
    seed: int,
    files: int = 0,
    progress: Progress | None = None,
) -> list[Found]:
    """Drive the manager through random histories, `files` operations of them over real files."""
    if chosen.watched:
        from . import watched

        return watched.by_runs(chosen, report, examples=examples, seed=seed, progress=progress)
    from .machine import fuzz
    from .real_tiers import with_files

    with driving(chosen):
        result = fuzz(
            chosen.factory,
            examples=examples,
            seed=seed,
            progress=progress,
            counts=chosen.answers_for,
        )
        real = with_files(chosen.factory, operations=files, seed=seed, counts=chosen.answers_for)
    counts = {
        "examples": result.examples,
        "operations": result.operations + real.operations,
        "blocks_written": real.stored,
        "blocks_read": real.loaded,
        "seed": seed,
    }
    result.divergences += real.divergences
    result.reached |= real.reached
    result.seconds += real.seconds
    judge(chosen, report, RUNS, counts, result)
    ask_no_more_of(chosen, report, seed)
    seconds = result.seconds - real.seconds
    report.lines.append(
        f"runs: {counted(result.examples, 'history', 'histories')}, "
        f"{counted(result.operations, 'operation')} in "
        f"{seconds:.1f} s (hypothesis {versions()['hypothesis']}, seed {seed})"
    )
    report.lines += fewer(result.examples, examples, "runs")
    if files:
        report.lines.append(
            f"files: {counted(real.operations, 'operation')} over a real file tier in "
            f"{real.seconds:.1f} s; "
            f"{counted(real.stored, 'block')} written, {real.loaded:,} read back and compared"
        )
    report.lines += fewer(real.operations, files, "files")
    return result.divergences


def fewer(done: int, asked: int, what: str) -> list[str]:
    """What is said where less was tried than was asked for; nothing where it was not less."""
    return [f"{what}: fewer than the {asked:,} that were asked for"] if done < asked else []


def ask_no_more_of(chosen: Chosen, report: Report, seed: int) -> None:
    """The consumer is held to A2 on workloads of its own: a history of calls does not show it."""
    from .askings import NEEDED, ask_no_more

    if A2 not in chosen.claims:
        report.results.append(Result(A2, RUNS, "not_claimed"))
        return
    missing = [call for call in NEEDED if call in chosen.lacks]
    if missing or not chosen.ours:
        says = f"the manager has no {', '.join(missing)}" if missing else NOT_DRIVEN
        report.results.append(Result(A2, RUNS, "not_observable", says=says))
        return
    started = time.monotonic()
    with driving(chosen):
        try:
            found = ask_no_more(chosen.factory, examples=ASKINGS, seed=seed)
        except Exception as error:  # of a faulty manager, where the consumer was right
            if chosen.spec == SHIPPED:
                raise
            says = f"the consumer could not be driven: {told(error)}"
            report.results.append(Result(A2, RUNS, "skipped", says=says))
            return
    seconds = time.monotonic() - started
    counts = {"workloads": found.workloads, "checks": found.checks, "seed": seed}
    verdict = "violated" if found.broken else "skipped" if found.others else "holds"
    says = "; ".join(found.broken + found.others)
    if verdict == "holds" and not found.checks:
        verdict, says = "not_reached", "no key was asked for"
    report.results.append(Result(A2, RUNS, verdict, counts, seconds, says))
    report.lines.append(
        f"consumer: {counted(found.workloads, 'workload')}, {counted(found.checks, 'key')} asked "
        "for in "
        f"{seconds:.1f} s"
    )


@contextmanager
def driving(chosen: Chosen) -> Iterator[None]:
    """What a user's manager raises where nothing was prepared for it is not our fault.

    Tiers fail by the thousand on purpose; the shipped manager need not tell each time.
    """
    logger = logging.getLogger("tierproof")
    level = logger.level
    logger.setLevel(logging.CRITICAL + 1)
    try:
        yield
    except NotAManager as mistake:
        raise UsageError(f"{chosen.spec} could not be driven on: {mistake}") from mistake
    except Exception as error:
        if raised_by(chosen, error):
            raise UsageError(
                f"{chosen.spec} could not be driven on: {told(error)}; only the calls of a step "
                "may raise, and only ContractViolation"
            ) from error
        raise
    finally:
        logger.setLevel(level)


class Driven(Protocol):
    """What a way of driving a manager saw."""

    divergences: list[Found]
    reached: set[str]
    seconds: float


def judge(
    chosen: Chosen, report: Report, method: str, counts: Mapping[str, int], result: Driven
) -> None:
    """Give each contract of a method its verdict."""
    for contract in CONTRACTS.values():
        if method in contract.methods and contract.id != A2:
            report.results.append(judged(chosen, contract.id, method, counts, result))


def judged(
    chosen: Chosen, contract: str, method: str, counts: Mapping[str, int], result: Driven
) -> Result:
    """What a method found of one contract."""
    times = sum(f.contract == contract for f in result.divergences)
    verdict, says = verdict_on(chosen, contract, method, times, result.reached)
    mine = {**counts, "divergences": times}
    return Result(contract, method, verdict, mine, result.seconds, says)


def verdict_on(
    chosen: Chosen, contract: str, method: str, times: int, reached: Collection[str]
) -> tuple[str, str]:
    """The verdict of a method on one contract, and why.

    `times` is how often the contract was found broken, `reached` what came about on the way with
    the manager in step (`situations`).
    """
    if contract not in chosen.claims:
        return "not_claimed", ""
    gap = chosen.known_gaps.get(contract)
    if times:
        return ("violated", "") if gap is None else ("expected_failure", gap)
    missing = [p for p in CONTRACTS[contract].needs if p not in chosen.probes]
    if missing:
        return "not_observable", f"the manager has no probe {', '.join(missing)}"
    missing = [call for call in NEEDED_CALLS.get(contract, ()) if call in chosen.lacks]
    if missing:
        return "not_observable", f"the manager has no {', '.join(missing)}"
    lacking = not_reached(contract, reached)
    if lacking:
        return "not_reached", lacking
    if gap is not None and method == TOUR:  # the tour is the same every time, so it is strict
        return "gap_closed", f"it is kept now: take it out of known_gaps ({gap})"
    return "holds", ""


def add_counterexamples(
    chosen: Chosen,
    report: Report,
    found: Mapping[str, Sequence[Found]],
    progress: Progress | None = None,
) -> None:
    """Show each contract that the manager was found to break by its shortest history."""
    by_method: dict[str, list[Found]] = defaultdict(list)
    for method, several in found.items():
        by_method[method] += several
    with driving(chosen):
        report.counterexamples += gather(chosen, by_method, report.violated(), progress=progress)
