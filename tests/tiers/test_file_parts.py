"""The file tier's parts at their edges: bounds, races and refusals that the whole rarely meets."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from tierproof.impl.errors import CorruptBlockError
from tierproof.impl.tiers import block_tier, file_index
from tierproof.impl.tiers.base import Claim
from tierproof.impl.tiers.block_file import (
    Label,
    file_bytes,
    read_header,
    verify_block,
    write_block,
)
from tierproof.impl.tiers.block_folder import BlockFolder, FoundBlock
from tierproof.impl.tiers.file_capacity import FileCapacity
from tierproof.impl.tiers.file_index import FileIndex
from tierproof.impl.tiers.file_io import FileIO, page_buffer
from tierproof.impl.tiers.files import FileTier
from tierproof.impl.tiers.io_pool import IoPool
from tierproof.impl.tiers.trouble import Trouble

from .support import PATIENCE, Faults, Gate, block_files, eventually, failing, file_rig

KEYS = [b"k%d" % number for number in range(1, 6)]
A, B, C = (bytes([number]) * 32 for number in range(3))
SPACE = "0" * 32


def an_index(**options: object) -> FileIndex:
    settings = {"size": 10, "space": SPACE, "shared": True, "absent_seconds": 1.0}
    return FileIndex(**{**settings, "clock": lambda: 0.0, **options})  # type: ignore[arg-type]


def found(digest: bytes, *, size: int = 10, stamp: int = 1, space: str = SPACE) -> FoundBlock:
    return FoundBlock(digest, space, size, stamp)


# --- the index ---


def test_the_index_bounds_its_questions_and_its_memory_of_absences(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(file_index, "_QUESTIONS", 2)
    monkeypatch.setattr(file_index, "_ABSENT", 1)
    index = an_index()
    assert [index.claim(digest) for digest in (A, B, C)] == [
        (Claim.UNDECIDED, True),
        (Claim.UNDECIDED, False),
        (Claim.UNDECIDED, False),
    ]
    questions, more = index.take_questions(1)
    assert [digest for digest, _ in questions] == [A]
    assert more
    (second,), more = index.take_questions(5)
    assert not more
    for digest, token in (*questions, second):
        index.answer(digest, token, None)
    assert index.claim(B) == (Claim.ABSENT, False)
    assert index.claim(A) == (Claim.UNDECIDED, True), "only one absence is remembered"


def test_t5_an_answer_is_dropped_when_its_question_no_longer_stands() -> None:
    index = an_index()
    index.claim(A)
    ((_, token),), _ = index.take_questions(9)
    index.distrust()
    index.answer(A, token, found(A))
    index.unanswered(A, token)
    assert index.claim(A) == (Claim.UNDECIDED, True)
    index.begin_store([A])
    assert index.take_questions(9) == ([], False), "the store has withdrawn the question"


def test_t5_a_suspect_that_went_or_was_stored_anew_is_not_verified() -> None:
    index = an_index()
    index.landed(A, 10, 1)
    index.begin_load([A])
    assert index.end_load(A, False)
    assert index.suspected(A)
    assert index.vanished(A)
    assert not index.suspected(A)
    assert not index.cleared_of_suspicion(A)
    assert not index.vanished(A)


def test_two_stores_of_one_key_in_flight_are_claimed_after_the_first_report_that_landed() -> None:
    index = an_index()
    index.begin_store([A])
    index.begin_store([A])
    index.landed(A, 10, 1)
    assert index.claim(A)[0] is Claim.ABSENT
    index.end_store(A, True)
    assert index.claim(A)[0] is Claim.PRESENT
    assert index.victim() is None, "the second store has not been reported"
    index.end_store(A, True)
    assert index.victim() is not None


def test_a_listed_file_of_the_wrong_size_is_looked_at_before_it_is_claimed() -> None:
    index = an_index(shared=False)
    index.begin_listing()
    index.end_listing([found(A, size=9), found(B)], complete=False)
    assert index.claim(A) == (Claim.UNDECIDED, True)
    assert index.claim(B) == (Claim.PRESENT, False)
    assert index.claim(C) == (Claim.ABSENT, False)
    index.touch(C, 5)  # read by a load although it is not listed: nothing to do
    assert len(index) == 2


def test_a_complete_listing_drops_what_it_did_not_find_and_keeps_what_came_meanwhile() -> None:
    index = an_index()
    index.landed(A, 10, 1)
    index.begin_listing()
    index.landed(B, 10, 2)
    index.end_listing([found(C, space="f" * 32)], complete=True)
    assert index.used == 20
    victims = [index.victim(), index.victim(), index.victim()]
    assert [victim and victim[0] for victim in victims] == [C, B, None]


# --- the folder and its capacity ---


def test_retiring_a_file_that_is_gone_frees_nothing(tmp_path: Path) -> None:
    folder = BlockFolder(str(tmp_path), FileIO())
    assert folder.retire(str(tmp_path / "gone"), (1, 2)) == 0
    folder.remove_tree(str(tmp_path / "gone"))
    assert folder.set_aside(SPACE) is None
    with folder.locked():
        assert folder.usage() is None
        folder.count(5)
        assert folder.usage() is None, "nobody has counted yet"
        folder.set_usage(3)
        folder.count(-5)
        assert folder.usage() == 0
    folder.close()


def test_a_bad_file_that_was_replaced_twice_is_left_to_the_newest(tmp_path: Path) -> None:
    path = tmp_path / "block"
    path.write_text("bad")
    identity = (path.stat().st_dev, path.stat().st_ino)

    def newest(_: str) -> None:  # between taking the file aside and putting it back
        path.write_text("newest")

    io = Faults()
    folder = BlockFolder(str(tmp_path), io)
    new = tmp_path / "new"
    new.write_text("newer")
    new.rename(path)
    io.faults["stat"] = newest
    assert folder.retire(str(path), identity) == 0
    assert path.read_text() == "newest"
    folder.close()


def test_a_lock_that_cannot_be_had_at_the_start_leaves_no_descriptor_open(
    tmp_path: Path,
) -> None:
    before = len(os.listdir("/proc/self/fd"))
    io = Faults(mkdir=lambda path: _fail_on(path, "writers/"))
    with pytest.raises(OSError, match="no"):
        BlockFolder(str(tmp_path), io)
    assert len(os.listdir("/proc/self/fd")) == before


def _fail_on(path: str, part: str) -> None:
    if part in path:
        raise OSError(errno.EIO, "no")


def test_a_scan_that_is_stopped_changes_neither_index_nor_count(tmp_path: Path) -> None:
    stopped = False
    folder = BlockFolder(str(tmp_path), FileIO())
    index = an_index()
    capacity = FileCapacity(
        folder,
        index,
        FileIO(),
        limit=100,
        stop=lambda: stopped,
        evicted=lambda: None,
        clock=lambda: 0.0,
    )
    capacity.list_folder(SPACE)
    path = Path(folder.path(SPACE, A))
    path.parent.mkdir(parents=True)
    path.write_bytes(bytes(10))
    stopped = True
    with pytest.raises(InterruptedError):
        capacity.list_folder(SPACE)
    assert len(index) == 0
    capacity.clear(SPACE)  # at the end of a process: without counting
    assert not path.exists()
    with folder.locked():
        assert folder.usage() == 0
    folder.close()


def test_a_count_that_cannot_be_corrected_is_made_anew(tmp_path: Path) -> None:
    io = Faults()
    with file_rig(tmp_path, io=io, capacity_bytes=2 * file_bytes(4096)) as rig:
        rig.store(KEYS[0])
        broken = failing(errno.EIO)

        def fault(fd: int, buffers: list[memoryview], offset: int) -> None:
            if len(buffers) == 2:  # the block; and then the count of bytes, too
                io.faults["preadv"] = broken
                broken()

        io.faults["pwritev"] = fault
        assert rig.store(KEYS[1]) == frozenset()
        io.faults.clear()
        assert rig.store(KEYS[1]) == {KEYS[1]}
        assert rig.decide(KEYS[0]) is Claim.PRESENT, "a block was evicted for bytes that were gone"


def test_a_victim_that_cannot_be_removed_fails_the_store(tmp_path: Path) -> None:
    io = Faults()
    with file_rig(tmp_path, io=io, capacity_bytes=file_bytes(4096)) as rig:
        rig.store(KEYS[0])
        io.faults["rename"] = io.faults["unlink"] = failing(errno.EACCES)
        assert rig.store(KEYS[1]) == frozenset()
        io.faults.clear()
        assert rig.store(KEYS[1]) == {KEYS[1]}
        assert len(block_files(tmp_path)) == 1


def test_a_victim_removed_by_hand_makes_room_without_another(tmp_path: Path) -> None:
    with file_rig(tmp_path, capacity_bytes=2 * file_bytes(4096)) as rig:
        rig.store(KEYS[0])
        rig.store(KEYS[1])
        block_files(tmp_path)[0].unlink()
        assert rig.store(KEYS[2]) == {KEYS[2]}
        assert rig.decide(KEYS[1]) is Claim.PRESENT
        assert rig.tier.counters["evicted"] == 0


def test_a_namespace_folder_that_is_removed_is_made_again(tmp_path: Path) -> None:
    gate = Gate()
    io = Faults()
    with file_rig(tmp_path, io=io) as rig:
        rig.store(KEYS[0])
        io.faults["rename"] = gate
        job = rig.begin_store([KEYS[1]])
        assert gate.reached.wait(PATIENCE)
        for path in block_files(tmp_path):
            path.unlink()
            path.parent.rmdir()
            path.parents[1].rmdir()
        gate.open.set()
        assert rig.report(job).landed == {KEYS[1]}


# --- files ---


def test_t3_a_file_cut_between_two_reads_is_corrupt(tmp_path: Path) -> None:
    label = Label(A, B, 5_000)
    io = FileIO()
    path = tmp_path / "f"
    fd = io.open(str(path), os.O_RDWR | os.O_CREAT)
    write_block(io, fd, label, memoryview(bytes(5_000)), page_buffer())
    os.truncate(path, 6_000)
    with pytest.raises(CorruptBlockError, match="too early"):
        verify_block(io, fd, label)
    os.truncate(path, 100)
    with pytest.raises(CorruptBlockError, match="too early"):
        read_header(io, fd, label, page_buffer())
    io.close(fd)


# --- the tier ---


def test_names_are_remembered_in_bounded_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(block_tier, "_DIGESTS", 2)
    with file_rig(tmp_path) as rig:
        assert rig.store(*KEYS) == rig.load(*KEYS) == set(KEYS)
        assert len(rig.tier._digests) <= 2


def test_suspects_are_verified_in_bounded_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(block_tier, "_SUSPECTS", 1)
    now = [0.0]
    io = Faults()
    with file_rig(tmp_path, io=io, clock=lambda: now[0]) as rig:
        rig.store(*KEYS)
        io.faults["preadv"] = failing(errno.EIO)
        assert rig.load(*KEYS) == frozenset()
        io.faults.clear()
        now[0] += 3
        eventually(rig.poll, "a verification")
        assert len(rig.verified) == 1
        assert rig.decide(rig.verified[0]) is Claim.PRESENT
        others = [key for key in KEYS if key != rig.verified[0]]
        assert {rig.decide(key) for key in others} == {Claim.ABSENT}


def test_t9_a_bug_in_one_look_does_not_leave_the_other_questions_open(tmp_path: Path) -> None:
    calls = 0

    def bug(*_: object) -> None:
        nonlocal calls
        calls += 1
        if calls == 1:
            raise ValueError

    io = Faults()
    with file_rig(tmp_path, io=io) as rig:
        eventually(lambda: rig.tier._index._listed, "the listing")
        io.faults["open"] = bug
        assert {rig.decide(key) for key in KEYS} == {Claim.ABSENT}
        assert rig.store(*KEYS) == set(KEYS)


def test_t9_a_bug_in_a_clear_is_tried_again(tmp_path: Path) -> None:
    def bug(*_: object) -> None:
        raise ValueError

    now = [0.0]
    io = Faults()
    with file_rig(tmp_path, io=io, clock=lambda: now[0]) as rig:
        rig.store(KEYS[0])
        io.faults["rename"] = bug
        rig.tier.clear()
        eventually(lambda: rig.tier._clear_again, "the failure")
        io.faults.clear()
        now[0] += 2
        assert rig.store(KEYS[0]) == {KEYS[0]}
        assert rig.tier.counters["already_stored"] == 0


def test_nothing_is_asked_of_a_pool_that_has_been_shut_down(tmp_path: Path) -> None:
    tier = FileTier(tmp_path)
    tier.shutdown()
    pool = IoPool("p", threads=1, io_deadline=None, queued_stores=1, clock=lambda: 0.0)
    pool.start()
    assert pool.shutdown(1.0)
    pool.ask(lambda: None)
    pool.chore(lambda: None)
    assert pool.drain(0.0) == []
    assert pool.poll() == []


def test_trouble_is_told_once_for_each_reason_until_all_is_well(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO", logger="tierproof")
    trouble = Trouble("t")
    assert trouble.failed("write", "full")
    assert not trouble.failed("write", "denied")
    assert not trouble.failed("read", "full"), "the same reason, told already"
    assert trouble.failed("list", "denied")
    trouble.worked("write")
    trouble.worked("list")
    trouble.worked("never failed")
    assert trouble.failing == {"read"}
    trouble.worked("read")
    assert trouble.failing == frozenset()
    assert [record.levelname for record in caplog.records] == ["WARNING", "WARNING", "INFO"]


def test_more_questions_than_one_worker_takes_at_once_are_all_answered(tmp_path: Path) -> None:
    with file_rig(tmp_path) as rig:
        keys = [b"%d" % number for number in range(500)]
        for key in keys:
            rig.ask(key)
        assert {rig.decide(key) for key in keys} == {Claim.ABSENT}
