"""Which evictable block goes first: LRU and ARC, both in the order of prefixes.

A policy keeps the order of RESIDENT blocks. What one request uses is a *run*: it stands together,
its tail before its head, and as a whole it is as recent as the request's last use of any of it; a
prefix without its head is of no use to anyone. A block that may not be evicted stays where it is
until a search for a victim meets it; then it is set aside with its rank and comes back when it is
let go, so that a block is stepped over at most once for each time it was held: amortised
O(log held), however many blocks are resident.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Protocol

from .blocks import Block, Epoch, Place
from .tiers.base import Key

if TYPE_CHECKING:
    from .requests import Request


class EvictionPolicy(Protocol):
    """An order over RESIDENT blocks."""

    def insert(self, blocks: list[Block], request: Request | None) -> None:
        """The blocks became RESIDENT for a request, head first, or for one whose end was told.

        One that is waited on came for an access still to come.
        """

    def follow(self, blocks: list[Block], request: Request) -> None:
        """The request has read these blocks, head first, after what it has used before."""

    def touch(self, block: Block, request: Request) -> None:
        """An access by a request: the block is the most recent now, the head of what it uses."""

    def place(self, block: Block, request: Request) -> None:
        """As `touch`, without counting an access."""

    def close(self, request: Request) -> None:
        """The request has ended: its blocks stay where they are."""

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

    def runs(self) -> Iterator[tuple[Request, list[Block]]]:
        """The blocks that stand together for a live request, in that order."""


class _Boundary(Place):
    """A place in the list that is no block: searches step over it."""

    __slots__ = ()


class _Run(_Boundary):
    """What one request uses: the blocks from here to another boundary, the tail first."""

    __slots__ = ("newest", "request")

    def __init__(self, request: Request) -> None:
        self.request = request
        self.newest = _Boundary()
        _link(self, self.newest)


def _link(older: Place, newer: Place) -> None:
    older.next = newer
    newer.prev = older


def _unlink(place: Place) -> bool:
    """Whether the place was in the list; it is in it no more."""
    older, newer = place.prev, place.next
    if older is None or newer is None:
        return False
    older.next, newer.prev = newer, older
    place.prev = place.next = None
    return True


class LeastRecentlyUsed:
    """Evicts what was used longest ago.

    One list, from the least recently used block to the most recently used one. The order is exact:
    whatever was set aside is older than all that was not, in order of rank.
    """

    def __init__(self) -> None:
        self._ring = _Boundary()
        """Where the list begins and ends."""
        self._runs: dict[Request, _Run] = {}
        """The runs of requests that have not ended; to move one costs a few links."""
        self._rank = 0
        self._aside: dict[Block, int] = {}
        """Blocks that a search stepped over and that are still held, with their rank."""
        self._back: dict[Block, int] = {}
        """Blocks that were stepped over and let go, with their rank."""
        self._oldest: list[tuple[int, Block]] = []
        """The same as a heap; entries that `_back` does not confirm are void."""
        self._promised: list[Block] = []
        """Blocks of `_aside` that only a HIT promise holds."""
        self.size = 0
        """How many blocks there are."""
        self.clear()

    def clear(self) -> None:
        """Forget all blocks."""
        self._ring.next = self._ring.prev = self._ring
        for kept in (self._runs, self._aside, self._back, self._oldest, self._promised):
            kept.clear()
        self.size = 0

    # -- where blocks stand -----------------------------------------------------------------------

    def insert(self, blocks: list[Block], request: Request | None = None) -> None:
        """Put newly RESIDENT blocks behind what the request uses already, the head first."""
        self.size += len(blocks)
        older: Place | None = self._ring.prev if request is None else self._latest(request)
        assert older is not None
        newer = older.next
        assert newer is not None
        for block in blocks:  # written out: this runs for every block that lands
            block.next = newer
            newer.prev = block
            newer = block
        newer.prev = older
        older.next = newer

    def follow(self, blocks: list[Block], request: Request) -> None:
        """Move blocks behind what the request uses already, the head first."""
        for block in blocks:
            self._take_out(block)
        self.size -= len(blocks)
        self.insert(blocks, request)

    def touch(self, block: Block, request: Request) -> None:
        """Move to the head of what the request uses."""
        self._take_out(block)
        newer = self._latest(request).newest
        older = newer.prev
        assert older is not None
        _link(older, block)
        _link(block, newer)

    place = touch

    def _latest(self, request: Request) -> _Run:
        """The request's run, as the most recent one."""
        run = self._runs.get(request)
        if run is None:
            run = self._runs[request] = _Run(request)
        elif run.newest.next is self._ring:
            return run
        else:
            before, after = run.prev, run.newest.next
            assert before is not None
            assert after is not None
            _link(before, after)
        last = self._ring.prev
        assert last is not None
        _link(last, run)
        _link(run.newest, self._ring)
        return run

    def close(self, request: Request) -> None:
        """The request has ended: its blocks stay, and stand together no more."""
        run = self._runs.pop(request, None)
        if run is not None:
            _unlink(run)
            _unlink(run.newest)

    def remove(self, block: Block) -> None:
        """Take a block out, wherever it is."""
        self.size -= 1
        self._take_out(block)

    def _take_out(self, block: Block) -> None:
        if not _unlink(block):
            self._aside.pop(block, None)
            self._back.pop(block, None)

    # -- which one goes ---------------------------------------------------------------------------

    def restore(self, block: Block) -> None:
        """A block that was stepped over may be a victim again, at its rank."""
        rank = self._aside.pop(block, None)
        if rank is not None:
            self._back[block] = rank
            heappush(self._oldest, (rank, block))

    def restore_promised(self) -> None:
        """What was stepped over for a HIT promise alone may be a victim again."""
        while self._promised:
            self.restore(self._promised.pop())

    def victim(self, epoch: Epoch) -> Block | None:
        """The least recently used block that may go."""
        while self._oldest:
            rank, oldest = self._oldest[0]
            if self._back.get(oldest) == rank:
                if self._may_go(oldest, epoch):
                    return oldest
                self._aside[oldest] = self._back.pop(oldest)
            heappop(self._oldest)
        ring, place = self._ring, self._ring.next
        while place is not ring and place is not None:
            following, previous = place.next, place.prev
            if isinstance(place, Block):
                if self._may_go(place, epoch):
                    return place
                self._take_out(place)
                self._rank += 1
                self._aside[place] = self._rank
            elif isinstance(previous, _Run) and previous.newest is place:
                self.close(previous.request)  # nothing is left of it: no search meets it again
            place = following
        return None

    def _may_go(self, block: Block, epoch: Epoch) -> bool:
        if block.pins or block.waits is not None:
            return False
        if block.promise is not None and block.promise.holds(epoch):
            self._promised.append(block)
            return False
        return True

    def order(self) -> Iterator[Block]:
        """The blocks from the least to the most recently used."""
        stepped_over = {**self._aside, **self._back}
        yield from sorted(stepped_over, key=stepped_over.__getitem__)
        yield from self._between(self._ring, self._ring)

    def runs(self) -> Iterator[tuple[Request, list[Block]]]:
        """The runs, each with its blocks from the tail to the head."""
        for run in self._runs.values():
            yield run.request, list(self._between(run, run.newest))

    def _between(self, start: Place, end: Place) -> Iterator[Block]:
        place = start.next
        while place is not end and place is not None:
            if isinstance(place, Block):
                yield place
            place = place.next


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
            self._list_of(block).insert([block], request)
            if block.waits is not None:
                self._awaited.add(block)

    def _list_of(self, block: Block) -> LeastRecentlyUsed:
        return self._again if block in self._in_again else self._once

    def follow(self, blocks: list[Block], request: Request) -> None:
        """Move blocks, in the list that each is in, behind what the request uses already."""
        for block in blocks:
            self._list_of(block).follow([block], request)

    def touch(self, block: Block, request: Request) -> None:
        """An access; the first one of a block that was promoted for it is the one that counted."""
        if block in self._awaited:
            self._awaited.discard(block)
        elif block not in self._in_again:
            self._once.remove(block)
            self._in_again.add(block)
            self._again.insert([block], request)
        self.place(block, request)

    def place(self, block: Block, request: Request) -> None:
        """Move to the head of what the request uses, in the list that the block is in."""
        self._list_of(block).touch(block, request)

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
