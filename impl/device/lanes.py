"""The two directions of a device: what is submitted for a piece of a job, and in which order.

Each direction has two streams, so that the kernels of one piece run beside the large copies of
another, and a ring of bounce buffers in device memory between them:

    store   near: gather blocks into a buffer     far: buffer -> arena, neighbouring slots as one
    load    far: arena -> buffer                  near: scatter the buffer to the blocks

The rules of order, each the one thing that keeps a wrong byte away:

* the second half of a piece waits for the first;
* the first half waits until the buffer's last user has ended;
* `near`, which touches the blocks, waits for what the caller ran there before (`after`) and for
  the other direction where it touches the same blocks;
* a job has ended when both halves of every piece have.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from .backend import DeviceBackend, Event, Stream
from .layout import Planes, runs

if TYPE_CHECKING:
    import torch


class Bounce:
    """A buffer of device memory, (blocks of a piece, block_bytes), and when it is free again."""

    def __init__(self, memory: torch.Tensor) -> None:
        self.memory = memory
        self.free: Event | None = None
        """The end of its last use; None when it has had none."""


class Group:
    """A KV group's planes, and the arena in the unit that the group is moved in."""

    def __init__(self, planes: Planes, rows: torch.Tensor) -> None:
        self.planes = planes
        self.rows = rows.view(planes.unit)


class Piece:
    """Blocks that go through one buffer together: of one group, as many as fit."""

    __slots__ = ("blocks", "group", "slots")

    def __init__(self, group: int, slots: Sequence[int], blocks: Sequence[int]) -> None:
        self.group = group
        self.slots = slots
        self.blocks = blocks


class Lane:
    """One direction; `Stores` and `Loads` say what fills a buffer and what empties it.

    Args:
        backend: the device.
        groups: the KV groups.
        depth: buffers of each group, at least 1; 2 let the halves overlap.
        piece_blocks: blocks of a buffer.
        block_bytes: bytes of an arena row, and so of a buffer's.
    """

    def __init__(
        self,
        backend: DeviceBackend,
        groups: Sequence[Group],
        *,
        depth: int,
        piece_blocks: int,
        block_bytes: int,
    ) -> None:
        self.near = backend.stream()
        """Kernels: the only stream of the direction that touches the device's blocks."""
        self.far = backend.stream()
        """Large copies: the only one that touches the arena."""
        self._groups = groups
        # A ring for each group: rows are copied whole, and what a group does not fill must stay
        # zero. In a shared buffer it would be another group's bytes, and perhaps a tenant's.
        self._rings = [
            deque(Bounce(backend.buffer(piece_blocks, block_bytes)) for _ in range(depth))
            for _ in groups
        ]

    @property
    def first(self) -> Stream:
        """The stream that fills buffers."""
        raise NotImplementedError

    @property
    def second(self) -> Stream:
        """The stream that empties them."""
        raise NotImplementedError

    def fill(self, rows: torch.Tensor, piece: Piece) -> None:
        """Submit the first half: bring the piece into `rows`."""
        raise NotImplementedError

    def empty(self, rows: torch.Tensor, piece: Piece) -> None:
        """Submit the second half: take the piece out of `rows`."""
        raise NotImplementedError

    def begin(self, after: Iterable[Event]) -> None:
        """What is submitted from now on touches blocks only behind these events."""
        for event in after:
            self.near.wait(event)

    def submit(self, piece: Piece, events: list[Event]) -> None:
        """Submit a piece; what ends it is added to `events`, also where submitting raises."""
        ring = self._rings[piece.group]
        ring.rotate(-1)
        bounce = ring[-1]
        unit = self._groups[piece.group].planes.unit
        rows = bounce.memory.view(unit)[: len(piece.blocks)]
        self.await_buffer(bounce)
        try:
            self.fill(rows, piece)
        finally:
            filled = self.first.record()
            events.append(filled)
        self.await_filled(filled)
        try:
            self.empty(rows, piece)
        finally:
            bounce.free = self.second.record()
            events.append(bounce.free)

    def await_buffer(self, bounce: Bounce) -> None:
        """The buffer is not filled before it is empty."""
        if bounce.free is not None:
            self.first.wait(bounce.free)

    def await_filled(self, filled: Event) -> None:
        """The buffer is not emptied before it is full."""
        self.second.wait(filled)


class Stores(Lane):
    """From the device's blocks to the arena."""

    @property
    def first(self) -> Stream:
        """As `Lane.first`."""
        return self.near

    @property
    def second(self) -> Stream:
        """As `Lane.second`."""
        return self.far

    def fill(self, rows: torch.Tensor, piece: Piece) -> None:
        """As `Lane.fill`: gather the blocks."""
        for plane, first, last in self._groups[piece.group].planes.planes:
            self.near.gather(rows[:, first:last], plane, piece.blocks)

    def empty(self, rows: torch.Tensor, piece: Piece) -> None:
        """As `Lane.empty`: copy to the arena, neighbouring slots at once."""
        arena = self._groups[piece.group].rows
        for place, slot, length in runs(piece.slots):
            self.far.copy(arena[slot : slot + length], rows[place : place + length])


class Loads(Lane):
    """From the arena to the device's blocks."""

    @property
    def first(self) -> Stream:
        """As `Lane.first`."""
        return self.far

    @property
    def second(self) -> Stream:
        """As `Lane.second`."""
        return self.near

    def fill(self, rows: torch.Tensor, piece: Piece) -> None:
        """As `Lane.fill`: copy from the arena, neighbouring slots at once."""
        arena = self._groups[piece.group].rows
        for place, slot, length in runs(piece.slots):
            self.far.copy(rows[place : place + length], arena[slot : slot + length])

    def empty(self, rows: torch.Tensor, piece: Piece) -> None:
        """As `Lane.empty`: scatter to the blocks."""
        for plane, first, last in self._groups[piece.group].planes.planes:
            self.near.scatter(plane, piece.blocks, rows[:, first:last])
