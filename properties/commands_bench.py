"""The command `bench verify`: what the checks of `verify` cost on this machine.

Goals are for two cores. A goal that is missed is shown, and changes the exit code with `--check`
alone: the machine may be a slow one.
"""

from __future__ import annotations

import resource
import time

from .checks import PROOF_WORKERS, by_proof, by_readings, by_runs, by_tour
from .commands_verify import FILES, a_seed
from .managers import resolve
from .report import Measure, Report
from .terminal import Terminal

PROOF_GOAL, TOUR_GOAL, VERIFY_GOAL = 5.0, 10.0, 120.0
MEMORY_GOAL = 2048.0


def bench_verify(terminal: Terminal, *, examples: int, seed: int | None) -> Report:
    """Time each check once, in this process, and read the memory that it has taken at most."""
    chosen = resolve()
    report = Report("bench verify", chosen.spec)
    began = time.perf_counter()
    with terminal.progress("proof"):
        by_proof(chosen, report)
    proved = time.perf_counter()
    with terminal.progress("readings"):
        by_readings(chosen, report)
    compared = time.perf_counter()
    with terminal.progress("tour") as step:
        by_tour(chosen, report, step)
    toured = time.perf_counter()
    with terminal.progress("runs") as step:
        by_runs(chosen, report, examples=examples, seed=a_seed(seed), files=FILES, progress=step)
    ended = time.perf_counter()
    report.measures += [
        Measure("proof", proved - began, "s", PROOF_GOAL),
        Measure("comparison of the readings", compared - proved, "s"),
        Measure("tour", toured - compared, "s", TOUR_GOAL),
        Measure("runs", ended - toured, "s"),
        Measure("all of them, as verify does", ended - began, "s", VERIFY_GOAL),
        Measure("memory at most", _peak_mib(), "MiB", MEMORY_GOAL),
        *_counts(report),
    ]
    return report


def _peak_mib() -> float:
    """Of this process, and as much as the largest of the proof's workers for each of them."""
    here = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    worker = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    return (here + PROOF_WORKERS * worker) / 1024  # Linux counts in KiB


def _counts(report: Report) -> list[Measure]:
    """What was counted, once for each method."""
    obligations = sum(r.counts.get("obligations", 0) for r in report.results)
    told = [Measure("obligations", obligations, "")]
    for method in ("tour", "runs"):
        first = next((r for r in report.results if r.method == method), None)
        for name, n in (first.counts if first else {}).items():
            if name not in ("seed", "divergences"):
                told.append(Measure(f"{name} ({method})", n, ""))
    return told
