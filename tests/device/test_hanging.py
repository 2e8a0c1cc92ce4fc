"""A device whose copies never end: no call of the scheduler waits for one."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest
import torch

from tierproof import (
    Asked,
    DeviceWorker,
    Geometry,
    Group,
    KvTensor,
    LookupResult,
    MemoryTier,
    Prompt,
    ThreadBackend,
    TieredOffloadingManager,
    TwoPhase,
)
from tierproof.impl.device import DeviceBackend, SteppedBackend, report
from tierproof.impl.device.threads import ThreadStream

HIT, PENDING = LookupResult.HIT, LookupResult.HIT_PENDING
PATIENCE = 30.0
WAITING = {"drain", "shutdown", "close"}
"""The only calls that may wait, and not for longer than they are told to."""


class HangingThreads(ThreadBackend):
    """Every stream waits for something that does not happen before the test is over."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = threading.Event()

    def stream(self) -> ThreadStream:
        """A stream that runs nothing."""
        made = super().stream()
        made.put(self._hang)
        return made

    def _hang(self) -> None:
        self.gate.wait()

    def close(self, timeout: float = 5.0) -> None:
        """Let the threads go, and end them."""
        self.gate.set()
        super().close(timeout)


@pytest.fixture(params=["stepped", "threads"])
def backend(request: pytest.FixtureRequest) -> Iterator[DeviceBackend]:
    made = SteppedBackend(lambda ready: 0) if request.param == "stepped" else HangingThreads()
    yield made
    made.close()


class Watched:
    """Passes calls on, and notes which have been made and which one is running."""

    def __init__(self, watched: object, made: list[str]) -> None:
        self._watched, self._made = watched, made

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._watched, name)
        if not callable(found):
            return found

        def call(*args: Any, **named: Any) -> Any:
            self._made.append(name)
            return found(*args, **named)

        return call


def public(kind: type) -> set[str]:
    return {
        name
        for name in dir(kind)
        if not name.startswith("_")
        and callable(getattr(kind, name))
        and name not in ("stores", "loads")
    }


def schedule(manager: Any, worker: Any, backend: DeviceBackend) -> None:
    """Every call that a scheduler makes, with stores and loads in flight that do not end."""
    prompt, geometry = (
        Prompt(tokens=6),
        Geometry([Group(name="g", kind="full", tokens_per_block=1)]),
    )
    request = manager.on_new_request("R")
    asked = Asked(request, prompt, geometry, lambda group, chunk: f"k{chunk}")

    # What others have left: two blocks in the primary tier, and in the memory tier behind it.
    stored = manager.prepare_store(["k0", "k1"], request)
    manager.complete_store(stored)
    manager.on_schedule_end()
    assert manager.has_pending_work()

    load = TwoPhase(manager, asked).ask().load
    assert load is not None
    worker.load(load, [0, 1])
    stored = manager.prepare_store(["k2", "k3"], request)
    worker.store(stored, [2, 3])
    for _ in range(20):
        ends = worker.poll()
        assert ends == []
        report(ends, manager)
        assert worker.writing([0, 1, 2, 3]) == {0, 1}
        assert worker.reading([0, 1, 2, 3]) == {2, 3}
        worker.guard(backend.current(), [0, 1, 2, 3])
        assert manager.lookup("k0", request) is HIT
        assert manager.lookup_many(["k1", "k2"], request) == [HIT, PENDING]
        assert manager.exists(["k2", "k9"], request) == [True, False]
        assert manager.landed(["k2"], request) is PENDING
        assert manager.plan_head(["k2"], request) == 1
        manager.plan_load(["k2"], request)
        manager.explain("k2", request)
        manager.touch(["k0"], request)
        manager.withdraw(["k2"], request)
        manager.prepare_store(["k0", "k2", "new"], request)
        other = manager.on_new_request("S")
        manager.on_schedule_end([other])
        manager.on_request_finished(other)
        manager.take_events()
        manager.stats()
        manager.external("memory")
        manager.probe()
    manager.reset_cache("all")
    assert manager.lookup("k0", request) is LookupResult.MISS
    manager.on_reset_flushed()
    free = manager.prepare_load([], request)
    manager.complete_load(free)
    manager.on_request_finished(request)
    manager.on_schedule_end()
    assert worker.in_flight == (load.operation_id, stored.operation_id)


def test_no_call_of_the_scheduler_waits_for_copies_that_never_end(backend: DeviceBackend):
    pool = torch.zeros(8, 8, dtype=torch.uint8)
    manager = TieredOffloadingManager(slots=12, block_bytes=8, tiers=[MemoryTier("memory")])
    worker = DeviceWorker(arena=manager.arena, groups=[[KvTensor(pool)]], backend=backend)
    made: list[str] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            with manager.lock:
                schedule(Watched(manager, made), Watched(worker, made), backend)
        except BaseException as error:
            errors.append(error)

    scheduler = threading.Thread(target=run, daemon=True)
    scheduler.start()
    scheduler.join(PATIENCE)
    assert not scheduler.is_alive(), f"{made[-1]} waits for a copy that does not end"
    if errors:
        raise errors[0]
    calls = public(TieredOffloadingManager) | public(DeviceWorker)
    assert calls - set(made) == WAITING, "a new call: have the scheduler make it"
    # What may wait is bounded, and what a copy may still touch is not given back.
    assert worker.drain(0.05) == []
    manager.shutdown(timeout=0.05)
    assert not manager.arena.released
