"""Failures that are counted as successes, taken too far, or not cleaned up after."""

from __future__ import annotations

from ...impl.blocks import Block
from ...impl.errors import ContractViolation
from ...impl.jobs import Load
from ...impl.operations import LoadOperation, StoreOperation
from ...impl.primary import PrimaryTier
from ...impl.requests import Requests
from ...impl.secondary import Secondary
from ...impl.tiers.base import JobReport, Poll
from ...impl.transfers import Transfers
from ...impl.vocabulary import Phase
from .making import fault, without

FAILED = "a failed load or store leaves something behind, or takes too much along"
REPORTS = "a report acts on what it does not name"


CLAIM_KEPT = without("failed_late", "retracted[tier]", table=without("failed", "retracted[tier]"))


@fault("F2-claim-retracted", FAILED, "failures", case="B05", rules=CLAIM_KEPT)
class ClaimKept(Transfers):
    """A failed load keeps its tier's claim: it is tried again without end."""

    def _end_load(self, load: Load, report: JobReport) -> None:
        retracted = set(load.secondary.retracted)
        super()._end_load(load, report)
        load.secondary.retracted.intersection_update(retracted)


@fault("F2-claim-retracted", FAILED, "resets of loads", case="B05")
class LateFailureKeepsClaim(Transfers):
    """A load from before a reset fails, and its tier's claim is kept."""

    def _end_load(self, load: Load, report: JobReport) -> None:
        retracted = set(load.secondary.retracted)
        super()._end_load(load, report)
        if load.stale:
            load.secondary.retracted.intersection_update(retracted)


@fault("F2-claim-retracted", FAILED, "claims", case="B05")
class AnyStoreRestoresClaims(Secondary):
    """A tier that has verified one key is believed about all keys again."""

    __slots__ = ()

    def poll(self) -> Poll:
        """As usual, but new evidence of one key counts for all."""
        poll = super().poll()
        if poll.verified:
            self.retracted.clear()
        return poll


@fault("F1-partial-failure", FAILED, "batches", case="B23")
class OneBadKeyFailsAll(Transfers):
    """One key of a job failed, and the good ones are thrown away."""

    def _end_load(self, load: Load, report: JobReport) -> None:
        if len(report.landed) < len(load.blocks):
            report = JobReport(report.job_id, frozenset(), report.seconds)
        super()._end_load(load, report)


@fault("F1-partial-failure", FAILED, "batches", case="B27")
class FailedCountsAsLanded(Transfers):
    """Any report counts as a success of the whole job."""

    def _end_load(self, load: Load, report: JobReport) -> None:
        super()._end_load(load, JobReport(report.job_id, frozenset(load.blocks), report.seconds))


@fault("F1-partial-failure", FAILED, "batches", case="B27")
class PartialCountsAsLanded(Transfers):
    """A job of which a part landed counts as landed."""

    def _end_load(self, load: Load, report: JobReport) -> None:
        if report.landed:
            report = JobReport(report.job_id, frozenset(load.blocks), report.seconds)
        super()._end_load(load, report)


@fault("F1-partial-failure", FAILED, "stores", case="B25")
class FailedStoreReadable(Transfers):
    """The GPU's store failed, and its blocks are readable."""

    def end_write(self, operation: StoreOperation | int, *, ok: bool) -> None:
        """As usual, but always well."""
        super().end_write(operation, ok=True)


@fault("S1-slot-exclusive", FAILED, "batches", "stores", case="B18")
class SlotFreedTwice(PrimaryTier):
    """A failed block's slot is freed twice."""

    def vanish(self, block: Block) -> None:
        """As usual, and once more."""
        super().vanish(block)
        self._free_slot(block)


@fault("F1-partial-failure", FAILED, "batches", case="B18")
class SlotLost(PrimaryTier):
    """A failed block's slot is never given out again."""

    def vanish(self, block: Block) -> None:
        """As usual, but the slot stays away."""
        super().vanish(block)
        self._returned.pop()
        self.free -= 1


@fault("F1-partial-failure", FAILED, "batches", case="B23")
class SlotLostInABatch(Transfers):
    """When a job fails in part, the slot of its first failed key is lost."""

    def _fail(self, blocks: list[Block], *, stale: bool) -> None:
        super()._fail(blocks, stale=stale)
        if len(blocks) > 1 and not stale:
            self._primary._returned.pop()
            self._primary.free -= 1


@fault("W1-pending-work", FAILED, "batches", case="B20")
class WaiterNotTold(Transfers):
    """A load failed, and who waited for it is left waiting."""

    def _fail(self, blocks: list[Block], *, stale: bool) -> None:
        for block in blocks:
            block.waits = None
        super()._fail(blocks, stale=stale)


@fault("S4-operations", REPORTS, "mistakes", case="B21")
class LoadCompletedTwice(Transfers):
    """A GPU load may be completed again, and it is not noticed."""

    def end_read(self, operation: LoadOperation | int) -> None:
        """Never refused."""
        try:
            super().end_read(operation)
        except ContractViolation:
            return


@fault("S4-operations", REPORTS, "mistakes", case="B21")
class StoreCompletedTwice(Transfers):
    """A GPU store may be completed again, and it is not noticed."""

    def end_write(self, operation: StoreOperation | int, *, ok: bool) -> None:
        """Never refused."""
        try:
            super().end_write(operation, ok=ok)
        except ContractViolation:
            return


@fault("S4-operations", REPORTS, "stores", case="B33")
class CompletesTheLatest(Transfers):
    """A completion acts on the latest store in flight, whichever it names."""

    def end_write(self, operation: StoreOperation | int, *, ok: bool) -> None:
        """Of two stores, the other one."""
        latest = max(self.writes, default=-1)
        known = (operation if isinstance(operation, int) else operation.operation_id) in self.writes
        super().end_write(latest if known else operation, ok=ok)


@fault("S4-operations", REPORTS, "mistakes", case="B23")
class ForeignKeyBelieved(Transfers):
    """A report that names a key of another job is taken as a failure of its own."""

    def _absorb(self, secondary: Secondary, report: JobReport) -> None:
        load = secondary.loads.get(report.job_id)
        job = secondary.sends.get(report.job_id) if load is None else load
        if job is not None:
            report = JobReport(report.job_id, report.landed & job.blocks.keys(), report.seconds)
        super()._absorb(secondary, report)


@fault("S4-operations", REPORTS, "mistakes", case="B30")
class SecondReportRaises(Transfers):
    """A tier's second report stops the scheduler."""

    def _refuse(self, secondary: Secondary, what: str) -> None:
        raise ContractViolation(what)


@fault("F1-partial-failure", FAILED, "deadlines of loads", case="B31")
class LateSuccessDropped(Transfers):
    """A load that lands after its deadline is thrown away."""

    def _end_load(self, load: Load, report: JobReport) -> None:
        if load.overdue:
            report = JobReport(report.job_id, frozenset(), report.seconds)
        super()._end_load(load, report)


@fault("F2-claim-retracted", FAILED, "deadlines of loads", case="B31")
class OverdueFailureKeepsClaim(Transfers):
    """A load that fails after its deadline keeps its tier's claim."""

    def _end_load(self, load: Load, report: JobReport) -> None:
        retracted = set(load.secondary.retracted)
        super()._end_load(load, report)
        if load.overdue:
            load.secondary.retracted.intersection_update(retracted)


@fault("S2-no-reuse-under-transfer", FAILED, "deadlines of loads", case="B31")
class OverdueSlotReused(Requests):
    """At the deadline the slot is given out, though its writer may still write."""

    def end_waits(self, block: Block) -> None:
        """As usual, and an overdue load's slot is free."""
        super().end_waits(block)
        if block.phase is Phase.OVERDUE_LOADING:
            self._primary._free_slot(block)
