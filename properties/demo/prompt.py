"""The request of the demo: its tokens, the KV groups of its model, and what its blocks are called.

Nothing here needs torch. The parent of the demo's processes uses it, and so do they.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from hashlib import blake2b

from ...impl.geometry import Geometry, Group
from ...impl.geometry import Prompt as Asked
from ...impl.keys import BlockKey

VOCABULARY = 512
CHUNK = 64
"""Tokens of a prefill chunk. As many as a full block has: every hit ends where a chunk did, so what
is computed after a hit is computed in the same pieces as without one."""
TOKENS = 32 * CHUNK + 21
"""Tokens of the prompt; not a multiple of a chunk, so that something is left to compute."""
DECODED = 64
WINDOW = 32
KV_HEADS, HEAD = 2, 32
FULL, SLIDING = 0, 1
"""The KV groups by number."""
GROUPS = (
    Group(name="full", kind="full", tokens_per_block=CHUNK),
    Group(name="sliding", kind="window", tokens_per_block=16, window=WINDOW),
)
PATTERN = (SLIDING, SLIDING, SLIDING, SLIDING, FULL) * 2
"""The group of each layer."""
LAYERS = tuple(PATTERN.count(group) for group in (FULL, SLIDING))
"""Layers of each group."""
BLOCK_BYTES = LAYERS[FULL] * 2 * CHUNK * KV_HEADS * HEAD * 2
"""Bytes of a block: layers x (keys, values) x tokens x heads x bfloat16; the groups' are equal."""

Chunk = tuple[int, int]
"""A block's place in the prompt: its group, and its number there."""


class Prompt:
    """Random tokens, the same for the same seed."""

    def __init__(self, seed: int) -> None:
        rng = random.Random(f"tierproof demo {seed}")
        self.tokens = [rng.randrange(VOCABULARY) for _ in range(TOKENS)]
        self.asked = Asked(tokens=TOKENS)
        self.geometry = Geometry(GROUPS)

    def pieces(self, start: int = 0) -> Iterator[tuple[int, int]]:
        """What is computed at once, as tokens from and to, beginning at a multiple of `CHUNK`."""
        assert start % CHUNK == 0, (
            "a hit that ends within a chunk would be computed in other pieces"
        )
        for first in range(start, TOKENS, CHUNK):
            yield first, min(first + CHUNK, TOKENS)

    def completed(self, first: int, end: int) -> list[Chunk]:
        """The blocks to be kept that are complete once the tokens before `end` are computed."""
        return [
            (group, chunk)
            for group, lane in enumerate(self.geometry.lanes)
            for chunk in range(first // lane.chunk, end // lane.chunk)
            if self.geometry.is_stored(self.asked, group, chunk)
        ]

    def key(self, group: int, chunk: int) -> BlockKey:
        """The name of a block: its tokens and all before them, and its group."""
        end = (chunk + 1) * GROUPS[group].tokens_per_block
        text = b"".join(token.to_bytes(4, "little") for token in self.tokens[:end])
        return BlockKey(blake2b(text, digest_size=32).digest(), group)

    def best_hit(self) -> int:
        """Tokens of the hit when every block that was kept is found."""
        return self.geometry.boundary(self.asked, self.geometry.limit(self.asked))

    def wanted(self) -> list[Chunk]:
        """The blocks that loading the best hit reads."""
        return self.geometry.reads(self.asked, self.best_hit())


def tokens_of(at: Chunk) -> range:
    """The tokens of a block, counted from the start of the prompt."""
    size = GROUPS[at[0]].tokens_per_block
    return range(at[1] * size, (at[1] + 1) * size)


def named(at: Chunk) -> str:
    """A block in words."""
    tokens = tokens_of(at)
    return f"block {at[1]} of group {GROUPS[at[0]].name} (tokens {tokens.start} to {tokens[-1]})"
