"""Room for what the GPU writes: the longest head of an offer that fits."""

from __future__ import annotations

from collections.abc import Sequence

from .blocks import Block
from .cascades import Cascades
from .operations import StoreOperation
from .primary import PrimaryTier
from .requests import Request
from .tiers.base import Key
from .transfers import Transfers
from .usage import name
from .vocabulary import Phase

RESIDENT = Phase.RESIDENT


class Stores:
    """Finds slots for an offer, evicting exactly what is missing, or nothing at all."""

    def __init__(self, primary: PrimaryTier, transfers: Transfers, cascades: Cascades) -> None:
        self._primary = primary
        self._transfers = transfers
        self._cascades = cascades

    def offer(self, keys: Sequence[Key], request: Request) -> StoreOperation | None:
        """Accept what fits; None when something needs a slot and nothing fits. All HIT promises
        have ended."""
        primary = self._primary
        blocks = primary.blocks
        absent = [key for key in keys if key not in blocks]
        if len(absent) > primary.free:
            # An eviction may have to be decided: first hear what has ended.
            self._transfers.absorb()
            # a tier that serves a peer may have asked from its poll: no HIT outlives a store
            primary.end_hit_promises()
            absent = [key for key in keys if key not in blocks]
        present = [blocks[key] for key in keys if key in blocks] if len(absent) < len(keys) else []
        accepted, evicted = absent, list[Block]()
        if len(absent) > primary.free:
            spared = [block for block in present if block.phase is RESIDENT and block.loose]
            room = primary.free + primary.evictable - len(spared)
            if not room:
                return None
            accepted = absent[:room]
            evicted = primary.evict_sparing(len(accepted) - primary.free, spared)
            for victim in evicted:
                self._cascades.evicted(victim)
        name(request, keys)
        operation = self._transfers.begin_write(
            accepted,
            [block.key for block in present],
            absent[len(accepted) :],
            [block.key for block in evicted],
            request,
        )
        if present and request.whole:
            self._cascades.offer_whole(present, request)
        return operation
