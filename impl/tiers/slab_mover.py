"""What the workers of the slab tier do with one block: store, load, look, verify."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress

from xxhash import xxh3_128, xxh3_128_digest

from ..arena import Arena
from .block_folder import FoundBlock
from .file_index import FileIndex
from .file_io import page_buffer
from .mover import BlockMover, NoRoomError
from .slab_file import Record, SlabFile
from .trouble import Trouble

_LOOKS = 256
_PIECE = 1 << 20
_CLOSE_SECONDS = 1.0


class SlabMover(BlockMover):
    """Moves blocks between arena rows and slots of a slab, and knows what is in which slot.

    `size` is what a block counts for. The lock guards the map of slots and the records on disk,
    which change together; it is never held while a block moves.
    """

    def __init__(
        self,
        *,
        arena: Arena,
        slab: SlabFile,
        space: str,
        size: int,
        index: FileIndex,
        trouble: Trouble,
        tell: Callable[[str], None],
    ) -> None:
        super().__init__(arena=arena, space=space, index=index, trouble=trouble, tell=tell)
        self._slab = slab
        self._size = size
        self._lock = threading.Lock()
        self._records: dict[bytes, Record] = {}
        self._writing: set[int] = set()
        self._touched: set[Record] = set()
        for record in slab.records():
            known = self._records.get(record.digest)
            if known is None or known.stamp < record.stamp:
                self._records[record.digest] = record
        # Slots are taken from the end of the list: low numbers first.
        taken = {record.slot for record in self._records.values()}
        self._free = [slot for slot in reversed(range(slab.slots)) if slot not in taken]

    def load(self, digest: bytes, slot: int, generation: int) -> bool:
        """Fill row `slot` with the block's bytes; False leaves anything in the row."""
        if self._index.clearing:  # the bytes may still be there, but they have been forgotten
            return False
        record, row = self._records.get(digest), self._arena.row(slot)
        if record is None:
            self._vanished(digest)
            return False
        try:
            if self._slab.read_block(record.slot, row) != record.checksum:
                self._corrupt(record)
                return False
        except OSError as error:
            self._failed("read", error)
            return False
        self._used(record)
        self._trouble.worked("read")
        self._tell("loaded")
        return generation == self.generation

    def look(self) -> bool:
        """Answer some of the index's questions; True when there are more."""
        questions, more = self._index.take_questions(_LOOKS)
        for digest, token in questions:
            try:
                self._index.answer(digest, token, self._look(digest))
            except OSError as error:
                self._failed("read", error)
                self._index.unanswered(digest, token)
        return more

    def _look(self, digest: bytes) -> FoundBlock | None:
        """Is it there, and does the disk still say so?"""
        record = self._records.get(digest)
        if record is None:
            return None
        if not self._slab.holds(record):
            self._corrupt(record)
            return None
        return self._found(record)

    def verify(self, digest: bytes) -> bool:
        """Read all of a suspect block without an arena row; True when it is good again."""
        record = self._records.get(digest)
        if record is None:
            return False
        state, piece, left = xxh3_128(), page_buffer(_PIECE), self._arena.block_bytes
        try:
            while left:
                part = piece[: min(left, _PIECE)]
                if not self._slab.read(record.slot, part, self._arena.block_bytes - left):
                    break
                state.update(part)
                left -= part.nbytes
        except OSError as error:
            self._failed("read", error)
            return False
        if left or state.digest() != record.checksum:
            self._corrupt(record)
            return False
        self._trouble.worked("read")
        return self._index.cleared_of_suspicion(digest)

    def list_blocks(self) -> None:
        """Tell the index what was in the slab when it was opened."""
        self._index.begin_listing()
        with self._lock:
            found = [self._found(record) for record in self._records.values()]
        self._index.end_listing(found, complete=True)

    def clear(self) -> bool:
        """Empty every slot; False when that must be tried again."""
        with self._lock:
            self._records.clear()
            self._touched.clear()
            taken = self._writing
            self._free = [slot for slot in reversed(range(self._slab.slots)) if slot not in taken]
            try:
                self._slab.erase_all()
            except OSError as error:
                self._failed("clear", error)
                return False
            # A store that ended while the clear began may have listed its block since.
            self._index.begin_listing()
            self._index.end_listing((), complete=True)
        self._trouble.worked("clear")
        return True

    def close(self, stopped: bool) -> None:
        """Give up the slab; a thread that is stuck in a call keeps it and its lock."""
        if not stopped:
            return
        ends = time.monotonic() + _CLOSE_SECONDS
        for record in self._touched:
            if self._records.get(record.digest) is record:
                with suppress(OSError):  # recency is a courtesy
                    self._slab.write_record(record)
            if time.monotonic() > ends:
                break
        self._slab.close()

    # --- parts ---

    def _keep(self, digest: bytes, row: memoryview, generation: int) -> bool:
        return self._already_there(digest) or self._write(digest, row, generation)

    def _write(self, digest: bytes, row: memoryview, generation: int) -> bool:
        place = self._take_slot()
        kept = False
        try:
            record = Record(place, digest, xxh3_128_digest(row), self._stamp())
            self._slab.write(place, row)
            with self._lock:
                if generation != self.generation:
                    return False
                self._slab.write_record(record)
                before = self._records.get(digest)
                self._records[digest] = record
                self._writing.discard(place)  # from here on a clear frees it
                kept = True
                self._index.landed(digest, self._size, record.stamp)
                if before is not None:
                    self._touched.discard(before)
                    self._free_slot(before.slot)
        finally:
            if not kept:
                with self._lock:
                    self._writing.discard(place)
                    self._free.append(place)
        self._tell("stored")
        return True

    def _take_slot(self) -> int:
        with self._lock:
            while not self._free:
                victim = self._index.victim()
                if victim is None:
                    raise NoRoomError("every slot is in use")
                record = self._records.pop(victim[0], None)
                if record is not None:
                    self._touched.discard(record)
                    self._tell("evicted")
                    self._free_slot(record.slot)
            slot = self._free.pop()
            self._writing.add(slot)
            return slot

    def _free_slot(self, slot: int) -> None:
        # A record that cannot be erased is found out by the payload's checksum, if ever.
        self._free.append(slot)
        with suppress(OSError):
            self._slab.erase_record(slot)

    def _already_there(self, digest: bytes) -> bool:
        """Whether the block is there and not suspected: a key's bytes never change."""
        record = self._records.get(digest)
        if record is None or self._index.suspected(digest) or not self._used(record):
            return False
        self._index.landed(digest, self._size, record.stamp)
        self._tell("already_stored")
        return True

    def _used(self, record: Record) -> bool:
        """Make a block the most recent one; False if it has gone.

        The disk hears of it at the end: a write to the index waits for all direct reads of the
        file, and one for each load cost a fifth of the throughput. After a kill, recency is that
        of the stores.
        """
        stamp = self._stamp()
        with self._lock:
            if self._records.get(record.digest) is not record:
                return False
            record.stamp = stamp
            self._touched.add(record)
        self._index.touch(record.digest, stamp)
        return True

    def _corrupt(self, record: Record) -> None:
        with self._lock:
            if self._records.get(record.digest) is not record:
                return  # replaced or evicted while it was read
            del self._records[record.digest]
            self._touched.discard(record)
            self._free_slot(record.slot)
            self._index.vanished(record.digest)  # before another store of it lands
        self._tell("corrupt")
        self._trouble.failed("read", "a block is corrupt and was removed")

    def _vanished(self, digest: bytes) -> None:
        with self._lock:
            if digest in self._records or not self._index.vanished(digest):
                return
        self._tell("vanished")

    def _found(self, record: Record) -> FoundBlock:
        return FoundBlock(record.digest, self._space, self._size, record.stamp)
