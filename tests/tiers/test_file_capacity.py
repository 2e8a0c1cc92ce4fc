"""How much the file tier keeps, what it forgets, and clearing it: `T7`, B46, B47."""

from __future__ import annotations

import errno
import os
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tierproof.impl.tiers.base import Claim
from tierproof.impl.tiers.block_file import file_bytes
from tierproof.impl.tiers.block_folder import BlockFolder
from tierproof.impl.tiers.file_io import FileIO
from tierproof.impl.tiers.file_mover import FileMover
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
)

KEYS = [b"k%d" % number for number in range(1, 6)]


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
        folder = BlockFolder(str(tmp_path), FileIO())
        while not stop.wait(0.002):
            with folder.locked():  # so that the listing is an instant
                most = max(most, len(block_files(tmp_path)) + len(leftovers(tmp_path)))
        folder.close()

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
        assert one.tier.counters["stored"] + two.tier.counters["stored"] > 25
    assert most <= 3, f"{most} files and temporaries at once within a capacity of 3"


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


# --- a block that goes leaves its file to the one that comes ---


def test_a_victims_file_is_written_over_and_its_bytes_are_never_found_again(
    tmp_path: Path,
) -> None:
    with file_rig(tmp_path, capacity_bytes=2 * file_bytes(4096)) as rig:
        rig.store(*KEYS[:2])
        before = {path.stat().st_ino for path in block_files(tmp_path)}
        assert rig.store(*KEYS[2:4]) == set(KEYS[2:4])
        assert {path.stat().st_ino for path in block_files(tmp_path)} == before
        assert leftovers(tmp_path) == []
        assert rig.load(*KEYS[2:4]) == set(KEYS[2:4])
        assert [rig.decide(key) for key in KEYS[:2]] == [Claim.ABSENT] * 2
        assert rig.load(*KEYS[:2]) == frozenset()
        assert rig.tier.counters["evicted"] == 2
        assert rig.tier.used_bytes == 2 * file_bytes(4096)


@pytest.mark.parametrize("unfit", ["another name", "other rights", "another size"])
def test_a_file_that_is_not_only_ours_is_removed_and_not_written_over(
    tmp_path: Path, unfit: str
) -> None:
    kept = tmp_path / "kept"
    kept.mkdir()
    with file_rig(tmp_path / "root", capacity_bytes=file_bytes(4096)) as rig:
        rig.store(KEYS[0])
        (path,) = block_files(tmp_path)
        before, inode = path.read_bytes(), path.stat().st_ino
        if unfit == "another name":
            os.link(path, kept / "copy")  # a snapshot, say
        elif unfit == "other rights":
            path.chmod(0o640)
        else:
            os.truncate(path, 4096)
        held = path.open("rb")  # so that a new file cannot be given the same number
        assert rig.store(KEYS[1]) == {KEYS[1]}
        assert rig.load(KEYS[1]) == {KEYS[1]}
        (path,) = block_files(tmp_path / "root")
        assert path.stat().st_ino != inode
        with held:
            found = held.read()
        assert len(found) >= 4096
        assert before.startswith(found), "the old file was written over"


def test_a_victims_file_that_cannot_be_opened_fails_the_store_and_takes_no_room(
    tmp_path: Path,
) -> None:
    io = Faults()
    with file_rig(tmp_path, io=io, capacity_bytes=2 * file_bytes(4096)) as rig:
        rig.store(KEYS[0])
        rig.store(KEYS[1])

        def fault(path: str, flags: int) -> None:
            if flags & os.O_WRONLY and not flags & os.O_CREAT:
                raise OSError(errno.EIO, os.strerror(errno.EIO))

        io.faults["open"] = fault
        assert rig.store(KEYS[2]) == frozenset()
        assert leftovers(tmp_path) == []
        io.faults.clear()
        assert rig.load(*KEYS[:2]) == set(KEYS[:2]), "evicted, although the store had to fail"
        assert rig.store(KEYS[2]) == {KEYS[2]}
        assert len(block_files(tmp_path)) == 2


def test_t11_a_block_whose_file_is_written_over_while_another_reads_it_has_vanished(
    tmp_path: Path,
) -> None:
    gate = Gate(lambda fd, buffers, offset: len(buffers) == 2)
    io = Faults()
    options = {"capacity_bytes": file_bytes(4096)}
    with file_rig(tmp_path, io=io, **options) as reader, file_rig(tmp_path, **options) as writer:
        writer.store(KEYS[0])
        assert reader.decide(KEYS[0]) is Claim.PRESENT
        io.faults["preadv"] = gate
        job = reader.begin_load([KEYS[0]])
        assert gate.reached.wait(PATIENCE)  # it has opened the file
        assert writer.store(KEYS[1]) == {KEYS[1]}
        gate.open.set()
        assert reader.report(job).landed == frozenset()
        assert reader.decide(KEYS[0]) is Claim.ABSENT
        assert reader.tier.counters["corrupt"] == 0, "nothing is wrong with the disk"
        assert reader.tier.counters["vanished"] == 1
        assert writer.load(KEYS[1]) == {KEYS[1]}, "the new block was removed as a corrupt old one"


def test_who_counts_anew_counts_what_others_are_about_to_write(tmp_path: Path) -> None:
    gate = Gate(lambda fd, buffers, offset: len(buffers) == 2)
    io = Faults(pwritev=gate)
    size = file_bytes(4096)
    with file_rig(tmp_path, io=io, capacity_bytes=2 * size) as one:
        job = one.begin_store([KEYS[0]])
        assert gate.reached.wait(PATIENCE)  # reserved, and nothing written yet
        with file_rig(tmp_path, capacity_bytes=2 * size) as two:  # which counts at its start
            assert two.store(*KEYS[1:3])
            assert len(block_files(tmp_path)) == 1, "there was room for one beside the other's"
            gate.open.set()
            assert one.report(job).landed == {KEYS[0]}


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


def test_clear_lets_no_load_bring_forgotten_bytes_back(tmp_path: Path) -> None:
    gate = Gate()
    io = Faults()
    with file_rig(tmp_path, io=io) as rig:
        rig.store(*KEYS[:2])
        io.faults["utime"] = gate  # the bytes have been read
        before = rig.begin_load([KEYS[0]], [0])
        assert gate.reached.wait(PATIENCE)
        io.faults["rename"] = failing(errno.EIO)  # the files stay for now
        rig.tier.clear()
        after = rig.begin_load([KEYS[1]], [1])
        assert rig.report(after).landed == frozenset()
        gate.open.set()
        assert rig.report(before).landed == frozenset()
        io.faults.clear()


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
    rig.tier._pool.chore(lambda: gate())
    rig.tier.clear()
    threading.Timer(0.1, gate.open.set).start()
    rig.close()
    with file_rig(tmp_path) as rig:
        assert [rig.decide(key) for key in KEYS] == [Claim.ABSENT] * 5


# --- a disk that is full before the capacity is ---


class SmallDisk(FileIO):
    """A disk below `root` with room for so many bytes of blocks and temporaries."""

    def __init__(self, root: Path, room: int) -> None:
        self.root = root
        self.room = room
        self.lock = threading.Lock()

    def pwritev(self, fd: int, buffers: Sequence[Any], offset: int) -> int:
        grows = offset + sum(len(buffer) for buffer in buffers) - os.fstat(fd).st_size
        with self.lock:
            if grows > 0 and self.taken() + grows > self.room:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            return super().pwritev(fd, buffers, offset)

    def rename(self, old: str, new: str) -> None:
        with self.lock:  # else a file could be in neither folder when it is looked for
            super().rename(old, new)

    def taken(self) -> int:
        taken = 0
        for path in [*block_files(self.root), *leftovers(self.root)]:
            with suppress(FileNotFoundError):
                taken += path.stat().st_size
        return taken


def test_b47_on_a_disk_that_is_full_below_the_capacity_older_blocks_make_room(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    size, now = file_bytes(4096), [0.0]
    io = SmallDisk(tmp_path, 3 * size)
    with file_rig(
        tmp_path, io=io, capacity_bytes=100 * size, threads=1, clock=lambda: now[0]
    ) as rig:
        for key in KEYS:
            assert rig.store(key) == {key}
        assert rig.load(*KEYS) == set(KEYS[2:])
        assert rig.tier.counters["evicted"] == 2
        assert rig.tier.used_bytes == 3 * size
        assert leftovers(tmp_path) == []
        assert [r.message.count("older blocks make room") for r in caplog.records] == [1]
        io.room = 100 * size  # nobody tells us, so it is tried once a minute
        assert rig.store(b"soon") == {b"soon"}
        assert rig.tier.counters["evicted"] == 3
        now[0] = 61.0
        assert rig.store(b"later", b"last") == {b"later", b"last"}
        assert rig.tier.counters["evicted"] == 3
        assert rig.tier._trouble.failing == {"grow"}, "others may have had less luck"
        now[0] = 121.0
        assert rig.store(b"much later") == {b"much later"}
        assert rig.tier._trouble.failing == frozenset()


def test_b47_a_disk_that_others_fill_takes_the_room_of_our_blocks(tmp_path: Path) -> None:
    size = file_bytes(4096)
    io = SmallDisk(tmp_path, 3 * size)
    with file_rig(tmp_path, io=io, capacity_bytes=100 * size, threads=1) as rig:
        assert rig.store(*KEYS[:3]) == set(KEYS[:3])
        io.room = 0
        for key in KEYS:
            assert rig.store(key) == {key}, "written over a block of ours, which takes no room"
        rig.tier.clear()
        eventually(lambda: not rig.tier._index.clearing, "the clear")
        assert rig.store(*KEYS) == frozenset(), "and there is none of ours left"
        assert leftovers(tmp_path) == []
        io.room = size
        assert rig.store(KEYS[0]) == {KEYS[0]}


def test_b47_where_evicting_does_not_help_hardly_a_block_goes(tmp_path: Path) -> None:
    """A quota of zero, a disk that is full for reasons of its own: every write fails."""
    size, now, io = file_bytes(4096), [0.0], Faults()
    keys = [b"key %d" % number for number in range(20)]
    with file_rig(
        tmp_path, io=io, capacity_bytes=100 * size, threads=1, clock=lambda: now[0]
    ) as rig:
        for start in (0, 8):
            rig.store(*keys[start : start + 8])
        io.faults["pwritev"] = lambda fd, buffers, offset: (
            failing(errno.ENOSPC)() if len(buffers) == 2 else None
        )
        for number in range(8):
            assert rig.store(b"%d" % number) == frozenset()
        assert len(block_files(tmp_path)) == 8, "two for each of four stores"
        now[0] = 100.0
        assert rig.store(b"a") == frozenset()
        assert len(block_files(tmp_path)) == 7, "one, to see whether it helps now"
        assert rig.store(b"b") == frozenset()
        assert len(block_files(tmp_path)) == 7
        assert leftovers(tmp_path) == []
        assert rig.tier._folder.usage() == len(block_files(tmp_path)) * size
        io.faults.clear()
        assert rig.store(b"a") == {b"a"}


def test_b47_many_threads_on_a_disk_that_is_full_below_the_capacity(tmp_path: Path) -> None:
    size = file_bytes(4096)
    io = SmallDisk(tmp_path, 6 * size)
    keys = [b"key %d" % number for number in range(64)]
    with file_rig(tmp_path, io=io, slots=8, capacity_bytes=100 * size, threads=8) as rig:
        for start in range(0, 64, 8):
            rig.store(*keys[start : start + 8])
            assert len(block_files(tmp_path)) <= 6
        assert rig.tier.used_bytes == len(block_files(tmp_path)) * size
        assert rig.store(b"one more") == {b"one more"}
        assert leftovers(tmp_path) == []


def test_b47_a_full_disk_without_a_capacity_evicts_nothing(tmp_path: Path) -> None:
    io = SmallDisk(tmp_path, 3 * file_bytes(4096))
    with file_rig(tmp_path, io=io, threads=1) as rig:
        assert rig.store(*KEYS) == set(KEYS[:3]) == rig.load(*KEYS)


# --- counting costs time in a large folder ---


def test_blocks_that_others_have_evicted_do_not_have_the_folder_counted_each_time(
    tmp_path: Path,
) -> None:
    """Two processes on a full folder: each wants to evict what the other has evicted already."""
    size, now = file_bytes(4096), [0.0]

    class Slow(Faults):
        """A folder that takes ten seconds to read."""

    io = Slow(scandir=lambda path: now.__setitem__(0, now[0] + 10.0 * (path == str(tmp_path))))
    with file_rig(
        tmp_path, io=io, capacity_bytes=40 * size, threads=1, clock=lambda: now[0], io_deadline=None
    ) as rig:
        keys = [b"key %d" % number for number in range(40)]
        for start in range(0, 40, 8):
            rig.store(*keys[start : start + 8])
        with file_rig(tmp_path, capacity_bytes=40 * size, threads=1) as other:
            for number in range(20):
                other.store(b"other %d" % number)  # evicts the twenty oldest
        before = io.calls.count("scandir")
        for number in range(10):
            assert rig.store(b"new %d" % number)
        assert io.calls.count("scandir") == before, "counted anew although there was no need"
        assert rig.tier._folder.usage() == 40 * size == len(block_files(tmp_path)) * size
        now[0] += 1000.0
        mover = rig.tier._mover
        assert isinstance(mover, FileMover)
        mover._capacity.doubt()
        assert rig.store(b"much later")
        assert io.calls.count("scandir") > before
