"""The file tier held to the contract of a secondary tier, `T1` to `T9`, one fault at a time."""

from __future__ import annotations

import errno
import os
import time
from pathlib import Path

import pytest

from tierproof.impl.errors import ContractViolation, TierError
from tierproof.impl.tiers.base import NO_REQUEST, Claim, LoadJob, StoreJob
from tierproof.impl.tiers.files import FileTier

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
        eventually(rig.poll, "the verification")
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
