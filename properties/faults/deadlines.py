"""Deadlines that do not end, begin anew, or end what they must not."""

from __future__ import annotations

from collections.abc import Iterable

from ...impl.blocks import Block
from ...impl.claims import Claims
from ...impl.jobs import Load
from ...impl.primary import PrimaryTier
from ...impl.requests import Request, Requests
from ...impl.secondary import Secondary
from ...impl.step import Step
from ...impl.tiers.base import Key
from ...impl.transfers import Transfers
from ...impl.undecided import Undecided
from ...impl.vocabulary import MissReason, Phase
from .making import fault

WAITING = "a wait is without a bound, or ends in the middle"


@fault("P1-progress", WAITING, "deadlines of loads", case="B31")
class NoPendingDeadline(Transfers):
    """A writer that never reports is waited for without a bound."""

    def expire(self) -> None:
        """Never."""


@fault("P1-progress", WAITING, "deadlines of loads", case="B31")
class DeadlineRestarts(Transfers):
    """Each step starts the deadline of every writer anew."""

    def expire(self) -> None:
        """As usual, but nobody is older than this step."""
        for writer in self._writers:
            writer.since = self._step.now
        super().expire()


@fault("P1-progress", WAITING, "deadlines of stores", case="B31")
class NoDeadlineForStores(Transfers):
    """Loads have a deadline, stores have none."""

    def expire(self) -> None:
        """As usual, but for loads."""
        loads = [writer for writer in self._writers if isinstance(writer, Load)]
        self._writers.clear()
        self._writers.extend(loads)
        super().expire()


@fault("P1-progress", WAITING, "probes", case="B31")
class ProbeRestarts(Undecided):
    """Each lookup starts the deadline of an undecided tier anew."""

    def times_out(self, request: Request, key: Key, secondary: Secondary) -> bool:
        """As usual, but as if the tier had been undecided since this step."""
        for tiers in request.probes.values():
            tiers.update(dict.fromkeys(tiers, self._step.now))
        return super().times_out(request, key, secondary)


@fault("P1-progress", WAITING, "probes", case="B31")
class WaveringStartsAnew(Undecided):
    """A tier that decides and wavers again has its whole time once more: two in turn, for ever."""

    def times_out(self, request: Request, key: Key, secondary: Secondary) -> bool:
        """As usual, but what it took before is forgotten."""
        request.spent.clear()
        return super().times_out(request, key, secondary)


@fault("P1-progress", WAITING, "probes", case="B31")
class NoProbeDeadline(Undecided):
    """A tier may stay undecided for ever."""

    def times_out(self, request: Request, key: Key, secondary: Secondary) -> bool:
        """As usual, but it is never too late."""
        deadline, self._deadline = self._deadline, None
        late = super().times_out(request, key, secondary)
        self._deadline = deadline
        return late


@fault("L3-until-read", WAITING, "stores between steps", case="B31")
class LandingDatedEarly(Step):
    """What is stored between two steps counts as stored when the last one began."""

    __slots__ = ()

    def date(self) -> None:
        """Without a look at the clock."""


@fault("P1-progress", WAITING, "deadlines of loads", case="B13")
class NoLease(Requests):
    """A landed block that nobody comes to read stays promised for ever."""

    def expire_leases(self, now: float) -> None:
        """Never."""


@fault("L3-until-read", WAITING, "deadlines of loads", case="B15")
class LeaseEndsInTheRead(Requests):
    """The lease on a landed block runs out while it is being read."""

    def expire_leases(self, now: float) -> None:
        """As usual, but nobody counts as reading."""
        for block in [block for _, blocks in self._leases for block in blocks]:
            if block.waits is not None:
                block.waits = dict.fromkeys(block.waits, False)
        super().expire_leases(now)


@fault("P1-progress", WAITING, "deadlines of loads", case="B31")
class ClockReadOnce(Step):
    """The clock is read when the manager is built, and never again."""

    __slots__ = ()

    def begin(self) -> None:
        """Without a look at the clock."""
        self.begun = True


@fault("L3-until-read", WAITING, "promises", case="B13")
class LandedIsEnough(PrimaryTier):
    """A promise ends when the block lands, and not when it has been read."""

    def land(self, blocks: list[Block], request: Request, done: int = 0) -> None:
        """As usual, but everybody is let go first."""
        for block in blocks:
            for waiter in list(block.waits or ()):
                assert waiter.home is not None
                waiter.home.end_wait(block, waiter)
        super().land(blocks, request, done)


@fault("L3-until-read", WAITING, "promises", case="B13")
class OneReaderEndsAllWaits(PrimaryTier):
    """The first of two waiters that has read the block lets it go for both."""

    def unpin(self, blocks: Iterable[Block]) -> None:
        """As usual, and nobody waits any more."""
        listed = list(blocks)
        super().unpin(listed)
        for block in listed:
            for request in list(block.waits or ()):
                assert request.home is not None
                request.home.end_wait(block, request)


@fault("L3-until-read", WAITING, "promises", case="B13")
class ScheduledEndsAllWaits(Requests):
    """One request is scheduled, and nobody waits for its blocks any more."""

    def scheduled(self, request: Request) -> None:
        """As usual, but for everybody who waits."""
        for block in [b for b in request.waits if b.phase is Phase.RESIDENT]:
            for other in list(block.waits or ()):
                if other is not request:
                    self.let_go(block, other)
        super().scheduled(request)


@fault("L3-until-read", WAITING, "promises", case="B15")
class ScheduledEndsTheRead(Requests):
    """A request is scheduled while it reads a block, and its promise ends there."""

    def scheduled(self, request: Request) -> None:
        """As usual, but nobody counts as reading."""
        for block in list(request.waits):
            self.let_go(block, request)


@fault("L3-until-read", WAITING, "stores", case="B13")
class WaitWithoutAPermit(PrimaryTier):
    """Who waits on a store is never promised more than that it lands."""

    def take_permit(self, block: Block) -> None:
        """None is free."""


@fault("P1-progress", WAITING, "failures", case="B05")
class FailedIsUndecided(Claims):
    """A block whose load failed everywhere is answered RETRY, for ever."""

    def ask(self, key: Key, request: Request) -> Secondary | MissReason | None:
        """As usual, but who failed may yet change its mind."""
        verdict = super().ask(key, request)
        return None if verdict is MissReason.FAILED else verdict
