"""Offers of stores that get too little, too much, or somebody else's room."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ...impl.blocks import Block
from ...impl.manager import TieredOffloadingManager
from ...impl.operations import StoreOperation
from ...impl.primary import PrimaryTier
from ...impl.requests import Request
from ...impl.stores import Stores
from ...impl.tiers.base import Key
from .making import fault

OFFERS = "an offer gets too little, too much, or what is another's"


@fault("P2-room-for-stores", OFFERS, "batches of stores", case="B10")
class AllOrNothing(Stores):
    """A batch that does not fit as a whole is refused as a whole."""

    def offer(self, keys: Sequence[Key], request: Request) -> StoreOperation | None:
        """As usual, unless something would be left over."""
        primary = self._primary
        absent = [key for key in keys if key not in primary.blocks]
        if len(absent) > primary.free + primary.evictable:
            self._transfers.absorb()
            if len(absent) > primary.free + primary.evictable:
                return None
        return super().offer(keys, request)


@fault("P2-room-for-stores", OFFERS, "victims", case="B01")
class NothingIsEvicted(Stores):
    """A store gets free slots only, and never those of blocks that nobody needs."""

    def offer(self, keys: Sequence[Key], request: Request) -> StoreOperation | None:
        """As usual, as if every block were needed."""
        evictable, self._primary.evictable = self._primary.evictable, 0
        try:
            return super().offer(keys, request)
        finally:
            self._primary.evictable = evictable


@fault("S3-pins", OFFERS, "victims", case="B10")
class EvictsOneTooMany(PrimaryTier):
    """A store evicts one block more than it needs."""

    def evict_sparing(self, number: int, spared: Sequence[Block]) -> list[Block]:
        """As usual, and one for later."""
        more = number < self.evictable - len(spared)
        return super().evict_sparing(number + more, spared)


@fault("S3-pins", OFFERS, "batches of stores", case="B10")
class EvictsItsOwnOffer(PrimaryTier):
    """A store evicts a block that the same offer has found present."""

    def evict_sparing(self, number: int, spared: Sequence[Block]) -> list[Block]:
        """As usual, but the offer's own blocks are not spared."""
        return super().evict_sparing(number, ())


@fault("S1-slot-exclusive", OFFERS, "stores", case="B10")
class StoredAgainInAnotherSlot(Stores):
    """A key that is being written is given a second slot by the next offer."""

    def offer(self, keys: Sequence[Key], request: Request) -> StoreOperation | None:
        """As usual, but what is not readable yet counts as absent."""
        primary = self._primary
        hidden = [key for key in keys if key in primary.blocks and primary.free > 0]
        for key in hidden:
            if primary.blocks[key].phase.name == "STORING":
                del primary.blocks[key]
        return super().offer(keys, request)


@fault("P2-room-for-stores", OFFERS, "stores", case="B10")
class PresentIsRefused(TieredOffloadingManager):
    """An offer of which everything is present is refused, and offered again for ever."""

    def prepare_store(self, keys: Iterable[Key], request: Request) -> StoreOperation | None:
        """As usual, but an empty operation is none."""
        operation = super().prepare_store(keys, request)
        if operation is not None and not operation.keys:
            self.complete_store(operation)
            return None
        return operation
