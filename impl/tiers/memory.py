"""A secondary tier in this process's memory: the one to read first, and the one tests use.

It copies at submit and reports at the next poll. A stored block is found from its report on and not
before: the manager may only count on what it was told.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Sequence

from ..arena import Arena
from ..errors import ConfigError
from .base import (
    Claim,
    JobReport,
    Key,
    LoadJob,
    Poll,
    RequestInfo,
    StoreJob,
    StorePolicy,
    claims_all_but,
)


class MemoryTier:
    """Keeps copies of blocks in a dictionary, at most `capacity_blocks` of them.

    When it is full the block that was stored or loaded longest ago goes.

    Args:
        name: what tier filters and messages call it; unique within a manager.
        capacity_blocks: how many blocks it keeps; no bound when None.

    Raises:
        ConfigError: the capacity is not a whole number of at least 1.
    """

    claims = claims_all_but("T10-restart", "T11-shared")

    def __init__(self, name: str = "memory", *, capacity_blocks: int | None = None) -> None:
        if capacity_blocks is not None and (
            not isinstance(capacity_blocks, int)
            or isinstance(capacity_blocks, bool)
            or capacity_blocks < 1
        ):
            raise ConfigError(
                f"capacity_blocks must be a whole number of at least 1, or None for no bound, "
                f"not {capacity_blocks!r}"
            )
        self.name = name
        self._capacity = capacity_blocks
        self._blocks: OrderedDict[Key, bytes] = OrderedDict()
        self._reports: list[JobReport] = []
        self._arriving: list[tuple[Key, bytes]] = []
        """Blocks that were stored since the last poll, which is where they become visible."""
        self._storing: set[int] = set()
        """Store jobs that are reported at the next poll."""
        self._arena: Arena | None = None

    def __len__(self) -> int:
        """How many blocks it keeps."""
        return len(self._blocks)

    @property
    def used_bytes(self) -> int:
        """Bytes of the blocks it keeps."""
        return sum(map(len, self._blocks.values()))

    @property
    def capacity_bytes(self) -> int | None:
        """Bound on `used_bytes`; None: no bound."""
        arena, blocks = self._arena, self._capacity
        return None if arena is None or blocks is None else blocks * arena.block_bytes

    def attach(self, arena: Arena) -> None:
        """Take the primary tier's memory: row i is slot i."""
        self._arena = arena

    def lookup(self, key: Key, request: RequestInfo) -> Claim:
        """This tier always knows at once."""
        return Claim.PRESENT if key in self._blocks else Claim.ABSENT

    def submit_load(self, job: LoadJob) -> None:
        """Copy the blocks into their rows. A block that has gone since the lookup is a failed
        key: the others land."""
        arena = self._memory()
        landed = []
        for key, slot in zip(job.keys, job.slots, strict=True):
            kept = self._blocks.get(key)
            if kept is not None:
                arena.row(slot)[:] = kept
                self._blocks.move_to_end(key)
                landed.append(key)
        self._reports.append(JobReport(job.job_id, frozenset(landed)))

    def submit_store(self, job: StoreJob) -> Collection[Key]:
        """Copy the rows. Nothing is ever refused: there is no queue that could be full."""
        arena = self._memory()
        for key, slot in zip(job.keys, job.slots, strict=True):
            self._arriving.append((key, bytes(arena.row(slot))))
        self._storing.add(job.job_id)
        self._reports.append(JobReport(job.job_id, frozenset(job.keys)))
        return ()

    def poll(self) -> Poll:
        """Each job's report, once."""
        for key, block in self._arriving:
            self._blocks[key] = block
            self._blocks.move_to_end(key)
            if self._capacity is not None and len(self._blocks) > self._capacity:
                self._blocks.popitem(last=False)
        self._arriving.clear()
        self._storing.clear()
        reports, self._reports = self._reports, []
        return Poll(reports)

    def on_new_request(self, request: RequestInfo) -> StorePolicy:
        """Nothing to prepare; new blocks are all it wants."""
        return StorePolicy.NEW_BLOCKS

    def on_request_finished(self, request: RequestInfo) -> None:
        """Nothing was kept for the request."""

    def clear(self) -> None:
        """Forget every block, those that have just been stored too: their stores have failed."""
        self._blocks.clear()
        if self._arriving:
            self._arriving.clear()
            self._reports = [
                JobReport(r.job_id, frozenset()) if r.job_id in self._storing else r
                for r in self._reports
            ]

    def drain(self, timeout: float) -> Sequence[int]:
        """No job runs: each has ended when its submit returned."""
        return ()

    def shutdown(self) -> None:
        """Let go of the primary tier's memory. The blocks stay: another manager may take them."""
        self._arena = None

    def _memory(self) -> Arena:
        if self._arena is None:
            raise ConfigError(f"tier {self.name!r} has no arena; give the tier to a manager first")
        return self._arena
