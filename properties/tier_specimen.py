"""A small tier that keeps every contract: files, one worker. The built-in faults are its breaks.

It is written for being broken in one place, not for speed: what each step does is a method of its
own, and a fault overrides one.
"""

from __future__ import annotations

import os
import secrets
import threading
from collections import OrderedDict, deque
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from xxhash import xxh3_128_digest

from ..impl.arena import Arena
from ..impl.keys import fingerprint, key_digester, namespace_digest
from ..impl.tiers.base import Claim, JobReport, Key, LoadJob, Poll, RequestInfo, StoreJob
from ..impl.tiers.base import StorePolicy as Policy

Unit = tuple[Any, Key, int]
_QUEUE = 32
_CAPACITY = 64


class Specimen:
    """Keeps blocks as `root/<namespace>/<digest>`: a checksum, then the payload."""

    name = "specimen"
    in_a_row = 4
    """Loads before a waiting store has its turn."""

    def __init__(self, *, block_bytes: int, root: Path, namespace: str) -> None:
        self.block_bytes = block_bytes
        self.mark = self.space(namespace)
        self.folder = root / self.mark.hex()[:32]
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.capacity_bytes = _CAPACITY * (block_bytes + 16)
        self.digest = key_digester(self.mark)
        self.lock = threading.Condition()
        self.loads: deque[Unit] = deque()
        self.stores: deque[Unit] = deque()
        self.jobs: dict[int, list[Any]] = {}
        self.reports: list[JobReport] = []
        self.known: OrderedDict[bytes, int] = OrderedDict()
        self.visible: set[bytes] = set()
        self.unseen: list[bytes] = []
        self.failed: set[bytes] = set()
        self.generation = 0
        self.row_loads = 0
        self.stopping = False
        self.thread: threading.Thread | None = None

    def space(self, namespace: str) -> bytes:
        """What stands for the namespace and the size of blocks."""
        return fingerprint(namespace_digest(namespace), self.block_bytes)

    # --- the scheduler's side ---

    def attach(self, arena: Arena) -> None:
        """Take the arena, list the folder, start the worker."""
        self.arena = arena
        for name in self.listing():
            self.known[bytes.fromhex(name)] = self.block_bytes + 16
        self.visible.update(self.known)
        self.thread = threading.Thread(target=self.work, daemon=True)
        self.thread.start()

    def listing(self) -> list[str]:
        """Names of the blocks in the folder."""
        return [name for name in os.listdir(self.folder) if "." not in name]

    @property
    def used_bytes(self) -> int:
        """Bytes of all blocks."""
        with self.lock:
            return sum(self.known.values())

    def lookup(self, key: Key, request: RequestInfo) -> Claim:
        """From memory."""
        digest = self.digest(key)
        there = digest in self.visible and digest not in self.failed
        return Claim.PRESENT if there else Claim.ABSENT

    def submit_load(self, job: LoadJob) -> None:
        """Queue the job's blocks."""
        self.begin(job.job_id, self.loads, tuple(job.keys), tuple(job.slots))

    def submit_store(self, job: StoreJob) -> Collection[Key]:
        """Queue the job's blocks, or refuse them all."""
        if len(self.stores) + len(job.keys) > self.queue_limit():
            return job.keys
        self.begin(job.job_id, self.stores, tuple(job.keys), tuple(job.slots))
        return ()

    def queue_limit(self) -> int:
        """How many stores may wait."""
        return _QUEUE

    def begin(self, job_id: int, queue: deque[Unit], keys: Any, slots: Any) -> None:
        """A job begins: [blocks left, landed keys, is a load, generation]."""
        with self.lock:
            self.jobs[job_id] = [len(keys), [], queue is self.loads, self.generation]
            queue.extend((job_id, key, slot) for key, slot in zip(keys, slots, strict=True))
            if not keys:
                self.end(job_id)
            self.lock.notify_all()

    def poll(self) -> Poll:
        """Reports; a store is claimed from its report on, a failed load no more."""
        with self.lock:
            reports, self.reports = self.reports, []
            self.visible.update(digest for digest in self.unseen if digest in self.known)
            self.unseen.clear()
        return Poll(reports)

    def on_new_request(self, request: RequestInfo) -> Policy:
        """New blocks only."""
        return Policy.NEW_BLOCKS

    def on_request_finished(self, request: RequestInfo) -> None:
        """Nothing to do."""

    def clear(self) -> None:
        """Forget and delete everything."""
        with self.lock:
            self.generation += 1
            for digest in list(self.known):
                self.drop(digest)

    def drain(self, timeout: float) -> Sequence[int]:
        """Wait for all jobs."""
        with self.lock:
            self.lock.wait_for(lambda: not self.jobs, timeout)
            return list(self.jobs)

    def shutdown(self) -> None:
        """End the worker."""
        with self.lock:
            self.stopping = True
            self.lock.notify_all()
        if self.thread is not None:
            self.thread.join(2.0)

    # --- the worker ---

    def work(self) -> None:
        """Take units until the end."""
        while True:
            with self.lock:
                self.lock.wait_for(lambda: self.loads or self.stores or self.stopping)
                if self.stopping:
                    return
                is_load, unit = self.next()
            self.run(is_load, *unit)

    def next(self) -> tuple[bool, Unit]:
        """Loads first, but not for ever."""
        if self.loads and (not self.stores or self.row_loads < self.in_a_row):
            self.row_loads += 1
            return True, self.loads.popleft()
        self.row_loads = 0
        return False, self.stores.popleft()

    def run(self, is_load: bool, job_id: int, key: Key, slot: int) -> None:
        """One block; whatever happens, it is counted."""
        try:
            landed = self.load(key, slot) if is_load else self.store(key, slot)
        except Exception:
            landed = False
        self.count(job_id, key, landed)

    def count(self, job_id: int, key: Key, landed: bool) -> None:
        """A block has ended, and perhaps its job."""
        with self.lock:
            job = self.jobs[job_id]
            job[0] -= 1
            if landed and job[3] == self.generation:
                job[1].append(key)
            elif job[2]:
                self.withdraw(key)
            if job[0] == 0:
                self.end(job_id)

    def withdraw(self, key: Key) -> None:
        """A load has failed."""
        self.failed.add(self.digest(key))

    def end(self, job_id: int) -> None:
        """Report a job; what it stored is claimed from the next poll on."""
        _, landed, is_load, _ = self.jobs.pop(job_id)
        if not is_load:
            for key in landed:
                self.claim(self.digest(key))
        self.reports.append(JobReport(job_id, frozenset(landed)))
        self.lock.notify_all()

    def claim(self, digest: bytes) -> None:
        """A store is about to be reported."""
        self.failed.discard(digest)
        self.unseen.append(digest)
        self.known[digest] = self.block_bytes + 16
        self.make_room()

    def make_room(self) -> None:
        """Keep the capacity."""
        while sum(self.known.values()) > self.capacity_bytes:
            self.drop(next(iter(self.known)))

    def drop(self, digest: bytes) -> None:
        """Delete a block."""
        self.known.pop(digest, None)
        self.visible.discard(digest)
        self.path(digest).unlink(missing_ok=True)

    def path(self, digest: bytes) -> Path:
        """Where a block is."""
        return self.folder / digest.hex()

    def store(self, key: Key, slot: int) -> bool:
        """Write a block whole: under another name first."""
        temporary = self.folder / f"{secrets.token_hex(8)}.tmp"
        temporary.write_bytes(self.framed(self.arena.row(slot)))
        temporary.rename(self.path(self.digest(key)))
        return True

    def framed(self, row: memoryview) -> bytes:
        """What is written for a row."""
        return xxh3_128_digest(row) + row

    def load(self, key: Key, slot: int) -> bool:
        """Read a block, and believe nothing."""
        row = self.arena.row(slot)
        digest = self.digest(key)
        try:
            data = self.path(digest).read_bytes()
        except FileNotFoundError:
            return False
        if not self.is_good(data, digest):
            return False
        row[:] = self.payload_of(data)
        return True

    def payload_of(self, data: bytes) -> bytes:
        """The payload in what was read."""
        return data[16:]

    def is_good(self, data: bytes, digest: bytes) -> bool:
        """Whether what was read is what was written."""
        # The name is part of the checksum's meaning only because nobody renames files here;
        # `foreign` damage replaces the payload and not the checksum.
        return len(data) == 16 + self.block_bytes and xxh3_128_digest(data[16:]) == data[:16]


@dataclass(frozen=True)
class TierFault:
    """A faulty tier: its class is the factory."""

    name: str
    contract: str
    factory: type[Specimen]


def fault_of(faults: dict[str, TierFault]) -> Callable[[str], Any]:
    """A decorator that enters a class under its name, with the contract that it breaks."""

    def fault(contract: str) -> Any:
        def enter(cls: type[Specimen]) -> type[Specimen]:
            faults[cls.__name__] = TierFault(cls.__name__, contract, cls)
            return cls

        return enter

    return fault
