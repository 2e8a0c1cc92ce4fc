"""The tour: every reachable case of the rule table, driven on the real manager.

Random histories are not coverage. The tour walks through each room until every operation has been
tried in every state of the block in focus, model and manager in lockstep. It is deterministic, so a
known failure can be expected strictly.
"""

from __future__ import annotations

import os
import time
from collections import Counter, deque
from collections.abc import Callable, Hashable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from multiprocessing import get_context
from typing import Any

from ..model.operations import Lookup, LookupMany, Setting
from ..model.rules import RULES
from ..model.state import State
from .driver import Driver, Factory
from .found import Found
from .lockstep import Divergence, Lockstep, Saved, every
from .processes import deaf_workers
from .rooms import ROOMS, Room
from .scenes import Scene, scenes
from .under_test import OPTIONAL_CALLS

Progress = Callable[[int, int], None]
ENOUGH = 60
"""Divergences after which a room is left: a manager this broken will not get better."""


def never() -> bool:
    """There is all the time that it takes."""
    return False


@dataclass(frozen=True)
class Patience:
    """How long a manager is led on: until it has diverged `enough`, or time is `over`.

    `counts` says of which contracts: who does not claim one diverges where that is natural.
    """

    enough: int = ENOUGH
    over: Callable[[], bool] = never
    counts: Callable[[str], bool] = every


PATIENT = Patience()


@dataclass
class TourResult:
    """What the tour saw. `cases` are (state, operation) pairs, each driven on the manager."""

    cases: int = 0
    states: int = 0
    operations: int = 0
    rules: Counter[str] = field(default_factory=Counter)
    reached: set[str] = field(default_factory=set)
    """What came about with the manager in step (`situations`)."""
    rooms: dict[str, tuple[int, int]] = field(default_factory=dict)
    """Room -> (states, cases)."""
    divergences: list[Found] = field(default_factory=list)
    unreached: int = 0
    """States that were known and not gone on from: the manager had diverged enough, or time was
    over."""
    cut: list[str] = field(default_factory=list)
    """Rooms that were left, or not entered, because time was over."""
    seconds: float = 0.0

    def add(self, other: TourResult) -> None:
        """Take in what another walk saw."""
        self.cases += other.cases
        self.states += other.states
        self.operations += other.operations
        self.rules.update(other.rules)
        self.reached |= other.reached
        self.rooms.update(other.rooms)
        self.divergences += other.divergences
        self.unreached += other.unreached
        self.cut += other.cut

    @property
    def missing_rules(self) -> tuple[str, ...]:
        """Rules of the table that never fired."""
        return tuple(r.name for r in RULES if r.name not in self.rules)


def view(state: State, focus: str | None) -> Hashable:
    """The state of one block and what is around it, as far as the table and the clock see it.

    Of the other blocks only what they take up counts: slots, permits and berths. Without a focus
    it is the whole state.
    """
    if focus is None:
        return state.canonical()
    world = state.world
    about = tuple(
        tuple(
            sorted(
                (index[1:], value)
                for index, value in world.fields[name].items()
                if index[0] == focus
            )
        )
        for name in ("phase", "waits", "hit", "parked", "retracted", "cascade")
    )
    links = world.links
    here = []
    for (x,), _ in world.fields["state"].items():
        if links["of"][x] == focus:
            posted = any(x[0] == n for mail in state.mail.values() for _, n, _ in mail)
            late = state.now - state.since.get(x, state.now) > 0
            here.append(
                (
                    world.get("kind", x),
                    world.get("stale", x),
                    str(links["by"][x]),
                    str(links["to"][x]),
                    posted,
                    late,
                    x in state.barred,
                )
            )
    others = {(job.kind, job.tier) for job in state.jobs.values() if focus not in job.keys}
    slot = links["slot_of"].get(focus)
    return (
        about,
        tuple(sorted(here)),
        tuple(sorted(others)),
        world.get("permit", slot) if slot is not None else "",
        links["source"].get(focus),
        links["asked_by"].get(focus),
        tuple(sorted(world.fields["life"].items())),
        world.get("held"),
        len(world.free_slots()),
        world.word("room", {}, {}),
        world.word("permits", {}, {}),
        world.word("berths", {}, {}),
        state.begun,
        state.clock > state.now,
        state.landed.get(focus, state.now) < state.now,
        tuple(
            sorted(
                (k, v.step > state.step, v.after > state.now)
                for k, v in state.due.items()
                if k[0] == focus
            )
        ),
        tuple(sorted(a for a in state.attempts.items() if a[0][0] == focus)),
        tuple(sorted((t, said.at < state.now) for t, said in state.pressed.items())),
        tuple(sorted((p[0], p[2], t is None) for p, t in state.probes.items() if p[1] == focus)),
        tuple(sorted((p[0], p[2], s) for p, s in state.spent.items() if p[1] == focus)),
        tuple(sorted(c for c in state.claims.items() if c[0][1] == focus)),
        tuple(sorted(m for m in state.minds.items() if m[0][1] == focus)),
        tuple(sorted(state.moods)),
        tuple(sorted((t, tuple(_said(m, focus) for m in mail)) for t, mail in state.mail.items())),
        state.ending,
    )


def _said(message: tuple[Any, ...], focus: str) -> tuple[str, bool, int]:
    what, _, landed = message
    # how many others landed with it: a job may fail in part
    return what, landed is not None and focus in landed, len(landed or ())


class _Walk:
    """One room, explored breadth-first on model and manager at once."""

    def __init__(self, factory: Factory, room: Room, patience: Patience) -> None:
        self.factory, self.room, self.patience = factory, room, patience
        self.result = TourResult()
        self.known: set[Hashable] = set()
        self.queue: deque[Saved] = deque()
        """Known states from which nothing was tried yet, each with a shortest history to it."""
        self.cases = 0
        self.wrong = 0

    def come(self, saved: Saved) -> None:
        """Come back to where we were, with a fresh manager."""
        counts = self.patience.counts
        self.lockstep = Lockstep.resume(self.factory, self.room.setting, saved, counts)
        self.lockstep.reached = self.result.reached
        self.result.operations += len(saved.history)

    def go(self, scene: Scene) -> bool:
        """Perform one scene; False when the manager diverged."""
        for op in scene:
            self.result.operations += 1
            try:
                self.result.rules.update(self.lockstep.do(op).rules)
            except Divergence as divergence:
                counts = self.patience.counts(divergence.contract)
                self.wrong += counts
                self._keep(divergence, counts=counts)
                return False
            while self.lockstep.passed:
                self._keep(self.lockstep.passed.pop(0), counts=False)
        return True

    def _keep(self, divergence: Divergence, *, counts: bool) -> None:
        if counts or len(self.result.divergences) < 2 * self.patience.enough:
            self.result.divergences.append(Found(self.room.setting, divergence, "tour"))

    def here(self) -> tuple[Hashable, Hashable]:
        """The state as the block sees it, and the numbers by which scenes call jobs."""
        state, driver = self.lockstep.state, self.lockstep.driver
        seen: Hashable = view(state, self.room.focus)
        if self.room.closely and driver.observes("fingerprint"):
            seen = (seen, driver.probe.fingerprint())
        return seen, (tuple(state.jobs), tuple(state.operations))

    def run(self) -> TourResult:
        """Try everything everywhere."""
        plain = Driver(self.factory, Setting())
        self.lacks = {call for call in OPTIONAL_CALLS if not plain.can(call)}
        peers = any(r.external_of for r in self.room.setting.requests)
        if ("external" in self.lacks and peers) or {op.op for op in self.room.start} & self.lacks:
            return self.result  # a room about what this manager does not do
        self.lockstep = Lockstep(self.factory, self.room.setting, counts=self.patience.counts)
        self.lockstep.reached = self.result.reached
        if self.go(self.room.start):
            self.known.add(self.here()[0])
            self.queue.append(self.lockstep.save())
        while self.queue and self.wrong < self.patience.enough:
            if self.patience.over():
                self.result.cut.append(self.room.name)
                break
            self._try_all(self.queue.popleft())
        self.result.cases += self.cases
        self.result.states += len(self.known)
        self.result.unreached += len(self.queue)
        self.result.rooms[self.room.name] = (len(self.known), self.cases)
        return self.result

    def _try_all(self, saved: Saved) -> None:
        self.come(saved)
        home = self.here()
        there = home
        for scene in map(self._feasible, list(scenes(self.lockstep.state, self.room.menu))):
            if any(op.op in self.lacks for op in scene):
                continue
            # a scene that changed nothing has left us where we were: no need to come again
            if there != home:
                self.come(saved)
            self.cases += 1
            if not self.go(scene):
                there = ("diverged", None)
                if self.wrong >= self.patience.enough:
                    break
                continue
            there = self.here()
            if there[0] not in self.known:
                self.known.add(there[0])
                self.queue.append(self.lockstep.save())

    def _feasible(self, scene: Scene) -> Scene:
        """The same with one lookup after the other, where there is no call for several."""
        if "lookup_many" not in self.lacks:
            return scene
        return tuple(
            one
            for op in scene
            for one in (
                (Lookup(key, op.request) for key in op.keys)
                if isinstance(op, LookupMany)
                else (op,)
            )
        )


def walk(factory: Factory, room: Room, *, enough: int = ENOUGH) -> TourResult:
    """Walk through one room, in this process, until the manager has diverged often enough."""
    return _Walk(factory, room, Patience(enough)).run()


def _walk(room: Room) -> TourResult:
    """Walk through one room; in a process of its own, with the factory that it was born with."""
    assert _walking is not None
    factory, patience = _walking
    return _Walk(factory, room, patience).run()


_walking: tuple[Factory, Patience] | None = None
"""The factory whose managers are walked, and for how long. Factories do not travel between
processes, so a process that walks is forked when this is set."""


def tour(
    factory: Factory,
    *,
    rooms: Sequence[Room] = ROOMS,
    progress: Progress | None = None,
    stop_at_first: bool = False,
    processes: int | None = None,
    patience: Patience = PATIENT,
) -> TourResult:
    """Walk a manager through every room.

    Args:
        factory: builds the manager under test (see `under_test`).
        rooms: the rooms to walk through.
        progress: called with (rooms walked, rooms) after each.
        stop_at_first: leave when a manager has diverged in a room.
        processes: how many to share the rooms among; None: one for each processor.
        patience: how long the manager is led on in each room.
    """
    global _walking
    began = time.perf_counter()
    count = min(processes or len(os.sched_getaffinity(0)), len(rooms))
    # those with the most to try first, so that the processes end together
    order = sorted(rooms, key=lambda room: -room.weight)
    _walking = (factory, patience)
    result = TourResult()
    try:
        if count <= 1:
            _collect(result, map(_walk, order), progress, len(order), stop_at_first)
        else:
            with ProcessPoolExecutor(count, mp_context=get_context("fork")) as pool:
                with deaf_workers():
                    walks = pool.map(_walk, order)
                _collect(result, walks, progress, len(order), stop_at_first)
                pool.shutdown(cancel_futures=True)
    finally:
        _walking = None
    names = [room.name for room in rooms]
    result.rooms = dict(sorted(result.rooms.items(), key=lambda r: names.index(r[0])))
    result.seconds = time.perf_counter() - began
    return result


def _collect(
    result: TourResult,
    walks: Iterable[TourResult],
    progress: Progress | None,
    count: int,
    stop_at_first: bool,
) -> None:
    for done, walked in enumerate(walks, 1):
        result.add(walked)
        if progress is not None:
            progress(done, count)
        if stop_at_first and result.divergences:
            break
