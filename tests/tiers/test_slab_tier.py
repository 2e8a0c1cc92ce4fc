"""The slab layout: one file with fixed slots, held to every contract of a tier but `T11`."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from tierproof.impl.errors import ConfigError
from tierproof.impl.tiers.base import Claim
from tierproof.impl.tiers.file_io import PAGE
from tierproof.impl.tiers.slab import SlabTier
from tierproof.impl.tiers.slab_file import (
    RECORD_BYTES,
    file_length,
    slot_count,
)

from .slab_support import KEYS, SIZE, index_of, length_of, scribble, slab_of, slab_rig
from .support import PATIENCE, Faults, Gate, Rig, eventually, leftovers

# --- size, names, owner ---


@pytest.mark.parametrize("block_bytes", [1, 4096, 10_000, 1 << 20])
@pytest.mark.parametrize("blocks", [1, 2, 31, 32, 33, 1000])
def test_a_slab_is_never_longer_than_its_capacity_and_wastes_no_slot(
    block_bytes: int, blocks: int
) -> None:
    length = file_length(blocks, block_bytes)
    assert slot_count(length, block_bytes) == blocks
    assert slot_count(length - 1, block_bytes) == blocks - 1


def test_the_slab_is_private_has_its_full_length_at_once_and_leaves_nothing_else(
    tmp_path: Path,
) -> None:
    root = tmp_path / "cache"
    with slab_rig(root) as rig:
        rig.store(*KEYS)
        path = slab_of(root)
        assert length_of(root) == file_length(8, SIZE)
        for found in (path.stat(), index_of(root).stat()):
            assert found.st_blocks * 512 >= found.st_size, "the disk has not been taken yet"
            assert stat.S_IMODE(found.st_mode) == 0o600
        assert stat.S_IMODE(root.stat().st_mode) == 0o700
    assert sorted(leftovers(root)) == [path, index_of(root)]


def test_a_slab_has_one_owner(tmp_path: Path) -> None:
    with slab_rig(tmp_path) as rig:
        rig.store(KEYS[0])
        with pytest.raises(ConfigError, match="another tier owns this slab"):
            Rig(SlabTier(tmp_path, capacity_bytes=file_length(8, SIZE)), block_bytes=SIZE)
        assert rig.load(KEYS[0]) == {KEYS[0]}
    with slab_rig(tmp_path) as rig:
        assert rig.load(KEYS[0]) == {KEYS[0]}


def test_namespaces_and_sizes_of_blocks_never_meet(tmp_path: Path) -> None:
    with slab_rig(tmp_path, namespace="one") as one, slab_rig(tmp_path, namespace="two") as two:
        one.store(*KEYS)
        assert two.decide(KEYS[0]) is Claim.ABSENT
        assert two.load(KEYS[0]) == frozenset()
    with slab_rig(tmp_path, namespace="one", block_bytes=8192) as other:
        assert other.decide(KEYS[0]) is Claim.ABSENT
    for hostile in ("../../etc", "/", "a\0b", "x" * 300):
        with slab_rig(tmp_path / "in", namespace=hostile) as rig:
            assert rig.store(KEYS[0]) == {KEYS[0]}
    assert {path.name for path in tmp_path.iterdir() if path.is_dir()} == {"in"}


@pytest.mark.parametrize("block_bytes", [1000, 5000])
def test_a_block_that_is_no_whole_page_goes_without_o_direct(
    tmp_path: Path, block_bytes: int
) -> None:
    with slab_rig(tmp_path, block_bytes=block_bytes) as rig:
        assert rig.store(*KEYS) == rig.load(*KEYS) == set(KEYS)
    with slab_rig(tmp_path, block_bytes=block_bytes) as rig:
        assert rig.load(*KEYS) == set(KEYS)


# --- capacity and recency ---


def test_t7_a_full_slab_evicts_the_least_recently_used_also_after_a_restart(tmp_path: Path) -> None:
    with slab_rig(tmp_path, blocks=3) as rig:
        for key in KEYS[:3]:
            rig.store(key)
        rig.load(KEYS[0])  # so the second is the oldest
    with slab_rig(tmp_path, blocks=3) as rig:
        assert rig.decide(KEYS[0]) is Claim.PRESENT
        assert rig.store(KEYS[3]) == {KEYS[3]}
        assert rig.decide(KEYS[1]) is Claim.ABSENT
        assert rig.load(*KEYS) == {KEYS[0], KEYS[2], KEYS[3]}
        assert rig.tier.used_bytes == 3 * SIZE
        assert rig.tier.counters["evicted"] == 1


def test_t7_blocks_that_are_being_loaded_are_not_evicted_and_the_store_fails(
    tmp_path: Path,
) -> None:
    gate = Gate()
    io = Faults()
    with slab_rig(tmp_path, blocks=2, io=io, threads=3) as rig:
        rig.store(*KEYS[:2])
        io.faults["preadv"] = gate
        job = rig.begin_load(KEYS[:2], [6, 7])
        assert gate.reached.wait(PATIENCE)
        assert rig.store(KEYS[2]) == frozenset()
        gate.open.set()
        assert rig.report(job).landed == set(KEYS[:2])
        assert rig.store(KEYS[2]) == {KEYS[2]}


def test_a_slab_of_another_size_is_made_anew(tmp_path: Path) -> None:
    with slab_rig(tmp_path, blocks=3) as rig:
        rig.store(*KEYS[:3])
    with slab_rig(tmp_path, blocks=5) as rig:
        assert rig.decide(KEYS[0]) is Claim.ABSENT
        assert rig.store(*KEYS) == set(KEYS)
        assert length_of(tmp_path) == file_length(5, SIZE)


def test_b46_room_comes_back_however_a_block_goes(tmp_path: Path) -> None:
    now = [0.0]
    io = Faults()
    with slab_rig(tmp_path, blocks=3, io=io, clock=lambda: now[0]) as rig:
        for number in range(10):
            key = b"%d" % number
            assert rig.store(key) == {key}
            if number % 2:
                rig.tier.clear()
                eventually(lambda: not rig.tier._index.clearing, "the clear")
                assert rig.tier.used_bytes == 0
            else:
                io.faults["preadv"] = lambda *_: scribble(slab_of(tmp_path), 0, bytes(SIZE * 3))
                assert rig.load(key) == frozenset()
                io.faults.clear()
                assert rig.tier.used_bytes == 0
        assert rig.store(*KEYS[:3]) == rig.load(*KEYS[:3]) == set(KEYS[:3])


# --- bytes ---


def damage(root: Path, what: str) -> None:
    path = slab_of(root)
    data = path.read_bytes()
    first = 0
    if what == "flipped":
        scribble(path, first + 1234, bytes([data[first + 1234] ^ 1]))
    elif what == "zeroed":
        scribble(path, first, bytes(SIZE))
    elif what == "another block's":
        scribble(path, first, data[first + SIZE : first + 2 * SIZE])
    elif what == "half another block's":
        scribble(path, first, data[first + SIZE : first + SIZE + SIZE // 2])
    elif what == "truncated":
        os.truncate(path, first + SIZE // 2)


@pytest.mark.parametrize(
    "what", ["flipped", "zeroed", "another block's", "half another block's", "truncated"]
)
def test_b44_wrong_bytes_are_a_failed_key_and_the_others_survive(tmp_path: Path, what: str) -> None:
    with slab_rig(tmp_path) as rig:
        for key in KEYS:
            rig.store(key)
        damage(tmp_path, what)
        landed = rig.load(*KEYS)
        assert KEYS[0] not in landed
        assert what == "truncated" or landed == set(KEYS[1:])
        assert rig.decide(KEYS[0]) is Claim.ABSENT
        assert rig.tier.counters["corrupt"] >= 1
        assert rig.store(KEYS[0]) == rig.load(KEYS[0]) == {KEYS[0]}


@pytest.mark.parametrize(
    ("offset", "data"),
    [
        (PAGE + 40, b"\xff"),  # a record
        (PAGE, bytes(RECORD_BYTES)),
        (PAGE + RECORD_BYTES - 1, b"\xff"),
    ],
)
def test_a_record_that_is_damaged_while_nobody_runs_is_a_free_slot(
    tmp_path: Path, offset: int, data: bytes
) -> None:
    with slab_rig(tmp_path) as rig:
        for key in KEYS:
            rig.store(key)
    scribble(index_of(tmp_path), offset, data)
    with slab_rig(tmp_path) as rig:
        assert rig.decide(KEYS[0]) is Claim.ABSENT
        assert rig.load(*KEYS) == set(KEYS[1:])
        more = [b"more %d" % number for number in range(4)]
        assert rig.store(*more) == rig.load(*more) == set(more)


def test_records_of_another_slot_or_another_slab_are_not_believed(tmp_path: Path) -> None:
    with slab_rig(tmp_path / "a") as rig:
        for key in KEYS:
            rig.store(key)
    with slab_rig(tmp_path / "b", namespace="other") as rig:
        rig.store(*KEYS)
    a, b = index_of(tmp_path / "a"), index_of(tmp_path / "b")
    records = a.read_bytes()[PAGE : PAGE + RECORD_BYTES]
    scribble(a, PAGE + RECORD_BYTES, records)
    with slab_rig(tmp_path / "a") as rig:
        assert rig.load(*KEYS) == {*KEYS} - {KEYS[1]}
    scribble(b, PAGE, a.read_bytes()[PAGE : 2 * PAGE])
    with slab_rig(tmp_path / "b", namespace="other") as rig:
        assert rig.load(*KEYS) == frozenset()
    b.write_bytes(a.read_bytes())  # the whole slab under another namespace's name
    slab_of(tmp_path / "b").write_bytes(slab_of(tmp_path / "a").read_bytes())
    with slab_rig(tmp_path / "b", namespace="other") as rig:
        assert rig.load(*KEYS) == frozenset()


def test_of_two_records_for_one_block_the_later_one_counts(tmp_path: Path) -> None:
    with slab_rig(tmp_path, blocks=4) as rig:
        rig.store(KEYS[0])
    before = index_of(tmp_path).read_bytes()
    with slab_rig(tmp_path, blocks=4) as rig:
        rig.tier._index._suspect.add(rig.tier._name(KEYS[0]))  # so it is written anew
        rig.store(KEYS[0])
    scribble(index_of(tmp_path), PAGE, before[PAGE : PAGE + RECORD_BYTES])  # as if killed before
    with slab_rig(tmp_path, blocks=4) as rig:
        assert rig.load(KEYS[0]) == {KEYS[0]}
        assert rig.tier.used_bytes == SIZE
        assert rig.store(*KEYS[1:4]) == set(KEYS[1:4])
        assert rig.load(*KEYS[:4]) == set(KEYS[:4]), "the slot of the older record is free"


@pytest.mark.parametrize("cut", [0, 10, PAGE, PAGE + 100])
@pytest.mark.parametrize("which", [slab_of, index_of])
def test_a_slab_that_was_half_made_is_made_again(
    tmp_path: Path, cut: int, which: Callable[[Path], Path]
) -> None:
    with slab_rig(tmp_path) as rig:
        rig.store(*KEYS)
    os.truncate(which(tmp_path), cut)
    with slab_rig(tmp_path) as rig:
        assert rig.decide(KEYS[0]) is Claim.ABSENT
        assert rig.store(*KEYS) == rig.load(*KEYS) == set(KEYS)
