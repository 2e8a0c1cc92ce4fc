"""ARC: eviction that learns how much room blocks that are used once should have."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from typing import TYPE_CHECKING

from .blocks import Block, Epoch
from .policies import LeastRecentlyUsed
from .tiers.base import Key

if TYPE_CHECKING:
    from .requests import Request


class AdaptiveReplacement:
    """ARC (Megiddo and Modha, FAST 2003): shares the slots between blocks used once and blocks
    used again, and learns the split from what it evicted too early.

    Keys of evicted blocks are remembered, at most as many in each list as there are slots.
    """

    def __init__(self, slots: int) -> None:
        self._slots = slots
        self._target = 0.0
        """How many slots the blocks used once should have."""
        self._once = LeastRecentlyUsed()
        self._again = LeastRecentlyUsed()
        self._in_again: set[Block] = set()
        self._evicted_once: OrderedDict[Key, None] = OrderedDict()
        self._evicted_again: OrderedDict[Key, None] = OrderedDict()
        self._awaited: set[Block] = set()
        """Blocks promoted for an access that has not come yet."""

    def clear(self) -> None:
        """Forget all blocks, and what was learnt of keys that are gone for good."""
        self._once.clear()
        self._again.clear()
        for kept in (self._in_again, self._evicted_once, self._evicted_again, self._awaited):
            kept.clear()
        self._target = 0.0

    def insert(self, blocks: list[Block], request: Request | None = None) -> None:
        """Newly RESIDENT blocks; one that was evicted too early moves the split."""
        once, again = self._evicted_once, self._evicted_again
        for block in blocks:
            key = block.key
            if key in once:
                step = max(1.0, len(again) / len(once))
                self._target = min(self._slots, self._target + step)
                del once[key]
                self._in_again.add(block)
            elif key in again:
                step = max(1.0, len(once) / len(again))
                self._target = max(0.0, self._target - step)
                del again[key]
                self._in_again.add(block)
            if block.waits is not None:
                self._awaited.add(block)
        for part, listed in self._by_list(blocks):
            listed.insert(part, request)

    def _list_of(self, block: Block) -> LeastRecentlyUsed:
        return self._again if block in self._in_again else self._once

    def _by_list(self, blocks: list[Block]) -> Iterator[tuple[list[Block], LeastRecentlyUsed]]:
        for listed in (self._once, self._again):
            part = [block for block in blocks if self._list_of(block) is listed]
            if part:
                yield part, listed

    def follow(self, blocks: list[Block], request: Request) -> None:
        """Move blocks, in the list that each is in, to their places in what the request uses."""
        for part, listed in self._by_list(blocks):
            listed.follow(part, request)

    def count(self, block: Block) -> None:
        """An access; the first one of a block that was promoted for it is the one that counted."""
        if block in self._awaited:
            self._awaited.discard(block)
        elif block not in self._in_again:
            self._once.remove(block)
            self._in_again.add(block)
            self._again.insert([block])

    def close(self, request: Request) -> None:
        """The request has ended: its blocks stay, and stand together no more."""
        self._once.close(request)
        self._again.close(request)

    def remove(self, block: Block) -> None:
        """Remember the evicted block's key, and forget the oldest when there are too many."""
        self._list_of(block).remove(block)
        self._awaited.discard(block)
        evicted = self._evicted_again if block in self._in_again else self._evicted_once
        self._in_again.discard(block)
        evicted[block.key] = None
        if len(evicted) > self._slots:
            evicted.popitem(last=False)

    def restore(self, block: Block) -> None:
        """A block that was stepped over may be a victim again."""
        self._list_of(block).restore(block)

    def restore_promised(self) -> None:
        """What was stepped over for a HIT promise alone may be a victim again."""
        self._once.restore_promised()
        self._again.restore_promised()

    def victim(self, epoch: Epoch) -> Block | None:
        """The oldest block that may go of the list that has more than its share, else of the
        other one."""
        if self._once.size > self._target:
            return self._once.victim(epoch) or self._again.victim(epoch)
        return self._again.victim(epoch) or self._once.victim(epoch)

    def order(self) -> Iterator[Block]:
        """The blocks used once, then those used again, each from the least recently used."""
        yield from self._once.order()
        yield from self._again.order()

    def runs(self) -> Iterator[tuple[Request, list[Block]]]:
        """The runs of both lists."""
        yield from self._once.runs()
        yield from self._again.runs()
