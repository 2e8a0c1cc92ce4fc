"""Systems that refuse: full disks, no permission, folders that go: `T9`, B47, B50."""

from __future__ import annotations

import errno
import logging
import os
import shutil
from itertools import count
from pathlib import Path

import pytest

from tierproof.impl.errors import ConfigError
from tierproof.impl.tiers.base import Claim
from tierproof.impl.tiers.block_file import (
    file_bytes,
)
from tierproof.impl.tiers.file_io import FileIO
from tierproof.impl.tiers.files import FileTier

from .support import (
    Faults,
    block_files,
    eventually,
    failing,
    file_rig,
    leftovers,
)

KEYS = [b"k%d" % number for number in range(1, 6)]


# --- B47: no space ---


def test_b47_no_space_at_block_3_of_5_fails_that_store_alone(tmp_path: Path) -> None:
    io = Faults()
    with file_rig(tmp_path, threads=1, io=io) as rig:
        rig.store(b"before")
        io.faults["pwritev"] = failing(errno.ENOSPC, {3})
        assert rig.store(*KEYS) == {*KEYS} - {KEYS[2]}
        assert rig.decide(KEYS[2]) is Claim.ABSENT
        assert len(block_files(tmp_path)) == 5
        assert leftovers(tmp_path) == []
        assert rig.load(b"before", *KEYS) == {b"before", *KEYS} - {KEYS[2]}
        assert rig.store(KEYS[2]) == {KEYS[2]}, "space has returned"


def test_b35_an_exception_of_any_kind_at_block_2_of_5_does_not_end_the_worker(
    tmp_path: Path,
) -> None:
    io = Faults()
    calls = count(1)

    def fault(*_: object) -> None:
        if next(calls) == 2:
            raise RuntimeError("a bug, not an OSError")

    with file_rig(tmp_path, threads=1, io=io) as rig:
        io.faults["pwritev"] = fault
        assert rig.store(*KEYS) == {*KEYS} - {KEYS[1]}, "one worker, and it went on"
        assert rig.decide(KEYS[1]) is Claim.ABSENT
        assert rig.load(*KEYS) == {*KEYS} - {KEYS[1]}


@pytest.mark.parametrize("call", ["open", "pwritev", "fstat", "close", "rename"])
@pytest.mark.parametrize("capacity", [None, 1 << 20])
def test_b47_a_store_that_fails_at_any_call_leaves_no_file_and_no_temporary(
    tmp_path: Path, call: str, capacity: int | None
) -> None:
    io = Faults()
    with file_rig(tmp_path, io=io, capacity_bytes=capacity) as rig:
        rig.store(KEYS[0])
        used = rig.tier.used_bytes
        broken = True

        def fault(first: object, *_: object) -> None:
            if broken and not str(first).endswith(("usage", "lock")):
                raise OSError(errno.EIO, os.strerror(errno.EIO))

        io.faults[call] = fault
        assert rig.store(KEYS[1]) == frozenset()
        broken = False
        assert len(block_files(tmp_path)) == 1
        assert leftovers(tmp_path) == []
        assert rig.tier.used_bytes == used
        assert rig.decide(KEYS[1]) is Claim.ABSENT
        assert rig.store(KEYS[1]) == {KEYS[1]}
        assert rig.decide(KEYS[0]) is Claim.PRESENT


def test_b47_a_file_system_that_accepts_nothing_and_says_nothing_is_full(tmp_path: Path) -> None:
    class Silent(FileIO):
        silent = False

        def pwritev(self, fd, buffers, offset):
            if self.silent and len(buffers) == 2:
                return super().pwritev(fd, buffers[:1], offset) if offset == 0 else 0
            return 0 if self.silent and offset else super().pwritev(fd, buffers, offset)

    io = Silent()
    with file_rig(tmp_path, io=io) as rig:
        io.silent = True
        assert rig.store(KEYS[0]) == frozenset()
        io.silent = False
        assert block_files(tmp_path) == leftovers(tmp_path) == []


def test_short_reads_and_writes_are_continued(tmp_path: Path) -> None:
    class Slow(FileIO):
        def pwritev(self, fd, buffers, offset):
            return super().pwritev(fd, [buffers[0][:1000]], offset)

        def preadv(self, fd, buffers, offset):
            return super().preadv(fd, [buffers[0][:700]], offset)

    with file_rig(tmp_path, io=Slow(), direct=False) as rig:
        assert rig.store(*KEYS) == rig.load(*KEYS) == set(KEYS)


def test_b47_a_temporary_that_cannot_be_removed_goes_with_a_later_one(tmp_path: Path) -> None:
    io = Faults()
    with file_rig(tmp_path, io=io, capacity_bytes=3 * file_bytes(4096)) as rig:
        rig.store(b"the folder has been listed")
        io.faults.update(pwritev=failing(errno.EIO, {1}), unlink=failing(errno.EACCES, {1}))
        assert rig.store(KEYS[0]) == frozenset()
        assert len(leftovers(tmp_path)) == 1
        io.faults["pwritev"] = failing(errno.EIO, {1})
        assert rig.store(KEYS[0]) == frozenset()
        assert leftovers(tmp_path) == []
        assert rig.store(*KEYS[:3]) == set(KEYS[:3]), "its bytes are no longer counted"


# --- B50: no permission ---


def deny(*_: object) -> None:
    raise OSError(errno.EACCES, os.strerror(errno.EACCES))


@pytest.mark.parametrize("shared", [True, False])
def test_b50_no_permission_fails_stores_and_misses_with_one_warning_and_recovers(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, shared: bool
) -> None:
    caplog.set_level(logging.INFO, logger="tierproof")
    io = Faults()
    now = [0.0]
    with file_rig(tmp_path, io=io, shared=shared, clock=lambda: now[0]) as rig:
        for key in KEYS[:3]:
            rig.store(key)
        gone = block_files(tmp_path)[0]
        io.faults["open"] = deny
        for _ in range(5):
            assert rig.store(b"new") == frozenset()
            assert rig.decide(KEYS[1]) is Claim.ABSENT
            assert rig.load(KEYS[2]) == frozenset()
            now[0] += 2
        warnings = [record for record in caplog.records if record.levelno >= logging.WARNING]
        assert len(warnings) == 1, "one warning until it works again"
        assert "Permission denied" in warnings[0].getMessage()
        gone.unlink()  # and while nobody could look, a file went
        del io.faults["open"]
        now[0] += 2
        assert rig.store(b"new") == {b"new"}
        assert rig.decide(KEYS[0]) is Claim.ABSENT, "an entry from before was trusted"
        assert rig.decide(KEYS[1]) is Claim.PRESENT
        assert rig.load(KEYS[1]) == {KEYS[1]}
        assert any("works again" in record.getMessage() for record in caplog.records)


def test_b50_an_unwritable_folder_is_a_clear_error_at_the_start(tmp_path: Path) -> None:
    for call in ("mkdir", "open"):
        with pytest.raises(ConfigError, match=r"cannot write to folder .*Permission denied"):
            FileTier(tmp_path / call, io=Faults(**{call: deny}))
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="file"):
        FileTier(tmp_path / "file")
    with pytest.raises(ConfigError, match="Permission denied"):
        FileTier(tmp_path / "probe", io=Faults(pwritev=deny))
    assert leftovers(tmp_path / "probe") == []


def test_a_full_disk_is_no_reason_not_to_start(tmp_path: Path) -> None:
    with file_rig(tmp_path) as rig:
        rig.store(*KEYS)
    io = Faults(pwritev=failing(errno.ENOSPC))
    with file_rig(tmp_path, io=io) as rig:
        assert rig.store(b"new") == frozenset()
        assert rig.load(*KEYS) == set(KEYS)


def test_t9_the_folder_removed_while_running_is_made_again(tmp_path: Path) -> None:
    root = tmp_path / "cache"
    for capacity in (None, 1 << 20):
        with file_rig(root, capacity_bytes=capacity) as rig:
            rig.store(*KEYS)
            shutil.rmtree(root)
            assert rig.load(*KEYS) == frozenset()
            assert rig.decide(KEYS[0]) is Claim.ABSENT
            assert rig.store(*KEYS) == rig.load(*KEYS) == set(KEYS)
            assert len(block_files(root)) == 5
        shutil.rmtree(root)


def test_t9_a_listing_that_fails_does_not_keep_blocks_from_being_found(tmp_path: Path) -> None:
    with file_rig(tmp_path) as rig:
        rig.store(*KEYS)
    for shared in (True, False):
        for capacity in (None, 1 << 20):
            io = Faults(scandir=failing(errno.EIO))
            with file_rig(tmp_path, shared=shared, capacity_bytes=capacity, io=io) as rig:
                assert [rig.decide(key) for key in KEYS] == [Claim.PRESENT] * 5
                assert rig.load(*KEYS) == set(KEYS)
                io.faults.clear()
                assert rig.store(b"new") == {b"new"}


def test_t9_a_look_that_fails_unexpectedly_is_asked_again(tmp_path: Path) -> None:
    io = Faults()
    now = [0.0]
    with file_rig(tmp_path, io=io, clock=lambda: now[0]) as rig:
        rig.store(KEYS[0])
    with file_rig(tmp_path, io=io, clock=lambda: now[0]) as rig:
        eventually(lambda: len(rig.tier._index) == 1, "the listing")
        io.faults["preadv"] = failing(errno.EIO)
        rig.tier._index.distrust()
        assert rig.decide(KEYS[0]) is Claim.ABSENT
        io.faults.clear()
        assert rig.decide(KEYS[0]) is Claim.ABSENT, "it is believed for a while"
        now[0] += 2
        assert rig.decide(KEYS[0]) is Claim.PRESENT


def test_t9_a_corrupt_file_that_cannot_be_removed_is_a_failed_key_all_the_same(
    tmp_path: Path,
) -> None:
    io = Faults()
    with file_rig(tmp_path, io=io) as rig:
        rig.store(*KEYS[:2])
        block_files(tmp_path)[0].write_bytes(b"")
        io.faults["rename"] = deny
        assert len(rig.load(*KEYS[:2])) == 1
        assert len(block_files(tmp_path)) == 2
