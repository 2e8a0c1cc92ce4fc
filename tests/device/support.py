"""What the device tests share: an operation, layouts, and a world of blocks under a schedule."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import count

import torch

from tierproof import Arena
from tierproof.impl.device.layout import KvTensor
from tierproof.impl.device.stepped import SteppedBackend
from tierproof.impl.device.worker import DeviceWorker, JobEnd


@dataclass(frozen=True)
class Operation:
    """A load or a store as the worker sees it."""

    operation_id: int
    slots: tuple[int, ...]


def layer_first(dtype: torch.dtype, *, blocks: int, page: int, layers: int = 3) -> list[KvTensor]:
    """A tensor for each layer."""
    return [KvTensor(filled(dtype, blocks, page)) for _ in range(layers)]


def stacked(dtype: torch.dtype, *, blocks: int, page: int, layers: int = 3) -> list[KvTensor]:
    """One tensor, layers and then keys and values before the blocks."""
    return [KvTensor(filled(dtype, layers, 2, blocks, page), block_dim=2)]


def block_first(dtype: torch.dtype, *, blocks: int, page: int, layers: int = 3) -> list[KvTensor]:
    """One tensor, a block's layers together."""
    return [KvTensor(filled(dtype, blocks, layers, page))]


LAYOUTS = {"layer-first": layer_first, "stacked": stacked, "block-first": block_first}


def filled(dtype: torch.dtype, *shape: int) -> torch.Tensor:
    """Random bytes seen as `dtype`, NaNs and all."""
    size = torch.empty(0, dtype=dtype).element_size()
    return torch.randint(0, 256, (*shape[:-1], shape[-1] * size), dtype=torch.uint8).view(dtype)


def block_bytes(group: Sequence[KvTensor], block: int) -> bytes:
    """A block's bytes in the order of tensors, read without the code under test."""
    return b"".join(
        part.tensor.select(part.block_dim, block).contiguous().view(torch.uint8).numpy().tobytes()
        for part in group
    )


class World:
    """A scheduler that does everything right, over a worker that may not.

    It knows which value each block and each slot should hold and compares whenever it may look.
    Kernels run in the backend's current stream, behind a guard, as a model's would.

    Args:
        worker: the worker's class, perhaps a broken one.
        choose: which of the ready streams steps.
    """

    BLOCKS, SLOTS, WIDTH = 3, 6, 8

    def __init__(self, worker: type[DeviceWorker], choose: Callable[[int], int]) -> None:
        self.backend = SteppedBackend(choose)
        self.pools = [torch.zeros(self.BLOCKS, self.WIDTH, dtype=torch.uint8) for _ in range(2)]
        self.arena = Arena(slots=self.SLOTS, block_bytes=2 * self.WIDTH)
        self.worker = worker(
            arena=self.arena,
            groups=[[KvTensor(pool) for pool in self.pools]],
            backend=self.backend,
            depth=2,
            piece_bytes=2 * self.WIDTH,  # a block a piece: buffers are used again at once
        )
        # Everything differs from the start, so that bytes in the wrong place show.
        self.blocks = list(range(201, 201 + self.BLOCKS))
        for block, value in enumerate(self.blocks):
            for pool in self.pools:
                pool[block] = value
        self.slots: list[int | None] = list(range(101, 101 + self.SLOTS))
        for slot, value in enumerate(range(101, 101 + self.SLOTS)):
            self.arena.row(slot)[:] = bytes([value]) * self.arena.block_bytes
        self.busy: set[int] = set()
        """Slots that a job uses."""
        self.stores: dict[int, tuple[tuple[int, ...], list[int]]] = {}
        self.loads: dict[int, tuple[int, ...]] = {}
        self.seen: list[tuple[list[torch.Tensor], int]] = []
        self._numbers, self._values = count(1), count(1)

    def write(self, block: int, *, guarded: bool = True) -> None:
        """A kernel writes the block, behind a guard or because the worker says that it may."""
        stream = self.backend.current()
        if guarded:
            self.worker.guard(stream, [block])
        elif self.worker.reading([block]) or self.worker.writing([block]):
            return
        self.blocks[block] = value = next(self._values) % 100
        for pool in self.pools:
            stream.scatter(pool, [block], torch.full((1, self.WIDTH), value, dtype=torch.uint8))

    def read(self, block: int) -> None:
        """A kernel reads the block behind a guard; compared at the end."""
        stream = self.backend.current()
        self.worker.guard(stream, [block])
        found = [torch.zeros(1, self.WIDTH, dtype=torch.uint8) for _ in self.pools]
        for target, pool in zip(found, self.pools, strict=True):
            stream.gather(target, pool, [block])
        self.seen.append((found, self.blocks[block]))

    def store(self, blocks: Sequence[int]) -> None:
        """Store blocks to slots that are free, as many as there are."""
        slots = tuple(slot for slot in range(self.SLOTS) if slot not in self.busy)[: len(blocks)]
        chosen = list(blocks)[: len(slots)]
        number = next(self._numbers)
        self.busy.update(slots)
        self.stores[number] = (slots, [self.blocks[block] for block in chosen])
        self.worker.store(Operation(number, slots), chosen)
        chosen[:] = [0] * len(chosen)  # the caller's list is the caller's again

    def load(self, blocks: Sequence[int]) -> None:
        """Load slots that hold something to blocks, as many as there are."""
        full = [s for s in range(self.SLOTS) if s not in self.busy and self.slots[s] is not None]
        pairs = list(zip(full, blocks, strict=False))
        number = next(self._numbers)
        slots = tuple(slot for slot, _ in pairs)
        self.busy.update(slots)
        self.loads[number] = slots
        self.worker.load(Operation(number, slots), [block for _, block in pairs])
        for slot, block in pairs:
            value = self.slots[slot]
            assert value is not None
            self.blocks[block] = value

    def poll(self) -> None:
        """Hear what has ended, and look at the slots that stores filled."""
        for end in self.worker.poll():
            self._hear(end)

    def _hear(self, end: JobEnd) -> None:
        assert end.ok, end.error
        if end.store:
            slots, values = self.stores.pop(end.operation_id)
            for slot, value in zip(slots, values, strict=True):
                assert bytes(self.arena.row(slot)) == bytes([value]) * len(self.arena.row(slot)), (
                    f"the store to slot {slot} was reported before its bytes were there"
                )
                self.slots[slot] = value
        else:
            slots = self.loads.pop(end.operation_id)
            # The slot's next owner writes as soon as it may.
            for slot in slots:
                self.arena.row(slot)[:] = bytes(self.arena.block_bytes)
                self.slots[slot] = None
        self.busy.difference_update(slots)

    def finish(self) -> None:
        """Run everything to its end and compare all that was not compared yet."""
        while self.backend.step():
            self.poll()
        self.poll()
        assert not self.worker.in_flight, "a job never ends"
        for found, value in self.seen:
            for tensor in found:
                assert tensor.tolist() == [[value] * self.WIDTH], "a kernel read foreign bytes"
        for block, value in enumerate(self.blocks):
            for pool in self.pools:
                assert pool[block].tolist() == [value] * self.WIDTH, f"block {block} is foreign"
