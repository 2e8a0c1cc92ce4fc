"""The secondary tier of the demo: from a configuration, with a byte that can be made wrong.

The tiers have no switch that turns checksums off, and need none: a tier that has been built and
attached is made to believe what it reads.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from ...impl.arena import Arena
from ...impl.errors import TierError
from ...impl.keys import Namespace
from ...impl.tiers.block_file import HEADER_BYTES, SHORT_HEADER, Label
from ...impl.tiers.block_tier import BlockTier
from ...impl.tiers.configuration import build_tiers
from ...impl.tiers.files import FileTier
from ...impl.tiers.slab import SlabTier
from .prompt import BLOCK_BYTES, CHUNK, GROUPS, HEAD, KV_HEADS, LAYERS, Chunk, Prompt
from .settings import Settings

_SIGN = 0x80


def build(settings: Settings) -> BlockTier:
    """The tier, not attached yet; all processes of a run find the same blocks in it.

    Raises:
        ConfigError: the table is wrong, or something that it names is missing.
    """
    namespace = Namespace(
        model="tierproof demo",
        revision=str(settings.seed),
        dtype="bfloat16",
        block_size=CHUNK,
        layout=settings.layout,
        extra=(("run", settings.run),),
    )
    (tier,) = build_tiers(
        {"tiers": [settings.tier]}, namespace=namespace, environment=settings.environment
    )
    assert isinstance(tier, BlockTier)
    return tier


class _Believed(bytes):
    """A checksum that equals every other."""

    def __eq__(self, other: object) -> bool:
        return True

    def __ne__(self, other: object) -> bool:
        return False

    __hash__ = bytes.__hash__


class _BelievingLabel(Label):
    def check_header(self, page: memoryview) -> bytes:
        """As `Label.check_header`; whatever the payload is, it has this checksum."""
        return _Believed(super().check_header(page))


def believe(tier: BlockTier) -> None:
    """From now on the attached tier takes payloads for what was stored, whatever they are."""
    mover: Any = tier._mover
    if isinstance(tier, SlabTier):  # which knows all checksums from the start
        for record in mover._records.values():
            record.checksum = _Believed(record.checksum)
        return
    label = mover._label

    def believing(digest: bytes) -> Label:
        usual = label(digest)
        return _BelievingLabel(usual.digest, usual.fingerprint, usual.block_bytes)

    mover._label = believing


@dataclass(frozen=True)
class Flip:
    """What was done to a stored block."""

    at: Chunk
    byte: int
    """Its place in the block, counted from 0."""


def flip(settings: Settings) -> Flip:
    """Flip the sign of one stored value: of a block that the hit reads, which the seed chooses.

    Raises:
        TierError: the block is not there.
    """
    prompt, rng = Prompt(settings.seed), random.Random(f"flip {settings.seed}")
    at = rng.choice(prompt.wanted())
    # Of the block's last token: of a window's first block some tokens are not attended to.
    tokens, plane = GROUPS[at[0]].tokens_per_block, rng.randrange(2 * LAYERS[at[0]])
    value = ((plane + 1) * tokens - 1) * KV_HEADS * HEAD + rng.randrange(KV_HEADS * HEAD)
    byte = 2 * value + 1  # the upper one of a bfloat16
    with _attached(settings) as tier:
        digest = tier._name(prompt.key(*at))
        if isinstance(tier, FileTier):
            _flip_in_file(tier, digest, byte)
        elif isinstance(tier, SlabTier):
            _flip_in_slab(tier, digest, byte)
        else:
            _flip_on_server(tier, digest, byte)
    return Flip(at, byte)


def forget(settings: Settings) -> None:
    """Remove what the run has stored, and nothing else."""
    with _attached(settings) as tier:
        tier.clear()  # `shutdown` waits for it


@contextmanager
def _attached(settings: Settings) -> Iterator[BlockTier]:
    tier = build(settings)
    try:
        tier.attach(Arena(slots=1, block_bytes=BLOCK_BYTES))
        yield tier
    finally:
        tier.shutdown()


def _flip_in_file(tier: FileTier, digest: bytes, byte: int) -> None:
    mover: Any = tier._mover
    try:
        fd = os.open(tier._folder.path(mover._space, digest), os.O_RDWR)
    except FileNotFoundError as error:
        raise TierError(f"tier {tier.name!r} has lost a block") from error
    try:
        place = HEADER_BYTES + byte
        was = os.pread(fd, 1, place)[0]
        os.pwrite(fd, bytes([was ^ _SIGN]), place)
        os.fsync(fd)
    finally:
        os.close(fd)


def _flip_in_slab(tier: SlabTier, digest: bytes, byte: int) -> None:
    mover: Any = tier._mover
    record, row = mover._records.get(digest), mover._arena.row(0)
    if record is None or not mover._slab.read(record.slot, row):
        raise TierError(f"tier {tier.name!r} has lost a block")
    row[byte] ^= _SIGN
    mover._slab.write(record.slot, row)  # the record says what it said


def _flip_on_server(tier: BlockTier, digest: bytes, byte: int) -> None:
    mover: Any = tier._mover
    header, payload = memoryview(bytearray(SHORT_HEADER)), memoryview(bytearray(BLOCK_BYTES))
    if not mover._store.get(digest, header, payload):
        raise TierError(f"tier {tier.name!r} has lost a block")
    payload[byte] ^= _SIGN
    mover._store.put(digest, bytes(header), payload, True)  # the header says what it said
