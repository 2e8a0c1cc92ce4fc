"""What is around a tier and can go wrong: the media that keep its bytes, and what it depends on.

A check never looks into a tier. It finds a block in the media by the block's own bytes, and damages
it there; it stops, breaks and mends what the tier depends on.
"""

from __future__ import annotations

import errno
import os
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from ..impl.tiers.base import Key
from ..impl.tiers.file_io import FileIO
from .servers import Server
from .tier_rig import payload

_MARK = 64
"""Bytes by which a block is found: its key's name and the beginning of its noise."""


_A_MOMENT = 0.05


class Media(Protocol):
    """Named pieces of data: files, values, objects."""

    def names(self) -> list[str]:
        """All that could hold blocks."""

    def read(self, name: str) -> bytes:
        """All of one; empty when it is gone."""

    def write(self, name: str, data: bytes) -> None:
        """Replace one in place."""

    def remove(self, name: str) -> None:
        """Delete one."""


class Outage(Protocol):
    """What a tier depends on, to be stopped and broken."""

    def stall(self) -> None:
        """From now on, I/O begins and does not end."""

    def release(self) -> None:
        """I/O ends again."""

    def fail(self) -> None:
        """From now on, I/O fails."""

    def mend(self) -> None:
        """I/O works again. Whether blocks from before are still there is not promised."""


@dataclass
class Surroundings:
    """The media and the outage of one tier; None where the kit has no hold on it."""

    media: Media | None = None
    outage: Outage | None = None
    stops: bool = True
    """Does it depend on anything that could stop? A tier in this process's memory does not."""


class Folder:
    """The files below a root as media."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def names(self) -> list[str]:
        """Every regular file with something in it."""
        found = []
        for folder, _, names in os.walk(self.root):
            for name in names:
                path = Path(folder, name)
                with suppress(OSError):
                    if path.is_file() and path.stat().st_size >= _MARK:
                        found.append(str(path))
        return found

    def read(self, name: str) -> bytes:
        """A file's bytes."""
        try:
            return Path(name).read_bytes()
        except OSError:
            return b""

    def write(self, name: str, data: bytes) -> None:
        """Write into the same file, whoever has it open."""
        fd = os.open(name, os.O_WRONLY)
        try:
            os.ftruncate(fd, len(data))
            os.pwrite(fd, data, 0)
            os.fsync(fd)
        finally:
            os.close(fd)

    def remove(self, name: str) -> None:
        """Delete a file."""
        with suppress(FileNotFoundError):
            os.unlink(name)


class RedisMedia:
    """All keys of a Redis server as media."""

    def __init__(self, url: str) -> None:
        from ..impl.tiers.redis_store import client_library

        library = client_library()
        make: Any = getattr(library, "Valkey", None) or library.Redis
        self._client = make.from_url(url)

    def names(self) -> list[str]:
        """Every key."""
        return [name.decode() for name in self._client.keys("*")]

    def read(self, name: str) -> bytes:
        """A key's value."""
        return bytes(self._client.get(name) or b"")

    def write(self, name: str, data: bytes) -> None:
        """Replace a value."""
        self._client.set(name, data)

    def remove(self, name: str) -> None:
        """Delete a key."""
        self._client.delete(name)


class BucketMedia:
    """All objects of a bucket as media."""

    def __init__(self, store: Any) -> None:
        import obstore

        self._obstore: Any = obstore
        self._store = store

    def names(self) -> list[str]:
        """Every object."""
        return [o["path"] for batch in self._obstore.list(self._store) for o in batch]

    def read(self, name: str) -> bytes:
        """An object's bytes."""
        try:
            return bytes(self._obstore.get(self._store, name).bytes())
        except FileNotFoundError:
            return b""

    def write(self, name: str, data: bytes) -> None:
        """Replace an object."""
        self._obstore.put(self._store, name, data)

    def remove(self, name: str) -> None:
        """Delete an object."""
        with suppress(FileNotFoundError):
            self._obstore.delete(self._store, name)


class ServerOutage:
    """A server that hangs, or is gone and comes back."""

    def __init__(self, server: Server) -> None:
        self._server = server

    def stall(self) -> None:
        """The server keeps its connections and answers nothing."""
        self._server.pause()

    def release(self) -> None:
        """It answers again."""
        self._server.resume()

    def fail(self) -> None:
        """`kill -9`."""
        self._server.kill()

    def mend(self) -> None:
        """Start it again on the same port."""
        self._server.start()


class DiskOutage(FileIO):
    """File I/O through a disk that can stop answering, or answer with errors."""

    def __init__(self) -> None:
        self._open = threading.Event()
        self._open.set()
        self._failing = False

    def stall(self) -> None:
        """Reads and writes do not end."""
        self._open.clear()

    def release(self) -> None:
        """They end."""
        self._open.set()

    def fail(self) -> None:
        """Reads, writes and opens fail with EIO."""
        self._failing = True

    def mend(self) -> None:
        """They work again."""
        self._failing = False

    def _answer(self) -> None:
        self._open.wait(60)
        if self._failing:
            raise OSError(errno.EIO, os.strerror(errno.EIO))

    def open(self, path: str, flags: int) -> int:
        """As `FileIO.open`, through the disk."""
        if self._failing:
            self._answer()
        return super().open(path, flags)

    def preadv(self, fd: int, buffers: Any, offset: int) -> int:
        """As `FileIO.preadv`, through the disk."""
        self._answer()
        return super().preadv(fd, buffers, offset)

    def pwritev(self, fd: int, buffers: Any, offset: int) -> int:
        """As `FileIO.pwritev`, through the disk."""
        self._answer()
        return super().pwritev(fd, buffers, offset)


class Pipes:
    """Stored blocks whose files are pipes for a while: who reads one waits until it is released.

    What stops a tier of which the kit knows nothing but the files below its root. A tier that holds
    its files open, or looks at them before it reads, is not stopped.
    """

    def __init__(self) -> None:
        self._kept: dict[str, bytes] = {}
        self.waited = 0
        """How many of the pipes had a reader when they were released."""

    def put(self, media: Media, keys: Sequence[Key], block_bytes: int) -> int:
        """Exchange the files of blocks; how many could be."""
        if isinstance(media, Folder):
            for key in keys:
                place = find(media, key, block_bytes)
                if place is not None and place.alone:
                    self._kept[place.name] = media.read(place.name)
                    os.unlink(place.name)
                    os.mkfifo(place.name)
        return len(self._kept)

    def release(self) -> None:
        """Whoever waits reads an empty file; then the files are as they were."""
        ends = []
        for name in self._kept:
            try:
                os.close(os.open(name, os.O_WRONLY | os.O_NONBLOCK))
                self.waited += 1
            except OSError:  # nobody reads it, or the tier has taken it away
                pass
            with suppress(OSError):
                ends.append(os.open(name, os.O_RDWR | os.O_NONBLOCK))
        time.sleep(_A_MOMENT)  # for whoever is about to open one
        for end in ends:
            os.close(end)
        for name, data in self._kept.items():
            with suppress(OSError):
                os.unlink(name)
                Path(name).write_bytes(data)
        self._kept.clear()


@dataclass(frozen=True)
class Place:
    """Where a block's payload is in the media."""

    name: str
    start: int
    alone: bool
    """Nothing else is in that piece but the block and at most as much again."""


def find(media: Media, key: Key, block_bytes: int) -> Place | None:
    """Where the payload of a key is; None when it is nowhere in the clear."""
    mark = payload(key, block_bytes)[:_MARK]
    for name in media.names():
        data = media.read(name)
        start = data.find(mark)
        if start >= 0:
            return Place(name, start, len(data) < 2 * block_bytes)
    return None


DAMAGES = ("flipped", "zeroed", "foreign", "torn", "truncated", "longer", "empty", "gone")


def damage(media: Media, how: str, key: Key, other: Key, block_bytes: int) -> bool:
    """Damage a key's block in the media; False when that cannot be done here."""
    place = find(media, key, block_bytes)
    if place is None or (how in ("truncated", "longer", "empty", "gone") and not place.alone):
        return False
    data = bytearray(media.read(place.name))
    end = place.start + block_bytes
    foreign = payload(other, block_bytes)
    if how == "flipped":
        data[end - 1] ^= 1
    elif how == "zeroed":
        data[place.start : end] = bytes(block_bytes)
    elif how == "foreign":
        data[place.start : end] = foreign
    elif how == "torn":
        data[place.start : place.start + block_bytes // 2] = foreign[: block_bytes // 2]
    elif how == "truncated":
        del data[-block_bytes // 2 :]
    elif how == "longer":
        data += b"x"
    elif how == "empty":
        data.clear()
    if how == "gone":
        media.remove(place.name)
    else:
        media.write(place.name, bytes(data))
    return True
