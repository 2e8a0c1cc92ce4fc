"""What can be done next: the operations that make sense in a state of the reference model.

The tour, the random runs, the exhaustive search and the search for shortest counterexamples draw
from here, so that an operation that is added is driven everywhere.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations

from ..model import operations as ops
from ..model.operations import Operation
from ..model.state import Job, State


@dataclass(frozen=True)
class Menu:
    """Which operations are offered: a small menu keeps a search small."""

    keys: tuple[str, ...] | None = None
    """Keys that are operated on; None: all of the setting."""
    batches: bool = False
    """Offer calls with two keys as well, and with all of them."""
    lookup_many: bool = False
    plans: bool = False
    """Offer questions of existence, and load plans."""
    stores: bool = True
    loads: bool = True
    minds: tuple[str, ...] = ()
    """What tiers may come to say; empty: they keep to what the setting says."""
    moods: tuple[str, ...] = ()
    resets: bool = True
    reset_tiers: bool = True
    ends: bool = True
    withdraw: bool = True
    scheduled: bool = True
    time: bool = True
    pauses: bool = False
    """Let the pause pass after which copies are offered again."""
    failures: bool = True
    """Offer completions and reports that say that something failed."""
    mistakes: bool = False
    """Offer calls and reports that must be refused."""
    verify: bool = False
    only: frozenset[str] | None = None
    """Names of operations; None: all."""


def moves(state: State, menu: Menu) -> Iterator[Operation]:
    """The operations of `menu` that make sense in `state`, in a fixed order."""
    for op in _moves(state, menu):
        if menu.only is None or op.op in menu.only:
            yield op


def _moves(state: State, menu: Menu) -> Iterator[Operation]:
    keys = state.setting.keys if menu.keys is None else menu.keys
    live = [r for r in state.requests if state.world.get("life", r) == "LIVE"]
    groups: list[tuple[str, ...]] = [(k,) for k in keys]
    if menu.batches:
        groups += list(combinations(keys, 2))
        if len(keys) > 2:
            groups.append(tuple(keys))
    for request in live:
        external = state.requests[request].external_of is not None
        for key in keys:
            yield ops.Lookup(key, request)
        if external:
            yield from _external(state, request, groups, menu)
        else:
            yield from _of_request(state, request, groups, menu)
        if menu.ends:
            yield ops.Finish(request)
    if menu.mistakes:
        for request in [r for r in state.requests if r not in live][:1]:
            yield ops.Lookup(keys[0], request)
            yield ops.PrepareStore(keys[:1], request)
            yield ops.Finish(request)
    yield ops.StepEnd()
    yield from _completions(state, menu)
    yield from _surroundings(state, menu, keys)
    if menu.resets:
        yield ops.Reset()
        if menu.reset_tiers:
            for tier in state.setting.tiers:
                yield ops.Reset((tier.name,))
        if state.world.get("held") == "YES":
            yield ops.Flushed()


def _of_request(
    state: State, request: str, groups: list[tuple[str, ...]], menu: Menu
) -> Iterator[Operation]:
    waited = [k for k, r in state.world.fields["waits"] if r == request]
    for group in groups:
        resident = all(state.world.phase(k) == "RESIDENT" for k in group)
        if menu.lookup_many and len(group) > 1:
            yield ops.LookupMany(group, request)
        if menu.plans:
            yield ops.Exists(group, request)
            yield ops.PlanLoad(group, request)
        # one read of a key for each request at a time: more would make every state space infinite
        idle = not any(
            o.kind == "READ" and o.request == request and set(o.keys) & set(group)
            for o in state.operations.values()
        )
        if menu.loads and idle and (resident or (menu.mistakes and len(group) == 1)):
            yield ops.PrepareLoad(group, request)
        # likewise one store that found everything present
        empty = any(not o.keys and o.request == request for o in state.operations.values())
        if menu.stores and not empty:
            yield ops.PrepareStore(group, request)
    if menu.withdraw:
        for key in waited:
            yield ops.Withdraw((key,), request)
    asking = any(p[0] == request and since is not None for p, since in state.probes.items())
    if menu.scheduled and (waited or asking):
        yield ops.StepEnd((request,))


def _external(
    state: State, request: str, groups: list[tuple[str, ...]], menu: Menu
) -> Iterator[Operation]:
    for group in groups:
        sent = any(j.kind == "EXPORT" and set(j.keys) & set(group) for j in state.jobs.values())
        resident = all(state.world.phase(k) == "RESIDENT" for k in group)
        if not sent and (menu.mistakes or resident):
            yield ops.Send(group, request)


def _completions(state: State, menu: Menu) -> Iterator[Operation]:
    for number, operation in state.operations.items():
        if operation.kind == "READ":
            yield ops.CompleteLoad(number)
        else:
            yield ops.CompleteStore(number, True)
            if menu.failures:
                yield ops.CompleteStore(number, False)
    posted = {n for mail in state.mail.values() for what, n, _ in mail if what == "report"}
    for number, job in state.jobs.items():
        if number not in posted:
            yield from _reports(job, menu)
            if menu.mistakes and not state.mail.get(job.tier):
                yield ops.Misreport(job.tier, number, ("a foreign key",))
    if menu.mistakes:
        done = [n for n in range(1, state.count + 1) if n not in state.operations][-1:]
        for number in done:
            yield ops.CompleteLoad(number)
            yield ops.CompleteStore(number)
            if number not in state.jobs:
                for tier in state.setting.tiers[:1]:
                    if not state.mail.get(tier.name):
                        yield ops.Misreport(tier.name, number)


def _reports(job: Job, menu: Menu) -> Iterator[Operation]:
    yield ops.Report(job.number, job.keys)
    if not menu.failures:
        return
    yield ops.Report(job.number, ())
    if len(job.keys) > 1:
        yield ops.Report(job.number, job.keys[:1])
        yield ops.Report(job.number, job.keys[1:])


def _surroundings(state: State, menu: Menu, keys: tuple[str, ...]) -> Iterator[Operation]:
    for tier in state.setting.tiers:
        for key in keys:
            now = state.minds.get((tier.name, key), "ABSENT")
            for mind in menu.minds:
                if mind != now:
                    yield ops.Mind(tier.name, key, mind)
            retracted = state.world.get("retracted", key, tier.name) == "YES"
            if menu.verify and retracted and not state.mail.get(tier.name):
                yield ops.Verify(tier.name, key)
        for mood in menu.moods:
            yield ops.Mood(tier.name, mood, (tier.name, mood) not in state.moods)
    if menu.time and state.clock == state.now:
        limits = (state.setting.pending_deadline, state.setting.probe_deadline)
        yield ops.Advance(max([limit for limit in limits if limit is not None], default=1.0))
    if menu.pauses and state.clock == state.now and (state.due or state.pressed):
        yield ops.Advance(state.setting.reoffer_pause)
