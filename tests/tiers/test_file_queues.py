"""How the file tier bounds its queues, orders its I/O, and gives up what waits: `T7`, B62."""

from __future__ import annotations

import time
from pathlib import Path

from tierproof.impl.tiers.base import Claim, StoreJob
from tierproof.impl.tiers.io_pool import LOADS_PER_STORE

from .support import (
    PATIENCE,
    Faults,
    Gate,
    file_rig,
    payload,
)

KEYS = [b"k%d" % number for number in range(1, 6)]


# --- T7: bounds, order, deadlines, capacity ---


def test_t7_the_store_queue_is_bounded_and_refuses_the_tail(tmp_path: Path) -> None:
    gate = Gate()
    io = Faults()
    with file_rig(tmp_path, io=io, threads=1, queued_stores=3) as rig:
        rig.decide(b"listed")
        io.faults["pwritev"] = gate
        first = rig.begin_store([b"running"])
        assert gate.reached.wait(PATIENCE)
        job = StoreJob(50, tuple(KEYS), (0, 1, 2, 3, 4))
        assert list(rig.tier.submit_store(job)) == KEYS[3:]
        assert list(rig.tier.submit_store(StoreJob(51, (b"x", b"y"), (0, 1)))) == [b"x", b"y"]
        assert rig.tier.counters["refused"] == 4
        for slot, key in enumerate(KEYS):
            rig.fill(slot, key)
        gate.open.set()
        assert rig.report(first).landed == {b"running"}
        assert rig.report(50).landed == set(KEYS[:3])
        time.sleep(0.01)
        rig.poll()
        assert 51 not in rig.reports, "a job whose keys were all refused never began"


def test_b62_a_load_goes_before_queued_stores_and_stores_still_progress(tmp_path: Path) -> None:
    order: list[str] = []
    gate = Gate()
    io = Faults()
    with file_rig(tmp_path, io=io, threads=1, slots=32) as rig:
        rig.store(b"loaded")
        io.faults["pwritev"] = gate
        running = rig.begin_store([b"running"])
        assert gate.reached.wait(PATIENCE)
        stores = [rig.begin_store([b"s%d" % number]) for number in range(20)]
        load = rig.begin_load([b"loaded"], [31])
        io.faults["pwritev"] = lambda *_: order.append("store")
        io.faults["preadv"] = lambda fd, buffers, offset: (
            order.append("load") if len(buffers) == 2 else None
        )
        gate.open.set()
        assert rig.report(load).landed == {b"loaded"}
        for job in (running, *stores):
            rig.report(job)
        assert order[0] == "load", "the load waited behind queued stores"

        io.faults["pwritev"] = gate = Gate()
        rig.begin_store([b"running again"])
        assert gate.reached.wait(PATIENCE)
        order.clear()
        store = rig.begin_store([b"patient"])
        loads = [rig.begin_load([b"loaded"], [31]) for _ in range(1_000)]
        io.faults["pwritev"] = lambda *_: order.append("store")
        gate.open.set()
        for job in (store, *loads):
            rig.report(job)
        assert order.index("store") == LOADS_PER_STORE, "a flood of loads starved a store"


def test_b62_a_load_right_after_the_store_sees_the_stored_bytes_or_fails(tmp_path: Path) -> None:
    with file_rig(tmp_path, slots=16) as rig:
        for number in range(30):
            key = b"%d" % number
            store = rig.begin_store([key])
            load = rig.begin_load([key], [15])
            if rig.report(load).landed:
                assert bytes(rig.arena.row(15)) == payload(key, 4096)
            assert rig.report(store).landed == {key}
            assert rig.load(key) == {key}


def test_t7_queued_io_has_a_deadline_and_is_cancelled(tmp_path: Path) -> None:
    now = [0.0]
    gate = Gate()
    io = Faults()
    with file_rig(tmp_path, io=io, threads=1, io_deadline=30, clock=lambda: now[0]) as rig:
        rig.store(*KEYS)
        io.faults["preadv"] = gate
        running = rig.begin_load(KEYS[:1], [0])
        assert gate.reached.wait(PATIENCE)
        queued = rig.begin_load(KEYS[1:3], [1, 2])
        store = rig.begin_store([b"new"])
        now[0] = 29.0
        rig.poll()
        assert not {queued, store} & set(rig.reports)
        now[0] = 30.5
        rig.poll()
        assert rig.reports[queued].landed == rig.reports[store].landed == frozenset()
        assert running not in rig.reports, "running I/O is the manager's OVERDUE"
        assert rig.tier.counters["expired"] == 3
        gate.open.set()
        assert rig.report(running).landed == {KEYS[0]}
        assert rig.decide(b"new") is Claim.ABSENT


def test_t7_a_worker_does_not_begin_what_has_expired(tmp_path: Path) -> None:
    now = [0.0]
    gate = Gate()
    io = Faults()
    with file_rig(tmp_path, io=io, threads=1, io_deadline=30, clock=lambda: now[0]) as rig:
        rig.store(*KEYS)
        io.faults["preadv"] = gate
        rig.begin_load(KEYS[:1], [0])
        assert gate.reached.wait(PATIENCE)
        queued = rig.begin_load(KEYS[1:2], [1])
        now[0] = 31
        gate.open.set()
        assert rig.tier.drain(PATIENCE) == []
        assert rig.report(queued).landed == frozenset()


def test_t7_no_deadline_waits_for_ever(tmp_path: Path) -> None:
    now = [0.0]
    with file_rig(tmp_path, io_deadline=None, clock=lambda: now[0]) as rig:
        job = rig.begin_store(KEYS)
        now[0] = 1e12
        assert rig.report(job).landed == set(KEYS)
