"""Stores to secondary tiers: cascades, their re-offers, parked offers, external sends.

A cascade is offered when its block has been stored. What cannot start, is refused or fails is *due*
and offered again at the end of a later step, a bounded number of times. The only place where a
store job ends.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import count

from .blocks import Block
from .config import ManagerConfig
from .jobs import Owed, Send
from .metrics import Totals
from .primary import PrimaryTier
from .requests import Request
from .secondary import Secondary
from .step import Step
from .tiers.base import NO_REQUEST, JobReport, Key, StoreJob
from .vocabulary import Phase

RESIDENT = Phase.RESIDENT


class Cascades:
    """What each secondary tier has, is being sent, and is still to be offered."""

    def __init__(
        self,
        secondaries: tuple[Secondary, ...],
        primary: PrimaryTier,
        step: Step,
        config: ManagerConfig,
        totals: Totals,
        job_ids: count[int],
    ) -> None:
        self._secondaries = secondaries
        self._primary = primary
        self._step = step
        self._reoffers = config.reoffers
        self._pause = config.reoffer_pause
        self._overdue_after = config.pending_deadline
        self._slow_after = config.backpressure_seconds
        self._totals = totals
        self._job_ids = job_ids
        self._ages = count()
        self.parked: dict[Block, dict[Request, None]] = {}
        """Offers of whole requests that found a block STORING: they wait for that write to end."""

    # -- offers -----------------------------------------------------------------------------------

    def offer_stored(self, blocks: Sequence[Block], request: Request) -> None:
        """Newly stored blocks are offered to every tier."""
        for secondary in self._secondaries:
            before = self._gone()
            self._offer_now(secondary, blocks, request)
            if self._gone() != before:
                blocks = self._still_there(blocks)

    def offer_whole(self, present: Iterable[Block], request: Request) -> None:
        """The blocks in the primary tier of a request that some tier wants whole: offered to the
        tiers that do, or parked until their write ends."""
        resident = []
        for block in present:
            if block.phase is RESIDENT:
                resident.append(block)
            elif block.phase is Phase.STORING:
                self._park(block, request)
        for secondary in self._secondaries:
            if request.whole & secondary.bit:
                wanted = [block for block in resident if not self._has_or_will(secondary, block)]
                if wanted:
                    before = self._gone()
                    self._offer_now(secondary, wanted, request)
                    if self._gone() != before:
                        resident = self._still_there(resident)

    def _gone(self) -> tuple[int, int]:
        """Changes when a tier that was given work has evicted or forgotten blocks from within."""
        return self._totals.evicted, self._totals.resets

    def _still_there(self, blocks: Sequence[Block]) -> list[Block]:
        find = self._primary.blocks.get
        return [block for block in blocks if find(block.key) is block]

    def offer_due(self) -> None:
        """The step ends: what is due is offered again, one job for each tier and request."""
        for secondary in self._secondaries:
            if secondary.pressed or secondary.slow:
                self._ease(secondary)
            if secondary.due and not secondary.pressed and not self._withheld(secondary):
                groups: dict[Request | None, list[Block]] = {}
                for block, owed in self._startable(secondary):
                    request = owed.request
                    if request is not None and request.told:
                        request = None
                    groups.setdefault(request, []).append(block)
                for request, blocks in groups.items():
                    # From within an earlier submit of these a reset may have dropped what was due,
                    # and the end of a step may have offered it.
                    due = [block for block in blocks if block in secondary.due]
                    self._primary.unpin_sent([b for b in blocks if b not in secondary.due])
                    if due:
                        owed_by = {block.key: secondary.due.pop(block) for block in due}
                        self._send(secondary, due, request, owed_by)

    def _offer_now(self, secondary: Secondary, blocks: Sequence[Block], request: Request) -> None:
        """Offer what can start as one job; the rest is due.

        Whatever is due goes first, or new blocks could overtake it without end; and a tier that has
        refused is left alone.
        """
        sending, cascading = self._primary.sending, secondary.cascading
        berths = self._primary.berths_left()
        later = secondary.due or secondary.pressed or self._withheld(secondary)
        turns = 0 if later else self._turns_left(secondary)
        starting = []
        for block in blocks:
            shares = block in sending
            if turns > 0 and block.key not in cascading and (shares or berths):
                turns -= 1
                berths -= not shares
                starting.append(block)
            else:
                secondary.due[block] = Owed(request, next(self._ages))
        if starting:
            self._primary.pin_to_send(starting)
            self._send(secondary, starting, None if request.told else request, {})

    def _has_or_will(self, secondary: Secondary, block: Block) -> bool:
        if block.done & secondary.bit or block in secondary.due:
            return True
        running = secondary.cascading.get(block.key)
        return running is not None and not running.stale

    def _turns_left(self, secondary: Secondary) -> int:
        """How many more blocks may be on their way to this tier: each other tier keeps a berth.

        Otherwise a slow tier would in time hold every berth, and a fast one get nothing.
        """
        part = max(1, self._primary.berths - (len(self._secondaries) - 1))
        return part - secondary.sending

    def _withheld(self, secondary: Secondary) -> bool:
        """Whether the tier gets nothing new: a store of it is overdue, or it has become slow."""
        if secondary.slow:
            return True
        if self._overdue_after is None or not secondary.sends:
            return False
        oldest = next(iter(secondary.sends.values()))
        return self._step.now - oldest.since >= self._overdue_after

    def _ease(self, secondary: Secondary) -> None:
        """Pressure that no report can end any more is over when an idle tier has had a pause."""
        if not secondary.sends:
            secondary.slow = False
            rested = self._step.now - secondary.pressed_at >= self._pause
            if rested and secondary.pressed_in_step < self._step.number:
                secondary.pressed = False

    def _startable(self, secondary: Secondary) -> list[tuple[Block, Owed]]:
        """The due cascades that start now, oldest first, their slots pinned."""
        starting: list[tuple[Block, Owed]] = []
        step = self._step
        turns = self._turns_left(secondary)
        for block, owed in self._with_berth(secondary):
            if len(starting) >= turns:
                break
            ready = owed.not_in_step < step.number and owed.not_before <= step.now
            if ready and block.key not in secondary.cascading:
                self._primary.pin_to_send((block,))
                starting.append((block, owed))
        return starting

    def _with_berth(self, secondary: Secondary) -> Iterator[tuple[Block, Owed]]:
        """Due cascades that the share allows, oldest first.

        Once the share is used up only blocks that are being sent elsewhere can start: then those
        are looked at, not all that is due.
        """
        sending, due = self._primary.sending, secondary.due
        for block, owed in due.items():
            if not self._primary.berths_left():
                rest = [(b, due[b]) for b in sending if b in due and due[b].order >= owed.order]
                yield from sorted(rest, key=lambda pair: pair[1].order)
                return
            yield block, owed

    # -- jobs -------------------------------------------------------------------------------------

    def send_external(
        self, secondary: Secondary, blocks: list[Block], request: Request
    ) -> int | None:
        """Send blocks for a peer's request; None when nothing was sent: the share of cascades does
        not allow it, a store of the tier is overdue, or the tier would not take it."""
        self._step.date()
        primary = self._primary
        new = sum(block not in primary.sending for block in blocks)
        if new > primary.berths_left() or len(blocks) > self._turns_left(secondary):
            return None
        if self._withheld(secondary):
            return None
        primary.pin_to_send(blocks)
        job_id = self._send(secondary, blocks, request, None)
        return job_id if job_id in secondary.sends else None

    def _send(
        self,
        secondary: Secondary,
        blocks: list[Block],
        request: Request | None,
        owed: dict[Key, Owed] | None,
    ) -> int:
        """Submit one store job for blocks that are pinned. `owed` is None for an external send."""
        kept = {block.key: block for block in blocks}
        job = Send(next(self._job_ids), secondary, request, kept, self._step.now, owed)
        secondary.sending += len(kept)
        if owed is not None:
            secondary.cascading.update(dict.fromkeys(kept, job))
        # It is under way before the tier hears of it: a reset from within knows of it.
        secondary.sends[job.job_id] = job
        refused = secondary.submit_store(
            StoreJob(
                job.job_id,
                tuple(kept),
                tuple([block.slot for block in blocks]),
                NO_REQUEST if request is None else request.info,
            )
        )
        secondary.totals.store_jobs += 1
        if refused is None:
            secondary.totals.store_ended(0, len(job.blocks), 0.0)
            self._fail(job, list(job.blocks), refused=False)
        elif refused:
            self._refuse(job, refused)
        if not job.blocks:
            secondary.sends.pop(job.job_id, None)
        return job.job_id

    def _refuse(self, job: Send, refused: Collection[Key]) -> None:
        keys = [key for key in dict.fromkeys(refused) if key in job.blocks]
        if keys:
            job.secondary.pressed = True
            job.secondary.pressed_in_step = self._step.number
            job.secondary.pressed_at = self._step.now
            job.secondary.totals.refused += len(keys)
            self._fail(job, keys, refused=True)

    def _fail(self, job: Send, keys: Iterable[Key], *, refused: bool) -> None:
        """Keys of a job that were refused or failed: offered again, unless that was before a reset
        or for a peer."""
        blocks = self._let_go(job, keys)
        if job.owed is not None and not job.stale:
            for block in blocks:
                owed = job.owed.get(block.key) or Owed(job.request, 0)
                owed.attempts += 1
                owed.order = next(self._ages)
                if refused:
                    owed.not_in_step = self._step.number
                else:
                    owed.not_before = self._step.now + self._pause
                if owed.attempts > self._reoffers:
                    self._totals.cascades_given_up += 1
                else:
                    job.secondary.due[block] = owed

    def _let_go(self, job: Send, keys: Iterable[Key]) -> list[Block]:
        """The job touches these keys' slots no more."""
        blocks = [job.blocks.pop(key) for key in keys]
        if job.owed is not None:
            for block in blocks:
                del job.secondary.cascading[block.key]
        job.secondary.sending -= len(blocks)
        self._primary.unpin_sent(blocks)
        return blocks

    def end(self, job: Send, report: JobReport) -> None:
        """A store job has reported: the only place where one ends."""
        secondary, landed = job.secondary, report.landed
        del secondary.sends[job.job_id]
        secondary.pressed = False
        secondary.slow = self._slow_after is not None and report.seconds > self._slow_after
        blocks = self._let_go(job, landed)
        failed = list(job.blocks)
        if failed:
            self._fail(job, failed, refused=False)
        if job.owed is not None:  # else it went to a peer, and the tier has no more than before
            if not job.barred:
                secondary.retracted.difference_update(landed)
            if not job.stale:
                bit = secondary.bit
                for block in blocks:
                    block.done |= bit
        secondary.totals.store_ended(len(blocks), len(failed), report.seconds)

    # -- parked offers, eviction, reset -----------------------------------------------------------

    def _park(self, block: Block, request: Request) -> None:
        parked = self.parked.setdefault(block, {})
        if request not in parked:
            parked[request] = None
            request.parked += 1

    def unpark(self, block: Block) -> None:
        """The block's write has ended or is overdue: whoever parked an offer on it is let go.

        A block that was stored is offered to every tier anyway.
        """
        for request in self.parked.pop(block, ()):
            request.parked -= 1

    def evicted(self, block: Block) -> None:
        """The block is gone, and with it what was due."""
        for secondary in self._secondaries:
            if secondary.due and secondary.due.pop(block, None) is not None:
                self._totals.cascades_given_up += 1

    def forget_blocks(self) -> None:
        """A reset: nothing is due or parked, and jobs in flight only free their slots."""
        for block in list(self.parked):
            self.unpark(block)
        for secondary in self._secondaries:
            secondary.due.clear()
            secondary.pressed = secondary.slow = False
            for job in secondary.sends.values():
                job.stale = True

    def close(self) -> None:
        """The tiers are about to be stopped: nothing is due or parked, and nothing is offered any
        more, also by stores that end later."""
        self.forget_blocks()
        self._secondaries = ()

    def bar(self, secondary: Secondary) -> None:
        """The tier is cleared: no store in flight may bring its key back."""
        for job in secondary.sends.values():
            job.barred = True
            secondary.retracted.update(job.blocks)
