"""The file tier held to the contract of a secondary tier, `T1` to `T9`, one fault at a time."""

from __future__ import annotations

import errno
import logging
import os
import random
import stat
import threading
import time
from pathlib import Path

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tierproof.impl.arena import Arena
from tierproof.impl.errors import ConfigError, ContractViolation, TierError
from tierproof.impl.keys import BlockKey, Namespace
from tierproof.impl.tiers.base import NO_REQUEST, Claim, LoadJob, StoreJob, StorePolicy, Tier
from tierproof.impl.tiers.block_file import file_bytes
from tierproof.impl.tiers.files import FileTier
from tierproof.impl.tiers.io_pool import LOADS_PER_STORE

from .support import (
    PATIENCE,
    Faults,
    Gate,
    Rig,
    block_files,
    eventually,
    failing,
    file_rig,
    leftovers,
    payload,
)

KEYS = [b"k%d" % number for number in range(1, 6)]


# --- T1 ---


def test_t1_no_call_of_the_scheduler_waits_while_every_read_and_write_is_stuck(
    tmp_path: Path,
) -> None:
    gate = Gate()
    io = Faults()
    with file_rig(tmp_path, threads=2, io=io) as rig:
        rig.store(*KEYS)
        io.faults.update(preadv=gate, pwritev=gate, open=gate, scandir=gate, rename=gate)
        slowest = 0.0
        for number in range(100):
            calls = (
                lambda: rig.ask(KEYS[0]),
                lambda number=number: rig.ask(b"unknown %d" % number),
                lambda: rig.begin_load(KEYS[:1]),
                lambda: rig.tier.submit_store(StoreJob(next(rig.ids), (b"new",), (0,))),
                rig.poll,
                lambda: rig.tier.on_new_request(NO_REQUEST),
                lambda: rig.tier.on_request_finished(NO_REQUEST),
                rig.tier.clear,
            )
            for call in calls:
                began = time.perf_counter()
                call()
                slowest = max(slowest, time.perf_counter() - began)
        gate.open.set()
    assert slowest < 0.25, f"a call took {slowest:.3f} s while the disk did not answer"


def test_t1_a_lookup_is_answered_from_memory(tmp_path: Path) -> None:
    io = Faults()
    with file_rig(tmp_path, shared=False, io=io) as rig:
        rig.store(*KEYS)
        assert rig.decide(b"unknown") is Claim.ABSENT
        io.calls.clear()
        assert [rig.ask(key) for key in (*KEYS, b"none")] == [Claim.PRESENT] * 5 + [Claim.ABSENT]
        assert io.calls == []


# --- T2, T8: jobs end once, also when something breaks or hangs ---


def test_t2_each_job_is_reported_once_with_the_keys_that_landed(tmp_path: Path) -> None:
    with file_rig(tmp_path) as rig:
        assert rig.store(*KEYS) == frozenset(KEYS)
        assert rig.load(*KEYS, b"unknown") == frozenset(KEYS)
        for _ in range(20):
            rig.poll()  # a second report would fail here
        assert rig.report(1).seconds > 0


def test_t2_a_job_without_keys_is_reported(tmp_path: Path) -> None:
    with file_rig(tmp_path) as rig:
        assert rig.store() == rig.load() == frozenset()


@pytest.mark.parametrize("error", [RuntimeError("bug"), MemoryError(), SystemExit(1)])
def test_t2_t9_an_exception_fails_its_block_and_ends_no_worker(
    tmp_path: Path, error: BaseException
) -> None:
    broken = True

    def breaks(*_: object) -> None:
        if broken:
            raise error

    io = Faults()
    with file_rig(tmp_path, threads=1, io=io) as rig:
        io.faults.update(fstat=breaks)
        assert rig.store(*KEYS[:2]) == frozenset()
        broken = False
        assert rig.store(*KEYS[:2]) == frozenset(KEYS[:2])
        broken = True
        assert rig.load(*KEYS[:2]) == frozenset()
        broken = False
        assert rig.store(*KEYS[2:]) == frozenset(KEYS[2:])
        assert leftovers(tmp_path) == []


def test_t2_a_slot_that_does_not_exist_fails_its_block_only(tmp_path: Path) -> None:
    with file_rig(tmp_path) as rig:
        rig.store(*KEYS[:2])
        assert rig.report(rig.begin_load([KEYS[0]])).landed == {KEYS[0]}
        rig.tier.submit_load(LoadJob(99, tuple(KEYS[:2]), (1_000, 1)))
        assert rig.report(99).landed == {KEYS[1]}


def test_a_job_id_in_flight_is_refused_and_nothing_of_the_second_begins(tmp_path: Path) -> None:
    gate = Gate()
    io = Faults()
    with file_rig(tmp_path, io=io) as rig:
        io.faults["pwritev"] = gate
        job = rig.begin_store(KEYS[:1])
        with pytest.raises(ContractViolation, match=str(job)):
            rig.tier.submit_store(StoreJob(job, (KEYS[1],), (1,)))
        gate.open.set()
        assert rig.report(job).landed == {KEYS[0]}
        assert rig.decide(KEYS[1]) is Claim.ABSENT


def test_t8_drain_names_the_job_that_is_stuck_and_cancels_what_has_not_begun(
    tmp_path: Path,
) -> None:
    gate = Gate()
    io = Faults()
    with file_rig(tmp_path, threads=1, io=io) as rig:
        rig.store(*KEYS)
        io.faults["preadv"] = gate
        stuck = rig.begin_load(KEYS[:2], [0, 1])
        assert gate.reached.wait(PATIENCE)
        queued = rig.begin_load(KEYS[2:], [2, 3, 4])
        began = time.monotonic()
        assert list(rig.tier.drain(0.1)) == [stuck]
        assert time.monotonic() - began < 2
        rig.poll()
        assert rig.reports[queued].landed == frozenset()
        assert stuck not in rig.reports, "reported while its I/O could still touch the slot"
        gate.open.set()
        assert rig.report(stuck).landed == {KEYS[0]}, "the block that was running still landed"


def test_t8_after_drain_no_row_changes_and_every_report_is_there(tmp_path: Path) -> None:
    io = Faults(preadv=lambda *_: time.sleep(0.002))
    with file_rig(tmp_path, io=io, slots=40) as rig:
        keys = [b"%d" % number for number in range(40)]
        rig.store(*keys)
        jobs = [rig.begin_load(keys[slot : slot + 4], range(slot, slot + 4)) for slot in range(36)]
        assert rig.tier.drain(0.1) == []
        before = bytes(rig.arena.view)
        rig.poll()
        assert set(jobs) <= set(rig.reports)
        time.sleep(0.05)
        assert bytes(rig.arena.view) == before


def test_t8_shutdown_is_bounded_and_idempotent_also_with_a_stuck_thread(tmp_path: Path) -> None:
    gate = Gate()
    io = Faults()
    rig = Rig(FileTier(tmp_path, threads=1, io=io))
    rig.store(KEYS[0])
    io.faults["preadv"] = gate
    job = rig.begin_load(KEYS[:1])
    assert gate.reached.wait(PATIENCE)
    began = time.monotonic()
    rig.tier.shutdown()
    rig.tier.shutdown()
    assert time.monotonic() - began < 3
    with pytest.raises(TierError, match="shut down"):
        rig.begin_load(KEYS[:1])
    with pytest.raises(TierError, match="shut down"):
        rig.begin_store(KEYS[:1])
    gate.open.set()
    assert rig.report(job).landed == {KEYS[0]}, "the late end is still reported"


# --- T4, T5: when a claim appears and disappears ---


def test_t4_a_store_is_found_after_its_report_and_never_before(tmp_path: Path) -> None:
    gate = Gate()
    io = Faults()
    with file_rig(tmp_path, io=io, absent_seconds=1000) as rig:
        assert rig.decide(KEYS[0]) is Claim.ABSENT, "an absent is cached for long"
        io.faults["utime"] = gate
        job = rig.begin_store(KEYS[:1])
        assert gate.reached.wait(PATIENCE)
        assert rig.ask(KEYS[0]) is Claim.ABSENT
        gate.open.set()
        eventually(lambda: block_files(tmp_path), "the file")
        for _ in range(200):
            assert rig.ask(KEYS[0]) is Claim.ABSENT, "claimed before the store was reported"
        rig.report(job)
        assert rig.ask(KEYS[0]) is Claim.PRESENT, "the cached absent outlived the own store"


def test_t5_an_answer_to_an_older_question_is_dropped(tmp_path: Path) -> None:
    gate = Gate(lambda path, flags: path.endswith(".block") and not flags & os.O_DIRECT)
    io = Faults()
    with file_rig(tmp_path, io=io, threads=2, absent_seconds=1000) as rig:
        rig.decide(b"warm up")
        io.faults["open"] = gate
        assert rig.ask(KEYS[0]) is Claim.UNDECIDED
        assert gate.reached.wait(PATIENCE)
        io.faults["open"] = lambda *_: None  # the question is stuck; the store passes
        assert rig.store(KEYS[0]) == {KEYS[0]}
        assert rig.ask(KEYS[0]) is Claim.PRESENT
        gate.open.set()
        time.sleep(0.02)
        assert rig.ask(KEYS[0]) is Claim.PRESENT, "an old answer undid a newer verdict"


def test_t5_a_failed_load_withdraws_the_claim_until_the_file_is_verified(tmp_path: Path) -> None:
    now = [0.0]
    io = Faults()
    with file_rig(tmp_path, io=io, clock=lambda: now[0]) as rig:
        rig.store(*KEYS)
        io.faults["preadv"] = failing(errno.EIO, {1})
        assert rig.load(KEYS[0]) == frozenset()
        assert rig.decide(KEYS[0]) is Claim.ABSENT
        for _ in range(50):
            rig.poll()
        assert rig.verified == []
        now[0] += 2.5
        eventually(lambda: (rig.poll(), rig.verified)[1], "the verification")
        assert rig.verified == [KEYS[0]]
        assert rig.decide(KEYS[0]) is Claim.PRESENT
        assert rig.load(KEYS[0]) == {KEYS[0]}


def test_t5_verification_is_tried_a_few_times_and_a_new_store_ends_the_suspicion(
    tmp_path: Path,
) -> None:
    now = [0.0]
    io = Faults()
    with file_rig(tmp_path, io=io, clock=lambda: now[0]) as rig:
        rig.store(KEYS[0])
        io.faults["preadv"] = failing(errno.EIO)
        assert rig.load(KEYS[0]) == frozenset()
        for _ in range(10):
            now[0] += 100
            rig.poll()
            time.sleep(0.01)
        reads = io.calls.count("preadv")
        now[0] += 1000
        rig.poll()
        time.sleep(0.02)
        assert io.calls.count("preadv") == reads <= 5, "it reads a bad file for ever"
        del io.faults["preadv"]
        assert rig.decide(KEYS[0]) is Claim.ABSENT
        assert rig.store(KEYS[0]) == {KEYS[0]}
        assert rig.tier.counters["already_stored"] == 0, "a suspect file must be written anew"
        assert rig.decide(KEYS[0]) is Claim.PRESENT


def test_t5_a_failed_store_withdraws_an_older_claim_until_it_is_looked_at(tmp_path: Path) -> None:
    now = [0.0]
    gate = Gate()
    io = Faults()
    with file_rig(tmp_path, io=io, threads=1, io_deadline=5, clock=lambda: now[0]) as rig:
        rig.store(KEYS[0])
        io.faults["pwritev"] = gate
        rig.begin_store([KEYS[1]])
        assert gate.reached.wait(PATIENCE)
        again = rig.begin_store([KEYS[0]])
        assert rig.ask(KEYS[0]) is Claim.PRESENT
        now[0] += 6
        assert rig.report(again).landed == frozenset()
        assert rig.ask(KEYS[0]) is Claim.UNDECIDED
        gate.open.set()
        assert rig.decide(KEYS[0]) is Claim.PRESENT


# --- T6 ---


def test_t6_a_job_owns_its_arguments(tmp_path: Path) -> None:
    gate = Gate()
    io = Faults()
    with file_rig(tmp_path, io=io, threads=1) as rig:
        rig.store(*KEYS)
        io.faults["preadv"] = gate
        first = rig.begin_load([KEYS[0]], [7])
        keys, slots = list(KEYS[1:3]), [1, 2]
        rig.tier.submit_load(LoadJob(50, keys, slots))  # type: ignore[arg-type]
        keys[:], slots[:] = [KEYS[4]], [6]
        gate.open.set()
        assert rig.report(first).landed == {KEYS[0]}
        assert rig.report(50).landed == set(KEYS[1:3])
        assert bytes(rig.arena.row(1)) == payload(KEYS[1], 4096)
        assert bytes(rig.arena.row(2)) == payload(KEYS[2], 4096)
        assert bytes(rig.arena.row(6)) != payload(KEYS[4], 4096)


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


def test_t7_used_bytes_stay_within_the_capacity_and_the_least_recent_goes(tmp_path: Path) -> None:
    size = file_bytes(4096)
    with file_rig(tmp_path, capacity_bytes=3 * size) as rig:
        for key in KEYS[:3]:
            rig.store(key)
        rig.load(KEYS[0])  # now the most recent
        rig.store(KEYS[3])
        assert (
            rig.tier.used_bytes == 3 * size == sum(f.stat().st_size for f in block_files(tmp_path))
        )
        assert [rig.decide(key) for key in KEYS[:4]] == [
            Claim.PRESENT,
            Claim.ABSENT,
            Claim.PRESENT,
            Claim.PRESENT,
        ]
        assert rig.tier.counters["evicted"] == 1


def test_t7_recency_is_rebuilt_from_file_times_at_the_start(tmp_path: Path) -> None:
    options = {"capacity_bytes": 3 * file_bytes(4096)}
    with file_rig(tmp_path, **options) as rig:
        for key in KEYS[:3]:
            rig.store(key)
        rig.load(KEYS[0])
        rig.load(KEYS[2])
    with file_rig(tmp_path, **options) as rig:
        rig.store(KEYS[3])
        assert rig.decide(KEYS[1]) is Claim.ABSENT
        rig.store(KEYS[4])
        assert rig.decide(KEYS[0]) is Claim.ABSENT
        assert rig.decide(KEYS[2]) is Claim.PRESENT


def test_b47_two_concurrent_writers_never_exceed_the_capacity(tmp_path: Path) -> None:
    size = file_bytes(4096)
    most = 0
    stop = threading.Event()

    def watch() -> None:
        nonlocal most
        while not stop.is_set():
            most = max(most, len(block_files(tmp_path)) + len(leftovers(tmp_path)))

    options = {"capacity_bytes": 3 * size, "threads": 2}
    with file_rig(tmp_path, **options) as one, file_rig(tmp_path, **options) as two:
        watcher = threading.Thread(target=watch)
        watcher.start()
        try:
            for number in range(25):
                jobs = [
                    (rig, rig.begin_store([b"%s%d%d" % (who, number, part) for part in range(4)]))
                    for who, rig in ((b"one", one), (b"two", two))
                ]
                for rig, job in jobs:
                    rig.report(job)
        finally:
            stop.set()
            watcher.join()
        assert len(block_files(tmp_path)) <= 3
        assert one.tier.counters["stored"] + two.tier.counters["stored"] > 50
    # Files are counted with temporaries, and a listing is not an instant: one may be seen twice,
    # under its old name and its new one.
    assert most <= 3 + 2, f"{most} files at once within a capacity of 3"


def test_b47_when_all_blocks_are_pinned_the_store_fails_rather_than_evict(tmp_path: Path) -> None:
    gate = Gate(lambda fd, buffers, offset: len(buffers) == 2)
    io = Faults()
    with file_rig(tmp_path, capacity_bytes=2 * file_bytes(4096), threads=3, io=io) as rig:
        rig.store(*KEYS[:2])
        io.faults["preadv"] = gate
        loads = [rig.begin_load([key], [slot]) for slot, key in enumerate(KEYS[:2], 6)]
        eventually(lambda: io.calls.count("preadv") >= 2, "both loads to run")
        assert rig.store(KEYS[2]) == frozenset()
        assert rig.tier.counters["no_room"] == 1
        gate.open.set()
        assert [rig.report(job).landed for job in loads] == [{KEYS[0]}, {KEYS[1]}]
        assert rig.ask(KEYS[0]) is Claim.PRESENT, "a lack of room casts no doubt on what is there"
        assert rig.store(KEYS[2]) == {KEYS[2]}, "the pins are gone"
        assert len(block_files(tmp_path)) == 2


def test_b46_used_bytes_equal_the_live_files_after_every_way_of_losing_one(tmp_path: Path) -> None:
    size = file_bytes(4096)
    with file_rig(tmp_path, capacity_bytes=3 * size) as rig:

        def check() -> None:
            live = sum(path.stat().st_size for path in block_files(tmp_path))
            assert rig.tier.used_bytes == live

        for number in range(10):
            key = b"%d" % number
            assert rig.store(key) == {key}, f"put {number} was refused on an almost empty disk"
            check()
            way = number % 4
            if way == 0:
                rig.tier.clear()
                eventually(lambda: not block_files(tmp_path), "the files to go")
            elif way == 1:
                block_files(tmp_path)[-1].unlink()  # by hand, found at the next read
                assert rig.load(key) == frozenset()
            elif way == 2:
                block_files(tmp_path)[-1].write_bytes(b"")  # corrupt, removed by the read
                assert rig.load(key) == frozenset()
            else:
                assert rig.store(*[b"%d-%d" % (number, part) for part in range(4)])  # evicted
                assert rig.decide(key) is Claim.ABSENT
            check()
        assert rig.store(b"put 11") == {b"put 11"}
        check()


def test_b46_files_removed_by_hand_do_not_use_up_the_capacity(tmp_path: Path) -> None:
    with file_rig(tmp_path, capacity_bytes=3 * file_bytes(4096)) as rig:
        for round_ in range(5):
            for path in block_files(tmp_path):
                path.unlink()
            keys = [b"%d-%d" % (round_, number) for number in range(3)]
            assert rig.store(*keys) == set(keys)
            assert rig.load(*keys) == set(keys)
        assert len(block_files(tmp_path)) == 3


# --- clear ---


def test_clear_forgets_at_once_deletes_the_files_and_spares_other_namespaces(
    tmp_path: Path,
) -> None:
    with file_rig(tmp_path, namespace="a") as rig, file_rig(tmp_path, namespace="b") as other:
        rig.store(*KEYS)
        other.store(*KEYS)
        rig.tier.clear()
        assert [rig.ask(key) for key in KEYS] == [Claim.ABSENT] * 5
        assert rig.tier.used_bytes == 0
        eventually(lambda: len(block_files(tmp_path)) == 5, "only the other's files")
        assert [rig.decide(key) for key in KEYS] == [Claim.ABSENT] * 5
        assert other.load(*KEYS) == set(KEYS)
        assert rig.store(*KEYS) == set(KEYS)
        assert rig.load(*KEYS) == set(KEYS)


@pytest.mark.parametrize("call", ["pwritev", "rename"])
def test_clear_lets_no_store_from_before_bring_a_key_back(tmp_path: Path, call: str) -> None:
    gate = Gate(lambda first, *_: call == "pwritev" or "writers" in str(first))
    io = Faults()
    with file_rig(tmp_path, io=io, threads=2) as rig:
        rig.store(KEYS[1])
        io.faults[call] = gate
        job = rig.begin_store([KEYS[0]])
        assert gate.reached.wait(PATIENCE)
        io.faults[call] = lambda *_: None
        rig.tier.clear()
        eventually(lambda: not block_files(tmp_path), "the files to go")
        gate.open.set()
        assert rig.report(job).landed == frozenset()
        assert rig.decide(KEYS[0]) is Claim.ABSENT
        assert block_files(tmp_path) == leftovers(tmp_path) == []
        assert rig.store(KEYS[0]) == {KEYS[0]}


def test_clear_that_fails_is_tried_again_and_nothing_old_is_claimed_meanwhile(
    tmp_path: Path,
) -> None:
    now = [0.0]
    io = Faults()
    with file_rig(tmp_path, io=io, clock=lambda: now[0]) as rig:
        rig.store(*KEYS)
        io.faults["rename"] = failing(errno.EACCES)
        rig.tier.clear()
        time.sleep(0.02)
        store = rig.begin_store([b"after"])
        for _ in range(20):
            rig.poll()
            assert [rig.ask(key) for key in KEYS] == [Claim.ABSENT] * 5
        del io.faults["rename"]
        now[0] += 1.5
        assert rig.report(store).landed == {b"after"}, "a later store waits, and lands"
        assert [rig.decide(key) for key in KEYS] == [Claim.ABSENT] * 5
        assert rig.decide(b"after") is Claim.PRESENT


def test_clear_right_before_shutdown_is_not_forgotten(tmp_path: Path) -> None:
    gate = Gate()
    io = Faults()
    rig = Rig(FileTier(tmp_path, io=io, capacity_bytes=1 << 20))
    rig.store(*KEYS)
    io.faults["scandir"] = gate
    rig.tier._pool.chore(lambda: gate())  # type: ignore[attr-defined]
    rig.tier.clear()
    threading.Timer(0.1, gate.open.set).start()
    rig.close()
    with file_rig(tmp_path) as rig:
        assert [rig.decide(key) for key in KEYS] == [Claim.ABSENT] * 5


# --- D1, B41: bytes ---


def test_b41_every_hit_carries_its_own_key_over_ten_thousand_operations(tmp_path: Path) -> None:
    rng = random.Random(41)
    keys = [BlockKey(b"session %d" % number, number % 2) for number in range(20)]
    size = file_bytes(512)
    with file_rig(tmp_path, slots=7, block_bytes=512, capacity_bytes=12 * size) as rig:
        loads = 0
        for _ in range(10_000):
            action = rng.random()
            key = rng.choice(keys)
            if action < 0.80:
                if rig.ask(key) is Claim.PRESENT and action < 0.1:
                    loads += len(rig.load(key))
            elif action < 0.88:
                rig.store(*rng.sample(keys, rng.randint(1, 3)))
            elif action < 0.9:
                loads += len(rig.load(*rng.sample(keys, 7)))
            else:
                rig.poll()
    assert loads > 500


operations = st.lists(
    st.tuples(
        st.sampled_from(["store", "load", "clear", "restart", "flip", "cut", "remove"]),
        st.lists(st.integers(0, 5), min_size=1, max_size=3, unique=True),
        st.integers(0, 10_000),
    ),
    max_size=25,
)


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(operations=operations, capacity=st.none() | st.integers(1, 6))
def test_d1_t3_whatever_happens_to_the_files_a_landed_key_has_its_bytes(
    tmp_path_factory: pytest.TempPathFactory,
    operations: list[tuple[str, list[int], int]],
    capacity: int | None,
) -> None:
    root = tmp_path_factory.mktemp("tier")
    bytes_ = None if capacity is None else capacity * file_bytes(200)
    options = {"capacity_bytes": bytes_, "block_bytes": 200, "slots": 3}
    rig = Rig(FileTier(root, capacity_bytes=bytes_), slots=3, block_bytes=200)
    keys = [BlockKey(b"%d" % number) for number in range(6)]
    stored: set[BlockKey] = set()
    try:
        for name, numbers, where in operations:
            chosen = [keys[number] for number in numbers]
            if name == "store":
                landed = rig.store(*chosen)
                assert capacity is not None or landed == set(chosen)
                stored |= {key for key in chosen if key in landed}
                limit = capacity or 6
                assert len(block_files(root)) <= limit
            elif name == "load":
                assert rig.load(*chosen) <= stored  # and rig.load has compared the bytes
            elif name == "clear":
                rig.tier.clear()
                stored = set()
            elif name == "restart":
                rig.close()
                rig = Rig(FileTier(root, capacity_bytes=bytes_), slots=3, block_bytes=200)
            elif files := block_files(root):
                path = files[where % len(files)]
                data = bytearray(path.read_bytes())
                if name == "remove":
                    path.unlink()
                elif name == "cut":
                    path.write_bytes(data[: where % len(data)] if data else b"")
                elif data:
                    data[where % len(data)] ^= 1 + where % 255
                    path.write_bytes(data)
    finally:
        rig.close()
    assert leftovers(root) == []
    assert options


# --- requests, configuration, layout ---


def test_it_is_a_tier_and_wants_new_blocks_only(tmp_path: Path) -> None:
    with file_rig(tmp_path, name="disk") as rig:
        assert isinstance(rig.tier, Tier)
        assert rig.tier.name == "disk"
        assert rig.tier.on_new_request(NO_REQUEST) is StorePolicy.NEW_BLOCKS


def test_files_are_0600_in_folders_of_0700_whatever_the_salt_contains(tmp_path: Path) -> None:
    root = tmp_path / "deep" / "cache"
    salt = "../../@/" + "x" * 300
    space = Namespace(
        model="m", dtype="fp8", block_size=16, layout="NHD", salt=salt, adapter="../../etc"
    )
    with file_rig(root, namespace=space) as rig:
        keys = [BlockKey(b"h", namespace=space.digest()), salt, salt.encode(), "/etc/passwd", ""]
        rig.store(*keys)
        assert rig.load(*keys) == set(keys)
        assert len(block_files(root)) == 5
    for path in [root, *root.rglob("*")]:
        mode = stat.S_IMODE(path.stat().st_mode)
        assert mode == (0o700 if path.is_dir() else 0o600), f"{path}: {mode:o}"
    assert {path.name for path in tmp_path.iterdir()} == {"deep"}
    assert {path.name for path in (tmp_path / "deep").iterdir()} == {"cache"}


def test_b53_tenants_in_one_tier_never_meet(tmp_path: Path) -> None:
    base = Namespace(model="m", dtype="bf16", block_size=16, layout="NHD")
    one, two, none, empty = (
        BlockKey(b"tokens", namespace=base.for_user(salt=salt).digest())
        for salt in ("s1", "s2", None, "")
    )
    with file_rig(tmp_path) as rig:
        rig.store(one)
        assert [rig.decide(key) for key in (one, two, none)] == [
            Claim.PRESENT,
            Claim.ABSENT,
            Claim.ABSENT,
        ]
        rig.store(none)
        assert rig.decide(empty) is Claim.PRESENT, "an empty salt is no salt"


@pytest.mark.parametrize(
    "field",
    ["model", "revision", "dtype", "block_size", "layout", "tensor_parallel", "group", "runner"],
)
def test_b52_a_restart_with_another_field_misses_and_leaves_the_old_files(
    tmp_path: Path, field: str
) -> None:
    space = Namespace(model="m", dtype="bf16", block_size=16, layout="NHD")
    other = msgspec.structs.replace(space, **{field: 32 if field in COUNTS else "other"})
    with file_rig(tmp_path, namespace=space) as rig:
        rig.store(*KEYS)
        before = [path.read_bytes() for path in block_files(tmp_path)]
    with file_rig(tmp_path, namespace=other) as rig:
        assert [rig.decide(key) for key in KEYS] == [Claim.ABSENT] * 5
        assert rig.load(*KEYS) == frozenset()
        assert [path.read_bytes() for path in block_files(tmp_path)] == before
    with file_rig(tmp_path, namespace=space) as rig:
        assert [rig.decide(key) for key in KEYS] == [Claim.PRESENT] * 5
        assert rig.load(*KEYS) == set(KEYS)


COUNTS = ("block_size", "tensor_parallel")


def test_b52_another_size_of_blocks_is_another_namespace(tmp_path: Path) -> None:
    with file_rig(tmp_path, block_bytes=4096) as rig:
        rig.store(*KEYS)
    with file_rig(tmp_path, block_bytes=8192) as rig:
        assert rig.decide(KEYS[0]) is Claim.ABSENT
        assert len(block_files(tmp_path)) == 5
        assert rig.store(KEYS[0]) == rig.load(KEYS[0]) == {KEYS[0]}


@pytest.mark.parametrize("block_bytes", [1, 64, 4095, 4096, 5000, 3 << 20])
def test_blocks_of_any_size_come_back(tmp_path: Path, block_bytes: int) -> None:
    with file_rig(tmp_path, block_bytes=block_bytes, slots=3) as rig:
        keys = [b"1", b"2"]
        assert rig.store(*keys) == rig.load(*keys) == set(keys)
    with file_rig(tmp_path, block_bytes=block_bytes, slots=3, direct=False) as rig:
        assert rig.load(*keys) == set(keys)


def test_direct_io_falls_back_where_it_is_refused(tmp_path: Path) -> None:
    def refuses(_: str, flags: int) -> None:
        if flags & os.O_DIRECT:
            raise OSError(errno.EINVAL, "Invalid argument")

    with file_rig(tmp_path, io=Faults(open=refuses)) as rig:
        assert not rig.tier.direct  # type: ignore[attr-defined]
        assert rig.store(*KEYS) == rig.load(*KEYS) == set(KEYS)
    io = Faults()
    with file_rig(tmp_path, io=io) as rig:
        io.faults["open"] = refuses  # later only: another mount below, an odd alignment
        assert rig.store(*KEYS, b"new") == rig.load(*KEYS, b"new") == {*KEYS, b"new"}
    with pytest.raises(ConfigError, match="direct=None"):
        FileTier(tmp_path, direct=True, io=Faults(open=refuses))
    with file_rig(tmp_path, direct=False) as rig:
        assert not rig.tier.direct  # type: ignore[attr-defined]
        assert rig.load(*KEYS) == set(KEYS)


def test_a_store_of_a_key_that_is_there_writes_nothing(tmp_path: Path) -> None:
    io = Faults()
    with file_rig(tmp_path, io=io) as rig:
        rig.store(*KEYS)
        before = [path.stat().st_ino for path in block_files(tmp_path)]
        io.calls.clear()
        assert rig.store(*KEYS) == set(KEYS)
        assert "pwritev" not in io.calls
        assert sorted(path.stat().st_ino for path in block_files(tmp_path)) == sorted(before)
        assert rig.tier.counters["already_stored"] == 5  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("options", "word"),
    [
        ({"threads": 0}, "threads"),
        ({"threads": True}, "threads"),
        ({"queued_stores": 0}, "queued_stores"),
        ({"io_deadline": 0}, "io_deadline"),
        ({"capacity_bytes": 0}, "capacity_bytes"),
        ({"absent_seconds": -1}, "absent_seconds"),
        ({"namespace": 7}, "namespace"),
    ],
)
def test_a_wrong_option_is_named(tmp_path: Path, options: dict[str, object], word: str) -> None:
    with pytest.raises(ConfigError, match=word):
        FileTier(tmp_path, **options)  # type: ignore[arg-type]
    assert list(tmp_path.iterdir()) == [], "a refused configuration leaves nothing behind"


def test_a_capacity_below_one_block_is_refused_with_both_numbers(tmp_path: Path) -> None:
    tier = FileTier(tmp_path, capacity_bytes=8191)
    with pytest.raises(ConfigError, match=r"8191.*8192"):
        tier.attach(Arena(slots=1, block_bytes=4096))
    tier.shutdown()


def test_a_tier_is_attached_once_and_before_it_is_used(tmp_path: Path) -> None:
    tier = FileTier(tmp_path)
    assert tier.used_bytes == 0
    for call in (lambda: tier.lookup(b"k", NO_REQUEST), tier.clear):
        with pytest.raises(TierError, match="attach"):
            call()
    arena = Arena(slots=1, block_bytes=4096)
    tier.attach(arena)
    with pytest.raises(TierError, match="attached already"):
        tier.attach(arena)
    tier.shutdown()


def test_a_key_without_a_name_is_refused_and_nothing_of_its_job_begins(tmp_path: Path) -> None:
    with file_rig(tmp_path) as rig:
        for call in (
            lambda: rig.ask(7),
            lambda: rig.tier.submit_load(LoadJob(1, (b"a", 7), (0, 1))),
            lambda: rig.tier.submit_store(StoreJob(1, (b"a", 7), (0, 1))),
        ):
            with pytest.raises(ConfigError, match="int"):
                call()
        with pytest.raises(ValueError, match="zip"):
            rig.tier.submit_load(LoadJob(1, (b"a", b"b"), (0,)))
        rig.poll()
        assert rig.reports == {}
        assert block_files(tmp_path) == []


def test_the_system_giving_no_threads_is_a_tier_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_more(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    tier = FileTier(tmp_path)
    monkeypatch.setattr(threading.Thread, "start", no_more)
    with pytest.raises(TierError, match="lower its threads"):
        tier.attach(Arena(slots=1, block_bytes=4096))


def test_no_key_and_no_payload_in_the_log(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, logger="tierproof")
    io = Faults()
    with file_rig(tmp_path, io=io) as rig:
        rig.store("tenant-secret", "other-secret")
        for path in block_files(tmp_path):
            path.write_bytes(b"payload-secret")
        rig.load("tenant-secret")
        io.faults["pwritev"] = failing(errno.ENOSPC)
        rig.store("third-secret")
        io.faults["utime"] = lambda *_: 1 / 0
        del io.faults["pwritev"]
        rig.store("fourth-secret")
    assert caplog.records
    assert "secret" not in "".join(record.getMessage() for record in caplog.records)
