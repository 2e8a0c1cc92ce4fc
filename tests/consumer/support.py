"""Workloads in few words, and what came of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tierproof.properties.commands_scan import result
from tierproof.properties.consumers import CONSUMERS
from tierproof.properties.simulation import Run, Simulation
from tierproof.properties.workloads import Workload, parse, read

SHIPPED = Path(__file__).parents[2] / "docs" / "workloads"
FULL = {"name": "full", "kind": "full", "tokens_per_block": 16}


def workload(**fields: Any) -> Workload:
    """A workload: one full group, one tier that has everything, one request of 192 tokens."""
    usual: dict[str, Any] = {
        "version": 1,
        "blocks_per_chunk": 1,
        "groups": [FULL],
        "primary_slots": 64,
        "tiers": [{"name": "files", "missing": []}],
        "requests": [{"id": "r0", "prompt_tokens": 192}],
    }
    return parse(json.dumps({**usual, **fields}).encode())


def run(work: Workload | str, consumer: str = "two-phase", delay: int = 1) -> Run:
    """Run a workload, or one that ships, named by its file."""
    if isinstance(work, str):
        work = read(SHIPPED / f"{work}.json")
    choice = CONSUMERS[consumer]
    done = Simulation(work, choice.make, delay=delay, share=choice.share).go()
    assert not done.stuck, "a request was never served"
    return done


def figures(work: Workload | str, consumer: str = "two-phase", delay: int = 1) -> dict[str, Any]:
    """The totals that `scan` reports."""
    return result(run(work, consumer, delay))
