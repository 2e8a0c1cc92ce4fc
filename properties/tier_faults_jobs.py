"""Faulty tiers that break `T1`, `T2`, `T6`, `T7`, `T8` or `T9`: calls, jobs, slots, queues."""

from __future__ import annotations

import threading
import time
from collections.abc import Collection, Sequence
from typing import Any

from ..impl.tiers.base import Claim, Key, LoadJob, Poll, RequestInfo, StoreJob
from .tier_specimen import Specimen, TierFault, fault_of

FAULTS: dict[str, TierFault] = {}
fault = fault_of(FAULTS)
_WAIT = 0.04


@fault("T1-nonblocking")
class LoadsInSubmit(Specimen):
    """Does its I/O where it is asked to begin it."""

    def submit_load(self, job: LoadJob) -> None:
        """Wait."""
        time.sleep(_WAIT)
        super().submit_load(job)


@fault("T1-nonblocking")
class AsksTheDiskInLookup(Specimen):
    """Answers a lookup by looking."""

    def lookup(self, key: Key, request: RequestInfo) -> Claim:
        """Wait."""
        time.sleep(_WAIT)
        return super().lookup(key, request)


@fault("T1-nonblocking")
class PollWaits(Specimen):
    """Waits for the next result."""

    def poll(self) -> Poll:
        """Wait."""
        time.sleep(_WAIT)
        return super().poll()


@fault("T2-one-report")
class ReportsTwice(Specimen):
    """A retried completion."""

    def poll(self) -> Poll:
        """Every report, twice."""
        reports = list(super().poll().reports)
        return Poll(reports + reports)


@fault("T2-one-report")
class ForgetsEmptyJobs(Specimen):
    """A job without blocks has no last block."""

    def begin(self, job_id: int, queue: Any, keys: Any, slots: Any) -> None:
        """Nothing to do, nothing to say."""
        if keys:
            super().begin(job_id, queue, keys, slots)


@fault("T2-one-report")
class ReportsLoadsEarly(Specimen):
    """Says that a block has landed when it knows that it will."""

    def load(self, key: Key, slot: int) -> bool:
        """Leave the copying to another thread."""
        if not self.path(self.digest(key)).exists():
            return False
        threading.Timer(0.003, super().load, (key, slot)).start()
        return True


@fault("T2-one-report")
class ReportsStoresEarly(Specimen):
    """Says that a block is stored when it has opened the file."""

    def store(self, key: Key, slot: int) -> bool:
        """Leave the reading of the row to another thread."""
        threading.Timer(0.003, super().store, (key, slot)).start()
        time.sleep(0.001)
        return True


@fault("T2-one-report")
class ReportsUnknownKeysAsLanded(Specimen):
    """Reports jobs, not keys."""

    def load(self, key: Key, slot: int) -> bool:
        """All is well."""
        super().load(key, slot)
        return True


@fault("T6-own-arguments")
class SharesArguments(Specimen):
    """Keeps the arguments of the latest load in one place, and reads them when it comes to it."""

    latest: LoadJob

    def submit_load(self, job: LoadJob) -> None:
        """Begin later."""
        self.latest = job
        later = threading.Timer(
            0.01,
            lambda: self.begin(job.job_id, self.loads, self.latest.keys, self.latest.slots),
        )
        later.start()


@fault("T6-own-arguments")
class ReadsAhead(Specimen):
    """Fills the next row, too: it will be wanted."""

    def load(self, key: Key, slot: int) -> bool:
        """One more."""
        if slot + 1 < self.arena.slots:
            super().load(key, slot + 1)
        return super().load(key, slot)


@fault("T7-bounded")
class NeverEvicts(Specimen):
    """A capacity that only counts."""

    def make_room(self) -> None:
        """There is always room."""


@fault("T7-bounded")
class FirstComeFirstServed(Specimen):
    """One queue for loads and stores."""

    in_a_row = 0

    def store(self, key: Key, slot: int) -> bool:
        """As on a slow disk."""
        time.sleep(0.001)
        return super().store(key, slot)


@fault("T7-bounded")
class CountsWhatItDeleted(Specimen):
    """A counter of its own for used bytes, that a clear does not lower."""

    def clear(self) -> None:
        """Delete, and count on."""
        with self.lock:
            self.generation += 1
            for digest in self.known:
                self.path(digest).unlink(missing_ok=True)
            self.failed.update(self.known)


@fault("T8-drain")
class DrainReturnsAtOnce(Specimen):
    """Names nothing, waits for nothing."""

    def drain(self, timeout: float) -> Sequence[int]:
        """All is well."""
        return ()

    def load(self, key: Key, slot: int) -> bool:
        """As from a slow disk."""
        time.sleep(0.01)
        return super().load(key, slot)


@fault("T8-drain")
class DrainTakesItsTime(Specimen):
    """A bound that is not kept."""

    def drain(self, timeout: float) -> Sequence[int]:
        """Wait."""
        if self.jobs:
            time.sleep(timeout + 4.0)
        return super().drain(timeout)


@fault("T8-drain")
class DrainNamesWhatHasEnded(Specimen):
    """A job that was reported is running for ever: its slot would stay out of use."""

    first: int | None = None

    def submit_store(self, job: StoreJob) -> Collection[Key]:
        """Remember the first job, which has ended long before anything is drained."""
        self.first = job.job_id if self.first is None else self.first
        return super().submit_store(job)

    def drain(self, timeout: float) -> Sequence[int]:
        """Wait, and name that job in any case."""
        running = super().drain(timeout)
        return [*running, *(() if self.first is None else (self.first,))]


@fault("T9-raises")
class WorkerDies(Specimen):
    """One exception ends the loop, quietly."""

    def work(self) -> None:
        """Until the first failure."""
        try:
            super().work()
        except IndexError:
            return

    def run(self, is_load: bool, job_id: int, key: Key, slot: int) -> None:
        """Without a net."""
        landed = False
        try:
            landed = self.load(key, slot) if is_load else self.store(key, slot)
        finally:
            self.count(job_id, key, landed)


@fault("T9-raises")
class SwitchesItselfOff(Specimen):
    """After trouble it does nothing any more."""

    off = False

    def load(self, key: Key, slot: int) -> bool:
        """Never again."""
        self.off = self.off or slot >= self.arena.slots
        return not self.off and super().load(key, slot)

    def store(self, key: Key, slot: int) -> bool:
        """Never again."""
        return not self.off and super().store(key, slot)
