"""Long soaks: a plain loop of random calls, faults and time on the manager with real tiers.

Nothing is compared with the model here; what is checked after every call is what must hold whatever
happens: the bytes of every HIT, and that slots, pins, permits and promises add up. A soak is cut
into rounds of a fixed size, each with a fresh manager and a seed of its own, so a soak that was
stopped goes on at the round that it was in, and one bad round can be repeated alone.
"""

from __future__ import annotations

import os
import random
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..impl.arena import Arena
from ..impl.errors import ContractViolation, TierError
from ..impl.keys import BlockKey
from ..impl.manager import TieredOffloadingManager
from ..impl.operations import LoadOperation, StoreOperation
from ..impl.requests import Request
from ..impl.tiers.base import Claim, Key, LoadJob, Poll, RequestInfo, StoreJob, StorePolicy, Tier
from ..impl.tiers.block_file import file_bytes
from ..impl.tiers.files import FileTier
from ..impl.tiers.memory import MemoryTier
from ..impl.vocabulary import LookupResult
from .under_test import garbage, payload

Progress = Callable[[int, int], None]

ROUND = 50_000
"""Operations of a round."""
SLOTS, BLOCK_BYTES, KEYS, REQUESTS = 12, 256, 48, 5
TROUBLE = 0.01
"""How likely a call of a tier fails."""


class ShakyTier:
    """A tier of which now and then a call raises, or a store is refused."""

    def __init__(self, inner: Tier, rng: random.Random) -> None:
        self.inner, self.rng, self.name = inner, rng, inner.name

    def _maybe_raise(self, likely: float = TROUBLE) -> None:
        if self.rng.random() < likely:
            raise TierError(f"tier {self.name} was told to fail")

    def lookup(self, key: Any, request: RequestInfo) -> Claim:
        """The tier's answer, or an exception."""
        self._maybe_raise()
        return self.inner.lookup(key, request)

    def submit_load(self, job: LoadJob) -> None:
        """Pass a load on, or raise."""
        self._maybe_raise()
        self.inner.submit_load(job)

    def submit_store(self, job: StoreJob) -> Collection[Any]:
        """Pass a store on, refuse all of it, or raise."""
        self._maybe_raise()
        return job.keys if self.rng.random() < TROUBLE else self.inner.submit_store(job)

    def poll(self) -> Poll:
        """The tier's reports, or an exception."""
        self._maybe_raise()
        return self.inner.poll()

    def on_new_request(self, request: RequestInfo) -> StorePolicy:
        """Now and then the tier wants the request's whole context."""
        policy = self.inner.on_new_request(request)
        return StorePolicy.WHOLE_REQUEST if self.rng.random() < 0.2 else policy

    def attach(self, arena: Arena) -> None:
        """As the tier does."""
        self.inner.attach(arena)

    def on_request_finished(self, request: RequestInfo) -> None:
        """As the tier does."""
        self.inner.on_request_finished(request)

    def clear(self) -> None:
        """As the tier does."""
        self.inner.clear()

    def drain(self, timeout: float) -> Sequence[int]:
        """As the tier does."""
        return self.inner.drain(timeout)

    def shutdown(self) -> None:
        """As the tier does."""
        self.inner.shutdown()


@dataclass
class SoakResult:
    """What a soak has seen; numbers only, so that it can be kept and gone on from."""

    seed: int = 0
    operations: int = 0
    rounds: int = 0
    hits_read: int = 0
    first_kib: int = 0
    """Memory after the first round, in KiB; `last_kib` after the last one."""
    last_kib: int = 0
    first_files: int = 0
    last_files: int = 0
    calls: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    """What did not hold, each with the seed, round and operation that show it again."""
    seconds: float = 0.0


class Round:
    """One manager and its surroundings, for `ROUND` operations."""

    def __init__(self, folder: Path, seed: str) -> None:
        self.rng = random.Random(seed)
        self.now = 0.0
        disk = FileTier(folder, capacity_bytes=80 * file_bytes(BLOCK_BYTES), threads=1)
        tiers: list[Tier] = [MemoryTier("memory", capacity_blocks=40), disk]
        self.manager = TieredOffloadingManager(
            slots=SLOTS,
            block_bytes=BLOCK_BYTES,
            tiers=[ShakyTier(tier, self.rng) for tier in tiers],
            clock=lambda: self.now,
        )
        self.probe = self.manager.probe()
        self.keys: list[Key] = [BlockKey(number.to_bytes(8, "big")) for number in range(KEYS)]
        self.bytes = {key: payload(str(i), BLOCK_BYTES) for i, key in enumerate(self.keys)}
        self.requests: list[Request] = []
        self.loads: list[LoadOperation] = []
        self.stores: list[StoreOperation] = []
        self.resident: set[Key] = set()
        self.hits_read = 0
        self.calls: Counter[str] = Counter()

    # -- one operation -----------------------------------------------------------------------------

    def step(self) -> None:
        """One random call; then everything must add up.

        Raises:
            AssertionError: it does not.
        """
        name = self.rng.choices(NAMES, WEIGHTS)[0]
        if not self.requests or (name == "begin" and len(self.requests) < REQUESTS):
            self.requests.append(self.manager.on_new_request(f"r{self.rng.randrange(9)}"))
            name = "begin"
        else:
            getattr(self, f"_{name}", self._end_step)()
        self.calls[name] += 1
        for event in self.manager.take_events():
            (self.resident.add if event.kind == "stored" else self.resident.remove)(event.key)
        self.probe.check()
        assert not self.manager.contract_violations, self.manager.contract_violations

    def _some(self, most: int = 4) -> list[Key]:
        """Keys next to each other, as the blocks of a prefix are."""
        first = self.rng.randrange(KEYS)
        count = self.rng.randint(1, most)
        return [self.keys[(first + i) % KEYS] for i in range(count)]

    def _who(self) -> Request:
        return self.rng.choice(self.requests)

    def _lookup(self) -> None:
        request, keys = self._who(), self._some()
        answers = self.manager.lookup_many(keys, request)
        hits = [key for key, answer in zip(keys, answers, strict=True) if answer is HIT]
        for key in hits:
            self._read(key, self.probe.slot_of(key))
        if hits and self.rng.random() < 0.5:
            self.loads.append(self.manager.prepare_load(hits, request))

    def _read(self, key: Key, slot: int | None) -> None:
        assert slot is not None, f"{key} was answered HIT and owns no slot"
        row = self.manager.arena.row(slot)
        assert bytes(row) == self.bytes[key], f"slot {slot} holds other bytes than those of {key}"
        row.release()
        self.hits_read += 1

    def _loaded(self) -> None:
        if self.loads:
            operation = self.loads.pop(self.rng.randrange(len(self.loads)))
            for key, slot in zip(operation.keys, operation.slots, strict=True):
                self._read(key, slot)
            self.manager.complete_load(operation)

    def _store(self) -> None:
        operation = self.manager.prepare_store(self._some(), self._who())
        if operation is not None:
            self.stores.append(operation)

    def _stored(self) -> None:
        if self.stores:
            operation = self.stores.pop(self.rng.randrange(len(self.stores)))
            ok = self.rng.random() < 0.9
            for key, slot in zip(operation.keys, operation.slots, strict=True):
                row = self.manager.arena.row(slot)
                row[:] = self.bytes[key] if ok else garbage("store", BLOCK_BYTES)
                row.release()
            self.manager.complete_store(operation, ok)

    def _end_step(self) -> None:
        scheduled = [self._who()] if self.rng.random() < 0.2 else []
        self.manager.on_schedule_end(scheduled)
        self.now += self.rng.choice((0.0, 0.01, 0.1))

    def _finish(self) -> None:
        request = self.requests.pop(self.rng.randrange(len(self.requests)))
        self.manager.on_request_finished(request)

    def _withdraw(self) -> None:
        self.manager.withdraw(self._some(), self._who())

    def _touch(self) -> None:
        self.manager.touch(self._some(), self._who())

    def _time(self) -> None:
        self.now += self.rng.choice((1.0, 5.0, 31.0))

    def _reset(self) -> None:
        self.manager.reset_cache(self.rng.choice((None, None, ["memory"], "all")))
        if self.rng.random() < 0.5:
            self.manager.on_reset_flushed()

    def _flushed(self) -> None:
        self.manager.on_reset_flushed()

    def _mistake(self) -> None:
        try:
            self.manager.complete_load(10**9)
        except ContractViolation:
            return
        raise AssertionError("a load that was never begun could be completed")

    # -- the end -----------------------------------------------------------------------------------

    def close(self) -> None:
        """Everything ends: nothing may be left, and every tier must stop.

        Raises:
            AssertionError: something is left after a long while.
        """
        while self.loads:
            self._loaded()
        while self.stores:
            self._stored()
        while self.requests:
            self._finish()
        self.manager.on_reset_flushed()
        until = time.monotonic() + 20.0
        while self.manager.has_pending_work():
            assert time.monotonic() < until, "work is still pending though all has ended"
            self.manager.on_schedule_end()
            self.now += 0.1
            time.sleep(0.0005)
        self.probe.check()
        self.manager.shutdown()


HIT = LookupResult.HIT
OFTEN = {
    "lookup": 30, "loaded": 12, "store": 14, "stored": 14, "end_step": 16, "begin": 4, "finish": 3,
    "withdraw": 2, "touch": 2, "time": 0.3, "reset": 0.2, "flushed": 0.5, "mistake": 0.2,
}  # fmt: skip
NAMES, WEIGHTS = list(OFTEN), list(OFTEN.values())


def run_round(seed: int, number: int, operations: int, result: SoakResult) -> None:
    """One round; what does not hold ends it and is kept in `result`."""
    done = 0
    # a manager that went wrong may leave threads behind that still write
    with tempfile.TemporaryDirectory(
        prefix="tierproof-soak-", ignore_cleanup_errors=True
    ) as folder:
        this = Round(Path(folder), f"{seed}/{number}")
        try:
            while done < operations:
                this.step()
                done += 1
            this.close()
        except Exception as error:
            said = f"{type(error).__name__}: {error}"
            result.wrong.append(f"seed {seed}, round {number}, operation {done}: {said}")
            with suppress(Exception):
                this.manager.shutdown(timeout=1.0)
    result.operations += done
    result.rounds += 1
    result.hits_read += this.hits_read
    result.calls.update(this.calls)


def soak(
    operations: int,
    seed: int,
    *,
    so_far: SoakResult | None = None,
    progress: Progress | None = None,
    after_round: Callable[[SoakResult], None] | None = None,
) -> SoakResult:
    """Soak a manager for `operations` operations altogether, those of `so_far` included."""
    result = so_far or SoakResult(seed)
    while result.operations < operations and not result.wrong:
        began = time.perf_counter()
        run_round(seed, result.rounds, min(ROUND, operations - result.operations), result)
        result.seconds += time.perf_counter() - began
        result.last_kib, result.last_files = memory_kib(), open_files()
        if result.rounds == 1:
            result.first_kib, result.first_files = result.last_kib, result.last_files
        if progress is not None:
            progress(result.operations, operations)
        if after_round is not None:
            after_round(result)
    return result


def memory_kib() -> int:
    """Memory of this process that is resident now."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") // 1024


def open_files() -> int:
    """Files, sockets and pipes that this process has open."""
    return len(os.listdir("/proc/self/fd"))


def numbers(result: SoakResult) -> dict[str, int]:
    """The result as counts of a report; `from_numbers` reads them back."""
    plain: Sequence[str] = ("seed", "operations", "rounds", "hits_read", "first_kib", "last_kib")
    counts = {name: getattr(result, name) for name in (*plain, "first_files", "last_files")}
    return {**counts, **{f"calls_{name}": n for name, n in sorted(result.calls.items())}}


def from_numbers(counts: dict[str, int], seconds: float) -> SoakResult:
    """The result that `numbers` was made from, to be gone on from."""
    calls = {k.removeprefix("calls_"): n for k, n in counts.items() if k.startswith("calls_")}
    result = SoakResult(calls=Counter(calls), seconds=seconds)
    for name, number in counts.items():
        if not name.startswith("calls_"):
            setattr(result, name, number)
    return result
