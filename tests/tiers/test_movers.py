"""The workers' side of tiers: a server and a disk that fail in the middle of what they do."""

from __future__ import annotations

import errno
import logging
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tierproof.impl.tiers import remote_mover
from tierproof.impl.tiers.base import Claim
from tierproof.impl.tiers.mover import BlockMover, NoRoomError, RemoteError
from tierproof.impl.tiers.remote_mover import RemoteStore
from tierproof.impl.tiers.remote_tier import RemoteTier
from tierproof.impl.tiers.slab import SlabTier
from tierproof.impl.tiers.slab_file import file_length

from .support import Faults, Rig, block_files, eventually, failing, file_rig

KEYS = [b"k%d" % number for number in range(1, 6)]
SIZE = 4096


class Shelf:
    """A server in this process: `fails["put"]` is what its next calls of `put` raise."""

    def __init__(self) -> None:
        self.blocks_kept: dict[bytes, tuple[bytes, bytes]] = {}
        self.times: dict[bytes, int] = {}
        self.fails: dict[str, Exception] = {}

    def _may_fail(self, name: str) -> None:
        if error := self.fails.get(name):
            raise error

    def put(self, digest: bytes, header: bytes, payload: memoryview, replace: bool) -> bool:
        self._may_fail("put")
        if digest in self.blocks_kept and not replace:
            return False
        self.blocks_kept[digest] = header, bytes(payload)
        self.times[digest] = time.time_ns()
        return True

    def get(self, digest: bytes, header: memoryview, payload: memoryview) -> bool:
        self._may_fail("get")
        if digest not in self.blocks_kept:
            return False
        header[:], payload[:] = self.blocks_kept[digest]
        return True

    def headers(self, digests: Sequence[bytes]) -> list[bytes | None]:
        self._may_fail("headers")
        return [self.blocks_kept.get(digest, (None,))[0] for digest in digests]

    def remove(self, digest: bytes) -> None:
        self._may_fail("remove")
        self.blocks_kept.pop(digest, None)

    def remove_all(self) -> None:
        self._may_fail("remove_all")
        self.blocks_kept.clear()

    def blocks(self) -> Iterator[tuple[bytes, int]]:
        self._may_fail("blocks")
        return iter([(digest, self.times[digest]) for digest in self.blocks_kept])

    def close(self) -> None:
        pass


class ShelfTier(RemoteTier):
    """A tier on a shelf that the test holds in its hands."""

    def __init__(self, shelf: Shelf, **options: Any) -> None:
        self.shelf = shelf
        given: dict[str, Any] = {
            "namespace": "",
            "threads": 2,
            "timeout": 1.0,
            "io_deadline": 30.0,
            "queued_stores": 8,
            "absent_seconds": 0.0,
            "present_seconds": 0.0,
            "clock": time.monotonic,
        }
        super().__init__("shelf", **{**given, **options})

    def _connect(self, space: str, block_bytes: int) -> RemoteStore:
        return self.shelf


@contextmanager
def shelf_rig(shelf: Shelf | None = None, **options: Any) -> Iterator[Rig[ShelfTier]]:
    rig = Rig(ShelfTier(shelf or Shelf(), **options), block_bytes=SIZE)
    try:
        yield rig
    finally:
        rig.close()


@contextmanager
def slab_rig(root: Path, **options: Any) -> Iterator[Rig[SlabTier]]:
    options.setdefault("capacity_bytes", file_length(8, SIZE))
    rig = Rig(SlabTier(root, **options), block_bytes=SIZE)
    try:
        yield rig
    finally:
        rig.close()


# -- a server -------------------------------------------------------------------------------------


def test_an_error_that_nobody_foresaw_leaves_no_question_open():
    with shelf_rig() as rig:
        rig.store(*KEYS)
        rig.tier.shelf.fails["headers"] = ZeroDivisionError("a bug in the client")
        assert [rig.decide(key) for key in KEYS] == [Claim.ABSENT] * 5
        rig.tier.shelf.fails.clear()
        assert [rig.decide(key) for key in KEYS] == [Claim.PRESENT] * 5


@pytest.mark.parametrize("believed", [0.0, 1.0])
def test_an_answer_is_heard_by_a_scheduler_whose_steps_are_longer_than_it_is_believed(
    believed: float,
):
    now = [0.0]
    with shelf_rig(present_seconds=believed, absent_seconds=believed, clock=lambda: now[0]) as rig:
        rig.store(KEYS[0])
        for key, truth in ((KEYS[0], Claim.PRESENT), (KEYS[1], Claim.ABSENT)):
            now[0] += 10.0
            assert rig.ask(key) is Claim.UNDECIDED
            eventually(lambda: not rig.tier._index._asked, "an answer")
            now[0] += 10.0
            assert rig.ask(key) is truth
            now[0] += 10.0
            assert rig.ask(key) is Claim.UNDECIDED, "it is not believed for ever"


def test_a_store_without_room_is_a_failed_key_and_no_trouble_with_the_server(
    caplog: pytest.LogCaptureFixture,
):
    with shelf_rig() as rig:
        rig.tier.shelf.fails["put"] = NoRoomError("the server's maxmemory is reached")
        assert rig.store(*KEYS) == frozenset()
        assert (rig.tier.counters["no_room"], rig.tier.counters["io_errors"]) == (5, 0)
        assert "maxmemory is reached" in caplog.text
        rig.tier.shelf.fails.clear()
        assert rig.store(*KEYS) == set(KEYS)


def test_a_listing_that_fails_keeps_what_was_known(caplog: pytest.LogCaptureFixture):
    with shelf_rig(capacity_blocks=3) as rig:
        rig.store(*KEYS[:3])
        rig.tier.shelf.fails["blocks"] = RemoteError("the server does not answer in time")
        rig.tier._mover.list_blocks()
        assert "cannot list: the server does not answer in time" in caplog.text
        assert [rig.decide(key) for key in KEYS[:3]] == [Claim.PRESENT] * 3


def test_what_cannot_be_removed_is_tried_again_and_never_counted_as_evicted():
    with shelf_rig(capacity_blocks=2) as rig:
        shelf = rig.tier.shelf
        shelf.fails["remove"] = RemoteError("the server cannot be reached")
        assert rig.store(*KEYS) == set(KEYS), "the blocks are there, if too many"
        assert rig.tier.counters["evicted"] == 0
        rig.tier._mover.list_blocks()
        assert len(shelf.blocks_kept) == 5
        shelf.fails.clear()
        rig.tier._mover.list_blocks()
        assert len(shelf.blocks_kept) == 2
        assert rig.tier.counters["evicted"] == 3


def test_a_corrupt_block_that_cannot_be_removed_is_a_failed_key_all_the_same():
    with shelf_rig() as rig:
        rig.store(KEYS[0])
        shelf = rig.tier.shelf
        ((digest, (header, payload)),) = shelf.blocks_kept.items()
        shelf.blocks_kept[digest] = header, payload[:-1] + b"?"
        shelf.fails["remove"] = RemoteError("the server refuses this user or secret")
        assert rig.load(KEYS[0]) == frozenset()
        assert rig.tier.counters["corrupt"] == 1
        assert digest in shelf.blocks_kept
        shelf.blocks_kept[digest] = b"short", payload
        assert rig.decide(KEYS[0]) is Claim.ABSENT
        assert rig.tier.counters["corrupt"] == 2


def test_a_corrupt_file_that_cannot_be_removed_is_answered_absent(tmp_path: Path):
    io = Faults()
    with file_rig(tmp_path, io=io, absent_seconds=0.0) as rig:
        rig.store(KEYS[0])
        (path,) = block_files(tmp_path)
        path.write_bytes(bytes(path.stat().st_size))
        rig.tier._index.distrust()
        io.faults.update(dict.fromkeys(["rename", "unlink"], failing(errno.EROFS)))
        assert rig.decide(KEYS[0]) is Claim.ABSENT
        assert path.exists()
        assert rig.load(KEYS[0]) == frozenset()


def test_a_clear_that_fails_is_tried_again_until_the_blocks_are_gone():
    now = [0.0]
    with shelf_rig(clock=lambda: now[0]) as rig:
        rig.store(*KEYS)
        shelf = rig.tier.shelf
        shelf.fails["remove_all"] = RemoteError("the server cannot be reached")
        rig.tier.clear()
        eventually(lambda: rig.tier._clear_again, "a clear that is to be tried again")
        assert len(shelf.blocks_kept) == 5
        assert rig.load(KEYS[0]) == frozenset(), "it has been forgotten"
        shelf.fails.clear()
        now[0] += 2.0
        eventually(lambda: rig.poll() or not shelf.blocks_kept, "the clear")
        assert rig.store(KEYS[0]) == {KEYS[0]}


def test_claims_that_are_remembered_are_bounded(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(remote_mover, "_KNOWN", 3)
    with shelf_rig(present_seconds=60.0) as rig:
        for key in KEYS:
            rig.store(key)
        assert len(rig.tier._index) <= 3
        assert rig.load(*KEYS) == set(KEYS), "what is not remembered is asked for"


# -- a slab ---------------------------------------------------------------------------------------


def test_a_question_that_the_disk_fails_is_answered_absent_and_asked_again(tmp_path: Path):
    io = Faults()
    with slab_rig(tmp_path, io=io) as rig:
        rig.store(KEYS[0])
        io.faults["preadv"] = failing(errno.EIO)
        assert rig.load(KEYS[0]) == frozenset()
        rig.tier._index.distrust()
        rig.tier._suspects.clear()
        rig.tier._index._suspect.clear()
        assert rig.decide(KEYS[0]) is Claim.ABSENT
        io.faults.clear()
        rig.tier._index.distrust()
        assert rig.decide(KEYS[0]) is Claim.PRESENT


@pytest.mark.parametrize("how", ["fails again", "is corrupt", "is gone"])
def test_a_suspect_that_is_not_good_again_stays_refused(tmp_path: Path, how: str):
    io = Faults()
    with slab_rig(tmp_path, io=io) as rig:
        rig.store(KEYS[0])
        io.faults["preadv"] = failing(errno.EIO)
        assert rig.load(KEYS[0]) == frozenset()
        mover, digest = rig.tier._mover, rig.tier._name(KEYS[0])
        if how != "fails again":
            io.faults.clear()
        if how == "is corrupt":
            (path,) = tmp_path.glob("*.slab")
            path.write_bytes(path.read_bytes().replace(b"k1", b"K1"))
        if how == "is gone":
            assert mover.clear()
        assert not mover.verify(digest)
        assert rig.tier.counters["corrupt"] == (how == "is corrupt")
        assert rig.load(KEYS[0]) == frozenset()


def test_a_slab_that_cannot_be_emptied_is_emptied_later(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    caplog.set_level(logging.INFO, logger="tierproof")
    io, now = Faults(), [0.0]
    with slab_rig(tmp_path, io=io, clock=lambda: now[0]) as rig:
        rig.store(*KEYS)
        io.faults["pwritev"] = failing(errno.EIO)
        rig.tier.clear()
        eventually(lambda: rig.tier._clear_again, "a clear that is to be tried again")
        assert "cannot clear" in caplog.text
        io.faults.clear()
        now[0] += 2.0
        eventually(lambda: rig.poll() or not rig.tier._index.clearing, "the clear")
        assert rig.load(*KEYS) == frozenset()
    with slab_rig(tmp_path) as rig:
        assert rig.load(*KEYS) == frozenset(), "forgotten blocks came back with the restart"


def test_a_block_that_was_replaced_while_it_was_read_is_not_blamed(tmp_path: Path):
    with slab_rig(tmp_path) as rig:
        rig.store(KEYS[0])
        mover: Any = rig.tier._mover
        record = mover._records[rig.tier._name(KEYS[0])]
        mover.clear()
        mover._corrupt(record)
        assert not mover._used(record)
        assert rig.tier.counters["corrupt"] == 0


def test_stamps_rise_even_where_the_clock_stands_or_goes_back(monkeypatch: pytest.MonkeyPatch):
    with shelf_rig() as rig:
        mover = rig.tier._mover
        assert isinstance(mover, BlockMover)
        for told in (5, 5, 3):
            monkeypatch.setattr(time, "time_ns", lambda told=told: told)
            before, after = mover._stamp(), mover._stamp()
            assert before < after


def test_a_mover_tells_nothing_of_a_path(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    io = Faults()
    with slab_rig(tmp_path, io=io) as rig:
        io.faults["pwritev"] = failing(errno.EIO)
        assert rig.store(KEYS[0]) == frozenset()
    assert "Input/output error (EIO)" in caplog.text
    assert str(tmp_path) not in caplog.text
