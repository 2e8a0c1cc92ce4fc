"""Jobs and operations: promotion jobs, GPU stores and GPU loads, from submit to completion.

The only place where a promotion job or an operation ends (store jobs end in `cascades`).
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Sequence
from itertools import count

from .blocks import Block
from .cascades import Cascades
from .config import ManagerConfig
from .errors import ContractViolation
from .jobs import Load, Read, Write
from .metrics import Totals
from .operations import LoadOperation, StoreOperation
from .primary import PrimaryTier
from .requests import Request, Requests
from .secondary import Secondary
from .step import Step
from .tiers.base import NOTHING, JobReport, Key, LoadJob
from .usage import STORED, Usage, name
from .vocabulary import Phase

logger = logging.getLogger("tierproof")

RESIDENT = Phase.RESIDENT


class Transfers:
    """What fills or reads slots. Ids are never used again, also across resets."""

    def __init__(
        self,
        secondaries: tuple[Secondary, ...],
        primary: PrimaryTier,
        requests: Requests,
        usage: Usage,
        cascades: Cascades,
        step: Step,
        config: ManagerConfig,
        totals: Totals,
        job_ids: count[int],
    ) -> None:
        self._secondaries = secondaries
        self._primary = primary
        self._requests = requests
        self._usage = usage
        self._cascades = cascades
        self._step = step
        self._deadline = config.pending_deadline
        self._totals = totals
        self._job_ids = job_ids
        self._operation_ids = count()
        self.reads: dict[int, Read] = {}
        self.writes: dict[int, Write] = {}
        self._writers: deque[Load | Write] = deque()
        """Writers in the order in which they will be overdue."""
        self._landed: list[Block] = []
        """What this round of polls has promoted: its lease begins when all tiers have spoken."""
        self.violations: list[str] = []
        """Reports of tiers that were refused, in words; the first hundred."""

    # -- promotions -------------------------------------------------------------------------------

    def submit_queued(self) -> None:
        """The step ends: one job for each (tier, owner), keys in the order they were queued."""
        queued = self._requests.queued
        if not queued:
            return
        jobs = []
        for block in queued:
            load = block.writer
            assert isinstance(load, Load)
            if not load.blocks:
                jobs.append(load)
            load.blocks[block.key] = block
            block.phase = Phase.LOADING
        queued.clear()
        # All are on their way before the first tier hears of one: what a tier asks for from within
        # belongs to the next step, and a reset from within knows of every job.
        for load in jobs:
            secondary = load.secondary
            del load.request.loads[secondary]
            load.job_id = next(self._job_ids)
            load.since = self._step.now
            secondary.totals.load_jobs += 1
            secondary.loads[load.job_id] = load
        for load in jobs:
            self._submit(load)

    def _submit(self, load: Load) -> None:
        secondary, request = load.secondary, load.request
        slots = tuple([block.slot for block in load.blocks.values()])
        if secondary.submit_load(LoadJob(load.job_id, tuple(load.blocks), slots, request.info)):
            if self._deadline is not None:
                self._writers.append(load)
        else:
            self._end_load(load, JobReport(load.job_id, frozenset()))

    def _end_load(self, load: Load, report: JobReport) -> None:
        secondary, landed, now = load.secondary, report.landed, self._step.now
        del secondary.loads[load.job_id]
        blocks, load.blocks = load.blocks, {}
        if len(landed) == len(blocks):  # all of them: what landed is known to be of this job
            good = list(blocks.values())
        else:
            good = [block for key, block in blocks.items() if key in landed]
            bad = [block for key, block in blocks.items() if key not in landed]
            secondary.retracted.update([block.key for block in bad])
            self._fail(bad, stale=load.stale)
        if load.stale:
            self._leave_quarantine(good)
        elif good:
            self._primary.land(good, load.request, secondary.bit)
            self._landed += good
        secondary.totals.load_ended(
            len(good), len(blocks) - len(good), report.seconds, now - load.since
        )

    def _fail(self, blocks: list[Block], *, stale: bool) -> None:
        if stale:
            self._leave_quarantine(blocks)
            return
        for block in blocks:
            self._requests.end_waits(block)
            self._primary.vanish(block)

    def _leave_quarantine(self, blocks: list[Block]) -> None:
        for block in blocks:
            self._primary.leave_quarantine(block)

    # -- what the tiers report --------------------------------------------------------------------

    def absorb(self) -> None:
        """Poll every tier in order and act on what it reports."""
        for secondary in self._secondaries:
            poll = secondary.poll()
            if poll is not NOTHING:
                # first what was verified: a load that failed since then is the newer word
                if poll.verified:
                    secondary.retracted.difference_update(poll.verified)
                for report in poll.reports:
                    self._absorb(secondary, report)
        if self._landed:
            landed, self._landed = self._landed, []
            self._requests.lease(landed, self._step.now)

    def _absorb(self, secondary: Secondary, report: JobReport) -> None:
        """Act on one report, or refuse it as a whole: a faulty tier must not stop serving."""
        if not _is_report(report):
            self._refuse(secondary, "something that is no JobReport with a set of keys")
            return
        load = secondary.loads.get(report.job_id)
        job = secondary.sends.get(report.job_id) if load is None else load
        if job is None:
            self._refuse(secondary, "a job that is unknown or was reported before")
        elif not job.blocks.keys() >= report.landed:
            self._refuse(secondary, "a key that is not in the job")
        elif isinstance(job, Load):
            self._end_load(job, report)
        else:
            self._cascades.end(job, report)

    def _refuse(self, secondary: Secondary, what: str) -> None:
        self._totals.contract_violations += 1
        if len(self.violations) < 100:
            self.violations.append(f"tier {secondary.name!r} reported {what}")
        logger.error("tier %r reported %s; the report is refused", secondary.name, what)

    # -- deadlines --------------------------------------------------------------------------------

    def expire(self) -> None:
        """Writers past the deadline: lookups answer MISS, the slot waits for the report."""
        writers, now, deadline = self._writers, self._step.now, self._deadline
        while writers:
            writer = writers[0]
            if writer.blocks and not writer.stale:
                assert deadline is not None
                if now - writer.since < deadline:
                    return
                self._overdue(writer)
            writers.popleft()

    def _overdue(self, writer: Load | Write) -> None:
        writer.overdue = True
        if isinstance(writer, Load):
            phase, blocks = Phase.OVERDUE_LOADING, list(writer.blocks.values())
        else:
            phase, blocks = Phase.OVERDUE_STORING, writer.blocks
            writer.request.storing -= 1
        for block in blocks:
            block.phase = phase
            self._requests.end_waits(block)
            self._cascades.unpark(block)
        self._totals.overdue += len(blocks)
        logger.warning(
            "a transfer into %d slots has not reported for %.1f s; its blocks answer MISS and the "
            "slots wait",
            len(blocks),
            self._step.now - writer.since,
        )

    # -- GPU loads --------------------------------------------------------------------------------

    def resident(self, keys: Sequence[Key]) -> list[Block]:
        """The blocks of keys that are about to be read.

        Raises:
            ContractViolation: one is not RESIDENT.
        """
        find = self._primary.blocks.get
        blocks = [block for block in map(find, keys) if block and block.phase is RESIDENT]
        if len(blocks) < len(keys):
            raise ContractViolation(
                f"{len(keys) - len(blocks)} of {len(keys)} blocks to load are not resident; load "
                "only what lookup answered HIT for in this step, before any store"
            )
        return blocks

    def begin_read(self, keys: Sequence[Key], request: Request) -> LoadOperation:
        """Pin RESIDENT blocks; the request's HIT promises on them have served."""
        blocks = self.resident(keys)
        self._primary.pin(blocks)
        promise = request.promise
        for block in blocks:
            held = block.promise
            if held is not None:
                block.promise = held.without(promise)
            if block.waits is not None and request in block.waits:
                block.waits[request] = True
        name(request, keys)
        operation_id = next(self._operation_ids)
        self.reads[operation_id] = Read(operation_id, request, blocks)
        return LoadOperation(operation_id, tuple(keys), tuple([block.slot for block in blocks]))

    def end_read(self, operation: LoadOperation | int) -> None:
        """The copy has ended: its pins are gone, and its request has read what it waited for."""
        read = self.reads.pop(_id(operation), None)
        if read is None:
            raise ContractViolation(f"load operation {_id(operation)} is unknown or complete")
        request = read.request
        self._totals.gpu_loaded += len(read.blocks)
        for block in read.blocks:
            if block.waits is not None and request in block.waits:
                self._requests.end_wait(block, request)
        self._primary.unpin(read.blocks)
        self._usage.has_read(read.blocks, request)

    # -- GPU stores -------------------------------------------------------------------------------

    def begin_write(
        self,
        keys: Sequence[Key],
        present: Sequence[Key],
        refused: Sequence[Key],
        evicted: Sequence[Key],
        request: Request,
    ) -> StoreOperation:
        """Give slots, which are free, to the accepted keys."""
        operation_id = next(self._operation_ids)
        take = self._primary.take
        blocks = [take(key, Phase.STORING) for key in keys]
        write = self.writes[operation_id] = Write(operation_id, request, blocks, self._step.now)
        for block in blocks:
            block.writer = write
        name(request, keys, STORED)  # entering the order is its access
        if blocks:
            request.storing += 1
            if self._deadline is not None:
                self._writers.append(write)
        return StoreOperation(
            operation_id,
            tuple(keys),
            tuple([block.slot for block in blocks]),
            tuple(present),
            tuple(refused),
            tuple(evicted),
        )

    def end_write(self, operation: StoreOperation | int, *, ok: bool) -> None:
        """The copy has ended: its blocks are readable and offered to the tiers, or gone."""
        write = self.writes.pop(_id(operation), None)
        if write is None:
            raise ContractViolation(f"store operation {_id(operation)} is unknown or complete")
        self._step.date()
        blocks, write.blocks = write.blocks, []
        if blocks and not write.stale and not write.overdue:
            write.request.storing -= 1
        if self._cascades.parked:
            for block in blocks:
                self._cascades.unpark(block)
        if ok and not write.stale:
            self._totals.gpu_stored += len(blocks)
            self._requests.settle_stored(blocks, self._step.now)
            self._primary.land(blocks, write.request)
            self._cascades.offer_stored(blocks, write.request)
        else:
            self._totals.gpu_failed += 0 if ok else len(blocks)
            self._fail(blocks, stale=write.stale)

    # -- reset ------------------------------------------------------------------------------------

    def forget_blocks(self) -> None:
        """A reset: what is in flight only frees its slots when it reports."""
        for secondary in self._secondaries:
            for load in secondary.loads.values():
                load.stale = True
        for write in self.writes.values():
            if write.blocks and not write.stale and not write.overdue:
                write.request.storing -= 1
            write.stale = True
        self._writers.clear()


def _id(operation: LoadOperation | StoreOperation | int) -> int:
    number = operation if isinstance(operation, int) else getattr(operation, "operation_id", None)
    if not isinstance(number, int):
        raise ContractViolation(
            f"{type(operation).__name__} names no operation; complete what prepare_load or "
            "prepare_store returned"
        )
    return number


_SETS, _NUMBERS = (frozenset, set), (int, float)
"""Named once: `X | Y` in a call is a new type every time, and this is asked of every report."""


def _is_report(report: object) -> bool:
    return (
        isinstance(report, JobReport)
        and isinstance(report.job_id, int)
        and isinstance(report.landed, _SETS)
        and isinstance(report.seconds, _NUMBERS)
    )
