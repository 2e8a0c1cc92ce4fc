"""The command `bench tiers`."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from statistics import median

from ..impl.counted import counted
from .bench_calls import SLAB_BLOCKS, rounds_beside
from .bench_rounds import MIB
from .bench_servers import remote_tiers
from .bench_tiers import file_tiers
from .managers import UsageError
from .places import folder_there
from .report import Measure, Report
from .terminal import Terminal

SIZES = (MIB, 4 * MIB, 16 * MIB)
SIDES = 4
"""The limit, both layouts and the stock tier each keep their blocks on the disk."""
CALLS_GOAL = 3.0
"""How much longer the slowest call in a thousand may take while tiers move as many bytes."""


def check_folder(folder: Path, needed: int) -> None:
    """Whether a folder can be written and its disk has room for `needed` bytes.

    Raises:
        UsageError: no; it says what to do.
    """
    folder_there(folder, "--folder", "one on the disk to be measured")
    try:
        with tempfile.TemporaryDirectory(prefix="tierproof-", dir=folder):
            free = shutil.disk_usage(folder).free
    except OSError as error:
        raise UsageError(
            f"cannot write into --folder {folder} ({error.strerror}); name another "
            "folder on the disk to be measured"
        ) from error
    if free < needed:
        raise UsageError(
            f"the disk of --folder {folder} has {free >> 20:,} MiB left, and measuring takes "
            f"{needed >> 20:,}; free some, name a folder on another disk, or lower --mib"
        )


def bench_tiers(
    terminal: Terminal,
    *,
    folder: Path,
    total: int,
    moved: int,
    rounds: int,
    remote: bool,
    sizes: Sequence[int] = (),
) -> Report:
    """Measure the tiers; the report knows which goals are missed.

    `total` bytes go through each tier in each round, `moved` beside the manager's calls; `sizes`
    are those of blocks on the disk, in bytes, `SIZES` where none is given.

    Raises:
        UsageError: the folder cannot be used, or has no room.
    """
    sizes = sizes or SIZES
    beside = SLAB_BLOCKS * 4 * MIB
    check_folder(folder, max(SIDES * (total + 8 * max(sizes)), beside))
    report = Report("bench tiers")
    with terminal.patiently("file tiers") as step:
        file_tiers(report, folder, sizes=sizes, total=total, rounds=rounds, progress=step)
    if remote:
        with terminal.patiently("servers") as step:
            remote_tiers(
                report, size=4 * MIB, total=min(total, 512 * MIB), rounds=rounds, progress=step
            )
    with terminal.patiently("manager calls") as step:
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
    report.lines.append(
        f"{counted(sum(b.calls for b in found), 'call')} in {counted(rounds, 'round')}"
    )
    return report
