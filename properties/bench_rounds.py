"""How sides take turns in a measurement, and how blocks are pumped through a tier.

Rounds alternate between the sides, and who comes first changes from round to round, so that a busy
neighbour hurts all; a figure is the median of the rounds' ratios.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from statistics import median
from typing import Any, TypeAlias

from xxhash import xxh3_128_digest

from ..impl.tiers.base import LoadJob, StoreJob, Tier
from ..impl.tiers.block_tier import BlockTier
from .report import Report
from .tier_rig import TierRig

MIB = 1 << 20
_IN_FLIGHT = 128 * MIB
_PAUSE = 0.0002


class Pump:
    """Moves many blocks through a tier, as many at once as the arena holds."""

    def __init__(self, tier: Tier, block_bytes: int) -> None:
        self.tier: Any = tier
        self.slots = max(8, min(128, _IN_FLIGHT // block_bytes))
        self.rig = TierRig(tier, slots=self.slots, block_bytes=block_bytes)
        noise = bytes(range(256)) * 16
        for slot in range(self.slots):  # like the limit's buffers: touched, and not all zero
            self.rig.arena.row(slot)[:] = (noise * (block_bytes // 4096 + 1))[:block_bytes]
        self.block_bytes = block_bytes
        self.processor = 0.0
        """Seconds of processor time that each block of the last move took this process."""

    def move(self, keys: Sequence[bytes], what: str) -> float:
        """GB/s for storing or loading the keys, one job a key."""
        free, landed = list(range(self.slots)), 0
        open_jobs: dict[int, int] = {}
        waiting = list(reversed(keys))
        number = len(self.rig.jobs)
        began, worked = time.perf_counter(), time.process_time()
        while waiting or open_jobs:
            while waiting and free:
                slot, key = free.pop(), waiting.pop()
                number += 1
                job_id = 1_000_000 + number
                self.rig.jobs[job_id] = (key,)
                if what == "store":
                    refused = self.tier.submit_store(StoreJob(job_id, (key,), (slot,)))
                    assert not refused, "the queue is shorter than the arena"
                else:
                    self.tier.submit_load(LoadJob(job_id, (key,), (slot,)))
                open_jobs[job_id] = slot
            for report in self.rig.poll():
                free.append(open_jobs.pop(report.job_id))
                landed += len(report.landed)
            if open_jobs:
                time.sleep(_PAUSE)
        took = time.perf_counter() - began
        self.processor = (time.process_time() - worked) / len(keys)
        if landed != len(keys):
            raise RuntimeError(f"{what}: {len(keys) - landed} of {len(keys)} blocks failed")
        return len(keys) * self.block_bytes / took / 1e9

    def checksum(self) -> float:
        """Seconds of processor time that the checksum of a block takes, which is in memory."""
        rows = [self.rig.arena.row(slot) for slot in range(self.slots)]
        began = time.thread_time()
        for row in rows:
            xxh3_128_digest(row)
        return (time.thread_time() - began) / len(rows)

    def empty(self) -> None:
        """Clear the tier, and wait for it."""
        self.tier.clear()
        if isinstance(self.tier, BlockTier):
            index = self.tier._index
            self.rig.until(lambda: not index.clearing, "T7-bounded", "no end of a clear")

    def close(self) -> None:
        """End the tier."""
        self.rig.close()


Step: TypeAlias = Callable[[int], float]
"""GB/s of one side; told the number of the round."""
Steps: TypeAlias = dict[str, Step]


def rounds_of(
    rounds: int, phases: Sequence[Steps], progress: Callable[[int, int], None]
) -> dict[str, list[float]]:
    """Every step's figure in every round: a phase after the other, begun with another step each."""
    found: dict[str, list[float]] = {name: [] for steps in phases for name in steps}
    for number in range(rounds):
        progress(number, rounds)
        for steps in phases:
            names = list(steps)
            first = number % len(names)
            for name in names[first:] + names[:first]:
                found[name].append(steps[name](number))
    return found


def ratio(of: list[float], to: list[float]) -> float:
    """The median of the rounds' ratios."""
    return median(a / b for a, b in zip(of, to, strict=True))


def step_of(call: Callable[[], float]) -> Step:
    """A step that is the same in every round."""
    return lambda number: call()


def emptied(pump: Pump, keys: Sequence[bytes]) -> Step:
    """Stores of the keys into a tier that is emptied first, which is not timed."""

    def store(number: int) -> float:
        pump.empty()
        return pump.move(keys, "store")

    return store


def moved(pump: Pump, keys: Sequence[bytes], what: str) -> Step:
    """A "store" or "load" of the keys in a tier as it is."""
    return lambda number: pump.move(keys, what)


def tell_goal(report: Report, what: str, of: list[float], to: list[float], goal: float) -> None:
    """Say in a line what was reached, of what; the report knows whether the goal was."""
    ratios = sorted(a / b for a, b in zip(of, to, strict=True))
    reached = median(ratios)
    word = "reached" if reached >= goal else "missed"
    if reached < goal:
        report.missed.append(what)
    quarter = len(ratios) // 4
    report.lines.append(
        f"{what}: {median(of):.2f} GB/s of {median(to):.2f}, ratio {reached:.2f}, in half of the "
        f"rounds {ratios[quarter]:.2f} to {ratios[-1 - quarter]:.2f}; goal {goal:g} {word}"
    )
