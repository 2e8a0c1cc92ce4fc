"""The same calls on every side: each scenario leaves the manager as it found it.

A scenario returns seconds for each unit of its rows. It looks at the answers when the clock has
stopped, so that a manager that does less than it should is no fast manager.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

from ...impl.counted import counted
from . import rows
from .side import Keys, Side, WrongAnswerError, keys_of

Times = dict[str, float]
Scenario = Callable[[Side, "Draw"], Times]
LOOKED_AT = 25
"""How many answers are looked at after a loop."""


class Draw:
    """Which blocks a scenario speaks of in a round: the same for every side, and new ones for every
    scenario and round.

    Args:
        resident: how many blocks were there from the start.
        number: a different one for each scenario and round.
    """

    def __init__(self, resident: int, number: int) -> None:
        self._resident = resident
        self._random = random.Random(number)
        self._next = (number + 1) << 32

    def resident(self, count: int) -> list[int]:
        """A prefix: blocks that were stored one after the other, from anywhere on."""
        first = self._random.randrange(self._resident)
        return [(first + n) % self._resident for n in range(min(count, self._resident))]

    def scattered(self, count: int) -> list[int]:
        """Blocks that were stored at different times, in no order."""
        return self._random.sample(range(self._resident), min(count, self._resident))

    def new(self, count: int) -> list[int]:
        """Blocks that no manager has heard of."""
        first = self._next
        self._next += count
        return list(range(first, first + count))


def batches(keys: Keys, size: int) -> list[Keys]:
    """The keys in groups of `size`."""
    return [keys[first : first + size] for first in range(0, len(keys), size)]


def _require(holds: bool, words: str) -> None:
    if not holds:
        raise WrongAnswerError(words)


# -- lookups -------------------------------------------------------------------------------------


def hits(side: Side, draw: Draw, *, suffix: str = "") -> Times:
    """A request looks up resident blocks, and does so again in the next step."""
    keys = keys_of(draw.resident(rows.SCAN))
    request = side.begin("hits", keys)
    first = side.lookups(keys, request) / len(keys)
    side.steps(1)
    again = side.lookups(keys, request) / len(keys)
    side.expect("HIT", keys[:LOOKED_AT], request)
    side.settle(request)
    return {f"HIT, first time{suffix}": first, f"HIT, repeated{suffix}": again}


def hits_counted(side: Side, draw: Draw) -> Times:
    """The same where lookups are counted."""
    return hits(side, draw, suffix=", counted")


def pending(side: Side, draw: Draw) -> Times:
    """Promotions are on their way; who waits asks again, and another request asks."""
    keys = keys_of(draw.new(rows.LOOKUPS // 2))
    side.tiers[0].keys.update(keys)
    request = side.begin("waits", keys)
    side.lookups(keys, request)
    side.steps(1)
    again = side.lookups(keys, request) / len(keys)
    other_keys = [bytes(bytearray(key)) for key in keys]
    other = side.begin("joins", other_keys)
    first = side.lookups(other_keys, other) / len(keys)
    side.expect("HIT_PENDING", keys[:LOOKED_AT], other)
    side.tiers[0].keys.clear()
    side.settle(request, other, ok=False)
    return {"HIT_PENDING, first time": first, "HIT_PENDING, repeated": again}


def misses(side: Side, draw: Draw, *, suffix: str = "") -> Times:
    """Nobody has the blocks, and every tier says so at once."""
    keys = keys_of(draw.new(rows.LOOKUPS))
    request = side.begin("misses", keys)
    first = side.lookups(keys, request) / len(keys)
    side.steps(1)
    again = side.lookups(keys, request) / len(keys)
    side.expect("MISS", keys[:LOOKED_AT], request)
    side.settle(request)
    tiers = len(side.tiers)
    also = {"MISS, 2 tiers, repeated": again} if tiers == 2 and not suffix else {}
    return {f"MISS, {counted(tiers, 'tier')}{suffix}": first, **also}


def misses_counted(side: Side, draw: Draw) -> Times:
    """The same where lookups are counted."""
    return misses(side, draw, suffix=", counted")


def scans(side: Side, draw: Draw) -> Times:
    """A scan by the fastest call there is, and again in the next step."""
    first, again = _scan(side, keys_of(draw.resident(rows.SCAN)), "HIT")
    scattered, _ = _scan(side, keys_of(draw.scattered(rows.SCAN)), "HIT")
    absent, _ = _scan(side, keys_of(draw.new(rows.SCAN)), "MISS")
    return {
        f"scan of {rows.SCAN:,} resident keys": first,
        f"scan of {rows.SCAN:,} scattered keys": scattered,
        f"scan of {rows.SCAN:,} keys, repeated": again,
        f"scan of {rows.SCAN:,} absent keys": absent,
    }


def scans_counted(side: Side, draw: Draw) -> Times:
    """The same where lookups are counted."""
    first, _ = _scan(side, keys_of(draw.resident(rows.SCAN)), "HIT")
    return {f"scan of {rows.SCAN:,} keys, counted": first}


def _scan(side: Side, keys: Keys, answer: str) -> tuple[float, float]:
    request = side.begin("scans", keys)
    first = side.scan(keys, request)
    side.steps(1)
    again = side.scan(keys, request)
    side.expect(answer, keys[:LOOKED_AT], request)
    side.settle(request)
    return first, again


# -- promotions ----------------------------------------------------------------------------------


def promotions(side: Side, draw: Draw) -> Times:
    """Lookups that start promotions into free slots; their loads fail, so that the slots return."""
    keys, request = _about_to_promote(side, draw)
    took = side.lookups(keys, request) / len(keys)
    side.steps(1)
    side.tiers[0].keys.clear()
    submitted = side.report(False) - LOOKED_AT
    _require(submitted == len(keys), "not every promotion was submitted once")
    side.settle(request)
    return {"promotion, free slots": took}


def _about_to_promote(side: Side, draw: Draw) -> tuple[Keys, Any]:
    """Blocks that the first tier has; a few others were promoted to look at the answers."""
    looked_at, keys = keys_of(draw.new(LOOKED_AT)), keys_of(draw.new(rows.LOOKUPS))
    side.tiers[0].keys.update((*looked_at, *keys))
    request = side.begin("promotes", [*looked_at, *keys])
    side.expect("HIT_PENDING", looked_at, request)
    return keys, request


def ends_of_steps(side: Side, draw: Draw) -> Times:
    """The end of a step that submits jobs, one for each request."""
    return {
        "end of step, 1 job": _end_of_step(side, draw, jobs=1, times=200),
        "end of step, 10 jobs": _end_of_step(side, draw, jobs=rows.SOME_JOBS, times=50),
        "end of step, 1,000 jobs": _end_of_step(side, draw, jobs=rows.MANY_JOBS, times=1),
    }


def _end_of_step(side: Side, draw: Draw, *, jobs: int, times: int) -> float:
    took = 0.0
    for _ in range(times):
        requests = _queue_jobs(side, draw, jobs)
        took += side.steps(1)
        _require(
            side.report(False) == jobs,
            f"{counted(jobs, 'promotion')} did not become {counted(jobs, 'block')} in jobs",
        )
        side.steps(1)
        side.settle(*requests)
    return took / times


def _queue_jobs(side: Side, draw: Draw, jobs: int) -> list[Any]:
    """As many requests, each of which has started one promotion."""
    keys = keys_of(draw.new(jobs))
    side.tiers[0].keys.update(keys)
    requests = []
    for number, key in enumerate(keys):
        request = side.begin(f"promotes {number}", [key])
        side.lookups([key], request)
        requests.append(request)
    side.tiers[0].keys.clear()
    return requests


def landings(side: Side, draw: Draw) -> Times:
    """Promotions land: the end of an otherwise idle step takes them in."""
    keys = keys_of(draw.new(rows.MANY_JOBS))
    side.tiers[0].keys.update(keys)
    request = side.begin("promotes", keys)
    side.lookups(keys, request)
    side.tiers[0].keys.clear()
    side.steps(1)
    side.report(True)
    one = side.steps(1) / len(keys)
    side.expect("HIT", keys[:LOOKED_AT], request)
    side.settle(request)
    requests = _queue_jobs(side, draw, rows.MANY_JOBS)
    side.steps(1)
    side.report(True)
    many = side.steps(1) / rows.MANY_JOBS
    side.settle(*requests)
    side.make_room(draw.new(side.spare))
    return {"promotions land, 1 job": one, "promotions land, 1,000 jobs": many}


def without_free_slots(side: Side, draw: Draw) -> Times:
    """As it is once the cache is full: every promotion evicts the block used longest ago."""
    side.store_all(keys_of(draw.new(side.spare)))
    absent = keys_of(draw.new(rows.LOOKUPS))
    request = side.begin("misses", absent)
    missed = side.lookups(absent, request) / len(absent)
    side.expect("MISS", absent[:LOOKED_AT], request)
    side.settle(request)
    keys, request = _about_to_promote(side, draw)
    took = side.lookups(keys, request) / len(keys)
    side.tiers[0].keys.clear()
    side.settle(request)
    side.make_room(draw.new(side.spare))
    return {"MISS, 2 tiers, no slot free": missed, "promotion, evicting": took}


# -- loads, stores, ends -------------------------------------------------------------------------


def loads(side: Side, draw: Draw) -> Times:
    """A request's hits are copied to the GPU, in the step of the lookups."""
    singles = keys_of(draw.resident(rows.SINGLE_LOADS))
    keys = keys_of(draw.resident(rows.BATCH * rows.BATCHES))
    request = side.begin("loads", [*singles, *keys])
    side.lookups([*singles, *keys], request)
    single = side.loads(batches(singles, 1), request) / len(singles)
    many = side.loads(batches(keys, rows.BATCH), request) / len(keys)
    side.expect("HIT", keys[:LOOKED_AT], request)
    side.settle(request)
    return {"load of 1 block": single, f"load of {rows.BATCH}": many}


def stores(side: Side, draw: Draw) -> Times:
    """New blocks are stored into free slots and cascade to every tier; then the cascades end."""
    keys = keys_of(draw.new(rows.BATCH * rows.BATCHES))
    request = side.begin("stores", keys)
    stored = side.stores(batches(keys, rows.BATCH), request) / len(keys)
    side.steps(1)  # so that the next one takes in what has ended
    sent = side.report(True)
    _require(sent == len(keys) * len(side.tiers), "not every block cascaded once to every tier")
    ended = side.steps(1) / sent
    side.expect("HIT", keys[:LOOKED_AT], request)
    side.settle(request)
    side.make_room(draw.new(side.spare))
    return {f"store of {rows.BATCH}, 2 tiers": stored, "cascades end, each tier": ended}


def finishes(side: Side, draw: Draw) -> Times:
    """Requests that have read blocks end."""
    requests = []
    for number in range(100):
        keys = keys_of(draw.resident(rows.BATCH))
        request = side.begin(f"ends {number}", keys)
        side.lookups(keys, request)
        side.loads([keys], request)
        requests.append(request)
    side.steps(1)
    took = side.finishes(requests) / len(requests)
    _require(not side.pending(), "work was pending after every request had ended")
    side.steps(1)
    return {f"finish, {rows.BATCH} blocks read": took}


def idle(side: Side, draw: Draw) -> Times:
    """Steps in which nothing happens, with few and with many live requests."""
    times = {}
    for live, step, ask in (
        (1, rows.IDLE_FEW, "work pending? 1 live request"),
        (rows.MANY_LIVE, rows.IDLE_MANY, "work pending? 1,000 live"),
    ):
        requests = [side.begin(f"lives {n}", ()) for n in range(live)]
        side.steps(1)
        times[step] = side.steps(500) / 500
        times[ask] = side.pending_work(500) / 500
        _require(not side.pending(), "work was pending though nothing was to be done")
        side.settle(*requests)
    return times


STILL: Sequence[Scenario] = (
    hits,
    pending,
    misses,
    scans,
    promotions,
    ends_of_steps,
    loads,
    finishes,
    idle,
)
"""On a manager whose blocks stay as they are."""
MOVING: Sequence[Scenario] = (landings, without_free_slots, stores)
"""On a manager whose blocks come and go; their number stays as it is."""
COUNTED: Sequence[Scenario] = (hits_counted, misses_counted, scans_counted)
