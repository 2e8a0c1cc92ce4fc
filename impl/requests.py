"""Who waits on what: requests, promises until read, leases, and when a request has ended."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from .blocks import Block, HitPromise
from .config import ManagerConfig
from .errors import ContractViolation
from .jobs import Load
from .primary import PrimaryTier
from .secondary import Secondary, named_tiers
from .tiers.base import Key, RequestInfo
from .undecided import Undecided
from .usage import Usage
from .vocabulary import Phase

RESIDENT, QUEUED, STORING = Phase.RESIDENT, Phase.QUEUED, Phase.STORING


class Request:
    """A request's handle, from `on_new_request`. Its id may be used again, `handle` never is."""

    __slots__ = (
        "asked",
        "excluded",
        "found",
        "handle",
        "home",
        "info",
        "loads",
        "mentions",
        "parked",
        "probes",
        "promise",
        "request_id",
        "secondaries",
        "seen",
        "spent",
        "storing",
        "timed_out",
        "told",
        "waits",
        "watched",
        "whole",
    )

    def __init__(
        self,
        home: Requests,
        info: RequestInfo,
        secondaries: tuple[Secondary, ...],
        *,
        counted: bool,
    ) -> None:
        self.request_id = info.request_id
        self.handle = info.handle
        self.info = info
        self.home: Requests | None = home
        """None once the request has finished."""
        self.secondaries = secondaries
        """The tiers it may ask, in order."""
        self.excluded: Secondary | None = None
        self.whole = 0
        """The tiers that asked for its whole context, as bits."""
        self.promise = HitPromise(None)
        """Its HIT promises of the epoch that it names."""
        self.waits: dict[Block, None] = {}
        """The blocks it was answered HIT_PENDING for and has not read or let go."""
        self.mentions: dict[Key, int] = {}
        """The keys it touched, loaded or stored: their places, and how far their use has come."""
        self.probes: dict[Key, dict[Secondary, float]] = {}
        """Which tier is undecided, and since when."""
        self.spent: dict[tuple[Key, Secondary], float] = {}
        """Seconds that tiers were undecided before that."""
        self.timed_out: dict[Key, int] = {}
        """Tiers that stayed undecided too long, as bits; sticky."""
        self.found: dict[Key, Secondary] = {}
        """The tiers that were found to have keys, for a load plan to come."""
        self.loads: dict[Secondary, Load] = {}
        """Its promotions queued in this step, one group for each tier."""
        self.storing = 0
        """GPU stores in flight that its end waits for."""
        self.parked = 0
        """Offers of other requests' blocks that wait for their write to end."""
        self.told = False
        """Whether the tiers have heard of its end."""
        self.seen: dict[Key, float | None] | None = {} if counted else None
        """When lookups are counted: the keys asked for, None or since when deferred."""
        self.asked: dict[Key, int] | None = {} if counted else None
        """When lookups are counted: the tiers that have decided about a key, as bits."""
        self.watched = counted
        """Whether a HIT has more to do than to promise: a probe to settle or a count."""

    def __repr__(self) -> str:
        """The id and the handle, nothing of the content."""
        return f"Request({self.request_id!r}, handle={self.handle})"


class Requests:
    """All requests that are live, or whose end the tiers have not heard of."""

    def __init__(
        self,
        secondaries: tuple[Secondary, ...],
        primary: PrimaryTier,
        undecided: Undecided,
        usage: Usage,
        config: ManagerConfig,
        *,
        counted: bool,
    ) -> None:
        self._secondaries = secondaries
        self._primary = primary
        self._undecided = undecided
        self._usage = usage
        self._lease = config.lease
        self._counted = counted
        self._leases: deque[tuple[float, list[Block]]] = deque()
        """Blocks that landed together, with the time; whoever waits on them does so on a lease."""
        self.renewed: dict[Block, float] = {}
        """Blocks whose lease a load plan has begun anew, with the time."""
        self._next_handle = 0
        self._closed = False
        self.live: dict[int, Request] = {}
        """The requests that have not finished, by handle."""
        self.waiting = 0
        """Promises until read (or landed) that have not been released."""
        self.queued: dict[Block, None] = {}
        """Promotions to submit when the step ends, in the order they were looked up."""
        self.ends: dict[Request, None] = {}
        """Finished requests whose end the tiers have not heard of."""

    # -- begin ------------------------------------------------------------------------------------

    def begin(
        self,
        request_id: str,
        tier_filter: Iterable[str] | None,
        excluded: Secondary | None = None,
    ) -> Request:
        """Announce a request to every tier.

        Raises:
            ContractViolation: the filter names a tier that there is not.
        """
        self.check_open()
        allowed = self._secondaries
        if tier_filter is not None:
            allowed = tuple(named_tiers(allowed, tier_filter))
        if excluded is not None:
            allowed = tuple(secondary for secondary in allowed if secondary is not excluded)
        info = RequestInfo(request_id, self._next_handle)
        self._next_handle += 1
        request = self.live[info.handle] = Request(self, info, allowed, counted=self._counted)
        request.excluded = excluded
        for secondary in self._secondaries:
            if secondary.request_begins(info):
                request.whole |= secondary.bit
        return request

    def check(self, request: Request) -> None:
        """Make sure that the handle is a live one of this manager.

        Raises:
            ContractViolation: it is not.
        """
        if getattr(request, "home", None) is not self:
            self.check_open()
            raise ContractViolation(
                f"{request!r} is not a live request of this manager; use what on_new_request "
                "returned, until on_request_finished"
            )

    # -- promises until read ----------------------------------------------------------------------

    def wait(self, block: Block, request: Request) -> None:
        """The request was answered HIT_PENDING: it waits on the block."""
        if block not in request.waits:
            if block.waits is None:
                block.waits = {}
            block.waits[request] = False
            request.waits[block] = None
            self.waiting += 1
            if request.probes:
                self._undecided.settle(request, block.key)
        if block.phase is STORING and block not in self._primary.permitted:
            # Without a permit the promise lasts until the block lands, not until it is read; who
            # asks again tries again.
            self._primary.take_permit(block)

    def queue(self, block: Block, secondary: Secondary, request: Request) -> None:
        """A promotion for `request`, who waits on it, is to be submitted when the step ends."""
        load = request.loads.get(secondary)
        if load is None:
            load = request.loads[secondary] = Load(secondary, request)
        block.writer = load
        block.waits = {request: False}
        request.waits[block] = None
        self.waiting += 1
        self.queued[block] = None
        if request.probes:
            self._undecided.settle(request, block.key)

    def let_go(self, block: Block, request: Request) -> None:
        """The request stops waiting on the block; a queued promotion of its own is passed on, or
        dropped when nobody else may have it."""
        self.end_wait(block, request)
        load = block.writer
        if block.phase is QUEUED and isinstance(load, Load) and load.request is request:
            self._pass_on(block, load.secondary)

    def end_wait(self, block: Block, request: Request) -> None:
        """One wait ends, whatever becomes of the block."""
        waits = block.waits
        assert waits is not None
        del waits[request]
        del request.waits[block]
        self.waiting -= 1
        if not waits:
            block.waits = None
            if block.phase is RESIDENT:
                self._primary.unawaited(block)

    def end_waits(self, block: Block) -> None:
        """All waits on the block end: it failed, is overdue, or landed without a permit."""
        if block.waits is not None:
            for request in list(block.waits):
                self.end_wait(block, request)

    def _pass_on(self, block: Block, source: Secondary) -> None:
        for other in block.waits or ():
            if source in other.secondaries:
                load = other.loads.get(source)
                if load is None:
                    load = other.loads[source] = Load(source, other)
                block.writer = load
                return
        self.end_waits(block)
        del self.queued[block]
        self._primary.vanish(block)

    def withdraw(self, keys: Iterable[Key], request: Request) -> None:
        """The request's hit does not read these keys."""
        blocks = self._primary.blocks
        for key in keys:
            block = blocks.get(key)
            if block is not None and block in request.waits:
                self.let_go(block, request)

    def scheduled(self, request: Request) -> None:
        """The request runs now: what it does not read at this moment it has let go."""
        for block in [b for b in request.waits if b.waits is not None and not b.waits[request]]:
            self.let_go(block, request)
        if request.probes:
            self._undecided.settle_all(request)

    def settle_stored(self, blocks: list[Block], now: float) -> None:
        """GPU stores are about to land: promises that hold a permit last until read, the others
        end here."""
        for block in blocks:
            if block not in self._primary.permitted:
                self.end_waits(block)
        waited = [block for block in blocks if block.waits is not None]
        if waited:
            self.lease(waited, now)

    def lease(self, blocks: list[Block], now: float) -> None:
        """Landed blocks are kept for who waits on them, but not for ever."""
        if self._lease is None:
            return
        if self._leases and self._leases[-1][0] == now:
            # one entry for a step: a thousand jobs that land together leave no objects behind
            self._leases[-1][1].extend(blocks)
        else:
            self._leases.append((now, list(blocks)))

    def expire_leases(self, now: float) -> None:
        """Landed blocks that were not read in time are let go, but by nobody who is reading."""
        leases, lease = self._leases, self._lease
        while leases and lease is not None and now - leases[0][0] >= lease:
            since, blocks = leases.popleft()
            for block in blocks:
                if self.renewed and self.renewed.get(block, since) > since:
                    continue  # a plan has begun it anew, and entered it again
                self.renewed.pop(block, None)
                waits = block.waits or {}
                for request in [one for one, reading in waits.items() if not reading]:
                    self.end_wait(block, request)

    def hold(self, block: Block, request: Request, now: float, *, reading: bool) -> None:
        """A load plan promises a RESIDENT block until read. There is a permit for it."""
        if block not in request.waits:
            if block.waits is None:
                self._primary.awaited(block)
                block.waits = {}
            block.waits[request] = reading
            request.waits[block] = None
            self.waiting += 1
            if block not in self._primary.permitted:
                self._primary.take_permit(block)
        if self._lease is not None:
            self.renewed[block] = now
            self._leases.append((now, [block]))

    # -- end --------------------------------------------------------------------------------------

    def finish(self, request: Request) -> None:
        """Release what the request was promised; the tiers hear of its end when a step ends."""
        for block in list(request.waits):
            self.let_go(block, request)
        self._undecided.forget(request)
        request.found.clear()
        request.promise.epoch = None
        self._primary.policy.restore_promised()
        self._usage.finish(request)
        request.home = None
        del self.live[request.handle]
        self.ends[request] = None

    def tell_ends(self) -> None:
        """Tell the tiers of the requests that will submit nothing more."""
        if self.ends:
            for request in [one for one in self.ends if not one.storing and not one.parked]:
                if request in self.ends:  # a tier that is told of one may end a step itself
                    self._tell(request)

    def _tell(self, request: Request) -> None:
        del self.ends[request]
        request.told = True
        self._primary.policy.close(request)
        request.mentions.clear()
        for secondary in self._secondaries:
            secondary.request_ends(request.info)

    def close(self) -> None:
        """The tiers are about to be stopped: they hear of every end that they have not heard of."""
        self._closed = True
        while self.ends:
            self._tell(next(iter(self.ends)))

    def check_open(self) -> None:
        """Make sure that the manager is not shut down.

        Raises:
            ContractViolation: it is.
        """
        if self._closed:
            raise ContractViolation("the manager is shut down; build a new one")

    def forget_blocks(self) -> None:
        """A reset: nobody waits on anything; requests, probes and ends stay."""
        for block in self._primary.blocks.values():
            for request in block.waits or ():
                request.waits.clear()
                request.loads.clear()
        for request in self.live.values():
            request.found.clear()
            request.mentions.clear()
        self.waiting = 0
        self.queued.clear()
        self._leases.clear()
        self.renewed.clear()
