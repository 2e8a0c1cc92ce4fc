"""Faulty tiers that break `T3`, `T4`, `T5`, `T10`, `T11`, `D1` or `D2`: bytes and claims."""

from __future__ import annotations

import time
from collections.abc import Collection
from pathlib import Path
from typing import Any

from xxhash import xxh3_128_digest

from ..impl.keys import BlockKey, fingerprint, namespace_digest
from ..impl.tiers.base import Claim, Key, LoadJob, RequestInfo, StoreJob
from .tier_specimen import Specimen, TierFault, fault_of

FAULTS: dict[str, TierFault] = {}
fault = fault_of(FAULTS)


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
class ClearsNothing(Specimen):
    """Goes on serving what it should forget: blocks of the weights before, say."""

    def clear(self) -> None:
        """Later, perhaps."""


@fault("T4-visible")
class ForgetsNamesAlone(Specimen):
    """After a clear nothing is found, and still loaded by who asks for it."""

    hidden: frozenset[bytes] = frozenset()

    def clear(self) -> None:
        """Hide what is there."""
        with self.lock:
            self.hidden = frozenset(self.known)
            self.visible.clear()

    def store(self, key: Key, slot: int) -> bool:
        """A new store shows it again."""
        self.hidden -= {self.digest(key)}
        return super().store(key, slot)

    def lookup(self, key: Key, request: RequestInfo) -> Claim:
        """What is hidden is not there."""
        return Claim.ABSENT if self.digest(key) in self.hidden else super().lookup(key, request)


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
