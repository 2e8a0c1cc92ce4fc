"""One block as one file: a header page, then the payload; every byte of it is checked.

    offset  size  field
    0       8     magic
    8       4     version of the format
    12      4     zero
    16      8     length of the payload in bytes
    24      32    digest of the key
    56      32    fingerprint of the namespace
    88      16    xxh3-128 of the payload
    104     3976  zero
    4080    16    xxh3-128 of bytes 0..4079

The header fills a page, so that with O_DIRECT one call moves it and the payload's first piece
between file and arena without a copy. The payload's checksum catches what a disk, a crash or a
stray writer did; the digests catch a good file in the wrong place.
"""

from __future__ import annotations

import os
import stat
import struct
from dataclasses import dataclass

from xxhash import xxh3_128, xxh3_128_digest

from ..errors import CorruptBlockError
from .file_io import PAGE, FileIO, page_buffer, pieces, read_exactly, write_exactly

MAGIC = b"TPBLOCK\0"
VERSION = 1
HEADER_BYTES = PAGE
SHORT_HEADER = 128
"""Bytes of a header that needs no alignment: the same fields, then zeros, then its checksum."""
_FIELDS = struct.Struct("<8sIIQ32s32s16s")
_PIECE = 1 << 20


def file_bytes(block_bytes: int) -> int:
    """Size of the file that holds a block of `block_bytes` bytes; what capacities count."""
    return HEADER_BYTES + block_bytes


@dataclass(frozen=True, slots=True)
class Label:
    """What a block's header must say: of a page for files, of `SHORT_HEADER` bytes elsewhere."""

    digest: bytes
    fingerprint: bytes
    block_bytes: int

    def header(self, payload: memoryview, page: memoryview) -> None:
        """Fill `page` with the header for `payload`."""
        page[:] = bytes(page.nbytes)
        checksum = xxh3_128_digest(payload)
        _FIELDS.pack_into(
            page, 0, MAGIC, VERSION, 0, self.block_bytes, self.digest, self.fingerprint, checksum
        )
        page[-16:] = xxh3_128_digest(page[:-16])

    def check_header(self, page: memoryview) -> bytes:
        """The payload's checksum, if `page` is this block's header.

        Raises:
            CorruptBlockError: it is not.
        """
        magic, version, zero, length, digest, space, checksum = _FIELDS.unpack_from(page)
        if magic != MAGIC:
            raise CorruptBlockError("no block: the magic number is wrong")
        if xxh3_128_digest(page[:-16]) != page[-16:]:
            raise CorruptBlockError("the header's checksum is wrong")
        if version != VERSION or zero != 0:
            raise CorruptBlockError(f"a block of format {version}, not {VERSION}")
        if (digest, space, length) != (self.digest, self.fingerprint, self.block_bytes):
            raise CorruptBlockError("a good block, but another one")
        assert isinstance(checksum, bytes)
        return checksum


def write_block(io: FileIO, fd: int, label: Label, payload: memoryview, page: memoryview) -> None:
    """Write header and payload to a new file.

    Raises:
        OSError: as the system says; the file is then incomplete.
    """
    label.header(payload, page)
    first, *others = pieces(payload)
    write_exactly(io, fd, [page, first])
    offset = HEADER_BYTES + first.nbytes
    for piece in others:
        write_exactly(io, fd, [piece], offset)
        offset += piece.nbytes


def check_shape(io: FileIO, fd: int, label: Label) -> os.stat_result:
    """What the open file is.

    Raises:
        CorruptBlockError: it is no regular file of the right length.
    """
    found = io.fstat(fd)
    if not stat.S_ISREG(found.st_mode):
        raise CorruptBlockError("no regular file")
    if found.st_size != file_bytes(label.block_bytes):
        raise CorruptBlockError(
            f"{found.st_size} bytes long instead of {file_bytes(label.block_bytes)}"
        )
    return found


def read_block(io: FileIO, fd: int, label: Label, payload: memoryview, page: memoryview) -> None:
    """Read the payload into `payload`; `page` is scratch.

    Raises:
        CorruptBlockError: the bytes are not what was stored; `payload` then holds anything.
        OSError: as the system says.
    """
    first, *others = pieces(payload)
    if not read_exactly(io, fd, [page, first]):
        raise CorruptBlockError("the file ends too early")
    checksum = label.check_header(page)
    state = xxh3_128(first)
    offset = HEADER_BYTES + first.nbytes
    for piece in others:
        if not read_exactly(io, fd, [piece], offset):
            raise CorruptBlockError("the file ends too early")
        state.update(piece)
        offset += piece.nbytes
    if state.digest() != checksum:
        raise CorruptBlockError("the payload's checksum is wrong")


def read_header(io: FileIO, fd: int, label: Label, page: memoryview) -> bytes:
    """The payload's checksum from the header; `page` is scratch.

    Raises:
        CorruptBlockError: the header is not this block's.
        OSError: as the system says.
    """
    if not read_exactly(io, fd, [page]):
        raise CorruptBlockError("the file ends too early")
    return label.check_header(page)


def verify_block(io: FileIO, fd: int, label: Label) -> None:
    """Read and check everything without an arena row, a piece at a time.

    Raises:
        CorruptBlockError: the bytes are not what was stored.
        OSError: as the system says.
    """
    piece = page_buffer(_PIECE)
    checksum = read_header(io, fd, label, piece[:HEADER_BYTES])
    state = xxh3_128()
    done = 0
    while done < label.block_bytes:
        part = piece[: min(_PIECE, label.block_bytes - done)]
        if not read_exactly(io, fd, [part], HEADER_BYTES + done):
            raise CorruptBlockError("the file ends too early")
        state.update(part)
        done += part.nbytes
    if state.digest() != checksum:
        raise CorruptBlockError("the payload's checksum is wrong")
