"""What the workers of a tier behind a network do with one block, whatever the server speaks.

The server is a `RemoteStore`: it moves a header and a payload and knows nothing of claims. Headers,
checksums, the index and the telling of trouble are here, once for all of them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

from xxhash import xxh3_128_digest

from ..arena import Arena
from ..errors import CorruptBlockError
from .block_file import SHORT_HEADER, Label
from .block_folder import FoundBlock
from .file_index import FileIndex
from .mover import BlockMover, RemoteError
from .trouble import Trouble

_LOOKS = 64
_KNOWN = 1_000_000
"""Claims that are remembered; the least recent are forgotten, and asked for when needed."""


class RemoteStore(Protocol):
    """Blocks of one namespace on a server, each with a header of SHORT_HEADER bytes.

    Every method waits for the server, at most for a bounded time, and raises RemoteError when it
    does not do what it was asked. When a method returns or raises, nothing touches the payload.
    """

    def put(self, digest: bytes, header: bytes, payload: memoryview, replace: bool) -> bool:
        """Keep a block whole or not at all; False if, without `replace`, one is there already.

        Raises:
            NoRoomError: the server has no room.
        """

    def get(self, digest: bytes, header: memoryview, payload: memoryview) -> bool:
        """Fill both; False if there is no such block.

        Raises:
            CorruptBlockError: what is there is incomplete or too long.
        """

    def headers(self, digests: Sequence[bytes]) -> list[bytes | None]:
        """The headers of blocks; None for those that are not there, or not whole."""

    def remove(self, digest: bytes) -> None:
        """Remove a block, if it is there."""

    def remove_all(self) -> None:
        """Remove every block of the namespace."""

    def blocks(self) -> Iterator[tuple[bytes, int]]:
        """Digests and times of change in nanoseconds of all blocks of the namespace."""

    def close(self) -> None:
        """Let go of connections."""


class RemoteMover(BlockMover):
    """Moves blocks between arena rows and a server.

    Args:
        capacity_blocks: Blocks that the namespace should have at most, all processes together;
            best effort. None: no bound, and the server's blocks are never listed.
        max_age_seconds: Blocks older than this are removed, best effort.
    """

    def __init__(
        self,
        *,
        arena: Arena,
        store: RemoteStore,
        space: str,
        fingerprint: bytes,
        index: FileIndex,
        trouble: Trouble,
        tell: Callable[[str], None],
        capacity_blocks: int | None = None,
        max_age_seconds: float | None = None,
    ) -> None:
        super().__init__(arena=arena, space=space, index=index, trouble=trouble, tell=tell)
        self._store = store
        self._fingerprint = fingerprint
        self._capacity = capacity_blocks
        self._max_age = max_age_seconds
        self._size = SHORT_HEADER + arena.block_bytes

    def load(self, digest: bytes, slot: int, generation: int) -> bool:
        """Fill row `slot` with the block's bytes; False leaves anything in the row."""
        if self._index.clearing or not self._get(digest, self._arena.row(slot)):
            return False
        self._index.touch(digest, self._stamp())
        self._tell("loaded")
        return generation == self.generation

    def look(self) -> bool:
        """Answer some of the index's questions in one round trip; True when there are more."""
        questions, more = self._index.take_questions(_LOOKS)
        if not questions:
            return more
        try:
            headers = self._store.headers([digest for digest, _ in questions])
        except Exception as error:  # whatever it is, the questions must not stay open
            unexpected = RemoteError(f"unexpected {type(error).__name__}")
            self._failed("read", error if isinstance(error, RemoteError) else unexpected)
            for digest, token in questions:
                self._index.unanswered(digest, token)
            return more
        self._trouble.worked("read")
        for (digest, token), header in zip(questions, headers, strict=True):
            good = header is not None and self._is_good(digest, header, tell=False)
            found = FoundBlock(digest, self._space, self._size, self._stamp()) if good else None
            self._index.answer(digest, token, found)
        self._forget()
        return more

    def verify(self, digest: bytes) -> bool:
        """Get a suspect block without an arena row; True when it is good again."""
        scratch = memoryview(bytearray(self._arena.block_bytes))
        return self._get(digest, scratch) and self._index.cleared_of_suspicion(digest)

    def list_blocks(self) -> None:
        """Where there is a capacity: remove what is too much or too old, and list the rest."""
        if self._capacity is None and self._max_age is None:
            return
        self._index.begin_listing()
        try:
            found = sorted(self._store.blocks(), key=lambda block: block[1])
        except RemoteError as error:
            self._index.abandon_listing()
            self._failed("list", error)
            return
        too_many = 0 if self._capacity is None else max(0, len(found) - self._capacity)
        oldest = time.time_ns() - int((self._max_age or 1e9) * 1e9)
        kept: list[FoundBlock] = []
        gone: list[FoundBlock] = []
        for number, (digest, stamp) in enumerate(found):
            leave = number >= too_many and (self._max_age is None or stamp >= oldest)
            (kept if leave else gone).append(FoundBlock(digest, self._space, self._size, stamp))
        self._index.end_listing(kept, complete=False)
        self._trouble.worked("list")
        for block in gone:
            self._index.vanished(block.digest)
            if not self._evict(block.digest):
                return

    def clear(self) -> bool:
        """Remove every block of the namespace; False when that must be tried again."""
        try:
            self._store.remove_all()
        except RemoteError as error:
            self._failed("clear", error)
            return False
        self._trouble.worked("clear")
        return True

    def close(self, stopped: bool) -> None:
        """Close the connections; a call that hangs ends with its own time limit."""
        self._store.close()

    # --- parts ---

    def _keep(self, digest: bytes, row: memoryview, generation: int) -> bool:
        landed = self._put(digest, row, generation)
        if landed:
            self._make_room()
        return landed

    def _put(self, digest: bytes, row: memoryview, generation: int) -> bool:
        header = memoryview(bytearray(SHORT_HEADER))
        self._label(digest).header(row, header)
        replace = self._index.suspected(digest)
        new = self._store.put(digest, bytes(header), row, replace)
        if not new:  # somebody was first: a key's bytes never change, but is it good?
            there = self._store.headers([digest])[0]
            if there is None or not self._is_good(digest, there):
                new = self._store.put(digest, bytes(header), row, True)
        if generation != self.generation:  # cleared just now: perhaps before it was put
            self._store.remove(digest)
            return False
        self._index.landed(digest, self._size, self._stamp())
        self._tell("stored" if new else "already_stored")
        self._forget()
        return True

    def _get(self, digest: bytes, row: memoryview) -> bool:
        header = memoryview(bytearray(SHORT_HEADER))
        try:
            if not self._store.get(digest, header, row):
                if self._index.vanished(digest):
                    self._tell("vanished")
                return False
            if self._label(digest).check_header(header) != xxh3_128_digest(row):
                raise CorruptBlockError("the payload's checksum is wrong")
        except CorruptBlockError as corrupt:
            self._remove(digest, str(corrupt))
            return False
        except RemoteError as error:
            self._failed("read", error)
            return False
        self._trouble.worked("read")
        return True

    def _is_good(self, digest: bytes, header: bytes, *, tell: bool = True) -> bool:
        """Whether a header is the block's; else it is removed (`tell`: as for `_remove`)."""
        try:
            if len(header) != SHORT_HEADER:
                raise CorruptBlockError("a header of a wrong length")
            self._label(digest).check_header(memoryview(header))
        except CorruptBlockError as corrupt:
            self._remove(digest, str(corrupt), tell=tell)
            return False
        return True

    def _remove(self, digest: bytes, why: str, *, tell: bool = True) -> None:
        """Remove a corrupt block. With `tell` the index is told, which withdraws what was asked;
        who is about to answer tells it by that, or nobody would hear an answer for as long as the
        block cannot be removed."""
        if tell:
            self._index.vanished(digest)
        self._tell("corrupt")
        self._trouble.failed("read", f"a block is corrupt ({why}) and was removed")
        try:
            self._store.remove(digest)
        except RemoteError as error:
            self._failed("write", error)

    def _make_room(self) -> None:
        while self._capacity is not None and len(self._index) > self._capacity:
            victim = self._index.victim()
            if victim is None or not self._evict(victim[0]):
                return

    def _evict(self, digest: bytes) -> bool:
        try:
            self._store.remove(digest)
        except RemoteError as error:
            self._failed("write", error)
            return False
        self._tell("evicted")
        return True

    def _forget(self) -> None:
        while self._capacity is None and len(self._index) > _KNOWN and self._index.victim():
            pass

    def _label(self, digest: bytes) -> Label:
        return Label(digest, self._fingerprint, self._arena.block_bytes)
