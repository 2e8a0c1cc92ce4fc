"""Random histories in lockstep, drawn plainly: the same kinds of settings and menus as the runs.

Hypothesis shrinks what it finds and shows statistics, and takes ten times as long for an operation.
Where thousands of histories are needed and `shortest` shortens the finding, these serve better.
"""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from ..model.operations import (
    MINDS,
    MOODS,
    Operation,
    RequestSetting,
    Setting,
    TierSetting,
)
from .driver import Driver, Factory
from .found import Found
from .leading import Led
from .lockstep import Divergence, Lockstep
from .moves import Menu, moves
from .tour import PATIENT, Patience


def a_setting(rng: random.Random) -> Setting:
    """Where a history starts."""
    keys = tuple(f"k{i}" for i in range(rng.randint(1, 4)))
    tiers = tuple(
        TierSetting(
            f"t{i}",
            tuple(k for k in keys if rng.random() < 0.5),
            whole_request=rng.random() < 0.25,
        )
        for i in range(rng.randint(0, 3))
    )
    names = [t.name for t in tiers]
    requests = [RequestSetting(f"r{i}", _filter(rng, names)) for i in range(rng.randint(1, 3))]
    if names and rng.random() < 0.3:
        requests.append(RequestSetting("x0", external_of=rng.choice(names)))
    return Setting(rng.choice((1, 2, 2, 3, 4, 8)), keys, tiers, tuple(requests))


def _filter(rng: random.Random, names: list[str]) -> tuple[str, ...] | None:
    if rng.random() < 0.7:
        return None
    return tuple(name for name in names if rng.random() < 0.5)


def a_menu(rng: random.Random) -> Menu:
    """What a history is made of: leaving kinds out makes deep histories of the rest likelier."""

    def flip(likely: float = 0.5) -> bool:
        return rng.random() < likely

    return Menu(
        batches=flip(),
        lookup_many=flip(0.3),
        stores=flip(0.8),
        loads=flip(0.8),
        minds=MINDS if flip(0.3) else (),
        moods=MOODS if flip(0.3) else (),
        resets=flip(0.3),
        ends=flip(0.3),
        withdraw=flip(),
        scheduled=flip(),
        time=flip(0.3),
        pauses=flip(),
        failures=flip(0.7),
        mistakes=flip(0.2),
        verify=flip(0.3),
    )


def draw(rng: random.Random, now: Sequence[Operation]) -> Operation:
    """First the kind, then the operation: else the many lookups crowd the few others out."""
    kind = rng.choice(sorted({op.op for op in now}))
    return rng.choice([op for op in now if op.op == kind])


def first_found(factory: Factory, seeds: range, steps: int = 60) -> Found | None:
    """The first seed's history on which a manager breaks a contract, if one of `seeds` has one."""
    for seed in seeds:
        rng = random.Random(seed)
        setting = a_setting(rng)
        lockstep = Lockstep(factory, setting)
        menu = a_menu(rng)
        try:
            for _ in range(steps):
                lockstep.do(draw(rng, list(moves(lockstep.state, menu))))
        except Divergence as divergence:
            return Found(setting, divergence, "runs")
    return None


@dataclass
class HistoriesResult:
    """What many random histories saw; they end before their number when time is over."""

    histories: int = 0
    operations: int = 0
    reached: set[str] = field(default_factory=set)
    """What came about with the manager in step (`situations`)."""
    divergences: list[Found] = field(default_factory=list)
    seconds: float = 0.0


def many(
    factory: Factory,
    *,
    count: int,
    seed: int = 0,
    steps: int = 60,
    patience: Patience = PATIENT,
) -> HistoriesResult:
    """Drive a manager, of whatever calls it has, through random histories; seed for seed the same.

    Args:
        factory: builds the manager under test (see `under_test`).
        count: how many histories.
        seed: the first history's; each next one has the next number.
        steps: operations of a history, unless the manager diverges before.
        patience: how long the manager is led on.
    """
    result = HistoriesResult()
    began = time.perf_counter()
    can, wrong = Driver(factory, Setting()).can, 0
    for number in range(seed, seed + count):
        if patience.over() or wrong >= patience.enough:
            break
        rng = random.Random(number)
        setting, menu = a_setting(rng), a_menu(rng)
        if not can("external"):  # it does not serve peers
            own = tuple(r for r in setting.requests if r.external_of is None)
            setting = replace(setting, requests=own)
        menu = replace(
            menu,
            lookup_many=menu.lookup_many and can("lookup_many"),
            plans=rng.random() < 0.3 and can("exists") and can("plan_load"),
            withdraw=menu.withdraw and can("withdraw"),
            resets=menu.resets and can("reset_cache"),
        )
        led = Led(factory, Lockstep(factory, setting, counts=patience.counts))
        led.lockstep.reached = result.reached
        try:
            while len(led.lockstep.history) < steps and (now := led.now(menu)):
                led.do(draw(rng, now))
        except Divergence as divergence:
            wrong += 1
            result.divergences.append(Found(setting, divergence, "runs"))
        room = max(0, 2 * patience.enough - len(result.divergences))
        result.divergences += led.passed[:room]
        result.histories += 1
        result.operations += len(led.lockstep.history)
    result.seconds = time.perf_counter() - began
    return result
