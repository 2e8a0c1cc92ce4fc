"""The least that the calls can cost in Python: the same loops with the dictionary lookups alone.

What a call has to know, it has to look up; what it does besides, and the call itself, is the
distance. Each function here does, for the row of its name, what `rows` says that it needs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...impl.counted import counted
from . import rows
from .clock import now, since
from .scenarios import Draw, Times, batches
from .side import Keys, keys_of

Table = dict[bytes, int]


class Floor:
    """Dictionaries as large as those of a manager with `resident` blocks and its tiers."""

    def __init__(self, *, resident: int, tiers: int) -> None:
        self.blocks: Table = {}
        for number in range(resident):
            self.blocks[keys_of((number,))[0]] = number
        self.tiers: list[Table] = [{} for _ in range(tiers)]
        self.jobs: list[dict[int, int]] = [{} for _ in range(tiers)]


def _gets(tables: Sequence[Table], keys: Keys) -> float:
    """Seconds of one lookup in each table for each key; written out, as a loop would be timed."""
    finds = [table.get for table in tables]
    began = now()
    if len(finds) == 1:
        (a,) = finds
        for key in keys:
            a(key)
    elif len(finds) == 2:
        a, b = finds
        for key in keys:
            a(key)
            b(key)
    elif len(finds) == 3:
        a, b, c = finds
        for key in keys:
            a(key)
            b(key)
            c(key)
    else:
        a, b, c, d, e = finds
        for key in keys:
            a(key)
            b(key)
            c(key)
            d(key)
            e(key)
    return since(began)


def _hits(floor: Floor, draw: Draw) -> Times:
    keys = keys_of(draw.resident(rows.SCAN))
    first = _gets([floor.blocks], keys) / len(keys)
    again = _gets([floor.blocks], keys) / len(keys)
    return {
        "HIT, first time": first,
        "HIT, repeated": again,
        "HIT, first time, counted": first,
        "HIT, repeated, counted": again,
        f"scan of {rows.SCAN:,} resident keys": first * len(keys),
        f"scan of {rows.SCAN:,} scattered keys": _gets(
            [floor.blocks], keys_of(draw.scattered(rows.SCAN))
        ),
        f"scan of {rows.SCAN:,} keys, repeated": again * len(keys),
        f"scan of {rows.SCAN:,} keys, counted": first * len(keys),
    }


def _pending(floor: Floor, draw: Draw) -> Times:
    keys = keys_of(draw.resident(rows.LOOKUPS // 2))
    find = floor.blocks.get
    waits: dict[bytes, None] = {}
    began = now()
    for key in keys:
        find(key)
        waits[key] = None
    first = since(began) / len(keys)
    return {
        "HIT_PENDING, first time": first,
        "HIT_PENDING, repeated": _gets([floor.blocks], keys) / len(keys),
    }


def misses_floor(floor: Floor, draw: Draw) -> Times:
    """Of the rows about absent blocks, for as many tiers as there are."""
    keys = keys_of(draw.new(rows.LOOKUPS))
    tables = [floor.blocks, *floor.tiers]
    first = _gets(tables, keys) / len(keys)
    if len(floor.tiers) != 2:
        return {f"MISS, {counted(len(floor.tiers), 'tier')}": first}
    return {
        "MISS, 2 tiers": first,
        "MISS, 2 tiers, counted": first,
        "MISS, 2 tiers, no slot free": first,
        "MISS, 2 tiers, repeated": _gets(tables, keys) / len(keys),
        f"scan of {rows.SCAN:,} absent keys": _gets(tables, keys_of(draw.new(rows.SCAN))),
    }


def _promotions(floor: Floor, draw: Draw) -> Times:
    times = {}
    for name, evicting in (("promotion, free slots", False), ("promotion, evicting", True)):
        keys = keys_of(draw.new(rows.LOOKUPS))
        victims = keys_of(draw.resident(rows.LOOKUPS))
        if not evicting:
            victims = []
        blocks, waits = floor.blocks, dict[bytes, None]()
        find, ask = blocks.get, floor.tiers[0].get
        began = now()
        for key in keys:
            find(key)
            ask(key)
            blocks[key] = 0
            waits[key] = None
        for key in victims:
            del blocks[key]
        times[name] = since(began) / len(keys)
        for key in keys:
            del blocks[key]
        blocks.update(dict.fromkeys(victims, 0))
    return times


def _ends_of_steps(floor: Floor, draw: Draw) -> Times:
    times = {}
    for name, jobs, repeats in (
        ("end of step, 1 job", 1, 200),
        ("end of step, 10 jobs", rows.SOME_JOBS, 50),
        ("end of step, 1,000 jobs", rows.MANY_JOBS, 1),
    ):
        numbers = draw.new(jobs)
        asked = [table.get for table in floor.jobs]
        took = 0.0
        for _ in range(repeats):
            running = floor.jobs[0]
            began = now()
            for ask in asked:
                ask(0)
            for number in numbers:
                running[number] = number
            took += since(began)
            running.clear()
        times[name] = took / repeats
    return times


def _landings(floor: Floor, draw: Draw) -> Times:
    keys = keys_of(draw.new(rows.MANY_JOBS))
    landed = dict.fromkeys(keys)
    has = landed.get
    began = now()
    for key in keys:
        has(key)
    one = since(began)
    running = dict.fromkeys(range(len(keys)))
    began = now()
    for number, key in enumerate(keys):
        del running[number]
        has(key)
    many = since(began)
    return {
        "promotions land, 1 job": one / len(keys),
        "promotions land, 1,000 jobs": many / len(keys),
    }


def _loads(floor: Floor, draw: Draw) -> Times:
    find = floor.blocks.get
    times = {}
    for name, size in (("load of 1 block", 1), (f"load of {rows.BATCH}", rows.BATCH)):
        keys = keys_of(draw.resident(rows.BATCH * rows.BATCHES))
        groups = batches(keys, size)
        running: dict[int, int] = {}
        began = now()
        for number, group in enumerate(groups):
            for key in group:
                find(key)
            running[number] = number
            del running[number]
        times[name] = since(began) / len(keys)
    return times


def _stores(floor: Floor, draw: Draw) -> Times:
    keys = keys_of(draw.new(rows.BATCH * rows.BATCHES))
    blocks = floor.blocks
    find = blocks.get
    running: dict[int, int] = {}
    first, second = floor.jobs[:2]
    began = now()
    for number, group in enumerate(batches(keys, rows.BATCH)):
        for key in group:
            find(key)
            blocks[key] = number
        running[number] = number
        del running[number]
        first[number] = second[number] = number
    stored = since(began)
    sending = dict.fromkeys(keys)
    began = now()
    for number, group in enumerate(batches(keys, rows.BATCH)):
        del first[number]
        for key in group:
            del sending[key]
    ended = since(began)
    second.clear()
    for key in keys:
        del blocks[key]
    return {
        f"store of {rows.BATCH}, 2 tiers": stored / len(keys),
        "cascades end, each tier": ended / len(keys),
    }


def _finishes(floor: Floor, draw: Draw) -> Times:
    find = floor.blocks.get
    requests = {n: keys_of(draw.resident(rows.BATCH)) for n in range(100)}
    began = now()
    for number in range(100):
        for key in requests.pop(number):
            find(key)
    return {f"finish, {rows.BATCH} blocks read": since(began) / 100}


def _idle(floor: Floor, draw: Draw) -> Times:
    first, second = (table.get for table in floor.jobs[:2])
    began = now()
    for _ in range(500):
        first(0)
        second(0)
    step = since(began) / 500
    began = now()
    for _ in range(500):
        pass
    nothing = since(began) / 500
    return {
        rows.IDLE_FEW: step,
        rows.IDLE_MANY: step,
        "work pending? 1 live request": nothing,
        "work pending? 1,000 live": nothing,
    }


FLOORS: Sequence[Callable[[Floor, Draw], Times]] = (
    _hits,
    _pending,
    misses_floor,
    _promotions,
    _ends_of_steps,
    _landings,
    _loads,
    _stores,
    _finishes,
    _idle,
)
"""Each gives the floor of some rows. All but `misses_floor` are for two tiers."""
