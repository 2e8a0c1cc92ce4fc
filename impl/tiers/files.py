"""The file tier, layout *files*: one file a block, in a folder that processes may share."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from functools import partial

from ..arena import Arena
from ..errors import ConfigError
from ..keys import Namespace
from .base import claims_all_but
from .block_file import file_bytes
from .block_folder import BlockFolder
from .block_tier import BlockTier, Mover, at_least
from .file_capacity import FileCapacity
from .file_index import FileIndex
from .file_io import PAGE, THREADS, FileIO, probe_direct
from .file_mover import FileMover


class FileTier(BlockTier):
    """Keeps blocks as files below `root`; claims `T1` to `T11`.

    Nothing is synced to the platter: what was reported stored survives the death of the process,
    and after a power failure a block is either whole or a failed key.

    Args:
        root: Folder to keep blocks in; made when missing. Several processes and namespaces may
            share one.
        namespace: What changes the bytes or keeps users apart and is not in the keys. Tiers with
            different namespaces, or different sizes of blocks, never see each other's blocks.
        name: The tier's name within its manager.
        capacity_bytes: Bound on all block files below `root`, temporaries and other namespaces
            included (`file_bytes` says what a block takes); the least recently used make room.
            Processes that share a folder should agree on it. None: no bound.
        threads: Blocks that are moved at once.
        io_deadline: Seconds after which I/O that has not begun is cancelled and reported failed;
            None: never.
        queued_stores: Blocks that may wait to be stored; stores beyond are refused.
        direct: O_DIRECT: True insists, False declines, None uses it where it works and a block is
            a whole number of pages of 4096 bytes.
        shared: Whether other processes may add blocks. If so, a block that is not listed is looked
            for: the first lookup answers UNDECIDED, a later one the truth. If not, ABSENT at once.
        absent_seconds: How long, after it was first told, such an ABSENT is not looked for again.
        clock: Monotonic time in seconds.
        io: The system calls; tests pass their own.

    Raises:
        ConfigError: an argument is out of range, or the folder cannot be made or written.
    """

    claims = claims_all_but()

    def __init__(
        self,
        root: str | os.PathLike[str],
        *,
        namespace: str | bytes | Namespace = "",
        name: str = "files",
        capacity_bytes: int | None = None,
        threads: int = THREADS,
        io_deadline: float | None = 30.0,
        queued_stores: int = 256,
        direct: bool | None = None,
        shared: bool = True,
        absent_seconds: float = 1.0,
        clock: Callable[[], float] = time.monotonic,
        io: FileIO | None = None,
    ) -> None:
        at_least("absent_seconds", absent_seconds, 0)
        if capacity_bytes is not None:
            at_least("capacity_bytes", capacity_bytes, 1)
        super().__init__(
            name,
            namespace=namespace,
            threads=threads,
            io_deadline=io_deadline,
            queued_stores=queued_stores,
            clock=clock,
        )
        self._limit = capacity_bytes
        self._shared = shared
        self._absent_seconds = absent_seconds
        self._io = io or FileIO()
        try:
            self._folder = BlockFolder(os.path.abspath(os.fspath(root)), self._io)
            try:
                self._direct = direct is not False
                if self._folder.settled:  # else the disk is full, which says nothing of O_DIRECT
                    self._direct = probe_direct(self._io, self._folder.temporary(), direct)
            except BaseException:
                self._folder.close()
                raise
        except OSError as error:
            raise ConfigError(
                f"tier {name!r}: cannot write to folder {os.fspath(root)!r} ({error.strerror}); "
                "give the process the right to, or name another root"
            ) from error

    def _open(self, arena: Arena, mark: bytes) -> tuple[FileIndex, Mover]:
        size = file_bytes(arena.block_bytes)
        if self._limit is not None and self._limit < size:
            raise ConfigError(
                f"tier {self.name!r}: a capacity of {self._limit:,} bytes is less than the "
                f"{size:,} bytes that one block's file takes"
            )
        space = mark.hex()[:32]
        index = FileIndex(
            size=size,
            space=space,
            shared=self._shared,
            absent_seconds=self._absent_seconds,
            clock=self._clock,
        )
        capacity = FileCapacity(
            self._folder,
            index,
            self._io,
            limit=self._limit,
            stop=lambda: self._pool.stopping,
            evicted=partial(self._count, "evicted"),
            clock=self._clock,
        )
        mover = FileMover(
            arena=arena,
            space=space,
            fingerprint=mark,
            direct=self._direct and arena.block_bytes % PAGE == 0,
            io=self._io,
            folder=self._folder,
            index=index,
            capacity=capacity,
            trouble=self._trouble,
            tell=self._count,
        )
        return index, mover

    def shutdown(self) -> None:
        """Stop within about a second. A thread stuck in a call keeps the folder's lock."""
        if self._alive and not self._attached:
            self._folder.close()
        super().shutdown()

    @property
    def capacity_bytes(self) -> int | None:
        """Bound on `used_bytes` and on temporaries together; None: no bound."""
        return self._limit

    @property
    def direct(self) -> bool:
        """Whether O_DIRECT works in the folder."""
        return self._direct
