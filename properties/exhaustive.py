"""Small scopes, exhaustively: every interleaving of a few operations, on the manager itself.

Two keys, two requests, two tiers, one slot or two. Histories that lead to the same state of the
model *and* of the manager (its fingerprint) are gone on from once; the model's state alone would
not do, since a faulty manager may differ where the model sees no difference.

Names are exchangeable: whatever can be done with k1 and r1 could have been done with k0 and r0. So
only those histories are tried in which k0 is the first key to be named and r0 the first request.
"""

from __future__ import annotations

import multiprocessing
import os
import time
from collections import deque
from collections.abc import Callable, Hashable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field

from ..model.operations import Operation, RequestSetting, Setting, TierSetting
from .driver import Factory
from .found import Found
from .lockstep import Divergence, Lockstep, Saved
from .moves import Menu, moves
from .processes import deaf_workers

Progress = Callable[[int, int], None]

DEPTH = 6
KEYS, REQUESTS = ("k0", "k1"), ("r0", "r1")
SCOPES = tuple(
    Setting(
        slots=slots,
        keys=KEYS,
        tiers=(TierSetting("t0", has=KEYS), TierSetting("t1", has=KEYS)),
        requests=tuple(map(RequestSetting, REQUESTS)),
    )
    for slots in (1, 2)
)
MENU = Menu(reset_tiers=False, withdraw=False, scheduled=False, time=False)
"""Lookups, loads, stores, their completions well and badly, ends of requests and steps, resets."""


@dataclass
class ExhaustiveResult:
    """What was tried.

    `histories` counts those driven on the manager, each one operation longer than the shortest to
    a state; `states` are the different ones from which every operation was tried.
    """

    histories: int = 0
    states: int = 0
    operations: int = 0
    depth: int = DEPTH
    scopes: dict[int, int] = field(default_factory=dict)
    """Slots -> states from which every operation was tried."""
    reached: set[str] = field(default_factory=set)
    """What came about with the manager in step (`situations`)."""
    divergences: list[Found] = field(default_factory=list)
    seconds: float = 0.0

    def add(self, other: ExhaustiveResult) -> None:
        """Take in what another part of the search saw."""
        self.histories += other.histories
        self.states += other.states
        self.operations += other.operations
        self.reached |= other.reached
        self.divergences += other.divergences

    @property
    def rate(self) -> float:
        """Histories in a second."""
        return self.histories / self.seconds if self.seconds else 0.0


def explore(
    factory: Factory, setting: Setting, *, depth: int, menu: Menu = MENU
) -> tuple[ExhaustiveResult, list[Saved]]:
    """Try every history of up to `depth` operations in one setting; ends at the first finding.

    Returns also the states that the longest of them lead to, to be gone on from.
    """
    result = ExhaustiveResult(depth=depth)
    start = Lockstep(factory, setting)
    seen: set[Hashable] = {_mark(start)}
    queue: deque[Saved] = deque([start.save()])
    while queue and len(queue[0].history) < depth and not result.divergences:
        for here in _next(factory, setting, queue.popleft(), menu, result):
            if _new(_mark(here), seen):
                queue.append(here.save())
    result.states = len(seen)
    return result, list(queue)


def _next(
    factory: Factory, setting: Setting, saved: Saved, menu: Menu, result: ExhaustiveResult
) -> Iterator[Lockstep]:
    """Each operation that makes sense, performed on a fresh manager led to where we were."""
    for op in _first_names(saved, moves(saved.state, menu)):
        here = Lockstep.resume(factory, setting, saved)
        here.reached = result.reached
        result.histories += 1
        result.operations += len(saved.history) + 1
        try:
            here.do(op)
        except Divergence as divergence:
            result.divergences.append(Found(setting, divergence, "exhaustive"))
            return
        yield here


def _new(mark: Hashable, seen: set[Hashable]) -> bool:
    if mark is None:  # nothing is known of the manager: no two histories count as one
        return True
    if mark in seen:
        return False
    seen.add(mark)
    return True


def _mark(lockstep: Lockstep) -> Hashable:
    if not lockstep.driver.observes("fingerprint"):
        return None
    return hash((lockstep.state.canonical(), lockstep.driver.probe.fingerprint()))


def _first_names(saved: Saved, offered: Iterator[Operation]) -> Sequence[Operation]:
    """Those operations that do not name k1 before k0, or r1 before r0."""
    named = {name for op in saved.history for name in _names(op)}
    every = list(offered)
    for first, second in (KEYS, REQUESTS):
        if first not in named:
            every = [op for op in every if second not in _names(op)]
    return every


def _names(op: Operation) -> set[str]:
    keys = getattr(op, "keys", ())
    return {*keys, getattr(op, "key", ""), getattr(op, "request", "")}


_work: tuple[Factory, list[tuple[Setting, Saved]]] | None = None
"""What is left to do. Factories do not travel between processes, so those that share the last and
longest step are forked when this is set."""
CHUNK = 200


def _last_step(first: int) -> ExhaustiveResult:
    assert _work is not None
    factory, todo = _work
    result = ExhaustiveResult()
    for setting, saved in todo[first : first + CHUNK]:
        if not result.divergences:
            for _ in _next(factory, setting, saved, MENU, result):
                pass
    return result


def exhaustive(
    factory: Factory, *, depth: int = DEPTH, progress: Progress | None = None
) -> ExhaustiveResult:
    """Try every history of up to `depth` operations with one slot and with two.

    Args:
        factory: builds the manager under test.
        depth: how many operations.
        progress: called with (states gone on from, states) in the last and longest step.
    """
    global _work
    began = time.perf_counter()
    result = ExhaustiveResult(depth=depth)
    todo: list[tuple[Setting, Saved]] = []
    for setting in SCOPES:
        one, ends = explore(factory, setting, depth=depth - 1)
        result.add(one)
        result.scopes[setting.slots] = one.states
        todo += [(setting, saved) for saved in ends]
    if not result.divergences:
        _work = factory, todo
        fork = multiprocessing.get_context("fork")
        try:
            with ProcessPoolExecutor(len(os.sched_getaffinity(0)), mp_context=fork) as pool:
                firsts = range(0, len(todo), CHUNK)
                with deaf_workers():
                    tried = pool.map(_last_step, firsts)
                for first, one in zip(firsts, tried, strict=True):
                    result.add(one)
                    if progress is not None:
                        progress(min(first + CHUNK, len(todo)), len(todo))
        finally:
            _work = None
    result.seconds = time.perf_counter() - began
    return result
