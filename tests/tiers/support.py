"""What the tier tests share: a tier with an arena and a scheduler's patience, and faulty I/O."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from hashlib import blake2b
from itertools import count
from pathlib import Path
from statistics import median
from typing import Any, Generic, TypeVar

from tierproof.impl.arena import Arena
from tierproof.impl.tiers.base import (
    NO_REQUEST,
    Claim,
    JobReport,
    Key,
    LoadJob,
    StoreJob,
    Tier,
)
from tierproof.impl.tiers.file_io import FileIO
from tierproof.impl.tiers.files import FileTier

PATIENCE = 10.0


def payload(key: Key, block_bytes: int) -> bytes:
    """Bytes that belong to `key` alone: the key's name first, then noise made from it."""
    name = repr(key).encode()
    noise = blake2b(name).digest()
    return (len(name).to_bytes(2, "little") + name + noise * (block_bytes // 64 + 1))[:block_bytes]


def eventually(what: Callable[[], Any], message: str, seconds: float = PATIENCE) -> Any:
    """The first true value of `what`."""
    ends = time.monotonic() + seconds
    while not (value := what()):
        assert time.monotonic() < ends, f"not within {seconds} s: {message}"
        time.sleep(0.001)
    return value


def usual_seconds(calls: Callable[[int], Sequence[Callable[[], Any]]], rounds: int) -> float:
    """How long the slowest of several calls usually takes, of so many rounds of them.

    A busy machine holds up any call now and then; one that waits does so every time.
    """

    def taken(call: Callable[[], Any]) -> float:
        began = time.perf_counter()
        call()
        seconds = time.perf_counter() - began
        assert seconds < PATIENCE, "a call waited for what does not answer"
        return seconds

    took = [[taken(call) for call in calls(number)] for number in range(rounds)]
    usual: list[float] = [median(kind) for kind in zip(*took, strict=True)]
    return max(usual)


T = TypeVar("T", bound=Tier)


class Rig(Generic[T]):
    """A tier, its arena, and what a manager would do with them."""

    def __init__(self, tier: T, *, slots: int = 8, block_bytes: int = 4096) -> None:
        self.tier = tier
        self.block_bytes = block_bytes
        self.arena = Arena(slots=slots, block_bytes=block_bytes)
        self.reports: dict[int, JobReport] = {}
        self.verified: list[Key] = []
        self.ids = count(1)
        tier.attach(self.arena)

    def poll(self) -> list[Key]:
        """Absorb what the tier reports, each job once; the keys verified so far."""
        polled = self.tier.poll()
        self.verified += polled.verified
        for report in polled.reports:
            assert report.job_id not in self.reports, f"job {report.job_id} was reported twice"
            self.reports[report.job_id] = report
        return self.verified

    def fill(self, slot: int, key: Key) -> None:
        """Put the key's bytes into a row."""
        self.arena.row(slot)[:] = payload(key, self.block_bytes)

    def begin_store(self, keys: Sequence[Key]) -> int:
        """Submit a store of keys from rows 0..; returns the job's id."""
        job_id = next(self.ids)
        for slot, key in enumerate(keys):
            self.fill(slot, key)
        refused = self.tier.submit_store(StoreJob(job_id, tuple(keys), tuple(range(len(keys)))))
        assert not refused, f"refused {len(refused)} keys"
        return job_id

    def begin_load(self, keys: Sequence[Key], slots: Sequence[int] | None = None) -> int:
        """Submit a load of keys into rows 0.. (or `slots`), emptied first; returns its id."""
        job_id = next(self.ids)
        slots = tuple(range(len(keys)) if slots is None else slots)
        for slot in slots:
            self.arena.row(slot)[:] = bytes(self.block_bytes)
        self.tier.submit_load(LoadJob(job_id, tuple(keys), slots))
        return job_id

    def report(self, job_id: int) -> JobReport:
        """Poll until the job is reported."""

        def reported() -> JobReport | None:
            self.poll()
            return self.reports.get(job_id)

        report = eventually(reported, f"a report of job {job_id}")
        assert isinstance(report, JobReport)
        return report

    def store(self, *keys: Key) -> frozenset[Key]:
        """Store and wait; the keys that landed."""
        return self.report(self.begin_store(keys)).landed

    def load(self, *keys: Key) -> frozenset[Key]:
        """Load and wait; the keys that landed, whose bytes have been checked."""
        landed = self.report(self.begin_load(keys)).landed
        for slot, key in enumerate(keys):
            if key in landed:
                assert bytes(self.arena.row(slot)) == payload(key, self.block_bytes), (
                    "a landed key's bytes are not the bytes stored under it"
                )
        return landed

    def ask(self, key: Key) -> Claim:
        """One lookup."""
        return self.tier.lookup(key, NO_REQUEST)

    def decide(self, key: Key) -> Claim:
        """Look up, as a scheduler does in step after step, until the tier knows."""

        def decided() -> Claim | None:
            self.poll()
            claim = self.ask(key)
            return None if claim is Claim.UNDECIDED else claim

        claim = eventually(decided, "a decided lookup")
        assert isinstance(claim, Claim)
        return claim

    def close(self) -> None:
        """End the tier."""
        self.tier.drain(PATIENCE)
        self.tier.shutdown()


@contextmanager
def file_rig(
    root: Path, *, slots: int = 8, block_bytes: int = 4096, **options: Any
) -> Iterator[Rig[FileTier]]:
    """A file tier below `root`, ended with the block."""
    rig = Rig(FileTier(root, **options), slots=slots, block_bytes=block_bytes)
    try:
        yield rig
    finally:
        rig.close()


def block_files(root: Path) -> list[Path]:
    """All block files below a root, oldest first."""
    found = []
    for path in _files(root):
        if path.suffix == ".block":
            with suppress(FileNotFoundError):  # it went while we looked
                found.append((path.stat().st_mtime_ns, path))
    return [path for _, path in sorted(found)]


def leftovers(root: Path) -> list[Path]:
    """Files below a root that are neither blocks nor part of the tier's own bookkeeping."""
    return [
        path
        for path in _files(root)
        if path.suffix != ".block" and path.name not in ("usage", "lock")
    ]


def _files(root: Path) -> Iterator[Path]:
    for folder, _, names in os.walk(root):  # unlike rglob, it does not mind what vanishes
        yield from (Path(folder, name) for name in names)


class Faults(FileIO):
    """File I/O with a fault before a call: `faults["pwritev"] = callable(*arguments)`.

    The callable raises, waits, or returns None to let the call go on.
    """

    def __init__(self, **faults: Callable[..., None]) -> None:
        self.faults = faults
        self.calls: list[str] = []

    def __getattribute__(self, name: str) -> Any:
        value = super().__getattribute__(name)
        if name.startswith("_") or name in ("faults", "calls"):
            return value

        def call(*arguments: Any) -> Any:
            self.calls.append(name)
            if fault := self.faults.get(name):
                fault(*arguments)
            return value(*arguments)

        return call


class Gate:
    """A call that waits until it is let go: I/O that has stopped answering."""

    def __init__(self, when: Callable[..., bool] = lambda *_: True) -> None:
        self.reached = threading.Event()
        self.open = threading.Event()
        self._when = when

    def __call__(self, *arguments: Any) -> None:
        if self._when(*arguments):
            self.reached.set()
            assert self.open.wait(60), "a test left its gate shut"


def failing(code: int, times: Collection[int] | None = None) -> Callable[..., None]:
    """A fault that raises OSError `code`: always, or in the calls numbered from 1."""
    calls = count(1)

    def fault(*_: Any) -> None:
        if times is None or next(calls) in times:
            raise OSError(code, os.strerror(code))

    return fault
