"""A block that owns a slot, and the short promise that a HIT makes about it.

One object for each block and none for each answer: what is rare (waiters, a writer) hangs on the
block only while it exists, so that a resident block costs its ten fields and its place in the
dictionary.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .tiers.base import Key
from .vocabulary import Phase

if TYPE_CHECKING:
    from .jobs import Load, Write
    from .requests import Request


class Epoch:
    """A stretch of time in which HIT promises hold: it ends with the next store, reset or step.

    Promises name their epoch, so that a new epoch ends them all without visiting one of them.
    """

    __slots__ = ()


class HitPromise:
    """All HIT promises of one request in one epoch: its blocks point here.

    Ending the request clears `epoch`, which ends them all at once.
    """

    __slots__ = ("epoch",)

    def __init__(self, epoch: Epoch | None) -> None:
        self.epoch = epoch

    def holds(self, epoch: Epoch) -> bool:
        """Whether the promise is still to be kept in `epoch`."""
        return self.epoch is epoch

    def without(self, promise: HitPromise) -> HitPromise | None:
        """What is left when the request of `promise` has loaded the block."""
        return None if promise is self else self


class SharedHitPromise(HitPromise):
    """HIT promises of several requests on one block."""

    __slots__ = ("members",)

    def __init__(self, epoch: Epoch, *members: HitPromise) -> None:
        super().__init__(epoch)
        self.members = set(members)

    def holds(self, epoch: Epoch) -> bool:
        """Whether one of the promises is still to be kept in `epoch`."""
        return self.epoch is epoch and any(member.holds(epoch) for member in self.members)

    def without(self, promise: HitPromise) -> HitPromise | None:
        """What is left when the request of `promise` has loaded the block."""
        self.members.discard(promise)
        return self if self.members else None


class Place:
    """Something with neighbours in the order of eviction: a block, or a boundary between blocks.

    The list runs through the blocks themselves, which costs each two fields and no object.
    """

    __slots__ = ("next", "prev")

    next: Place | None
    prev: Place | None


class Block(Place):
    """A block that owns a slot of the primary tier, from its reservation to its eviction."""

    __slots__ = (
        "done",
        "key",
        "phase",
        "pins",
        "promise",
        "slot",
        "waits",
        "writer",
    )

    def __init__(self, key: Key, slot: int, phase: Phase) -> None:
        self.key = key
        self.slot = slot
        self.phase = phase
        self.promise: HitPromise | None = None
        self.pins = 0
        """Transfers that read the slot: GPU loads, cascades and external sends in flight."""
        self.waits: dict[Request, bool] | None = None
        """Who was answered HIT_PENDING, longest first, and whether it is reading now; None when
        nobody, never empty."""
        self.writer: Load | Write | None = None
        """Who fills the slot; None exactly when RESIDENT."""
        self.done = 0
        """The secondary tiers known to have the block, as bits."""
        self.next = self.prev = None

    @property
    def loose(self) -> bool:
        """Nothing but a HIT promise or the current offer stands between a RESIDENT block and
        its eviction."""
        return not self.pins and self.waits is None
