"""The KV cache of the demo's model: blocks of device memory, in both layouts that engines use.

Layer-first: a tensor for each layer, (keys and values, blocks, tokens, heads, head). Block-first:
one tensor for a group, in which a block's layers lie together. The model reads and writes through
views that look the same.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable

import torch
from xxhash import xxh3_128_hexdigest

from ...impl.device.layout import KvTensor
from .prompt import CHUNK, DECODED, GROUPS, HEAD, KV_HEADS, LAYERS, TOKENS, WINDOW, Chunk
from .settings import Layout

_SPARE = 8
"""Blocks of a windowed group beyond those of one piece: stores may still read a few."""


class PagedCache:
    """The blocks of one request, and which of them are free.

    Args:
        layout: how a block's layers lie.
        device: of torch.
        seed: for the order in which blocks are handed out. Two processes that give different
            ones agree on nothing but the keys.
    """

    def __init__(self, layout: Layout, device: str, seed: object) -> None:
        self.device = device
        self.groups: list[list[KvTensor]] = []
        """As the device worker takes them."""
        self._views: list[list[torch.Tensor]] = []
        self._free: list[list[int]] = []
        self._tables: list[dict[int, int]] = []
        self._sizes = [group.tokens_per_block for group in GROUPS]
        rng = random.Random(f"blocks {seed}")
        for group, layers, size in zip(GROUPS, LAYERS, self._sizes, strict=True):
            most = TOKENS + DECODED if group.window is None else CHUNK + WINDOW
            blocks = -(-most // size) + _SPARE
            page = (size, KV_HEADS, HEAD)
            # NaN: what is read before it was written shows in every logit behind it.
            if layout == "layer-first":
                tensors = [self._filled(2, blocks, *page) for _ in range(layers)]
                self.groups.append([KvTensor(tensor, 1) for tensor in tensors])
                self._views.append(tensors)
            else:
                whole = self._filled(blocks, layers, 2, *page)
                self.groups.append([KvTensor(whole)])
                self._views.append([whole[:, layer].transpose(0, 1) for layer in range(layers)])
            free = list(range(blocks))
            rng.shuffle(free)
            self._free.append(free)
            self._tables.append({})

    def _filled(self, *shape: int) -> torch.Tensor:
        return torch.full(shape, torch.nan, dtype=torch.bfloat16, device=self.device)

    # -- blocks -----------------------------------------------------------------------------------

    def take(self, at: Chunk) -> int:
        """A free block of device memory for a block of the prompt."""
        group, chunk = at
        block = self._free[group].pop()
        self._tables[group][chunk] = block
        return block

    def take_for(self, first: int, end: int) -> None:
        """Blocks for tokens that are about to be computed, where there are none yet."""
        for group, (table, size) in enumerate(zip(self._tables, self._sizes, strict=True)):
            for chunk in range(first // size, -(-end // size)):
                if chunk not in table:
                    self.take((group, chunk))

    def drop(self, at: Chunk) -> None:
        """The block is free: others may write it."""
        group, chunk = at
        self._free[group].insert(0, self._tables[group].pop(chunk))

    def forget(self, end: int, busy: Callable[[Chunk], bool] = lambda at: False) -> None:
        """Free the blocks that no token from `end` on attends to, but for those that are busy."""
        for group, (table, size) in enumerate(zip(self._tables, self._sizes, strict=True)):
            window = GROUPS[group].window
            oldest = 0 if window is None else max(0, end - window + 1) // size
            for chunk in [chunk for chunk in table if chunk < oldest]:
                if not busy((group, chunk)):
                    self.drop((group, chunk))

    def block(self, at: Chunk) -> int:
        """Which block of device memory it is in."""
        return self._tables[at[0]][at[1]]

    def fingerprints(self, chunks: Iterable[Chunk]) -> dict[Chunk, str]:
        """A digest of each block's bytes, read from the tensors and not by the device worker."""
        found = {}
        for at in chunks:
            views, block = self._views[at[0]], self.block(at)
            pages = [view[:, block].contiguous().view(torch.uint8).cpu() for view in views]
            found[at] = xxh3_128_hexdigest(b"".join(page.numpy().tobytes() for page in pages))
        return found

    # -- what the model does ----------------------------------------------------------------------

    def write(self, group: int, layer: int, first: int, kv: torch.Tensor) -> None:
        """Keep keys and values, (2, tokens, heads, head), of tokens from `first` on."""
        size, table = self._sizes[group], self._tables[group]
        where = range(first, first + kv.shape[1])
        blocks = self._numbers(table[token // size] for token in where)
        offsets = self._numbers(token % size for token in where)
        self._views[group][layer][:, blocks, offsets] = kv.to(torch.bfloat16)

    def read(self, group: int, layer: int, first: int, end: int) -> torch.Tensor:
        """Keys and values, (2, tokens, heads, head) as float32, of tokens `first` to `end`."""
        size, table = self._sizes[group], self._tables[group]
        chunks = range(first // size, -(-end // size))
        pages = self._views[group][layer].index_select(1, self._numbers(map(table.get, chunks)))
        start = first - chunks.start * size
        tokens = pages.reshape(2, -1, KV_HEADS, HEAD)[:, start : start + end - first]
        return tokens.to(torch.float32)

    def _numbers(self, numbers: Iterable[int | None]) -> torch.Tensor:
        return torch.tensor(list(numbers), dtype=torch.int64, device=self.device)
