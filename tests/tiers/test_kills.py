"""`kill -9` of writing processes, both file layouts, with a restart that verifies: `T3`, `T10`."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

from tierproof.impl.tiers.file_io import PIECE
from tierproof.properties import tier_factories
from tierproof.properties.tier_rig import TierRig
from tierproof.properties.tier_writer import KEYS, Writer, key_of

SIZE = 16384


def kill_and_verify(root: Path, layout: str, kills: int) -> None:
    """Kill a writer again and again in one folder; every restart finds whole blocks only.

    With room for all keys, what was reported stored must be found; with less, whole or absent.
    """
    rng = random.Random(layout)
    for blocks in (KEYS + 8, KEYS // 2):
        factory = partial(getattr(tier_factories, layout), blocks=blocks)
        folder = root / str(blocks)
        stored: set[int] = set()
        for seed in range(kills // 2):
            with Writer(
                factory, block_bytes=SIZE, root=folder, namespace="kills", seed=seed
            ) as writer:
                enough = rng.randrange(1, 12)
                writer.listen(until=enough)
                writer.kill()
                assert len(set(writer.landed)) >= enough, writer.said
                stored.update(writer.landed)
                assert writer.said is None, writer.said
            rig = TierRig(
                factory(block_bytes=SIZE, root=folder, namespace="kills"),
                slots=KEYS,
                block_bytes=SIZE,
            )
            keys = [key_of(number) for number in range(KEYS)]
            claimed = rig.present(keys)
            landed = rig.load(*keys)  # compares every byte
            assert landed == claimed, "a claimed block could not be loaded"
            assert rig.tier.counters["corrupt"] == 0, "a torn block was claimed"  # type: ignore[attr-defined]
            if blocks > KEYS:
                assert landed >= {key_of(number) for number in stored}, "a reported block is lost"
            else:
                assert len(landed) <= blocks
            if rng.random() < 0.1:  # now and then the survivor writes, too
                assert rig.store(key_of(0)) == {key_of(0)}
                stored.add(0)
            rig.close()


@pytest.mark.parametrize("layout", ["files", "slab"])
def test_50_killed_writers_lose_nothing_reported_and_leave_nothing_torn(
    tmp_path: Path, layout: str
) -> None:
    kill_and_verify(tmp_path, layout, 50)


@pytest.mark.parametrize("piece", [0, 1, 2])
@pytest.mark.parametrize("layout", ["files", "slab"])
def test_a_writer_killed_between_two_pieces_of_a_block_leaves_nothing_torn(
    tmp_path: Path, layout: str, piece: int
) -> None:
    """It writes over the file or slot of a block that makes room, and is killed before a piece."""
    size = 3 * PIECE + 4096
    writer = subprocess.run(
        [sys.executable, "-c", _DIES, layout, str(tmp_path), str(size), str(piece)],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert writer.returncode == -signal.SIGKILL, writer.stderr
    factory = partial(getattr(tier_factories, layout), blocks=2)
    rig = TierRig(
        factory(block_bytes=size, root=tmp_path, namespace="kills"), slots=4, block_bytes=size
    )
    assert rig.present([b"0", b"1", b"2"]) == {b"1"} == rig.load(b"0", b"1", b"2")
    assert rig.tier.counters["corrupt"] == 0, "a torn block was claimed"  # type: ignore[attr-defined]
    assert rig.store(b"2", b"3") == {b"2", b"3"} == rig.load(b"2", b"3")
    rig.close()


_DIES = """
import os, signal, sys
from pathlib import Path
from tierproof.impl.tiers.file_io import PIECE, FileIO
from tierproof.properties import tier_factories
from tierproof.properties.tier_rig import TierRig

layout, root, size, piece = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])

class Dies(FileIO):
    left = None

    def pwritev(self, fd, buffers, offset):
        if self.left is not None and len(buffers[-1]) >= PIECE:
            if not self.left:
                os.kill(os.getpid(), signal.SIGKILL)
            self.left -= 1
        return super().pwritev(fd, buffers, offset)

io = Dies()
factory = getattr(tier_factories, layout)
tier = factory(block_bytes=size, root=root, namespace="kills", blocks=2, io=io)
rig = TierRig(tier, slots=4, block_bytes=size)
for key in (b"0", b"1"):
    assert rig.store(key) == {key}
io.left = piece
rig.store(b"2")
"""


@pytest.mark.nightly
@pytest.mark.parametrize("layout", ["files", "slab"])
def test_1000_killed_writers_lose_nothing_reported_and_leave_nothing_torn(
    tmp_path: Path, layout: str
) -> None:
    kill_and_verify(tmp_path, layout, 1000)
