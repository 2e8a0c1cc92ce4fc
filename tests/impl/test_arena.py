"""The primary tier's memory: rows that share one mapping, and clear errors."""

from __future__ import annotations

import mmap

import pytest

from tierproof import Arena, ConfigError
from tierproof.impl import arena as arena_module


def test_row_i_is_slot_i_of_one_contiguous_view():
    arena = Arena(slots=3, block_bytes=4)
    assert bytes(arena.view) == bytes(12)
    arena.row(1)[:] = b"abcd"
    assert bytes(arena.view) == bytes(4) + b"abcd" + bytes(4)
    assert len(arena.row(2)) == 4


@pytest.mark.parametrize("slot", [-1, 3])
def test_a_slot_that_there_is_not_is_an_index_error(slot):
    with pytest.raises(IndexError, match=r"is not one of 0\.\.2"):
        Arena(slots=3, block_bytes=4).row(slot)


@pytest.mark.parametrize(
    ("slots", "block_bytes", "field"), [(0, 4, "slots"), (3, -1, "block_bytes"), (True, 4, "slots")]
)
def test_a_size_that_is_no_positive_number_is_refused_by_name(slots, block_bytes, field):
    with pytest.raises(ConfigError, match=f"{field} must be a whole number of at least 1"):
        Arena(slots=slots, block_bytes=block_bytes)


def test_more_memory_than_there_is_is_a_config_error():
    with pytest.raises(ConfigError, match="choose fewer slots"):
        Arena(slots=1 << 40, block_bytes=1 << 30)


def test_a_released_arena_has_no_rows_any_more():
    arena = Arena(slots=1, block_bytes=4)
    arena.release()
    arena.release()
    assert arena.released
    with pytest.raises(ConfigError, match="released"):
        arena.row(0)


def test_a_row_that_somebody_holds_survives_the_release():
    arena = Arena(slots=1, block_bytes=4)
    row = arena.row(0)
    row[:] = b"abcd"
    arena.release()
    assert bytes(row) == b"abcd"


@pytest.mark.parametrize("huge_pages", ["yes", "no", "unknown"])
def test_huge_pages_are_asked_for_and_not_needed(huge_pages, monkeypatch):
    advised = []

    class Map(mmap.mmap):
        def madvise(self, option, *_):
            advised.append(option)
            if huge_pages == "no":
                raise OSError

    monkeypatch.setattr(mmap, "mmap", Map)
    if huge_pages == "unknown":
        monkeypatch.delattr(mmap, "MADV_HUGEPAGE")
    arena = arena_module.Arena(slots=2, block_bytes=1 << 20)
    assert len(arena.view) == 2 << 20
    assert len(advised) == (huge_pages != "unknown")
