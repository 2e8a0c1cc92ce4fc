"""The command `bench tiers`."""

from __future__ import annotations

from pathlib import Path
from statistics import median

from .bench_calls import rounds_beside
from .bench_tiers import MIB, file_tiers, remote_tiers
from .report import Measure, Report
from .terminal import Terminal

SIZES = (MIB, 4 * MIB, 16 * MIB)
CALLS_GOAL = 3.0
"""How much longer the slowest call in a thousand may take while tiers move as many bytes."""


def bench_tiers(
    terminal: Terminal, *, folder: Path, total: int, moved: int, rounds: int, remote: bool
) -> Report:
    """Measure the tiers; goals that are missed are told and change no exit code.

    `total` bytes go through each tier in each round, `moved` beside the manager's calls.
    """
    report = Report("bench tiers")
    with terminal.progress("file tiers") as step:
        file_tiers(report, folder, sizes=SIZES, total=total, rounds=rounds, progress=step)
    if remote:
        with terminal.progress("servers") as step:
            remote_tiers(
                report, size=4 * MIB, total=min(total, 512 * MIB), rounds=rounds, progress=step
            )
    with terminal.progress("manager calls") as step:
        found = rounds_beside(
            folder, block_bytes=4 * MIB, total=moved, rounds=rounds, progress=step
        )
    report.measures += [
        Measure(
            "manager call, 99.9th percentile, tiers at work",
            median(b.tiers for b in found) * 1e6,
            "µs",
        ),
        Measure(
            "the same, beside a memcpy of as many bytes",
            median(b.memcpy for b in found) * 1e6,
            "µs",
        ),
        Measure("ratio of the two", median(b.tiers / b.memcpy for b in found), "", CALLS_GOAL),
    ]
    report.lines.append(f"{sum(b.calls for b in found):,} calls in {rounds} rounds")
    return report
