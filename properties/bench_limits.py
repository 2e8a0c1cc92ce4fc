"""What the disk gives: the limit that the file tiers are measured against, in the same run.

fio where it is installed, else a loop of our own: `THREADS` threads with O_DIRECT on one
preallocated file. Both use buffers on huge pages; with scattered small pages either would show a
third of the truth and make a false limit.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from ..impl.arena import Arena

THREADS = 8
_DEPTH = 16


class DiskLimit:
    """Writes and reads `blocks` blocks of `block_bytes` in one file below a folder.

    Args:
        folder: on the disk in question.
        block_bytes: a whole number of pages.
        blocks: how many.
        fio: whether to use fio; None: if it is installed.
    """

    def __init__(
        self, folder: Path, *, block_bytes: int, blocks: int, fio: bool | None = None
    ) -> None:
        self._path = folder / "limit"
        self._block_bytes = block_bytes
        self._blocks = blocks
        program = shutil.which("fio") if fio is not False else None
        self._fio = program
        self.by = "fio, io_uring" if program else f"an O_DIRECT loop of {THREADS} threads"
        self._arena = Arena(slots=_DEPTH, block_bytes=block_bytes)
        for slot in range(_DEPTH):
            self._arena.row(slot)[:] = os.urandom(4096) * (block_bytes // 4096)
        with self._path.open("wb") as file:
            os.posix_fallocate(file.fileno(), 0, blocks * block_bytes)
        self.write()  # so that no round is the one that first touches the file

    def write(self) -> float:
        """GB/s."""
        return self._measure("write")

    def read(self) -> float:
        """GB/s."""
        return self._measure("read")

    def close(self) -> None:
        """Remove the file."""
        self._path.unlink(missing_ok=True)

    def _measure(self, what: str) -> float:
        if self._fio:
            return self._by_fio(what)
        fd = os.open(self._path, os.O_RDWR | os.O_DIRECT)
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

    def _by_fio(self, what: str) -> float:
        assert self._fio is not None
        told = subprocess.run(
            [
                *(self._fio, "--name=limit", f"--filename={self._path}", f"--rw={what}"),
                *(f"--bs={self._block_bytes}", f"--size={self._blocks * self._block_bytes}"),
                *("--direct=1", "--ioengine=io_uring", f"--iodepth={_DEPTH}", "--thread"),
                *("--mem=mmap", "--thp=1", "--output-format=json", "--end_fsync=0"),
            ],
            capture_output=True,
            check=True,
            text=True,
        )
        found = json.loads(told.stdout[told.stdout.index("{") :])
        return float(found["jobs"][0][what]["bw_bytes"]) / 1e9
