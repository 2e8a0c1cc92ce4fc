"""A disk without room for anything: a tier starts, serves what is there, and makes some room."""

from __future__ import annotations

import errno
import os
import shutil
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from tierproof.impl.tiers.base import Claim
from tierproof.impl.tiers.block_file import file_bytes
from tierproof.impl.tiers.block_folder import BlockFolder
from tierproof.impl.tiers.file_io import FileIO, probe_direct
from tierproof.impl.tiers.file_mover import FileMover
from tierproof.impl.tiers.full_disk import FullDisk

from .slab_support import slab_rig
from .support import Faults, Gate, block_files, eventually, failing, file_rig, leftovers

KEYS = [b"k%d" % number for number in range(1, 9)]
SIZE = file_bytes(4096)
ROOMY = 100 * SIZE


def no_space() -> OSError:
    return OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


class Crowded(FileIO):
    """A disk of `free` units: a folder, a new file, and a first byte in the count take one each,
    and a block or temporary that is removed gives `back` of them."""

    def __init__(self, free: int = 0, back: int = 2) -> None:
        self.free = free
        self.back = back
        self.unreadable = False

    def take(self) -> None:
        if self.free <= 0:
            raise no_space()
        self.free -= 1

    def mkdir(self, path: str) -> None:
        if not os.path.exists(path):
            self.take()
        super().mkdir(path)

    def open(self, path: str, flags: int) -> int:
        if flags & os.O_CREAT and not os.path.exists(path):
            self.take()
        return super().open(path, flags)

    def pwritev(self, fd: int, buffers: Sequence[Any], offset: int) -> int:
        if sum(len(buffer) for buffer in buffers) == 8 and os.fstat(fd).st_size == 0:
            self.take()
        return super().pwritev(fd, buffers, offset)

    def scandir(self, path: str) -> Iterator[os.DirEntry[str]]:
        if self.unreadable:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return super().scandir(path)

    def unlink(self, path: str) -> None:
        size = os.stat(path).st_size
        super().unlink(path)
        self.free += self.back * (size == SIZE)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A folder of a tier that has ended, with all blocks of `KEYS` in it, and a count."""
    with file_rig(tmp_path, capacity_bytes=ROOMY) as rig:
        assert rig.store(*KEYS) == set(KEYS)
    return tmp_path


def uncounted(root: Path) -> None:
    """What is left where no tier of the folder had a capacity."""
    os.truncate(root / ".tierproof" / "usage", 0)


# --- the start ---


@pytest.mark.parametrize("capacity", [None, ROOMY])
@pytest.mark.parametrize("shared", [True, False])
def test_t10_a_tier_starts_on_a_full_disk_and_serves_what_is_there(
    root: Path, capacity: int | None, shared: bool
) -> None:
    with file_rig(root, io=Crowded(), capacity_bytes=capacity, shared=shared) as rig:
        assert rig.load(*KEYS) == set(KEYS)
        assert {rig.decide(key) for key in KEYS} == {Claim.PRESENT}
        assert rig.tier._trouble.failing == frozenset()


def test_b47_a_tier_that_started_on_a_full_disk_writes_over_its_oldest(root: Path) -> None:
    io = Crowded()
    with file_rig(root, io=io, capacity_bytes=ROOMY, threads=1) as rig:
        for number in range(4):
            assert rig.store(b"new %d" % number)
            assert rig.load(b"new %d" % number)
        assert 4 <= rig.tier.counters["evicted"] <= 7, "and one or two for folders"
        assert rig.tier._folder.usage() == len(block_files(root)) * SIZE
    assert leftovers(root) == []


def test_t9_a_tier_without_a_capacity_stores_as_soon_as_a_full_disk_has_room(root: Path) -> None:
    io = Crowded()
    with file_rig(root, io=io) as rig:
        assert rig.store(b"new") == frozenset()
        assert rig.decide(b"new") is Claim.ABSENT
        io.free = 10
        assert rig.store(b"new") == {b"new"} == rig.load(b"new")
        assert len(block_files(root)) == len(KEYS) + 1


@pytest.mark.parametrize("capacity", [None, ROOMY])
def test_r1_a_full_disk_without_room_for_a_folder_can_be_cleared(
    root: Path, capacity: int | None
) -> None:
    uncounted(root)
    with file_rig(root, io=Crowded(back=0), capacity_bytes=capacity) as rig:
        rig.tier.clear()
        eventually(lambda: not rig.tier._index.clearing, "the clear")
        assert {rig.decide(key) for key in KEYS} == {Claim.ABSENT}
        assert block_files(root) == leftovers(root) == []
    with file_rig(root) as rig:
        assert {rig.decide(key) for key in KEYS} == {Claim.ABSENT}


def test_t10_the_folder_of_a_killed_writer_makes_room_for_the_next(root: Path) -> None:
    dead = root / ".tierproof" / "writers" / "1-dead"
    dead.mkdir()
    (dead / "lock").touch()
    (dead / f"0.{SIZE}").write_bytes(bytes(SIZE))
    io = Crowded()
    with file_rig(root, io=io, capacity_bytes=ROOMY) as rig:
        assert not dead.exists()
        assert rig.tier._folder.settled
        assert rig.load(*KEYS) == set(KEYS)


def test_a_disk_without_an_inode_says_nothing_about_o_direct(tmp_path: Path) -> None:
    io = Faults(open=failing(errno.ENOSPC))
    assert probe_direct(io, str(tmp_path / "probe"), None)
    with slab_rig(tmp_path) as slab:
        slab.store(b"a")
    io.faults.clear()
    io.faults["open"] = lambda path, flags: failing(errno.ENOSPC)() if "probe" in path else None
    with slab_rig(tmp_path, io=io) as slab:
        assert slab.load(b"a") == {b"a"}


def test_a_folder_of_our_own_that_was_removed_is_made_again_when_there_is_room(
    root: Path,
) -> None:
    io = Crowded(free=10)
    with file_rig(root, io=io, capacity_bytes=ROOMY, threads=1) as rig:
        shutil.rmtree(rig.tier._folder.own)
        io.free = 0
        assert rig.store(b"new") == {b"new"} == rig.load(b"new")
        assert rig.tier.counters["evicted"] > 0


# --- the count ---


def test_b47_a_full_folder_that_nobody_counted_is_counted_in_place_of_a_block(root: Path) -> None:
    uncounted(root)
    with file_rig(root, io=Crowded(free=2), capacity_bytes=ROOMY, threads=1) as rig:
        assert rig.load(*KEYS) == set(KEYS), "listed, although there is no room for the count"
        assert rig.tier._trouble.failing == frozenset()
        assert rig.store(b"new") == {b"new"} == rig.load(b"new")
        assert rig.tier._folder.usage() == len(block_files(root)) * SIZE
        assert len(block_files(root)) >= len(KEYS) - 1


def test_t11_what_another_process_has_used_is_not_what_goes_for_a_folder(root: Path) -> None:
    with file_rig(root, io=Crowded(back=20), capacity_bytes=ROOMY, threads=1) as rig:
        eventually(lambda: rig.tier._index._listed, "the listing")
        named = {rig.tier._name(key).hex(): key for key in KEYS}
        oldest, next_oldest = (named[path.stem] for path in block_files(root)[:2])
        with file_rig(root) as other:
            assert other.load(oldest) == {oldest}
        assert rig.store(b"new") == {b"new"}
        assert rig.tier.counters["evicted"] <= 2
        assert rig.load(oldest) == {oldest}
        assert rig.load(next_oldest) == frozenset()


@pytest.mark.parametrize("free", [0, 2])
def test_b47_where_removing_blocks_makes_no_room_few_go(root: Path, free: int) -> None:
    """Somebody keeps them all the same (a snapshot, another link)."""
    uncounted(root)
    now = [0.0]
    io = Crowded(free=free, back=0)
    with file_rig(
        root, io=io, capacity_bytes=ROOMY, threads=1, slots=32, clock=lambda: now[0]
    ) as rig:
        many = [b"more %d" % number for number in range(24)]
        with file_rig(root, slots=32) as other:
            assert other.store(*many) == set(many)
        for _ in range(3):
            for number in range(10):
                assert rig.store(b"new %d" % number) == frozenset()
            now[0] += 1.0
        left = len(block_files(root))
        assert left >= 32 - 3 * 4, "blocks went in vain, store after store"
        assert rig.load(many[-1]) == {many[-1]}


def test_b47_a_full_disk_with_no_block_to_remove_fails_the_store(tmp_path: Path) -> None:
    with file_rig(tmp_path, capacity_bytes=ROOMY):
        pass
    io = Crowded()
    with file_rig(tmp_path, io=io, capacity_bytes=ROOMY, threads=1) as rig:
        assert rig.store(KEYS[0]) == frozenset()
        io.free = 10
        assert rig.store(KEYS[0]) == {KEYS[0]} == rig.load(KEYS[0])


def test_t9_a_start_on_a_full_disk_still_tells_other_trouble(root: Path) -> None:
    io = Crowded()
    with file_rig(root, io=io, capacity_bytes=ROOMY, threads=1) as rig:
        assert rig.load(KEYS[0]) == {KEYS[0]}
        eventually(lambda: rig.tier._index._listed, "the listing")
        io.unreadable = True
        uncounted(root)
        assert rig.store(b"new") == frozenset()
        assert rig.tier.counters["io_errors"] == 1
        io.unreadable = False
        assert rig.store(b"new") == {b"new"}


def test_t7_a_count_that_could_not_be_written_is_doubted(tmp_path: Path) -> None:
    """The block is gone and was not counted off: without a doubt, its room would be lost."""
    io = Faults()
    with file_rig(tmp_path, io=io, capacity_bytes=3 * SIZE, threads=1) as rig:
        assert rig.store(*KEYS[:3]) == set(KEYS[:3])
        block_files(tmp_path)[0].chmod(0o640)  # so that it is removed and counted off

        def fault(fd: int, buffers: Sequence[Any], offset: int) -> None:
            if len(buffers[0]) == 8:
                raise OSError(errno.EIO, os.strerror(errno.EIO))

        io.faults["pwritev"] = fault
        assert rig.store(KEYS[3]) == frozenset()
        assert len(block_files(tmp_path)) == 2
        io.faults.clear()
        assert rig.store(KEYS[4]) == {KEYS[4]}
        assert len(block_files(tmp_path)) == 3
        assert rig.tier._folder.usage() == 3 * SIZE


def test_counting_that_fails_is_not_begun_again_for_every_block(tmp_path: Path) -> None:
    """A folder that another user has put there, say, in which we may not look."""
    now = [0.0]
    io = Faults()
    with file_rig(
        tmp_path, io=io, capacity_bytes=3 * SIZE, threads=1, clock=lambda: now[0], io_deadline=None
    ) as rig:
        assert rig.store(*KEYS[:3]) == set(KEYS[:3])

        def slow(path: str) -> None:
            now[0] += 10.0
            raise OSError(errno.EACCES, os.strerror(errno.EACCES))

        io.faults["scandir"] = slow
        mover = rig.tier._mover
        assert isinstance(mover, FileMover)
        mover._capacity.doubt()
        assert rig.store(KEYS[3]) == frozenset()
        before = io.calls.count("scandir")
        assert rig.store(KEYS[4]) == {KEYS[4]}, "what is listed can be evicted"
        assert io.calls.count("scandir") == before


def test_b47_a_disk_that_stays_full_is_told_once_however_often_it_is_tried_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A store in place of a block ends as the minute does, and the next finds it full again."""
    now = [0.0]
    io = Faults()
    with file_rig(
        tmp_path, io=io, capacity_bytes=ROOMY, threads=1, clock=lambda: now[0], io_deadline=None
    ) as rig:
        assert rig.store(*KEYS[:3]) == set(KEYS[:3])

        def fault(fd: int, buffers: Sequence[Any], offset: int) -> None:
            if len(buffers) == 2 and os.fstat(fd).st_size == 0:
                raise no_space()

        io.faults["pwritev"] = fault
        for minute in range(5):
            assert rig.store(b"full %d" % minute)
            now[0] += 59.0
            io.faults["utime"] = lambda *_: now.__setitem__(0, now[0] + 2.0)
            assert rig.store(b"as it ends %d" % minute)
            del io.faults["utime"]
        assert rig.tier.counters["evicted"] == 10
    assert [r.message.count("older blocks make room") for r in caplog.records] == [1]


def test_b47_threads_on_a_disk_where_evicting_does_not_help_do_not_empty_the_cache(
    tmp_path: Path,
) -> None:
    now = [0.0]
    io = Faults()
    old = [b"old %d" % number for number in range(64)]
    with file_rig(
        tmp_path, io=io, slots=64, capacity_bytes=10 * ROOMY, threads=8, clock=lambda: now[0]
    ) as rig:
        assert rig.store(*old) == set(old)
        io.faults["pwritev"] = lambda fd, buffers, offset: (
            failing(errno.EDQUOT)() if len(buffers) == 2 else None
        )
        left = []
        for hour in range(4):
            for number in range(60):
                assert not rig.store(b"new %d %d" % (hour, number), b"more %d %d" % (hour, number))
                now[0] += 60.0
            left.append(len(block_files(tmp_path)))
        assert left[0] >= 32, "two for each of a few stores, and one for each thread now and then"
        assert left[-1] >= left[0] - 8, "one an hour for each thread with a store"
        io.faults.clear()
        assert rig.store(b"new") == {b"new"} == rig.load(b"new")


def test_what_a_full_disk_has_taught_is_forgotten_when_a_store_lands() -> None:
    now = [0.0]
    disk = FullDisk(lambda: now[0])

    def rests() -> float:
        began = now[0]
        while disk.helpless:
            now[0] += 30.0
        return now[0] - began

    for _ in range(2):
        for _ in range(3):
            disk.failed()
        assert not disk.helpless, "few failed, which may have been bad luck"
        disk.failed()
        disk.failed()
        told = []
        for _ in range(8):
            told.append(rests())
            disk.refused(100, 1000)
        assert told == [60.0, 120.0, 240.0, 480.0, 960.0, 1920.0, 3600.0, 3600.0]
        disk.landed()
        assert not disk.helpless
        disk.refused(100, 1000)
        assert not disk.helpless
    assert disk.bound(1000) == 100
    disk.forget()
    assert disk.bound(1000) == 1000


def test_b47_a_thread_that_waited_for_the_folder_hears_that_evicting_is_in_vain(
    root: Path,
) -> None:
    gate = Gate()
    io = Faults()
    with file_rig(root, io=io, capacity_bytes=ROOMY, threads=1) as rig:
        assert rig.load(KEYS[0]) == {KEYS[0]}
        mover = rig.tier._mover
        assert isinstance(mover, FileMover)
        capacity = mover._capacity
        answers: list[bool] = []
        io.faults["flock"] = gate
        thread = threading.Thread(target=lambda: answers.append(capacity.make_way(True)))
        thread.start()
        assert gate.reached.wait(10.0)
        for _ in range(4):
            capacity.disk.failed()
        io.faults.clear()
        gate.open.set()
        thread.join(10.0)
        assert answers == [False]


# --- evicting only for a store that can be ---


@pytest.mark.parametrize("call", ["open", "rename"])
def test_a_store_that_cannot_have_a_blocks_file_evicts_nothing(tmp_path: Path, call: str) -> None:
    """A process without a descriptor left would else lose a block for each store that fails."""
    io = Faults()
    with file_rig(tmp_path, io=io, capacity_bytes=3 * SIZE, threads=1) as rig:
        assert rig.store(*KEYS[:3]) == set(KEYS[:3])
        descriptors = len(os.listdir("/proc/self/fd"))
        io.faults[call] = failing(errno.EMFILE)
        for key in KEYS[3:]:
            assert rig.store(key) == frozenset()
        io.faults.clear()
        assert rig.load(*KEYS[:3]) == set(KEYS[:3])
        assert rig.tier.counters["evicted"] == 0
        assert len(os.listdir("/proc/self/fd")) == descriptors
        assert rig.store(KEYS[3]) == {KEYS[3]} == rig.load(KEYS[3])


def test_a_file_that_another_took_the_place_of_is_not_written_over(tmp_path: Path) -> None:
    """A process without a capacity takes no lock, and may store the block anew meanwhile."""
    io = Faults()
    with file_rig(tmp_path, io=io, capacity_bytes=SIZE, threads=1) as rig:
        assert rig.store(KEYS[0]) == {KEYS[0]}
        (path,) = block_files(tmp_path)
        kept = tmp_path / "kept"

        def fault(old: str, new: str) -> None:
            if old == str(path):
                io.faults.clear()
                os.link(path, kept)
                os.unlink(path)
                path.write_bytes(kept.read_bytes())
                path.chmod(0o600)

        before = path.read_bytes()
        io.faults["rename"] = fault
        assert rig.store(KEYS[1]) == {KEYS[1]} == rig.load(KEYS[1])
        assert kept.read_bytes() == before
        assert rig.tier._folder.usage() == SIZE


def test_b47_the_minute_of_a_full_disk_may_end_while_room_is_made(tmp_path: Path) -> None:
    """Every block is in use just then: that is no lack of room within the capacity."""
    now = [0.0]
    io = Faults()
    with file_rig(
        tmp_path, io=io, capacity_bytes=ROOMY, threads=1, clock=lambda: now[0], io_deadline=None
    ) as rig:
        assert rig.store(*KEYS[:2]) == set(KEYS[:2])
        mover = rig.tier._mover
        assert isinstance(mover, FileMover)
        assert mover._capacity.make_way(True)
        rig.tier._index.begin_load([rig.tier._name(key) for key in KEYS[:2]])
        now[0] = 59.0
        io.faults["scandir"] = lambda path: now.__setitem__(0, 61.0)
        assert rig.store(KEYS[2]) == {KEYS[2]}


def test_a_first_start_on_a_full_disk_is_refused_and_leaves_no_descriptor(tmp_path: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(OSError, match="No space"):
        BlockFolder(str(tmp_path / "new"), Crowded())
    assert len(os.listdir("/proc/self/fd")) == before
