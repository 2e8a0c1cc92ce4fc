"""The production manager: one method for each call, each a few lines that say what happens.

A lookup passes through `primary` (does a block own a slot?), `claims` (which tier has it?),
`primary` again (slot and permit), `requests` (who waits); the step's end hands it to `transfers`,
whose completion comes back to `primary` and from there to whoever waits. Nothing runs back up.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Literal

from prometheus_client.registry import CollectorRegistry

from .arena import Arena
from .arguments import distinct, listed
from .blocks import HitPromise
from .closing import Closing
from .config import ManagerConfig
from .events import Event
from .exporter import stats
from .external import ExternalRequests
from .operations import Explanation, LoadOperation, ResetResult, StoreOperation
from .parts import Parts
from .planning import LoadPlanning
from .probes import ManagerProbe
from .requests import Request
from .secondary import named_tiers
from .tiers.base import Key, Tier
from .vocabulary import LookupResult, Phase

# Names of the module: an attribute of an Enum class costs several times as much to read.
HIT, RESIDENT = LookupResult.HIT, Phase.RESIDENT


class TieredOffloadingManager(LoadPlanning, Closing):
    """Answers which KV-cache blocks are where, and moves them between memory and slower tiers.

    The caller holds `lock` around every call but `shutdown`. A step is lookups and loads first,
    stores after; it ends with `on_schedule_end`. The first call of a step reads the clock and
    takes in what the tiers have finished.

    Args:
        slots: rows of the primary tier.
        block_bytes: bytes of a row.
        tiers: secondary tiers in the order in which they are asked.
        clock: monotonic seconds; tests own it.
        arena: the rows, when the caller has made them; made here when None.
        config: deadlines, shares, eviction; defaults when None.
        registry: where Prometheus finds the metrics; nowhere when None, and lookups are then
            counted only when `config.count_lookups` says so.

    Raises:
        ConfigError: a size, a tier or the arena cannot be.
    """

    def __init__(
        self,
        *,
        slots: int,
        block_bytes: int,
        tiers: Sequence[Tier] = (),
        clock: Callable[[], float] = time.monotonic,
        arena: Arena | None = None,
        config: ManagerConfig | None = None,
        registry: CollectorRegistry | None = None,
    ) -> None:
        self.lock = threading.RLock()
        self.config = config or ManagerConfig()
        parts = Parts(slots, block_bytes, tiers, clock, arena, self.config, registry)
        self.arena = parts.arena
        self._clock = clock
        self._secondaries = parts.secondaries
        self._totals = parts.totals
        self._step = parts.step
        self._events = parts.events
        self._primary = parts.primary
        self._undecided = parts.undecided
        self._usage = parts.usage
        self._requests = parts.requests
        self._cascades = parts.cascades
        self._transfers = parts.transfers
        self._stores = parts.stores
        self._plans = parts.plans
        self._lookups = parts.lookups
        self._counted = parts.counted
        self._exporter = parts.exporter
        answering = parts.lookups if parts.counted is None else parts.counted
        self._decide, self._share = answering.decide, answering.share
        # A subclass that overrides `lookup` alone means it for every key.
        self._lookup_is_ours = type(self).lookup is TieredOffloadingManager.lookup

    # -- requests ---------------------------------------------------------------------------------

    def on_new_request(
        self, request_id: str, *, tier_filter: Iterable[str] | None = None
    ) -> Request:
        """Announce a request; the handle that comes back names it in every other call.

        Args:
            request_id: the caller's name for it; may be used again.
            tier_filter: names of the tiers that its lookups may ask; all when None.

        Raises:
            ContractViolation: the filter names a tier that there is not.
        """
        return self._requests.begin(request_id, tier_filter)

    def on_request_finished(self, request: Request) -> None:
        """The request has finished or was aborted: what it was promised is released at once.

        After `shutdown`, which ends every request, this does nothing.

        Raises:
            ContractViolation: the handle is not a live one.
        """
        if self._closed:
            return
        self._requests.check(request)
        self._requests.finish(request)
        if self._counted is not None:
            self._counted.close(request)

    # -- lookups ----------------------------------------------------------------------------------

    def lookup(self, key: Key, request: Request) -> LookupResult:
        """Where is the block of `key`, for `request`?

        Raises:
            ContractViolation: the handle is not a live one.
        """
        primary = self._primary
        promise = request.promise
        # One comparison says that a step has begun and that the handle is live and ours: only
        # `_renew` brings a request's promise into the current epoch.
        if promise.epoch is not primary.epoch:
            promise = self._renew(request)
        block = primary.blocks.get(key)
        if block is not None and block.phase is RESIDENT:
            held = block.promise
            if held is not promise:
                if (held is None or held.epoch is not primary.epoch) and not request.watched:
                    block.promise = promise
                else:
                    self._share(block, request)
            return HIT
        return self._decide(key, block, request)

    def lookup_many(self, keys: Iterable[Key], request: Request) -> list[LookupResult]:
        """As `lookup` for each key in turn, in less time.

        Raises:
            ContractViolation: the handle is not a live one.
            TypeError: a key cannot be hashed; nothing was looked up.
        """
        if not self._lookup_is_ours:
            return [self.lookup(key, request) for key in keys]
        keys = listed(keys)  # what is no key is refused before the first promotion is begun
        promise = self._renew(request)
        epoch, find = self._primary.epoch, self._primary.blocks.get
        resident, hit = RESIDENT, HIT
        answers: list[LookupResult] = []
        answer = answers.append
        quiet = not request.watched
        for key in keys:
            block = find(key)
            if block is not None and block.phase is resident:
                held = block.promise
                if held is not promise:
                    if quiet and (held is None or held.epoch is not epoch):
                        block.promise = promise
                    else:
                        self._share(block, request)
                        quiet = not request.watched
                answer(hit)
            else:
                answer(self._decide(key, block, request))
                quiet = not request.watched
        return answers

    def explain(self, key: Key, request: Request) -> Explanation:
        """What `lookup` would answer, and why, as of the manager's last look at clock and reports.

        Asks the tiers, but changes nothing here: what a tier has reported since is not taken in.

        Raises:
            ContractViolation: the handle is not a live one.
        """
        self._requests.check(request)
        return self._lookups.explain(key, request, self._secondaries)

    def _renew(self, request: Request) -> HitPromise:
        """Begin the step if need be; the request's HIT promises are of this epoch from here on."""
        self._requests.check(request)
        self._begin_step_for(request)
        promise, epoch = request.promise, self._primary.epoch
        if promise.epoch is not epoch:
            promise = request.promise = HitPromise(epoch)
        return promise

    # -- loads and stores -------------------------------------------------------------------------

    def prepare_load(self, keys: Iterable[Key], request: Request) -> LoadOperation:
        """Pin the blocks for a copy to the GPU.

        Raises:
            ContractViolation: a key is not RESIDENT or named twice, or the handle is not live.
        """
        self._requests.check(request)
        keys = distinct(keys)
        self._begin_step_for(request)
        return self._transfers.begin_read(keys, request)

    def complete_load(self, operation: LoadOperation | int) -> None:
        """The copy to the GPU has ended, well or not: its pins are gone.

        Raises:
            ContractViolation: the operation is unknown or already complete.
        """
        self._transfers.end_read(operation)
        if self._stopped:
            self._release()

    def prepare_store(self, keys: Iterable[Key], request: Request) -> StoreOperation | None:
        """Slots for the longest head of the offer that fits, evicting as needed.

        Returns:
            None when something needs a slot and nothing fits: nothing is reserved or evicted.

        Raises:
            ContractViolation: a key is named twice, or the handle is not a live one.
        """
        self._requests.check(request)
        keys = distinct(keys)
        self._begin_step_for(request)
        self._primary.end_hit_promises()
        return self._stores.offer(keys, request)

    def complete_store(self, operation: StoreOperation | int, ok: bool = True) -> None:
        """The copy from the GPU has ended: its blocks are readable and cascade, or are gone.

        Raises:
            ContractViolation: the operation is unknown or already complete.
        """
        self._transfers.end_write(operation, ok=ok)
        if self._stopped:
            self._release()

    def touch(self, keys: Iterable[Key], request: Request) -> None:
        """The request uses these keys, head first; it counts once however often it is said.

        Raises:
            ContractViolation: the handle is not a live one.
        """
        self._requests.check(request)
        self._usage.touch(listed(keys), request)

    def withdraw(self, keys: Iterable[Key], request: Request) -> None:
        """The request's hit does not read these keys: its promises on them end.

        Raises:
            ContractViolation: the handle is not a live one.
        """
        self._requests.check(request)
        self._requests.withdraw(listed(keys), request)

    # -- steps ------------------------------------------------------------------------------------

    def on_schedule_end(self, newly_scheduled: Iterable[Request] = ()) -> None:
        """The step ends: promotions are submitted, promises of it end, ends are told.

        Args:
            newly_scheduled: requests that run from now on; what they do not read they let go.

        Raises:
            ContractViolation: one of the handles is not a live one.
        """
        newly_scheduled = tuple(newly_scheduled)
        for request in newly_scheduled:
            self._requests.check(request)
        self._begin_step()
        self._transfers.submit_queued()
        for request in newly_scheduled:
            self._requests.scheduled(request)
            if self._counted is not None:
                self._counted.close(request)
        self._cascades.offer_due()
        self._primary.end_hit_promises()
        self._step.end()
        # Last, when the step is over: a tier that calls the manager from there begins the next.
        self._requests.tell_ends()

    def _begin_step(self) -> None:
        """The first call of a step: one look at the clock, and what has happened meanwhile."""
        if self._step.begun:
            return
        self._requests.check_open()
        self._step.begin()
        self._transfers.absorb()
        self._transfers.expire()
        self._requests.expire_leases(self._step.now)

    def _begin_step_for(self, request: Request) -> None:
        """As `_begin_step`, in a call of a request: a tier that is polled may end it from within.

        Raises:
            ContractViolation: a tier has.
        """
        if not self._step.begun:
            self._begin_step()
            self._requests.check(request)

    def has_pending_work(self) -> bool:
        """Whether something is still to happen: only when not may the steps stop."""
        if self._closed:
            return False
        requests = self._requests
        if (
            requests.waiting
            or requests.queued
            or self._undecided.count
            or requests.ends
            or self._cascades.parked
        ):
            return True
        for secondary in self._secondaries:  # noqa: SIM110  # a generator costs more than all of it
            if secondary.busy:
                return True
        return False

    def take_events(self) -> list[Event]:
        """Stored and removed events since the last call, oldest first."""
        return self._events.take()

    # -- reset ------------------------------------------------------------------------------------

    def reset_cache(self, tiers: Iterable[str] | Literal["all"] | None = None) -> ResetResult:
        """Forget every block, without waiting; promotions are held until `on_reset_flushed`.

        Args:
            tiers: names of the secondary tiers that forget too; "all"; none when None.

        Raises:
            ContractViolation: a name is not a tier's.
        """
        self._requests.check_open()
        secondaries = self._secondaries
        named = secondaries if tiers == "all" else named_tiers(secondaries, tiers or ())
        self._requests.forget_blocks()
        self._cascades.forget_blocks()
        self._transfers.forget_blocks()
        self._primary.forget_all()
        self._lookups.held = True
        self._totals.resets += 1
        for secondary in named:
            self._cascades.bar(secondary)
        return ResetResult(tuple(secondary.name for secondary in named if secondary.clear()))

    def on_reset_flushed(self) -> None:
        """Nothing from before the reset is on its way any more: promotions may begin again."""
        self._requests.check_open()
        self._lookups.held = False

    # -- external requests ------------------------------------------------------------------------

    def external(self, tier_name: str) -> ExternalRequests:
        """The handle through which a tier that serves a peer acts; that tier is not asked.

        Raises:
            ContractViolation: there is no such tier.
        """
        serving = named_tiers(self._secondaries, [tier_name])[0]
        return ExternalRequests(
            self, serving, self._requests, self._transfers.resident, self._cascades
        )

    # -- what can be seen -------------------------------------------------------------------------

    def probe(self) -> ManagerProbe:
        """A look at what cannot be seen from outside: slots, pins, waiters, conservation."""
        return ManagerProbe(self)

    def stats(self) -> dict[str, float]:
        """Every metric by its Prometheus name and labels, as of now."""
        return stats(self._exporter)

    @property
    def contract_violations(self) -> list[str]:
        """Reports of tiers that were refused, in words; the first hundred."""
        return self._transfers.violations
