"""Which evictable block goes first: the least recently used, in the order of prefixes.

A policy keeps the order of RESIDENT blocks. What one request uses is a *run*: it stands together,
its tail before its head, and as a whole it is as recent as the request's last use of any of it; a
prefix without its head is of no use to anyone. A block that may not be evicted stays where it is
until a search for a victim meets it; then it is set aside with its rank and comes back when it is
let go, so that a block is stepped over at most once for each time it was held: amortised
O(log held), however many blocks are resident.
"""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Protocol

from .blocks import Block, Epoch, Place

if TYPE_CHECKING:
    from .requests import Request


class EvictionPolicy(Protocol):
    """An order over RESIDENT blocks."""

    def insert(self, blocks: list[Block], request: Request | None) -> None:
        """The blocks became RESIDENT for a request, head first, or for one whose end was told.

        One that is waited on came for an access still to come.
        """

    def count(self, block: Block) -> None:
        """A request has accessed the block; counted once for each request."""

    def follow(self, blocks: list[Block], request: Request) -> None:
        """The request uses these blocks: they stand with what it uses, each in its place."""

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
    """What one request uses: the blocks from here to another boundary, the tail first.

    A new one stands behind all others; of a thousand jobs that land, each may begin one.
    """

    __slots__ = ("held", "newest", "request")

    def __init__(self, request: Request, ring: _Boundary) -> None:
        self.request = request
        self.newest = newest = _Boundary()
        self.held: list[Block] | None = None
        """Blocks of it that a search has stepped over; some may have gone elsewhere since."""
        last = ring.prev
        assert last is not None
        last.next = newest.prev = self
        self.prev, self.next = last, newest
        newest.next, ring.prev = ring, newest


_LAST = 1 << 62
"""Where a block stands that its request has not named: a promotion that nobody has read yet."""


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
    whatever was set aside is older than all that was not, in order of rank, until its request uses
    something: then it goes back to its place in what that request uses.
    """

    def __init__(self) -> None:
        self._ring = _Boundary()
        """Where the list begins and ends."""
        self._runs: dict[Request, _Run] = {}
        """The runs of requests that have not ended; to move one costs a few links."""
        self._rank = 0
        self._aside: dict[Block, tuple[int, _Run | None]] = {}
        """Blocks that a search stepped over and that are still held: their rank and their run."""
        self._back: dict[Block, tuple[int, _Run | None]] = {}
        """Blocks that were stepped over and let go, likewise."""
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
        if request is None:
            older = self._ring.prev
            assert older is not None
            for block in blocks:
                self._insert_after(older, block)
            return
        run, position = self._runs.get(request), request.mentions.get
        if run is None:
            run = self._runs[request] = _Run(request, self._ring)
            if len(blocks) == 1:
                self._insert_after(run, blocks[0])
                return
        elif run.held or run.newest.next is not self._ring:
            self._renew(run)
        tail = run.next
        last = position(tail.key, _LAST) if isinstance(tail, Block) else -1
        newer = tail
        assert newer is not None
        for block in blocks:  # written out: this runs for every block that lands
            at = position(block.key, _LAST)
            if at < last:  # stores may end in any order
                _link(run, newer)
                self._put(block, run, at)
                newer = run.next
                assert newer is not None
            else:
                block.next = newer
                newer.prev = block
                newer = block
                last = at
        _link(run, newer)

    def _insert_after(self, older: Place, block: Block) -> None:
        newer = older.next
        assert newer is not None
        older.next = newer.prev = block
        block.prev, block.next = older, newer

    def _put(self, block: Block, run: _Run, at: int) -> None:
        """Put a block in its place in a run: behind what its request named before it."""
        position = run.request.mentions.get
        newer = run.newest.prev
        if isinstance(newer, Block) and position(newer.key, _LAST) > at:
            newer = run.newest  # before all others
        else:
            newer = run.next
            while isinstance(newer, Block) and position(newer.key, _LAST) >= at:
                newer = newer.next
        assert newer is not None
        assert newer.prev is not None
        self._insert_after(newer.prev, block)

    def count(self, block: Block) -> None:
        """Accesses are not counted: what matters is the last one."""

    def follow(self, blocks: list[Block], request: Request) -> None:
        """Move blocks to their places in what the request uses."""
        for block in blocks:
            self._take_out(block)
        self.size -= len(blocks)
        self.insert(blocks, request)

    def _renew(self, run: _Run) -> None:
        """Make a run the most recent one, and all of it."""
        if run.newest.next is not self._ring:
            self._lift(run)
            last = self._ring.prev
            assert last is not None
            _link(last, run)
            _link(run.newest, self._ring)
        if run.held:
            held, run.held = run.held, None
            for block in held:
                for kept in (self._aside, self._back):
                    if block in kept and kept[block][1] is run:
                        del kept[block]
                        self._put(block, run, run.request.mentions.get(block.key, _LAST))

    def _lift(self, run: _Run) -> None:
        """Take a run out of the list as it is, if it is in it."""
        before, after = run.prev, run.newest.next
        if before is not None and after is not None:
            _link(before, after)
            run.prev = run.newest.next = None

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
        aside = self._aside.pop(block, None)
        if aside is not None:
            self._back[block] = aside
            heappush(self._oldest, (aside[0], block))

    def restore_promised(self) -> None:
        """What was stepped over for a HIT promise alone may be a victim again."""
        while self._promised:
            self.restore(self._promised.pop())

    def victim(self, epoch: Epoch) -> Block | None:
        """The least recently used block that may go."""
        while self._oldest:
            rank, oldest = self._oldest[0]
            if oldest in self._back and self._back[oldest][0] == rank:
                if self._may_go(oldest, epoch):
                    return oldest
                self._aside[oldest] = self._back.pop(oldest)
            heappop(self._oldest)
        ring, place = self._ring, self._ring.next
        run: _Run | None = None
        while place is not ring and place is not None:
            following = place.next
            if isinstance(place, Block):
                if self._may_go(place, epoch):
                    return place
                _unlink(place)
                self._rank += 1
                self._aside[place] = (self._rank, run)
                if run is not None:
                    if run.held is None:
                        run.held = []
                    run.held.append(place)
            elif isinstance(place, _Run):
                run = place
            else:
                if run is not None and run.next is place:  # nothing is left of it in the list
                    self._lift(run)
                    if not run.held:
                        del self._runs[run.request]
                run = None
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
        yield from sorted(stepped_over, key=lambda block: stepped_over[block][0])
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
