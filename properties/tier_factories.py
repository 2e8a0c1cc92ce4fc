"""The built-in tiers as the kit builds them: small, quick to notice, each within a root.

Every function is a factory in the kit's sense once its first arguments are bound, and can be sent
to another process.
"""

from __future__ import annotations

from pathlib import Path

from ..impl.tiers.block_file import file_bytes
from ..impl.tiers.file_io import FileIO
from ..impl.tiers.files import FileTier
from ..impl.tiers.memory import MemoryTier
from ..impl.tiers.object_store import ObjectStoreTier
from ..impl.tiers.redis import RedisTier
from ..impl.tiers.slab import SlabTier
from ..impl.tiers.slab_file import file_length

BLOCKS = 64
"""Capacity of the file tiers in blocks."""
SOON = 0.01
"""Seconds that an ABSENT of a shared tier is believed: checks should not wait for longer."""


def memory(*, block_bytes: int, root: Path, namespace: str, blocks: int = BLOCKS) -> MemoryTier:
    """The memory tier."""
    return MemoryTier(capacity_blocks=blocks)


def files(
    *,
    block_bytes: int,
    root: Path,
    namespace: str,
    blocks: int = BLOCKS,
    io: FileIO | None = None,
) -> FileTier:
    """The file tier, layout *files*."""
    capacity = blocks * file_bytes(block_bytes)
    return FileTier(
        root,
        namespace=namespace,
        capacity_bytes=capacity,
        threads=3,
        queued_stores=32,
        absent_seconds=SOON,
        io=io,
    )


def slab(
    *,
    block_bytes: int,
    root: Path,
    namespace: str,
    blocks: int = BLOCKS,
    io: FileIO | None = None,
) -> SlabTier:
    """The file tier, layout *slab*."""
    capacity = file_length(blocks, block_bytes)
    return SlabTier(
        root,
        namespace=namespace,
        capacity_bytes=capacity,
        threads=3,
        queued_stores=32,
        io=io,
    )


def redis(
    *, url: str, block_bytes: int, root: Path, namespace: str, timeout: float = 1.0
) -> RedisTier:
    """The Redis tier, in a namespace that the root belongs to: a server has no folders."""
    return RedisTier(
        url,
        namespace=f"{root}:{namespace}",
        timeout=timeout,
        queued_stores=32,
        absent_seconds=SOON,
        present_seconds=1.0,
    )


def s3(
    *,
    bucket: str,
    endpoint: str,
    access_key: str,
    secret_key: str,
    block_bytes: int,
    root: Path,
    namespace: str,
    timeout: float = 2.0,
) -> ObjectStoreTier:
    """The object-store tier, in a namespace that the root belongs to."""
    return ObjectStoreTier(
        bucket,
        endpoint=endpoint,
        access_key=access_key,
        secret_key=secret_key,
        namespace=f"{root}:{namespace}",
        timeout=timeout,
        threads=8,
        queued_stores=32,
        absent_seconds=SOON,
        present_seconds=1.0,
    )
