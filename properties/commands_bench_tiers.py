"""The command `bench tiers`."""

from __future__ import annotations

import tempfile
from pathlib import Path

from .bench_calls import calls_beside_memcpy, calls_beside_tiers, percentile
from .bench_tiers import MIB, file_tiers, remote_tiers
from .report import Measure, Report
from .terminal import Terminal

SIZES = (MIB, 4 * MIB, 16 * MIB)


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
    with terminal.progress("manager calls"):
        beside = calls_beside_memcpy(block_bytes=4 * MIB, total=moved)
        with tempfile.TemporaryDirectory(prefix="tierproof-", dir=folder) as root:
            with_tiers = calls_beside_tiers(Path(root), block_bytes=4 * MIB, total=moved)
    here, there = percentile(with_tiers, 0.999), percentile(beside, 0.999)
    report.measures += [
        Measure("manager call, 99.9th percentile, tiers at work", here * 1e6, "µs"),
        Measure("the same, beside a memcpy of as many bytes", there * 1e6, "µs"),
        Measure("ratio of the two", here / there, "", 3.0),
    ]
    report.lines.append(f"{len(with_tiers):,} and {len(beside):,} calls, {rounds} rounds")
    return report
