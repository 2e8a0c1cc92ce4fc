"""What each request uses, in the order of its prefix, for the order of eviction.

A request names keys when it stores, loads or touches them. The first time it does gives the key its
place: the head was named first. Each block that it uses counts once, however many steps it takes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from .blocks import Block
from .primary import PrimaryTier
from .tiers.base import Key
from .vocabulary import Phase

if TYPE_CHECKING:
    from .requests import Request

RESIDENT = Phase.RESIDENT

# A mention is the key's place, times four, and how far its use has come: only named; standing in
# its place, as it was read; standing there, as it was stored, and counted; standing there, counted.
NAMED, READ, STORED, TOUCHED = 0, 1, 2, 3
_KNOWN, _PLACE = 3, ~3


def name(request: Request, keys: Iterable[Key], known: int = NAMED) -> None:
    """The request names keys, the head first; what it has named before keeps its place."""
    mentions = request.mentions
    place = 4 * len(mentions)
    for key in keys:
        before = mentions.get(key)
        if before is None:
            mentions[key] = place + known
            place += 4
        elif known:
            mentions[key] = (before & _PLACE) + known


class Usage:
    """Tells the order of eviction what requests use."""

    def __init__(self, primary: PrimaryTier) -> None:
        self._primary = primary

    def touch(self, keys: Sequence[Key], request: Request) -> None:
        """One access for each request and key."""
        name(request, keys)
        mentions, find = request.mentions, self._primary.blocks.get
        used = []
        for key in keys:
            block = find(key)
            if block is not None and block.phase is RESIDENT and mentions[key] & _KNOWN != TOUCHED:
                used.append(block)
        self._use(used, request)
        name(request, [block.key for block in used], TOUCHED)

    def has_read(self, blocks: list[Block], request: Request) -> None:
        """What a request has read stands with what it uses, while it runs, too."""
        mentions, find = request.mentions, self._primary.blocks.get
        first = []
        for block in blocks:
            key = block.key
            known = mentions.get(key, READ) & _KNOWN
            # blocks of before a reset, and those of a request that has ended, stand nowhere
            if known == NAMED and find(key) is block:
                mentions[key] |= READ
                first.append(block)
        if first:
            self._primary.policy.follow(first, request)

    def finish(self, request: Request) -> None:
        """The request has ended: its whole prefix is used at this moment, as one access."""
        find = self._primary.blocks.get
        blocks = [b for b in map(find, request.mentions) if b is not None and b.phase is RESIDENT]
        self._use(blocks, request)
        name(request, [block.key for block in blocks], TOUCHED)  # a late read adds nothing to it

    def _use(self, blocks: list[Block], request: Request) -> None:
        policy, mentions = self._primary.policy, request.mentions
        for block in blocks:
            if mentions[block.key] & _KNOWN in (NAMED, READ):
                policy.count(block)
        if blocks:
            policy.follow(blocks, request)
