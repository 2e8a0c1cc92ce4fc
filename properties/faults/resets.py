"""Resets after which something from before them is still there, or something live is gone."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import count
from typing import Literal

from ...impl.blocks import Block
from ...impl.cascades import Cascades
from ...impl.jobs import Load, Write
from ...impl.manager import TieredOffloadingManager
from ...impl.operations import ResetResult
from ...impl.primary import PrimaryTier
from ...impl.requests import Request, Requests
from ...impl.secondary import Secondary
from ...impl.tiers.base import JobReport
from ...impl.transfers import Transfers
from .making import fault

RESETS = "a reset leaves something from before it, or takes something live"

Named = Iterable[str] | Literal["all"] | None


@fault("S2-no-reuse-under-transfer", RESETS, "resets of loads", case="B56")
class SlotsFreeAtOnce(PrimaryTier):
    """A reset gives out the slots that transfers still write and read."""

    def forget_all(self) -> None:
        """As usual, but without a quarantine."""
        super().forget_all()
        self.free += len(self.quarantine)
        self._returned += [block.slot for block in self.quarantine]


@fault("S2-no-reuse-under-transfer", RESETS, "resets of stores", case="B56")
class FirstReportEndsQuarantine(PrimaryTier):
    """Of two transfers on a forgotten block, the first that reports gives the slot out."""

    def unpin(self, blocks: object) -> None:
        """As usual, but in quarantine one report is enough."""
        for block in list(blocks):  # type: ignore[call-overload]
            if block in self.quarantine and block.pins > 1:
                block.pins -= 1
                self.leave_quarantine(block)
            elif block in self.quarantine or block in self.blocks.values():
                super().unpin([block])


@fault("R1-reset", RESETS, "resets of loads", case="B56")
class LateLoadReadable(Transfers):
    """A load from before a reset lands, and its block is readable."""

    def _end_load(self, load: Load, report: JobReport) -> None:
        blocks = list(load.blocks.values()) if load.stale else []
        super()._end_load(load, report)
        for block in blocks:
            if block.key in report.landed and block.key not in self._primary.blocks:
                again = self._primary.take(block.key, block.phase)
                self._primary.land([again], load.request)


@fault("R1-reset", RESETS, "resets of loads", case="B56")
class PromotedBeforeTheFlush(TieredOffloadingManager):
    """Promotions begin again right after a reset, before anything was flushed."""

    def reset_cache(self, tiers: Named = None) -> ResetResult:
        """As usual, but nothing is held."""
        result = super().reset_cache(tiers)
        self.on_reset_flushed()
        return result


@fault("R1-reset", RESETS, "hold of a reset", case="B56")
class HeldForAStepOnly(TieredOffloadingManager):
    """The end of the step counts as the flush of a reset."""

    def on_schedule_end(self, newly_scheduled: Iterable[object] = ()) -> None:
        """As usual, and the hold is over."""
        super().on_schedule_end(newly_scheduled)  # type: ignore[arg-type]
        self.on_reset_flushed()


@fault("P2-room-for-stores", RESETS, "resets of loads", case="B56")
class PermitKeptByReset(PrimaryTier):
    """A reset forgets blocks, and not the permits of those that were promised."""

    def forget_all(self) -> None:
        """As usual, but what was promised still counts."""
        used = set(self.permitted)
        super().forget_all()
        self.permitted |= used


@fault("R1-reset", RESETS, "resets of loads", case="B56")
class QueueSurvivesReset(Requests):
    """A promotion that was queued before a reset is submitted after it."""

    def forget_blocks(self) -> None:
        """As usual, but the queue stays."""
        queued = dict(self.queued)
        super().forget_blocks()
        self.queued.update(queued)
        for block in queued:
            block.writer = Load(*_of(block))


def _of(block: Block) -> tuple[Secondary, Request]:
    assert isinstance(block.writer, Load)
    block.writer.request.loads[block.writer.secondary] = block.writer
    return block.writer.secondary, block.writer.request


@fault("F2-claim-retracted", RESETS, "resets of loads", case="B05")
class ResetBelievesAgain(Cascades):
    """A reset forgets which claims were retracted, and what failed is loaded again."""

    def forget_blocks(self) -> None:
        """As usual, and the claims with them."""
        super().forget_blocks()
        for secondary in self._secondaries:
            secondary.retracted.clear()


@fault("F2-claim-retracted", RESETS, "resets of stores", case="B59")
class ClearedTierFilledAgain(Cascades):
    """A copy from before a reset of its tier ends, and brings the key back."""

    def bar(self, secondary: Secondary) -> None:
        """Not barred."""


@fault("F2-claim-retracted", RESETS, "clearing twice", case="B59")
class BarredForgotten(Cascades):
    """A copy that must not bring its key back does so if a second reset comes between."""

    def forget_blocks(self) -> None:
        """As usual, but bars are lifted."""
        super().forget_blocks()
        for secondary in self._secondaries:
            for job in secondary.sends.values():
                job.barred = False


@fault("R1-reset", RESETS, "resets of plain stores", case="B33")
class NumbersBeginAgain(Transfers):
    """Operations are numbered anew after a reset, and an old completion ends a new store."""

    def forget_blocks(self) -> None:
        """As usual, but numbers start from nothing."""
        super().forget_blocks()
        self._operation_ids = count()


@fault("S4-operations", RESETS, "resets of plain stores", case="B56")
class OldStoresForgotten(Transfers):
    """A reset forgets the stores in flight, and their slots with them."""

    def forget_blocks(self) -> None:
        """As usual, but old operations are unknown."""
        super().forget_blocks()
        self.writes: dict[int, Write] = {}


@fault("Q1-finish", RESETS, "ends and resets", case="B56")
class EndsForgottenByReset(Requests):
    """A reset forgets the ends that tiers have not heard of yet."""

    def forget_blocks(self) -> None:
        """As usual, and ends are told to nobody."""
        super().forget_blocks()
        self.ends.clear()


@fault("E1-events", RESETS, "resets of stores", case="B59")
class ResetWithoutEvents(PrimaryTier):
    """A reset forgets blocks and tells nobody."""

    def forget_all(self) -> None:
        """As usual, but silently."""
        events, self._events = self._events, None
        super().forget_all()
        self._events = events
