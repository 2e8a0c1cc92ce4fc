"""What files and slab owe alike, `T1` to `T9`, one fault at a time."""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from tierproof.impl.errors import ContractViolation, TierError
from tierproof.impl.tiers.base import NO_REQUEST, Claim, LoadJob, StoreJob
from tierproof.impl.tiers.files import FileTier
from tierproof.impl.tiers.slab import SlabTier

from .slab_support import scribble, slab_rig
from .support import (
    PATIENCE,
    Faults,
    Gate,
    Rig,
    eventually,
    failing,
    file_rig,
    payload,
    usual_seconds,
)

KEYS = [b"k%d" % number for number in range(1, 6)]
Layout: TypeAlias = Callable[..., AbstractContextManager[Rig[FileTier] | Rig[SlabTier]]]


@pytest.fixture(params=["files", "slab"])
def layout(request: pytest.FixtureRequest) -> Any:
    """A rig below a folder, of each layout in turn."""
    return file_rig if request.param == "files" else partial(slab_rig, blocks=64)


# --- T1 ---


def test_t1_no_call_of_the_scheduler_waits_while_every_read_and_write_is_stuck(
    tmp_path: Path, layout: Layout
) -> None:
    gate = Gate()
    io = Faults()
    with layout(tmp_path, threads=2, io=io) as rig:
        rig.store(*KEYS)
        io.faults.update(preadv=gate, pwritev=gate, open=gate, scandir=gate, rename=gate)

        def calls(number: int) -> tuple[Callable[[], Any], ...]:
            return (
                lambda: rig.ask(KEYS[0]),
                lambda: rig.ask(b"unknown %d" % number),
                lambda: rig.begin_load(KEYS[:1]),
                lambda: rig.tier.submit_store(StoreJob(next(rig.ids), (b"new",), (0,))),
                rig.poll,
                lambda: rig.tier.on_new_request(NO_REQUEST),
                lambda: rig.tier.on_request_finished(NO_REQUEST),
                rig.tier.clear,
            )

        took = usual_seconds(calls, 100)
        gate.open.set()
    assert took < 0.25, f"a call takes {took:.3f} s while the disk does not answer"


# --- T2: jobs end once, also when something breaks ---


def test_t2_each_job_is_reported_once_with_the_keys_that_landed(
    tmp_path: Path, layout: Layout
) -> None:
    with layout(tmp_path) as rig:
        assert rig.store(*KEYS) == frozenset(KEYS)
        assert rig.load(*KEYS, b"unknown") == frozenset(KEYS)
        for _ in range(20):
            rig.poll()  # a second report would fail here
        assert rig.report(1).seconds > 0


def test_t2_a_job_without_keys_is_reported(tmp_path: Path, layout: Layout) -> None:
    with layout(tmp_path) as rig:
        assert rig.store() == rig.load() == frozenset()


@pytest.mark.parametrize("error", [RuntimeError("bug"), MemoryError(), SystemExit(1)])
def test_t2_t9_an_exception_fails_its_block_and_ends_no_worker(
    tmp_path: Path, layout: Layout, error: BaseException
) -> None:
    broken = False

    def breaks(*_: object) -> None:
        if broken:
            raise error

    io = Faults(pwritev=breaks, preadv=breaks)
    with layout(tmp_path, threads=1, io=io) as rig:
        for _ in range(5):
            broken = True
            assert rig.store(*KEYS[:2]) == frozenset()
            broken = False
            assert rig.store(*KEYS[:2]) == set(KEYS[:2])
            broken = True
            assert rig.load(*KEYS[:2]) == frozenset()
            broken = False
            rig.tier.clear()
            eventually(lambda: not rig.tier._index.clearing, "the clear")
        assert rig.store(*KEYS[2:]) == rig.load(*KEYS[2:]) == set(KEYS[2:])


def test_t2_a_slot_that_does_not_exist_fails_its_block_only(tmp_path: Path, layout: Layout) -> None:
    with layout(tmp_path) as rig:
        rig.store(*KEYS[:2])
        assert rig.load(KEYS[0]) == {KEYS[0]}
        rig.tier.submit_load(LoadJob(99, tuple(KEYS[:2]), (1_000, 1)))
        assert rig.report(99).landed == {KEYS[1]}


def test_a_job_id_in_flight_is_refused_and_nothing_of_the_second_begins(
    tmp_path: Path, layout: Layout
) -> None:
    gate = Gate()
    io = Faults()
    with layout(tmp_path, io=io) as rig:
        io.faults["pwritev"] = gate
        job = rig.begin_store(KEYS[:1])
        with pytest.raises(ContractViolation, match=str(job)):
            rig.tier.submit_store(StoreJob(job, (KEYS[1],), (1,)))
        gate.open.set()
        assert rig.report(job).landed == {KEYS[0]}
        assert rig.decide(KEYS[1]) is Claim.ABSENT


# --- T5 ---


def test_t5_a_failed_load_withdraws_the_claim_until_the_block_is_verified(
    tmp_path: Path, layout: Layout
) -> None:
    now = [0.0]
    io = Faults()
    with layout(tmp_path, io=io, clock=lambda: now[0]) as rig:
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


# --- T6 ---


def test_t4_a_block_stored_anew_while_a_reader_drops_the_bad_one_is_found(
    tmp_path: Path, layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [0.0]
    alone = {"shared": False} if layout is file_rig else {}
    with layout(tmp_path, clock=lambda: now[0], **alone) as rig:
        rig.store(KEYS[0])
        (path,) = [p for p in tmp_path.rglob("*") if p.suffix in (".block", ".slab")]
        if path.suffix == ".block":
            os.truncate(path, 5000)
        else:
            scribble(path, 0, b"damaged")
        index = rig.tier._index
        gate, vanished = Gate(lambda *_: not gate.open.is_set()), index.vanished

        def slowly(*arguments: Any) -> bool:
            gate()
            return vanished(*arguments)

        monkeypatch.setattr(index, "vanished", slowly)
        load = rig.begin_load(KEYS[:1])
        assert gate.reached.wait(PATIENCE)
        store = rig.begin_store(KEYS[:1])
        ends = time.monotonic() + 0.3  # a slab's lock may keep the store out for so long
        while store not in rig.reports and time.monotonic() < ends:
            rig.poll()
        gate.open.set()
        assert rig.report(load).landed == frozenset()
        assert rig.report(store).landed == {KEYS[0]}
        now[0] += 3.0  # when a load has failed, the block is verified first

        def found() -> bool:
            rig.poll()
            return rig.ask(KEYS[0]) is Claim.PRESENT

        eventually(found, "the block that was stored anew")
        assert rig.load(KEYS[0]) == {KEYS[0]}


def test_t6_a_job_owns_its_arguments(tmp_path: Path, layout: Layout) -> None:
    gate = Gate()
    io = Faults()
    with layout(tmp_path, io=io, threads=1) as rig:
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


# --- T8 ---


def test_t8_drain_names_the_job_that_is_stuck_and_cancels_what_has_not_begun(
    tmp_path: Path, layout: Layout
) -> None:
    gate = Gate()
    io = Faults()
    with layout(tmp_path, threads=1, io=io) as rig:
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


def test_t8_after_drain_no_row_changes_and_every_report_is_there(
    tmp_path: Path, layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = Gate()
    io = Faults()
    with layout(tmp_path, io=io, slots=40, threads=2) as rig:
        keys = [b"%d" % number for number in range(40)]
        rig.store(*keys)
        io.faults["preadv"] = gate
        jobs = [rig.begin_load(keys[slot : slot + 4], range(slot, slot + 4)) for slot in range(36)]
        assert gate.reached.wait(PATIENCE)
        idle = rig.tier._pool._idle
        wait_for, waits = idle.wait_for, count(1)

        def in_turn(true: Callable[[], bool], _seconds: float) -> bool:
            """The time is up at once; what runs then may end, however long that takes."""
            if next(waits) == 1:
                return wait_for(true, 0)
            gate.open.set()
            return wait_for(true, PATIENCE)

        monkeypatch.setattr(idle, "wait_for", in_turn)
        assert rig.tier.drain(1.0) == []
        monkeypatch.undo()
        before = bytes(rig.arena.view)
        rig.poll()
        assert set(jobs) <= set(rig.reports)
        landed = sum(len(rig.reports[job].landed) for job in jobs)
        assert 1 <= landed <= 2, "what had not begun is cancelled, and no more"
        rig.tier.shutdown()  # all threads have ended
        assert bytes(rig.arena.view) == before


def test_t8_shutdown_is_bounded_and_idempotent_also_with_a_stuck_thread(
    tmp_path: Path, layout: Layout
) -> None:
    gate = Gate()
    io = Faults()
    with layout(tmp_path, threads=1, io=io) as rig:
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
        rig.tier._mover.close(True)
