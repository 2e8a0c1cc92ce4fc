"""The files of layout *slab*: the slots, and beside them the index of what is in which.

    <name>.slab             the slots, each a block rounded up to whole pages
    <name>.slab.index
        0                   superblock: which namespace, size of blocks, number of slots
        4096                one record of 128 bytes for each slot

The index is a file of its own because a small write waits for every direct transfer that runs in
the same file: in one file, records cost an eighth of the throughput of stores.

    record: version 4, zero 4, length 8, stamp 8, digest 32, xxh3-128 of the payload 16, zero 40,
            xxh3-128 of the namespace's fingerprint, the number of the slot and bytes 0..111

A slot's record is erased before the slot is written and set when its bytes are complete, so a
writer that is killed leaves a free slot. A record that was torn, or belongs to another slot or
namespace, fails its checksum and is a free slot too. After a power failure, when the system may
have written the two in any order, the payload's checksum tells.
"""

from __future__ import annotations

import errno
import fcntl
import os
import struct
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass

from xxhash import xxh3_128, xxh3_128_digest

from ..errors import ConfigError
from .file_io import FULL, PAGE, FileIO, page_buffer, pieces, read_exactly, write_exactly

MAGIC = b"TPSLAB\0\0"
VERSION = 1
RECORD_BYTES = 128
_SUPER = struct.Struct("<8sIIQQ32s")
_FIELDS = struct.Struct("<IIQQ32s16s40x")
_PIECE = 1 << 20


@dataclass(slots=True, eq=False)
class Record:
    """What is in a slot; `stamp` is its recency in nanoseconds."""

    slot: int
    digest: bytes
    checksum: bytes
    stamp: int


def slot_bytes(block_bytes: int) -> int:
    """Bytes that a slot takes in the file, without its record."""
    return -(-block_bytes // PAGE) * PAGE


def slot_count(capacity_bytes: int, block_bytes: int) -> int:
    """How many slots there are in a slab and its index of at most `capacity_bytes` together."""
    slots = max(0, (capacity_bytes - PAGE) // (slot_bytes(block_bytes) + RECORD_BYTES))
    while slots and file_length(slots, block_bytes) > capacity_bytes:
        slots -= 1
    return slots


def file_length(slots: int, block_bytes: int) -> int:
    """Bytes of a slab with that many slots, its index included."""
    return _index_length(slots) + slots * slot_bytes(block_bytes)


def _index_length(slots: int) -> int:
    return PAGE - (-slots * RECORD_BYTES // PAGE) * PAGE


class SlabFile:
    """An open, locked slab of one namespace; its I/O and nothing else.

    Raises:
        ConfigError: another process owns it, or the disk has no room for it.
        OSError: as the system says.
    """

    def __init__(
        self,
        io: FileIO,
        path: str,
        *,
        fingerprint: bytes,
        block_bytes: int,
        slots: int,
        direct: bool,
    ) -> None:
        self.slots = slots
        self.anew = False
        """Whether the file was made, or made anew because its number of slots has changed."""
        self._io = io
        self._fingerprint = fingerprint
        self._block_bytes = block_bytes
        self._stride = slot_bytes(block_bytes)
        self._index_length = _index_length(slots)
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW
        self._fd = io.open(f"{path}.index", flags)
        self._slots_fd: int | None = None
        try:
            self._own()
            self._slots_fd = io.open(path, flags)
            if not self._is_ours():
                self._format()
            if direct:
                with suppress(OSError):  # it worked for the probe's file; if not here, buffered
                    buffered, self._slots_fd = self._slots_fd, io.open(path, flags | os.O_DIRECT)
                    io.close(buffered)
        except BaseException:
            self.close()
            raise

    def records(self) -> Iterator[Record]:
        """Every good record, as it was read at this moment."""
        piece = page_buffer(min(_PIECE, max(PAGE, self._index_length - PAGE)))
        for start in range(0, self.slots * RECORD_BYTES, piece.nbytes):
            part = piece[: min(piece.nbytes, self.slots * RECORD_BYTES - start)]
            if not read_exactly(self._io, self._fd, [part], PAGE + start):
                return
            for offset in range(0, part.nbytes, RECORD_BYTES):
                raw = bytes(part[offset : offset + RECORD_BYTES])
                record = self._parsed((start + offset) // RECORD_BYTES, raw)
                if record is not None:
                    yield record

    def holds(self, record: Record) -> bool:
        """Whether the record of that slot on disk is for that block.

        Raises:
            OSError: as the system says.
        """
        raw = memoryview(bytearray(RECORD_BYTES))
        if not read_exactly(self._io, self._fd, [raw], self._record_at(record.slot)):
            return False
        found = self._parsed(record.slot, bytes(raw))
        return found is not None and found.digest == record.digest

    def write_record(self, record: Record) -> None:
        """Say what is in a slot.

        Raises:
            OSError: as the system says.
        """
        body = _FIELDS.pack(
            VERSION, 0, self._block_bytes, record.stamp, record.digest, record.checksum
        )
        raw = body + self._seal(record.slot, body)
        write_exactly(self._io, self._fd, [memoryview(raw)], self._record_at(record.slot))

    def erase_record(self, slot: int) -> None:
        """Say that nothing is in a slot.

        Raises:
            OSError: as the system says.
        """
        nothing = memoryview(bytes(RECORD_BYTES))
        write_exactly(self._io, self._fd, [nothing], self._record_at(slot))

    def erase_all(self) -> None:
        """Say that nothing is in any slot.

        Raises:
            OSError: as the system says; some slots may still have their records.
        """
        piece = memoryview(bytes(_PIECE))
        for start in range(PAGE, self._index_length, _PIECE):
            write_exactly(self._io, self._fd, [piece[: self._index_length - start]], start)

    def read(self, slot: int, part: memoryview, offset: int = 0) -> bool:
        """Fill `part` from a slot; False when the file is too short.

        Raises:
            OSError: as the system says.
        """
        return read_exactly(self._io, self._slots, [part], self._slot_at(slot) + offset)

    def read_block(self, slot: int, row: memoryview) -> bytes | None:
        """Fill `row` with the block in a slot; its xxh3-128, None when the file is too short.

        Raises:
            OSError: as the system says.
        """
        state, offset = xxh3_128(), 0
        for piece in pieces(row):
            if not self.read(slot, piece, offset):
                return None
            state.update(piece)
            offset += piece.nbytes
        return state.digest()

    def write(self, slot: int, payload: memoryview) -> None:
        """Write a block into a slot.

        Raises:
            OSError: as the system says.
        """
        offset = self._slot_at(slot)
        for piece in pieces(payload):
            write_exactly(self._io, self._slots, [piece], offset)
            offset += piece.nbytes

    def close(self) -> None:
        """Let go of the file and its lock."""
        if self._slots_fd is not None:
            self._io.close(self._slots_fd)
        self._io.close(self._fd)

    # --- parts ---

    def _own(self) -> None:
        try:
            self._io.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ConfigError(
                "another tier owns this slab; give each process a root of its own, or share one "
                "with layout 'files'"
            ) from None
        except OSError as error:
            raise ConfigError(
                f"the file system cannot lock files ({error.strerror}), and a slab needs one "
                "owner; use layout 'files'"
            ) from error

    @property
    def _slots(self) -> int:
        assert self._slots_fd is not None, "the slab has not been opened"
        return self._slots_fd

    def _is_ours(self) -> bool:
        page = memoryview(bytearray(PAGE))
        if self._io.fstat(self._slots).st_size != self.slots * self._stride:
            return False
        if self._io.fstat(self._fd).st_size != self._index_length:
            return False
        return read_exactly(self._io, self._fd, [page], 0) and page == self._superblock()

    def _format(self) -> None:
        # The superblock comes last: a slab that was half made is made again.
        self.anew = True
        parts = (
            (self._fd, self._index_length),
            (self._slots, self.slots * self._stride),
        )
        for fd, _ in parts:
            self._io.ftruncate(fd, 0)
        try:
            for fd, length in parts:
                self._allocate(fd, length)
        except OSError as error:
            for fd, _ in parts:  # what was had already is of no use, and others want it
                self._io.ftruncate(fd, 0)
            if error.errno not in FULL:
                raise
            total = sum(length for _, length in parts)
            raise ConfigError(
                f"the disk has no room for a slab of {total:,} bytes; lower its capacity or free "
                "some"
            ) from error
        write_exactly(self._io, self._fd, [memoryview(self._superblock())])

    def _allocate(self, fd: int, length: int) -> None:
        try:
            self._io.fallocate(fd, length)
        except OSError as error:
            if error.errno not in (errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS):
                raise
            self._io.ftruncate(fd, length)  # sparse: room is found when it is needed

    def _superblock(self) -> bytes:
        body = _SUPER.pack(
            MAGIC, VERSION, RECORD_BYTES, self._block_bytes, self.slots, self._fingerprint
        ).ljust(PAGE - 16, b"\0")
        return body + xxh3_128_digest(body)

    def _parsed(self, slot: int, raw: bytes) -> Record | None:
        body, seal = raw[:-16], raw[-16:]
        if seal != self._seal(slot, body):
            return None
        version, _, length, stamp, digest, checksum = _FIELDS.unpack(body)
        if (version, length) != (VERSION, self._block_bytes):
            return None
        return Record(slot, digest, checksum, stamp)

    def _seal(self, slot: int, body: bytes) -> bytes:
        return xxh3_128_digest(self._fingerprint + slot.to_bytes(8, "little") + body)

    def _record_at(self, slot: int) -> int:
        return PAGE + slot * RECORD_BYTES

    def _slot_at(self, slot: int) -> int:
        return slot * self._stride
