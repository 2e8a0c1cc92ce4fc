"""Our manager on the bench, or any that has the same calls."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence
from typing import Any

from ...impl.arena import Arena
from ...impl.config import ManagerConfig
from ...impl.manager import TieredOffloadingManager
from ...impl.tiers.base import (
    NOTHING,
    Claim,
    JobReport,
    LoadJob,
    Poll,
    RequestInfo,
    StoreJob,
    StorePolicy,
)
from .clock import now, since
from .side import Keys, Side, WrongAnswerError

PRESENT, ABSENT = Claim.PRESENT, Claim.ABSENT
ROW_BYTES = 16
"""Of a slot: no byte is moved on this bench."""

Factory = Callable[..., Any]
"""`factory(*, slots, tiers, clock, block_bytes)`, as `--manager` takes it."""


class OurInstantTier:
    """The bench's tier, by the protocol `Tier`."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.keys: set[bytes] = set()
        self._jobs: list[LoadJob | StoreJob] = []
        self._reports: list[JobReport] = []
        self._verified: list[Any] = []

    def report(self, ok: bool) -> int:
        """Every job ends. A failed load's keys count as verified anew, for the next round."""
        blocks = 0
        for job in self._jobs:
            blocks += len(job.keys)
            self._reports.append(JobReport(job.job_id, frozenset(job.keys if ok else ())))
            if not ok:
                self._verified += job.keys
        self._jobs.clear()
        return blocks

    def attach(self, arena: Arena) -> None:
        """No byte is moved."""

    def lookup(self, key: Any, request: RequestInfo) -> Claim:
        """It knows at once."""
        return PRESENT if key in self.keys else ABSENT

    def submit_load(self, job: LoadJob) -> None:
        """Begun."""
        self._jobs.append(job)

    def submit_store(self, job: StoreJob) -> Collection[Any]:
        """Begun, nothing refused."""
        self._jobs.append(job)
        return ()

    def poll(self) -> Poll:
        """What has ended."""
        if self._reports:
            poll = Poll(self._reports, ())
            self._reports = []
        elif self._verified:  # in a poll after the failure: in the same one the failure counts
            poll = Poll((), self._verified)
            self._verified = []
        else:
            poll = NOTHING
        return poll

    def on_new_request(self, request: RequestInfo) -> StorePolicy:
        """New blocks are all it wants."""
        return StorePolicy.NEW_BLOCKS

    def on_request_finished(self, request: RequestInfo) -> None:
        """Nothing was kept for it."""

    def clear(self) -> None:
        """Has nothing of its own."""

    def drain(self, timeout: float) -> Sequence[int]:
        """What was begun ends."""
        self.report(True)
        return ()

    def shutdown(self) -> None:
        """Nothing to stop."""


class OurSide(Side):
    """`TieredOffloadingManager` with its default settings but for events, which nobody takes here.

    Args:
        counted: whether lookups are counted for metrics, as the stock manager always does.
        factory: another manager with the same calls.
    """

    name = "ours"

    def __init__(
        self,
        *,
        resident: int,
        spare: int,
        tiers: int,
        counted: bool = False,
        factory: Factory | None = None,
    ) -> None:
        self._config = ManagerConfig(events=False, count_lookups=counted)
        self._factory = factory
        super().__init__(resident=resident, spare=spare, tiers=tiers)

    def build(self, slots: int, tiers: int) -> Sequence[OurInstantTier]:
        """A manager whose arena is as small as can be."""
        made = [OurInstantTier(f"tier {n}") for n in range(tiers)]
        what = {"slots": slots, "tiers": made, "clock": time.monotonic, "block_bytes": ROW_BYTES}
        if self._factory is None:
            self.manager = TieredOffloadingManager(config=self._config, **what)  # type: ignore[arg-type]
        else:
            self.manager = self._factory(**what)
        return made

    def begin(self, name: str, keys: Keys) -> Any:
        """Our requests need not know their keys."""
        return self.manager.on_new_request(name)

    def store(self, keys: Keys, request: Any, *, ok: bool) -> None:
        """One store operation."""
        operation = self.manager.prepare_store(keys, request)
        if operation is None or len(operation.keys) < len(keys):
            raise WrongAnswerError(f"a store of {len(keys)} blocks did not get its slots")
        self.manager.complete_store(operation, ok)
        if self._factory is not None:
            self.manager.take_events()

    def scan(self, keys: Keys, request: Any) -> float:
        """By `lookup_many` where there is one."""
        if getattr(self.manager, "lookup_many", None) is None:
            return self.lookups(keys, request)
        began = now()
        self.manager.lookup_many(keys, request)
        return since(began)

    def steps(self, number: int) -> float:
        """`on_schedule_end`."""
        end = self.manager.on_schedule_end
        began = now()
        for _ in range(number):
            end()
        return since(began)

    def loads(self, batches: Sequence[Keys], request: Any) -> float:
        """The operation that `prepare_load` returns names the load at its end."""
        prepare, complete = self.manager.prepare_load, self.manager.complete_load
        began = now()
        for keys in batches:
            complete(prepare(keys, request))
        return since(began)

    def stores(self, batches: Sequence[Keys], request: Any) -> float:
        """The operation that `prepare_store` returns names the store at its end."""
        prepare, complete = self.manager.prepare_store, self.manager.complete_store
        began = now()
        for keys in batches:
            complete(prepare(keys, request))
        return since(began)

    def finishes(self, requests: Sequence[Any]) -> float:
        """The tiers are told when the step ends, so that belongs to it."""
        finish, end = self.manager.on_request_finished, self.manager.on_schedule_end
        began = now()
        for request in requests:
            finish(request)
        end()
        return since(began)
