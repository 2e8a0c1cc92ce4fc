"""Where a block's bytes lie in GPU memory, and where in its arena row.

A KV group is one or several tensors indexed by the same block ids. Layer-first: a tensor for each
layer, or one whose dimension 0 is the layer. Block-first: dimension 0 is the block, and a block's
layers lie together. Both become *planes*, matrices with one row for each block: copies then do not
know layouts or dtypes, because bytes have neither.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..errors import ConfigError
from .library import torch_library

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class KvTensor:
    """A tensor of KV blocks and which of its dimensions counts the blocks.

    Attributes:
        tensor: contiguous, any dtype (fp16, bf16, fp8, uint8, ...), any page size.
        block_dim: 0 for block-first; for layer-first what follows the layers, as 1 in vLLM's
            (2, blocks, tokens, heads, head size).
    """

    tensor: torch.Tensor
    block_dim: int = 0


class Planes:
    """A KV group as matrices, and the place of each in a row.

    Args:
        group: the group's tensors; all count the same number of blocks.
        block_bytes: bytes of an arena row.

    Raises:
        ConfigError: a tensor is not contiguous, the tensors differ in blocks, or a block's bytes
            do not fit a row.
    """

    def __init__(self, group: Sequence[KvTensor], block_bytes: int) -> None:
        if not group:
            raise ConfigError("a KV group needs at least one tensor")
        found = [plane for part in group for plane in _planes(part)]
        counts = sorted({plane.shape[0] for plane in found})
        if len(counts) > 1:
            raise ConfigError(
                f"the tensors of a KV group differ in their blocks, {counts}; put tensors that do "
                "not share "
                "block ids into groups of their own"
            )
        self.blocks = counts[0]
        """Block ids are 0 .. blocks - 1."""
        widths = [plane.shape[1] for plane in found]
        self.row_bytes = sum(widths)
        """Bytes of a row that the group uses."""
        if not 0 < self.row_bytes <= block_bytes:
            raise ConfigError(
                f"a block of the KV group has {self.row_bytes} bytes, an arena row {block_bytes}; "
                "choose block_bytes as the largest group's"
            )
        places = [plane.data_ptr() for plane in found]
        self.unit: torch.dtype = _unit([*places, *widths, block_bytes])
        """The widest whole number in which the group can be moved."""
        size = self.unit.itemsize
        self.planes: list[tuple[torch.Tensor, int, int]] = []
        """Matrix (blocks, units), and the columns first and last-but-one of a row that it fills."""
        first = 0
        for plane, width in zip(found, widths, strict=True):
            last = first + width
            self.planes.append((plane.view(self.unit), first // size, last // size))
            first = last


def runs(slots: Sequence[int]) -> list[tuple[int, int, int]]:
    """Neighbouring slots as one copy: (place in `slots`, first slot, how many), in order."""
    found: list[tuple[int, int, int]] = []
    for place, slot in enumerate(slots):
        if found and found[-1][1] + found[-1][2] == slot:
            start, first, length = found[-1]
            found[-1] = (start, first, length + 1)
        else:
            found.append((place, slot, 1))
    return found


def _planes(part: KvTensor) -> list[torch.Tensor]:
    tensor, dim = part.tensor, part.block_dim
    if not 0 <= dim < tensor.dim():
        raise ConfigError(f"block_dim must be one of 0..{tensor.dim() - 1}, not {dim!r}")
    if not tensor.is_contiguous():
        raise ConfigError(
            f"a KV tensor of shape {tuple(tensor.shape)} and strides {tensor.stride()} is not "
            "contiguous; pass the tensor that was allocated, and say block_dim"
        )
    # Flat first: a view of another dtype must keep the last dimension's bytes together.
    flat = tensor.view(-1).view(torch_library().uint8)
    blocks = tensor.shape[dim]
    above = 1
    for length in tensor.shape[:dim]:
        above *= length
    if not flat.numel():
        raise ConfigError(f"a KV tensor of shape {tuple(tensor.shape)} holds nothing")
    return list(flat.view(above, blocks, -1).unbind(0))


def _unit(multiples: Sequence[int]) -> torch.dtype:
    # A kernel that moves single bytes is several times slower than one that moves words.
    library = torch_library()
    chosen: torch.dtype = library.uint8
    for unit in (library.int16, library.int32, library.int64):
        if all(number % unit.itemsize == 0 for number in multiples):
            chosen = unit
    return chosen
