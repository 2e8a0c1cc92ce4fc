"""The primary tier's memory: one contiguous, block-first arena in which slot i is row i."""

from __future__ import annotations

import contextlib
import mmap
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from . import memory
from .counted import counted
from .errors import ConfigError

if TYPE_CHECKING:
    import torch

_HUGE_PAGE = 2 << 20
_PAGE = 4096


class Arena:
    """`slots` rows of `block_bytes` bytes each, page-aligned, zeroed, on huge pages where possible.

    Huge pages decide disk throughput: O_DIRECT into 2 MiB pages moves about three times the bytes
    that it moves into scattered 4 KiB pages (measured for this project).

    Args:
        slots: number of rows.
        block_bytes: bytes of a row.
        numa_node: where the pages should lie, best on the node of the GPU or the disk; wherever
            the thread that builds the arena runs, when None. A system that forbids the request
            is slower, not wrong: `on_node` says what came of it.

    Raises:
        ConfigError: a size is not positive, the system has not that much memory, or no such node.
    """

    def __init__(self, *, slots: int, block_bytes: int, numa_node: int | None = None) -> None:
        for name, value in (("slots", slots), ("block_bytes", block_bytes)):
            if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                raise ConfigError(f"{name} must be a whole number of at least 1, not {value!r}")
        if numa_node is not None and numa_node not in memory.numa_nodes():
            raise ConfigError(
                f"numa_node must be one of {memory.numa_nodes()} on this machine, or None for "
                f"wherever the thread runs, not {numa_node!r}"
            )
        self.slots = slots
        self.block_bytes = block_bytes
        size = slots * block_bytes
        whole = f"{size:,} bytes for {counted(slots, 'slot')} of {block_bytes} bytes"
        # Below a huge page the answer is known, and arenas of tests are many.
        room = memory.available_bytes() if size >= _HUGE_PAGE else None
        if room is not None and size > room:
            raise ConfigError(
                f"cannot map {whole}: the system has {room:,} bytes left; choose fewer slots"
            )
        try:
            self._map = mmap.mmap(-1, -(-size // _PAGE) * _PAGE, flags=mmap.MAP_PRIVATE)
        except (OSError, OverflowError, ValueError) as error:
            raise ConfigError(f"cannot map {whole} ({error}); choose fewer slots") from error
        self._before_release: list[Callable[[], None]] = []
        self.on_node: int | None = None
        """The NUMA node that the system agreed to, None when not asked or not agreed."""
        pages = np.frombuffer(self._map, np.uint8)
        if numa_node is not None and memory.prefer_node(pages.ctypes.data, pages.size, numa_node):
            self.on_node = numa_node
        if size >= _HUGE_PAGE:
            if hasattr(mmap, "MADV_HUGEPAGE"):
                # a kernel without transparent huge pages is slower, not wrong
                with contextlib.suppress(OSError):
                    self._map.madvise(mmap.MADV_HUGEPAGE)
            # Touched in order and at start: what is missing shows now and not in a transfer, and
            # the pages are taken after the two requests above.
            pages[::_PAGE] = 0
        del pages
        self._view: memoryview | None = memoryview(self._map)[:size]

    @property
    def view(self) -> memoryview:
        """All rows as one writable memoryview of `slots * block_bytes` bytes."""
        if self._view is None:
            raise ConfigError("the arena has been released; build a new manager")
        return self._view

    def row(self, slot: int) -> memoryview:
        """Row `slot`, a writable memoryview of `block_bytes` bytes that shares the arena's memory.

        Raises:
            IndexError: there is no such slot.
        """
        if not 0 <= slot < self.slots:
            raise IndexError(f"slot {slot} is not one of 0..{self.slots - 1}")
        start = slot * self.block_bytes
        return self.view[start : start + self.block_bytes]

    def as_tensor(self) -> torch.Tensor:
        """All rows as a CPU tensor, uint8 of shape (slots, block_bytes), sharing this memory.

        Raises:
            ConfigError: torch is not installed, or the arena has been released.
        """
        from .device.library import torch_library

        # Through numpy, whose hold on the map keeps the pages when the arena is released;
        # `torch.frombuffer` keeps none, and its tensor would then point nowhere.
        rows = np.frombuffer(self._map, np.uint8, len(self.view))
        tensor: torch.Tensor = torch_library().from_numpy(rows)
        return tensor.view(self.slots, self.block_bytes)

    def before_release(self, hook: Callable[[], None]) -> None:
        """Call `hook` once before the memory goes: who pinned it for a device unpins it."""
        self._before_release.append(hook)

    @property
    def released(self) -> bool:
        """Whether the memory has been given back."""
        return self._view is None

    def release(self) -> None:
        """Give the memory back; idempotent. Rows handed out earlier keep their pages alive."""
        if self._view is not None:
            while self._before_release:
                self._before_release.pop()()
            self._view.release()
            self._view = None
            # where somebody still holds a row, the map goes when the row does
            with contextlib.suppress(BufferError):
                self._map.close()
