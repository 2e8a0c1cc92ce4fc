"""What grows and what must not: time for each call, and memory for each block."""

from __future__ import annotations

import gc
import sys
import tracemalloc
from collections.abc import Sequence
from statistics import median
from typing import Any

from . import rows
from .floor import FLOORS, Floor
from .results import Growth, Line, Memory
from .rounds import MakeSide, Progress
from .rows import BY_NAME, SPARE
from .scenarios import (
    Draw,
    Times,
    ends_of_steps,
    hits,
    landings,
    loads,
    misses,
    promotions,
    stores,
    without_free_slots,
)
from .side import keys_of

BY_RESIDENT = (
    "HIT, first time",
    "MISS, 2 tiers",
    "promotion, free slots",
    "promotion, evicting",
    "promotions land, 1 job",
    f"load of {rows.BATCH}",
    f"store of {rows.BATCH}, 2 tiers",
    "end of step, 1 job",
    rows.IDLE_FEW,
)
BY_LIVE = (
    "HIT, first time",
    "MISS, 2 tiers",
    "promotion, free slots",
    f"load of {rows.BATCH}",
    "end of step, 1 job",
    rows.IDLE_FEW,
    "work pending? 1 live request",
)
LIVE = (1, 10, 100, 1_000, 10_000)
LIVE_RESIDENT = 10_000
_STILL = (hits, misses, promotions, ends_of_steps, loads)
_MOVING = (landings, without_free_slots, stores)


def sizes(most: int) -> list[int]:
    """Powers of ten from a thousand."""
    return [10**power for power in range(3, len(str(most)))]


def grow(make: MakeSide, most: int, rounds: int, progress: Progress) -> Growth:
    """Up to `most` resident blocks, and up to 10,000 live requests.

    Raises:
        WrongAnswerError: the manager does not do what is measured.
    """
    counts = sizes(most)
    steps = len(counts) + len(LIVE)
    ours: dict[str, list[float]] = {name: [] for name in BY_RESIDENT}
    floors: dict[str, list[float]] = {name: [] for name in BY_RESIDENT}
    for done, resident in enumerate(counts):
        progress(done, steps)
        times = _still(make, resident, rounds, live=1) | _moving(make, resident, rounds)
        least = _floors(resident, rounds)
        for name in BY_RESIDENT:
            ours[name].append(times[name])
            floors[name].append(least[name])
    by_live: dict[str, list[float]] = {name: [] for name in BY_LIVE}
    for done, live in enumerate(LIVE):
        progress(len(counts) + done, steps)
        times = _still(make, LIVE_RESIDENT, rounds, live=live)
        for name in BY_LIVE:
            by_live[name].append(times[name])
    return Growth(
        [_line(name, counts, ours[name], floors[name]) for name in BY_RESIDENT],
        [_line(name, LIVE, by_live[name]) for name in BY_LIVE],
    )


def _line(
    name: str, at: Sequence[int], ours: Sequence[float], floor: Sequence[float] | None = None
) -> Line:
    return Line(
        row=name.replace(", 1 live request", "").replace(" 1 live request", ""),
        unit=BY_NAME[name].unit,
        at=list(at),
        ours_ns=[round(seconds * 1e9, 1) for seconds in ours],
        floor_ns=None if floor is None else [round(seconds * 1e9, 1) for seconds in floor],
    )


def _medians(rounds: list[Times]) -> Times:
    return {name: median(times[name] for times in rounds) for name in rounds[0]}


def _still(make: MakeSide, resident: int, rounds: int, *, live: int) -> Times:
    """With so many live requests, each of which has looked up a block."""
    side = make(resident=resident, spare=SPARE, tiers=2)
    try:
        side.fill()
        alive: list[Any] = []
        for number in range(live):
            keys = keys_of((number % resident,))
            alive.append(side.begin(f"lives {number}", keys))
            side.lookups(keys, alive[-1])
        side.steps(1)
        gc.collect()
        found = []
        for number in range(rounds):
            times: Times = {}
            for place, scenario in enumerate(_STILL):
                times |= scenario(side, Draw(resident, number * 100 + place))
            times[rows.IDLE_FEW] = side.steps(500) / 500
            times["work pending? 1 live request"] = side.pending_work(500) / 500
            found.append(times)
        side.settle(*alive)
    finally:
        side.close()
    return _medians(found)


def _moving(make: MakeSide, resident: int, rounds: int) -> Times:
    side = make(resident=resident, spare=SPARE, tiers=2)
    try:
        side.fill()
        gc.collect()
        found = []
        for number in range(rounds):
            times: Times = {}
            for place, scenario in enumerate(_MOVING):
                times |= scenario(side, Draw(resident, number * 100 + place))
            found.append(times)
    finally:
        side.close()
    return _medians(found)


def _floors(resident: int, rounds: int) -> Times:
    floor = Floor(resident=resident, tiers=2)
    found = []
    for number in range(rounds):
        times: Times = {}
        for place, least in enumerate(FLOORS):
            times |= least(floor, Draw(resident, number * 100 + place))
        found.append(times)
    return _medians(found)


def memory(resident: int, make_ours: MakeSide, make_stock: MakeSide | None) -> Memory:
    """Bytes for each resident block, as Python allocates them."""
    stock = None if make_stock is None else _bytes_for_each(make_stock, resident)
    return Memory(resident, _bytes_for_each(make_ours, resident), stock)


def _bytes_for_each(make: MakeSide, resident: int) -> float:
    """The rows are there before it is traced; the keys are counted out."""
    side = make(resident=resident, spare=0, tiers=0)
    try:
        gc.collect()
        tracemalloc.start()
        side.fill()
        gc.collect()
        used, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    finally:
        side.close()
    return round(used / resident - sys.getsizeof(keys_of((0,))[0]), 1)
