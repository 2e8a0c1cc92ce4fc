"""Random histories of watched managers: larger rooms, and how the operations are drawn.

A history has two parts. First comes whatever the room offers, over tiers that work; then the first
tier may begin to raise, and work again. After each everything is brought to rest and a store is
offered: a slot that was lost, or a pin that was kept, shows then even without probes.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import replace

from ..impl.counted import counted
from ..model.operations import (
    CompleteLoad,
    CompleteStore,
    Flushed,
    Lookup,
    Mood,
    Operation,
    PrepareStore,
    Report,
    RequestSetting,
    Setting,
    StepEnd,
    TierSetting,
)
from .watch import Watch
from .watch_moves import Room, moves

_T, _R = TierSetting, RequestSetting
LARGE = tuple(
    Room(
        f"large, {counted(slots, 'slot')}",
        "everything at once",
        Setting(
            slots=slots,
            keys=("k0", "k1", "k2", "k3"),
            tiers=(_T("t0", has=("k0", "k1")), _T("t1", has=("k1", "k2"), undecided=("k3",))),
            requests=(_R("r0"), _R("r1"), _R("r2")),
        ),
        loads=True,
        shared=True,
        stores=(("k0",), ("k2", "k3")),
        failures=True,
        ends=True,
        resets=True,
        scheduled=True,
        time=True,
    )
    for slots in (1, 2, 4)
)
LENGTH = 40
"""Operations over tiers that work."""
RAISING_LENGTH = 15
"""Operations after these, in which the first tier may raise."""
RAISES = ("raise on lookup", "raise on submit", "raise on poll")
PATIENCE = 20
"""Operations in which a history that can come to rest does."""


def operations(
    watch: Watch, room: Room, dice: random.Random, late: random.Random
) -> Iterator[Operation]:
    """The operations of a history; each is to be performed on `watch` before the next is drawn.

    The first part is drawn with `dice` and what follows with `late`, so that how long a history
    goes on changes no other one.
    """
    for _ in range(LENGTH):
        yield dice.choice(list(moves(watch, room)))
    yield from settling(watch, room, late)
    failing = replace(room, moods=RAISES, ends=False, resets=False, time=False)
    for _ in range(RAISING_LENGTH):
        now = list(moves(watch, failing))
        # first the kind, then the operation: else the many lookups crowd the few others out
        kind = late.choice(sorted({op.op for op in now}))
        yield late.choice([op for op in now if op.op == kind])
    yield from settling(watch, room, late)


def settling(watch: Watch, room: Room, dice: random.Random) -> Iterator[Operation]:
    """Everything ends well, nobody waits any more, a step passes and a store is offered."""
    first = room.setting.tiers[0].name
    for _ in range(PATIENCE):
        raising = tuple(mood for mood in RAISES if mood in watch.driver.tiers[first].moods)
        now = list(moves(watch, replace(room, moods=raising)))
        if ends := [op for op in now if _ends_well(watch, op)]:
            yield dice.choice(ends)
        elif asks := _letting_go(watch, now):
            yield asks[0]
        else:
            yield StepEnd()
            break
    yield StepEnd()
    stores = [op for op in moves(watch, room) if isinstance(op, PrepareStore) and len(op.keys) == 1]
    if stores:
        yield dice.choice(stores)


def _ends_well(watch: Watch, op: Operation) -> bool:
    if isinstance(op, Report):
        return op.landed == watch.facts.jobs[op.number].keys
    ends = isinstance(op, CompleteLoad | Flushed) or (isinstance(op, CompleteStore) and op.ok)
    return ends or (isinstance(op, Mood) and not op.on)


def _letting_go(watch: Watch, now: Sequence[Operation]) -> list[Operation]:
    """What lets those who wait go on without their blocks: they ask again and are scheduled."""
    facts = watch.facts
    waits = facts.waits | facts.hopes
    waiting = {request for _, request in waits}
    if waiting & facts.looked:
        return [op for op in now if isinstance(op, StepEnd) and set(op.scheduled) & waiting]
    asks: list[Operation] = [
        op for op in now if isinstance(op, Lookup) and (op.key, op.request) in waits
    ]
    return asks or ([StepEnd()] if facts.phase else [])
