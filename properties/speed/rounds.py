"""Rounds that alternate between the sides, so that a busy neighbour disturbs all of them alike."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from .floor import FLOORS, Floor, misses_floor
from .rows import SPARE
from .scenarios import COUNTED, MOVING, STILL, Draw, Scenario, Times, misses
from .side import Side

LEAST_ROUNDS = 9

MakeSide = Callable[..., Side]
"""`make(resident=, spare=, tiers=, counted=)`: a side on a bench of its own."""
Progress = Callable[[int, int], None]


@dataclass
class Found:
    """Seconds of each round, by side and row."""

    ours: dict[str, list[float]] = field(default_factory=dict)
    stock: dict[str, list[float]] = field(default_factory=dict)
    floor: dict[str, list[float]] = field(default_factory=dict)


@dataclass(frozen=True)
class Stand:
    """A pair of managers that are set up for some scenarios."""

    scenarios: Sequence[Scenario]
    tiers: int
    counted: bool = False
    floors: bool = False
    """Whether the floor is measured here."""


STANDS = (
    Stand(STILL, tiers=2, floors=True),
    Stand(MOVING, tiers=2),
    Stand((misses,), tiers=1, floors=True),
    Stand((misses,), tiers=4, floors=True),
    Stand(COUNTED, tiers=2, counted=True),
)


def measure(
    resident: int,
    rounds: int,
    make_ours: MakeSide,
    make_stock: MakeSide | None,
    progress: Progress,
    *,
    stands: Sequence[Stand] = STANDS,
) -> Found:
    """All rows at one number of resident blocks.

    Raises:
        WrongAnswerError: a manager does not do what is measured.
    """
    found = Found()
    for done, stand in enumerate(stands):
        with _sides(stand, resident, make_ours, make_stock) as sides:
            floor = Floor(resident=resident, tiers=stand.tiers) if stand.floors else None
            gc.collect()
            for number in range(rounds + 1):
                progress(done * (rounds + 1) + number, len(stands) * (rounds + 1))
                times = _round(stand, sides, floor, resident, number)
                if number:  # the first warms up
                    _enter(found, times)
        del sides, floor
        gc.collect()
    return found


@contextmanager
def _sides(
    stand: Stand, resident: int, make_ours: MakeSide, make_stock: MakeSide | None
) -> Iterator[dict[str, Side]]:
    what: dict[str, Any] = {"resident": resident, "spare": SPARE, "tiers": stand.tiers}
    sides = {"ours": make_ours(**what, counted=stand.counted)}
    if make_stock is not None:
        sides["stock"] = make_stock(**what)
    try:
        for side in sides.values():
            side.fill()
        yield sides
    finally:
        for side in sides.values():
            side.close()


def _round(
    stand: Stand, sides: dict[str, Side], floor: Floor | None, resident: int, number: int
) -> dict[str, Times]:
    """Every scenario on every side, one side right after the other, in turn the one first."""
    times: dict[str, Times] = {name: {} for name in (*sides, "floor")}
    order = list(sides.items())
    if number % 2:
        order.reverse()
    draws = count(number * 100)
    for scenario in stand.scenarios:
        drawn = next(draws)
        for name, side in order:
            times[name] |= scenario(side, Draw(resident, drawn))
    if floor is not None:
        for least in FLOORS if stand.tiers == 2 else (misses_floor,):
            times["floor"] |= least(floor, Draw(resident, next(draws)))
    return times


def _enter(found: Found, times: dict[str, Times]) -> None:
    for name, of_side in times.items():
        kept = getattr(found, name)
        for row, seconds in of_side.items():
            kept.setdefault(row, []).append(seconds)
