"""Copies to the tiers that are lost, made twice, without end, or beyond their share."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence

from ...impl.blocks import Block
from ...impl.cascades import Cascades
from ...impl.jobs import Owed, Send
from ...impl.operations import StoreOperation
from ...impl.requests import Request
from ...impl.secondary import Secondary
from ...impl.tiers.base import JobReport, Key, StoreJob
from ...impl.transfers import Transfers
from ...impl.vocabulary import Phase
from .making import fault

COPIES = "a copy to a tier is lost, or made when it must not be"
PRESSURE = "a tier that is slow or refuses stops the others"


@fault("C1-cascade-once", COPIES, "stores", "cascades", case="B25")
class FailedStoreCascaded(Transfers):
    """A block whose store failed is copied to the tiers."""

    def end_write(self, operation: StoreOperation | int, *, ok: bool) -> None:
        """As usual, but a copy is under way."""
        number = operation if isinstance(operation, int) else operation.operation_id
        write = self.writes.get(number)
        blocks = list(write.blocks) if write is not None and not ok and not write.stale else []
        for block, secondary in ((b, s) for b in blocks for s in self._secondaries):
            assert write is not None
            info = write.request.info
            secondary.submit_store(StoreJob(10**6, (block.key,), (block.slot,), info))
        super().end_write(operation, ok=ok)


@fault("C1-cascade-once", COPIES, "berths", case="B12")
class FirstTierOnly(Cascades):
    """A stored block is offered to the first tier only."""

    def offer_stored(self, blocks: Sequence[Block], request: Request) -> None:
        """As usual, to one."""
        for secondary in self._secondaries[:1]:
            self._offer_now(secondary, blocks, request)


@fault("C2-cascade-reoffered", COPIES, "cascades", case="B12")
class RefusedForGood(Cascades):
    """What a tier refused once it is never offered again."""

    def _fail(self, job: Send, keys: Iterable[Key], *, refused: bool) -> None:
        if refused:
            self._let_go(job, keys)
        else:
            super()._fail(job, keys, refused=False)


@fault("C2-cascade-reoffered", COPIES, "cascades", case="B12")
class FailedForGood(Cascades):
    """A copy that a tier reports as failed is not tried again."""

    def end(self, job: Send, report: JobReport) -> None:
        """As usual, but what failed counts as done."""
        super().end(job, JobReport(report.job_id, frozenset(job.blocks), report.seconds))


@fault("C2-cascade-reoffered", COPIES, "cascades", case="B63")
class OfferedWithoutEnd(Cascades):
    """A refused copy is offered again and again, however often."""

    def _fail(self, job: Send, keys: Iterable[Key], *, refused: bool) -> None:
        for owed in (job.owed or {}).values():
            owed.attempts = 0
        super()._fail(job, keys, refused=refused)


@fault("C2-cascade-reoffered", PRESSURE, "cascades", case="B63")
class OfferedUnderPressure(Cascades):
    """A tier that has just refused is offered the same again before its pressure has cleared."""

    def _ease(self, secondary: Secondary) -> None:
        secondary.pressed = False
        for owed in secondary.due.values():
            owed.not_in_step = -1


@fault("C2-cascade-reoffered", PRESSURE, "cascades", case="B63")
class NoPauseAfterARefusal(Cascades):
    """An idle tier that refused is offered the same in every step: its offers are soon spent."""

    def _ease(self, secondary: Secondary) -> None:
        secondary.pressed_at = -math.inf
        super()._ease(secondary)


@fault("C2-cascade-reoffered", COPIES, "cascades", case="B63")
class NoPauseAfterAFailure(Cascades):
    """A copy that failed is offered again at once: one bad moment spends all of its offers."""

    def _startable(self, secondary: Secondary) -> list[tuple[Block, Owed]]:
        for owed in secondary.due.values():
            owed.not_before = -math.inf
        return super()._startable(secondary)


@fault("C2-cascade-reoffered", PRESSURE, "cascades", case="B63")
class PressureForEver(Cascades):
    """A tier that has refused once is not offered anything again."""

    def _ease(self, secondary: Secondary) -> None:
        return


@fault("P2-room-for-stores", PRESSURE, "berths", case="B63")
class CopiesBeyondTheShare(Cascades):
    """Copies pin as many slots as there are, and stores find no room."""

    def offer_stored(self, blocks: Sequence[Block], request: Request) -> None:
        """As usual, but the share is not looked at."""
        self._primary.berths += len(blocks)
        super().offer_stored(blocks, request)
        self._primary.berths -= len(blocks)


@fault("P2-room-for-stores", PRESSURE, "berths", "peers", case="B63")
class BerthKept(Cascades):
    """A copy has ended, and its slot still counts as being copied."""

    def _let_go(self, job: Send, keys: Iterable[Key]) -> list[Block]:
        blocks = super()._let_go(job, keys)
        for block in blocks:
            self._primary.sending.setdefault(block, 0)
        return blocks


@fault("P2-room-for-stores", PRESSURE, "hung tier", case="B63")
class HungTierGetsMore(Cascades):
    """A tier that does not report any more is given more and more to store."""

    def _withheld(self, secondary: Secondary) -> bool:
        return False


@fault("C1-cascade-once", COPIES, "copies across a reset", case="B56")
class CopiedTwice(Cascades):
    """A block is copied to a tier while a copy of it from before a reset is still under way."""

    def _offer_now(self, secondary: Secondary, blocks: Sequence[Block], request: Request) -> None:
        running, secondary.cascading = secondary.cascading, {}
        try:
            super()._offer_now(secondary, blocks, request)
        finally:
            secondary.cascading = {**running, **secondary.cascading}


@fault("C1-cascade-once", COPIES, "whole requests", case="B12")
class OfferedWholeAgain(Cascades):
    """A request's whole context is copied again although the tier has it."""

    def _has_or_will(self, secondary: Secondary, block: Block) -> bool:
        return block in secondary.due or block.key in secondary.cascading


@fault("W1-pending-work", COPIES, "whole requests", case="B12")
class WholeOnlyOnce(Cascades):
    """A tier that asked for whole requests gets only what is new."""

    def offer_whole(self, present: Iterable[Block], request: Request) -> None:
        """Nothing."""


@fault("Q1-finish", COPIES, "parked copies", case="B20")
class ParkedAndLost(Cascades):
    """A parked copy is forgotten, and its request never ends."""

    def unpark(self, block: Block) -> None:
        """Forgets whom it was parked for."""
        self.parked.pop(block, None)


@fault("W1-pending-work", COPIES, "whole requests", case="B20")
class NeverParked(Cascades):
    """An offer that meets a block being written is dropped instead of parked."""

    def offer_whole(self, present: Iterable[Block], request: Request) -> None:
        """As usual, but only of what is there."""
        super().offer_whole([b for b in present if b.phase is Phase.RESIDENT], request)


@fault("S3-pins", COPIES, "cascades", case="B18")
class RefusedKeepsPin(Cascades):
    """A copy that the tier refused keeps its slot pinned."""

    def _refuse(self, job: Send, refused: Collection[Key]) -> None:
        blocks = list(job.blocks.values())
        super()._refuse(job, refused)
        if refused:
            self._primary.pin(blocks)


@fault("S3-pins", COPIES, "cascades", "berths", case="B39")
class CopiedUnpinned(Cascades):
    """A block that is being copied again is not pinned: it may be evicted under the copy."""

    def _startable(self, secondary: Secondary) -> list[tuple[Block, Owed]]:
        starting = super()._startable(secondary)
        self._primary.unpin([block for block, _ in starting])
        return starting


@fault("S3-pins", COPIES, "peers", case="B39")
class SentUnpinned(Cascades):
    """Blocks that are sent to a peer are not pinned."""

    def send_external(
        self, secondary: Secondary, blocks: list[Block], request: Request
    ) -> int | None:
        """As usual, but the pins are gone at once."""
        job_id = super().send_external(secondary, blocks, request)
        if job_id is not None:
            self._primary.unpin(blocks)
        return job_id


@fault("C2-cascade-reoffered", PRESSURE, "peers", case="B63")
class RefusedSendHeldAgainstNobody(Cascades):
    """What a peer was refused is offered again as if it were a copy."""

    def _fail(self, job: Send, keys: Iterable[Key], *, refused: bool) -> None:
        again = [job.blocks[key] for key in keys] if job.owed is None and refused else []
        super()._fail(job, keys, refused=refused)
        for block in again:
            job.secondary.due.setdefault(block, Owed(job.request, next(self._ages)))
