"""The system calls that the file tiers make, behind one object, so that tests can make them fail.

A permission or a full disk cannot be arranged by `chmod` when the tests run as root; a disk that
stops answering cannot be arranged at all. Tests subclass `FileIO` and override a call.
"""

from __future__ import annotations

import errno
import fcntl
import mmap
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeAlias

from ..errors import ConfigError

Buffer: TypeAlias = "memoryview | mmap.mmap | bytearray | bytes"

FULL = frozenset({errno.ENOSPC, errno.EDQUOT})
"""Error numbers that say only that there is no room."""

THREADS = 16
"""Blocks that a file tier moves at once where nobody says otherwise. Four are enough for an idle
disk beside idle cores; while the cores are busy, a thread that has read its block waits for one to
check it, and the disk must not wait with it (vLLM's file tier has 32 threads)."""

PIECE = 512 << 10
"""Bytes of a block that one call moves. A block of 4 MiB in one call keeps the disk's queue full of
long requests, each thread waits for all of them, and a checksum finds bytes that have left the
cache: in pieces of this size loads were about a tenth and stores a fifth faster (`bench tiers`)."""

PAGE = 4096
"""Alignment of memory, offset and length that O_DIRECT is probed with, in bytes."""


class FileIO:
    """The calls a file tier makes; each behaves and raises as its namesake in `os`."""

    def open(self, path: str, flags: int) -> int:
        """Open with O_CLOEXEC; a new file gets mode 0600."""
        return os.open(path, flags | os.O_CLOEXEC, 0o600)

    def close(self, fd: int) -> None:
        """Close a descriptor."""
        os.close(fd)

    def preadv(self, fd: int, buffers: Sequence[Buffer], offset: int) -> int:
        """Read into `buffers`; returns the number of bytes."""
        return os.preadv(fd, buffers, offset)

    def pwritev(self, fd: int, buffers: Sequence[Buffer], offset: int) -> int:
        """Write from `buffers`; returns the number of bytes."""
        return os.pwritev(fd, buffers, offset)

    def ftruncate(self, fd: int, length: int) -> None:
        """Set a file's length in bytes."""
        os.ftruncate(fd, length)

    def fallocate(self, fd: int, length: int) -> None:
        """Take `length` bytes of disk for a file, which then has that length."""
        os.posix_fallocate(fd, 0, length)

    def fstat(self, fd: int) -> os.stat_result:
        """What an open file is."""
        return os.fstat(fd)

    def stat(self, path: str) -> os.stat_result:
        """What is at `path`; a link is not followed."""
        return os.stat(path, follow_symlinks=False)

    def utime(self, target: int | str, stamp: int) -> None:
        """Set the times of a descriptor or path to `stamp` nanoseconds."""
        os.utime(target, ns=(stamp, stamp))

    def rename(self, old: str, new: str) -> None:
        """Rename, replacing a file at `new` at once and whole."""
        os.rename(old, new)

    def link(self, old: str, new: str) -> None:
        """Make a second name; FileExistsError when `new` exists."""
        os.link(old, new)

    def unlink(self, path: str) -> None:
        """Remove a name that is not a folder's."""
        os.unlink(path)

    def rmdir(self, path: str) -> None:
        """Remove an empty folder."""
        os.rmdir(path)

    def mkdir(self, path: str) -> None:
        """Make a folder of mode 0700."""
        os.mkdir(path, 0o700)

    def scandir(self, path: str) -> Iterator[os.DirEntry[str]]:
        """What is in a folder, read as it is iterated."""
        with os.scandir(path) as entries:
            yield from entries

    def flock(self, fd: int, operation: int) -> None:
        """Lock or unlock; callers pass LOCK_NB, so this never waits."""
        fcntl.flock(fd, operation)


@contextmanager
def full_forgiven() -> Iterator[None]:
    """Go on behind the block where a full disk ends it."""
    try:
        yield
    except OSError as error:
        if error.errno not in FULL:
            raise


def read_exactly(io: FileIO, fd: int, buffers: Sequence[memoryview], offset: int = 0) -> bool:
    """Fill `buffers` from `offset`; False when the file ends before they are full."""
    return _transfer(io.preadv, fd, buffers, offset)


def write_exactly(io: FileIO, fd: int, buffers: Sequence[memoryview], offset: int = 0) -> None:
    """Write all of `buffers` at `offset`.

    Raises:
        OSError: ENOSPC also when the system writes nothing and says nothing.
    """
    if not _transfer(io.pwritev, fd, buffers, offset):
        raise OSError(errno.ENOSPC, "the file system accepted no more bytes")


def _transfer(
    call: Callable[[int, Sequence[Buffer], int], int],
    fd: int,
    buffers: Sequence[memoryview],
    offset: int,
) -> bool:
    rest = [buffer for buffer in buffers if buffer.nbytes]
    while rest:
        moved = call(fd, rest, offset)
        if moved <= 0:
            return False
        offset += moved
        while rest and moved >= rest[0].nbytes:
            moved -= rest[0].nbytes
            rest.pop(0)
        if moved:
            rest[0] = rest[0][moved:]
    return True


def pieces(block: memoryview) -> Iterator[memoryview]:
    """A block's bytes in order, `PIECE` in each but the last, which has less than twice as many."""
    start = 0
    while block.nbytes - start >= 2 * PIECE:
        yield block[start : start + PIECE]
        start += PIECE
    yield block[start:]


def page_buffer(size: int = PAGE) -> memoryview:
    """`size` zeroed bytes at a page boundary, as O_DIRECT wants them."""
    return memoryview(mmap.mmap(-1, size))


def probe_direct(io: FileIO, path: str, wanted: bool | None) -> bool:
    """Whether O_DIRECT works for whole pages at `path`, a file that is made and removed.

    `wanted` None asks, False declines without asking.

    Raises:
        ConfigError: `wanted` is True and the file system refuses.
        OSError: the folder cannot be written at all.
    """
    if wanted is not False:
        refusal = _try_page(io, path, os.O_DIRECT)
        if refusal is None:
            return True
    plain = _try_page(io, path, 0)
    if plain is not None:
        raise plain
    if wanted:
        raise ConfigError(
            "direct=True, but the file system refuses O_DIRECT; "
            "use direct=None to fall back to buffered I/O"
        )
    return False


def _try_page(io: FileIO, path: str, flag: int) -> OSError | None:
    # A full disk says nothing about O_DIRECT and is no reason not to serve what is there.
    page = page_buffer()
    try:
        fd = io.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC | flag)
    except OSError as error:
        return None if error.errno in FULL else error
    try:
        write_exactly(io, fd, [page])
        read_exactly(io, fd, [page])
    except OSError as error:
        return None if error.errno in FULL else error
    finally:
        io.close(fd)
        io.unlink(path)
    return None
