"""The tour: every reachable case of the rule table, driven on the real manager.

Random histories are not coverage. The tour walks through each room until every operation has been
tried in every state of the block in focus, model and manager in lockstep. It is deterministic, so a
known failure can be expected strictly.
"""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from ..model.rules import RULES
from ..model.state import State
from .driver import Factory
from .found import Found
from .lockstep import Divergence, Lockstep
from .rooms import ROOMS, Room
from .scenes import Scene, scenes

Progress = Callable[[int, int], None]
ENOUGH = 60
"""Divergences after which a room is left: a manager this broken will not get better."""


@dataclass
class TourResult:
    """What the tour saw. `cases` are (state, operation) pairs, each driven on the manager."""

    cases: int = 0
    states: int = 0
    operations: int = 0
    rules: Counter[str] = field(default_factory=Counter)
    rooms: dict[str, tuple[int, int]] = field(default_factory=dict)
    """Room -> (states, cases)."""
    divergences: list[Found] = field(default_factory=list)
    unreached: int = 0
    """States that were known and not gone on from, because the manager had diverged enough."""
    seconds: float = 0.0

    @property
    def missing_rules(self) -> tuple[str, ...]:
        """Rules of the table that never fired."""
        return tuple(r.name for r in RULES if r.name not in self.rules)


def view(state: State, focus: str) -> Hashable:
    """The state of one block and what is around it, as far as the table and the clock see it.

    Of the other blocks only what they take up counts: slots, permits and berths.
    """
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
        tuple(sorted((k, v.step > state.step) for k, v in state.due.items() if k[0] == focus)),
        tuple(sorted(a for a in state.attempts.items() if a[0][0] == focus)),
        tuple(sorted(state.pressed)),
        tuple(sorted((p[0], p[2], t is None) for p, t in state.probes.items() if p[1] == focus)),
        tuple(sorted(m for m in state.minds.items() if m[0][1] == focus)),
        tuple(sorted(state.moods)),
        tuple(sorted((t, tuple(_said(m, focus) for m in mail)) for t, mail in state.mail.items())),
        state.ending,
    )


def _said(message: tuple[Any, ...], focus: str) -> tuple[str, bool]:
    what, _, landed = message
    return what, landed is not None and focus in landed


class _Walk:
    """One room, explored breadth-first on model and manager at once."""

    def __init__(self, factory: Factory, room: Room, result: TourResult) -> None:
        self.factory, self.room, self.result = factory, room, result
        self.known: dict[Hashable, tuple[Scene, ...]] = {}
        """State -> the shortest history that leads to it."""
        self.queue: deque[Hashable] = deque()
        self.cases = 0
        self.wrong = 0

    def replay(self, history: tuple[Scene, ...]) -> bool:
        """Begin anew and go to where a history leads; False when the manager diverges on it."""
        self.lockstep = Lockstep(self.factory, self.room.setting)
        return all(self.go(scene) for scene in history)

    def go(self, scene: Scene) -> bool:
        """Perform one scene; False when the manager diverged."""
        for op in scene:
            self.result.operations += 1
            try:
                self.result.rules.update(self.lockstep.do(op).rules)
            except Divergence as divergence:
                self.result.divergences.append(Found(self.room.setting, divergence, "tour"))
                self.wrong += 1
                return False
        return True

    def here(self) -> tuple[Hashable, Hashable]:
        """The state as the block sees it, and the numbers by which scenes call jobs."""
        state = self.lockstep.state
        return view(state, self.room.focus), (tuple(state.jobs), tuple(state.operations))

    def run(self, progress: Progress | None) -> None:
        """Try everything everywhere."""
        self.replay(())
        start, _ = self.here()
        self.known[start] = ()
        self.queue.append(start)
        left = 0
        while self.queue and self.wrong < ENOUGH:
            left = self._try_all(self.queue.popleft())
            if progress:
                progress(self.cases, self.cases + left + 8 * len(self.queue))
        self.result.cases += self.cases
        self.result.states += len(self.known)
        self.result.unreached += len(self.queue)
        self.result.rooms[self.room.name] = (len(self.known), self.cases)

    def _try_all(self, at: Hashable) -> int:
        history = self.known[at]
        if not self.replay(history):
            return 0
        home = self.here()
        todo = list(scenes(self.lockstep.state, self.room.menu))
        for scene in todo:
            # a scene that changed nothing has left us where we were: no need to come again
            if self.here() != home and not self.replay(history):
                break
            self.cases += 1
            if self.go(scene):
                there, _ = self.here()
                if there not in self.known:
                    self.known[there] = (*history, scene)
                    self.queue.append(there)
            elif self.wrong >= ENOUGH or not self.replay(history):
                break
        return len(todo)


def _add(progress: Progress, done: int, cases: int, known: int) -> None:
    progress(done + cases, done + known)


def tour(
    factory: Factory,
    *,
    rooms: Sequence[Room] = ROOMS,
    progress: Progress | None = None,
    stop_at_first: bool = False,
) -> TourResult:
    """Walk a manager through every room.

    Args:
        factory: builds the manager under test (see `under_test`).
        rooms: the rooms to walk through.
        progress: called with (cases driven, cases known) now and then.
        stop_at_first: leave at the first room in which the manager diverged.
    """
    result = TourResult()
    began = time.perf_counter()
    for room in rooms:
        done = result.cases
        _Walk(factory, room, result).run(partial(_add, progress, done) if progress else None)
        if stop_at_first and result.divergences:
            break
    result.seconds = time.perf_counter() - began
    return result
