"""Promotions that are submitted twice or never, for the wrong one, or beyond their share."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from ...impl.blocks import Block
from ...impl.jobs import Load
from ...impl.lookups import Lookups
from ...impl.primary import PrimaryTier
from ...impl.requests import Request, Requests
from ...impl.secondary import Secondary
from ...impl.tiers.base import JobReport, Key, LoadJob
from ...impl.transfers import Transfers
from ...impl.vocabulary import LookupResult, Phase
from ...model.rules import RULES
from .making import fault, without

SUBMITS = "a promotion is submitted twice, never, or for the wrong one"
SHARE = "promotions take what is not theirs, or keep it"


@fault(
    "L4-submitted-once",
    SUBMITS,
    "batches",
    case="B33",
    rules=tuple(
        replace(r, when={"phase": ("QUEUED", "LOADING")}) if r.name == "submitted" else r
        for r in RULES
    ),
)
class SubmitsTwice(Transfers):
    """A promotion is submitted in two `submit_load` jobs."""

    def _submit(self, load: Load) -> None:
        slots = tuple([block.slot for block in load.blocks.values()])
        again = LoadJob(next(self._job_ids), tuple(load.blocks), slots, load.request.info)
        super()._submit(load)
        load.secondary.submit_load(again)


@fault("L4-submitted-once", SUBMITS, "batches", case="B30")
class SubmitsAgainAfterRaising(Secondary):
    """A submit that raised is tried once more, though its job has failed."""

    __slots__ = ()

    def submit_load(self, job: LoadJob) -> bool:
        """Twice, if need be."""
        return super().submit_load(job) or super().submit_load(job)


@fault("L4-submitted-once", SUBMITS, "jobs", case="B30")
class OneFailureStopsTheOthers(Transfers):
    """One submit raises, and the other jobs of the step wait for ever."""

    def submit_queued(self) -> None:
        """As usual, up to the first job that fails."""
        before = self._totals, [s.totals.errors for s in self._secondaries]
        stopped: list[Load] = []
        submit = super()._submit

        def until_one_fails(load: Load) -> None:
            if [s.totals.errors for s in self._secondaries] == before[1]:
                submit(load)
            else:
                stopped.append(load)

        self.__dict__["_submit"] = until_one_fails
        try:
            super().submit_queued()
        finally:
            del self.__dict__["_submit"]


@fault("L4-submitted-once", SUBMITS, "batches")
class OneJobForEachKey(Transfers):
    """Keys of one request and tier go into jobs of their own."""

    def submit_queued(self) -> None:
        """One block after the other."""
        queued = dict(self._requests.queued)
        for block in queued:
            self._requests.queued.clear()
            self._requests.queued[block] = None
            load = block.writer
            assert isinstance(load, Load)
            block.writer = Load(load.secondary, load.request)
            load.request.loads[load.secondary] = block.writer
            super().submit_queued()


@fault("L4-submitted-once", SUBMITS, "batches")
class KeysOutOfOrder(Requests):
    """A job names its keys in another order than they were looked up in."""

    def queue(self, block: Block, secondary: Secondary, request: Request) -> None:
        """As usual, but last in, first out."""
        super().queue(block, secondary, request)
        later = dict(self.queued)
        del later[block]
        self.queued.clear()
        self.queued.update({block: None, **later})


@fault("S1-slot-exclusive", SUBMITS, "batches", case="B23")
class SlotsCrossed(Secondary):
    """A job of two keys names each other's slots."""

    __slots__ = ()

    def submit_load(self, job: LoadJob) -> bool:
        """As usual, but the slots are turned around."""
        return super().submit_load(LoadJob(job.job_id, job.keys, job.slots[::-1], job.request))


@fault("L4-submitted-once", SUBMITS, "heirs", case="B20")
class HeirWithoutAFilter(Requests):
    """A queued promotion passes to a waiter whose filter forbids the tier."""

    def _pass_on(self, block: Block, source: Secondary) -> None:
        for other in block.waits or ():
            block.writer = other.loads.setdefault(source, Load(source, other))
            return
        super()._pass_on(block, source)


@fault("L3-until-read", SUBMITS, "heirs", case="B20")
class DroppedThoughAwaited(Requests):
    """The queuer lets go, and the promotion is dropped although another request waits."""

    def _pass_on(self, block: Block, source: Secondary) -> None:
        self.end_waits(block)
        super()._pass_on(block, source)


@fault("L4-submitted-once", SUBMITS, "heirs", case="B01")
class WithdrawnAndSubmitted(Requests):
    """What a request withdraws is promoted all the same."""

    def withdraw(self, keys: Iterable[Key], request: Request) -> None:
        """Forgets the wait, not the promotion."""
        for key in keys:
            block = self._primary.blocks.get(key)
            if block is not None and block.phase is Phase.QUEUED and block in request.waits:
                self.end_wait(block, request)
            else:
                super().withdraw([key], request)


@fault("P2-room-for-stores", SHARE, "failures", case="B01", rules=without("promote", "permits"))
class StoresStarved(Lookups):
    """Promotions take slots beyond their share, and none is left to stores."""

    def _promote(self, key: Key, source: Secondary, request: Request) -> LookupResult:
        self._primary.permits += 1
        try:
            return super()._promote(key, source, request)
        finally:
            self._primary.permits -= 1


@fault("P2-room-for-stores", SHARE, "stores", case="B01")
class WaitsBeyondTheShare(PrimaryTier):
    """Whoever waits on a store gets a permit, whether one is free or not."""

    def take_permit(self, block: Block) -> None:
        """Never refused."""
        self.permitted.add(block)


@fault("P2-room-for-stores", SHARE, "batches", "room", case="B21")
class PermitKeptByFailure(PrimaryTier):
    """A failed load keeps its permit."""

    def vanish(self, block: Block) -> None:
        """As usual, but only the slot comes back."""
        super().vanish(block)
        self.permitted.add(block)


@fault("P2-room-for-stores", SHARE, "promises", case="B21")
class PermitKeptByReader(PrimaryTier):
    """The last waiter has read the block, and its permit stays taken."""

    def unawaited(self, block: Block) -> None:
        """As usual, but the permit is not returned."""
        super().unawaited(block)
        self.permitted.add(block)


@fault("P2-room-for-stores", SHARE, "deadlines of loads", case="B31")
class PermitOfAHungLoad(Requests):
    """An overdue load gives its permit back while its slot is still withheld."""

    def end_waits(self, block: Block) -> None:
        """As usual, but with the waits goes the permit."""
        super().end_waits(block)
        if block.phase is Phase.OVERDUE_LOADING:
            self._primary.drop_permit(block)


@fault("P2-room-for-stores", SHARE, "promises", case="B38")
class ReadyButCounted(Transfers):
    """A load that nobody waits for any more keeps its permit when it lands."""

    def _end_load(self, load: Load, report: JobReport) -> None:
        kept = [b for b in load.blocks.values() if b.waits is None and not load.stale]
        held = self._primary.permitted.intersection(kept)
        super()._end_load(load, report)
        self._primary.permitted |= held


@fault("S1-slot-exclusive", SUBMITS, "jobs of four", case="B33")
class RowsOfALongLoadSwapped(Secondary):
    """In a job of more than two blocks the first one's bytes go to the last one's row."""

    __slots__ = ()

    def submit_load(self, job: LoadJob) -> bool:
        """As usual, up to two blocks."""
        return super().submit_load(job if len(job.keys) <= 2 else _rows_exchanged(job))


@fault("L4-submitted-once", SUBMITS, "jobs of four", case="B33")
class LongLoadCutShort(Secondary):
    """Of a job of more than two blocks only the first two are submitted."""

    __slots__ = ()

    def submit_load(self, job: LoadJob) -> bool:
        """As usual, up to two blocks."""
        return super().submit_load(LoadJob(job.job_id, job.keys[:2], job.slots[:2], job.request))


def _rows_exchanged(job: LoadJob) -> LoadJob:
    """The job with the first and the last row exchanged."""
    first, *between, last = job.slots
    return LoadJob(job.job_id, job.keys, (last, *between, first), job.request)
