"""A small decoder-only transformer with fixed random weights.

Grouped-query attention, rotary positions, full and sliding-window layers. Given the same tokens in
the same pieces it computes the same bits, in whatever process. On a CPU that is because one thread
computes (`settle`), so additions have one order; because torch allocates at multiples of 64 bytes,
so kernels cut their loops alike; and because one machine picks one kernel for one shape. On CUDA
one stream computes, with cuBLAS's workspace fixed. No operation here adds in an order of its own,
as scatters with duplicates would. The demo compares, so none of this has to be believed.
"""

from __future__ import annotations

import math
import os

import torch

from .cache import PagedCache
from .prompt import GROUPS, HEAD, KV_HEADS, PATTERN, VOCABULARY

_WIDTH, _HEADS, _HIDDEN = 128, 4, 256
_BASE = 10_000.0
_OF_GROUP = [PATTERN[:layer].count(group) for layer, group in enumerate(PATTERN)]
"""Which of its group's layers each layer is."""


def settle(device: str) -> None:
    """Before anything is computed: whatever could change the order of additions is fixed."""
    torch.set_num_threads(1)
    torch.set_grad_enabled(False)
    if device == "cuda":
        os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"  # read when CUDA starts


class Model:
    """The weights, the same for the same seed wherever they are made."""

    def __init__(self, seed: int, device: str) -> None:
        self.device = device
        generator = torch.Generator().manual_seed(seed)

        def weights(rows: int, columns: int) -> torch.Tensor:
            scale = math.sqrt(1 / rows)
            return (torch.randn(rows, columns, generator=generator) * scale).to(device)

        self._embedding = torch.randn(VOCABULARY, _WIDTH, generator=generator).to(device)
        attends, kept = _HEADS * HEAD, 2 * KV_HEADS * HEAD
        self._layers = [
            {
                "queries": weights(_WIDTH, attends),
                "keys_values": weights(_WIDTH, kept),
                "out": weights(attends, _WIDTH),
                "up": weights(_WIDTH, _HIDDEN),
                "down": weights(_HIDDEN, _WIDTH),
            }
            for _ in PATTERN
        ]

    def forward(self, tokens: list[int], first: int, cache: PagedCache) -> torch.Tensor:
        """Compute tokens that begin at place `first`, behind what the cache holds.

        Returns:
            The logits of the token after the last, float32 of shape (vocabulary,).
        """
        cache.take_for(first, first + len(tokens))
        x = self._embedding[torch.tensor(tokens, device=self.device)]
        angles = self._angles(first, len(tokens))
        places = zip(PATTERN, _OF_GROUP, strict=True)
        for layer, place in zip(self._layers, places, strict=True):
            x = x + self._attention(_normed(x), layer, place, first, angles, cache)
            x = x + torch.nn.functional.silu(_normed(x) @ layer["up"]) @ layer["down"]
        logits: torch.Tensor = _normed(x[-1]) @ self._embedding.T
        return logits

    def _attention(
        self,
        x: torch.Tensor,
        layer: dict[str, torch.Tensor],
        place: tuple[int, int],
        first: int,
        angles: tuple[torch.Tensor, torch.Tensor],
        cache: PagedCache,
    ) -> torch.Tensor:
        number, (group, of_group) = len(x), place
        queries = _rotated((x @ layer["queries"]).view(number, _HEADS, HEAD), *angles)
        fresh = (x @ layer["keys_values"]).view(number, 2, KV_HEADS, HEAD).transpose(0, 1)
        cache.write(group, of_group, first, torch.stack([_rotated(fresh[0], *angles), fresh[1]]))
        window = GROUPS[group].window
        oldest = 0 if window is None else max(0, first - window + 1)
        # Read back, also what was just written: a cache in bfloat16 is what everybody attends to.
        keys, values = cache.read(group, of_group, oldest, first + number)
        shared = _HEADS // KV_HEADS
        queries = queries.view(number, KV_HEADS, shared, HEAD).permute(1, 2, 0, 3)
        scores = queries.reshape(KV_HEADS, shared * number, HEAD) @ keys.permute(1, 2, 0)
        scores = (scores * HEAD**-0.5).view(KV_HEADS, shared, number, -1)
        places = torch.arange(oldest, first + number, device=self.device)
        back = places[first - oldest :, None] - places
        seen = back >= 0 if window is None else (back >= 0) & (back < window)
        shares = scores.masked_fill(~seen, -torch.inf).softmax(-1)
        mixed = shares.view(KV_HEADS, shared * number, -1) @ values.transpose(0, 1)
        mixed = mixed.view(KV_HEADS, shared, number, HEAD).permute(2, 0, 1, 3)
        out: torch.Tensor = mixed.reshape(number, _HEADS * HEAD) @ layer["out"]
        return out

    def _angles(self, first: int, number: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Cosines and sines of rotary positions, (tokens, 1, half a head)."""
        rates = torch.arange(HEAD // 2, device=self.device) * (-math.log(_BASE) / (HEAD // 2))
        places = torch.arange(first, first + number, device=self.device)
        angles: torch.Tensor = (places[:, None] * rates.exp())[:, None, :]
        return angles.cos(), angles.sin()


def _normed(x: torch.Tensor) -> torch.Tensor:
    scale: torch.Tensor = torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6)
    return x * scale


def _rotated(x: torch.Tensor, cosine: torch.Tensor, sine: torch.Tensor) -> torch.Tensor:
    near, far = x.chunk(2, -1)
    return torch.cat([near * cosine - far * sine, near * sine + far * cosine], -1)
