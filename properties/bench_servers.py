"""`bench tiers`: Redis and the object store beside their client libraries alone."""

from __future__ import annotations

import importlib
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

from ..impl.arena import Arena
from ..impl.tiers.base import Tier
from ..impl.tiers.object_store import ObjectStoreTier
from ..impl.tiers.redis import RedisTier
from .bench_rounds import MIB, Pump, Step, Steps, moved, ratio, rounds_of, step_of, tell_goal
from .report import Measure, Report
from .servers import NoServerError, RedisServer, SeaweedServer

CLIENTS = 4
"""Calls at once to a server, by the tier and by its client library alone."""
GOAL = 0.8
"""Which part of what the client library does alone a tier should do."""
_PAUSE = 0.005
_LARGE = 30 << 20


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
                put = partial(_alone, sides.put, blocks, size)
                stores: Steps = {
                    "client put": _after(
                        (partial(sides.forget, blocks), sides.settle), step_of(put)
                    ),
                    "store": _after((pump.empty, sides.settle), moved(pump, keys, "store")),
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
                tell_goal(report, f"{name} {what}", found[what], found[to], GOAL)
            report.lines.append(f"{name} is measured with {sides.by}, {CLIENTS} calls at once")


def _after(calls: Sequence[Callable[[], None]], step: Step) -> Step:
    """A step after calls that are not timed: both sides write what the server does not have, to a
    server that has done with removing what it had."""

    def run(number: int) -> float:
        for call in calls:
            call()
        return step(number)

    return run


def _alone(call: Callable[[int], object], blocks: int, size: int) -> float:
    with ThreadPoolExecutor(CLIENTS) as pool:
        began = time.perf_counter()
        list(pool.map(call, range(blocks)))
        return blocks * size / (time.perf_counter() - began) / 1e9


class _Sides(NamedTuple):
    """A tier, and its client library alone: what puts and gets block n, what removes the first n
    blocks, what waits until the server has removed all, and what that is."""

    tier: Tier
    put: Callable[[int], object]
    get: Callable[[int], object]
    forget: Callable[[int], None]
    settle: Callable[[], None]
    by: str


def _redis_sides(server: RedisServer, arena: Arena) -> _Sides:
    from ..impl.tiers.redis_store import client_library

    library = client_library()
    client = (getattr(library, "Valkey", None) or library.Redis)(port=server.port)
    data = [arena.row(slot).tobytes() for slot in range(8)]
    # glibc then keeps what the client allocates for each block, and does not have it mapped, and
    # every page of it touched, again: without, the client alone stores a third as fast.
    bytearray(_LARGE)

    def forget(blocks: int) -> None:
        client.unlink(*(f"alone {n}" for n in range(blocks)))

    def settle() -> None:
        while int(client.info("memory").get("lazyfree_pending_objects", 0)):
            time.sleep(_PAUSE)

    return _Sides(
        RedisTier(server.url, threads=CLIENTS),
        lambda n: client.set(f"alone {n}", data[n % 8]),
        lambda n: client.get(f"alone {n}"),
        forget,
        settle,
        f"{library.__name__} {version(library.__name__)} and redis-server on this machine",
    )


def _s3_sides(server: SeaweedServer, arena: Arena) -> _Sides:
    obstore: Any = importlib.import_module("obstore")
    store = server.store(30.0)

    def forget(blocks: int) -> None:
        obstore.delete(store, [f"alone/{n}" for n in range(blocks)])

    return _Sides(
        ObjectStoreTier(store, threads=CLIENTS, timeout=30.0),
        lambda n: obstore.put(store, f"alone/{n}", arena.row(n % 8), use_multipart=False),
        lambda n: obstore.get(store, f"alone/{n}").bytes(),
        forget,
        lambda: None,  # it answers when all are gone
        f"obstore {version('obstore')} and SeaweedFS on this machine",
    )
