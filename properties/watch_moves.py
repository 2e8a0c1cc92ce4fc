"""What may be done next to a watched manager, as its own scheduler would do it.

A step is completions and ends of requests first, then lookups and loads, then stores; a reset comes
between steps. A manager is not held to histories that its caller could not bring about.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass

from ..model import operations as ops
from ..model.operations import Operation, Setting
from .seen import Facts, Job
from .watch import Watch

LONG = 31.0
"""Seconds after which a pending deadline of 30 s has passed."""


@dataclass(frozen=True)
class Room:
    """A setting, and what may be done in it besides lookups, ends of jobs and of steps."""

    name: str
    says: str
    setting: Setting
    start: tuple[Operation, ...] = ()
    """What has happened when it is entered; a manager that does otherwise does not enter it."""
    loads: bool = False
    shared: bool = False
    """Several requests may read one block at the same time."""
    stores: tuple[tuple[str, ...], ...] = ()
    """The offers that may be made."""
    failures: bool = False
    """Jobs and stores may fail, wholly or in part."""
    moods: tuple[str, ...] = ()
    """How the first tier may begin to fail."""
    minds: tuple[str, ...] = ()
    """What the first tier may come to say of the first key."""
    ends: bool = False
    resets: bool = False
    scheduled: bool = False
    time: bool = False
    lookups: bool = True
    depth: int = 7
    """How many operations, after those of the start."""


def moves(watch: Watch, room: Room) -> Iterator[Operation]:
    """Everything that may be done now."""
    facts = watch.facts
    partly = getattr(watch.driver.manager, "fails_in_part", True)
    yield from _transfers(facts, room, partly=partly)
    if facts.reset_steps and any(c.stale for c in facts.running()):
        return  # the step after a reset waits for the copies from before it
    if room.lookups and facts.phase < 2:
        yield from (ops.Lookup(key, r) for r in facts.live for key in room.setting.keys)
    if room.loads and facts.phase < 2:
        loading = {(k, c.request) for c in facts.running() if c.kind == "load" for k in c.keys}
        for key in sorted(facts.hit):
            readers = {r for k, r in loading if k == key}
            others = facts.looked - readers if room.shared or not readers else set()
            yield from (ops.PrepareLoad((key,), r) for r in sorted(others))
    for keys in room.stores:
        for request in facts.live:
            if not facts.offered & {(request, key) for key in keys}:
                yield ops.PrepareStore(keys, request)
    if facts.phase == 0:
        yield from _between_steps(watch, room)
    yield ops.StepEnd()
    if room.scheduled:
        yield from (ops.StepEnd((r,)) for r in sorted(facts.looked))


def _transfers(facts: Facts, room: Room, *, partly: bool) -> Iterator[Operation]:
    for job in facts.flying():
        yield ops.Report(job.number, job.keys)
        if room.failures:
            yield ops.Report(job.number, ())
            if len(job.keys) > 1 and partly:
                yield ops.Report(job.number, job.keys[:1])
    if facts.phase == 0:
        # what has begun before a reset is over before anything new is copied
        stale = [c for c in facts.running() if c.stale]
        for copy in stale or facts.running():
            if copy.kind == "load":
                yield ops.CompleteLoad(copy.number)
            else:
                yield ops.CompleteStore(copy.number)
                if room.failures and not copy.stale:
                    yield ops.CompleteStore(copy.number, False)


def _between_steps(watch: Watch, room: Room) -> Iterator[Operation]:
    facts = watch.facts
    first = room.setting.tiers[0]
    for mind in room.minds:
        key = room.setting.keys[0]
        if watch.driver.tiers[first.name].minds.get(key, "ABSENT") != mind:
            yield ops.Mind(first.name, key, mind)
    for mood in room.moods:
        yield ops.Mood(first.name, mood, mood not in watch.driver.tiers[first.name].moods)
    if room.ends:
        waits = getattr(watch.driver.manager, "ends_after_copies", False)
        busy = {c.request for c in facts.running()} if waits else set()
        yield from (ops.Finish(r) for r in facts.live if r not in facts.looked | busy)
    if room.resets and watch.driver.can("reset_cache"):
        yield ops.Reset()
        if facts.held and not any(c.stale for c in facts.running()):
            yield ops.Flushed()
    if room.time and watch.driver.time == 0:
        yield ops.Advance(LONG)


def place(watch: Watch) -> Hashable:
    """What a watch has seen as far as it bears on what comes; and the manager's own state."""
    facts, driver = watch.facts, watch.driver
    if driver.observes("fingerprint"):
        shown = driver.probe.fingerprint()
    else:  # the order of some ends may have left a mark that nobody sees
        shown = len(watch.history), _sorted(facts.outlived)
    jobs = sorted(
        (j.kind, j.tier, j.request, j.keys, j.slots, j.stale, j.landed is None, _sorted(j.landed))
        for j in facts.untold()
    )
    copies = sorted((c.kind, c.keys, c.slots, c.request, c.stale) for c in facts.running())
    numbers = {j.number: i for i, j in enumerate(facts.untold())}
    writers = sorted(
        (k, w.kind, w.tier, w.request, -1 if w.job is None else numbers.get(w.job, -2), w.since)
        for k, w in facts.writers.items()
    )
    tiers = tuple(
        (n, _sorted(t.moods), tuple(sorted(t.minds.items()))) for n, t in driver.tiers.items()
    )
    return (
        shown,
        tuple(jobs),
        tuple(copies),
        tuple(writers),
        tiers,
        tuple(sorted(facts.live)),
        tuple(sorted((r, min(n, 3)) for r, n in facts.ended.items())),
        tuple(sorted(facts.told.items())),
        _sorted(facts.resident),
        _sorted(facts.waits),
        _sorted(facts.hopes),
        _sorted(facts.hit),
        _sorted(facts.looked),
        _sorted(facts.retracted),
        _sorted(facts.offered),
        tuple(sorted((at, c.state, min(c.quiet, 3), c.since) for at, c in facts.cascades.items())),
        tuple(sorted(facts.undecided)),
        min(facts.reset_steps, 1),
        tuple(_bytes(watch, key) for key in sorted(facts.resident)),
        tuple(_landed(watch, job) for job in facts.untold()),
        (facts.held, facts.doubt, facts.phase, driver.time),
        min(watch.quiet_steps(), 3) if facts.doubt else 0,
    )


def _bytes(watch: Watch, key: str) -> int | None:
    """What a block holds: one that was overwritten is another state than one that was not."""
    driver = watch.driver
    slot = driver.probe.slot_of(key) if driver.observes("slot_of") else None
    return None if slot is None else hash(driver.read_slot(slot))


def _landed(watch: Watch, job: Job) -> tuple[int, ...]:
    """What is in the slots of a load that has ended, before the manager has heard of it."""
    if job.kind != "LOAD" or job.landed is None:
        return ()
    return tuple(hash(watch.driver.read_slot(slot)) for slot in job.slots)


def _sorted(found: object) -> tuple[object, ...]:
    return tuple(sorted(found)) if found else ()  # type: ignore[call-overload]  # sets of names
