"""What cannot be seen from outside: slots, pins, waiters, work in flight, and whether it adds up.

Reads the manager's parts and changes nothing. Nothing here is on a path that serves.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable
from typing import TYPE_CHECKING, NoReturn, TypeAlias

from .blocks import Block, HitPromise, SharedHitPromise
from .counted import counted
from .jobs import Load, Read, Send, Write
from .requests import Request
from .tiers.base import Key
from .vocabulary import Phase

if TYPE_CHECKING:
    from .manager import TieredOffloadingManager

RESIDENT, QUEUED = Phase.RESIDENT, Phase.QUEUED
_Job: TypeAlias = Load | Send | Write | Read
_WRITING = (Phase.LOADING, Phase.STORING, Phase.OVERDUE_LOADING, Phase.OVERDUE_STORING)


class ManagerProbe:
    """Looks into one manager, under its lock."""

    def __init__(self, manager: TieredOffloadingManager) -> None:
        self._manager = manager
        self._primary = manager._primary
        self._requests = manager._requests
        self._transfers = manager._transfers
        self._cascades = manager._cascades
        self._secondaries = manager._secondaries

    # -- facts ------------------------------------------------------------------------------------

    def resident_keys(self) -> set[Key]:
        """Keys whose bytes are readable."""
        return {key for key, b in self._primary.blocks.items() if b.phase is RESIDENT}

    def phase(self, key: Key) -> str:
        """Name of the block's phase; "ABSENT" when it owns no slot."""
        block = self._primary.blocks.get(key)
        return "ABSENT" if block is None else block.phase.name

    def slot_of(self, key: Key) -> int | None:
        """The slot that the block owns."""
        block = self._primary.blocks.get(key)
        return None if block is None else block.slot

    def pins(self, key: Key) -> int:
        """Transfers that read the block."""
        block = self._primary.blocks.get(key)
        return 0 if block is None else block.pins

    def waiters(self, key: Key) -> set[int]:
        """Handles of the requests that the block is promised to."""
        block = self._primary.blocks.get(key)
        return set() if block is None else {request.handle for request in block.waits or ()}

    def free_slots(self) -> int:
        """Slots that belong to nobody."""
        return self._primary.free

    def quarantined(self) -> set[int]:
        """Slots whose block is forgotten and that a transfer may still touch."""
        return {block.slot for block in self._primary.quarantine}

    def permits_in_use(self) -> int:
        """Permits of promises until read."""
        return len(self._primary.permitted)

    def cascading_slots(self) -> int:
        """Slots under a store to a secondary tier."""
        return len(self._primary.sending)

    def retracted(self) -> set[tuple[str, Key]]:
        """Claims that count for nothing until there is new evidence."""
        return {(s.name, key) for s in self._secondaries for key in s.retracted}

    def due(self) -> set[tuple[str, Key]]:
        """Cascades that are to be offered (again)."""
        return {(s.name, block.key) for s in self._secondaries for block in s.due}

    def work_in_flight(self) -> int:
        """Jobs and operations that have not reported."""
        return (
            sum(len(s.loads) + len(s.sends) for s in self._secondaries)
            + len(self._transfers.reads)
            + sum(1 for write in self._transfers.writes.values() if write.blocks)
        )

    # -- conservation -----------------------------------------------------------------------------

    def check(self) -> None:
        """Everything adds up.

        Raises:
            AssertionError: something does not; says what.
        """
        self._check_slots()
        self._check_pins()
        self._check_writers()
        self._check_promises()
        self._check_requests()

    def _check_slots(self) -> None:
        primary = self._primary
        owned = [block.slot for block in primary.blocks.values()]
        quarantined = [block.slot for block in primary.quarantine]
        free = [*primary._returned, *range(primary._fresh, primary.slots)]
        if len(free) != primary.free:
            _wrong(f"{counted(len(free), 'free slot')}, counted {primary.free}")
        doubled = [slot for slot, n in Counter(owned + quarantined + free).items() if n > 1]
        if doubled:
            _wrong(f"slots {doubled} are more than one of free, owned, quarantined")
        if len(owned) + len(quarantined) + len(free) != primary.slots:
            _wrong(
                f"{counted(primary.slots, 'slot')}, but {len(owned)} owned, {len(quarantined)} "
                "quarantined "
                f"and {len(free)} free"
            )
        for key, block in primary.blocks.items():
            if block.key != key:
                _wrong(f"the block of {key!r} says it is {block.key!r}")
        evictable = sum(b.phase is RESIDENT and b.loose for b in primary.blocks.values())
        if evictable != primary.evictable:
            _wrong(f"{counted(evictable, 'evictable block')}, counted {primary.evictable}")

    def _check_pins(self) -> None:
        pins: Counter[Block] = Counter()
        sending: Counter[Block] = Counter()
        for read in self._transfers.reads.values():
            pins.update(read.blocks)
        for secondary in self._secondaries:
            for job in secondary.sends.values():
                sending.update(job.blocks.values())
        pins.update(sending)
        for block in {*self._primary.blocks.values(), *self._primary.quarantine, *pins}:
            if block.pins != pins[block]:
                _wrong(
                    f"{block.key!r} has {counted(block.pins, 'pin')}, read by "
                    f"{counted(pins[block], 'transfer')}"
                )
            if not (not block.pins or block.phase is RESIDENT):
                _wrong(f"{block.key!r} is pinned but {block.phase.name}")
        if self._primary.sending != dict(sending):
            _wrong("berths differ from the stores in flight")

    def _check_writers(self) -> None:
        writing: dict[Block, Load | Write] = {}
        loads = [load for s in self._secondaries for load in s.loads.values()]
        for load in loads:
            writing.update(dict.fromkeys(load.blocks.values(), load))
        for write in self._transfers.writes.values():
            writing.update(dict.fromkeys(write.blocks, write))
        for block in self._primary.blocks.values():
            queued = block in self._requests.queued
            if queued != (block.phase is QUEUED):
                _wrong(f"{block.key!r} is {block.phase.name} and {'' if queued else 'not '}queued")
            if block.phase is not QUEUED:
                if block.writer is not writing.get(block):
                    _wrong(
                        f"{block.key!r} is {block.phase.name}: its writer is not what is in flight"
                    )
                if (block in writing) != (block.phase in _WRITING):
                    _wrong(
                        f"{block.key!r} is {block.phase.name} and "
                        f"{'' if block in writing else 'not '}being written"
                    )
        for block in self._primary.quarantine:
            if not (block in writing or block.pins > 0):
                _wrong(f"slot {block.slot} is quarantined under no transfer that will report")

    def _check_promises(self) -> None:
        primary, requests = self._primary, self._requests
        blocks = [*primary.blocks.values(), *primary.quarantine]
        used = len(primary.permitted)
        if not (primary.permitted.issubset(blocks) and used <= primary.permits):
            _wrong(f"{used} of {primary.permits} permits, or some of blocks that are no more")
        if not (len(primary.sending) <= primary.berths):
            _wrong(
                f"{counted(len(primary.sending), 'slot')} in cascades, allowed are {primary.berths}"
            )
        waits = 0
        for block in blocks:
            waits += len(block.waits or ())
            if not (block.waits is None or block.waits != {}):
                _wrong(f"{block.key!r}: empty waits")
            for request in block.waits or ():
                if not (block in request.waits and request.home is requests):
                    _wrong(f"{request} waits on {block.key!r} without knowing it, or has finished")
            promised = block.phase is RESIDENT and block.waits is not None
            permit = block in primary.permitted
            if not (permit or not promised):
                _wrong(f"{block.key!r} is promised without a permit")
            loading = block.phase in (QUEUED, Phase.LOADING, Phase.OVERDUE_LOADING)
            if not (permit or not loading):
                _wrong(f"{block.key!r} is promoted without a permit")
            if not (not permit or block.phase is not RESIDENT or promised):
                _wrong(f"{block.key!r} holds a permit for nobody")
        if waits != requests.waiting:
            _wrong(f"{waits} waits, counted {requests.waiting}")

    def _check_requests(self) -> None:
        requests = self._requests
        known = [*requests.live.values(), *requests.ends]
        undecided = sum(len(tiers) for r in known for tiers in r.probes.values())
        counted = self._manager._undecided.count
        if undecided != counted:
            _wrong(f"{undecided} undecided probes, counted {counted}")
        storing: Counter[Request] = Counter(
            write.request
            for write in self._transfers.writes.values()
            if write.blocks and not write.stale and not write.overdue
        )
        parked: Counter[Request] = Counter()
        for offers in self._cascades.parked.values():
            parked.update(tuple(offers))
        for request in {*known, *storing, *parked}:
            if (request.storing, request.parked) != (storing[request], parked[request]):
                _wrong(
                    f"{request} counts {request.storing} stores and {request.parked} parked "
                    f"offers, there are {storing[request]} and {parked[request]}"
                )
        for request in requests.ends:
            if not (not request.waits and not request.probes and request.home is None):
                _wrong(f"{request} has finished and still waits for something")
        for secondary in self._secondaries:
            for block in secondary.due:
                if not (self._primary.blocks.get(block.key) is block and block.phase is RESIDENT):
                    _wrong(f"a cascade of {block.key!r} is due, which is not resident")

    # -- fingerprint ------------------------------------------------------------------------------

    def fingerprint(self) -> Hashable:
        """Everything that can influence a future answer: equal fingerprints, equal futures.

        Times are relative to the step's, ids are replaced by order of age, slots left out.
        """
        primary, requests, now = self._primary, self._requests, self._manager._step.now
        everyone = {*requests.live.values(), *requests.ends}
        everyone.update(job.request for job in self._in_flight() if job.request is not None)
        for secondary in self._secondaries:
            everyone.update(o.request for o in secondary.due.values() if o.request is not None)
        number = {r: i for i, r in enumerate(sorted(everyone, key=lambda one: one.handle))}
        stranger = {b: i for i, b in enumerate(self._strangers())}

        def name(block: Block) -> Hashable:
            return ("old", stranger[block]) if block in stranger else block.key

        def whose(request: Request | None) -> int:
            return -1 if request is None or request.told else number[request]

        def promises(block: Block) -> Hashable:
            held = block.promise
            if held is None or not held.holds(primary.epoch):
                return frozenset()
            one: set[HitPromise] = held.members if isinstance(held, SharedHitPromise) else {held}
            return frozenset(number[r] for r in number if r.promise in one)

        def block_state(block: Block) -> Hashable:
            owner = None
            if block.phase is QUEUED and isinstance(block.writer, Load):
                owner = (block.writer.secondary.index, number[block.writer.request])
            return (
                name(block),
                block.phase.name,
                block.pins,
                block in primary.permitted,
                block.done,
                owner,
                tuple((number[r], reading) for r, reading in (block.waits or {}).items()),
                promises(block),
            )

        def job_state(job: _Job) -> Hashable:
            flags: tuple[Hashable, ...] = ()
            if isinstance(job, Send):
                again = ((key, owed.attempts) for key, owed in (job.owed or {}).items())
                flags = (job.owed is None, job.barred, *again)
            return (
                type(job).__name__,
                whose(job.request),
                tuple(name(block) for block in _blocks(job)),
                0.0 if isinstance(job, Read) else now - job.since,
                not isinstance(job, Read) and job.stale,
                isinstance(job, Load | Write) and job.overdue,
                flags,
            )

        def request_state(request: Request) -> Hashable:
            return (
                request.home is not None,
                request.told,
                tuple(s.index for s in request.secondaries),
                request.excluded and request.excluded.index,
                request.whole,
                frozenset(
                    (key, s.index, now - since)
                    for key, tiers in request.probes.items()
                    for s, since in tiers.items()
                ),
                frozenset(request.timed_out.items()),
                frozenset((key, s.index, spent) for (key, s), spent in request.spent.items()),
                frozenset((key, s.index) for key, s in request.found.items()),
                tuple(request.mentions.items()),
                request.storing,
                request.parked,
            )

        step = self._manager._step
        return (
            frozenset(block_state(b) for b in primary.blocks.values()),
            frozenset(block_state(b) for b in primary.quarantine),
            primary.free,
            tuple(name(block) for block in primary.policy.order()),
            frozenset(
                (number[request], tuple(map(name, blocks)))
                for request, blocks in primary.policy.runs()
                if blocks
            ),
            tuple(block.key for block in requests.queued),
            tuple(request_state(r) for r in number),
            tuple(whose(r) for r in requests.ends),
            tuple(
                (now - t, name(b))
                for t, bs in requests._leases
                for b in bs
                if b.waits and requests.renewed.get(b, t) <= t
            ),
            tuple(job_state(read) for read in self._transfers.reads.values()),
            tuple(job_state(write) for write in self._transfers.writes.values()),
            frozenset(
                (name(block), frozenset(number[r] for r in offers))
                for block, offers in self._cascades.parked.items()
            ),
            tuple(
                (
                    tuple(job_state(load) for load in s.loads.values()),
                    tuple(job_state(job) for job in s.sends.values()),
                    tuple(
                        (
                            *(name(b), o.attempts, whose(o.request)),
                            *(o.not_in_step >= step.number, max(0.0, o.not_before - now)),
                        )
                        for b, o in s.due.items()
                    ),
                    frozenset(s.retracted),
                    s.pressed and (s.pressed_in_step >= step.number, now - s.pressed_at),
                    s.slow,
                )
                for s in self._secondaries
            ),
            self._manager._lookups.held,
            self._manager._closed,
            step.begun,
        )

    def _in_flight(self) -> list[_Job]:
        """Jobs and operations, by tier and age."""
        jobs: list[_Job] = []
        for secondary in self._secondaries:
            jobs += secondary.loads.values()
            jobs += secondary.sends.values()
        jobs += self._transfers.reads.values()
        jobs += self._transfers.writes.values()
        return jobs

    def _strangers(self) -> list[Block]:
        """Forgotten blocks, by the age of the transfers that hold them."""
        touched = dict.fromkeys(block for job in self._in_flight() for block in _blocks(job))
        return [block for block in touched if block in self._primary.quarantine]


def _blocks(job: _Job) -> Iterable[Block]:
    return job.blocks.values() if isinstance(job.blocks, dict) else job.blocks


def _wrong(words: str) -> NoReturn:
    raise AssertionError(words)
