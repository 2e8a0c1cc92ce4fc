"""What a secondary tier is: the protocol between the manager and whoever keeps blocks elsewhere.

A tier is built without memory and gets the primary tier's arena once, by `attach`. The manager
calls every method from the scheduler's thread under its lock; none may wait for I/O. A tier's own
threads never call the manager: they put results where the next `poll` finds them.

What is handed over is frozen: a job made for one block is made in a tenth of the time that a frozen
dataclass takes, and a step may submit a thousand.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Sequence
from enum import Enum, auto
from typing import Protocol, runtime_checkable

import msgspec

from ..arena import Arena

CONTRACTS = (
    "T1-nonblocking",
    "T2-one-report",
    "T3-bytes",
    "T4-visible",
    "T5-withdraw",
    "T6-own-arguments",
    "T7-bounded",
    "T8-drain",
    "T9-raises",
    "T10-restart",
    "T11-shared",
    "D1-bytes",
    "D2-isolation",
)
"""The contracts of a tier. One that does not keep them all names those it does in `claims`."""


def claims_all_but(*others: str) -> frozenset[str]:
    """The ids of all contracts but these."""
    assert set(others) <= set(CONTRACTS), "no such contract"
    return frozenset(CONTRACTS) - set(others)


Key = Hashable
"""A block's content address. Anything hashable serves the manager; persistent tiers take
`tierproof.BlockKey` or `bytes`."""


class Claim(Enum):
    """One tier's own answer about one key."""

    PRESENT = auto()
    """The tier has the block and will try to load it."""
    ABSENT = auto()
    """The tier does not have the block."""
    UNDECIDED = auto()
    """The tier is finding out; ask again in a later step."""


class StorePolicy(Enum):
    """What of a request a tier wants to be offered."""

    NEW_BLOCKS = auto()
    """Blocks as they are newly stored in the primary tier."""
    WHOLE_REQUEST = auto()
    """The request's whole context: blocks already in the primary tier are offered as well."""


class RequestInfo(msgspec.Struct, frozen=True):
    """What a tier is told of a request. `handle` is never used again, `request_id` may be.

    `handle` is -1 for work that belongs to no request (offers that outlived theirs).
    """

    request_id: str
    handle: int


NO_REQUEST = RequestInfo(request_id="", handle=-1)


class LoadJob(msgspec.Struct, frozen=True):
    """Write `keys[i]` into arena row `slots[i]`. The job owns its arguments."""

    job_id: int
    keys: tuple[Key, ...]
    slots: tuple[int, ...]
    request: RequestInfo = NO_REQUEST


class StoreJob(msgspec.Struct, frozen=True):
    """Keep the bytes of arena row `slots[i]` under `keys[i]`. The job owns its arguments."""

    job_id: int
    keys: tuple[Key, ...]
    slots: tuple[int, ...]
    request: RequestInfo = NO_REQUEST


class JobReport(msgspec.Struct, frozen=True):
    """A job's one report, made only when its I/O can no longer touch the slots.

    `landed` are the keys that succeeded; the job's other keys failed. `seconds` is the time of the
    transfer itself, as the tier measured it (not until somebody polled); 0.0 when unknown.
    """

    job_id: int
    landed: frozenset[Key]
    seconds: float = 0.0


class Poll(msgspec.Struct, frozen=True):
    """What a tier has to say since the last poll."""

    reports: Sequence[JobReport] = ()
    verified: Collection[Key] = ()
    """Keys whose earlier failed load the tier has since verified anew: their claims count again."""


NOTHING = Poll()


@runtime_checkable
class Tier(Protocol):
    """A secondary tier. An exception from any method is a failed call or job, never a crash."""

    name: str
    """Unique within a manager; what a request's tier filter names."""

    def attach(self, arena: Arena) -> None:
        """Take the primary tier's memory; called once, before anything else."""

    def lookup(self, key: Key, request: RequestInfo) -> Claim:
        """Does this tier have `key`? Never waits; UNDECIDED while finding out."""

    def submit_load(self, job: LoadJob) -> None:
        """Begin to load; raising means that the whole job has failed and touches no slot."""

    def submit_store(self, job: StoreJob) -> Collection[Key]:
        """Begin to store; returns the keys it refuses (back-pressure), empty when none.

        A job whose keys are all refused never began and is not reported. Otherwise the report
        speaks of the keys that were not refused. Raising means that the whole job has failed.
        """

    def poll(self) -> Poll:
        """Finished jobs since the last poll, each reported exactly once."""

    def on_new_request(self, request: RequestInfo) -> StorePolicy:
        """A request has begun."""

    def on_request_finished(self, request: RequestInfo) -> None:
        """A request has ended; no submit under it follows."""

    def clear(self) -> None:
        """Forget every block (`reset_cache(tiers=...)`); stores in flight may still land."""

    def drain(self, timeout: float) -> Sequence[int]:
        """Wait at most `timeout` seconds for jobs to end; returns ids of those still running."""

    def shutdown(self) -> None:
        """Stop; idempotent. Called after `drain`."""
