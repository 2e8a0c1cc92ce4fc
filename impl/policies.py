"""Which evictable block goes first: LRU and ARC.

A policy keeps the order of RESIDENT blocks. Blocks that may not be evicted stay where they are
until a search for a victim meets them; then they are set aside and come back when they are let go,
so that a block is stepped over at most once for each time it was held: amortised O(1), however
many blocks are resident.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator
from typing import Protocol

from .blocks import Block, Epoch, Link
from .tiers.base import Key


class EvictionPolicy(Protocol):
    """An order over RESIDENT blocks."""

    def insert(self, blocks: Iterable[Block]) -> None:
        """The blocks became RESIDENT. One that is waited on came for an access still to come."""

    def touch(self, block: Block) -> None:
        """A request's access: the block is the most recent now."""

    def place(self, block: Block) -> None:
        """Make the block the most recent without counting an access."""

    def remove(self, block: Block) -> None:
        """The block is evicted."""

    def restore(self, block: Block) -> None:
        """The block's last pin or wait is gone."""

    def restore_promised(self) -> None:
        """HIT promises have ended."""

    def victim(self, epoch: Epoch) -> Block | None:
        """The first block that may go: no pin, no wait, no HIT promise of `epoch`."""

    def clear(self) -> None:
        """All blocks are forgotten."""

    def order(self) -> Iterator[Block]:
        """The blocks in the order in which they would go, as far as they are in it."""


class LeastRecentlyUsed:
    """Evicts what was used longest ago; newly resident blocks are the most recent."""

    def __init__(self) -> None:
        self._ring = Link()
        self._promised: list[Block] = []
        self.clear()

    def clear(self) -> None:
        """Forget all blocks."""
        self._ring.next = self._ring.prev = self._ring
        self._promised.clear()

    def insert(self, blocks: Iterable[Block]) -> None:
        """Put newly RESIDENT blocks at the most recent end."""
        ring = self._ring
        previous = ring.prev
        assert previous is not None
        for block in blocks:  # written out: this runs for every block that lands
            block.prev = previous
            previous.next = block
            previous = block
        previous.next = ring
        ring.prev = previous

    def touch(self, block: Block) -> None:
        """Move to the most recent end."""
        _unlink(block)
        _link(block, before=self._ring)

    place = touch

    def remove(self, block: Block) -> None:
        """Take an evicted block out."""
        _unlink(block)

    def restore(self, block: Block) -> None:
        """Put a block that was set aside back at the end where it was found."""
        if block.next is None:
            oldest = self._ring.next
            assert oldest is not None
            _link(block, before=oldest)

    def restore_promised(self) -> None:
        """Put back what was set aside for a HIT promise, the oldest first again."""
        while self._promised:
            self.restore(self._promised.pop())

    def order(self) -> Iterator[Block]:
        """The blocks from the least to the most recently used, without those set aside."""
        block = self._ring.next
        while isinstance(block, Block):
            yield block
            block = block.next

    def victim(self, epoch: Epoch) -> Block | None:
        """The least recently used block that may go."""
        block = self._ring.next
        while isinstance(block, Block):
            following = block.next
            if block.pins or block.waits is not None:
                _unlink(block)
            elif block.promise is not None and block.promise.holds(epoch):
                _unlink(block)
                self._promised.append(block)
            else:
                return block
            block = following
        return None


class AdaptiveReplacement:
    """ARC (Megiddo and Modha, FAST 2003): shares the slots between blocks used once and blocks
    used again, and learns the split from what it evicted too early.

    Keys of evicted blocks are remembered, at most as many as there are slots in each list.
    """

    def __init__(self, slots: int) -> None:
        self._slots = slots
        self._target = 0.0
        """How many slots the blocks used once should have."""
        self._once: OrderedDict[Block, None] = OrderedDict()
        self._again: OrderedDict[Block, None] = OrderedDict()
        self._evicted_once: OrderedDict[Key, None] = OrderedDict()
        self._evicted_again: OrderedDict[Key, None] = OrderedDict()
        self._aside: dict[Block, OrderedDict[Block, None]] = {}
        self._promised: list[Block] = []
        self._awaited: set[Block] = set()

    def clear(self) -> None:
        """Forget all blocks, and what was learnt of keys that cannot come back."""
        for kept in (
            self._once,
            self._again,
            self._evicted_once,
            self._evicted_again,
            self._aside,
            self._promised,
            self._awaited,
        ):
            kept.clear()
        self._target = 0.0

    def insert(self, blocks: Iterable[Block]) -> None:
        """Newly RESIDENT blocks; one that was evicted too early moves the split."""
        once, again = self._evicted_once, self._evicted_again
        for block in blocks:
            key = block.key
            if key in once:
                self._target = min(self._slots, self._target + max(1.0, len(again) / len(once)))
                del once[key]
                self._again[block] = None
            elif key in again:
                self._target = max(0.0, self._target - max(1.0, len(once) / len(again)))
                del again[key]
                self._again[block] = None
            else:
                self._once[block] = None
            if block.waits is not None:
                self._awaited.add(block)

    def touch(self, block: Block) -> None:
        """An access; the first one of a block that was promoted for it is the one that counted."""
        if block in self._awaited:
            self._awaited.discard(block)
            self.place(block)
        else:
            self._take(block)
            self._again[block] = None

    def place(self, block: Block) -> None:
        """Move to the most recent end of the list that the block is in."""
        self._take(block)[block] = None

    def remove(self, block: Block) -> None:
        """Remember the evicted block's key, and forget the oldest when there are too many."""
        kept = self._take(block)
        self._awaited.discard(block)
        ghosts = self._evicted_once if kept is self._once else self._evicted_again
        ghosts[block.key] = None
        if len(ghosts) > self._slots:
            ghosts.popitem(last=False)

    def restore(self, block: Block) -> None:
        """Put a block that was set aside back at the end where it was found."""
        kept = self._aside.pop(block, None)
        if kept is not None:
            kept[block] = None
            kept.move_to_end(block, last=False)

    def restore_promised(self) -> None:
        """Put back what was set aside for a HIT promise, the oldest first again."""
        while self._promised:
            self.restore(self._promised.pop())

    def order(self) -> Iterator[Block]:
        """The blocks used once, then those used again, then those set aside."""
        yield from (*self._once, *self._again, *self._aside)

    def victim(self, epoch: Epoch) -> Block | None:
        """The oldest block that may go of the list that has more than its share, else of the
        other one."""
        first, second = self._once, self._again
        if len(first) <= self._target:
            first, second = second, first
        return self._oldest(first, epoch) or self._oldest(second, epoch)

    def _oldest(self, kept: OrderedDict[Block, None], epoch: Epoch) -> Block | None:
        while kept:
            block = next(iter(kept))
            if block.loose:
                if block.promise is None or not block.promise.holds(epoch):
                    return block
                self._promised.append(block)
            del kept[block]
            self._aside[block] = kept
        return None

    def _take(self, block: Block) -> OrderedDict[Block, None]:
        """Take the block out of where it is; returns the list it belongs to."""
        kept = self._aside.pop(block, None)
        if kept is None:
            kept = self._once if block in self._once else self._again
            del kept[block]
        return kept


def _link(block: Block, *, before: Link) -> None:
    previous = before.prev
    assert previous is not None
    block.prev = previous
    block.next = before
    previous.next = block
    before.prev = block


def _unlink(block: Block) -> None:
    following, previous = block.next, block.prev
    if following is not None and previous is not None:  # else it is set aside
        previous.next = following
        following.prev = previous
        block.next = block.prev = None
