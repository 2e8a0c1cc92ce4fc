"""What a manager under test is, and the hand-driven tier that it is tested with.

A manager under test is built by a factory, a class or a function,

    factory(*, slots: int, tiers: Sequence[Tier], clock: Clock, block_bytes: int)
        -> ManagerUnderTest

* `slots`: how many blocks its primary tier holds; `block_bytes`: bytes of a block.
* `tiers`: the secondary tiers, in the order in which they are to be asked. The manager makes the
  primary tier's memory, a `tierproof.Arena(slots=slots, block_bytes=block_bytes)` or what has its
  `row(slot)`, and calls `attach(arena)` on every tier before anything else: the kit reads and
  writes blocks through it, as the GPU would. Where there is no tier it takes the manager's
  attribute `arena`; without one it cannot look at bytes.
* `clock`: a function without arguments that returns monotonic seconds. The kit owns the time, so a
  manager must take it from nowhere else.

It has the calls of `ManagerUnderTest`, answers lookups with something whose `name` is one of HIT,
HIT_PENDING, RETRY, MISS, and raises an exception named ContractViolation for calls that break the
protocol. It may have a method `probe()` that returns an object with some of the attributes of
`Probes`; what it lacks is not observed. `tierproof.TieredOffloadingManager` goes through this
protocol as a stranger's manager would.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Hashable, Sequence
from typing import Any, Protocol

from ..impl.arena import Arena
from ..impl.errors import TierError
from ..impl.tiers.base import (
    Claim,
    JobReport,
    LoadJob,
    Poll,
    RequestInfo,
    StoreJob,
    StorePolicy,
)

Clock = Callable[[], float]
"""Monotonic seconds."""


class GpuOperation(Protocol):
    """What `prepare_load` and `prepare_store` return: `slots[i]` is the arena row of `keys[i]`.

    The object itself names the operation: `complete_load` and `complete_store` are given it back,
    and must act on it and on nothing that came after it. A store that found every key present is an
    operation without keys.
    """

    keys: Sequence[Any]
    slots: Sequence[int]


class BlockEvent(Protocol):
    """What `take_events` returns: `kind` is "stored" when a block of `key` became readable in the
    primary tier, and "removed" when it was evicted, or a reset forgot it. A block that never became
    readable has no events."""

    kind: str
    key: Any


class ManagerUnderTest(Protocol):
    """The calls that a manager under test must have; a request is a handle of the manager's own."""

    def on_new_request(self, request_id: str, *, tier_filter: Collection[str] | None = None) -> Any:
        """A request begins; returns its handle."""

    def lookup(self, key: Any, request: Any) -> Any:
        """One of the four answers, by its `name`."""

    def prepare_load(self, keys: Sequence[Any], request: Any) -> Any:
        """Pin resident blocks for the GPU to read; returns a GpuOperation."""

    def complete_load(self, operation: Any) -> None:
        """The GPU has read."""

    def prepare_store(self, keys: Sequence[Any], request: Any) -> Any:
        """Slots for keys that the GPU will write; returns a GpuOperation, or None."""

    def complete_store(self, operation: Any, ok: bool = True) -> None:
        """The GPU has written, or has not."""

    def on_schedule_end(self, newly_scheduled: Collection[Any] = ()) -> None:
        """The scheduler's step ends."""

    def on_request_finished(self, request: Any) -> None:
        """A request has ended."""

    def has_pending_work(self) -> bool:
        """Is something still to happen that further steps bring about?"""

    def take_events(self) -> Sequence[Any]:
        """Stored and removed events (`kind`, `key`) since the last call."""


class OptionalCalls(Protocol):
    """Calls that a manager may lack; operations that need them are then left out."""

    def lookup_many(self, keys: Sequence[Any], request: Any) -> Sequence[Any]:
        """As `lookup` for each key in turn, in one call."""

    def exists(self, keys: Sequence[Any], request: Any) -> Sequence[bool | None]:
        """Is each block somewhere? None where a tier has not answered; nothing is reserved."""

    def plan_load(self, keys: Sequence[Any], request: Any) -> Any:
        """Promise all of the blocks or none: `verdict` (its `name` is PLANNED, NO_ROOM or LOST),
        `promoted` (keys whose promotion began) and `lost` (keys that are nowhere)."""

    def withdraw(self, keys: Sequence[Any], request: Any) -> None:
        """The request's hit does not read these blocks."""

    def reset_cache(self, *, tiers: Collection[str] | None = None) -> Any:
        """Forget every block without waiting, and those of the tiers that are named."""

    def on_reset_flushed(self) -> None:
        """Promotions may begin again."""

    def external(self, tier_name: str) -> Any:
        """A handle for a tier that serves a peer: `on_new_request(id)`, `lookup(key, request)`,
        `send(keys, request)`, which returns the job's id or None, and `on_request_finished`."""


OPTIONAL_CALLS = tuple(name for name in vars(OptionalCalls) if not name.startswith("_"))
"""Their names."""


class Probes(Protocol):
    """What a manager may let a test see. Each is optional."""

    def resident_keys(self) -> Collection[Any]:
        """Keys whose blocks are RESIDENT."""

    def slot_of(self, key: Any) -> int | None:
        """The slot that the key owns."""

    def pins(self, key: Any) -> int:
        """GPU loads, cascades and exports in flight on the block."""

    def free_slots(self) -> int:
        """How many slots are free."""

    def waiters(self, key: Any) -> Collection[int]:
        """The requests that the block is promised to, by the `handle` that tiers are told."""

    def permits_in_use(self) -> int:
        """How many slots promotions withhold from stores."""

    def cascading_slots(self) -> int:
        """How many slots cascades and exports pin."""

    def retracted(self) -> Collection[tuple[str, Any]]:
        """(tier, key) of claims that do not count since a load failed."""

    def due(self) -> Collection[tuple[str, Any]]:
        """(tier, key) of cascades that are still to be offered."""

    def fingerprint(self) -> Hashable:
        """Equal only for states that behave alike from here on."""


def payload(key: object, block_bytes: int) -> bytes:
    """The bytes of a block: they carry their key, so that any mix-up shows."""
    seed = f"<{key}>".encode() + hashlib.blake2b(str(key).encode(), digest_size=8).digest()
    return (seed * (block_bytes // len(seed) + 1))[:block_bytes]


def garbage(why: str, block_bytes: int) -> bytes:
    """What a writer leaves that did not end well."""
    return payload(f"garbage: {why}", block_bytes)


class HandDrivenTier:
    """A tier that does nothing of itself: a test tells it what to answer and when jobs end.

    It reads and writes slots only when it is told that a job ends, as slow I/O would, so a slot
    that was given out too early shows in the bytes. `log` is what the manager did to it, in order.
    """

    def __init__(self, name: str, *, whole_request: bool = False) -> None:
        self.name = name
        self.minds: dict[Any, str] = {}
        self.moods: set[str] = set()
        self.jobs: dict[int, LoadJob | StoreJob] = {}
        self.kept: dict[Any, bytes] = {}
        self.log: list[tuple[str, Any]] = []
        self.policy = StorePolicy.WHOLE_REQUEST if whole_request else StorePolicy.NEW_BLOCKS
        self._arena: Arena | None = None
        self._mail: list[JobReport] = []
        self._verified: list[Any] = []

    @property
    def arena(self) -> Arena:
        """The primary tier's memory."""
        if self._arena is None:
            raise TierError(f"tier {self.name} was used before attach(arena)")
        return self._arena

    # -- what a manager calls ----------------------------------------------------------------------

    def attach(self, arena: Arena) -> None:
        """Take the primary tier's memory."""
        self._arena = arena

    def lookup(self, key: Any, request: RequestInfo) -> Claim:
        """Answer as told; ABSENT when nothing was told."""
        self.log.append(("asked", key))
        self._fail_if("raise on lookup")
        return Claim[self.minds.get(key, "ABSENT")]

    def submit_load(self, job: LoadJob) -> None:
        """Take a load and wait to be told how it ends."""
        self.log.append(("load", job))
        self._fail_if("raise on submit")
        self.jobs[job.job_id] = job

    def submit_store(self, job: StoreJob) -> Collection[Any]:
        """Take a store, or refuse all of it."""
        self.log.append(("store", job))
        self._fail_if("raise on submit")
        if "refuse stores" in self.moods:
            return job.keys
        self.jobs[job.job_id] = job
        return ()

    def poll(self) -> Poll:
        """Hand over what was told to end since the last poll."""
        self.log.append(("polled", None))
        self._fail_if("raise on poll")
        poll = Poll(tuple(self._mail), tuple(self._verified))
        self._mail, self._verified = [], []
        return poll

    def on_new_request(self, request: RequestInfo) -> StorePolicy:
        """A request begins."""
        self.log.append(("begun", request))
        return self.policy

    def on_request_finished(self, request: RequestInfo) -> None:
        """A request has ended."""
        self.log.append(("told", request))

    def clear(self) -> None:
        """Forget everything."""
        self.log.append(("cleared", None))
        self.minds.clear()
        self.kept.clear()

    def drain(self, timeout: float) -> Sequence[int]:
        """Nothing ends of itself: whatever runs is named."""
        return tuple(self.jobs)

    def shutdown(self) -> None:
        """Stop."""
        self.log.append(("shut down", None))

    def _fail_if(self, mood: str) -> None:
        if mood in self.moods:
            raise TierError(f"tier {self.name} was told to {mood}")

    # -- what a test tells it ----------------------------------------------------------------------

    def end(self, job_id: int, landed: Collection[Any]) -> None:
        """A job's I/O happens now and ends; the next poll reports it.

        Raises:
            AssertionError: the bytes found in a slot are not those of the key to be stored.
        """
        job = self.jobs.pop(job_id)
        wrong = []
        for key, slot in zip(job.keys, job.slots, strict=True):
            row = self.arena.row(slot)
            if isinstance(job, LoadJob):
                good = self.kept.get(key) or payload(key, len(row))
                row[:] = good if key in landed else garbage("failed load", len(row))
            elif key in landed:
                self.kept[key] = bytes(row)
                self.minds[key] = "PRESENT"
                if self.kept[key] != payload(key, len(row)):
                    wrong.append(key)
            row.release()
        self._mail.append(JobReport(job_id, frozenset(landed)))
        if wrong:  # no `assert`: pytest would add to the words of a plugin's module
            raise AssertionError(f"tier {self.name} was given other bytes to store under {wrong}")

    def misreport(self, job_id: int, landed: Collection[Any]) -> None:
        """The next poll reports what it must not: an unknown job, a job again, a foreign key."""
        self._mail.append(JobReport(job_id, frozenset(landed)))

    def verify(self, key: Any) -> None:
        """The next poll says that the key has been verified anew."""
        self._verified.append(key)
        self.minds[key] = "PRESENT"
