"""Ends of requests that are told twice, too early or never, and what they leave behind."""

from __future__ import annotations

from ...impl.blocks import Block
from ...impl.cascades import Cascades
from ...impl.errors import ContractViolation
from ...impl.manager import TieredOffloadingManager
from ...impl.primary import PrimaryTier
from ...impl.requests import Request, Requests
from ...impl.secondary import Secondary
from ...impl.tiers.base import Key, StoreJob
from ...impl.undecided import Undecided
from .making import fault

ENDS = "the end of a request is told wrongly, or leaves something behind"
EVENTS = "events do not say what is resident"


@fault("Q1-finish", ENDS, "probes", case="B20")
class ToldTwice(Requests):
    """Each tier hears the end of a request twice."""

    def tell_ends(self) -> None:
        """As usual, and once more."""
        ended = list(self.ends)
        super().tell_ends()
        for request in ended:
            for secondary in self._secondaries:
                secondary.request_ends(request.info)


@fault("Q1-finish", ENDS, "deadlines of stores", case="B20")
class ToldTooEarly(Requests):
    """Tiers hear of an end while a store of the request is in flight."""

    def tell_ends(self) -> None:
        """At once."""
        storing = {request: request.storing for request in self.ends}
        for request in storing:
            request.storing = 0
        super().tell_ends()
        for request, number in storing.items():
            request.storing = number


@fault("Q1-finish", ENDS, "promises", case="B20")
class ToldOnlyIfIdle(Requests):
    """An end is told only while nobody waits for anything, which may be never."""

    def tell_ends(self) -> None:
        """As usual, if nobody waits."""
        if not self.waiting:
            super().tell_ends()


@fault("Q1-finish", ENDS, "deadlines of stores", case="B31")
class HungStoreDelaysTheEnd(TieredOffloadingManager):
    """A store that is overdue keeps the end of its request from being told."""

    def _begin_step(self) -> None:
        storing = {request: request.storing for request in self._requests.ends}
        super()._begin_step()
        for request, number in storing.items():
            hung = [w for w in self._transfers.writes.values() if w.overdue and w.blocks]
            if any(write.request is request for write in hung):
                request.storing = number


@fault("Q1-finish", ENDS, "ends of copies", case="B20")
class SubmitsAfterTheEnd(Cascades):
    """A copy is offered again under a request of whose end the tiers have heard."""

    def _send(  # type: ignore[no-untyped-def]
        self, secondary: Secondary, blocks: list[Block], request: Request | None, owed
    ) -> int:
        keep = [o.request for o in (owed or {}).values() if o.request is not None]
        return super()._send(secondary, blocks, request or next(iter(keep), None), owed)


@fault("P1-progress", ENDS, "promises", case="B20")
class EndKeepsWaits(Requests):
    """A request ends, and what it waited for stays promised to it."""

    def finish(self, request: Request) -> None:
        """As usual, but landed blocks are not let go."""
        kept = [b for b in request.waits if b.phase.name == "RESIDENT"]
        for block in kept:
            del request.waits[block]
        super().finish(request)


@fault("S4-operations", ENDS, "after the end", case="B20")
class FinishedTwice(TieredOffloadingManager):
    """A request may finish twice, and it is not noticed."""

    def on_request_finished(self, request: Request) -> None:
        """Never refused."""
        try:
            super().on_request_finished(request)
        except ContractViolation:
            return


@fault("W1-pending-work", ENDS, "probes", case="B38")
class IdleThoughUndecided(TieredOffloadingManager):
    """The manager says that nothing is to happen while a tier has not decided yet."""

    def has_pending_work(self) -> bool:
        """As usual, but for probes."""
        undecided, self._undecided.count = self._undecided.count, 0
        try:
            return super().has_pending_work()
        finally:
            self._undecided.count = undecided


@fault("W1-pending-work", ENDS, "cascades", case="B38")
class IdleThoughDue(TieredOffloadingManager):
    """The manager says that nothing is to happen while a copy is due."""

    def has_pending_work(self) -> bool:
        """As usual, but only for what runs."""
        due = [secondary.due for secondary in self._secondaries]
        for secondary in self._secondaries:
            secondary.due = {}
        try:
            return super().has_pending_work()
        finally:
            for secondary, owed in zip(self._secondaries, due, strict=True):
                secondary.due = owed


@fault("W1-pending-work", ENDS, "probes", case="B38")
class BusyForEver(Undecided):
    """A request that ends while a tier is undecided leaves the manager busy for ever."""

    def forget(self, request: Request) -> None:
        """As usual, but its probes still count."""
        count = self.count
        super().forget(request)
        self.count = count


@fault("W1-pending-work", ENDS, "probes", case="B38")
class ScheduledStillAsks(Undecided):
    """What a scheduled request left undecided is work for ever: it will not ask again."""

    def settle_all(self, request: Request) -> None:
        """Never."""


@fault("E1-events", EVENTS, "victims", "room", case="B25")
class EvictedSilently(PrimaryTier):
    """A block is evicted and no event says so."""

    def evict(self) -> Block | None:
        """As usual, but silently."""
        events, self._events = self._events, None
        try:
            return super().evict()
        finally:
            self._events = events


@fault("E1-events", EVENTS, "batches", case="B25")
class StoredTooEarly(PrimaryTier):
    """A block counts as stored when it gets its slot."""

    def reserve(self, key: Key) -> Block:
        """As usual, with an event."""
        from ...impl.events import Event

        block = super().reserve(key)
        assert self._events is not None
        self._events.append(Event("stored", key))
        return block


@fault("S1-slot-exclusive", EVENTS, "cascades", case="B41")
class CopiesAnotherSlot(Secondary):
    """A copy reads a slot that is not its block's."""

    __slots__ = ()

    def submit_store(self, job: StoreJob):  # type: ignore[no-untyped-def]
        """As usual, but one slot further on."""
        return super().submit_store(
            StoreJob(job.job_id, job.keys, tuple(s + 1 for s in job.slots), job.request)
        )
