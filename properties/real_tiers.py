"""Lockstep with real tiers: files written and read by threads, at times that nobody chose.

A hand-driven tier shows every order of events; a real one shows that the bytes really come back.
It is wrapped in a `RecordingTier`, and what it was seen to answer and report becomes part of the
history, as the operations by which a hand-driven tier would have been told to. So what is found
with real tiers is replayed, shortened and shown like everything else.
"""

from __future__ import annotations

import random
import tempfile
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ..impl.arena import Arena
from ..impl.tiers.base import Claim, LoadJob, Poll, RequestInfo, StoreJob, StorePolicy, Tier
from ..impl.tiers.files import FileTier
from ..model import operations as ops
from ..model.operations import Operation, RequestSetting, Setting, TierSetting
from ..model.reference import apply
from .driver import Factory, Got
from .found import Found
from .lockstep import Divergence, Lockstep, every
from .moves import Menu, moves

Progress = Callable[[int, int], None]
BLOCK_BYTES = 16384
IDLE = 0.0003
"""Seconds that are waited now and then, so that I/O is seen in every stage of completion."""


class RecordingTier:
    """Any tier, with a log like that of the hand-driven tier and its answers and polls kept."""

    def __init__(self, inner: Tier) -> None:
        self.inner = inner
        self.name = inner.name
        self.log: list[tuple[str, Any]] = []
        self.answers: dict[Any, Claim] = {}
        self.polls: list[Poll] = []
        self.moved = {"load": 0, "store": 0}
        self._arena: Arena | None = None

    @property
    def arena(self) -> Arena:
        """The primary tier's memory."""
        assert self._arena is not None, "used before attach(arena)"
        return self._arena

    def attach(self, arena: Arena) -> None:
        """Take the primary tier's memory."""
        self._arena = arena
        self.inner.attach(arena)

    def lookup(self, key: Any, request: RequestInfo) -> Claim:
        """What the tier answers."""
        self.log.append(("asked", key))
        self.answers[key] = self.inner.lookup(key, request)
        return self.answers[key]

    def submit_load(self, job: LoadJob) -> None:
        """Pass a load on."""
        self.log.append(("load", job))
        self.moved["load"] += len(job.keys)
        self.inner.submit_load(job)

    def submit_store(self, job: StoreJob) -> Collection[Any]:
        """Pass a store on."""
        self.log.append(("store", job))
        self.moved["store"] += len(job.keys)
        return self.inner.submit_store(job)

    def poll(self) -> Poll:
        """What the tier reports."""
        self.log.append(("polled", None))
        poll = self.inner.poll()
        self.polls.append(poll)
        return poll

    def on_new_request(self, request: RequestInfo) -> StorePolicy:
        """A request begins."""
        self.log.append(("begun", request))
        return self.inner.on_new_request(request)

    def on_request_finished(self, request: RequestInfo) -> None:
        """A request has ended."""
        self.log.append(("told", request))
        self.inner.on_request_finished(request)

    def clear(self) -> None:
        """Forget every block."""
        self.inner.clear()

    def drain(self, timeout: float) -> Sequence[int]:
        """Wait for jobs to end."""
        return self.inner.drain(timeout)

    def shutdown(self) -> None:
        """Stop."""
        self.inner.shutdown()


class RealLockstep(Lockstep):
    """Model and manager side by side, the tiers real ones."""

    def __init__(
        self, factory: Factory, setting: Setting, tiers: dict[str, RecordingTier], block_bytes: int
    ) -> None:
        super().__init__(factory, setting, tiers=tiers, block_bytes=block_bytes)
        self.recorded = tiers

    def environment(self, op: Operation, got: Got) -> list[Operation]:
        """What the tiers did meanwhile, as operations that come before `op`."""
        numbers = {job: number for number, job in self.driver.jobs.items()}
        before: list[Operation] = []
        for name, tier in self.recorded.items():
            for poll in tier.polls:
                for report in poll.reports:
                    number = numbers[name, report.job_id]
                    keys = self.state.jobs[number].keys
                    landed = tuple(k for k in keys if k in report.landed)
                    before.append(ops.Report(number, landed))
                before += [ops.Verify(name, str(key)) for key in poll.verified]
            for key, claim in tier.answers.items():
                before.append(ops.Mind(name, key, claim.name))
            tier.polls.clear()
            tier.answers.clear()
        for operation in before:
            self.history.append(operation)
            self.shown.append((operation, None, None))
            self.state = apply(self.state, operation).state
        return before


WEIGHTS = {"lookup": 4, "on_schedule_end": 4, "complete_store": 4, "complete_load": 4}
"""Kinds of operations that come more often than others, so that blocks come and go quickly."""


@dataclass
class RealResult:
    """What a run with real tiers saw."""

    operations: int = 0
    stored: int = 0
    loaded: int = 0
    bytes: int = 0
    reached: set[str] = field(default_factory=set)
    """What came about with the manager in step (`situations`)."""
    divergences: list[Found] = field(default_factory=list)
    seconds: float = 0.0


EPISODES = 50
"""At most: each builds a tier, and one manager may end all of them after a few operations."""
MENU = Menu(
    batches=True,
    withdraw=True,
    resets=False,
    time=False,
    only=frozenset(
        {
            *("lookup", "prepare_load", "complete_load", "prepare_store", "complete_store"),
            *("withdraw", "on_schedule_end", "on_request_finished"),
        }
    ),
)


def with_files(
    factory: Factory,
    *,
    operations: int = 3000,
    seed: int = 0,
    folder: Path | None = None,
    progress: Progress | None = None,
    counts: Callable[[str], bool] = every,
) -> RealResult:
    """Drive a manager over a file tier in a folder of its own, in lockstep with the model.

    Args:
        factory: builds the manager under test.
        operations: how many operations in all.
        seed: of the choice of operations; when I/O ends is the system's choice.
        folder: where the blocks go; a temporary folder when None.
        progress: called with (operations done, operations) now and then.
        counts: does a contract count? One that does not ends an episode and not the run.
    """
    result = RealResult()
    began = time.perf_counter()
    rng = random.Random(seed)
    with tempfile.TemporaryDirectory(prefix="tierproof-", dir=folder) as root:
        episode = 0
        while result.operations < operations and episode < EPISODES:
            if any(counts(found.contract) for found in result.divergences):
                break
            # the same folder again: later episodes find what earlier ones have stored
            _episode(factory, rng, Path(root), episode, min(400, operations), result)
            episode += 1
            if progress is not None:
                progress(min(result.operations, operations), operations)
    result.bytes = (result.stored + result.loaded) * BLOCK_BYTES
    result.seconds = time.perf_counter() - began
    return result


def _episode(
    factory: Factory, rng: random.Random, root: Path, number: int, length: int, result: RealResult
) -> None:
    keys = tuple(f"k{i}" for i in range(10))
    setting = Setting(
        slots=rng.choice((2, 3, 4)),
        keys=keys,
        tiers=(TierSetting("files"),),
        requests=tuple(RequestSetting(f"r{i}") for i in range(3)),
    )
    # two episodes share a namespace: the second finds what the first has stored
    files = FileTier(root, namespace=f"lockstep {number // 2}", threads=2, shared=number % 4 < 2)
    tier = RecordingTier(files)
    lockstep = RealLockstep(factory, setting, {"files": tier}, BLOCK_BYTES)
    lockstep.reached = result.reached
    try:
        for i in range(length):
            ending = i > length - 10
            menu = replace(
                MENU,
                keys=tuple(rng.sample(keys, 3)),
                ends=ending,
                withdraw=lockstep.driver.can("withdraw"),
            )
            now = list(moves(lockstep.state, menu))
            kinds = sorted({op.op for op in now})
            kind = rng.choices(kinds, [WEIGHTS.get(k, 1) for k in kinds])[0]
            op = rng.choice([op for op in now if op.op == kind])
            if kind == "on_schedule_end" and rng.random() < 0.5:
                time.sleep(IDLE)
            result.operations += 1
            try:
                lockstep.do(op)
            except Divergence as divergence:
                result.divergences.append(Found(setting, divergence, "runs"))
                return
    finally:
        result.stored += tier.moved["store"]
        result.loaded += tier.moved["load"]
        stop = getattr(lockstep.driver.manager, "shutdown", None)
        if callable(stop):
            stop()
        tier.drain(1.0)  # whoever has no shutdown leaves the tier running
        tier.shutdown()
