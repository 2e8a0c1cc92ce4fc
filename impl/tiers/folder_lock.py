"""A lock on a folder that several processes share, and a number that it guards."""

from __future__ import annotations

import errno
import fcntl
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from .file_io import FileIO

_WAIT = 5.0
_STEP = 0.002
_WORD = 8


class FolderLock:
    """An flock on the file at `path`, which holds the number of bytes in use.

    `prepare` makes the folder that the file is in. The file may be removed by hand at any time:
    whoever locks next makes a new one, and the number is then unknown.

    Raises:
        OSError: the file cannot be made.
    """

    def __init__(self, io: FileIO, path: str, prepare: Callable[[], None]) -> None:
        self._io = io
        self._path = path
        self._prepare = prepare
        self._threads = threading.Lock()
        self._fd = self._open()

    @contextmanager
    def held(self) -> Iterator[None]:
        """Keep other threads and processes out.

        Raises:
            TimeoutError: somebody kept it for seconds (a process stopped in a debugger, say).
            OSError: the file is gone and cannot be made again.
        """
        if not self._threads.acquire(timeout=_WAIT):
            raise _timeout()
        try:
            self._lock()
            try:
                yield
            finally:
                with suppress(OSError):
                    self._io.flock(self._fd, fcntl.LOCK_UN)
        finally:
            self._threads.release()

    def number(self) -> int | None:
        """The number, or None when nobody has set it; hold the lock."""
        word = bytearray(_WORD)
        if self._io.preadv(self._fd, [word], 0) < _WORD:
            return None
        return int.from_bytes(word, "little")

    def set_number(self, number: int) -> None:
        """Set the number; hold the lock."""
        self._io.pwritev(self._fd, [number.to_bytes(_WORD, "little")], 0)

    def close(self) -> None:
        """Let go for good."""
        self._io.close(self._fd)

    def _open(self) -> int:
        self._prepare()
        return self._io.open(self._path, os.O_RDWR | os.O_CREAT)

    def _lock(self) -> None:
        ends = time.monotonic() + _WAIT
        while True:
            try:
                self._io.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() > ends:
                    raise _timeout() from None
                time.sleep(_STEP)
                continue
            except OSError:
                pass  # a file system without flock: threads are kept apart, processes are not
            if self._is_current():
                return
            stale, self._fd = self._fd, self._open()
            self._io.close(stale)

    def _is_current(self) -> bool:
        try:
            there = self._io.stat(self._path)
        except FileNotFoundError:
            return False
        here = self._io.fstat(self._fd)
        return (there.st_dev, there.st_ino) == (here.st_dev, here.st_ino)


def _timeout() -> TimeoutError:
    return TimeoutError(errno.ETIMEDOUT, "the folder's lock is taken")
