"""What the manager's tests share: a tier that does what a test says, and a manager around it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from itertools import count
from typing import Any

from tierproof import LookupResult, TieredOffloadingManager
from tierproof.impl.adaptive import AdaptiveReplacement
from tierproof.impl.arena import Arena
from tierproof.impl.config import ManagerConfig
from tierproof.impl.operations import StoreOperation
from tierproof.impl.requests import Request
from tierproof.impl.tiers.base import (
    Claim,
    JobReport,
    Key,
    LoadJob,
    Poll,
    RequestInfo,
    StoreJob,
    StorePolicy,
)


class ScriptedTier:
    """Claims, jobs, refusals and faults by hand; keeps a record of what it was asked.

    `claims[key]` is what a lookup answers, ABSENT when not set. Jobs stay in `running` until
    `done`. A method named in `raises` raises the exception given there. Bytes are real.
    """

    def __init__(self, name: str = "disk", *, policy: StorePolicy = StorePolicy.NEW_BLOCKS) -> None:
        self.name = name
        self.policy = policy
        self.claims: dict[Key, Claim] = {}
        self.kept: dict[Key, bytes] = {}
        self.refuses: set[Key] = set()
        self.refuses_all = False
        self.raises: dict[str, Exception] = {}
        self.running: dict[int, LoadJob | StoreJob] = {}
        self.asked: list[Key] = []
        self.loads: list[LoadJob] = []
        self.stores: list[StoreJob] = []
        self.begun: list[RequestInfo] = []
        self.ended: list[RequestInfo] = []
        self.polls = 0
        self.cleared = 0
        self.stopped = 0
        self.log: list[str] = []
        self.late: list[LoadJob | StoreJob] = []
        """Jobs submitted under a request whose end this tier had heard of."""
        self._reports: list[JobReport] = []
        self._verified: list[Key] = []
        self._arena: Arena | None = None

    # -- what the test does -----------------------------------------------------------------------

    def has(self, *keys: Key) -> None:
        """The tier has blocks, each filled with a byte made from its key."""
        for key in keys:
            self.claims[key] = Claim.PRESENT

    def done(
        self,
        job: LoadJob | StoreJob | int,
        landed: Iterable[Key] | None = None,
        *,
        seconds: float = 0.0,
    ) -> None:
        """The job ends; `landed` are the keys that succeeded, all when None."""
        job_id = job if isinstance(job, int) else job.job_id
        running = self.running.pop(job_id)
        keys = frozenset(running.keys if landed is None else landed)
        assert self._arena is not None
        for key, slot in zip(running.keys, running.slots, strict=True):
            if key in keys and not self._arena.released:
                if isinstance(running, LoadJob):
                    self._arena.row(slot)[:] = self.kept.get(key, payload(key, self._arena))
                else:
                    self.kept[key] = bytes(self._arena.row(slot))
                    self.claims[key] = Claim.PRESENT
        self.report(JobReport(job_id, keys, seconds))

    def fail(self, job: LoadJob | StoreJob | int) -> None:
        """The job ends and no key succeeded."""
        self.done(job, ())

    def done_all(self) -> None:
        """Every running job ends well."""
        for job_id in list(self.running):
            self.done(job_id)

    def report(self, report: JobReport) -> None:
        """Whatever the next poll is to say."""
        self._reports.append(report)

    def verify(self, *keys: Key) -> None:
        """The next poll says that these keys were verified anew."""
        self._verified += keys

    def _note(self, job: LoadJob | StoreJob) -> None:
        if job.request in self.ended:
            self.late.append(job)

    def _maybe_raise(self, method: str) -> None:
        error = self.raises.get(method)
        if error is not None:
            raise error

    # -- what the manager calls -------------------------------------------------------------------

    def attach(self, arena: Arena) -> None:
        self._arena = arena

    def lookup(self, key: Key, request: RequestInfo) -> Claim:
        self.asked.append(key)
        self._maybe_raise("lookup")
        return self.claims.get(key, Claim.ABSENT)

    def submit_load(self, job: LoadJob) -> None:
        self.loads.append(job)
        self._note(job)
        self.log.append(f"load {job.request.request_id}")
        self._maybe_raise("submit_load")
        self.running[job.job_id] = job

    def submit_store(self, job: StoreJob) -> Collection[Key]:
        self.stores.append(job)
        self._note(job)
        self.log.append(f"store {job.request.request_id}")
        self._maybe_raise("submit_store")
        refused = [key for key in job.keys if self.refuses_all or key in self.refuses]
        kept = [(k, s) for k, s in zip(job.keys, job.slots, strict=True) if k not in refused]
        if kept:
            keys, slots = zip(*kept, strict=True)
            self.running[job.job_id] = StoreJob(job.job_id, keys, slots, job.request)
        return tuple(refused)

    def poll(self) -> Poll:
        self.polls += 1
        self._maybe_raise("poll")
        poll = Poll(tuple(self._reports), tuple(self._verified))
        self._reports.clear()
        self._verified.clear()
        return poll

    def on_new_request(self, request: RequestInfo) -> StorePolicy:
        self.begun.append(request)
        self._maybe_raise("on_new_request")
        return self.policy

    def on_request_finished(self, request: RequestInfo) -> None:
        self.ended.append(request)
        self.log.append(f"end {request.request_id}")
        self._maybe_raise("on_request_finished")

    def clear(self) -> None:
        self.cleared += 1
        self._maybe_raise("clear")
        self.claims.clear()
        self.kept.clear()

    def drain(self, timeout: float) -> Sequence[int]:
        self._maybe_raise("drain")
        return tuple(self.running)

    def shutdown(self) -> None:
        self.stopped += 1
        self._maybe_raise("shutdown")


HIT, HIT_PENDING = LookupResult.HIT, LookupResult.HIT_PENDING
RETRY, MISS = LookupResult.RETRY, LookupResult.MISS


class Rig:
    """A manager, its scripted tiers and its clock. `step` also checks that everything adds up."""

    def __init__(
        self, slots: int = 4, tiers: int | Sequence[ScriptedTier] = 1, **settings: Any
    ) -> None:
        self.now = 0.0
        # most tests count offers; those about the pause between them set it
        settings.setdefault("reoffer_pause", 0.0)
        if isinstance(tiers, int):
            tiers = [ScriptedTier(f"tier{number}") for number in range(tiers)]
        self.tiers = list(tiers)
        self.manager = TieredOffloadingManager(
            slots=slots,
            block_bytes=32,
            tiers=self.tiers,
            clock=lambda: self.now,
            config=ManagerConfig(**settings),
        )
        self.probe = self.manager.probe()

    @property
    def tier(self) -> ScriptedTier:
        """The first tier."""
        return self.tiers[0]

    def request(self, request_id: str = "R", *only: str) -> Request:
        """A new request, that may ask only the tiers named."""
        return self.manager.on_new_request(request_id, tier_filter=only or None)

    def lookup(self, request: Request, *keys: Key) -> list[LookupResult]:
        """The answers, one key after the other."""
        return [self.manager.lookup(key, request) for key in keys]

    def begin_store(self, request: Request, *keys: Key) -> StoreOperation:
        """A GPU store in flight, its bytes already in place."""
        operation = self.manager.prepare_store(keys, request)
        assert operation is not None, "nothing fits"
        for key, slot in zip(operation.keys, operation.slots, strict=True):
            self.manager.arena.row(slot)[:] = payload(key, self.manager.arena)
        return operation

    def store(self, request: Request, *keys: Key) -> StoreOperation:
        """A GPU store that has ended well."""
        operation = self.begin_store(request, *keys)
        self.manager.complete_store(operation)
        return operation

    def load(self, request: Request, *keys: Key) -> None:
        """A GPU load from begin to end, which finds each key's own bytes."""
        operation = self.manager.prepare_load(keys, request)
        for key, slot in zip(operation.keys, operation.slots, strict=True):
            assert bytes(self.manager.arena.row(slot)) == payload(key, self.manager.arena)
        self.manager.complete_load(operation)

    def step(self, *scheduled: Request) -> None:
        """The step ends."""
        self.manager.on_schedule_end(scheduled)
        self.probe.check()

    def promote(self, request: Request, *keys: Key) -> None:
        """The first tier's blocks are promoted for the request and have landed."""
        self.tier.has(*keys)
        assert self.lookup(request, *keys) == [HIT_PENDING] * len(keys)
        self.step()
        self.tier.done(self.tier.loads[-1])
        self.notice()

    def notice(self) -> None:
        """A whole step in which nothing is asked: completions are absorbed, deadlines expire."""
        if self.manager._step.begun:
            self.step()
        self.step()

    def settle(self) -> None:
        """Everything in flight ends well, until nothing is."""
        for _ in range(20):
            for tier in self.tiers:
                tier.done_all()
            self.step()
        assert not any(tier.running for tier in self.tiers)


def payload(key: Key, arena: Arena) -> bytes:
    """Bytes that say whose they are."""
    return repr(key).encode().ljust(arena.block_bytes, b".")[: arena.block_bytes]


def sent(tier: ScriptedTier) -> list[tuple[object, ...]]:
    """The keys of each store job so far."""
    return [job.keys for job in tier.stores]


def arc(rig: Rig) -> AdaptiveReplacement:
    """The policy of a manager that was made with `eviction="arc"`."""
    policy = rig.manager._primary.policy
    assert isinstance(policy, AdaptiveReplacement)
    return policy


_fresh = count()


def victims(rig: Rig, request: Request, number: int) -> list[object]:
    """The next blocks to go, in order."""
    return list(rig.begin_store(request, *(f"new{next(_fresh)}" for _ in range(number))).evicted)
