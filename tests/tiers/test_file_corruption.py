"""Bytes that went bad are a failed key, never bytes: `T3`, B44."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from xxhash import xxh3_128_digest

from tierproof.impl.errors import CorruptBlockError
from tierproof.impl.tiers.base import Claim
from tierproof.impl.tiers.block_file import (
    HEADER_BYTES,
    Label,
    read_block,
    read_header,
    verify_block,
    write_block,
)
from tierproof.impl.tiers.file_io import FileIO, page_buffer

from .support import (
    Faults,
    block_files,
    eventually,
    failing,
    file_rig,
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
