"""Public failures of the device's side (shared/cases/public-cases.md): B17 and B39."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tierproof import Arena, LookupResult
from tierproof.impl.device.layout import KvTensor
from tierproof.impl.device.stepped import SteppedBackend
from tierproof.impl.device.threads import ThreadBackend
from tierproof.impl.device.worker import DeviceWorker

from .support import Operation
from .test_worker import HIT, MISS, Device, spoiled


def test_B17_a_backup_that_finds_no_room_leaves_the_block_absent_everywhere():
    device = Device(slots=1)
    device.store("pinned", blocks=[0])
    assert device.manager.prepare_store(["k"], device.request) is None
    assert device.lookup("k") is MISS
    assert device.worker.in_flight, "only the first store was submitted"
    assert not device.worker.reading([1]), "k's block is the caller's to keep or to drop"
    device.settle()
    assert device.lookup("k") is MISS
    assert device.lookup("pinned") is HIT


def test_B17_a_backup_whose_copy_failed_is_never_marked_as_in_the_primary_tier():
    device = Device(slots=1)
    spoiled(device.worker._store_lane.far, "copy", at_once=False)
    device.store("k", blocks=[1])
    assert device.lookup("k") is LookupResult.HIT_PENDING
    assert not device.settle()[0].ok
    assert device.lookup("k") is MISS
    device.store("z", blocks=[0])  # the only slot is free again


@given(st.lists(st.integers(0, 7), max_size=30), st.sampled_from(["guard", "ask"]))
def test_B39_a_source_block_handed_on_while_a_store_reads_it_gives_k_its_own_bytes(order, way):
    turns = iter(order)
    backend = SteppedBackend(lambda ready: next(turns, 0) % ready)
    pool = torch.full((2, 8), 1, dtype=torch.uint8)
    arena = Arena(slots=1, block_bytes=8)
    worker = DeviceWorker(arena=arena, groups=[[KvTensor(pool)]], backend=backend)
    kernels = backend.current()
    worker.store(Operation(1, (0,)), [0])
    # free(s): s is given to z, which overwrites it.
    if way == "guard":
        worker.guard(kernels, [0])
    else:
        assert worker.reading([0]) == {0}
        while worker.reading([0]):
            assert backend.step()
    kernels.scatter(pool, [0], torch.full((1, 8), 9, dtype=torch.uint8))
    while backend.step():
        pass
    assert [end.ok for end in worker.poll()] == [True]
    assert bytes(arena.row(0)) == b"\1" * 8, "k holds z's bytes"
    assert pool[0].tolist() == [9] * 8


@pytest.mark.parametrize("way", ["guard", "ask"])
def test_B39_the_same_with_threads_that_really_run_at_once(way):
    backend = ThreadBackend()
    pool = torch.zeros(1, 1 << 16, dtype=torch.uint8)
    arena = Arena(slots=1, block_bytes=1 << 16)
    try:
        worker = DeviceWorker(arena=arena, groups=[[KvTensor(pool)]], backend=backend)
        kernels = backend.current()
        for number in range(1, 60):
            kernels.scatter(pool, [0], torch.full_like(pool, number))
            worker.store(Operation(number, (0,)), [0])
            if way == "guard":
                worker.guard(kernels, [0])
            else:
                while worker.reading([0]):
                    pass
            kernels.scatter(pool, [0], torch.full_like(pool, 255))
            assert [end.ok for end in worker.drain(10)] == [True]
            assert bytes(arena.row(0)) == bytes([number]) * (1 << 16)
    finally:
        backend.close()
