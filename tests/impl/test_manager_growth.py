"""What the manager costs for each block, and that no call visits blocks it does not need."""

from __future__ import annotations

import gc
import sys
import tracemalloc

from tierproof import TieredOffloadingManager
from tierproof.impl.config import ManagerConfig

from .support import HIT, Rig


def test_a_resident_block_costs_less_than_two_hundred_bytes_beyond_its_key_and_row():
    number = 20_000
    config = ManagerConfig(events=False)
    manager = TieredOffloadingManager(slots=number, block_bytes=1, config=config)
    keys = [f"{n:032d}".encode() for n in range(number)]
    gc.collect()
    tracemalloc.start()
    request = manager.on_new_request("R")
    for start in range(0, number, 1000):
        operation = manager.prepare_store(keys[start : start + 1000], request)
        assert operation is not None
        manager.complete_store(operation)
    del operation
    manager.on_request_finished(request)
    manager.on_schedule_end()
    gc.collect()
    used, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert used / number < 200


def lines_run(call: object, *arguments: object) -> int:
    """How many lines of Python a call runs."""
    lines = 0

    def count(frame, event, _):
        nonlocal lines
        lines += event == "line"
        return count

    before = sys.gettrace()
    gc.disable()  # what other tests left behind must not be finalised, and counted, in here
    sys.settrace(count)
    try:
        call(*arguments)  # type: ignore[operator]
    finally:
        sys.settrace(before)
        gc.enable()
    return lines


def test_no_call_of_a_step_does_more_when_more_blocks_and_requests_are_there():
    def cost(scale: int) -> list[int]:
        rig = Rig(slots=10 * scale + 4, tiers=2, cascade_share=1.0)
        filler = rig.request("filler")
        rig.store(filler, *(f"f{n}" for n in range(10 * scale)))
        rig.settle()
        for n in range(scale):
            rig.request(f"idle{n}")
        request = rig.request()
        rig.store(request, "a", "b")
        rig.settle()
        rig.tier.has("p")
        manager = rig.manager
        costs = [
            lines_run(manager.lookup, "a", request),
            lines_run(manager.lookup, "absent", request),
            lines_run(manager.lookup, "p", request),
            lines_run(manager.lookup_many, ["a", "b", "p"], request),
            lines_run(manager.prepare_load, ["a"], request),
            lines_run(manager.complete_load, max(manager._transfers.reads)),
            lines_run(manager.prepare_store, ["x", "y"], request),
            lines_run(manager.on_schedule_end),
            lines_run(manager.on_schedule_end),
            lines_run(manager.has_pending_work),
        ]
        assert rig.lookup(request, "a") == [HIT]
        return costs

    assert cost(10) == cost(300)
