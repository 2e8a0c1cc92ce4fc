"""What the workers of the file tier do with one block: store, load, look, verify.

Each method runs on a worker thread, does its I/O, and tells the index what it found. Each answers
for one block: whatever goes wrong, the others of its job go on.
"""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

from ..arena import Arena
from ..errors import CorruptBlockError
from .block_file import (
    HEADER_BYTES,
    Label,
    check_shape,
    file_bytes,
    read_block,
    read_header,
    verify_block,
    write_block,
)
from .block_folder import BlockFolder, FoundBlock
from .file_capacity import FileCapacity
from .file_index import FileIndex
from .file_io import FULL, FileIO, page_buffer
from .mover import BlockMover
from .trouble import Trouble

_T = TypeVar("_T")
_LOOKS = 64
_DISK_FULL_TRIES = 3
# A symbolic link is refused, a pipe does not wait for its writer.
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK


class FileMover(BlockMover):
    """Moves blocks between arena rows and files of one namespace (`space`, `fingerprint`)."""

    def __init__(
        self,
        *,
        arena: Arena,
        space: str,
        fingerprint: bytes,
        direct: bool,
        io: FileIO,
        folder: BlockFolder,
        index: FileIndex,
        capacity: FileCapacity,
        trouble: Trouble,
        tell: Callable[[str], None],
    ) -> None:
        super().__init__(arena=arena, space=space, index=index, trouble=trouble, tell=tell)
        self._fingerprint = fingerprint
        self._direct = direct
        self._io = io
        self._folder = folder
        self._capacity = capacity
        self._scratch = threading.local()

    def load(self, digest: bytes, slot: int, generation: int) -> bool:
        """Fill row `slot` with the block's bytes; False leaves anything in the row."""
        if self._index.clearing:  # the file may still be there, but it has been forgotten
            return False
        label, row = self._label(digest), self._arena.row(slot)

        def read(fd: int) -> bool:
            check_shape(self._io, fd, label)
            read_block(self._io, fd, label, row, self._page())
            stamp = self._stamp()
            with suppress(OSError):  # not the owner: recency is a courtesy
                self._io.utime(fd, stamp)
                self._index.touch(digest, stamp)
            return True

        try:
            if not self._with_file(digest, read, direct=True):
                return False
        except OSError as error:
            self._failed("read", error)
            return False
        self._tell("loaded")
        return generation == self.generation

    def look(self) -> bool:
        """Answer some of the index's questions; True when there are more."""
        questions, more = self._index.take_questions(_LOOKS)
        for digest, token in questions:
            try:
                self._look(digest, token)
            except OSError as error:
                self._failed("read", error)
                self._index.unanswered(digest, token)
            except Exception as error:  # the other questions must still be answered
                self._trouble.failed("read", f"unexpected {type(error).__name__}")
                self._index.unanswered(digest, token)
        return more

    def _look(self, digest: bytes, token: int) -> None:
        """Is there a file whose header is this block's?"""
        label = self._label(digest)

        def read(fd: int) -> FoundBlock:
            found = check_shape(self._io, fd, label)
            read_header(self._io, fd, label, self._page())
            return FoundBlock(digest, self._space, found.st_size, found.st_mtime_ns)

        self._index.answer(digest, token, self._with_file(digest, read, tell=False))

    def verify(self, digest: bytes) -> bool:
        """Read all of a suspect file without a slot; True when it is good again."""
        label = self._label(digest)

        def read(fd: int) -> bool:
            check_shape(self._io, fd, label)
            verify_block(self._io, fd, label)
            return True

        try:
            good = self._with_file(digest, read)
        except OSError as error:
            self._failed("read", error)
            return False
        return bool(good) and self._index.cleared_of_suspicion(digest)

    def list_blocks(self) -> None:
        """Sweep what dead writers left and list what is there."""
        try:
            self._capacity.list_folder(self._space)
        except InterruptedError:
            pass
        except OSError as error:
            self._failed("list", error)
        else:
            self._trouble.worked("list")

    def clear(self) -> bool:
        """Remove every block of the namespace; False when that must be tried again."""
        try:
            self._capacity.clear(self._space)
        except OSError as error:
            self._failed("clear", error)
            return False
        self._trouble.worked("clear")
        return True

    def close(self, stopped: bool) -> None:
        """Give up the folder; a thread that is stuck in a call keeps its lock."""
        if stopped:
            self._folder.close()

    # --- parts ---

    def _keep(self, digest: bytes, row: memoryview, generation: int) -> bool:
        return self._already_there(digest) or self._write(digest, row, generation)

    def _write(self, digest: bytes, row: memoryview, generation: int) -> bool:
        label = self._label(digest)
        size = file_bytes(label.block_bytes)
        stamp = self._stamp()
        final = self._folder.path(self._space, digest)

        def attempt(direct: int) -> bool:
            fd, temporary = self._capacity.reserve(size, direct)
            try:
                try:
                    write_block(self._io, fd, label, row, self._page())
                    with suppress(PermissionError):
                        self._io.utime(fd, stamp)
                    written = self._io.fstat(fd)
                finally:
                    self._io.close(fd)
                if generation != self.generation:
                    self._capacity.release(temporary, size)
                    return False
                self._capacity.publish(temporary, final)
            except BaseException:
                self._capacity.release(temporary, size)
                raise
            if generation != self.generation:  # cleared just now: perhaps before the rename
                self._capacity.retire(final, (written.st_dev, written.st_ino))
                return False
            return True

        if not self._while_disk_is_full(lambda: self._direct_first(attempt)):
            return False
        self._index.landed(digest, size, stamp)
        self._tell("stored")
        return True

    def _while_disk_is_full(self, attempt: Callable[[], bool]) -> bool:
        """Try; on a disk that is full before the capacity is, again in place of older blocks."""
        left = _DISK_FULL_TRIES
        while True:
            left -= 1
            try:
                landed = attempt()
            except OSError as error:
                if error.errno not in FULL or not self._capacity.make_way(left > 0):
                    raise
                self._trouble.failed(
                    "grow", "the disk is full below capacity_bytes, so older blocks make room"
                )
            else:
                if self._capacity.disk.has_room:
                    self._trouble.worked("grow")
                return landed

    def _already_there(self, digest: bytes) -> bool:
        """Whether a good-looking file has the name: a key's bytes never change."""
        if self._index.suspected(digest):
            return False
        label = self._label(digest)
        path = self._folder.path(self._space, digest)
        try:
            fd = self._io.open(path, _READ)
        except OSError:
            return False
        try:
            size = check_shape(self._io, fd, label).st_size
            read_header(self._io, fd, label, self._page())
            stamp = self._stamp()
            if not self._capacity.use(path, fd, stamp):
                return False
        except (OSError, CorruptBlockError):
            return False  # the write will replace it
        finally:
            self._io.close(fd)
        self._index.landed(digest, size, stamp)
        self._tell("already_stored")
        return True

    def _with_file(
        self, digest: bytes, read: Callable[[int], _T], *, direct: bool = False, tell: bool = True
    ) -> _T | None:
        """What `read` makes of the block's open file; None when there is none, or a corrupt one.

        A file that is gone is no longer listed, and a corrupt one is removed. With `tell=False`
        the caller tells the index: being told withdraws what was asked, and nobody would hear an
        answer for as long as a corrupt file cannot be removed.

        Raises:
            OSError: anything else.
        """
        path, listed = self._folder.path(self._space, digest), self._index.entry(digest)

        def gone(found: os.stat_result, why: str) -> None:
            if tell:
                self._index.vanished(digest, listed)
            self._remove(path, found, why)

        def attempt(flag: int, *, again: bool = True) -> _T:
            fd = self._io.open(path, _READ | flag)
            try:
                seen = self._io.fstat(fd)
                return read(fd)
            except CorruptBlockError as corrupt:
                if _unwritten(seen) == _unwritten(self._io.stat(path)):
                    gone(seen, str(corrupt))
                    raise
                if not again:
                    raise FileNotFoundError from corrupt
            finally:
                self._io.close(fd)
            return attempt(flag, again=False)  # it was evicted meanwhile, and came back

        try:
            result = self._direct_first(attempt) if direct else attempt(0)
        except CorruptBlockError:
            return None
        except FileNotFoundError:
            if tell and self._index.vanished(digest, listed):
                self._tell("vanished")
                self._capacity.doubt()
            return None
        except OSError as error:
            if error.errno != errno.ELOOP:
                raise
            gone(self._io.stat(path), "a symbolic link")
            return None
        self._trouble.worked("read")
        return result

    def _remove(self, path: str, found: os.stat_result, why: str) -> None:
        self._tell("corrupt")
        self._trouble.failed("read", f"a file is corrupt ({why}) and was removed")
        try:
            self._capacity.retire(path, _unwritten(found))
        except OSError as error:
            self._failed("write", error)

    def _direct_first(self, attempt: Callable[[int], _T]) -> _T:
        """Try with O_DIRECT; a file system that refuses it for this file gets buffered I/O."""
        if self._direct:
            try:
                return attempt(os.O_DIRECT)
            except OSError as error:
                if error.errno != errno.EINVAL:
                    raise
        return attempt(0)

    def _label(self, digest: bytes) -> Label:
        return Label(digest, self._fingerprint, self._arena.block_bytes)

    def _page(self) -> memoryview:
        page: memoryview | None = getattr(self._scratch, "page", None)
        if page is None:
            page = self._scratch.page = page_buffer(HEADER_BYTES)
        return page


def _unwritten(found: os.stat_result) -> tuple[int, int, int]:
    """Which file it is, and when it was last changed: an evicted block's file serves the next, and
    the block may come back into the same one."""
    return found.st_dev, found.st_ino, found.st_mtime_ns
