"""Runs a workload through a consumer on the production manager, and counts what it does.

The GPU copies at once; a load lands in the step after the one that submitted it; a tier answers
about a key as many steps later as it is told to. The clock stands still: deadlines are not the
subject here.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field

from ..impl.answers import Asked, Consumer
from ..impl.arena import Arena
from ..impl.config import ManagerConfig
from ..impl.geometry import Geometry
from ..impl.manager import TieredOffloadingManager
from ..impl.requests import Request
from ..impl.tiers.base import (
    NOTHING,
    Claim,
    JobReport,
    Key,
    LoadJob,
    Poll,
    RequestInfo,
    StoreJob,
    StorePolicy,
)
from .workloads import RequestOf, Workload

Chunk = tuple[int, int]
MakeConsumer = Callable[[TieredOffloadingManager, Asked], Consumer]
SLOT_BYTES = 1
"""Nothing reads the bytes here, so a slot need not have the size that the workload names."""


class SimulatedTier:
    """A tier that has what it is given, and answers about a key `delay` steps after it is asked."""

    def __init__(self, name: str, keys: Collection[Key], delay: int) -> None:
        self.name = name
        self.step = 0
        self.lookups = 0
        """Questions, also those that only fetch an answer."""
        self.checks: dict[int, set[Key]] = {}
        """Keys that a request had to be told about, once each: later answers are no new checks."""
        self.promoted: dict[int, list[Key]] = {}
        """Keys loaded under a request; one that is loaded again stands there again."""
        self.keys = keys
        """What it has."""
        self._delay = delay
        self._since: dict[tuple[int, Key], int] = {}
        self._done: list[JobReport] = []

    def attach(self, arena: Arena) -> None:
        """The bytes do not matter here."""

    def lookup(self, key: Key, request: RequestInfo) -> Claim:
        """Undecided until the answer is there."""
        self.lookups += 1
        checks = self.checks.setdefault(request.handle, set())
        if self._delay:
            since = self._since.setdefault((request.handle, key), self.step)
            checks.add(key)
            if self.step - since < self._delay:
                return Claim.UNDECIDED
        else:
            checks.add(key)
        return Claim.PRESENT if key in self.keys else Claim.ABSENT

    def submit_load(self, job: LoadJob) -> None:
        """Lands at the next poll."""
        self.promoted.setdefault(job.request.handle, []).extend(job.keys)
        landed = frozenset(key for key in job.keys if key in self.keys)
        self._done.append(JobReport(job.job_id, landed))

    def submit_store(self, job: StoreJob) -> Collection[Key]:
        """Takes nothing: what the GPU computes is not the subject."""
        return job.keys

    def poll(self) -> Poll:
        """What was submitted has landed."""
        if not self._done:
            return NOTHING
        done, self._done = self._done, []
        return Poll(tuple(done))

    def on_new_request(self, request: RequestInfo) -> StorePolicy:
        """New blocks only."""
        return StorePolicy.NEW_BLOCKS

    def on_request_finished(self, request: RequestInfo) -> None:
        """Nothing is kept for a request but counts."""

    def clear(self) -> None:
        """Forget every block."""
        self.keys = ()

    def drain(self, timeout: float) -> Sequence[int]:
        """Nothing runs between polls."""
        return ()

    def shutdown(self) -> None:
        """Nothing to stop."""


@dataclass
class Seen:
    """What was seen of one request."""

    request: RequestOf
    stored: frozenset[Chunk]
    asked: set[Chunk] = field(default_factory=set)
    promoted: set[Chunk] = field(default_factory=set)
    read: list[Chunk] = field(default_factory=list)
    checks: int = 0
    promotions: int = 0
    """Blocks loaded for it; one that was loaded twice counts twice."""
    hit_tokens: int = 0
    steps: int = 0
    peak_slots: int = 0
    served: bool = False


@dataclass
class Run:
    """What was seen of a workload."""

    workload: Workload
    geometry: Geometry
    requests: list[Seen] = field(default_factory=list)
    stored: int = 0
    """Different keys that the store filter keeps of all requests."""
    steps: int = 0
    lookups: int = 0
    """Questions that tiers were asked, also those that only fetched an answer."""
    peak_slots: int = 0
    stuck: bool = False
    """Given up: some request was not served in as many steps as there are blocks, and more."""


class Simulation:
    """One workload on one manager."""

    tier_of: type[SimulatedTier] = SimulatedTier

    def __init__(
        self,
        workload: Workload,
        make: MakeConsumer,
        *,
        delay: int = 1,
        share: float = 0.5,
        factory: Callable[..., TieredOffloadingManager] | None = None,
    ) -> None:
        self.workload = workload
        self.geometry = geometry = workload.geometry()
        self.run = Run(workload, geometry)
        self._prefixes = prefixes(workload.requests)
        kept: set[Key] = set()
        for i, request in enumerate(workload.requests):
            stored = frozenset(geometry.stored(request.prompt))
            self.run.requests.append(Seen(request, stored))
            kept.update(self.key(i, g, chunk) for g, chunk in stored)
        self.run.stored = len(kept)
        self.tiers = [
            self.tier_of(tier.name, kept - set(self._missing(kept, i)), delay)
            for i, tier in enumerate(workload.tiers)
        ]
        clock = lambda: 0.0  # noqa: E731
        slots = workload.primary_slots
        if factory is not None:
            self.manager = factory(
                slots=slots, tiers=tuple(self.tiers), clock=clock, block_bytes=SLOT_BYTES
            )
        else:
            self.manager = TieredOffloadingManager(
                slots=slots,
                block_bytes=SLOT_BYTES,
                tiers=self.tiers,
                clock=clock,
                config=ManagerConfig(promotion_share=share, events=False),
            )
        self._make = make

    def key(self, request: int, group: int, chunk: int) -> Key:
        """Chunks within a shared prefix have the key of the request that it is shared with."""
        end = (chunk + 1) * self.geometry.lanes[group].chunk
        owner, shared = self._prefixes[request]
        while end <= shared:
            request = owner
            owner, shared = self._prefixes[request]
        return request, group, chunk

    def _missing(self, kept: set[Key], tier: int) -> Iterator[Key]:
        names = [group.name for group in self.workload.groups]
        holes = {
            (names.index(missing.group), chunk)
            for missing in self.workload.tiers[tier].missing
            for chunk in missing.chunks
        }
        return (key for key in kept if key[1:] in holes)  # type: ignore[index]

    def go(self, passes: int | None = None) -> Run:
        """Run until every request is served, or so many passes, or nothing more can come of it."""
        run = self.run
        arrivals = deque(sorted(range(len(run.requests)), key=self._arrival))
        waiting: dict[int, tuple[Request, Consumer]] = {}
        # every wave brings at least one block of one request, and takes a step or two
        most = sum(len(s.stored) for s in run.requests) * 2 + 100
        most += run.requests[arrivals[-1]].request.arrival_step if arrivals else 0
        while (arrivals or waiting) and not run.stuck and run.steps != passes:
            while arrivals and self._arrival(arrivals[0]) <= run.steps:
                i = arrivals.popleft()
                waiting[i] = self._announce(i)
            scheduled = [i for i, (request, asks) in waiting.items() if self._pass(i, asks)]
            self._measure(waiting)
            self.manager.on_schedule_end([waiting[i][0] for i in scheduled])
            for i in scheduled:
                self._ends(i, waiting.pop(i)[0])
            run.steps += 1
            for tier in self.tiers:
                tier.step = run.steps
            for i in waiting:
                run.requests[i].steps += 1
            run.stuck = run.steps > most
        for i, (request, _) in waiting.items():
            self._ends(i, request)
        run.lookups = sum(tier.lookups for tier in self.tiers)
        return run

    def _arrival(self, i: int) -> int:
        return self.run.requests[i].request.arrival_step

    def _announce(self, i: int) -> tuple[Request, Consumer]:
        request = self.manager.on_new_request(self.run.requests[i].request.id)
        asked = Asked(
            request,
            self.run.requests[i].request.prompt,
            self.geometry,
            lambda group, chunk: self.key(i, group, chunk),
        )
        return request, self._make(self.manager, asked)

    def _pass(self, i: int, consumer: Consumer) -> bool:
        """One pass for one request: is it served?"""
        seen = self.run.requests[i]
        while True:
            answer = consumer.ask()
            if answer.load is not None:
                # what is another request's by its key is this one's by its place
                seen.read += [(key[1], key[2]) for key in answer.load.keys]  # type: ignore[index]
                self.manager.complete_load(answer.load)
            if answer.hit is not None:
                seen.hit_tokens, seen.served = answer.hit, True
                return True
            if answer.load is None:
                return False

    def _measure(self, waiting: dict[int, tuple[Request, Consumer]]) -> None:
        run = self.run
        run.peak_slots = max(run.peak_slots, self.manager.probe().permits_in_use())
        for i, (request, _) in waiting.items():
            seen = run.requests[i]
            seen.peak_slots = max(seen.peak_slots, len(request.waits))

    def _ends(self, i: int, request: Request) -> None:
        seen = self.run.requests[i]
        for tier in self.tiers:
            seen.checks += len(tier.checks.get(request.handle, ()))
            asked = tier.checks.pop(request.handle, set())
            promoted = tier.promoted.pop(request.handle, [])
            seen.asked |= {key[1:] for key in asked}  # type: ignore[index]
            seen.promoted |= {key[1:] for key in promoted}  # type: ignore[index]
            seen.promotions += len(promoted)
        self.manager.on_request_finished(request)


def prefixes(requests: Sequence[RequestOf]) -> list[tuple[int, int]]:
    """For each request, whose prefix it has and how long it is."""
    number = {request.id: i for i, request in enumerate(requests)}
    return [
        (i if request.prefix_of is None else number[request.prefix_of], request.prefix_tokens)
        for i, request in enumerate(requests)
    ]
