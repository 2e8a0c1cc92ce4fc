"""The commands that go on for long: `soak`, and `tour --exhaustive`."""

from __future__ import annotations

import json
from pathlib import Path

from ..impl.counted import counted
from .checks import driving, judged
from .contracts import CONTRACTS, TOUR
from .counterexamples import gather
from .generated_tests import write_tests
from .managers import Chosen, UsageError
from .report import Measure, Report, Result, write_json
from .soak import SoakResult, from_numbers, numbers, soak
from .terminal import Terminal, conclusion

EXHAUSTIVE = "exhaustive"
SOAKED = (
    "S1-slot-exclusive",
    "S3-pins",
    "F3-tier-raises",
    "W1-pending-work",
    "E1-events",
    "D1-bytes",
)
"""What a soak can see broken: bytes, conservation, events, exceptions, work that never ends."""
NOT_DRIVEN = (
    *("F3-tier-raises", "P1-progress", "C2-cascade-reoffered", "A1-promote-what-is-read"),
)
"""In small scopes no tier raises, nothing is planned, and no time passes: a copy is offered again
after a pause."""
GOAL_SECONDS = 120.0


def tour_exhaustively(chosen: Chosen, terminal: Terminal, *, folder: Path) -> Report:
    """Every interleaving of a few operations."""
    from .exhaustive import exhaustive

    report = Report("tour", chosen.spec)
    with terminal.progress("small scopes") as step, driving(chosen):
        result = exhaustive(chosen.factory, progress=step)
    counts = {
        "histories": result.histories,
        "states": result.states,
        "operations": result.operations,
        "depth": result.depth,
    }
    for contract in CONTRACTS.values():
        broken = any(f.contract == contract.id for f in result.divergences)
        if TOUR in contract.methods and (broken or contract.id not in NOT_DRIVEN):
            report.results.append(judged(chosen, contract.id, EXHAUSTIVE, counts, result))
    report.lines.append(
        f"exhaustive: {counted(result.histories, 'history', 'histories')} of up to "
        f"{counted(result.depth, 'operation')}, "
        f"{counted(result.states, 'state')}, in {result.seconds:.1f} s "
        f"({result.rate:,.0f} a second)"
    )
    with terminal.progress("counterexamples") as step, driving(chosen):
        report.counterexamples += gather(
            chosen, {EXHAUSTIVE: result.divergences}, report.violated(), progress=step
        )
    command = f"tierproof tour --exhaustive --manager {chosen.spec}"
    report.counterexamples = write_tests(report.counterexamples, folder, command)
    report.measures.append(Measure("small scopes", result.seconds, "s", GOAL_SECONDS))
    report.lines.append(conclusion(report))
    return report


def soak_long(
    chosen: Chosen, terminal: Terminal, *, operations: int, seed: int, kept: Path | None
) -> Report:
    """Random calls on the shipped manager with real tiers; goes on where the report `kept` ends.

    Raises:
        UsageError: the report is of another soak.
    """
    so_far = _resumed(kept, seed)
    with terminal.patiently("soak") as step, driving(chosen):
        result = soak(
            operations,
            seed,
            so_far=so_far,
            progress=step,
            after_round=None if kept is None else lambda r: write_json(_report(r), kept),
        )
    return _report(result)


def _resumed(kept: Path | None, seed: int) -> SoakResult | None:
    if kept is None or not kept.exists():
        return None
    try:
        told = json.loads(kept.read_text(encoding="utf-8"))
        first = told["results"][0]
        so_far = from_numbers(first["counts"], first["seconds"])
    except (ValueError, LookupError, TypeError) as error:
        raise UsageError(f"--json {kept}: that is no report of a soak to go on from") from error
    if told.get("command") != "soak" or so_far.seed != seed or told.get("exit") != 0:
        raise UsageError(
            f"--json {kept}: that report is of another command or seed, or of a soak that failed; "
            "name another file"
        )
    return so_far


def _report(result: SoakResult) -> Report:
    report = Report("soak", "tierproof")
    for contract in SOAKED:
        verdict = "violated" if result.wrong else "holds"
        report.results.append(
            Result(
                contract, "runs", verdict, numbers(result), result.seconds, "; ".join(result.wrong)
            )
        )
    rate = result.operations / result.seconds if result.seconds else 0.0
    report.lines += [
        f"soak: {counted(result.operations, 'operation')} in {counted(result.rounds, 'round')} and "
        f"{result.seconds:,.0f} s ({rate:,.0f} a second), seed {result.seed}; "
        f"{counted(result.hits_read, 'block')} read and compared",
        f"memory {result.first_kib / 1024:,.1f} MiB after the first round, "
        f"{result.last_kib / 1024:,.1f} MiB at the end; open files {result.first_files} and "
        f"{result.last_files}",
        *result.wrong,
    ]
    report.lines.append(conclusion(report))
    return report
