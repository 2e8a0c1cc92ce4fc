"""A small manager of tiered KV-cache blocks, to be held to TierProof's contracts.

It promotes blocks from its tiers and keeps what the GPU stores. It never copies a block *to* a tier
and cannot be reset, so it does not claim the contracts that speak of these (`claims`).
"""

from collections.abc import Callable, Collection, Sequence
from typing import Any, ClassVar

from small_blocks import Answer, Block, ContractViolation, Event, Key, Operation, Request

from tierproof import Arena
from tierproof.impl.tiers.base import Claim, LoadJob, RequestInfo, StorePolicy, Tier

LEASE = OVERDUE_AFTER = 30.0
UNDECIDED_FOR = 5.0

Probe = tuple[Request, Key, Tier]
"""Whom a tier keeps waiting for an answer."""


class SmallManager:
    """Everything in one class: what is resident, who waits, what loads."""

    claims = (
        *("L1-answer-true", "L2-until-landed", "L3-until-read", "L4-submitted-once"),
        *("L5-tiers-asked", "L6-hit-holds", "S1-slot-exclusive", "S2-no-reuse-under-transfer"),
        *("S3-pins", "S4-operations", "F1-partial-failure", "F2-claim-retracted"),
        *("F3-tier-raises", "Q1-finish", "P1-progress", "P2-room-for-stores"),
        *("W1-pending-work", "E1-events", "D1-bytes"),
    )
    known_gaps: ClassVar = {
        "W1-pending-work": "a tier that wants whole requests is not told of blocks being written"
    }

    def __init__(
        self,
        *,
        slots: int,
        tiers: Sequence[Tier],
        clock: Callable[[], float],
        block_bytes: int,
    ) -> None:
        self.arena = Arena(slots=slots, block_bytes=block_bytes)
        for tier in tiers:
            tier.attach(self.arena)
        self._tiers, self._clock = list(tiers), clock
        self._free = list(range(slots))
        half = max(1, slots // 2)
        self._permits = min(half, slots - 1) if slots > 1 else half
        self._blocks: dict[Key, Block] = {}
        self._jobs: dict[int, tuple[Tier, list[Key]]] = {}
        self._running: set[Operation] = set()
        self._retracted: set[tuple[Key, Tier]] = set()
        self._probes: dict[Probe, float | None] = {}
        self._spent: dict[Probe, float] = {}
        self._ending: list[Request] = []
        self._events: list[Event] = []
        self._handles = self._job_ids = 0
        self._now, self._begun = 0.0, False

    # -- requests --------------------------------------------------------------------------------

    def on_new_request(
        self, request_id: str, *, tier_filter: Collection[str] | None = None
    ) -> Request:
        """A request begins, and may load from the tiers that the filter names."""
        self._handles += 1
        allowed = [t for t in self._tiers if tier_filter is None or t.name in tier_filter]
        request = Request(RequestInfo(request_id, self._handles), allowed)
        policies = [tier.on_new_request(request.info) for tier in self._tiers]
        request.whole = StorePolicy.WHOLE_REQUEST in policies
        return request

    def on_request_finished(self, request: Request) -> None:
        """Its promises end now; the tiers hear of it at the end of a step."""
        self._live(request)
        for key in self._waited_by(request):
            self._let_go(key, request)
        for block in self._blocks.values():
            block.hits.discard(request)
        self._probes = {p: since for p, since in self._probes.items() if p[0] is not request}
        self._spent = {p: spent for p, spent in self._spent.items() if p[0] is not request}
        request.live = False
        self._ending.append(request)

    # -- lookups ---------------------------------------------------------------------------------

    def lookup(self, key: Key, request: Request) -> Answer:
        """Where is this block?"""
        self._live(request)
        self._begin_step()
        block = self._blocks.get(key)
        answer = self._ask(key, request) if block is None else self._known(block, request)
        if answer in (Answer.HIT, Answer.HIT_PENDING):  # what is undecided matters no more
            for tier in self._tiers:
                self._decided((request, key, tier))
        return answer

    def _known(self, block: Block, request: Request) -> Answer:
        if block.phase == "OVERDUE":
            return Answer.MISS
        if block.phase == "RESIDENT":
            block.hits.add(request)
            return Answer.HIT
        if request not in block.waits:
            block.waits.append(request)
        if not block.permit and self._permit_left():  # a store that somebody waits on
            block.permit = True
        return Answer.HIT_PENDING

    def _ask(self, key: Key, request: Request) -> Answer:
        if not self._free or not self._permit_left():
            self._absorb()
        undecided = False
        for tier in request.tiers:
            probe = (request, key, tier)
            timed_out = probe in self._probes and self._probes[probe] is None
            if timed_out:
                continue
            if (key, tier) in self._retracted:
                self._decided(probe)
                continue
            try:
                claim = tier.lookup(key, request.info)
            except Exception:
                claim = Claim.ABSENT
            if claim is Claim.UNDECIDED:
                spent = self._spent.pop(probe, 0.0)
                first = self._probes.setdefault(probe, self._now - spent)
                late = first is not None and self._now - first >= UNDECIDED_FOR
                self._probes[probe] = None if late else first
                undecided |= not late
                continue
            self._decided(probe)
            if claim is Claim.PRESENT:
                return self._promote(key, request, tier)
        return Answer.RETRY if undecided else Answer.MISS

    def _decided(self, probe: Probe) -> None:
        """A tier is undecided no more; the time that it took is not given again."""
        since = self._probes.get(probe)
        if since is not None:
            del self._probes[probe]
            self._spent[probe] = min(self._now - since, UNDECIDED_FOR)

    def _promote(self, key: Key, request: Request, tier: Tier) -> Answer:
        if not self._permit_left() or not (self._free or self._evictable()):
            return Answer.MISS
        block = self._take_slot(key, "QUEUED")
        block.source, block.owner, block.waits, block.permit = tier, request, [request], True
        return Answer.HIT_PENDING

    # -- the GPU ---------------------------------------------------------------------------------

    def prepare_load(self, keys: Sequence[Key], request: Request) -> Operation:
        """Pin blocks for the GPU to read."""
        self._live(request)
        self._distinct(keys)
        self._begin_step()
        found = [self._blocks.get(key) for key in keys]
        blocks = [b for b in found if b is not None and b.phase == "RESIDENT"]
        if len(blocks) < len(keys):
            raise ContractViolation("a block is not resident")
        for block in blocks:
            block.pins += 1
            block.hits.discard(request)
        return self._operation(keys, request, reads=True)

    def complete_load(self, operation: Operation) -> None:
        """The GPU has read: the request has got what it was promised."""
        self._over(operation, reads=True)
        for key in operation.keys:
            block = self._blocks[key]
            block.pins -= 1
            if operation.request in block.waits:
                self._let_go(key, operation.request)

    def prepare_store(self, keys: Sequence[Key], request: Request) -> Operation | None:
        """Slots for the longest head of the new keys that fits."""
        self._live(request)
        self._distinct(keys)
        self._begin_step()
        for block in self._blocks.values():
            block.hits.clear()
        absent = [key for key in keys if key not in self._blocks]
        if len(absent) > len(self._free):
            self._absorb()
            absent = [key for key in keys if key not in self._blocks]
        room = len(self._free) + len(self._evictable(spared=keys))
        accepted = absent[:room]
        if absent and not accepted:
            return None
        for key in accepted:
            block = self._take_slot(key, "STORING", spared=keys)
            block.since, block.owner = self._now, request
        if request.whole:
            for key in keys:
                if key in self._blocks and key not in accepted:
                    self._blocks[key].parked.add(request)
        return self._operation(accepted, request, reads=False)

    def complete_store(self, operation: Operation, ok: bool = True) -> None:
        """The GPU has written, or has not."""
        self._over(operation, reads=False)
        for key in operation.keys:
            block = self._blocks[key]
            if ok and not block.permit:
                block.waits.clear()
            if ok:
                self._landed(key, block)
            else:
                self._remove(key)

    # -- steps -----------------------------------------------------------------------------------

    def on_schedule_end(self, newly_scheduled: Collection[Request] = ()) -> None:
        """Submit what was promoted in this step, and end promises that were not needed."""
        for request in newly_scheduled:
            self._live(request)
        self._begin_step()
        self._submit()
        for request in newly_scheduled:
            for key in self._waited_by(request):
                if not self._reading(key, request):
                    self._let_go(key, request)
            for probe in [p for p in self._probes if p[0] is request]:
                self._decided(probe)  # it runs without what was undecided
        for block in self._blocks.values():
            block.hits.clear()
        writing = [b for b in self._blocks.values() if b.phase == "STORING"]
        storing = {b.owner for b in writing}.union(*(b.parked for b in writing))
        for request in [r for r in self._ending if r not in storing]:
            self._ending.remove(request)
            for tier in self._tiers:
                tier.on_request_finished(request.info)
        self._begun = False

    def has_pending_work(self) -> bool:
        """Is something still to happen?"""
        waits = any(b.waits for b in self._blocks.values())
        undecided = any(since is not None for since in self._probes.values())
        return bool(waits or self._jobs or self._ending or undecided)

    def take_events(self) -> list[Event]:
        """What was stored and removed since the last call."""
        events, self._events = self._events, []
        return events

    def probe(self) -> "SmallManager":
        """What the kit may look at: `slot_of` and `resident_keys`."""
        return self

    def slot_of(self, key: Key) -> int | None:
        """The slot that a key owns."""
        return self._blocks[key].slot if key in self._blocks else None

    def resident_keys(self) -> list[Key]:
        """Keys whose blocks can be read."""
        return [key for key, b in self._blocks.items() if b.phase == "RESIDENT"]

    def _begin_step(self) -> None:
        if self._begun:
            return
        self._begun, self._now = True, self._clock()
        self._absorb()
        for key, block in list(self._blocks.items()):
            old = self._now - block.since
            if block.phase in ("LOADING", "STORING") and old >= OVERDUE_AFTER:
                block.phase, block.waits = "OVERDUE", []
            elif block.phase == "RESIDENT" and old >= LEASE:
                for request in list(block.waits):
                    if not self._reading(key, request):
                        self._let_go(key, request)

    def _submit(self) -> None:
        jobs: dict[tuple[Tier, Request], list[Key]] = {}
        for key, block in self._blocks.items():
            if block.phase == "QUEUED":
                assert block.source is not None
                assert block.owner is not None
                jobs.setdefault((block.source, block.owner), []).append(key)
        for (tier, request), keys in jobs.items():
            slots = tuple(self._blocks[key].slot for key in keys)
            self._job_ids += 1
            for key in keys:
                self._blocks[key].phase, self._blocks[key].since = "LOADING", self._now
            try:
                tier.submit_load(LoadJob(self._job_ids, tuple(keys), slots, request.info))
            except Exception:
                self._failed(tier, keys)
            else:
                self._jobs[self._job_ids] = (tier, keys)

    def _absorb(self) -> None:
        for tier in self._tiers:
            try:
                poll = tier.poll()
            except Exception:
                continue
            for report in poll.reports:
                owner, keys = self._jobs.get(report.job_id, (None, []))
                if owner is not tier or not report.landed <= set(keys):
                    continue  # it speaks of what is not its own
                del self._jobs[report.job_id]
                for key in keys:
                    if key in report.landed:
                        self._landed(key, self._blocks[key])
                self._failed(tier, [key for key in keys if key not in report.landed])
            self._retracted -= {(key, tier) for key in poll.verified}

    # -- blocks ----------------------------------------------------------------------------------

    def _landed(self, key: Key, block: Block) -> None:
        block.phase, block.since = "RESIDENT", self._now
        block.permit = bool(block.waits)
        self._events.append(Event("stored", key))

    def _failed(self, tier: Tier, keys: list[Key]) -> None:
        for key in keys:
            self._retracted.add((key, tier))
            self._remove(key)

    def _take_slot(self, key: Key, phase: str, spared: Collection[Key] = ()) -> Block:
        if not self._free:
            victim = self._evictable(spared)[0]
            self._remove(victim)
            self._events.append(Event("removed", victim))
        self._blocks[key] = Block(self._free.pop(0), phase)
        return self._blocks[key]

    def _remove(self, key: Key) -> None:
        self._free.append(self._blocks.pop(key).slot)

    def _evictable(self, spared: Collection[Key] = ()) -> list[Key]:
        return [
            key
            for key, b in self._blocks.items()
            if b.phase == "RESIDENT" and key not in spared and not (b.pins or b.waits or b.hits)
        ]

    def _permit_left(self) -> bool:
        taken: int = sum(b.permit for b in self._blocks.values())
        return taken < self._permits

    def _let_go(self, key: Key, request: Request) -> None:
        block = self._blocks[key]
        block.waits.remove(request)
        if block.phase == "QUEUED" and block.owner is request:
            heirs = [r for r in block.waits if block.source in r.tiers]
            if heirs:
                block.owner = heirs[0]
            else:
                self._remove(key)
        elif block.phase == "RESIDENT" and not block.waits:
            block.permit = False

    def _waited_by(self, request: Request) -> list[Key]:
        return [key for key, b in self._blocks.items() if request in b.waits]

    # -- calls -----------------------------------------------------------------------------------

    def _operation(self, keys: Sequence[Key], request: Request, *, reads: bool) -> Operation:
        slots = [self._blocks[key].slot for key in keys]
        operation = Operation(list(keys), slots, request, reads)
        self._running.add(operation)
        return operation

    def _over(self, operation: Any, *, reads: bool) -> None:
        if operation not in self._running or operation.reads is not reads:
            raise ContractViolation("no such operation is running")
        self._running.remove(operation)

    def _reading(self, key: Key, request: Request) -> bool:
        return any(o.reads and o.request is request and key in o.keys for o in self._running)

    @staticmethod
    def _live(request: Request) -> None:
        if not request.live:
            raise ContractViolation("the request has ended")

    @staticmethod
    def _distinct(keys: Sequence[Key]) -> None:
        if len(set(keys)) < len(keys):
            raise ContractViolation("a key is named twice")
