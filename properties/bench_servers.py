"""`bench tiers`: Redis and the object store beside their client libraries alone."""

from __future__ import annotations

import importlib
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

from ..impl.arena import Arena
from ..impl.tiers.base import Tier
from ..impl.tiers.object_store import ObjectStoreTier
from ..impl.tiers.redis import RedisTier
from .bench_rounds import MIB, Pump, Steps, emptied, goal_line, moved, ratio, rounds_of, step_of
from .report import Measure, Report
from .servers import NoServerError, RedisServer, SeaweedServer

CLIENTS = 4
"""Calls at once to a server, by the tier and by its client library alone."""


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
                    "client put": step_of(partial(_alone, sides.put, blocks, size)),
                    "store": emptied(pump, keys),
                }
                loads: Steps = {
                    "client get": step_of(partial(_alone, sides.get, blocks, size)),
                    "load": moved(pump, keys, "load"),
                }
                found = rounds_of(rounds, [stores, loads], progress)
                pump.close()
            finally:
                server.kill()
            for what, to in (("store", "client put"), ("load", "client get")):
                value = ratio(found[what], found[to])
                text = f"{name} {what}, {size // MIB} MiB, of the client alone"
                report.measures.append(Measure(text, value, ""))
                report.lines.append(goal_line(f"{name} {what}", found[what], found[to], 0.8))
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
