"""The slab layout: one file with fixed slots, held to every contract of a tier but `T11`."""

from __future__ import annotations

import errno
import logging
import os
import stat
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tierproof.impl.errors import ConfigError, TierError
from tierproof.impl.tiers.base import NO_REQUEST, Claim, LoadJob
from tierproof.impl.tiers.file_io import PAGE
from tierproof.impl.tiers.slab import SlabTier
from tierproof.impl.tiers.slab_file import (
    RECORD_BYTES,
    SlabFile,
    file_length,
    slot_count,
)

from .support import PATIENCE, Faults, Gate, Rig, eventually, failing, leftovers

KEYS = [b"k%d" % number for number in range(1, 6)]
SIZE = 4096


@contextmanager
def slab_rig(
    root: Path, *, blocks: int = 8, slots: int = 8, block_bytes: int = SIZE, **options: Any
) -> Iterator[Rig[SlabTier]]:
    """A slab tier with room for `blocks` blocks."""
    options.setdefault("capacity_bytes", file_length(blocks, block_bytes))
    rig = Rig(SlabTier(root, **options), slots=slots, block_bytes=block_bytes)
    try:
        yield rig
    finally:
        rig.close()


def slab_of(root: Path) -> Path:
    (path,) = root.glob("*.slab")
    return path


def index_of(root: Path) -> Path:
    (path,) = root.glob("*.slab.index")
    return path


def length_of(root: Path) -> int:
    return slab_of(root).stat().st_size + index_of(root).stat().st_size


def scribble(path: Path, offset: int, data: bytes) -> None:
    fd = os.open(path, os.O_RDWR)
    os.pwrite(fd, data, offset)
    os.fsync(fd)
    os.close(fd)


# --- size, names, owner ---


@pytest.mark.parametrize("block_bytes", [1, 4096, 10_000, 1 << 20])
@pytest.mark.parametrize("blocks", [1, 2, 31, 32, 33, 1000])
def test_a_slab_is_never_longer_than_its_capacity_and_wastes_no_slot(
    block_bytes: int, blocks: int
) -> None:
    length = file_length(blocks, block_bytes)
    assert slot_count(length, block_bytes) == blocks
    assert slot_count(length - 1, block_bytes) == blocks - 1


def test_the_slab_is_private_has_its_full_length_at_once_and_leaves_nothing_else(
    tmp_path: Path,
) -> None:
    root = tmp_path / "cache"
    with slab_rig(root) as rig:
        rig.store(*KEYS)
        path = slab_of(root)
        assert length_of(root) == file_length(8, SIZE)
        for found in (path.stat(), index_of(root).stat()):
            assert found.st_blocks * 512 >= found.st_size, "the disk has not been taken yet"
            assert stat.S_IMODE(found.st_mode) == 0o600
        assert stat.S_IMODE(root.stat().st_mode) == 0o700
    assert sorted(leftovers(root)) == [path, index_of(root)]


def test_a_slab_has_one_owner(tmp_path: Path) -> None:
    with slab_rig(tmp_path) as rig:
        rig.store(KEYS[0])
        with pytest.raises(ConfigError, match="another tier owns this slab"):
            Rig(SlabTier(tmp_path, capacity_bytes=file_length(8, SIZE)), block_bytes=SIZE)
        assert rig.load(KEYS[0]) == {KEYS[0]}
    with slab_rig(tmp_path) as rig:
        assert rig.load(KEYS[0]) == {KEYS[0]}


def test_namespaces_and_sizes_of_blocks_never_meet(tmp_path: Path) -> None:
    with slab_rig(tmp_path, namespace="one") as one, slab_rig(tmp_path, namespace="two") as two:
        one.store(*KEYS)
        assert two.decide(KEYS[0]) is Claim.ABSENT
        assert two.load(KEYS[0]) == frozenset()
    with slab_rig(tmp_path, namespace="one", block_bytes=8192) as other:
        assert other.decide(KEYS[0]) is Claim.ABSENT
    for hostile in ("../../etc", "/", "a\0b", "x" * 300):
        with slab_rig(tmp_path / "in", namespace=hostile) as rig:
            assert rig.store(KEYS[0]) == {KEYS[0]}
    assert {path.name for path in tmp_path.iterdir() if path.is_dir()} == {"in"}


@pytest.mark.parametrize("block_bytes", [1000, 5000])
def test_a_block_that_is_no_whole_page_goes_without_o_direct(
    tmp_path: Path, block_bytes: int
) -> None:
    with slab_rig(tmp_path, block_bytes=block_bytes) as rig:
        assert rig.store(*KEYS) == rig.load(*KEYS) == set(KEYS)
    with slab_rig(tmp_path, block_bytes=block_bytes) as rig:
        assert rig.load(*KEYS) == set(KEYS)


# --- capacity and recency ---


def test_t7_a_full_slab_evicts_the_least_recently_used_also_after_a_restart(tmp_path: Path) -> None:
    with slab_rig(tmp_path, blocks=3) as rig:
        for key in KEYS[:3]:
            rig.store(key)
        rig.load(KEYS[0])  # so the second is the oldest
    with slab_rig(tmp_path, blocks=3) as rig:
        assert rig.decide(KEYS[0]) is Claim.PRESENT
        assert rig.store(KEYS[3]) == {KEYS[3]}
        assert rig.decide(KEYS[1]) is Claim.ABSENT
        assert rig.load(*KEYS) == {KEYS[0], KEYS[2], KEYS[3]}
        assert rig.tier.used_bytes == 3 * SIZE
        assert rig.tier.counters["evicted"] == 1


def test_t7_blocks_that_are_being_loaded_are_not_evicted_and_the_store_fails(
    tmp_path: Path,
) -> None:
    gate = Gate()
    io = Faults()
    with slab_rig(tmp_path, blocks=2, io=io, threads=3) as rig:
        rig.store(*KEYS[:2])
        io.faults["preadv"] = gate
        job = rig.begin_load(KEYS[:2], [6, 7])
        assert gate.reached.wait(PATIENCE)
        assert rig.store(KEYS[2]) == frozenset()
        gate.open.set()
        assert rig.report(job).landed == set(KEYS[:2])
        assert rig.store(KEYS[2]) == {KEYS[2]}


def test_a_slab_of_another_size_is_made_anew(tmp_path: Path) -> None:
    with slab_rig(tmp_path, blocks=3) as rig:
        rig.store(*KEYS[:3])
    with slab_rig(tmp_path, blocks=5) as rig:
        assert rig.decide(KEYS[0]) is Claim.ABSENT
        assert rig.store(*KEYS) == set(KEYS)
        assert length_of(tmp_path) == file_length(5, SIZE)


def test_b46_room_comes_back_however_a_block_goes(tmp_path: Path) -> None:
    now = [0.0]
    io = Faults()
    with slab_rig(tmp_path, blocks=3, io=io, clock=lambda: now[0]) as rig:
        for number in range(10):
            key = b"%d" % number
            assert rig.store(key) == {key}
            if number % 2:
                rig.tier.clear()
                eventually(lambda: not rig.tier._index.clearing, "the clear")
                assert rig.tier.used_bytes == 0
            else:
                io.faults["preadv"] = lambda *_: scribble(slab_of(tmp_path), 0, bytes(SIZE * 3))
                assert rig.load(key) == frozenset()
                io.faults.clear()
                assert rig.tier.used_bytes == 0
        assert rig.store(*KEYS[:3]) == rig.load(*KEYS[:3]) == set(KEYS[:3])


# --- bytes ---


def damage(root: Path, what: str) -> None:
    path = slab_of(root)
    data = path.read_bytes()
    first = 0
    if what == "flipped":
        scribble(path, first + 1234, bytes([data[first + 1234] ^ 1]))
    elif what == "zeroed":
        scribble(path, first, bytes(SIZE))
    elif what == "another block's":
        scribble(path, first, data[first + SIZE : first + 2 * SIZE])
    elif what == "half another block's":
        scribble(path, first, data[first + SIZE : first + SIZE + SIZE // 2])
    elif what == "truncated":
        os.truncate(path, first + SIZE // 2)


@pytest.mark.parametrize(
    "what", ["flipped", "zeroed", "another block's", "half another block's", "truncated"]
)
def test_b44_wrong_bytes_are_a_failed_key_and_the_others_survive(tmp_path: Path, what: str) -> None:
    with slab_rig(tmp_path) as rig:
        for key in KEYS:
            rig.store(key)
        damage(tmp_path, what)
        landed = rig.load(*KEYS)
        assert KEYS[0] not in landed
        assert what == "truncated" or landed == set(KEYS[1:])
        assert rig.decide(KEYS[0]) is Claim.ABSENT
        assert rig.tier.counters["corrupt"] >= 1
        assert rig.store(KEYS[0]) == rig.load(KEYS[0]) == {KEYS[0]}


@pytest.mark.parametrize(
    ("offset", "data"),
    [
        (PAGE + 40, b"\xff"),  # a record
        (PAGE, bytes(RECORD_BYTES)),
        (PAGE + RECORD_BYTES - 1, b"\xff"),
    ],
)
def test_a_record_that_is_damaged_while_nobody_runs_is_a_free_slot(
    tmp_path: Path, offset: int, data: bytes
) -> None:
    with slab_rig(tmp_path) as rig:
        for key in KEYS:
            rig.store(key)
    scribble(index_of(tmp_path), offset, data)
    with slab_rig(tmp_path) as rig:
        assert rig.decide(KEYS[0]) is Claim.ABSENT
        assert rig.load(*KEYS) == set(KEYS[1:])
        more = [b"more %d" % number for number in range(4)]
        assert rig.store(*more) == rig.load(*more) == set(more)


def test_records_of_another_slot_or_another_slab_are_not_believed(tmp_path: Path) -> None:
    with slab_rig(tmp_path / "a") as rig:
        for key in KEYS:
            rig.store(key)
    with slab_rig(tmp_path / "b", namespace="other") as rig:
        rig.store(*KEYS)
    a, b = index_of(tmp_path / "a"), index_of(tmp_path / "b")
    records = a.read_bytes()[PAGE : PAGE + RECORD_BYTES]
    scribble(a, PAGE + RECORD_BYTES, records)
    with slab_rig(tmp_path / "a") as rig:
        assert rig.load(*KEYS) == {*KEYS} - {KEYS[1]}
    scribble(b, PAGE, a.read_bytes()[PAGE : 2 * PAGE])
    with slab_rig(tmp_path / "b", namespace="other") as rig:
        assert rig.load(*KEYS) == frozenset()
    b.write_bytes(a.read_bytes())  # the whole slab under another namespace's name
    slab_of(tmp_path / "b").write_bytes(slab_of(tmp_path / "a").read_bytes())
    with slab_rig(tmp_path / "b", namespace="other") as rig:
        assert rig.load(*KEYS) == frozenset()


def test_of_two_records_for_one_block_the_later_one_counts(tmp_path: Path) -> None:
    with slab_rig(tmp_path, blocks=4) as rig:
        rig.store(KEYS[0])
    before = index_of(tmp_path).read_bytes()
    with slab_rig(tmp_path, blocks=4) as rig:
        rig.tier._index._suspect.add(rig.tier._name(KEYS[0]))  # so it is written anew
        rig.store(KEYS[0])
    scribble(index_of(tmp_path), PAGE, before[PAGE : PAGE + RECORD_BYTES])  # as if killed before
    with slab_rig(tmp_path, blocks=4) as rig:
        assert rig.load(KEYS[0]) == {KEYS[0]}
        assert rig.tier.used_bytes == SIZE
        assert rig.store(*KEYS[1:4]) == set(KEYS[1:4])
        assert rig.load(*KEYS[:4]) == set(KEYS[:4]), "the slot of the older record is free"


@pytest.mark.parametrize("cut", [0, 10, PAGE, PAGE + 100])
@pytest.mark.parametrize("which", [slab_of, index_of])
def test_a_slab_that_was_half_made_is_made_again(
    tmp_path: Path, cut: int, which: Callable[[Path], Path]
) -> None:
    with slab_rig(tmp_path) as rig:
        rig.store(*KEYS)
    os.truncate(which(tmp_path), cut)
    with slab_rig(tmp_path) as rig:
        assert rig.decide(KEYS[0]) is Claim.ABSENT
        assert rig.store(*KEYS) == rig.load(*KEYS) == set(KEYS)


# --- T1, T2, T4, T5, T8, T9 ---


def test_t1_no_call_of_the_scheduler_waits_while_every_read_and_write_is_stuck(
    tmp_path: Path,
) -> None:
    gate = Gate()
    io = Faults()
    with slab_rig(tmp_path, threads=2, io=io) as rig:
        rig.store(*KEYS)
        io.faults.update(preadv=gate, pwritev=gate)
        slowest = 0.0
        for number in range(50):
            calls = (
                lambda: rig.ask(KEYS[0]),
                lambda number=number: rig.ask(b"unknown %d" % number),
                lambda: rig.begin_load(KEYS[:1]),
                lambda: rig.begin_store([b"new"]),
                rig.poll,
                lambda: rig.tier.on_new_request(NO_REQUEST),
                rig.tier.clear,
            )
            for call in calls:
                began = time.perf_counter()
                call()
                slowest = max(slowest, time.perf_counter() - began)
        gate.open.set()
    assert slowest < 0.25, f"a call took {slowest:.3f} s while the disk did not answer"


@pytest.mark.parametrize("error", [RuntimeError("bug"), SystemExit(1)])
def test_t2_t9_an_exception_fails_its_block_and_ends_no_worker(
    tmp_path: Path, error: BaseException
) -> None:
    broken = False

    def breaks(*_: object) -> None:
        if broken:
            raise error

    io = Faults(pwritev=breaks, preadv=breaks)
    with slab_rig(tmp_path, blocks=3, threads=1, io=io) as rig:
        for _ in range(5):  # more often than there are slots
            broken = True
            assert rig.store(*KEYS[:2]) == frozenset()
            broken = False
            assert rig.store(*KEYS[:2]) == set(KEYS[:2])
            broken = True
            assert rig.load(*KEYS[:2]) == frozenset()
            broken = False
            rig.tier.clear()
            eventually(lambda: not rig.tier._index.clearing, "the clear")
        rig.tier.submit_load(LoadJob(99, (KEYS[0],), (1_000,)))
        assert rig.report(99).landed == frozenset()


def test_t4_a_store_is_found_after_its_report_and_never_before(tmp_path: Path) -> None:
    with slab_rig(tmp_path) as rig:
        assert rig.decide(KEYS[0]) is Claim.ABSENT
        job = rig.begin_store(KEYS[:1])
        eventually(lambda: rig.tier.counters["stored"], "the write")
        for _ in range(200):
            assert rig.ask(KEYS[0]) is Claim.ABSENT, "claimed before the store was reported"
        rig.report(job)
        assert rig.ask(KEYS[0]) is Claim.PRESENT


def test_t5_a_failed_read_withdraws_the_claim_until_the_block_is_verified(tmp_path: Path) -> None:
    now = [0.0]
    io = Faults()
    with slab_rig(tmp_path, io=io, clock=lambda: now[0]) as rig:
        rig.store(*KEYS)
        io.faults["preadv"] = failing(errno.EIO, {1})
        assert rig.load(KEYS[0]) == frozenset()
        assert rig.decide(KEYS[0]) is Claim.ABSENT
        now[0] += 2.5
        eventually(rig.poll, "the verification")
        assert rig.verified == [KEYS[0]]
        assert rig.load(KEYS[0]) == {KEYS[0]}


def test_t8_drain_names_the_job_that_is_stuck(tmp_path: Path) -> None:
    gate = Gate()
    io = Faults()
    with slab_rig(tmp_path, threads=1, io=io) as rig:
        rig.store(*KEYS)
        io.faults["preadv"] = gate
        stuck = rig.begin_load(KEYS[:1], [0])
        assert gate.reached.wait(PATIENCE)
        queued = rig.begin_load(KEYS[2:], [2, 3, 4])
        assert list(rig.tier.drain(0.1)) == [stuck]
        rig.poll()
        assert rig.reports[queued].landed == frozenset()
        gate.open.set()
        assert rig.report(stuck).landed == {KEYS[0]}


def test_t8_shutdown_with_a_stuck_thread_keeps_the_slab_locked(tmp_path: Path) -> None:
    gate = Gate()
    io = Faults()
    rig = Rig(SlabTier(tmp_path, capacity_bytes=file_length(8, SIZE), threads=1, io=io))
    rig.store(KEYS[0])
    io.faults["preadv"] = gate
    job = rig.begin_load(KEYS[:1])
    assert gate.reached.wait(PATIENCE)
    rig.tier.shutdown()
    rig.tier.shutdown()
    with pytest.raises(ConfigError, match="another tier owns"):
        Rig(SlabTier(tmp_path, capacity_bytes=file_length(8, SIZE)))
    with pytest.raises(TierError, match="shut down"):
        rig.begin_load(KEYS[:1])
    gate.open.set()
    assert rig.report(job).landed == {KEYS[0]}
    rig.tier._mover.close(True)


def test_t9_a_disk_that_fails_gives_one_warning_and_recovers(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="tierproof")
    io = Faults()
    now = [0.0]
    with slab_rig(tmp_path, io=io, clock=lambda: now[0]) as rig:
        rig.store(*KEYS[:3])
        io.faults.update(preadv=failing(errno.EIO), pwritev=failing(errno.EIO))
        for _ in range(5):
            assert rig.store(b"new") == frozenset()
            assert rig.load(KEYS[1]) == frozenset()
            assert rig.decide(KEYS[1]) is Claim.ABSENT
        warnings = [record for record in caplog.records if record.levelno >= logging.WARNING]
        assert len(warnings) == 1
        io.faults.clear()
        scribble(index_of(tmp_path), PAGE, bytes(RECORD_BYTES * 8))  # and the index has gone
        assert rig.store(b"new") == {b"new"}
        assert rig.decide(KEYS[0]) is Claim.ABSENT, "an entry from before was trusted"
        assert rig.load(b"new") == {b"new"}
        assert any("works again" in record.getMessage() for record in caplog.records)


def test_b50_an_unwritable_folder_is_a_clear_error_at_the_start(tmp_path: Path) -> None:
    def deny(*_: object) -> None:
        raise OSError(errno.EACCES, os.strerror(errno.EACCES))

    for call in ("mkdir", "open"):
        with pytest.raises(ConfigError, match=r"cannot write to folder .*Permission denied"):
            SlabTier(tmp_path / call, capacity_bytes=1 << 20, io=Faults(**{call: deny}))
    io = Faults()
    tier = SlabTier(tmp_path / "later", capacity_bytes=1 << 20, io=io)
    io.faults["open"] = deny
    with pytest.raises(ConfigError, match="Permission denied"):
        Rig(tier)


def test_b47_a_disk_with_no_room_for_the_slab_is_a_clear_error(tmp_path: Path) -> None:
    tier = SlabTier(tmp_path, capacity_bytes=1 << 20, io=Faults(fallocate=failing(errno.ENOSPC)))
    with pytest.raises(ConfigError, match=r"no room for a slab of .* bytes"):
        Rig(tier)
    assert slab_of(tmp_path).stat().st_size == 0
    with slab_rig(tmp_path, io=Faults(fallocate=failing(errno.EOPNOTSUPP))) as rig:
        assert rig.store(*KEYS) == rig.load(*KEYS) == set(KEYS)


def test_b47_a_slab_on_a_real_full_disk(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(disk)], capture_output=True
    )
    if mounted.returncode:
        pytest.skip("this machine lets nobody mount a tmpfs")
    try:
        with pytest.raises(ConfigError, match="no room"):
            Rig(SlabTier(disk, capacity_bytes=2 << 20))
        with slab_rig(disk, capacity_bytes=900 << 10) as rig:
            (disk / "filler").write_bytes(bytes(100 << 10))  # the slab has its bytes already
            keys = [b"%d" % number for number in range(8)]
            assert rig.store(*keys) == rig.load(*keys) == set(keys)
    finally:
        subprocess.run(["umount", str(disk)], check=True)


def test_clear_forgets_at_once_and_a_running_store_does_not_bring_a_block_back(
    tmp_path: Path,
) -> None:
    gate = Gate()
    io = Faults()
    with slab_rig(tmp_path, io=io) as rig:
        rig.store(*KEYS[:3])
        io.faults["pwritev"] = gate
        job = rig.begin_store([KEYS[4]])
        assert gate.reached.wait(PATIENCE)
        rig.tier.clear()
        assert [rig.ask(key) for key in KEYS[:3]] == [Claim.ABSENT] * 3
        gate.open.set()
        assert rig.report(job).landed == frozenset()
        assert rig.decide(KEYS[4]) is Claim.ABSENT
        eventually(lambda: not rig.tier._index.clearing, "the clear")
        assert rig.store(KEYS[4]) == {KEYS[4]}
    with slab_rig(tmp_path) as rig:
        assert rig.load(*KEYS) == {KEYS[4]}


def test_a_clear_that_has_not_ended_ends_with_the_shutdown(tmp_path: Path) -> None:
    with slab_rig(tmp_path) as rig:
        rig.store(*KEYS)
        gate = Gate()
        rig.tier._pool.chore(lambda: gate())
        rig.tier.clear()
        gate.open.set()
    with slab_rig(tmp_path) as rig:
        assert rig.load(*KEYS) == frozenset()


def test_the_slab_file_closes_its_descriptors_when_it_cannot_be_opened(tmp_path: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))
    for call in ("flock", "ftruncate", "pwritev"):
        with pytest.raises((OSError, ConfigError)):
            SlabFile(
                Faults(**{call: failing(errno.EIO)}),
                str(tmp_path / call),
                fingerprint=bytes(32),
                block_bytes=SIZE,
                slots=4,
                direct=False,
            )
    assert len(os.listdir("/proc/self/fd")) == before
