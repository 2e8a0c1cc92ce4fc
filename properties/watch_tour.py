"""Leads watched managers everywhere in small rooms, and at random through larger ones.

The tour is breadth-first, so the first history that breaks a contract is a shortest one of its
room, and deterministic. Random histories come from a seed; what they find is shortened.
"""

from __future__ import annotations

import random
import time
from collections import Counter, deque
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field, replace

from ..model.operations import Operation, Setting
from .driver import Factory
from .watch import Watch
from .watch_moves import Room, moves, place
from .watch_rooms import ROOMS
from .watch_runs import LARGE, operations

Progress = Callable[[int, int], None]
CASES = 3000
"""How many (state, operation) pairs of a room are tried at most."""


@dataclass(frozen=True)
class Seen:
    """A history that was seen to break a contract."""

    contract: str
    said: str
    setting: Setting
    history: tuple[Operation, ...]
    method: str
    seconds: float = field(default=0.0, compare=False)
    """After how long it was found."""


@dataclass
class Result:
    """What a way of driving saw."""

    found: dict[str, Seen] = field(default_factory=dict)
    """The shortest history for each broken contract."""
    reached: Counter[str] = field(default_factory=Counter)
    cases: int = 0
    states: int = 0
    operations: int = 0
    cut: list[str] = field(default_factory=list)
    """Rooms that were left before everything up to their depth had been tried."""
    seconds: float = 0.0
    began: float = field(default_factory=time.perf_counter)

    def take(self, seen: Seen) -> None:
        """Keep a finding if it is the shortest of its contract."""
        best = self.found.get(seen.contract)
        since = time.perf_counter() - self.began if best is None else best.seconds
        seen = replace(seen, seconds=since)
        if best is None or len(seen.history) < len(best.history):
            self.found[seen.contract] = seen


def fits(factory: Factory, room: Room) -> bool:
    """Can the manager express what the room is about?"""
    plain = Watch(factory, Setting()).driver.manager
    needs = {
        "filters": any(r.only is not None for r in room.setting.requests),
        "refusals": "refuse stores" in room.moods,
        "whole_requests": any(t.whole_request for t in room.setting.tiers),
    }
    return all(getattr(plain, ability, True) for ability, needed in needs.items() if needed)


def tour(
    factory: Factory,
    *,
    rooms: Sequence[Room] = ROOMS,
    cases: int = CASES,
    deadline: float | None = None,
    progress: Progress | None = None,
) -> Result:
    """Try everything everywhere, up to each room's depth and at most `cases` of each room.

    `deadline` (of `time.perf_counter()`) ends it early; what was not tried is in `cut`.
    """
    result = Result()
    for done, room in enumerate(rooms):
        if progress is not None:
            progress(done, len(rooms))
        _walk(factory, room, result, cases, deadline)
    result.seconds = time.perf_counter() - result.began
    return result


def _walk(factory: Factory, room: Room, result: Result, cases: int, deadline: float | None) -> None:
    if not fits(factory, room):
        return
    if not _begun(factory, room, result):
        return
    known: set[Hashable] = set()
    queue: deque[tuple[Operation, ...]] = deque([room.start])
    tried = 0
    while queue:
        history = queue.popleft()
        watch: Watch | None = _at(factory, room.setting, history, result)
        assert watch is not None
        for op in list(moves(watch, room)):
            late = deadline is not None and time.perf_counter() > deadline
            if tried >= cases or late:
                result.cut.append(room.name)
                return
            if watch is None:
                watch = _at(factory, room.setting, history, result)
            tried += 1
            result.cases += 1
            result.operations += 1
            before = Counter(watch.reached)
            broken = watch.do(op)
            result.reached.update(watch.reached - before)
            for contract, said in broken:
                result.take(Seen(contract, said, room.setting, (*history, op), "tour"))
            here = place(watch)
            if here not in known:
                known.add(here)
                result.states += 1
                if len(history) + 1 < room.depth + len(room.start):
                    queue.append((*history, op))
            watch = None


def _begun(factory: Factory, room: Room, result: Result) -> bool:
    """Go through the start of a room: False where the manager does not come to its end."""
    watch = Watch(factory, room.setting)
    for number, op in enumerate(room.start, 1):
        if not possible(watch, op, room):
            return False
        result.operations += 1
        for contract, said in watch.do(op):
            result.take(Seen(contract, said, room.setting, room.start[:number], "tour"))
    result.reached.update(watch.reached)
    return True


def _at(
    factory: Factory, setting: Setting, history: tuple[Operation, ...], result: Result
) -> Watch:
    watch = Watch(factory, setting)
    watch.run(history)
    result.operations += len(history)
    return watch


# -- at random -----------------------------------------------------------------------------------


def runs(
    factory: Factory,
    *,
    examples: int,
    seed: int,
    deadline: float | None = None,
    progress: Progress | None = None,
) -> Result:
    """Random histories, each shortened to what it takes to break the contract."""
    result, dice = Result(), random.Random(seed)
    for number in range(examples):
        if deadline is not None and time.perf_counter() > deadline:
            result.cut.append(f"{examples - number} of {examples} histories")
            break
        if progress is not None:
            progress(number, examples)
        room = LARGE[number % len(LARGE)]
        watch, found = Watch(factory, room.setting), False
        late = random.Random(f"{seed} {number}")
        for op in operations(watch, room, dice, late):
            for contract, said in watch.do(op):
                history = tuple(watch.history)
                best = result.found.get(contract)
                if best is None or len(history) < 2 * len(best.history):
                    result.take(
                        shortened(factory, Seen(contract, said, room.setting, history, "runs"))
                    )
                found = True
            if watch.facts.doubt and found:
                break
        result.cases += 1
        result.operations += len(watch.history)
        result.reached.update(watch.reached)
    result.seconds = time.perf_counter() - result.began
    return result


def shortened(factory: Factory, seen: Seen) -> Seen:
    """The same contract broken by less: operations that are not needed are left out."""
    history, said = list(seen.history), seen.said
    step = max(1, len(history) // 2)
    while step:
        before, place_ = len(history), 0
        while place_ < len(history):
            shorter = history[:place_] + history[place_ + step :]
            told = broken_by(factory, seen.setting, shorter).get(seen.contract)
            if told is None:
                place_ += step
            else:
                history, said = shorter[: told[0]], told[1]
        if step > 1 or len(history) == before:
            step //= 2
    return Seen(seen.contract, said, seen.setting, tuple(history), seen.method)


def broken_by(
    factory: Factory, setting: Setting, history: Iterable[Operation]
) -> dict[str, tuple[int, str]]:
    """Contract -> after how many operations it was first seen broken, and how.

    A history that its caller could not have brought about breaks nothing.
    """
    watch = Watch(factory, setting)
    found: dict[str, tuple[int, str]] = {}
    room = Room("any", "", setting)
    for number, op in enumerate(history, 1):
        if not possible(watch, op, room):
            return {}
        for contract, said in watch.do(op):
            found.setdefault(contract, (number, said))
    return found


def possible(watch: Watch, op: Operation, room: Room) -> bool:
    """Could the manager's caller do this now?"""
    keys = getattr(op, "keys", ())
    everything = replace(
        room,
        lookups=True,
        loads=True,
        shared=True,
        stores=(tuple(keys),) if keys else (),
        failures=True,
        ends=True,
        resets=True,
        scheduled=True,
        time=True,
        minds=("ABSENT", "UNDECIDED", "PRESENT"),
        moods=("raise on lookup", "raise on submit", "raise on poll", "refuse stores"),
    )
    return op in moves(watch, everything)
