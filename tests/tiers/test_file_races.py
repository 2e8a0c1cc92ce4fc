"""Others at work in the folder: counts, inherited files, and readers of what goes: `T7`, `T11`.

Each test stops a thread between two system calls, lets another do what it could do just then, and
looks at what is left.
"""

from __future__ import annotations

import errno
import os
import threading
from pathlib import Path
from typing import Any

import pytest

from tierproof.impl.tiers.base import Claim
from tierproof.impl.tiers.block_file import file_bytes
from tierproof.impl.tiers.file_io import FileIO
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

KEYS = [b"k%d" % number for number in range(1, 8)]
SIZE = file_bytes(4096)


def counted(root: Path) -> int:
    return int.from_bytes((root / ".tierproof" / "usage").read_bytes(), "little")


def there(root: Path) -> int:
    return sum(path.stat().st_size for path in [*block_files(root), *leftovers(root)])


def disk_fails(_: int, buffers: list[bytes], offset: int) -> None:
    if len(buffers) == 2:
        raise OSError(errno.EIO, os.strerror(errno.EIO))


def test_who_counts_anew_while_a_failed_store_is_cleaned_up_counts_right(tmp_path: Path) -> None:
    started: list[threading.Thread] = []

    def start_another() -> None:
        with file_rig(tmp_path, capacity_bytes=3 * SIZE) as two:  # counts at its start
            assert two.decide(KEYS[0]) is Claim.PRESENT

    class Meanwhile(Faults):
        def unlink(self, path: str) -> None:
            super().unlink(path)
            if self.faults and not started:
                started.append(threading.Thread(target=start_another))
                started[0].start()
                started[0].join(0.5)

    io = Meanwhile()
    with file_rig(tmp_path, io=io, capacity_bytes=3 * SIZE) as one:
        one.store(KEYS[0])
        io.faults["pwritev"] = disk_fails
        assert one.store(KEYS[1]) == frozenset()
        started[0].join(PATIENCE)
        assert counted(tmp_path) == there(tmp_path) == SIZE
        io.faults.clear()
        for key in KEYS[2:6]:
            assert one.store(key) == {key}
        assert counted(tmp_path) == there(tmp_path) == 3 * SIZE


def test_a_temporary_that_goes_with_a_later_one_is_counted_as_gone_then(tmp_path: Path) -> None:
    io = Faults()
    with file_rig(tmp_path, io=io, capacity_bytes=3 * SIZE) as rig:
        rig.store(KEYS[6])  # so that there is something to evict, instead of counting anew
        io.faults.update(pwritev=disk_fails, unlink=failing(errno.EACCES, {1}))
        assert rig.store(KEYS[0]) == frozenset()
        assert len(leftovers(tmp_path)) == 1
        assert counted(tmp_path) == 2 * SIZE
        assert rig.store(KEYS[0]) == frozenset()
        assert leftovers(tmp_path) == []
        assert counted(tmp_path) == there(tmp_path) == SIZE
        io.faults.clear()
        for key in KEYS[:5]:
            assert rig.store(key) == {key}
        assert len(block_files(tmp_path)) == 3, "a part of the capacity was lost"


def test_t4_a_block_that_is_being_evicted_is_not_said_to_be_there_already(tmp_path: Path) -> None:
    io = Faults()
    gate = Gate(lambda old, new: old.endswith(".block"))
    with file_rig(tmp_path, io=io, capacity_bytes=2 * SIZE, threads=3) as rig:
        rig.store(KEYS[0])
        rig.store(KEYS[1])
        io.faults["rename"] = gate
        first = rig.begin_store([KEYS[2]])
        assert gate.reached.wait(PATIENCE)  # it is about to take the file of KEYS[0]
        opened = len(io.calls)
        second = rig.begin_store([KEYS[0]])
        eventually(lambda: "preadv" in io.calls[opened:], "the second store to look at the file")
        threading.Timer(0.2, gate.open.set).start()
        assert rig.report(second).landed == {KEYS[0]}
        assert rig.report(first).landed == {KEYS[2]}
        assert rig.load(KEYS[0]) == {KEYS[0]}, "it was reported stored, and its file is another's"


def test_t11_a_reader_spares_a_block_that_came_back_into_the_file_it_saw_written_over(
    tmp_path: Path,
) -> None:
    io = Faults()
    options = {"capacity_bytes": SIZE}
    with file_rig(tmp_path, io=io, **options) as reader, file_rig(tmp_path, **options) as writer:
        writer.store(KEYS[0])
        assert reader.decide(KEYS[0]) is Claim.PRESENT
        opened = Gate(lambda fd, buffers, offset: len(buffers) == 2)
        wrong = Gate(lambda path: path.endswith(".block"))
        io.faults.update(preadv=opened, stat=wrong)
        job = reader.begin_load([KEYS[0]])
        assert opened.reached.wait(PATIENCE)
        assert writer.store(KEYS[1]) == {KEYS[1]}
        opened.open.set()
        assert wrong.reached.wait(PATIENCE)  # it has read another block's bytes
        assert writer.store(KEYS[0]) == {KEYS[0]}
        wrong.open.set()
        assert reader.report(job).landed == {KEYS[0]}
        assert bytes(reader.arena.row(0)) == payload(KEYS[0], 4096)
        assert reader.tier.counters["corrupt"] == 0
        assert writer.load(KEYS[0]) == {KEYS[0]}, "a good block was removed as a corrupt one"


def test_t11_a_block_written_over_just_before_its_bad_predecessor_is_removed_is_put_back(
    tmp_path: Path,
) -> None:
    io = Faults()
    options = {"capacity_bytes": SIZE}
    with file_rig(tmp_path, io=io, **options) as reader, file_rig(tmp_path, **options) as writer:
        writer.store(KEYS[0])
        (path,) = block_files(tmp_path)
        times = path.stat()
        with path.open("r+b") as file:
            file.seek(5000)
            file.write(b"damaged")
        os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
        assert reader.decide(KEYS[0]) is Claim.PRESENT
        gate = Gate(lambda path: path.endswith("usage"))  # the lock is about to be taken
        io.faults["stat"] = gate
        job = reader.begin_load([KEYS[0]])
        assert gate.reached.wait(PATIENCE)
        with path.open("r+b") as file:  # the lock is held: what a writer did just before
            good = bytearray(path.read_bytes())
            good[5000:5007] = bytes(len(b"damaged"))
            file.write(good)
        gate.open.set()
        assert reader.report(job).landed == frozenset()
        assert block_files(tmp_path) == [path], "it is not the file that was seen to be bad"
        assert counted(tmp_path) == SIZE


@pytest.mark.parametrize("fails", [{2}, {1, 3}])
def test_what_a_clear_could_not_delete_is_deleted_when_it_is_tried_again(
    tmp_path: Path, fails: set[int]
) -> None:
    now = [0.0]
    io = Faults()
    options: dict[str, Any] = {"capacity_bytes": 5 * SIZE, "io_deadline": None}
    with file_rig(tmp_path, io=io, clock=lambda: now[0], **options) as rig:
        rig.store(*KEYS[:5])
        io.faults["unlink"] = failing(errno.EIO, fails)
        rig.tier.clear()
        job = rig.begin_store(KEYS[5:7])

        def stored() -> bool:
            now[0] += 1.0
            rig.poll()
            return job in rig.reports

        eventually(stored, "the store after the clear")
        assert rig.reports[job].landed == set(KEYS[5:7])
        assert len(block_files(tmp_path)) == 2
        assert leftovers(tmp_path) == []
        assert counted(tmp_path) == there(tmp_path) == 2 * SIZE


def test_a_link_made_while_a_block_is_evicted_keeps_its_bytes(tmp_path: Path) -> None:
    io = Faults()
    with file_rig(tmp_path / "root", io=io, capacity_bytes=SIZE) as rig:
        rig.store(KEYS[0])
        (path,) = block_files(tmp_path)
        before = path.read_bytes()

        def link(old: str, new: str) -> None:
            if old == str(path):
                os.link(path, tmp_path / "snapshot")

        io.faults["rename"] = link
        assert rig.store(KEYS[1]) == {KEYS[1]}
        assert (tmp_path / "snapshot").read_bytes() == before
        assert counted(tmp_path / "root") == there(tmp_path / "root") == SIZE
        assert rig.load(KEYS[1]) == {KEYS[1]}


def test_every_call_of_a_store_that_evicts_may_fail_and_nothing_is_lost_or_left(
    tmp_path: Path,
) -> None:
    """One call after the other fails, once, in a full tier: counts, bytes and files stay right."""
    names = ("open", "close", "pwritev", "preadv", "fstat", "stat", "rename", "unlink", "utime")
    for name in names:
        for number in range(1, 8):
            root = tmp_path / f"{name}-{number}"
            io = Faults()
            with file_rig(root, io=io, capacity_bytes=2 * SIZE) as rig:
                rig.store(KEYS[0])
                rig.store(KEYS[1])
                io.faults[name] = failing(errno.EIO, {number})
                landed = rig.store(KEYS[2])
                io.faults.clear()
                assert not landed or rig.load(KEYS[2]) == landed
                assert there(root) <= 2 * SIZE, f"{name} {number}: more than the capacity"
                rig.store(KEYS[3])
                rig.store(KEYS[4])
                assert rig.load(*KEYS[3:5]) == set(KEYS[3:5]), f"{name} {number}: room was lost"
                assert counted(root) == there(root) == 2 * SIZE, f"{name} {number}"
                assert leftovers(root) == []


class Killed(BaseException):
    """What a thread is told that calls the system after the process has died."""


class Mortal(FileIO):
    """Dies after `left` more calls: no call does anything any more, and the files are closed."""

    def __init__(self) -> None:
        self.left = 1_000_000
        self.opened: set[int] = set()

    def __getattribute__(self, name: str) -> Any:
        if name.startswith("_") or name in ("left", "opened", "die"):
            return super().__getattribute__(name)
        if not self.left:
            self.die()
            raise Killed
        self.left -= 1
        return super().__getattribute__(name)

    def die(self) -> None:
        """Let go of everything, as the kernel does for the killed."""
        self.left = 0
        while self.opened:
            os.close(self.opened.pop())

    def open(self, path: str, flags: int) -> int:
        fd = super().open(path, flags)
        self.opened.add(fd)
        return fd

    def close(self, fd: int) -> None:
        super().close(fd)
        self.opened.discard(fd)


def test_t10_a_writer_killed_at_any_call_of_an_eviction_leaves_a_folder_that_counts_right(
    tmp_path: Path,
) -> None:
    for calls in range(40):
        root = tmp_path / str(calls)
        io = Mortal()
        rig = Rig(FileTier(root, io=io, capacity_bytes=2 * SIZE))
        rig.store(KEYS[0])
        rig.store(KEYS[1])
        io.left = calls
        landed = rig.store(KEYS[2])
        ended = io.left > 0
        io.die()
        assert rig.tier._pool.shutdown(PATIENCE)
        assert there(root) <= 2 * SIZE
        with file_rig(root, capacity_bytes=2 * SIZE) as rig:
            claimed = {key for key in KEYS[:3] if rig.decide(key) is Claim.PRESENT}
            assert claimed >= landed, f"killed at call {calls}: a reported block is lost"
            assert KEYS[1] in claimed, f"killed at call {calls}: more was lost than one victim"
            assert rig.load(*claimed) == claimed
            assert rig.store(KEYS[4], KEYS[5]) == set(KEYS[4:6])
            assert counted(root) == there(root) == 2 * SIZE
            assert leftovers(root) == [], f"killed at call {calls}"
        if ended:
            break
    else:
        pytest.fail("the store never ended")
    assert calls > 15


@pytest.mark.parametrize("capacity", [None, 1 << 20])
def test_r1_a_clear_that_comes_before_the_folder_is_listed_forgets_what_is_there(
    tmp_path: Path, capacity: int | None
) -> None:
    with file_rig(tmp_path) as rig:
        assert rig.store(b"a", b"b") == {b"a", b"b"}
    gate = Gate()
    tier = FileTier(tmp_path, capacity_bytes=capacity)
    tier._pool.chore(lambda: gate())
    rig = Rig(tier)
    tier.clear()
    gate.open.set()
    eventually(lambda: not tier._index.clearing, "the clear")
    assert [rig.ask(key) for key in (b"a", b"b")] != [Claim.PRESENT] * 2
    assert [rig.decide(key) for key in (b"a", b"b")] == [Claim.ABSENT] * 2
    rig.close()
