"""Built-in faulty tiers, each with the contract that must catch it: tests of the tests."""

from __future__ import annotations

import threading
import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from xxhash import xxh3_128_digest

from ..impl.keys import BlockKey, fingerprint, namespace_digest
from ..impl.tiers.base import Claim, Key, LoadJob, Poll, RequestInfo, StoreJob
from .tier_specimen import Specimen

_WAIT = 0.04


@dataclass(frozen=True)
class TierFault:
    """A faulty tier: its class is the factory."""

    name: str
    contract: str
    factory: type[Specimen]


FAULTS: dict[str, TierFault] = {}


def fault(contract: str) -> Any:
    """Register a faulty tier under its class's name."""

    def register(cls: type[Specimen]) -> type[Specimen]:
        FAULTS[cls.__name__] = TierFault(cls.__name__, contract, cls)
        return cls

    return register


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


@fault("T3-bytes")
class ChecksTheLengthOnly(Specimen):
    """The right number of bytes is good enough."""

    def is_good(self, data: bytes, digest: bytes) -> bool:
        """Count."""
        return len(data) == 16 + self.block_bytes


@fault("T3-bytes")
class ChecksTheFirstHalf(Specimen):
    """A checksum that does not cover everything."""

    def framed(self, row: memoryview) -> bytes:
        """Half a checksum."""
        return xxh3_128_digest(row[: len(row) // 2]) + row

    def is_good(self, data: bytes, digest: bytes) -> bool:
        """Half a check."""
        half = data[16 : 16 + self.block_bytes // 2]
        return len(data) == 16 + self.block_bytes and xxh3_128_digest(half) == data[:16]


@fault("T3-bytes")
class OneBadBlockFailsTheJob(Specimen):
    """All or nothing."""

    def end(self, job_id: int) -> None:
        """A load of several blocks has landed only if all have."""
        job = self.jobs[job_id]
        if job[2] and self.wanted.get(job_id, 0) != len(job[1]):
            job[1].clear()
        super().end(job_id)

    def submit_load(self, job: LoadJob) -> None:
        """Remember how many."""
        self.wanted[job.job_id] = len(job.keys)
        super().submit_load(job)

    def __init__(self, **arguments: Any) -> None:
        self.wanted: dict[int, int] = {}
        super().__init__(**arguments)


@fault("T4-visible")
class ClaimsAtSubmit(Specimen):
    """Counts a store as done when it is asked for."""

    def submit_store(self, job: StoreJob) -> Collection[Key]:
        """Claim."""
        refused = super().submit_store(job)
        with self.lock:
            for key in job.keys:
                self.visible.add(self.digest(key))
        return refused


@fault("T4-visible")
class RemembersAbsences(Specimen):
    """An "absent" is cached, and no store of its own ends that."""

    def __init__(self, **arguments: Any) -> None:
        self.absent: set[Key] = set()
        super().__init__(**arguments)

    def lookup(self, key: Key, request: RequestInfo) -> Claim:
        """As the last time."""
        if key in self.absent:
            return Claim.ABSENT
        found = super().lookup(key, request)
        if found is Claim.ABSENT:
            self.absent.add(key)
        return found


@fault("T5-withdraw")
class KeepsItsVerdict(Specimen):
    """Claims what it could not load, again and again."""

    def withdraw(self, key: Key) -> None:
        """Nothing is withdrawn."""


@fault("T5-withdraw")
class WithdrawsForGood(Specimen):
    """A failed load condemns the key: a new store changes nothing."""

    def claim(self, digest: bytes) -> None:
        """Store it, but do not believe it."""
        self.unseen.append(digest)
        self.known[digest] = self.block_bytes + 16
        self.make_room()


@fault("T6-own-arguments")
class SharesArguments(Specimen):
    """Keeps the caller's lists and reads them when it comes to it."""

    def submit_load(self, job: LoadJob) -> None:
        """Begin later."""
        later = threading.Timer(
            0.01, lambda: self.begin(job.job_id, self.loads, tuple(job.keys), tuple(job.slots))
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


@fault("T10-restart")
class StartsEmpty(Specimen):
    """Does not look at what is there, and deletes it."""

    def listing(self) -> list[str]:
        """Nothing."""
        for name in super().listing():
            (self.folder / name).unlink()
        return []


@fault("T10-restart")
class NamesFoldersByTheNamespace(Specimen):
    """A namespace becomes a path."""

    def __init__(self, *, block_bytes: int, root: Path, namespace: str) -> None:
        super().__init__(block_bytes=block_bytes, root=root, namespace=namespace)
        if namespace.startswith(".."):
            self.folder = root / "../escaped"
            self.folder.mkdir(exist_ok=True)


@fault("T10-restart")
class ForgetsTheSizeOfBlocks(Specimen):
    """The namespace alone names the folder."""

    def space(self, namespace: str) -> bytes:
        """Without the size."""
        return fingerprint(namespace_digest(namespace), 1)


@fault("T11-shared")
class WritesInPlace(Specimen):
    """No temporary, and a checksum that somebody else's file explains."""

    def store(self, key: Key, slot: int) -> bool:
        """Write piece by piece, where others read."""
        data = self.framed(self.arena.row(slot))
        with self.path(self.digest(key)).open("wb") as file:
            file.write(data[: len(data) // 2])
            file.flush()
            time.sleep(0.001)
            file.write(data[len(data) // 2 :])
        return True

    def is_good(self, data: bytes, digest: bytes) -> bool:
        """Fills up what is missing."""
        return super().is_good(data, digest) or (
            16 < len(data) < 16 + self.block_bytes and data[:16] != bytes(16)
        )

    def payload_of(self, data: bytes) -> bytes:
        """With zeros."""
        return data[16:].ljust(self.block_bytes, b"\0")


@fault("D1-bytes")
class MixesKeys(Specimen):
    """Now and then serves the neighbour."""

    turns = 0

    def load(self, key: Key, slot: int) -> bool:
        """Every hundredth time, another block."""
        self.turns += 1
        if self.turns % 100 == 0 and len(self.known) > 30:
            digest = next(iter(self.known))
            self.arena.row(slot)[:] = self.payload_of(self.path(digest).read_bytes())
            return True
        return super().load(key, slot)


@fault("D2-isolation")
class IgnoresTheGroup(Specimen):
    """Names a block by its hash."""

    def __init__(self, **arguments: Any) -> None:
        super().__init__(**arguments)
        whole = self.digest
        self.digest = lambda key: whole(key.block_hash if isinstance(key, BlockKey) else key)


@fault("D2-isolation")
class DropsTheSalt(Specimen):
    """Every tenant's blocks in one place."""

    def space(self, namespace: str) -> bytes:
        """Without the namespace, where that names a tenant."""
        name = "bench" if namespace.startswith("tenant") else namespace
        return super().space(name)
