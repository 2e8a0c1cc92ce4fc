"""`bench tiers`: what a tier moves, as a share of what its disk or its client library alone moves.

Rounds alternate between the sides, and who comes first changes from round to round, so that a busy
neighbour hurts all; a figure is the median of the rounds' ratios. Every round moves new blocks into
empty tiers, then as many others into the full *files* tier, each of which sends one away, as in a
cache that has run for a while (a *slab* writes over its slots in either case, and stock keeps all).
O_DIRECT keeps the page cache out of the way; where a file system refuses it, the report says so.
"""

from __future__ import annotations

import importlib
import os
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from importlib.metadata import version
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple, TypeAlias

from ..impl.arena import Arena
from ..impl.tiers.base import LoadJob, StoreJob, Tier
from ..impl.tiers.block_file import file_bytes
from ..impl.tiers.block_tier import BlockTier
from ..impl.tiers.file_io import THREADS
from ..impl.tiers.files import FileTier
from ..impl.tiers.object_store import ObjectStoreTier
from ..impl.tiers.redis import RedisTier
from ..impl.tiers.slab import SlabTier
from ..impl.tiers.slab_file import file_length
from .bench_fio import FioError, huge_bytes
from .bench_limits import DiskLimit
from .bench_stock import VERSION, StockFileTier, stock_release
from .managers import UsageError
from .report import Measure, Report
from .servers import NoServerError, RedisServer, SeaweedServer
from .tier_rig import TierRig
from .vllm_loader import Release

MIB = 1 << 20
CLIENTS = 4
"""Calls at once to a server, by the tier and by its client library alone."""
_IN_FLIGHT = 128 * MIB
_PAUSE = 0.0002


class Pump:
    """Moves many blocks through a tier, as many at once as the arena holds."""

    def __init__(self, tier: Tier, block_bytes: int) -> None:
        self.tier: Any = tier
        self.slots = max(8, min(128, _IN_FLIGHT // block_bytes))
        self.rig = TierRig(tier, slots=self.slots, block_bytes=block_bytes)
        noise = bytes(range(256)) * 16
        for slot in range(self.slots):  # like the limit's buffers: touched, and not all zero
            self.rig.arena.row(slot)[:] = (noise * (block_bytes // 4096 + 1))[:block_bytes]
        self.block_bytes = block_bytes

    def move(self, keys: Sequence[bytes], what: str) -> float:
        """GB/s for storing or loading the keys, one job a key."""
        free, landed = list(range(self.slots)), 0
        open_jobs: dict[int, int] = {}
        waiting = list(reversed(keys))
        number = len(self.rig.jobs)
        began = time.perf_counter()
        while waiting or open_jobs:
            while waiting and free:
                slot, key = free.pop(), waiting.pop()
                number += 1
                job_id = 1_000_000 + number
                self.rig.jobs[job_id] = (key,)
                if what == "store":
                    refused = self.tier.submit_store(StoreJob(job_id, (key,), (slot,)))
                    assert not refused, "the queue is shorter than the arena"
                else:
                    self.tier.submit_load(LoadJob(job_id, (key,), (slot,)))
                open_jobs[job_id] = slot
            for report in self.rig.poll():
                free.append(open_jobs.pop(report.job_id))
                landed += len(report.landed)
            if open_jobs:
                time.sleep(_PAUSE)
        took = time.perf_counter() - began
        if landed != len(keys):
            raise RuntimeError(f"{what}: {len(keys) - landed} of {len(keys)} blocks failed")
        return len(keys) * self.block_bytes / took / 1e9

    def empty(self) -> None:
        """Clear the tier, and wait for it."""
        self.tier.clear()
        if isinstance(self.tier, BlockTier):
            index = self.tier._index
            self.rig.until(lambda: not index.clearing, "T7-bounded", "no end of a clear")

    def close(self) -> None:
        """End the tier."""
        self.rig.close()


Steps: TypeAlias = dict[str, Callable[[int], float]]
"""What is measured, by name; each is told the number of the round."""


def rounds_of(
    rounds: int, phases: Sequence[Steps], progress: Callable[[int, int], None]
) -> dict[str, list[float]]:
    """Every step's figure in every round: a phase after the other, begun with another step each."""
    found: dict[str, list[float]] = {name: [] for steps in phases for name in steps}
    for number in range(rounds):
        progress(number, rounds)
        for steps in phases:
            names = list(steps)
            first = number % len(names)
            for name in names[first:] + names[:first]:
                found[name].append(steps[name](number))
    return found


def ratio(of: list[float], to: list[float]) -> float:
    """The median of the rounds' ratios."""
    return median(a / b for a, b in zip(of, to, strict=True))


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
            stores: Steps = {"limit write": _step(limit.write)}
            loads: Steps = {"limit read": _step(limit.read)}
            for name, pump in pumps.items():
                stores[f"{name} store"] = _emptied(pump, keys)
                loads[f"{name} load"] = _moved(pump, others if name == "files" else keys, "load")
            full: Steps = {"files store when full": _moved(pumps["files"], others, "store")}
            try:
                found = rounds_of(rounds, [stores, full, loads], progress)
            except FioError as error:
                raise UsageError(f"the disk's limit could not be measured: {error}") from error
            finally:
                for pump in pumps.values():
                    pump.close()
                limit.close()
            _compare(report, found, size, LIMITS, "of the limit")
            if stock is not None:
                _compare(report, found, size, STOCK, f"of vLLM {VERSION}'s file tier")
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
            report.lines.append(_goal(named, found[what], found[to], goal))


def _step(call: Callable[[], float]) -> Callable[[int], float]:
    return lambda number: call()


def _emptied(pump: Pump, keys: Sequence[bytes]) -> Callable[[int], float]:
    def store(number: int) -> float:
        pump.empty()
        return pump.move(keys, "store")

    return store


def _moved(pump: Pump, keys: Sequence[bytes], what: str) -> Callable[[int], float]:
    return lambda number: pump.move(keys, what)


def _on_huge_pages(pumps: Iterable[Pump]) -> str:
    arenas = sum(len(pump.rig.arena.view) for pump in pumps)
    huge = min(arenas, huge_bytes(os.getpid()))
    return f"{huge >> 20} of {arenas >> 20} MiB of all tiers' buffers on huge pages"


def _goal(what: str, of: list[float], to: list[float], goal: float) -> str:
    reached = ratio(of, to)
    word = "reached" if reached >= goal else "missed"
    return (
        f"{what}: {median(of):.2f} GB/s of {median(to):.2f}, ratio {reached:.2f}; "
        f"goal {goal:g} {word}"
    )


def remote_tiers(
    report: Report, *, size: int, total: int, rounds: int, progress: Callable[[int, int], None]
) -> None:
    """Redis and the object store against their client libraries, on servers of our own."""
    for name, make, measure in (
        ("redis", RedisServer, _redis_sides),
        ("s3", SeaweedServer, _s3_sides),
    ):
        with tempfile.TemporaryDirectory(prefix="tierproof-", ignore_cleanup_errors=True) as folder:
            try:
                server: Any = make(Path(folder))
                server.start()
            except NoServerError as error:
                report.lines.append(f"{name}: not measured; {error}")
                continue
            try:
                blocks = max(8, total // size)
                keys = [b"block %d" % n for n in range(blocks)]
                arena = Arena(slots=8, block_bytes=size)
                sides = measure(server, arena)
                pump = Pump(sides.tier, size)
                stores: Steps = {
                    "client put": _step(partial(_alone, sides.put, blocks, size)),
                    "store": _emptied(pump, keys),
                }
                loads: Steps = {
                    "client get": _step(partial(_alone, sides.get, blocks, size)),
                    "load": _moved(pump, keys, "load"),
                }
                found = rounds_of(rounds, [stores, loads], progress)
                pump.close()
            finally:
                server.kill()
            for what, to in (("store", "client put"), ("load", "client get")):
                value = ratio(found[what], found[to])
                text = f"{name} {what}, {size // MIB} MiB, of the client alone"
                report.measures.append(Measure(text, value, ""))
                report.lines.append(_goal(f"{name} {what}", found[what], found[to], 0.8))
            report.lines.append(f"{name} is measured with {sides.by}, {CLIENTS} calls at once")


def _alone(call: Callable[[int], object], blocks: int, size: int) -> float:
    with ThreadPoolExecutor(CLIENTS) as pool:
        began = time.perf_counter()
        list(pool.map(call, range(blocks)))
        return blocks * size / (time.perf_counter() - began) / 1e9


class _Sides(NamedTuple):
    """A tier, and its client library alone: what puts and gets block n, and what that is."""

    tier: Tier
    put: Callable[[int], object]
    get: Callable[[int], object]
    by: str


def _redis_sides(server: RedisServer, arena: Arena) -> _Sides:
    from ..impl.tiers.redis_store import client_library

    library = client_library()
    client = (getattr(library, "Valkey", None) or library.Redis)(port=server.port)
    data = [arena.row(slot).tobytes() for slot in range(8)]
    return _Sides(
        RedisTier(server.url, threads=CLIENTS),
        lambda n: client.set(f"alone {n}", data[n % 8]),
        lambda n: client.get(f"alone {n}"),
        f"{library.__name__} {version(library.__name__)} and redis-server on this machine",
    )


def _s3_sides(server: SeaweedServer, arena: Arena) -> _Sides:
    obstore: Any = importlib.import_module("obstore")
    store = server.store(30.0)
    return _Sides(
        ObjectStoreTier(store, threads=CLIENTS, timeout=30.0),
        lambda n: obstore.put(store, f"alone/{n}", arena.row(n % 8), use_multipart=False),
        lambda n: obstore.get(store, f"alone/{n}").bytes(),
        f"obstore {version('obstore')} and SeaweedFS on this machine",
    )
