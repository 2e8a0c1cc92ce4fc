"""What grows and what must not: time for each call, and memory for each block."""

from __future__ import annotations

import gc
import sys
import tracemalloc
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from statistics import median
from typing import TypeVar

from . import rows
from .floor import FLOORS, Floor
from .results import Growth, Line, Memory
from .rounds import MakeSide, Progress
from .rows import BY_NAME, SPARE
from .scenarios import (
    Draw,
    Scenario,
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
from .side import Side, keys_of

Stand = TypeVar("Stand")

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

    The sizes stand side by side and take turns, so that a busy neighbour bends no curve.

    Raises:
        WrongAnswerError: the manager does not do what is measured.
    """
    counts = sizes(most)
    progress(0, 4)
    still = _still([(resident, 1) for resident in counts], make, rounds)
    progress(1, 4)
    moving = _moving(counts, make, rounds)
    progress(2, 4)
    floors = _floors(counts, rounds)
    progress(3, 4)
    live = _still([(LIVE_RESIDENT, live) for live in LIVE], make, rounds)
    ours = [first | second for first, second in zip(still, moving, strict=True)]
    return Growth(
        [_line(name, counts, ours, floors) for name in BY_RESIDENT],
        [_line(name, LIVE, live) for name in BY_LIVE],
    )


def _line(
    name: str, at: Sequence[int], ours: Sequence[Times], floor: Sequence[Times] | None = None
) -> Line:
    return Line(
        row=name.replace(", 1 live request", "").replace(" 1 live request", ""),
        unit=BY_NAME[name].unit,
        at=list(at),
        ours_ns=[round(times[name] * 1e9, 1) for times in ours],
        floor_ns=None if floor is None else [round(times[name] * 1e9, 1) for times in floor],
    )


def _take_turns(
    stands: Sequence[Stand], rounds: int, one: Callable[[Stand, int], Times]
) -> list[Times]:
    """The median of each row for each stand, after rounds in which every stand has its turn."""
    gc.collect()
    found: list[list[Times]] = [[] for _ in stands]
    for number in range(rounds + 1):
        for stand, times in zip(stands, found, strict=True):
            times.append(one(stand, number))
    return [
        {name: median(times[name] for times in of_stand[1:]) for name in of_stand[0]}
        for of_stand in found  # the first round warms up
    ]


def _still(sized: Sequence[tuple[int, int]], make: MakeSide, rounds: int) -> list[Times]:
    """So many resident blocks, and so many live requests that have each looked up a block."""
    with _filled([resident for resident, _ in sized], make) as sides:
        for side, (resident, live) in zip(sides, sized, strict=True):
            for number in range(live):
                keys = keys_of((number % resident,))
                side.lookups(keys, side.begin(f"lives {number}", keys))
            side.steps(1)
        return _take_turns(sides, rounds, _still_round)


def _still_round(side: Side, number: int) -> Times:
    times = _scenarios(_STILL, side, number)
    times[rows.IDLE_FEW] = side.steps(500) / 500
    times["work pending? 1 live request"] = side.pending_work(500) / 500
    return times


def _moving(counts: Sequence[int], make: MakeSide, rounds: int) -> list[Times]:
    with _filled(counts, make) as sides:
        return _take_turns(sides, rounds, partial(_scenarios, _MOVING))


def _scenarios(scenarios: Sequence[Scenario], side: Side, number: int) -> Times:
    times: Times = {}
    for place, scenario in enumerate(scenarios):
        times |= scenario(side, Draw(side.resident, number * 100 + place))
    return times


@contextmanager
def _filled(counts: Sequence[int], make: MakeSide) -> Iterator[list[Side]]:
    sides = [make(resident=resident, spare=SPARE, tiers=2) for resident in counts]
    try:
        for side in sides:
            side.fill()
        yield sides
    finally:
        for side in sides:
            side.close()


def _floors(counts: Sequence[int], rounds: int) -> list[Times]:
    return _take_turns(
        [Floor(resident=resident, tiers=2) for resident in counts], rounds, _floor_round
    )


def _floor_round(floor: Floor, number: int) -> Times:
    times: Times = {}
    for place, least in enumerate(FLOORS):
        times |= least(floor, Draw(len(floor.blocks), number * 100 + place))
    return times


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
