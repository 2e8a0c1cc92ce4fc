"""A small secondary tier: blocks in a dictionary, moved by `poll`, at most so many of them."""

from collections import OrderedDict, deque
from collections.abc import Collection, Hashable, Sequence
from pathlib import Path

from tierproof import Arena
from tierproof.impl.tiers.base import (
    Claim,
    JobReport,
    LoadJob,
    Poll,
    RequestInfo,
    StoreJob,
    StorePolicy,
)

Key = Hashable
Moves = tuple[int, list[tuple[Key, int]]]
"""A job's id, and the slot of each of its keys: the caller may change its lists."""
CAPACITY = 32


class SmallTier:
    """Loads go before stores; nothing outlives the process, so two contracts are not claimed."""

    name = "small"
    claims = (
        *("T1-nonblocking", "T2-one-report", "T3-bytes", "T4-visible", "T5-withdraw"),
        *("T6-own-arguments", "T7-bounded", "T8-drain", "T9-raises", "D1-bytes", "D2-isolation"),
    )

    outage = None
    """What stops its I/O: nothing, as it has none."""

    def __init__(self, *, block_bytes: int, root: Path, namespace: str) -> None:
        self.capacity_bytes = CAPACITY * block_bytes
        self._blocks: OrderedDict[Key, bytes] = OrderedDict()
        self._loads: deque[Moves] = deque()
        self._stores: deque[Moves] = deque()
        self._reports: list[JobReport] = []

    @property
    def used_bytes(self) -> int:
        """Bytes of all blocks."""
        return sum(map(len, self._blocks.values()))

    def attach(self, arena: Arena) -> None:
        """Take the primary tier's memory."""
        self._arena = arena

    def lookup(self, key: Key, request: RequestInfo) -> Claim:
        """This tier always knows at once."""
        return Claim.PRESENT if key in self._blocks else Claim.ABSENT

    def submit_load(self, job: LoadJob) -> None:
        """The next poll moves the bytes."""
        self._loads.append((job.job_id, list(zip(job.keys, job.slots, strict=True))))

    def submit_store(self, job: StoreJob) -> Collection[Key]:
        """Take the job, unless too many wait."""
        if len(self._stores) >= CAPACITY:
            return job.keys
        self._stores.append((job.job_id, list(zip(job.keys, job.slots, strict=True))))
        return ()

    def poll(self) -> Poll:
        """Do what waits, and report it."""
        self._work()
        reports, self._reports = self._reports, []
        return Poll(reports)

    def on_new_request(self, request: RequestInfo) -> StorePolicy:
        """New blocks only."""
        return StorePolicy.NEW_BLOCKS

    def on_request_finished(self, request: RequestInfo) -> None:
        """Nothing is kept for a request."""

    def clear(self) -> None:
        """Forget every block."""
        self._blocks.clear()

    def drain(self, timeout: float) -> Sequence[int]:
        """Nothing runs beside the caller: do what waits, name nothing."""
        self._work()
        return ()

    def shutdown(self) -> None:
        """Nothing to stop."""

    def _work(self) -> None:
        for queue, move in ((self._loads, self._load), (self._stores, self._store)):
            while queue:
                job_id, moves = queue.popleft()
                landed = frozenset(key for key, slot in moves if move(key, slot))
                self._reports.append(JobReport(job_id, landed))

    def _load(self, key: Key, slot: int) -> bool:
        block = self._blocks.get(key)
        if block is None:
            return False
        try:
            self._arena.row(slot)[:] = block
        except IndexError:  # what fails is this key, and nothing else
            return False
        self._blocks.move_to_end(key)
        return True

    def _store(self, key: Key, slot: int) -> bool:
        try:
            self._blocks[key] = bytes(self._arena.row(slot))
        except IndexError:
            return False
        self._blocks.move_to_end(key)
        while self.used_bytes > self.capacity_bytes:
            self._blocks.popitem(last=False)
        return True
