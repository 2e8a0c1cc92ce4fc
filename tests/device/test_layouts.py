"""Bytes go out and come back the same for every layout, dtype and page size."""

from __future__ import annotations

import threading

import pytest
import torch

from tierproof import Arena, ConfigError
from tierproof.impl.device.layout import KvTensor, Planes, runs
from tierproof.impl.device.stepped import SteppedBackend
from tierproof.impl.device.threads import ThreadBackend
from tierproof.impl.device.worker import DeviceWorker

from .support import LAYOUTS, Operation, block_bytes, filled

DTYPES = [torch.float16, torch.bfloat16, torch.float8_e4m3fn, torch.uint8]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("page", [64, 7])
def test_a_block_comes_back_bit_for_bit(layout, dtype, page):
    group = LAYOUTS[layout](dtype, blocks=6, page=page)
    before = [block_bytes(group, block) for block in range(6)]
    arena = Arena(slots=8, block_bytes=len(before[0]))
    backend = ThreadBackend()
    try:
        worker = DeviceWorker(
            arena=arena, groups=[group], backend=backend, piece_bytes=2 * arena.block_bytes
        )
        worker.store(Operation(1, (5, 2, 3, 7, 0)), [4, 0, 1, 3, 2])
        assert [end.ok for end in worker.drain(10)] == [True]
        rows = {4: 5, 0: 2, 1: 3, 3: 7, 2: 0}
        for block, slot in rows.items():
            assert bytes(arena.row(slot)) == before[block]
        # To other blocks than they came from.
        worker.load(Operation(2, (5, 2, 3)), [0, 1, 4])
        (end,) = worker.drain(10)
        assert end.ok
        assert end.bytes == 3 * arena.block_bytes
        after = [block_bytes(group, block) for block in range(6)]
        assert after == [before[4], before[0], before[2], before[3], before[1], before[5]]
    finally:
        backend.close()


def test_groups_of_unlike_pages_share_an_arena_and_leave_zeros_behind_the_shorter_ones():
    wide = [KvTensor(filled(torch.float16, 4, 12)), KvTensor(filled(torch.float8_e5m2, 4, 9))]
    narrow = [KvTensor(filled(torch.uint8, 2, 5, 3), block_dim=1)]
    arena = Arena(slots=4, block_bytes=40)
    backend = ThreadBackend()
    try:
        worker = DeviceWorker(arena=arena, groups=[wide, narrow], backend=backend, depth=1)
        for number in range(2):  # the second time the buffers have been used
            worker.store(Operation(number, (3, 1, 0, 2)), [0, 4, 3, 1], groups=[0, 1, 0, 1])
        assert [end.error for end in worker.drain(10)] == [None, None]
        assert bytes(arena.row(3)) == block_bytes(wide, 0).ljust(40, b"\0")
        assert bytes(arena.row(1)) == block_bytes(narrow, 4).ljust(40, b"\0")
        assert bytes(arena.row(0)) == block_bytes(wide, 3).ljust(40, b"\0")
        assert bytes(arena.row(2)) == block_bytes(narrow, 1).ljust(40, b"\0")
    finally:
        backend.close()


def test_neighbouring_slots_are_one_copy():
    assert runs([]) == []
    assert runs([2, 3, 4, 7, 9, 10]) == [(0, 2, 3), (3, 7, 1), (4, 9, 2)]
    assert runs([4, 3]) == [(0, 4, 1), (1, 3, 1)]


@pytest.mark.parametrize(
    ("page", "unit"),
    [(16, torch.int64), (12, torch.int32), (6, torch.int16), (5, torch.uint8)],
)
def test_a_group_moves_in_the_widest_unit_that_fits_its_pages(page, unit):
    pool = torch.zeros(4, page, dtype=torch.uint8)
    assert Planes([KvTensor(pool)], 2 * page).unit == unit


@pytest.mark.parametrize(
    ("group", "words"),
    [
        ([], "at least one tensor"),
        ([KvTensor(torch.zeros(4, 8), block_dim=2)], r"block_dim must be one of 0\.\.1, not 2"),
        ([KvTensor(torch.zeros(8, 4).t())], "not contiguous"),
        ([KvTensor(torch.zeros(4, 0))], "holds nothing"),
        (
            [KvTensor(torch.zeros(4, 2)), KvTensor(torch.zeros(5, 2))],
            r"differ in their blocks, \[4, 5\]",
        ),
        ([KvTensor(torch.zeros(4, 9))], "36 bytes, an arena row 32"),
    ],
)
def test_a_tensor_that_cannot_be_used_is_refused_with_its_reason(group, words):
    with pytest.raises(ConfigError, match=words):
        Planes(group, 32)


def test_both_directions_run_at_once():
    # Neither job's copies begin before the other's have: in turn, this would never end.
    both = threading.Barrier(2, timeout=10)
    backend = ThreadBackend()
    pool = torch.zeros(4, 8, dtype=torch.uint8)
    try:
        worker = DeviceWorker(
            arena=Arena(slots=4, block_bytes=8), groups=[[KvTensor(pool)]], backend=backend
        )
        for lane in (worker._store_lane, worker._load_lane):
            lane.far.put(lambda: both.wait() and None)  # type: ignore[attr-defined]
        worker.store(Operation(1, (0,)), [0])
        worker.load(Operation(2, (1,)), [1])
        assert sorted(end.operation_id for end in worker.drain(10)) == [1, 2]
    finally:
        backend.close()


def test_neighbouring_slots_cross_the_bus_at_once():
    backend = SteppedBackend(lambda ready: 0)
    pool = torch.zeros(8, 4, dtype=torch.uint8)
    worker = DeviceWorker(
        arena=Arena(slots=8, block_bytes=4), groups=[[KvTensor(pool)]], backend=backend
    )
    copied: list[int] = []
    far = worker._store_lane.far
    copy = far.copy

    def counted(target, source):
        copied.append(target.shape[0])
        copy(target, source)

    far.copy = counted  # type: ignore[method-assign]
    worker.store(Operation(1, (6, 1, 0, 5, 2, 7)), [0, 1, 2, 3, 4, 5])
    assert copied == [3, 3]
