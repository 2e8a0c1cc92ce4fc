"""The production manager: one method for each call, each a few lines that say what happens.

A lookup passes through `primary` (does a block own a slot?), `claims` (which tier has it?),
`primary` again (slot and permit), `requests` (who waits); the step's end hands it to `transfers`,
whose completion comes back to `primary` and from there to whoever waits. Nothing runs back up.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from itertools import count
from typing import Literal

from .arena import Arena
from .blocks import Block, HitPromise, SharedHitPromise
from .cascades import Cascades
from .claims import Claims
from .config import ManagerConfig
from .errors import ConfigError, ContractViolation
from .events import Event, EventLog
from .external import ExternalRequests
from .metrics import Counters
from .operations import Explanation, LoadOperation, ResetResult, StoreOperation
from .policies import AdaptiveReplacement, LeastRecentlyUsed
from .primary import PrimaryTier
from .requests import Request, Requests
from .secondary import Secondary
from .step import Step
from .tiers.base import Key, Tier
from .transfers import Transfers
from .vocabulary import LookupResult, MissReason, Phase

# Names of the module: an attribute of an Enum class costs several times as much to read.
HIT, HIT_PENDING = LookupResult.HIT, LookupResult.HIT_PENDING
RETRY, MISS = LookupResult.RETRY, LookupResult.MISS
QUEUED, RESIDENT, STORING = Phase.QUEUED, Phase.RESIDENT, Phase.STORING


class TieredOffloadingManager:
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
    ) -> None:
        self.lock = threading.RLock()
        self.config = config or ManagerConfig()
        self.arena = _arena(arena, slots, block_bytes)
        self._secondaries = _secondaries(tiers, self.arena)
        self._counters = Counters()
        self._events = EventLog(enabled=self.config.events)
        self._step = Step(clock)
        self._clock = clock
        self._primary = PrimaryTier(
            slots=slots,
            permits=self.config.permits(slots),
            berths=self.config.berths(slots),
            policy=AdaptiveReplacement(slots)
            if self.config.eviction == "arc"
            else LeastRecentlyUsed(),
            events=self._events,
        )
        self._requests = Requests(self._secondaries, self._primary, self.config)
        self._claims = Claims(self._requests, self.config)
        job_ids = count()
        self._cascades = Cascades(
            self._secondaries, self._primary, self._step, self.config, self._counters, job_ids
        )
        self._transfers = Transfers(
            self._secondaries,
            self._primary,
            self._requests,
            self._cascades,
            self._step,
            self.config,
            self._counters,
            job_ids,
        )
        self._held = False
        self._closed = False
        # A subclass that overrides `lookup` alone means it for every key.
        self._lookup_is_ours = type(self).lookup is TieredOffloadingManager.lookup

    # -- requests ---------------------------------------------------------------------------------

    def on_new_request(
        self, request_id: str, *, tier_filter: Collection[str] | None = None
    ) -> Request:
        """Announce a request; the handle that comes back names it in every other call.

        Args:
            request_id: the caller's name for it; may be used again.
            tier_filter: names of the tiers that its lookups may ask; all when None.

        Raises:
            ConfigError: the filter names a tier that there is not.
        """
        return self._requests.begin(request_id, tier_filter)

    def on_request_finished(self, request: Request) -> None:
        """The request has finished or was aborted: what it was promised is released at once.

        Raises:
            ContractViolation: the handle is not a live one.
        """
        self._requests.check(request)
        self._requests.finish(request)

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
                if (held is None or held.epoch is not primary.epoch) and not request.probes:
                    block.promise = promise
                else:
                    self._promise(block, request)
            return HIT
        return self._decide(key, block, request)

    def lookup_many(self, keys: Iterable[Key], request: Request) -> list[LookupResult]:
        """As `lookup` for each key in turn, in less time.

        Raises:
            ContractViolation: the handle is not a live one.
        """
        if not self._lookup_is_ours:
            return [self.lookup(key, request) for key in keys]
        promise = self._renew(request)
        epoch, find = self._primary.epoch, self._primary.blocks.get
        resident, hit = RESIDENT, HIT
        answers: list[LookupResult] = []
        answer = answers.append
        quiet = not request.probes
        for key in keys:
            block = find(key)
            if block is not None and block.phase is resident:
                held = block.promise
                if held is not promise:
                    if quiet and (held is None or held.epoch is not epoch):
                        block.promise = promise
                    else:
                        self._promise(block, request)
                answer(hit)
            else:
                answer(self._decide(key, block, request))
                quiet = not request.probes
        return answers

    def explain(self, key: Key, request: Request) -> Explanation:
        """What `lookup` would answer now, and why. Asks the tiers, but changes nothing here.

        Raises:
            ContractViolation: the handle is not a live one.
        """
        self._requests.check(request)
        words = {s.name: "not asked" for s in self._secondaries}
        for secondary in self._secondaries:
            if secondary not in request.secondaries:
                words[secondary.name] = "not allowed"
        block = self._primary.blocks.get(key)
        if block is not None:
            if block.phase is RESIDENT:
                return Explanation(HIT, None, words)
            if block.phase <= STORING:
                return Explanation(HIT_PENDING, None, words)
            return Explanation(MISS, MissReason.OVERDUE, words)
        if self._held:
            return Explanation(MISS, MissReason.HELD, words)
        verdict = self._claims.explain(key, request, self._step.now, words)
        if verdict is None:
            return Explanation(RETRY, None, words)
        if isinstance(verdict, MissReason):
            return Explanation(MISS, verdict, words)
        if self._primary.can_promote():
            return Explanation(HIT_PENDING, None, words)
        return Explanation(MISS, MissReason.FULL, words)

    def _renew(self, request: Request) -> HitPromise:
        """Begin the step if need be; the request's HIT promises are of this epoch from here on."""
        self._requests.check(request)
        self._begin_step()
        promise, epoch = request.promise, self._primary.epoch
        if promise.epoch is not epoch:
            promise = request.promise = HitPromise(epoch)
        return promise

    def _promise(self, block: Block, request: Request) -> None:
        """A HIT that others were answered too, or that settles a probe."""
        promise, held, epoch = request.promise, block.promise, self._primary.epoch
        if held is None or not held.holds(epoch):
            block.promise = promise
        elif isinstance(held, SharedHitPromise):
            held.members.add(promise)
        else:
            block.promise = SharedHitPromise(epoch, held, promise)
        self._requests.settle_probes(request, block.key)

    def _decide(self, key: Key, block: Block | None, request: Request) -> LookupResult:
        """Every answer but a plain HIT."""
        if block is not None:
            if block.phase > STORING:  # resident blocks do not come here
                return self._miss(MissReason.OVERDUE)
            if block.waits is None or request not in block.waits:
                self._requests.wait(block, request)
            elif not block.permit:  # promised until it lands only: a permit may be free by now
                self._primary.take_permit(block)
            return HIT_PENDING
        if self._held:
            return self._miss(MissReason.HELD)
        primary = self._primary
        if not primary.free or primary.permits_used >= primary.permits:
            self._transfers.absorb()
        verdict = self._claims.ask(key, request, self._step.now)
        if verdict is None:
            return RETRY
        if isinstance(verdict, MissReason):
            return self._miss(verdict)
        return self._promote(key, verdict, request)

    def _promote(self, key: Key, source: Secondary, request: Request) -> LookupResult:
        """Reserve permit and slot, queue the promotion; or change nothing."""
        primary = self._primary
        if primary.permits_used >= primary.permits:
            return self._miss(MissReason.FULL)
        if not primary.free:
            victim = primary.evict()
            if victim is None:
                return self._miss(MissReason.FULL)
            self._cascades.evicted(victim)
        block = primary.take(key, QUEUED)
        primary.take_permit(block)
        self._requests.queue(block, source, request)
        return HIT_PENDING

    def _miss(self, reason: MissReason) -> LookupResult:
        return MISS

    # -- loads and stores -------------------------------------------------------------------------

    def prepare_load(self, keys: Sequence[Key], request: Request) -> LoadOperation:
        """Pin the blocks for a copy to the GPU.

        Raises:
            ContractViolation: a key is not RESIDENT or named twice, or the handle is not live.
        """
        self._renew(request)
        return self._transfers.begin_read(keys, request)

    def complete_load(self, operation: LoadOperation | int) -> None:
        """The copy to the GPU has ended, well or not: its pins are gone.

        Raises:
            ContractViolation: the operation is unknown or already complete.
        """
        self._transfers.end_read(operation)

    def prepare_store(self, keys: Sequence[Key], request: Request) -> StoreOperation | None:
        """Slots for the longest head of the offer that fits, evicting as needed.

        Returns:
            None when something needs a slot and nothing fits: nothing is reserved or evicted.

        Raises:
            ContractViolation: a key is named twice, or the handle is not a live one.
        """
        self._requests.check(request)
        if len(set(keys)) < len(keys):
            raise ContractViolation("a block is named twice in one store; name each once")
        self._begin_step()
        primary = self._primary
        primary.end_hit_promises()
        absent = [key for key in keys if key not in primary.blocks]
        if len(absent) > primary.free:
            self._transfers.absorb()
            absent = [key for key in keys if key not in primary.blocks]
        present = [primary.blocks[key] for key in keys if key in primary.blocks]
        accepted, evicted = absent, []
        if len(absent) > primary.free:
            spared = [b for b in present if b.phase is RESIDENT and b.loose]
            room = primary.free + primary.evictable - len(spared)
            if not room:
                return None
            accepted = absent[:room]
            evicted = primary.evict_sparing(max(0, len(accepted) - primary.free), spared)
            for victim in evicted:
                self._cascades.evicted(victim)
        operation = self._transfers.begin_write(
            accepted, [b.key for b in present], absent[len(accepted) :], evicted, request
        )
        for key in keys[: len(keys) - len(operation.refused)]:
            request.mentions[key] = request.mentions.get(key, False)
        if present and request.whole:
            self._cascades.offer_whole(present, request)
        return operation

    def complete_store(self, operation: StoreOperation | int, ok: bool = True) -> None:
        """The copy from the GPU has ended: its blocks are readable and cascade, or are gone.

        Raises:
            ContractViolation: the operation is unknown or already complete.
        """
        self._transfers.end_write(operation, ok=ok)

    def touch(self, keys: Collection[Key], request: Request) -> None:
        """The request uses these keys, head first; it counts once however often it is said.

        Raises:
            ContractViolation: the handle is not a live one.
        """
        self._requests.check(request)
        self._requests.touch(keys, request)

    def withdraw(self, keys: Iterable[Key], request: Request) -> None:
        """The request's hit does not read these keys: its promises on them end.

        Raises:
            ContractViolation: the handle is not a live one.
        """
        self._requests.check(request)
        self._requests.withdraw(keys, request)

    # -- steps ------------------------------------------------------------------------------------

    def on_schedule_end(self, newly_scheduled: Collection[Request] = ()) -> None:
        """The step ends: promotions are submitted, promises of it end, ends are told.

        Args:
            newly_scheduled: requests that run from now on; what they do not read they let go.

        Raises:
            ContractViolation: one of the handles is not a live one.
        """
        for request in newly_scheduled:
            self._requests.check(request)
        self._begin_step()
        self._transfers.submit_queued()
        for request in newly_scheduled:
            self._requests.scheduled(request)
        self._cascades.offer_due()
        self._primary.end_hit_promises()
        self._requests.tell_ends()
        self._step.end()

    def _begin_step(self) -> None:
        """The first call of a step: one look at the clock, and what has happened meanwhile."""
        if self._step.begun:
            return
        if self._closed:
            raise ContractViolation("the manager is shut down; build a new one")
        self._step.begin()
        self._transfers.absorb()
        self._transfers.expire()
        self._requests.expire_leases(self._step.now)

    def has_pending_work(self) -> bool:
        """Whether something is still to happen: only when not may the steps stop."""
        requests = self._requests
        return bool(
            requests.waiting
            or requests.queued
            or requests.undecided
            or requests.ends
            or self._cascades.parked
            or any(secondary.busy for secondary in self._secondaries)
        )

    def take_events(self) -> list[Event]:
        """Stored and removed events since the last call, oldest first."""
        return self._events.take()

    # -- reset ------------------------------------------------------------------------------------

    def reset_cache(self, tiers: Collection[str] | Literal["all"] | None = None) -> ResetResult:
        """Forget every block, without waiting; promotions are held until `on_reset_flushed`.

        Args:
            tiers: names of the secondary tiers that forget too; "all"; none when None.

        Raises:
            ConfigError: a name is not a tier's.
        """
        named = self._named(tiers)
        self._requests.forget_blocks()
        self._cascades.forget_blocks()
        self._transfers.forget_blocks()
        self._primary.forget_all()
        self._held = True
        for secondary in named:
            self._cascades.bar(secondary)
        return ResetResult(tuple(secondary.name for secondary in named if secondary.clear()))

    def on_reset_flushed(self) -> None:
        """Nothing from before the reset is on its way any more: promotions may begin again."""
        self._held = False

    def _named(self, tiers: Collection[str] | None) -> list[Secondary]:
        if tiers is None:
            return []
        if tiers == "all":
            return list(self._secondaries)
        names = [secondary.name for secondary in self._secondaries]
        unknown = [tiers] if isinstance(tiers, str) else sorted(set(tiers) - set(names))
        for name in unknown:
            raise ConfigError(f"tiers must be 'all', None or names out of {names}, not {name!r}")
        return [secondary for secondary in self._secondaries if secondary.name in tiers]

    # -- external requests ------------------------------------------------------------------------

    def external(self, tier_name: str) -> ExternalRequests:
        """The handle through which a tier that serves a peer acts; that tier is not asked.

        Raises:
            ConfigError: there is no such tier.
        """
        return ExternalRequests(self, self._named([tier_name])[0])

    def _send(self, keys: Sequence[Key], request: Request, serving: Secondary) -> int | None:
        self._requests.check(request)
        blocks = self._transfers.resident(keys)
        return self._cascades.send_external(serving, blocks, request)

    # -- shutdown ---------------------------------------------------------------------------------

    def drain(self, timeout: float) -> list[str]:
        """Let the tiers finish, for at most `timeout` seconds; names what could not be stopped."""
        end = self._clock() + timeout
        for secondary in self._secondaries:
            secondary.drain(max(0.0, end - self._clock()))
        self._transfers.absorb()
        return self._running()

    def _running(self) -> list[str]:
        running = [
            f"tier {secondary.name!r}: {kind} job {job_id}"
            for secondary in self._secondaries
            for kind, jobs in (("load", secondary.loads), ("store", secondary.sends))
            for job_id in jobs
        ]
        running += [f"GPU load operation {number}" for number in self._transfers.reads]
        running += [
            f"GPU store operation {n}" for n, w in self._transfers.writes.items() if w.blocks
        ]
        return running

    def shutdown(self, timeout: float = 5.0) -> None:
        """Stop every tier, then release the arena unless a transfer can still touch it.

        Idempotent; takes the lock itself.

        Raises:
            Exception: the first error of a tier that could not stop, after all had their try.
        """
        with self.lock:
            if self._closed:
                return
            running = self.drain(timeout)
            self._closed = True
            self._step.begun = False
            self._primary.end_hit_promises()
            errors: list[Exception] = []
            for secondary in self._secondaries:
                try:
                    secondary.tier.shutdown()
                except Exception as error:
                    errors.append(error)
            self._transfers.absorb()
            running = self._running()
            if running or errors:
                _warn_unreleased(running)
            else:
                self.arena.release()
            if errors:
                raise errors[0]

    @property
    def contract_violations(self) -> list[str]:
        """Reports of tiers that were refused, in words; the first hundred."""
        return self._transfers.violations


def _arena(arena: Arena | None, slots: int, block_bytes: int) -> Arena:
    if arena is None:
        return Arena(slots=slots, block_bytes=block_bytes)
    if (arena.slots, arena.block_bytes) != (slots, block_bytes):
        raise ConfigError(
            f"the arena has {arena.slots} rows of {arena.block_bytes} bytes, the manager was asked "
            f"for {slots} slots of {block_bytes}; make them equal"
        )
    return arena


def _secondaries(tiers: Sequence[Tier], arena: Arena) -> tuple[Secondary, ...]:
    names = [getattr(tier, "name", None) for tier in tiers]
    for tier, name in zip(tiers, names, strict=True):
        if not isinstance(tier, Tier) or not isinstance(name, str):
            raise ConfigError(f"tiers must be Tier objects, not {type(tier).__name__}")
        if names.count(name) > 1:
            raise ConfigError(f"tiers must have different names; {name!r} is used twice")
    for tier in tiers:
        tier.attach(arena)
    return tuple(Secondary(tier, index) for index, tier in enumerate(tiers))


def _warn_unreleased(running: list[str]) -> None:
    from .secondary import logger

    logger.warning(
        "shutdown keeps the primary memory, something could still touch it: %s",
        ", ".join(running) or "a tier failed to stop",
    )
