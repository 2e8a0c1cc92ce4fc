"""A slab on the bench: its rig, its files, and how to write where nobody should."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tierproof.impl.tiers.slab import SlabTier
from tierproof.impl.tiers.slab_file import (
    file_length,
)

from .support import Rig

KEYS = [b"k%d" % number for number in range(1, 6)]
SIZE = 4096


@contextmanager
def slab_rig(
    root: Path, *, blocks: int = 8, slots: int = 8, block_bytes: int = SIZE, **options: Any
) -> Iterator[Rig[SlabTier]]:
    """A slab tier with room for `blocks` blocks."""
    options.setdefault("capacity_bytes", file_length(blocks, block_bytes))
    rig = Rig(SlabTier(root, **options), slots=slots, block_bytes=block_bytes)
    try:
        yield rig
    finally:
        rig.close()


def slab_of(root: Path) -> Path:
    (path,) = root.glob("*.slab")
    return path


def index_of(root: Path) -> Path:
    (path,) = root.glob("*.slab.index")
    return path


def length_of(root: Path) -> int:
    return slab_of(root).stat().st_size + index_of(root).stat().st_size


def scribble(path: Path, offset: int, data: bytes) -> None:
    fd = os.open(path, os.O_RDWR)
    os.pwrite(fd, data, offset)
    os.fsync(fd)
    os.close(fd)
