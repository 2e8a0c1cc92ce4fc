"""A tier on a server that other processes use too, whatever the server speaks."""

from __future__ import annotations

from collections.abc import Callable

from ..arena import Arena
from ..keys import Namespace
from .block_file import SHORT_HEADER
from .block_tier import BlockTier, Mover, at_least
from .file_index import FileIndex
from .remote_mover import RemoteMover, RemoteStore


class RemoteTier(BlockTier):
    """The scheduler's side of it. A subclass reaches its server in `_connect`.

    Args:
        timeout: Seconds after which the server has not answered.
        absent_seconds: How long, after it was first told, an ABSENT is not asked for again.
        present_seconds: How long a PRESENT is believed before the server is asked again.
        capacity_blocks: As `RemoteMover` takes it.
        max_age_seconds: Likewise.

    The others are those of `BlockTier`.

    Raises:
        ConfigError: an argument is out of range.
    """

    def __init__(
        self,
        name: str,
        *,
        namespace: str | bytes | Namespace,
        threads: int,
        timeout: float,
        io_deadline: float | None,
        queued_stores: int,
        absent_seconds: float,
        present_seconds: float,
        clock: Callable[[], float],
        capacity_blocks: int | None = None,
        max_age_seconds: float | None = None,
    ) -> None:
        at_least("absent_seconds", absent_seconds, 0)
        at_least("present_seconds", present_seconds, 0)
        at_least("timeout", timeout, 0.001)
        if capacity_blocks is not None:
            at_least("capacity_blocks", capacity_blocks, 1)
        if max_age_seconds is not None:
            at_least("max_age_seconds", max_age_seconds, 0.001)
        super().__init__(
            name,
            namespace=namespace,
            threads=threads,
            io_deadline=io_deadline,
            queued_stores=queued_stores,
            clock=clock,
        )
        self._timeout = timeout
        self._absent_seconds = absent_seconds
        self._present_seconds = present_seconds
        self._capacity_blocks = capacity_blocks
        self._max_age = max_age_seconds

    def _connect(self, space: str, block_bytes: int) -> RemoteStore:
        """The server's part for one namespace, which `space` names, and one size of blocks."""
        raise NotImplementedError

    def _open(self, arena: Arena, mark: bytes) -> tuple[FileIndex, Mover]:
        space = mark.hex()[:32]
        index = FileIndex(
            size=SHORT_HEADER + arena.block_bytes,
            space=space,
            shared=True,
            absent_seconds=self._absent_seconds,
            present_seconds=self._present_seconds,
            clock=self._clock,
        )
        mover = RemoteMover(
            arena=arena,
            store=self._connect(space, arena.block_bytes),
            space=space,
            fingerprint=mark,
            index=index,
            trouble=self._trouble,
            tell=self._count,
            capacity_blocks=self._capacity_blocks,
            max_age_seconds=self._max_age,
        )
        return index, mover
