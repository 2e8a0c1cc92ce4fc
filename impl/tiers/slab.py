"""The file tier, layout *slab*: a preallocated file of fixed slots, owned by one process."""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Callable
from contextlib import suppress

from ..arena import Arena
from ..errors import ConfigError
from ..keys import Namespace
from .base import claims_all_but
from .block_tier import BlockTier, Mover, at_least
from .file_index import FileIndex
from .file_io import PAGE, THREADS, FileIO, probe_direct
from .slab_file import SlabFile, file_length, slot_bytes, slot_count
from .slab_mover import SlabMover


class SlabTier(BlockTier):
    """Keeps blocks in the slots of one file below `root`; claims all but `T11` (one owner).

    Writing into a preallocated file skips most of what a file system does for a new one, so stores
    run near the disk's limit. Nothing is synced to the platter, as with layout *files*: what was
    reported stored survives the death of the process, and after a power failure a block is either
    whole or a failed key.

    Args:
        root: Folder for the slab; made when missing. Each namespace, and each size of blocks, has
            a slab of its own.
        capacity_bytes: Size of the slab, taken from the disk at once (where the file system can).
            When the least recently used must make room is decided by it. A slab of another size
            than at the last start is made anew, empty.
        namespace: What changes the bytes or keeps users apart and is not in the keys.
        name: The tier's name within its manager.
        threads: Blocks that are moved at once.
        io_deadline: Seconds after which I/O that has not begun is cancelled and reported failed;
            None: never.
        queued_stores: Blocks that may wait to be stored; stores beyond are refused.
        direct: O_DIRECT: True insists, False declines, None uses it where it works and a block is
            a whole number of pages of 4096 bytes.
        clock: Monotonic time in seconds.
        io: The system calls; tests pass their own.

    Raises:
        ConfigError: an argument is out of range, or the folder cannot be made or written; at
            `attach` also: another process owns the slab, the disk has no room for it, or it would
            not hold one block.
    """

    claims = claims_all_but("T11-shared")

    def __init__(
        self,
        root: str | os.PathLike[str],
        *,
        capacity_bytes: int,
        namespace: str | bytes | Namespace = "",
        name: str = "slab",
        threads: int = THREADS,
        io_deadline: float | None = 30.0,
        queued_stores: int = 256,
        direct: bool | None = None,
        clock: Callable[[], float] = time.monotonic,
        io: FileIO | None = None,
    ) -> None:
        at_least("capacity_bytes", capacity_bytes, 1)
        super().__init__(
            name,
            namespace=namespace,
            threads=threads,
            io_deadline=io_deadline,
            queued_stores=queued_stores,
            clock=clock,
        )
        self._capacity = capacity_bytes
        self._io = io or FileIO()
        self._root = os.path.abspath(os.fspath(root))
        try:
            with suppress(FileExistsError):
                os.makedirs(os.path.dirname(self._root), exist_ok=True)
                self._io.mkdir(self._root)
            probe = f"{self._root}/.probe-{os.getpid()}-{secrets.token_hex(4)}"
            self._direct = probe_direct(self._io, probe, direct)
        except OSError as error:
            raise self._unwritable(error) from error

    def _open(self, arena: Arena, mark: bytes) -> tuple[FileIndex, Mover]:
        size = slot_bytes(arena.block_bytes)
        slots = slot_count(self._capacity, arena.block_bytes)
        if slots < 1:
            raise ConfigError(
                f"tier {self.name!r}: a capacity of {self._capacity:,} bytes is less than the "
                f"{file_length(1, arena.block_bytes):,} bytes of a slab for one block"
            )
        space = mark.hex()[:32]
        index = FileIndex(
            size=size, space=space, shared=False, absent_seconds=0.0, clock=self._clock
        )
        try:
            slab = SlabFile(
                self._io,
                f"{self._root}/{space}.slab",
                fingerprint=mark,
                block_bytes=arena.block_bytes,
                slots=slots,
                direct=self._direct and arena.block_bytes % PAGE == 0,
            )
        except ConfigError as error:
            raise ConfigError(f"tier {self.name!r}: {error}") from error
        except OSError as error:
            raise self._unwritable(error) from error
        mover = SlabMover(
            arena=arena,
            slab=slab,
            space=space,
            size=size,
            index=index,
            trouble=self._trouble,
            tell=self._count,
        )
        return index, mover

    def _unwritable(self, error: OSError) -> ConfigError:
        return ConfigError(
            f"tier {self.name!r}: cannot write to folder {self._root!r} ({error.strerror}); "
            "give the process the right to, or name another root"
        )

    @property
    def capacity_bytes(self) -> int:
        """Size of the slab, index included."""
        return self._capacity

    @property
    def direct(self) -> bool:
        """Whether O_DIRECT works in the folder."""
        return self._direct
