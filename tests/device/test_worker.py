"""The worker's calls: nothing waits, failures are failed jobs, wrong calls change nothing."""

from __future__ import annotations

import re
import time

import pytest
import torch

from tierproof import Arena, ConfigError, ContractViolation, LookupResult, TieredOffloadingManager
from tierproof.impl.device.layout import KvTensor
from tierproof.impl.device.stepped import SteppedBackend
from tierproof.impl.device.threads import ThreadBackend
from tierproof.impl.device.worker import DeviceWorker, JobEnd, report

from .support import Operation

HIT, MISS = LookupResult.HIT, LookupResult.MISS


def pool(blocks: int = 4) -> torch.Tensor:
    return torch.arange(blocks, dtype=torch.uint8).repeat_interleave(8).view(blocks, 8).clone()


class Device:
    """A stepped device, a manager and a worker between them."""

    def __init__(self, slots: int = 4) -> None:
        self.backend = SteppedBackend(lambda ready: 0)
        self.pool = pool()
        self.manager = TieredOffloadingManager(slots=slots, block_bytes=8)
        self.worker = DeviceWorker(
            arena=self.manager.arena, groups=[[KvTensor(self.pool)]], backend=self.backend
        )
        self.request = self.manager.on_new_request("R")

    def settle(self) -> list[JobEnd]:
        """Run all copies and tell the manager."""
        while self.backend.step():
            pass
        ends = self.worker.poll()
        report(ends, self.manager)
        return ends

    def store(self, *keys: str, blocks: list[int]) -> int:
        """A store in flight."""
        operation = self.manager.prepare_store(keys, self.request)
        assert operation is not None
        self.worker.store(operation, blocks)
        return operation.operation_id

    def lookup(self, key: str) -> LookupResult:
        return self.manager.lookup(key, self.request)


def spoiled(stream: object, method: str, *, at_once: bool) -> None:
    """The stream's next `method` fails: when it is submitted, or when it runs."""

    def fail(*_: object) -> None:
        delattr(stream, method)
        if at_once:
            raise RuntimeError("no descriptor")
        stream.put(lambda: stream._attempt(lambda: 1 / 0))  # type: ignore[attr-defined]

    setattr(stream, method, fail)


def test_a_store_and_a_load_take_the_bytes_there_and_back():
    device = Device()
    device.store("k", "l", blocks=[3, 1])
    assert device.worker.poll() == []
    assert [(end.store, end.ok, end.bytes) for end in device.settle()] == [(True, True, 16)]
    device.pool.zero_()
    assert device.lookup("k") is HIT
    assert device.lookup("l") is HIT
    device.worker.load(device.manager.prepare_load(["k", "l"], device.request), [0, 2])
    (end,) = device.settle()
    assert end.ok
    assert device.pool[:, 0].tolist() == [3, 0, 1, 0]
    device.manager.probe().check()


def test_no_call_waits_for_copies_that_never_end(monkeypatch):
    naps: list[float] = []
    device = Device()
    device.store("seen", blocks=[0])
    device.settle()
    monkeypatch.setattr(time, "sleep", naps.append)
    # From here on nothing steps: every copy is for ever in flight.
    begun = time.thread_time(), time.monotonic()
    manager, worker = device.manager, device.worker
    device.store("k", blocks=[1])
    assert device.lookup("seen") is HIT
    worker.load(manager.prepare_load(["seen"], device.request), [2])
    for _ in range(200):
        assert worker.poll() == []
        assert worker.reading([0, 1, 2]) == {1}
        assert worker.writing([0, 1, 2]) == {2}
        worker.guard(device.backend.current(), [1, 2])
        assert device.lookup("k") is LookupResult.HIT_PENDING
        assert device.lookup("new") is MISS
        manager.on_schedule_end()
        assert manager.prepare_store(["k"], device.request) is not None
    assert len(worker.in_flight) == 2
    assert not naps
    # A wait on the host would sleep: nearly all of the time was spent in computing.
    assert time.monotonic() - begun[1] < 5 + 20 * (time.thread_time() - begun[0])
    manager.on_request_finished(device.request)
    manager.on_schedule_end()
    manager.shutdown(timeout=0.01)
    assert not manager.arena.released, "a copy may still touch the rows"


def test_a_drain_gives_up_and_says_what_is_left():
    device = Device()
    number = device.store("k", blocks=[0])
    assert device.worker.drain(0.01) == []
    assert device.worker.in_flight == (number,)
    device.worker.close()


@pytest.mark.parametrize("at_once", [True, False])
@pytest.mark.parametrize(("stream", "method"), [("near", "gather"), ("far", "copy")])
def test_a_copy_that_fails_is_a_failed_store_and_the_next_one_works(stream, method, at_once):
    device = Device()
    spoiled(getattr(device.worker._store_lane, stream), method, at_once=at_once)
    device.store("k", blocks=[1])
    (end,) = device.settle()
    assert not end.ok
    assert re.search("no descriptor|division by zero", end.error or "")
    assert device.lookup("k") is MISS
    device.manager.probe().check()
    device.store("k", blocks=[1])
    assert device.settle()[0].ok
    assert device.lookup("k") is HIT


@pytest.mark.parametrize("at_once", [True, False])
@pytest.mark.parametrize(("stream", "method"), [("near", "scatter"), ("far", "copy")])
def test_a_copy_that_fails_is_a_failed_load_and_its_row_stays_readable(stream, method, at_once):
    device = Device()
    device.store("k", blocks=[1])
    device.settle()
    for fails in (True, False):
        if fails:
            spoiled(getattr(device.worker._load_lane, stream), method, at_once=at_once)
        assert device.lookup("k") is HIT
        device.worker.load(device.manager.prepare_load(["k"], device.request), [3])
        assert device.settle()[0].ok is not fails
    assert device.pool[3].tolist() == [1] * 8


def test_a_failed_job_is_not_reported_before_its_other_copies_have_ended():
    device = Device()
    spoiled(device.worker._store_lane.far, "copy", at_once=True)
    device.store("k", blocks=[1])
    assert device.worker.poll() == [], "the gather has not run yet"
    assert len(device.settle()) == 1


def test_one_failed_job_does_not_spoil_its_neighbours():
    device = Device()
    device.store("a", blocks=[0])
    spoiled(device.worker._store_lane.near, "gather", at_once=False)
    device.store("b", blocks=[1])
    device.store("c", blocks=[2])
    assert [end.ok for end in device.settle()] == [True, False, True]
    assert [device.lookup(key) for key in "abc"] == [HIT, MISS, HIT]


def test_a_device_that_accepts_nothing_any_more_fails_the_job_at_the_next_poll():
    device = Device()
    near = device.worker._store_lane.near

    def gone(*_):
        raise RuntimeError("device lost")

    near.record = gone  # type: ignore[method-assign]
    device.store("k", blocks=[0])
    (end,) = device.worker.poll()
    assert end.error == "RuntimeError: device lost"


def test_a_store_of_nothing_ends_at_the_next_poll():
    device = Device()
    device.store("k", blocks=[0])
    operation = device.manager.prepare_store(["k"], device.request)
    assert operation is not None
    assert not operation.keys
    device.worker.store(operation, [])
    assert [end.operation_id for end in device.worker.poll()] == [operation.operation_id]


@pytest.mark.parametrize(
    ("slots", "blocks", "groups", "words"),
    [
        ((0, 1), [0], None, "2 slots, but 1 block and"),
        ((0,), [4], None, "group 0 has no block 4"),
        ((0,), [-1], None, "group 0 has no block -1"),
        ((4,), [0], None, "no slot 4"),
        ((0,), [0], [1], "1 is not one of 1 KV groups"),
        ((0, 1), [2, 2], None, "twice"),
        ((1, 1), [0, 2], None, "twice"),
    ],
)
def test_a_wrong_call_is_refused_and_submits_nothing(slots, blocks, groups, words):
    device = Device()
    for call in (device.worker.store, device.worker.load):
        with pytest.raises(ContractViolation, match=words):
            call(Operation(1, slots), blocks, groups=groups)
    assert not device.worker.in_flight
    assert not device.backend.step()


def test_an_operation_in_flight_is_not_submitted_again():
    device = Device()
    device.worker.store(Operation(1, (0,)), [0])
    with pytest.raises(ContractViolation, match="operation 1 is in flight"):
        device.worker.load(Operation(1, (1,)), [1])


@pytest.mark.parametrize("setting", [{"depth": 0}, {"piece_bytes": 0}, {"depth": True}])
def test_a_setting_that_cannot_be_is_refused_by_name(setting):
    with pytest.raises(ConfigError, match=f"{next(iter(setting))} must be a whole number"):
        DeviceWorker(
            arena=Arena(slots=1, block_bytes=8),
            groups=[[KvTensor(pool())]],
            backend=SteppedBackend(lambda ready: 0),
            **setting,
        )


def test_copies_that_a_closed_backend_did_not_run_are_failed_jobs():
    backend = ThreadBackend()
    worker = DeviceWorker(
        arena=Arena(slots=4, block_bytes=8), groups=[[KvTensor(pool())]], backend=backend
    )
    gate = backend.stream()
    opened = gate.new_event()
    worker.store(Operation(1, (0,)), [0], after=[opened])
    gate.put(lambda: time.sleep(0.05))
    gate.put(lambda: opened.happen(None))
    worker.close()
    (end,) = worker.poll()
    assert end.error == "RuntimeError: the device backend was closed before this copy ran"


def test_a_stream_takes_only_events_that_it_can_wait_for():
    backend = ThreadBackend()
    with pytest.raises(TypeError, match="another backend"):
        backend.stream().wait(SteppedBackend(lambda ready: 0).stream().record())
    backend.close()
