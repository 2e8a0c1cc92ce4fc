"""vLLM's tiering manager as a manager under test: the release as it is, called as it is called.

`factory(version)` makes factories for `--manager vllm:VERSION`. Only the release's public calls are
used. Its scheduler's own rules for callers are kept here, because breaking them would show nothing:
completions of what began before a reset are not passed on, an offer that needs no store is not
completed, and in 0.22, which has no call for it, a step ends where its scheduler ends it: in
`take_events`.

Until 0.24 a lookup answers True, False or None, and None stands for HIT_PENDING and for RETRY. It
is read as HIT_PENDING where the block owns a slot, else as RETRY: which of the two it means is not
held against these releases.

What `probe()` shows is read from the release's private state, never written.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..impl.arena import Arena
from ..impl.vocabulary import LookupResult
from .driver import Factory
from .under_test import Clock, HandDrivenTier
from .vllm_loader import Release, load
from .vllm_tier import Names, can_fail_in_part, can_filter, can_refuse, places, plug_in, slots_of


@dataclass(eq=False)
class Request:
    """A live request: its handle is its place in the order of requests."""

    handle: int
    context: Any
    over: bool = False


@dataclass(eq=False)
class Operation:
    """What the GPU reads or writes: `slots[i]` is the arena row of `keys[i]`."""

    keys: tuple[str, ...]
    slots: tuple[int, ...]
    request: Request
    resets: int
    """How many resets had been when it began."""


@dataclass(frozen=True)
class Event:
    """A block was stored or removed."""

    kind: str
    key: str


class VllmManager:
    """A release's `TieringOffloadingManager` over its CPU primary tier."""

    judged_by_what_is_seen = True
    """It has policies of its own, so it is not compared with our model: see `watch`."""

    def __init__(
        self, release: Release, *, slots: int, tiers: Sequence[HandDrivenTier], block_bytes: int
    ) -> None:
        self.release = release
        self.names = Names(release)
        self.arena = Arena(slots=slots, block_bytes=block_bytes)
        rows = np.frombuffer(self.arena.view, np.uint8).reshape(slots, block_bytes)
        self.hands = tuple(tiers)
        for hand in self.hands:
            hand.attach(self.arena)
        stock = release.build(
            slots=slots,
            block_bytes=block_bytes,
            memory=rows,
            tiers=lambda view: plug_in(release, self.hands, self.names, view),
        )
        self.stock, self.manager, self.primary = stock, stock.manager, stock.primary
        self.resets = 0
        self._taken: list[Any] = []
        has = vars(type(self.manager))
        self._announces = "on_new_request" in has
        self._ends_steps = "on_schedule_end" in has
        self.tells_ends = "on_request_finished" in has
        self.says_pending = "has_pending_work" in has
        self.prompt_events = self._ends_steps
        self.filters = can_filter(release)
        self.refusals = can_refuse(release)
        self.whole_requests = hasattr(release.base, "OffloadPolicy")
        self.fails_in_part = can_fail_in_part(release)
        self.ends_after_copies = not hasattr(release.tiering, "RequestState")
        self.inexpressible = dict(self._inexpressible())
        if callable(getattr(self.manager, "reset_cache", None)):  # in 0.22, its base class's
            self.reset_cache = self._reset_cache
            self.on_reset_flushed = self._on_reset_flushed

    def _inexpressible(self) -> Iterator[tuple[str, str]]:
        """Contracts that the release's interface has no words for."""
        yield "S4-operations", "GPU operations have no ids: its scheduler keeps them apart"
        if not self.fails_in_part:
            yield "F1-partial-failure", "a tier cannot say that a load has landed in part"
        if not self.says_pending:
            yield "W1-pending-work", "it is not asked whether work is pending"
        if not self.tells_ends:
            yield "Q1-finish", "tiers are not told of requests"

    @property
    def lock(self) -> Any:
        """What its callers hold around every call (0.33 and later)."""
        return getattr(self.manager, "lock", nullcontext())

    # -- requests ----------------------------------------------------------------------------------

    def on_new_request(
        self, request_id: str, *, tier_filter: Collection[str] | None = None
    ) -> Request:
        """A request begins."""
        base = self.release.base
        also = {} if tier_filter is None else {"load_tier_filter": self._filter(tier_filter)}
        context = base.ReqContext(req_id=request_id, **also)
        info = self.names.begin(context, request_id)
        with self.lock:
            if self._announces:
                self.manager.on_new_request(context)
            else:  # the tiers hear nothing of requests; the history has to know their names
                for hand in self.hands:
                    hand.on_new_request(info)
        return Request(info.handle, context)

    def _filter(self, names: Collection[str]) -> Any:
        base = self.release.base
        by_name = dict(zip((h.name for h in self.hands), places(self.release), strict=False))
        return base.TierFilter(matchers=tuple(base.TierMatcher(*by_name[n]) for n in names))

    def on_request_finished(self, request: Request) -> None:
        """A request has ended."""
        request.over = True
        if self.tells_ends:
            with self.lock:
                self.manager.on_request_finished(request.context)

    # -- lookups and copies ------------------------------------------------------------------------

    def lookup(self, key: str, request: Request) -> LookupResult:
        """One of the four answers."""
        name = self.names.key(key)
        with self.lock:
            said = self.manager.lookup(name, request.context)
        if said is None:
            pending = self.primary._policy.get(name) is not None
            return LookupResult.HIT_PENDING if pending else LookupResult.RETRY
        if isinstance(said, bool):
            return LookupResult.HIT if said else LookupResult.MISS
        return LookupResult[said.name]

    def prepare_load(self, keys: Sequence[str], request: Request) -> Operation:
        """Pin blocks for the GPU to read."""
        with self.lock:
            made = self.manager.prepare_load([self.names.key(k) for k in keys], request.context)
        return Operation(tuple(keys), slots_of(made), request, self.resets)

    def complete_load(self, operation: Operation) -> None:
        """The GPU has read."""
        if operation.resets == self.resets:
            keys = [self.names.key(k) for k in operation.keys]
            with self.lock:
                self.manager.complete_load(keys, operation.request.context)

    def prepare_store(self, keys: Sequence[str], request: Request) -> Operation | None:
        """Slots for keys that the GPU will write."""
        with self.lock:
            made = self.manager.prepare_store([self.names.key(k) for k in keys], request.context)
        if made is None:
            return None
        stored = self.names.names(made.keys_to_store)
        return Operation(stored, slots_of(made.store_spec), request, self.resets)

    def complete_store(self, operation: Operation, ok: bool = True) -> None:
        """The GPU has written, or has not."""
        if operation.resets == self.resets and operation.keys:
            keys = [self.names.key(k) for k in operation.keys]
            with self.lock:
                self.manager.complete_store(keys, operation.request.context, success=ok)

    # -- steps -------------------------------------------------------------------------------------

    def on_schedule_end(self, newly_scheduled: Collection[Request] = ()) -> None:
        """The scheduler's step ends."""
        with self.lock:
            if not self._ends_steps:
                self._taken += list(self.manager.take_events())
            elif (context := getattr(self.release.base, "ScheduleEndContext", None)) is None:
                self.manager.on_schedule_end()
            else:
                ids = {r.context.req_id for r in newly_scheduled}
                self.manager.on_schedule_end(context(new_req_ids=ids, preempted_req_ids=set()))

    def has_pending_work(self) -> bool:
        """Must the scheduler go on stepping?"""
        with self.lock:
            return self.says_pending and bool(self.manager.has_pending_work())

    def take_events(self) -> list[Event]:
        """Stored and removed events since the last call; in 0.22 only once a step has ended."""
        with self.lock:
            taken = list(self.manager.take_events()) if self._ends_steps else self._taken
        self._taken = []
        return [
            Event("removed" if e.removed else "stored", self.names.name(key))
            for e in taken
            for key in e.keys
        ]

    def _reset_cache(self, *, tiers: Collection[str] | None = None) -> None:
        if tiers:
            raise ValueError("vLLM's reset_cache clears no secondary tier")
        self.resets += 1
        with self.lock:
            self.manager.reset_cache()

    def _on_reset_flushed(self) -> None:
        flushed = getattr(self.manager, "on_reset_flushed", None)
        if callable(flushed):
            with self.lock:
                flushed()

    def probe(self) -> Probe:
        """What its private state says."""
        return Probe(self)


class Probe:
    """Read from private state: what the release's interface does not show."""

    def __init__(self, manager: VllmManager) -> None:
        self._m = manager
        self._policy = manager.primary._policy

    def _block(self, key: str) -> Any:
        return self._policy.get(self._m.names.key(key))

    def resident_keys(self) -> list[str]:
        """Keys whose blocks can be read."""
        known = list(self._m.names.keys.values())
        return [k for k in known if (b := self._block(k)) is not None and b.is_ready]

    def slot_of(self, key: str) -> int | None:
        """The slot that a key owns."""
        block = self._block(key)
        return None if block is None else _slot(block)

    def pins(self, key: str) -> int:
        """Its count of readers."""
        block = self._block(key)
        return 0 if block is None else max(0, block.ref_cnt)

    def free_slots(self) -> int:
        """How many slots belong to no block."""
        primary = self._m.primary
        free = getattr(primary, "_get_num_free_chunks", None) or primary._get_num_free_blocks
        return int(free())

    def fingerprint(self) -> Hashable:
        """Blocks in the order of eviction, promotions not submitted yet, jobs and requests."""
        manager, names = self._m.manager, self._m.names
        blocks = []
        for place, key in enumerate(_order(self._policy)):
            block = self._policy.get(key)
            blocks.append((place, names.name(key), _slot(block), block.ref_cnt))
        queued = [
            (str(tier if isinstance(tier, int) else tier.tier_type), request, tuple(entry.keys))
            for tier, entries in manager._pending_load_submissions.items()
            for request, entry in entries.items()
        ]
        kept = getattr(manager, "_jobs", None) or manager._transfer_jobs
        jobs = sorted((str(type(j).__name__), tuple(map(bytes, _keys(j)))) for j in kept.values())
        requests = [
            (r, s.pending_primary_stores, s.is_finished, _parked(s))
            for r, s in getattr(manager, "_req_state", {}).items()
        ]
        held = getattr(manager, "_promotions_held", False)
        gate = manager._processed_jobs_this_step
        return tuple(blocks), tuple(queued), tuple(jobs), tuple(requests), held, gate


def _parked(state: Any) -> tuple[bytes, ...]:
    return tuple(getattr(state, "pending_cascade_keys", ()))


def _slot(block: Any) -> int:
    return int(block.chunk_id if hasattr(block, "chunk_id") else block.block_id)


def _keys(job: Any) -> Collection[bytes]:
    keys: Collection[bytes] = getattr(job, "transfer_job", job).keys
    return keys


def _order(policy: Any) -> list[bytes]:
    """The policy's blocks, those to be evicted first first."""
    blocks = policy.chunks if hasattr(policy, "chunks") else policy.blocks
    if ranks := getattr(policy, "_ranks", None):
        return sorted(blocks, key=lambda key: (ranks[key], key))
    names = ("evictable_chunks", "evictable_blocks", "_evictable")
    evictable = list(next((getattr(policy, n) for n in names if hasattr(policy, n)), ()))
    return evictable + [key for key in blocks if key not in evictable]


def factory(version: str) -> Factory:
    """A factory of managers under test for one release, which is loaded at once.

    Raises:
        UsageError: the release is not in the cache or cannot be loaded.
    """
    release = load(version)

    def make(*, slots: int, tiers: Sequence[Any], clock: Clock, block_bytes: int) -> VllmManager:
        del clock  # vLLM's manager has no clock: none of its waits is bounded by time
        return VllmManager(release, slots=slots, tiers=tiers, block_bytes=block_bytes)

    return make
