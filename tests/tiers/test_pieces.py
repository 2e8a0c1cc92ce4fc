"""Blocks are moved and checked in pieces; what happens between two pieces is no block's end."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tierproof.impl.tiers.base import Claim
from tierproof.impl.tiers.block_file import HEADER_BYTES
from tierproof.impl.tiers.file_io import PIECE, pieces

from .slab_support import slab_of, slab_rig
from .support import Faults, Rig, block_files, failing, file_rig, leftovers

A, B = b"a", b"b"
SIZE = 3 * PIECE + 4096
RigOf = Callable[..., AbstractContextManager[Rig[Any]]]


@pytest.fixture(params=["files", "slab"])
def layout(request: pytest.FixtureRequest) -> Iterator[tuple[RigOf, Callable[[Path], Path], int]]:
    """A rig, the file that holds its one block, and where the block begins in that file."""
    if request.param == "files":
        yield file_rig, lambda root: block_files(root)[0], HEADER_BYTES
    else:
        yield slab_rig, slab_of, 0


Layout = tuple[RigOf, Callable[[Path], Path], int]


@given(st.integers(0, 5 * PIECE))
def test_pieces_are_the_block_in_order_and_none_is_small(size: int) -> None:
    block = memoryview(bytearray(size))
    lengths = [piece.nbytes for piece in pieces(block)]
    assert sum(lengths) == size
    assert all(length == PIECE for length in lengths[:-1])
    assert lengths[-1] < 2 * PIECE
    assert len(lengths) == 1 or lengths[-1] >= PIECE


def test_pieces_share_the_blocks_memory() -> None:
    block = memoryview(bytearray(4 * PIECE))
    for number, piece in enumerate(pieces(block)):
        piece[:1] = bytes([number + 1])
    assert [block[start] for start in range(0, 4 * PIECE, PIECE)] == [1, 2, 3, 4]


@pytest.mark.parametrize("direct", [None, False])
def test_t3_every_byte_of_every_piece_is_moved_and_checked(
    tmp_path: Path, layout: Layout, direct: bool | None
) -> None:
    rig_of, file_of, start = layout
    edges = [0, PIECE - 1, PIECE, 2 * PIECE - 1, 2 * PIECE, SIZE - 1]
    with rig_of(tmp_path, slots=2, block_bytes=SIZE, direct=direct) as rig:
        for edge in edges:
            assert rig.store(A) == rig.load(A) == {A}
            with file_of(tmp_path).open("r+b") as file:
                file.seek(start + edge)
                (byte,) = file.read(1)
                file.seek(start + edge)
                file.write(bytes([byte ^ 1]))
            assert rig.load(A) == frozenset(), f"byte {edge} was not checked"
        assert rig.tier.counters["corrupt"] == len(edges)


def test_t3_a_file_that_ends_between_two_pieces_is_corrupt(tmp_path: Path, layout: Layout) -> None:
    rig_of, file_of, start = layout
    io = Faults()
    for cut in (0, PIECE, 2 * PIECE, SIZE - 1):
        io.faults.clear()
        with rig_of(tmp_path, slots=2, block_bytes=SIZE, io=io) as rig:
            assert rig.store(A) == {A}
            length = file_of(tmp_path).stat().st_size
            end = start + cut if start else cut
            io.faults["preadv"] = lambda *_, end=end: os.truncate(file_of(tmp_path), end)
            assert rig.load(A) == frozenset()
            assert rig.tier.counters["corrupt"] == 1
            io.faults.clear()
            if not start:
                os.truncate(file_of(tmp_path), length)


def test_t9_a_disk_that_fails_in_a_later_piece_fails_that_load_only(
    tmp_path: Path, layout: Layout
) -> None:
    io = Faults()
    with layout[0](tmp_path, slots=2, block_bytes=SIZE, io=io, direct=False) as rig:
        assert rig.store(A) == {A}
        io.faults["preadv"] = failing(errno.EIO, {3})
        assert rig.load(A) == frozenset()
        assert rig.tier.counters["io_errors"] == 1
        io.faults.clear()
        assert rig.load(A) == {A}, "the block itself is good"


def test_t3_a_store_that_fails_in_a_later_piece_leaves_nothing(
    tmp_path: Path, layout: Layout
) -> None:
    io = Faults()
    with layout[0](tmp_path, slots=2, block_bytes=SIZE, io=io, direct=False) as rig:
        io.faults["pwritev"] = lambda fd, buffers, offset: (
            failing(errno.ENOSPC)() if offset >= 2 * PIECE else None
        )
        assert rig.store(A) == frozenset()
        assert rig.decide(A) is Claim.ABSENT
        assert [path for path in leftovers(tmp_path) if ".slab" not in path.name] == []
        io.faults.clear()
        assert rig.store(A, B) == {A, B} == rig.load(A, B)


def test_a_file_of_another_block_is_not_read_to_its_end(tmp_path: Path) -> None:
    io = Faults()
    with file_rig(tmp_path, slots=2, block_bytes=SIZE, io=io) as rig:
        rig.store(A)
        (one,) = block_files(tmp_path)
        rig.store(B)
        (other,) = (path for path in block_files(tmp_path) if path != one)
        os.replace(one, other)
        io.calls.clear()
        assert rig.load(B) == frozenset()
        assert io.calls.count("preadv") == 1
