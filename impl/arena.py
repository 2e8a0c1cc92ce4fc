"""The primary tier's memory: one contiguous, block-first arena in which slot i is row i."""

from __future__ import annotations

import contextlib
import mmap

from .errors import ConfigError

_HUGE_PAGE = 2 << 20
_PAGE = 4096


class Arena:
    """`slots` rows of `block_bytes` bytes each, page-aligned, zeroed, on huge pages where possible.

    Huge pages decide disk throughput: O_DIRECT into 2 MiB pages moves about three times the bytes
    that it moves into scattered 4 KiB pages (measured for this project).

    Raises:
        ConfigError: a size is not positive, or the system has not that much memory.
    """

    def __init__(self, *, slots: int, block_bytes: int) -> None:
        for name, value in (("slots", slots), ("block_bytes", block_bytes)):
            if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                raise ConfigError(f"{name} must be a whole number of at least 1, not {value!r}")
        self.slots = slots
        self.block_bytes = block_bytes
        size = slots * block_bytes
        try:
            self._map = mmap.mmap(-1, -(-size // _PAGE) * _PAGE, flags=mmap.MAP_PRIVATE)
        except (OSError, OverflowError, ValueError) as error:
            raise ConfigError(
                f"cannot map {size:,} bytes for {slots} slots of {block_bytes} bytes ({error}); "
                "choose fewer slots"
            ) from error
        if size >= _HUGE_PAGE and hasattr(mmap, "MADV_HUGEPAGE"):
            # a kernel without transparent huge pages is slower, not wrong
            with contextlib.suppress(OSError):
                self._map.madvise(mmap.MADV_HUGEPAGE)
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

    @property
    def released(self) -> bool:
        """Whether the memory has been given back."""
        return self._view is None

    def release(self) -> None:
        """Give the memory back; idempotent. Rows handed out earlier keep their pages alive."""
        if self._view is not None:
            self._view.release()
            self._view = None
            # where somebody still holds a row, the map goes when the row does
            with contextlib.suppress(BufferError):
                self._map.close()
