"""Pins and short promises that are miscounted, and blocks that are evicted in spite of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ...impl.blocks import Block, Epoch
from ...impl.lookups import Lookups
from ...impl.manager import TieredOffloadingManager
from ...impl.operations import LoadOperation, StoreOperation
from ...impl.policies import LeastRecentlyUsed
from ...impl.primary import PrimaryTier
from ...impl.requests import Request
from ...impl.tiers.base import Key
from ...impl.transfers import Transfers
from .making import fault, without

PINS = "a pin is miscounted, or does not hold"
PROMISES = "a promise does not hold, or holds for ever"


@fault("S3-pins", PINS, "promises", case="B18")
class PinnedTwice(PrimaryTier):
    """A second reader of a block pins it twice."""

    def pin(self, blocks: Iterable[Block]) -> None:
        """As usual, but a pinned block gets another pin."""
        blocks = list(blocks)
        again = [block for block in blocks if block.pins]
        super().pin([*blocks, *again])


@fault("S3-pins", PINS, "promises", case="B18")
class UnpinnedAtOnce(PrimaryTier):
    """The first reader that is done takes everybody's pins."""

    def unpin(self, blocks: Iterable[Block]) -> None:
        """As usual, but no pin is left."""
        blocks = [block for block in blocks if block.pins]
        for block in blocks:
            block.pins = 1
        super().unpin(blocks)


@fault("S3-pins", PINS, "promises", case="B20")
class EndTakesPins(TieredOffloadingManager):
    """A request ends, and the copies that still run for it lose their pins."""

    def on_request_finished(self, request: Request) -> None:
        """As usual, but what it reads is unpinned."""
        super().on_request_finished(request)
        for read in self._transfers.reads.values():
            if read.request is request:
                self._primary.unpin(read.blocks)
                read.blocks = []


@fault("S3-pins", PINS, "promises", case="B18")
class PinKept(Transfers):
    """A reader that has let go of its promise meanwhile keeps its pin."""

    def end_read(self, operation: LoadOperation | int) -> None:
        """As usual, but the pin goes only with a promise."""
        number = operation if isinstance(operation, int) else operation.operation_id
        read = self.reads.get(number)
        if read is not None and read.request.home is None:
            del self.reads[number]
            return
        super().end_read(operation)


@fault("S3-pins", PINS, "first to go", case="B13")
class EvictsPinned(LeastRecentlyUsed):
    """A pinned block is evicted while another one could go."""

    def _may_go(self, block: Block, epoch: Epoch) -> bool:
        pins, block.pins = block.pins, 0
        try:
            return super()._may_go(block, epoch)
        finally:
            block.pins = pins


@fault("S3-pins", PROMISES, "victims", case="B13")
class EvictsPromised(LeastRecentlyUsed):
    """A block that landed and was not read yet is evicted while another one could go."""

    def _may_go(self, block: Block, epoch: Epoch) -> bool:
        waits, block.waits = block.waits, None
        try:
            return super()._may_go(block, epoch)
        finally:
            block.waits = waits


@fault("L6-hit-holds", PROMISES, "room", case="B13", rules=without("evicted", "hits"))
class NoShortPromise(LeastRecentlyUsed):
    """A block that was just answered HIT is evicted for another promotion."""

    def _may_go(self, block: Block, epoch: Epoch) -> bool:
        return not block.pins and block.waits is None


@fault("L6-hit-holds", PROMISES, "hits", case="B13")
class OneLoadEndsAllHits(Transfers):
    """A request loads a block, and the HIT that another one was given is worth nothing."""

    def begin_read(self, keys: Sequence[Key], request: Request) -> LoadOperation:
        """As usual, but nobody's short promise survives it."""
        operation = super().begin_read(keys, request)
        for key in keys:
            self._primary.blocks[key].promise = None
        return operation


@fault("L6-hit-holds", PROMISES, "shared hits", case="B13")
class TheLastHitCounts(Lookups):
    """Of two requests that were answered HIT only the later one is remembered."""

    def share(self, block: Block, request: Request) -> None:
        """As usual, but whoever was promised the block before is forgotten."""
        block.promise = None
        super().share(block, request)


@fault("P2-room-for-stores", PROMISES, "room", case="B01")
class HitsOutliveStores(TieredOffloadingManager):
    """Short promises last into the stores of the step, which then find no room."""

    def prepare_store(self, keys: Iterable[Key], request: Request) -> StoreOperation | None:
        """As usual, unless something was answered HIT in this step."""
        epoch, primary = self._renew(request).epoch, self._primary
        held = (block.promise for block in primary.blocks.values())
        promised = any(p is not None and epoch is not None and p.holds(epoch) for p in held)
        if not primary.free and any(key not in primary.blocks for key in keys):
            self._transfers.absorb()
            if promised and not primary.free:
                return None
        return super().prepare_store(keys, request)


@fault("D1-bytes", PINS, "victims", case="B41")
class ReadsAnotherSlot(Transfers):
    """A GPU load is given the slot of another block."""

    def begin_read(self, keys: Sequence[Key], request: Request) -> LoadOperation:
        """As usual, but one slot further on."""
        operation = super().begin_read(keys, request)
        slots = tuple((slot + 1) % self._primary.slots for slot in operation.slots)
        return LoadOperation(operation.operation_id, operation.keys, slots)
