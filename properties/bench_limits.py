"""What the disk gives: the limit that the file tiers are measured against, in the same run.

fio where it is installed and gets huge pages, else a loop of our own: `THREADS` threads with
O_DIRECT on one preallocated file, from an arena. Either on scattered small pages would show half of
the truth and make a false limit.
"""

from __future__ import annotations

import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from ..impl.arena import Arena
from ..impl.tiers.file_io import FileIO, probe_direct
from .bench_fio import ENGINE, Fio, FioError

THREADS = 8
_DEPTH = 16


class DiskLimit:
    """Writes and reads `blocks` blocks of `block_bytes` in one file below a folder.

    Args:
        folder: on the disk in question.
        block_bytes: a whole number of pages.
        blocks: how many.
        fio: whether to use fio where it can be used.
    """

    def __init__(self, folder: Path, *, block_bytes: int, blocks: int, fio: bool = True) -> None:
        self._path = folder / "limit"
        self._block_bytes = block_bytes
        self._blocks = blocks
        self._fio: Fio | None = None
        direct = probe_direct(FileIO(), str(folder / "probe"), None)
        self._flags = os.O_RDWR | (os.O_DIRECT if direct else 0)
        self._arena = Arena(slots=_DEPTH, block_bytes=block_bytes)
        for slot in range(_DEPTH):
            self._arena.row(slot)[:] = os.urandom(4096) * (block_bytes // 4096)
        with self._path.open("wb") as file:
            os.posix_fallocate(file.fileno(), 0, blocks * block_bytes)
        self._by_loop("write")  # so that no round is the one that first touches the file
        self.by = f"{'an O_DIRECT' if direct else 'a buffered'} loop of {THREADS} threads"
        if fio and direct:
            try:
                self._fio = Fio(self._path, block_bytes=block_bytes, blocks=blocks)
                self.by = f"{self._fio.version} ({ENGINE}, O_DIRECT, depth {_DEPTH}, huge pages)"
            except FioError as why:
                self.by += f" ({why})"

    def write(self) -> float:
        """GB/s.

        Raises:
            FioError: fio, which could be used at the start, failed.
        """
        return self._measure("write")

    def read(self) -> float:
        """GB/s.

        Raises:
            FioError: fio, which could be used at the start, failed.
        """
        return self._measure("read")

    def close(self) -> None:
        """Remove the file."""
        self._path.unlink(missing_ok=True)

    def _measure(self, what: str) -> float:
        return self._by_loop(what) if self._fio is None else self._fio.speed(what)

    def _by_loop(self, what: str) -> float:
        fd = os.open(self._path, self._flags)
        turn = threading.local()
        numbers = iter(range(THREADS))
        lock = threading.Lock()

        def move(block: int) -> None:
            if not hasattr(turn, "row"):
                with lock:
                    turn.row = self._arena.row(next(numbers))
            offset = block * self._block_bytes
            done = (
                os.pwrite(fd, turn.row, offset)
                if what == "write"
                else os.preadv(fd, [turn.row], offset)
            )
            assert done == self._block_bytes, "a short transfer"

        try:
            with ThreadPoolExecutor(THREADS) as pool:
                began = time.perf_counter()
                list(pool.map(move, range(self._blocks)))
                took = time.perf_counter() - began
        finally:
            os.close(fd)
        return self._blocks * self._block_bytes / took / 1e9
