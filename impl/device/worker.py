"""The device worker: the manager's load and store operations as copies, submitted and polled.

No method but `drain` and `close` waits for anything, so the scheduler may call it between two
steps. One thread at a time; the scheduler's lock will do.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from ..arena import Arena
from ..counted import counted
from ..errors import ConfigError, ContractViolation
from .backend import DeviceBackend, Event, Stream
from .lanes import Group, Lane, Loads, Piece, Stores
from .layout import KvTensor, Planes

DEFAULT_PIECE_BYTES = 32 << 20
_NAP = 0.001


class Operation(Protocol):
    """What the worker reads of a `LoadOperation` or a `StoreOperation`."""

    @property
    def operation_id(self) -> int:
        """Its number, not in use by another in flight."""
        ...

    @property
    def slots(self) -> tuple[int, ...]:
        """Arena rows, one for each key."""
        ...


class Completions(Protocol):
    """What the worker calls of a manager, to say how its operations went."""

    def complete_store(self, operation: int, ok: bool = True) -> None:
        """A store has ended."""
        ...

    def complete_load(self, operation: int) -> None:
        """A load has ended, well or not."""
        ...


@dataclass(frozen=True, slots=True)
class JobEnd:
    """How an operation's copies went: reported once, when they can touch nothing any more."""

    operation_id: int
    store: bool
    """Whether it was a store."""
    error: str | None
    """Why it failed, None when all bytes are in place. After a failed load the blocks' bytes are
    undefined: compute them again."""
    bytes: int
    """Bytes of blocks that it moved, or tried to."""
    seconds: float
    """From submission to the poll that noticed its end."""

    @property
    def ok(self) -> bool:
        """Whether all bytes are in place."""
        return self.error is None


class _Job:
    __slots__ = ("blocks", "bytes", "error", "events", "operation_id", "since", "store", "touched")

    def __init__(
        self, operation_id: int, store: bool, blocks: Sequence[int], size: int, since: float
    ) -> None:
        self.operation_id = operation_id
        self.store = store
        self.blocks = blocks
        self.bytes = size
        self.since = since
        self.error: str | None = None
        self.events: deque[Event] = deque()
        """What has not happened yet; the job has ended when all have."""
        self.touched: Event | None = None
        """Behind it the job touches the device's blocks no more."""


class DeviceWorker:
    """Moves KV blocks between a device's tensors and the arena.

    Args:
        arena: the primary tier's rows.
        groups: the KV groups, each the tensors that are indexed by its block ids.
        backend: the device.
        depth: bounce buffers for each direction and group.
        piece_bytes: size of a bounce buffer, rounded to at least one row. Device memory in all:
            2 directions x groups x `depth` x `piece_bytes`.
        clock: monotonic seconds.

    Raises:
        ConfigError: a tensor, a size or the arena cannot be used.
    """

    stores: type[Lane] = Stores
    loads: type[Lane] = Loads

    def __init__(
        self,
        *,
        arena: Arena,
        groups: Sequence[Sequence[KvTensor]],
        backend: DeviceBackend,
        depth: int = 2,
        piece_bytes: int = DEFAULT_PIECE_BYTES,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        for name, value in (("depth", depth), ("piece_bytes", piece_bytes)):
            if type(value) is not int or value < 1:
                raise ConfigError(f"{name} must be a whole number of at least 1, not {value!r}")
        self._planes = [Planes(group, arena.block_bytes) for group in groups]
        self._backend = backend
        self._clock = clock
        self._slots = arena.slots
        self._piece_blocks = min(max(1, piece_bytes // arena.block_bytes), arena.slots)
        rows = backend.register(arena)
        described = [Group(planes, rows) for planes in self._planes]
        self._store_lane, self._load_lane = (
            lane(
                backend,
                described,
                depth=depth,
                piece_blocks=self._piece_blocks,
                block_bytes=arena.block_bytes,
            )
            for lane in (self.stores, self.loads)
        )
        self._jobs: dict[int, _Job] = {}
        # The latest job in flight that touches a block. Block ids of all groups are taken for one
        # pool's: groups that share memory are then safe, and others wait a little more.
        self._reads: dict[int, Event] = {}
        self._writes: dict[int, Event] = {}

    # -- submitting -------------------------------------------------------------------------------

    def store(
        self,
        operation: Operation,
        blocks: Sequence[int],
        *,
        groups: Sequence[int] | None = None,
        after: Sequence[Event] | None = None,
    ) -> None:
        """Copy device block `blocks[i]` to arena row `operation.slots[i]`.

        Args:
            operation: what `prepare_store` returned.
            blocks: a device block for each of its keys.
            groups: the KV group of each key; all the first when None.
            after: events behind which the blocks are computed; when None, whatever the caller's
                current stream has been given so far.

        Raises:
            ContractViolation: a block, slot or group that there is not, or one named twice; the
                operation is in flight. Nothing was submitted. A copy that fails raises nothing:
                its job ends with an error.
        """
        pieces = self._pieces(operation, blocks, groups)
        self._submit(self._store_lane, True, operation, blocks, pieces, after)

    def load(
        self,
        operation: Operation,
        blocks: Sequence[int],
        *,
        groups: Sequence[int] | None = None,
        after: Sequence[Event] | None = None,
    ) -> None:
        """Copy arena row `operation.slots[i]` to device block `blocks[i]`.

        Args and errors are those of `store`; `after` is what used the blocks before.
        """
        pieces = self._pieces(operation, blocks, groups)
        self._submit(self._load_lane, False, operation, blocks, pieces, after)

    def _submit(
        self,
        lane: Lane,
        store: bool,
        operation: Operation,
        blocks: Sequence[int],
        pieces: list[Piece],
        after: Sequence[Event] | None,
    ) -> None:
        size = sum(self._planes[piece.group].row_bytes * len(piece.blocks) for piece in pieces)
        job = _Job(operation.operation_id, store, tuple(blocks), size, self._clock())
        self._jobs[job.operation_id] = job
        if not pieces:
            return
        events: list[Event] = []
        try:
            try:
                lane.begin([self._backend.current().record()] if after is None else after)
                lane.begin(self._in_the_way(store, job.blocks))
                for piece in pieces:
                    lane.submit(piece, events)
            finally:
                # Also behind what was submitted before something raised.
                job.touched = lane.near.record()
                events.append(job.touched)
        except Exception as error:
            job.error = _words(error)
        job.events.extend(events)
        if job.touched is not None:
            touching = self._reads if store else self._writes
            touching.update(dict.fromkeys(job.blocks, job.touched))

    def _in_the_way(self, store: bool, blocks: Iterable[int]) -> list[Event]:
        # Two jobs of one direction share a stream and are in order anyway.
        touching = self._writes if store else self._reads
        return _distinct(touching.get(block) for block in blocks)

    def _pieces(
        self, operation: Operation, blocks: Sequence[int], groups: Sequence[int] | None
    ) -> list[Piece]:
        number, slots = operation.operation_id, operation.slots
        groups = [0] * len(slots) if groups is None else groups
        if number in self._jobs:
            raise ContractViolation(f"operation {number} is in flight already")
        if not len(slots) == len(blocks) == len(groups):
            raise ContractViolation(
                f"operation {number} has {counted(len(slots), 'slot')}, but "
                f"{counted(len(blocks), 'block')} and "
                f"{counted(len(groups), 'group')} named; name one for each"
            )
        chosen: dict[int, list[tuple[int, int]]] = {}
        for slot, block, group in zip(slots, blocks, groups, strict=True):
            if not 0 <= group < len(self._planes):
                raise ContractViolation(f"{group!r} is not one of {len(self._planes)} KV groups")
            if not 0 <= block < self._planes[group].blocks:
                raise ContractViolation(f"KV group {group} has no block {block!r}")
            if not 0 <= slot < self._slots:
                raise ContractViolation(f"the arena has no slot {slot!r}")
            chosen.setdefault(group, []).append((slot, block))
        if len(set(slots)) < len(slots) or len(set(zip(groups, blocks, strict=True))) < len(slots):
            raise ContractViolation(f"operation {number} names a slot or a block twice")
        pieces = []
        for group, pairs in chosen.items():
            pairs.sort()  # by slot: neighbours become one copy
            for start in range(0, len(pairs), self._piece_blocks):
                part = pairs[start : start + self._piece_blocks]
                pieces.append(
                    Piece(group, [slot for slot, _ in part], [block for _, block in part])
                )
        return pieces

    # -- what is in flight ------------------------------------------------------------------------

    def poll(self) -> list[JobEnd]:
        """The jobs that have ended since the last call, each once. Never waits."""
        ends = []
        for job in list(self._jobs.values()):
            while job.events and job.events[0].query():
                error = job.events.popleft().error
                if error is not None and job.error is None:
                    job.error = _words(error)
            if not job.events:
                ends.append(self._end(job))
        return ends

    def _end(self, job: _Job) -> JobEnd:
        del self._jobs[job.operation_id]
        touching = self._reads if job.store else self._writes
        for block in job.blocks:
            if touching.get(block) is job.touched:
                touching.pop(block, None)
        seconds = self._clock() - job.since
        return JobEnd(job.operation_id, job.store, job.error, job.bytes, seconds)

    @property
    def in_flight(self) -> tuple[int, ...]:
        """Operations submitted and not yet reported, oldest first."""
        return tuple(self._jobs)

    def reading(self, blocks: Iterable[int]) -> set[int]:
        """Those of `blocks` that a store still reads: not to be handed to anybody yet."""
        return _unreached(self._reads, blocks)

    def writing(self, blocks: Iterable[int]) -> set[int]:
        """Those of `blocks` that a load still writes: not to be read, nor handed on."""
        return _unreached(self._writes, blocks)

    def guard(self, stream: Stream, blocks: Collection[int]) -> None:
        """What `stream` is given from now on runs behind every job in flight on these blocks.

        So a block can be handed on, or attention can use it, before its job was polled.
        """
        for touching in (self._reads, self._writes):
            for event in _distinct(touching.get(block) for block in blocks):
                stream.wait(event)

    # -- the end ----------------------------------------------------------------------------------

    def drain(self, timeout: float) -> list[JobEnd]:
        """Wait until nothing is in flight, for at most `timeout` seconds; what ended meanwhile.

        Not for the scheduler's thread. `in_flight` then names what did not end.
        """
        end = time.monotonic() + timeout
        ends = self.poll()
        while self._jobs and time.monotonic() < end:
            time.sleep(_NAP)
            ends += self.poll()
        return ends

    def close(self) -> None:
        """End the backend's streams. Drain first: what is in flight may be cut off."""
        self._backend.close()


def report(ends: Iterable[JobEnd], manager: Completions) -> None:
    """Tell the manager, whose lock is held, how its operations went."""
    for end in ends:
        if end.store:
            manager.complete_store(end.operation_id, ok=end.ok)
        else:
            manager.complete_load(end.operation_id)


def _unreached(touching: dict[int, Event], blocks: Iterable[int]) -> set[int]:
    found = set()
    for block in blocks:
        event = touching.get(block)
        if event is not None and not event.query():
            found.add(block)
    return found


def _distinct(events: Iterable[Event | None]) -> list[Event]:
    return list({id(event): event for event in events if event is not None}.values())


def _words(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"
