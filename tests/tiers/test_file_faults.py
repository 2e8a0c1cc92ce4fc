"""Bytes that went bad and systems that refuse: `T3`, `T9`, and the cases B44, B47, B50."""

from __future__ import annotations

import errno
import logging
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from xxhash import xxh3_128_digest

from tierproof.impl.errors import ConfigError, CorruptBlockError
from tierproof.impl.tiers.base import Claim
from tierproof.impl.tiers.block_file import (
    HEADER_BYTES,
    Label,
    file_bytes,
    read_block,
    read_header,
    verify_block,
    write_block,
)
from tierproof.impl.tiers.file_io import FileIO, page_buffer
from tierproof.impl.tiers.files import FileTier

from .support import (
    Faults,
    block_files,
    eventually,
    failing,
    file_rig,
    leftovers,
    payload,
)

KEYS = [b"k%d" % number for number in range(1, 6)]


# --- B44: right size, wrong bytes ---


def flip(offset: int) -> Callable[[Path, Path], None]:
    def damage(path: Path, _: Path) -> None:
        data = bytearray(path.read_bytes())
        data[offset] ^= 0x40
        path.write_bytes(data)

    return damage


def in_its_place(make: Callable[[Path], None]) -> Callable[[Path, Path], None]:
    def damage(path: Path, _: Path) -> None:
        path.unlink()
        make(path)

    return damage


DAMAGES: dict[str, Callable[[Path, Path], None]] = {
    "a flipped bit in the magic number": flip(0),
    "a flipped bit in the version": flip(8),
    "a flipped bit in the key's digest": flip(30),
    "a flipped bit in the padding of the header": flip(2_000),
    "a flipped bit in the header's checksum": flip(4_090),
    "a flipped first byte of the payload": flip(4_096),
    "a flipped last byte of the payload": flip(-1),
    "zeros of the same size": lambda path, _: _write(path, bytes(path.stat().st_size)),
    "zeros in the payload": lambda path, _: _write(
        path, path.read_bytes()[:HEADER_BYTES] + bytes(path.stat().st_size - HEADER_BYTES)
    ),
    "another key's file": lambda path, other: _write(path, other.read_bytes()),
    "a shorter file": lambda path, _: _write(path, path.read_bytes()[:-1]),
    "half a header": lambda path, _: _write(path, path.read_bytes()[:100]),
    "a longer file": lambda path, _: _write(path, path.read_bytes() + b"x"),
    "an empty file": lambda path, _: _write(path, b""),
    "an empty folder": in_its_place(Path.mkdir),
    "a link to a good file": lambda path, _: _link(path),
    "a pipe": in_its_place(os.mkfifo),
}


def _write(path: Path, data: bytes) -> None:
    path.write_bytes(data)


def _link(path: Path) -> None:
    good = path.with_name("good")
    path.rename(good)
    path.symlink_to(good)


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("capacity", [None, 1 << 20])
def test_b44_t3_damage_is_a_failed_key_the_file_goes_and_the_others_land(
    tmp_path: Path, damage: str, capacity: int | None
) -> None:
    with file_rig(tmp_path, capacity_bytes=capacity) as rig:
        for key in KEYS[:3]:
            rig.store(key)
        bad, other, _ = block_files(tmp_path)
        DAMAGES[damage](bad, other)
        assert rig.load(*KEYS[:3]) == set(KEYS[1:3])
        assert not bad.exists()
        assert not bad.is_symlink()
        assert rig.tier.counters["corrupt"] == 1
        assert rig.decide(KEYS[0]) is Claim.ABSENT
        assert rig.load(KEYS[0]) == frozenset()
        assert rig.tier.counters["corrupt"] == 1, "one corrupt file was counted twice"
        assert rig.store(KEYS[0]) == rig.load(KEYS[0]) == {KEYS[0]}


@pytest.mark.parametrize("damage", DAMAGES)
def test_b44_a_restarted_tier_claims_no_bad_bytes(tmp_path: Path, damage: str) -> None:
    with file_rig(tmp_path) as rig:
        rig.store(*KEYS[:2])
    DAMAGES[damage](*block_files(tmp_path))
    with file_rig(tmp_path) as rig:
        assert len(rig.load(*KEYS[:2])) == 1
        assert len(block_files(tmp_path)) == 1


@pytest.mark.parametrize("damage", DAMAGES)
def test_b44_a_store_replaces_a_file_whose_header_is_bad(tmp_path: Path, damage: str) -> None:
    with file_rig(tmp_path) as rig:
        rig.store(*KEYS[:2])
        DAMAGES[damage](*block_files(tmp_path))
        assert rig.store(*KEYS[:2]) == set(KEYS[:2])
        if "payload" not in damage:  # which only a load looks at
            assert rig.load(*KEYS[:2]) == set(KEYS[:2])


def test_b44_what_somebody_put_into_a_folder_in_a_blocks_place_is_kept_aside(
    tmp_path: Path,
) -> None:
    with file_rig(tmp_path) as rig:
        rig.store(KEYS[0])
        (path,) = block_files(tmp_path)
        path.unlink()
        path.mkdir()
        (path / "precious").write_text("data")
        assert rig.load(KEYS[0]) == frozenset()
        assert rig.store(KEYS[0]) == rig.load(KEYS[0]) == {KEYS[0]}
    (kept,) = tmp_path.rglob("precious")
    assert kept.read_text() == "data"


def test_b44_a_bad_file_that_has_been_replaced_meanwhile_is_not_removed(tmp_path: Path) -> None:
    io = Faults()
    with file_rig(tmp_path, io=io, capacity_bytes=1 << 20) as rig:
        rig.store(KEYS[0])
        (path,) = block_files(tmp_path)
        good = path.read_bytes()
        flip(-1)(path, path)

        def replaced(old: str, _: str) -> None:
            if old == str(path):  # the bad file has been read and is about to be taken away
                path.with_name("new").write_bytes(good)
                path.with_name("new").rename(path)

        io.faults["rename"] = replaced
        assert rig.load(KEYS[0]) == frozenset()
        assert path.read_bytes() == good
        assert rig.decide(KEYS[0]) is Claim.PRESENT
        assert rig.load(KEYS[0]) == {KEYS[0]}


LABEL = Label(bytes(range(32)), bytes(range(32, 64)), 300)


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_t3_no_change_of_the_file_passes_for_the_block(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    path = tmp_path_factory.getbasetemp() / "one.block"
    io = FileIO()
    page = page_buffer()
    stored = payload("k", 300)
    fd = io.open(str(path), os.O_RDWR | os.O_CREAT | os.O_TRUNC)
    try:
        write_block(io, fd, LABEL, memoryview(stored), page)
        before = path.read_bytes()
        position = data.draw(st.integers(0, len(before) - 1), label="position")
        length = data.draw(st.integers(0, 64), label="bytes replaced")
        new = data.draw(st.binary(max_size=64), label="by")
        after = before[:position] + new + before[position + length :]
        path.write_bytes(after)
        row = memoryview(bytearray(300))
        try:
            read_block(io, fd, LABEL, row, page)
        except CorruptBlockError:
            with pytest.raises(CorruptBlockError):
                verify_block(io, fd, LABEL)
        else:
            assert bytes(row) == stored, "bytes that were not stored passed for the block"
            verify_block(io, fd, LABEL)
            assert after[: len(before)] == before
    finally:
        io.close(fd)


@pytest.mark.parametrize(
    ("field", "value"), [("digest", bytes(32)), ("fingerprint", bytes(32)), ("block_bytes", 301)]
)
def test_t3_a_good_file_of_another_block_is_foreign(
    tmp_path: Path, field: str, value: object
) -> None:
    other = Label(
        **{
            "digest": LABEL.digest,
            "fingerprint": LABEL.fingerprint,
            "block_bytes": 300,
            field: value,
        }  # type: ignore[arg-type]
    )
    io = FileIO()
    fd = io.open(str(tmp_path / "f"), os.O_RDWR | os.O_CREAT)
    write_block(io, fd, LABEL, memoryview(bytes(300)), page_buffer())
    with pytest.raises(CorruptBlockError, match="another"):
        read_header(io, fd, other, page_buffer())
    io.close(fd)


def test_t3_another_version_of_the_format_is_told_apart() -> None:
    page = page_buffer()
    LABEL.header(memoryview(bytes(300)), page)
    page[8] = 2
    page[4080:] = xxh3_128_digest(page[:4080])
    with pytest.raises(CorruptBlockError, match="format 2"):
        LABEL.check_header(page)
    assert len(page) == HEADER_BYTES


def test_t3_large_blocks_are_verified_piece_by_piece(tmp_path: Path) -> None:
    now = [0.0]
    io = Faults()
    size = (2 << 20) + 4096
    with file_rig(tmp_path, block_bytes=size, slots=2, io=io, clock=lambda: now[0]) as rig:
        rig.store(KEYS[0], KEYS[1])
        io.faults["preadv"] = failing(errno.EIO, {1, 2})
        assert rig.load(KEYS[0], KEYS[1]) == frozenset()
        flip(size)(*block_files(tmp_path))  # the first file's payload, near its end
        now[0] += 2.5
        eventually(rig.poll, "one of two to be verified")
        eventually(lambda: rig.tier.counters["corrupt"] == 1, "the other to be found corrupt")
        assert len(rig.verified) == 1


def test_t3_a_file_that_shrinks_while_it_is_read_is_corrupt(tmp_path: Path) -> None:
    io = Faults()
    with file_rig(tmp_path, io=io, block_bytes=5_000) as rig:
        rig.store(KEYS[0])
        (path,) = block_files(tmp_path)
        data = path.read_bytes()
        for length in (0, 4_000, 4_500):
            io.faults["preadv"] = lambda fd, *_, length=length: os.truncate(path, length)
            assert rig.load(KEYS[0]) == frozenset()
            assert not path.exists()
            io.faults.clear()
            path.write_bytes(data)
            assert rig.decide(KEYS[0]) is Claim.PRESENT
        assert rig.tier.counters["corrupt"] == 3


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


@pytest.mark.parametrize("call", ["open", "ftruncate", "pwritev", "fstat", "close", "rename"])
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
        io.faults.update(pwritev=failing(errno.ENOSPC, {1}), unlink=failing(errno.EACCES, {1}))
        assert rig.store(KEYS[0]) == frozenset()
        assert len(leftovers(tmp_path)) == 1
        io.faults["pwritev"] = failing(errno.ENOSPC, {1})
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
        flip(-1)(*block_files(tmp_path))
        io.faults["rename"] = deny
        assert len(rig.load(*KEYS[:2])) == 1
        assert len(block_files(tmp_path)) == 2
