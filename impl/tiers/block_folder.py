"""The folder that several writers share: names, temporaries, locks, and how many bytes are in it.

    ROOT/<fingerprint>/<2 hex>/<64 hex>.block    one file a block, 0600 in folders of 0700
    ROOT/.tierproof/usage                        bytes in use, under an flock: the folder's lock
    ROOT/.tierproof/writers/<pid>-<random>/      one writer's temporaries, and the lock it holds
        <number>[.<bytes>]                       a temporary, and what is reserved for it

A writer is alive exactly as long as it holds the flock on its folder's `lock`: the kernel lets go
when the process dies, however it dies, and pids that come again or count differently in another
container do not matter. Sweeping removes the folders whose lock can be had.

With a capacity every file is reserved before it is written: under the folder's lock, older blocks
make room, the temporary is created and its bytes are counted. Whoever counts anew meanwhile finds
them in its name: a file that is given its length before its bytes costs the file system more. So
files and temporaries of all processes together stay within the capacity at every instant. After a
writer was killed, or files were removed by hand, the count is too high until somebody finds no room
for it or starts, and counts anew. (Files that are put there by hand are counted at the next start.)
"""

from __future__ import annotations

import fcntl
import itertools
import os
import re
import secrets
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass

from .file_io import FULL, FileIO, full_forgiven
from .folder_lock import FolderLock

_BLOCK = re.compile(r"[0-9a-f]{64}\.block")
_SPACE = re.compile(r"[0-9a-f]{32}")
_FAN = re.compile(r"[0-9a-f]{2}")
_ANY = re.compile(r".+")
_STALE_SECONDS = 86_400.0
_UNBORN_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class FoundBlock:
    """A block's file as a scan sees it; `stamp` is its modification time in nanoseconds."""

    digest: bytes
    space: str
    size: int
    stamp: int


class BlockFolder:
    """One writer's hold on a shared folder.

    On a disk that has no room even for this writer's own folder, what is there can be read all the
    same: `settled` is then False, and every `locked` that needs the folder tries again.

    Raises:
        OSError: the folder cannot be made or written.
    """

    def __init__(self, root: str, io: FileIO) -> None:
        self.root = root
        self._io = io
        self._home = os.path.join(root, ".tierproof")
        self._writers = os.path.join(self._home, "writers")
        self._foreign = os.path.join(self._home, "foreign")
        self.own = os.path.join(self._writers, f"{os.getpid()}-{secrets.token_hex(8)}")
        self._own_lock: int | None = None
        self._counter = itertools.count()
        self._litter: dict[str, int] = {}
        self._lock = FolderLock(io, os.path.join(self._home, "usage"), self._make_home)
        try:
            with self.locked(crowded=True):
                pass
        except BaseException:
            self._lock.close()
            raise

    def _make_home(self) -> None:
        try:
            self._make(self.root)
        except FileNotFoundError:
            os.makedirs(os.path.dirname(self.root), exist_ok=True)
            self._make(self.root)
        self._make(self._home)
        self._make(self._writers)

    @contextmanager
    def locked(self, *, crowded: bool = False) -> Iterator[None]:
        """Hold the folder against other threads and processes; see `FolderLock.held`.

        With `crowded` also when a full disk has no room for a folder of our own.
        """
        with self._lock.held():
            with full_forgiven() if crowded else nullcontext():
                self.settle()
            yield

    @property
    def settled(self) -> bool:
        """Whether there is a folder of our own, for temporaries."""
        return self._own_lock is not None

    def settle(self) -> None:
        """Have a folder of our own, if need be where a dead writer's was; hold the lock.

        Raises:
            OSError: as the system says.
        """
        try:
            self._settle()
        except OSError as error:
            if error.errno not in FULL or not self.sweep():
                raise
            self._settle()

    def _settle(self) -> None:
        """Have that folder, and hold its lock before any sweeper can see it."""
        lock = self._lock_path(self.own)
        if self._own_lock is not None:
            try:
                self._io.stat(lock)
                return
            except FileNotFoundError:  # the whole folder was removed under us
                self._io.close(self._own_lock)
                self._own_lock = None
        self._make_home()
        self._make(self.own)
        self._own_lock = self._io.open(lock, os.O_RDWR | os.O_CREAT)
        with suppress(OSError):  # a file system without flock: sweepers go by age
            self._io.flock(self._own_lock, fcntl.LOCK_EX | fcntl.LOCK_NB)

    # --- names ---

    def path(self, space: str, digest: bytes) -> str:
        """Where a block's file is."""
        name = digest.hex()
        return f"{self.root}/{space}/{name[:2]}/{name}.block"

    def temporary(self, reserved: int = 0) -> str:
        """A name that no other writer, and no other call, is given, for so many bytes to come."""
        return f"{self.own}/{next(self._counter)}" + (f".{reserved}" if reserved else "")

    # --- files ---

    def publish(self, temporary: str, final: str) -> None:
        """Give a complete file its name; a file of that name is replaced at once and whole."""
        try:
            self._io.rename(temporary, final)
        except FileNotFoundError:
            fan = os.path.dirname(final)
            for folder in (self.root, os.path.dirname(fan), fan):
                self._make(folder)
            self._io.rename(temporary, final)
        except IsADirectoryError:
            self._clear_place(final)
            self._io.rename(temporary, final)

    def discard(self, temporary: str, counted: int) -> int:
        """Remove a temporary that counts as so many bytes, now or, if that fails, with a later one.

        Returns:
            The counted bytes of all that are gone now: of this one, and of earlier ones.
        """
        self._litter[temporary] = counted
        gone = 0
        for path in tuple(self._litter):
            held = self._litter.pop(path, None)
            if held is None:  # another thread is at it
                continue
            try:
                self._io.unlink(path)
            except FileNotFoundError:
                pass
            except OSError:
                self._litter[path] = held
                continue
            gone += held
        return gone

    def retire(self, path: str, identity: tuple[int, ...]) -> int:
        """Remove a bad file if it is still the one seen; returns the bytes that became free.

        `identity` is its (device, inode), and the time of its last change in nanoseconds if it must
        not have been written over since: the file of a block that goes serves the next one. It is
        moved aside first, so that a good one which another writer published in the meantime is
        found out and put back, not deleted.
        """
        aside = self.temporary()
        try:
            self._io.rename(path, aside)
        except FileNotFoundError:
            return 0
        found = self._io.stat(aside)
        if (found.st_dev, found.st_ino, found.st_mtime_ns)[: len(identity)] != identity:
            with suppress(FileExistsError):
                self._io.link(aside, path)
            return self.discard(aside, 0)
        if stat.S_ISDIR(found.st_mode):
            try:
                self._io.rmdir(aside)
            except OSError:  # not empty, so not ours to delete
                self._make(self._foreign)
                self._io.rename(
                    aside, f"{self._foreign}/{os.path.basename(self.own)}-{os.path.basename(aside)}"
                )
            return 0
        return self.discard(aside, found.st_size)

    def _clear_place(self, path: str) -> None:
        found = self._io.stat(path)
        self.retire(path, (found.st_dev, found.st_ino))

    def _make(self, folder: str) -> None:
        with suppress(FileExistsError):
            self._io.mkdir(folder)

    # --- the count of bytes; hold the lock for all of them ---

    def usage(self) -> int | None:
        """Bytes counted, or None when nobody has counted."""
        return self._lock.number()

    def count(self, change: int) -> None:
        """Count bytes that came or went."""
        if (used := self.usage()) is not None:
            self.set_usage(max(0, used + change))

    def set_usage(self, used: int) -> None:
        """Set the count."""
        self._lock.set_number(used)

    # --- scans and sweeps ---

    def scan(self, space: str | None, stop: Callable[[], bool]) -> Iterator[FoundBlock]:
        """The blocks of one namespace, or of all with None; whatever else lies there is ignored."""
        spaces = [space] if space else self._names(self.root, _SPACE)
        for space_name in spaces:
            for fan in self._names(f"{self.root}/{space_name}", _FAN):
                if stop():
                    return
                for name, found in self._files(f"{self.root}/{space_name}/{fan}", _BLOCK):
                    digest = bytes.fromhex(name[:64])
                    yield FoundBlock(digest, space_name, found.st_size, found.st_mtime_ns)

    def sweep(self) -> int:
        """Remove what dead writers left; returns the number of folders. Hold the lock."""
        swept = 0
        for name in self._names(self._writers, _ANY):
            folder = f"{self._writers}/{name}"
            with suppress(OSError):  # what cannot be swept is no reason not to work
                if folder != self.own and self._is_dead(folder):
                    self.remove_tree(folder)
                    swept += 1
        return swept

    def temporary_bytes(self) -> int:
        """Bytes of all writers' temporaries; hold the lock."""
        return sum(
            self._bytes(f"{self._writers}/{name}") for name in self._names(self._writers, _ANY)
        )

    def _bytes(self, folder: str) -> int:
        inner = sum(self._bytes(f"{folder}/{name}") for name in self._names(folder, _ANY))
        return inner + sum(
            max(found.st_size, _reserved(name)) for name, found in self._files(folder, _ANY)
        )

    def set_aside(self, space: str) -> str | None:
        """Take all blocks of a namespace away at once; the folder they are in now, if any."""
        # Beside our own folder, where there is no room for that, it counts as a dead writer's.
        aside = f"{self.own}{'/' if self.settled else '-'}cleared-{next(self._counter)}"
        try:
            self._io.rename(f"{self.root}/{space}", aside)
        except FileNotFoundError:
            return None
        return aside

    def remove_tree(self, folder: str) -> None:
        """Delete a folder of ours with all in it, also while somebody else does."""
        with suppress(FileNotFoundError):
            for entry in list(self._io.scandir(folder)):
                if entry.is_dir(follow_symlinks=False):
                    self.remove_tree(entry.path)
                else:
                    with suppress(FileNotFoundError):
                        self._io.unlink(entry.path)
            self._io.rmdir(folder)

    def _is_dead(self, folder: str) -> bool:
        try:
            fd = self._io.open(self._lock_path(folder), os.O_RDWR)
        except FileNotFoundError:  # killed between two calls, or about to make it
            return self._is_older(folder, _UNBORN_SECONDS)
        except OSError:
            return False
        try:
            self._io.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        except OSError:  # a file system without flock: only age can tell
            return self._is_older(folder, _STALE_SECONDS)
        finally:
            self._io.close(fd)
        return True

    def _is_older(self, folder: str, seconds: float) -> bool:
        return time.time() - self._io.stat(folder).st_mtime > seconds

    @staticmethod
    def _lock_path(folder: str) -> str:
        return f"{folder}/lock"

    def _names(self, folder: str, pattern: re.Pattern[str]) -> list[str]:
        try:
            return sorted(
                entry.name
                for entry in self._io.scandir(folder)
                if pattern.fullmatch(entry.name) and entry.is_dir(follow_symlinks=False)
            )
        except FileNotFoundError:
            return []

    def _files(self, folder: str, pattern: re.Pattern[str]) -> Iterator[tuple[str, os.stat_result]]:
        with suppress(FileNotFoundError):
            for entry in self._io.scandir(folder):
                if pattern.fullmatch(entry.name):
                    with suppress(FileNotFoundError):
                        found = entry.stat(follow_symlinks=False)
                        if stat.S_ISREG(found.st_mode):
                            yield entry.name, found

    def close(self) -> None:
        """Give up the hold: own temporaries are removed, locks let go."""
        with suppress(OSError):
            self.remove_tree(self.own)
        if self._own_lock is not None:
            self._io.close(self._own_lock)
        self._lock.close()


def _reserved(name: str) -> int:
    reserved = name.rpartition(".")[2] if "." in name else ""
    return int(reserved) if reserved.isdecimal() else 0
