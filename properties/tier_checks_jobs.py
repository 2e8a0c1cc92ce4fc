"""Jobs: `T1`, `T2`, `T6`, `T7`, `T8`."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from statistics import median
from typing import Any

from ..impl.tiers.base import NO_REQUEST, LoadJob, StoreJob
from .tier_bench import Bench, keys
from .tier_rig import NotTried, TierBroken, TierRig, payload
from .tier_surroundings import Pipes

SLOW, STUCK = 0.015, 0.3
"""Seconds: a call that usually takes so long waits for something; one that ever does is stuck."""
_ROUNDS = 15
_PILE = 2000


def t1_nonblocking(bench: Bench) -> None:
    """Time the scheduler's calls, on a tier at work and on one whose I/O does not end."""
    with bench.rig() as rig:
        some = keys(8)
        rig.store(*some)
        seconds: dict[str, list[float]] = {}
        for n in range(_ROUNDS):
            calls: dict[str, Callable[[], Any]] = {
                "lookup": lambda: rig.ask(some[0]),
                "lookup of an unknown key": partial(rig.ask, b"unknown %d" % n),
                "submit_store": partial(rig.begin_store, [b"new %d" % n], [8]),
                "submit_load": lambda: rig.begin_load(some[:2], [9, 10]),
                "poll": rig.poll,
            }
            for name, call in calls.items():
                began = time.perf_counter()
                call()
                seconds.setdefault(name, []).append(time.perf_counter() - began)
            rig.until(lambda: set(rig.jobs) <= set(rig.reports), "T2-one-report", "no report")
        for name, took in seconds.items():
            bench.counts["calls"] += len(took)
            if median(took) > SLOW:
                raise TierBroken(
                    "T1-nonblocking", f"{name} usually takes {median(took) * 1000:.0f} ms: it waits"
                )
        if bench.outage is not None:
            bench.outage.stall()
            _while_stuck(calls, bench.outage.release)
            bench.counts["faults"] += 1
        elif bench.stops:
            _behind_pipes(bench, rig, some, calls)


def _behind_pipes(
    bench: Bench, rig: TierRig, stored: Sequence[bytes], calls: dict[str, Callable[[], Any]]
) -> None:
    """The same on a tier of which nothing is known but the files below its root."""
    pipes = Pipes()
    if pipes.put(bench.media, stored, rig.block_bytes):
        _while_stuck(calls, pipes.release)
        bench.counts["faults"] += pipes.waited
    if not pipes.waited:
        raise NotTried(
            "calls were quick, and none of the tier's I/O could be stopped to see whether they "
            "wait for it: give its factory an attribute outage(root), or outage = None if it "
            "depends on nothing that can stop"
        )


def _while_stuck(calls: dict[str, Callable[[], Any]], release: Callable[[], None]) -> None:
    """Call from a thread: one that waits would wait as long as we do not release it."""
    try:
        for name in ("submit_load", *calls):  # a load first, that something is stuck
            for _ in range(5):
                if not _ends(calls[name]):
                    raise TierBroken("T1-nonblocking", f"{name} waits while I/O is stuck")
            time.sleep(0.01)
    finally:
        release()


def _ends(call: Callable[[], Any]) -> bool:
    """Does a call end soon? What it raises is raised."""
    raised: list[BaseException] = []

    def run() -> None:
        try:
            call()
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(STUCK)
    for error in raised:
        raise error
    return not thread.is_alive()


def t2_one_report(bench: Bench) -> None:
    """Jobs of every kind; rows are used again as soon as they are reported."""
    with bench.rig() as rig:
        some = keys(12)
        for n in range(0, 12, 4):
            _ = rig.store(*some[n : n + 4])
        empty = [rig.begin_store([]), rig.begin_load([])]
        mixed = rig.begin_load([some[0], b"unknown", some[1]])
        unknown = rig.begin_load([b"unknown"], [5])
        for job in (*empty, mixed, unknown):
            assert job is not None
            rig.report(job, 3.0)
        if rig.reports[unknown].landed or b"unknown" in rig.reports[mixed].landed:
            raise TierBroken("T2-one-report", "a key that was never stored is reported as landed")
        for n in range(20):
            key = b"early %d" % n
            job = rig.begin_store([key], [n % 4])
            if job is None:
                continue
            landed = rig.report(job).landed
            rig.arena.row(n % 4)[:] = b"\xaa" * rig.block_bytes  # the row has a new owner
            time.sleep(0.005)  # for whoever still reads it
            if key in landed:
                rig.load(key, contract="T2-one-report")
        for _ in range(20):
            load = rig.begin_load(some[:4], [8, 9, 10, 11])
            landed = rig.report(load).landed
            for slot, key in zip((8, 9, 10, 11), some[:4], strict=True):
                if key in landed:
                    rig.compare(key, slot, "T2-one-report")
                rig.arena.row(slot)[:] = b"\x55" * rig.block_bytes
            time.sleep(0.002)
            for slot in (8, 9, 10, 11):
                if rig.arena.row(slot) != b"\x55" * rig.block_bytes:
                    raise TierBroken("T2-one-report", "a row is written after its job's report")
        for _ in range(20):
            rig.poll()
            time.sleep(0.001)
        bench.counts["jobs"] += len(rig.jobs)


def t6_own_arguments(bench: Bench) -> None:
    """Jobs that follow each other at once, each with its own keys and rows; rows of nobody."""
    with bench.rig() as rig:
        some = keys(6)
        guard = b"\xc3" * rig.block_bytes
        for slot in range(16):
            rig.arena.row(slot)[:] = guard
        for n in range(6):
            rig.report(_begun(rig.begin_store([some[n]], [2 * n + 1])))
            if rig.arena.row(2 * n + 1) != payload(some[n], rig.block_bytes):
                raise TierBroken("T6-own-arguments", "a store changed its source row")
            rig.arena.row(2 * n + 1)[:] = guard
        halves = ((tuple(some[:3]), (1, 5, 9)), (tuple(some[3:]), (3, 7, 11)))
        for n in range(8):
            for half, (names, slots) in enumerate(halves):
                job = LoadJob(10_000 + 2 * n + half, names, slots)
                rig.jobs[job.job_id] = tuple(some)  # what is not its own is T6's to tell
                rig.tier.submit_load(job)
            for half, (names, slots) in enumerate(halves):
                landed = rig.report(10_000 + 2 * n + half).landed
                if not landed <= set(names):
                    raise TierBroken("T6-own-arguments", "a job has the keys of another one")
                for key, slot in zip(names, slots, strict=True):
                    if key in landed:
                        rig.compare(key, slot, "T6-own-arguments")
                bench.counts["jobs"] += 1
            for slot in set(range(16)) - {1, 5, 9, 3, 7, 11}:
                if rig.arena.row(slot) != guard:
                    raise TierBroken("T6-own-arguments", f"row {slot} of no job is written")
            for slot in (1, 5, 9, 3, 7, 11):
                rig.arena.row(slot)[:] = guard


def t7_bounded(bench: Bench) -> None:
    """Capacity, queues, and who goes first."""
    with bench.rig() as rig:
        _capacity(bench, rig)
        _order(bench, rig)
    if bench.can_stop("stores that pile up while I/O is stuck"):
        assert bench.outage is not None
        with bench.rig() as rig:
            rig.store(b"known")
            bench.outage.stall()
            for n in range(_PILE):
                refused = rig.tier.submit_store(
                    StoreJob(50_000 + n, (b"%d" % n,), (0,), NO_REQUEST)
                )
                rig.jobs[50_000 + n] = (b"%d" % n,)
                if refused:
                    break
            else:
                raise TierBroken("T7-bounded", f"{_PILE} stores wait and none is refused")
            bench.counts["faults"] += 1
            bench.outage.release()


def _capacity(bench: Bench, rig: TierRig) -> None:
    capacity: int | None = getattr(rig.tier, "capacity_bytes", None)
    used = getattr(rig.tier, "used_bytes", None)
    if capacity is None or used is None:
        return
    many = min(400, capacity // rig.block_bytes * 3 // 2 + 4)
    for n in range(0, many, 4):
        rig.store(*[b"many %d" % m for m in range(n, n + 4)])
        used = rig.tier.used_bytes  # type: ignore[attr-defined]
        if used > capacity:
            raise TierBroken("T7-bounded", f"{used} bytes are used of {capacity}")
    bench.counts["evictions asked for"] += 1
    rig.tier.clear()
    rig.until(
        lambda: rig.tier.used_bytes == 0,  # type: ignore[attr-defined]
        "T7-bounded",
        "bytes are used after everything was cleared",
        3.0,
    )
    if not rig.store(b"after"):
        raise TierBroken("T7-bounded", "an empty tier takes no block")


def _order(bench: Bench, rig: TierRig) -> None:
    rig.store(b"wanted")
    behind = rounds = 0
    for n in range(6):
        stores = [rig.begin_store([b"pile %d %d" % (n, m)], [m % 8]) for m in range(24)]
        begun = [job for job in stores if job is not None]
        rig.poll()
        waiting = [job for job in begun if job not in rig.reports]
        load = rig.begin_load([b"wanted"], [9])
        rig.report(load)
        late = sum(job not in rig.reports for job in waiting)
        if len(waiting) >= 16:
            rounds += 1
            behind += late == 0
        for job in begun:
            rig.report(job)
    bench.counts["rounds of stores before a load"] += rounds
    if rounds >= 4 and behind == rounds:
        raise TierBroken("T7-bounded", "loads wait until all stores before them have ended")


def t8_drain(bench: Bench) -> None:
    """Drain at work, and drain while I/O does not end."""
    with bench.rig() as rig:
        some = keys(12)
        rig.store(*some)
        jobs = [_begun(rig.begin_load(some[n : n + 4], range(n, n + 4))) for n in (0, 4, 8)]
        jobs += [j for n in range(8) if (j := rig.begin_store([b"d%d" % n], [12 + n % 4]))]
        ended = set(rig.reports)
        began = time.monotonic()
        running = set(rig.tier.drain(2.0))
        took = time.monotonic() - began
        if took > 5.0:
            raise TierBroken("T8-drain", f"drain(2.0) took {took:.1f} s")
        if running & ended:
            raise TierBroken(
                "T8-drain", "drain names jobs as running that were reported before it was called"
            )
        before = bytes(rig.arena.view)
        rig.poll()
        missing = [job for job in jobs if job not in rig.reports and job not in running]
        if missing:
            raise TierBroken("T8-drain", f"after drain, {len(missing)} results are not there")
        time.sleep(0.1)
        if not running and bytes(rig.arena.view) != before:
            raise TierBroken("T8-drain", "rows changed after drain")
        bench.counts["jobs"] += len(jobs)
    if bench.can_stop("drain while I/O is stuck"):
        assert bench.outage is not None
        with bench.rig() as rig:
            rig.store(*some)
            bench.outage.stall()
            stuck = [rig.begin_load([key], [n]) for n, key in enumerate(some)]
            time.sleep(0.05)
            began = time.monotonic()
            running = set(rig.tier.drain(0.3))
            if time.monotonic() - began > 3.0:
                raise TierBroken("T8-drain", "drain(0.3) does not end while I/O is stuck")
            rig.poll()
            if {job for job in stuck if job not in rig.reports} != running:
                raise TierBroken("T8-drain", "drain does not name the jobs that it could not stop")
            bench.counts["faults"] += 1
            bench.outage.release()
            for job in stuck:
                rig.report(job)


def _begun(job: int | None) -> int:
    if job is None:
        raise TierBroken("T7-bounded", "an idle tier refuses a store")
    return job
