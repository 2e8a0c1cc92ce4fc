"""Room in a folder: reserving it, evicting for it, and counting what comes and goes.

Without a capacity nothing is counted and no lock is taken. With one, every step that changes the
number of bytes in the folder happens under the folder's lock together with its counting, so that
several threads and processes keep one bound.

A block that has to go leaves its file to the one that comes, which is written over it: to delete a
file and to make another costs more than half of a disk's throughput (measured on ext4). Another
process that reads the file just then finds the old bytes, or bytes that fail its checks under a
name that is gone.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from .block_folder import BlockFolder
from .file_index import Entry, FileIndex
from .file_io import FileIO, full_forgiven
from .full_disk import FullDisk
from .heir import Heir, is_fit
from .mover import NoRoomError

_UPKEEP = 3
"""Blocks that go at most for a folder or a count: each leaves two pages and an inode at least."""
_COUNT_SECONDS = 1.0
_COUNT_SHARE = 0.05


class FileCapacity:
    """At most `limit` bytes of block files and temporaries in the folder; None for no bound.

    A disk that is full before that bounds the folder like a smaller capacity, for a minute at a
    time: what is there makes room for what comes.

    `stop` says that scans should give up; `evicted` is called for every block removed; `clock`
    gives seconds.
    """

    def __init__(
        self,
        folder: BlockFolder,
        index: FileIndex,
        io: FileIO,
        *,
        limit: int | None,
        stop: Callable[[], bool],
        evicted: Callable[[], None],
        clock: Callable[[], float],
    ) -> None:
        self._folder = folder
        self._index = index
        self._io = io
        self._limit = limit
        self._stop = stop
        self._evicted = evicted
        self._clock = clock
        self._doubtful = False
        self._began = clock()
        self._counting_took = 0.0
        self.disk = FullDisk(clock)
        self._cleared: list[str] = []
        """Folders of cleared namespaces that are still to be deleted."""

    def reserve(self, size: int, flags: int) -> tuple[int, str]:
        """A temporary for `size` bytes, open for writing, and its name.

        It is new, or has bytes of a block that made room: all of it must be written.

        Raises:
            NoRoomError: every block within the capacity is in use.
            OSError: as the system says.
        """
        temporary = self._folder.temporary(size)
        with self._counting():
            if self._limit is not None:
                inherited = self._make_room(Heir(temporary, size, flags))
                if inherited is not None:
                    return self._fit(inherited, temporary, size, flags), temporary
            fd = self._create(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | flags)
            try:
                self._count(size)
            except BaseException:
                with suppress(OSError):
                    self._io.close(fd)
                self._drop(temporary, size)
                raise
        return fd, temporary

    def _fit(self, fd: int, temporary: str, size: int, flags: int) -> int:
        """A victim's file, which nobody else can name any more; a new one if it is not fit."""
        try:
            try:
                found, named = self._io.fstat(fd), self._io.stat(temporary)
                same = (found.st_dev, found.st_ino) == (named.st_dev, named.st_ino)
            except BaseException:
                self._io.close(fd)
                raise
            if same and is_fit(found, size):
                return fd
            self._io.close(fd)  # somebody has made a link, say, since we looked
            self._io.unlink(temporary)
            return self._create(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | flags)
        except BaseException:
            self._drop(temporary, size)
            raise

    def _drop(self, temporary: str, size: int) -> None:
        """Remove a temporary when it is not sure what has been counted."""
        self._folder.discard(temporary, size)
        self._doubtful = True

    def use(self, path: str, fd: int, stamp: int) -> bool:
        """Make a block's file, open as `fd`, the most recent; False when it has made room.

        Raises:
            OSError: as the system says, also when nothing has that name.
        """
        with self._counting():
            if self._limit is not None:
                here, there = self._io.fstat(fd), self._io.stat(path)
                if (here.st_dev, here.st_ino) != (there.st_dev, there.st_ino):
                    return False
            with suppress(PermissionError):
                self._io.utime(fd, stamp)
        return True

    def publish(self, temporary: str, final: str) -> None:
        """Give a finished temporary its name.

        Raises:
            OSError: as the system says; the temporary is still there.
        """
        with self._counting():
            replaced = 0
            if self._limit is not None:
                with suppress(FileNotFoundError):
                    there = self._io.stat(final)
                    replaced = there.st_size if stat.S_ISREG(there.st_mode) else 0
            self._folder.publish(temporary, final)
            self.disk.landed()
            self._count(-replaced)

    def release(self, temporary: str, size: int) -> None:
        """Remove a temporary that will not be published."""
        try:
            with self._counting():  # who counts anew sees it, counted, or neither
                self._count(-self._folder.discard(temporary, size))
        except OSError:
            self._drop(temporary, size)

    def retire(self, path: str, identity: tuple[int, ...]) -> None:
        """Remove a bad file, if it is still the one seen (see `BlockFolder.retire`).

        Raises:
            OSError: as the system says.
        """
        with self._counting():
            self._count(-self._folder.retire(path, identity))

    def make_way(self, more_tries: bool) -> bool:
        """The disk refused bytes within the capacity: whether to try again, in place of a block.

        What is counted now bounds the folder for a while. Where evicting does not help, blocks
        stay (see `FullDisk`).
        """
        if self._limit is None or self.disk.helpless:
            return False
        if more_tries:
            with self._folder.locked(crowded=True):
                if self.disk.helpless:  # another thread has found out while this one waited
                    return False
                used = self._upkeep()
                if used is not None:
                    self.disk.refused(used, self._limit)
                    return True
        self.disk.failed()
        return False

    def _upkeep(self) -> int | None:
        """The count; None while the disk has no room for it or for a folder of our own.

        Blocks make room for these, but few: where evicting does not help, the others stay.
        """
        evicted = 0
        while True:
            with full_forgiven():
                self._folder.settle()
                if self._folder.usage() is None:
                    self._recount()
                return self._folder.usage()
            if evicted == _UPKEEP or not self._evict_oldest():
                return None
            evicted += 1

    def _evict_oldest(self) -> bool:
        counted_anew = False
        while True:
            if (victim := self._index.victim()) is not None:
                if self._evict(*victim, None):
                    return True
            elif counted_anew:
                return False
            else:
                counted_anew = True
                with full_forgiven():  # it is listed all the same
                    self._recount()

    def doubt(self) -> None:
        """A file was gone that should have been there: the count may be too high."""
        self._doubtful = True

    def list_folder(self, space: str) -> None:
        """Sweep, then bring the index up to date: with a capacity all of it, else one namespace.

        Raises:
            OSError: as the system says; the index is as it was.
        """
        if self._limit is not None:
            with self._folder.locked(crowded=True), full_forgiven():
                self._recount()
            return
        with self._folder.locked(crowded=True):
            self._folder.sweep()
        self._index.begin_listing()
        try:
            found = list(self._folder.scan(space, self._stop))
        except BaseException:
            self._index.abandon_listing()
            raise
        self._index.end_listing(found, complete=False)

    def clear(self, space: str) -> None:
        """Remove all blocks of a namespace; none is readable once this has begun to delete.

        Raises:
            OSError: as the system says; some blocks may be left.
        """
        with self._folder.locked(crowded=True):
            aside = self._folder.set_aside(space)
        if aside is not None:
            self._cleared.append(aside)
        while self._cleared:  # also what an earlier try could not delete
            self._folder.remove_tree(self._cleared[-1])
            self._cleared.pop()
        if self._limit is not None:
            if self._stop():
                return  # counted at the next start
            with self._folder.locked(crowded=True), full_forgiven():
                self._recount()

    @contextmanager
    def _counting(self) -> Iterator[None]:
        if self._limit is None:
            yield
        else:
            with self._folder.locked():
                yield

    def _count(self, change: int) -> None:
        if self._limit is not None and change:
            try:
                self._folder.count(change)
            except BaseException:
                self._doubtful = True
                raise

    def _create(self, temporary: str, flags: int) -> int:
        try:
            return self._io.open(temporary, flags)
        except FileNotFoundError:
            if self._limit is not None:
                raise
        with self._folder.locked():  # makes what somebody has removed
            pass
        return self._io.open(temporary, flags)

    def _make_room(self, heir: Heir) -> int | None:
        """Evict what must go; a descriptor when the file of the last of them is the heir's now."""
        counted_anew, limit = False, self._bound()
        while (used := self._folder.usage()) is None or used + heir.size > limit:
            if (self._must_count() or used is None) and not counted_anew:
                self._recount()
                counted_anew = True
            elif (victim := self._index.victim()) is not None:
                counted_on = used is not None and used <= limit
                self._evict(*victim, heir if counted_on else None)
                if heir.fd is not None:
                    return heir.fd
            elif not counted_anew:
                self._recount()
                counted_anew = True
            elif limit != self._limit:  # nothing of ours could make room: only trying can tell
                self.disk.forget()
                limit = self._bound()
            else:
                raise NoRoomError("every block within capacity_bytes is in use")
        return None

    def _bound(self) -> int:
        assert self._limit is not None
        return self.disk.bound(self._limit)

    def _must_count(self) -> bool:
        """Whether the count is in doubt, and counting has not taken too much of the time.

        Where several processes share a full folder, each finds that others have evicted what it
        wanted to evict. That is no reason to read a large folder for every block.
        """
        spent = self._counting_took
        return self._doubtful and spent <= _COUNT_SECONDS + _COUNT_SHARE * (
            self._clock() - self._began
        )

    def _evict(self, digest: bytes, entry: Entry, heir: Heir | None) -> bool:
        """Remove a block, or leave its file to an heir it is fit for; True when it has gone."""
        path = self._folder.path(entry.space, digest)
        try:
            found = self._io.stat(path)
            if found.st_mtime_ns > entry.stamp:  # another process has used it since
                self._index.spare(digest, entry, found.st_mtime_ns)
                return False
            inherited = heir is not None and is_fit(found, heir.size)
            if heir is not None and inherited:
                heir.take(self._io, path)
            else:
                self._io.unlink(path)
        except FileNotFoundError:
            self._doubtful = True
            return False
        except OSError:  # it is still there and takes room; the next one may be luckier
            self._index.spare(digest, entry, entry.stamp)
            raise
        if not inherited:
            self._count(-found.st_size)
        self._evicted()
        return True

    def _recount(self) -> None:
        """List what is there and count it; hold the folder's lock.

        Raises:
            OSError: as the system says; ENOSPC when all is listed, and no room for the count.
        """
        began = self._clock()
        self._index.begin_listing()
        try:
            self._folder.sweep()
            found = list(self._folder.scan(None, self._stop))
            used = sum(block.size for block in found) + self._folder.temporary_bytes()
            if self._stop():
                raise InterruptedError(errno.EINTR, "the tier is being shut down")
        except BaseException:
            self._index.abandon_listing()
            raise
        finally:
            self._counting_took += self._clock() - began
        self._index.end_listing(found, complete=True)
        self._doubtful = True
        self._folder.set_usage(used)
        self._doubtful = False
