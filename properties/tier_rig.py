"""A secondary tier on the bench: its arena, and what a manager would do with the two.

The rig keeps the books that the contracts speak of: every job's one report, every row that no job
owns. What it finds wrong it raises as `TierBroken`, which names the contract.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence
from hashlib import blake2b
from itertools import count
from typing import Any

from ..impl.arena import Arena
from ..impl.counted import counted
from ..impl.tiers.base import NO_REQUEST, Claim, JobReport, Key, LoadJob, StoreJob, Tier

PATIENCE = 20.0
"""Seconds that a tier gets for what should take a moment."""
PAUSE = 0.0005


class TierBroken(Exception):
    """A tier does not keep a contract: its id, and what was seen."""

    def __init__(self, contract: str, said: str) -> None:
        super().__init__(f"{contract}: {said}")
        self.contract = contract
        self.said = said


class NotTried(Exception):
    """What a contract speaks of could not be brought about here; says why."""


def payload(key: Key, block_bytes: int) -> bytes:
    """Bytes that belong to `key` alone: the key's name first, then noise made from it."""
    name = repr(key).encode()
    noise = blake2b(name).digest()
    return (len(name).to_bytes(2, "little") + name + noise * (block_bytes // 64 + 1))[:block_bytes]


class TierRig:
    """A tier attached to an arena of `slots` rows.

    Args:
        tier: not attached yet.
        slots: rows of the arena.
        block_bytes: size of a row.
        patience: seconds to wait for a report or a decision.
    """

    def __init__(
        self, tier: Tier, *, slots: int = 16, block_bytes: int = 16384, patience: float = PATIENCE
    ) -> None:
        self.tier = tier
        self.block_bytes = block_bytes
        self.patience = patience
        self.arena = Arena(slots=slots, block_bytes=block_bytes)
        self.reports: dict[int, JobReport] = {}
        self.jobs: dict[int, tuple[Key, ...]] = {}
        self.verified: list[Key] = []
        self.raised: list[Exception] = []
        """What the tier raised: each was a failed call or job, as the protocol says."""
        self._ids = count(1)
        tier.attach(self.arena)

    # --- jobs ---

    def begin_store(self, keys: Sequence[Key], slots: Sequence[int] | None = None) -> int | None:
        """Fill rows with the keys' bytes and submit a store of them; None if all were refused."""
        slots = tuple(range(len(keys)) if slots is None else slots)
        for key, slot in zip(keys, slots, strict=True):
            self.arena.row(slot)[:] = payload(key, self.block_bytes)
        job = StoreJob(next(self._ids), tuple(keys), slots)
        try:
            refused = set(self.tier.submit_store(job))
        except Exception as error:  # by the protocol that is a failed job, and nothing has begun
            self.raised.append(error)
            return None
        taken = tuple(key for key in keys if key not in refused)
        if keys and not taken:
            return None
        self.jobs[job.job_id] = taken
        return job.job_id

    def begin_load(self, keys: Sequence[Key], slots: Sequence[int] | None = None) -> int:
        """Empty rows and submit a load of keys into them."""
        slots = tuple(range(len(keys)) if slots is None else slots)
        for slot in slots:
            if 0 <= slot < self.arena.slots:
                self.arena.row(slot)[:] = bytes(self.block_bytes)
        job = LoadJob(next(self._ids), tuple(keys), slots)
        self.jobs[job.job_id] = tuple(keys)
        try:
            self.tier.submit_load(job)
        except Exception as error:
            self.raised.append(error)
            self.reports[job.job_id] = JobReport(job.job_id, frozenset())
        return job.job_id

    def poll(self) -> list[JobReport]:
        """What the tier reports now; each job's report is taken once."""
        try:
            polled = self.tier.poll()
        except Exception as error:  # nothing this time
            self.raised.append(error)
            return []
        self.verified += polled.verified
        for report in polled.reports:
            if report.job_id in self.reports:
                raise TierBroken("T2-one-report", f"job {report.job_id} was reported twice")
            if report.job_id not in self.jobs:
                raise TierBroken(
                    "T2-one-report", f"job {report.job_id} was reported and never begun"
                )
            foreign = set(report.landed) - set(self.jobs[report.job_id])
            if foreign:
                raise TierBroken(
                    "T2-one-report",
                    f"job {report.job_id} was reported to have landed "
                    f"{counted(len(foreign), 'key')} that "
                    "it does not have",
                )
            self.reports[report.job_id] = report
        return list(polled.reports)

    def report(self, job_id: int, patience: float | None = None) -> JobReport:
        """Poll until a job is reported."""
        self.until(
            lambda: job_id in self.reports,
            "T2-one-report",
            f"job {job_id} was submitted and not reported",
            patience,
        )
        return self.reports[job_id]

    def store(self, *keys: Key) -> frozenset[Key]:
        """Store and wait; the keys that landed."""
        job_id = self.begin_store(keys)
        return frozenset() if job_id is None else frozenset(self.report(job_id).landed)

    def load(self, *keys: Key, contract: str = "T3-bytes") -> frozenset[Key]:
        """Load and wait; the keys that landed, whose bytes have been compared."""
        landed = frozenset(self.report(self.begin_load(keys)).landed)
        for slot, key in enumerate(keys):
            if key in landed:
                self.compare(key, slot, contract)
        return landed

    def compare(self, key: Key, slot: int, contract: str = "T3-bytes") -> None:
        """A row must hold the bytes of a key."""
        row = self.arena.row(slot)
        if row != payload(key, self.block_bytes):
            raise TierBroken(contract, f"the bytes loaded under {key!r} are {_whose(row)}")

    # --- lookups ---

    def ask(self, key: Key) -> Claim:
        """One lookup."""
        try:
            return self.tier.lookup(key, NO_REQUEST)
        except Exception as error:
            self.raised.append(error)
            return Claim.ABSENT

    def decide(self, key: Key, contract: str = "T4-visible") -> Claim:
        """Look up, as a scheduler does in step after step, until the tier knows."""
        claim = self.ask(key)
        ends = time.monotonic() + self.patience
        while claim is Claim.UNDECIDED:
            if time.monotonic() > ends:
                raise TierBroken(contract, f"{key!r} stayed undecided for {self.patience:g} s")
            time.sleep(PAUSE)
            self.poll()
            claim = self.ask(key)
        return claim

    def present(self, keys: Collection[Key]) -> set[Key]:
        """Which of the keys the tier claims."""
        return {key for key in keys if self.decide(key) is Claim.PRESENT}

    # --- waiting and ending ---

    def until(
        self, true: Callable[[], Any], contract: str, otherwise: str, patience: float | None = None
    ) -> None:
        """Poll until something is true."""
        patience = self.patience if patience is None else patience
        ends = time.monotonic() + patience
        while True:
            self.poll()
            if true():
                return
            if time.monotonic() > ends:
                raise TierBroken(contract, f"{otherwise} for {patience:g} s")
            time.sleep(PAUSE)

    def close(self) -> None:
        """End the tier."""
        self.tier.drain(1.0)
        self.tier.shutdown()


def _whose(row: memoryview) -> str:
    length = int.from_bytes(row[:2], "little")
    name = bytes(row[2 : 2 + length])
    if not any(row):
        return "all zero"
    if name and name.isascii() and payload_of(name, len(row)) == row:
        return f"those of {name.decode()}"
    return "those of no key"


def payload_of(name: bytes, block_bytes: int) -> bytes:
    """The payload of the key whose `repr` is `name`."""
    noise = blake2b(name).digest()
    return (len(name).to_bytes(2, "little") + name + noise * (block_bytes // 64 + 1))[:block_bytes]
