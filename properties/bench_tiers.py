"""`bench tiers`: what the file tiers move, as a share of what their disk and stock's tier move.

Every round moves new blocks into empty tiers, then as many others into the full *files* tier, each
of which sends one away, as in a cache that has run for a while (a *slab* writes over its slots in
either case, and stock keeps all). O_DIRECT keeps the page cache out of the way; where a file system
refuses it, the report says so.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from statistics import median

from ..impl.tiers.base import Tier
from ..impl.tiers.block_file import file_bytes
from ..impl.tiers.file_io import THREADS
from ..impl.tiers.files import FileTier
from ..impl.tiers.slab import SlabTier
from ..impl.tiers.slab_file import file_length
from .bench_fio import FioError, huge_bytes
from .bench_limits import DiskLimit
from .bench_rounds import (
    MIB,
    Pump,
    Step,
    Steps,
    emptied,
    moved,
    ratio,
    rounds_of,
    step_of,
    tell_goal,
)
from .bench_stock import VERSION, StockFileTier, stock_release
from .managers import UsageError
from .report import Measure, Report
from .vllm_loader import Release


def file_tiers(
    report: Report,
    folder: Path,
    *,
    sizes: Sequence[int],
    total: int,
    rounds: int,
    progress: Callable[[int, int], None],
) -> None:
    """Both layouts against the disk's limit, and the stock file tier where it is at hand."""
    stock, told = _stock()
    for size in sizes:
        blocks = max(8, total // size)
        with tempfile.TemporaryDirectory(prefix="tierproof-", dir=folder) as name:
            root = Path(name)
            limit = DiskLimit(root, block_bytes=size, blocks=blocks)
            files = FileTier(root / "f", capacity_bytes=(blocks + 4) * file_bytes(size))
            slab = SlabTier(root / "s", capacity_bytes=file_length(blocks + 4, size))
            tiers: dict[str, Tier] = {"files": files, "slab": slab}
            if stock is not None:
                tiers["stock"] = StockFileTier(stock, root / "v")
            pumps = {name: Pump(tier, size) for name, tier in tiers.items()}
            keys = [b"block %d" % n for n in range(blocks)]
            others = [b"other %d" % n for n in range(blocks)]
            stores: Steps = {"limit write": step_of(limit.write)}
            loads: Steps = {"limit read": step_of(limit.read)}
            for name, pump in pumps.items():
                stores[f"{name} store"] = emptied(pump, keys)
                loads[f"{name} load"] = moved(pump, others if name == "files" else keys, "load")
            full: Steps = {"files store when full": moved(pumps["files"], others, "store")}
            worked: dict[str, list[float]] = {}
            phases = [_metered(steps, pumps, worked) for steps in (stores, full, loads)]
            try:
                found = rounds_of(rounds, phases, progress)
                checksum = min(pumps["slab"].checksum() for _ in range(rounds))
            except FioError as error:
                raise UsageError(f"the disk's limit could not be measured: {error}") from error
            finally:
                for pump in pumps.values():
                    pump.close()
                limit.close()
            _compare(report, found, size, LIMITS, "of the limit")
            if stock is not None:
                _compare(report, found, size, STOCK, f"of vLLM {VERSION}'s file tier")
            if size == 4 * MIB:
                report.lines.append(_processor_time(worked, checksum))
            if size == sizes[0]:
                direct = (
                    "O_DIRECT" if files.direct else "buffered: the file system refuses O_DIRECT"
                )
                report.lines.append(
                    f"the disk's limit is measured by {limit.by}; our tiers: {direct}, {THREADS} "
                    f"threads, {_on_huge_pages(pumps.values())}"
                )
    report.lines.append(told)


LIMITS = (
    ("slab store", "limit write", 0.9),
    ("files store", "limit write", 0.4),
    ("files store when full", "limit write", 0.4),
    ("slab load", "limit read", 0.9),
    ("files load", "limit read", 0.9),
)
"""What is compared with what, and the ratio that is the goal with blocks of 4 MiB."""
STOCK = (
    ("files store", "stock store", 1.0),
    ("files store when full", "stock store", 1.0),
    ("slab store", "stock store", 1.0),
    ("files load", "stock load", 1.0),
    ("slab load", "stock load", 1.0),
)


def _stock() -> tuple[Release | None, str]:
    try:
        release, by = stock_release()
    except UsageError as why:
        return None, f"the file tier of vLLM {VERSION} is not compared: {why}"
    return release, f"the file tier of vLLM {VERSION} moves its bytes by {by}"


def _compare(
    report: Report,
    found: dict[str, list[float]],
    size: int,
    pairs: Sequence[tuple[str, str, float]],
    of: str,
) -> None:
    for what, to, goal in pairs:
        named = f"{what}, {size // MIB} MiB, {of}"
        report.measures.append(Measure(named, ratio(found[what], found[to]), ""))
        if size == 4 * MIB:
            tell_goal(report, named, found[what], found[to], goal)


def _metered(steps: Steps, pumps: dict[str, Pump], worked: dict[str, list[float]]) -> Steps:
    """The same steps, which also write down what a block takes of the processor."""

    def metered(name: str, step: Step) -> Step:
        pump = pumps.get(name.split()[0])  # none for the limit, which may be another process

        def run(number: int) -> float:
            speed = step(number)
            if pump is not None:
                worked.setdefault(name, []).append(pump.processor)
            return speed

        return run

    return {name: metered(name, step) for name, step in steps.items()}


def _processor_time(worked: dict[str, list[float]], checksum: float) -> str:
    told = ", ".join(f"{name} {median(took) * 1e3:.2f}" for name, took in worked.items())
    return (
        f"processor time for a block of 4 MiB, in ms: {told}; {checksum * 1e3:.2f} of each but "
        "stock's is its checksum"
    )


def _on_huge_pages(pumps: Iterable[Pump]) -> str:
    arenas = sum(len(pump.rig.arena.view) for pump in pumps)
    huge = min(arenas, huge_bytes(os.getpid()))
    return f"{huge >> 20} of {arenas >> 20} MiB of all tiers' buffers on huge pages"
