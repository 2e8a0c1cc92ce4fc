"""Several writers of one folder, dead and alive: `T10`, `T11`, and the case B43."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tierproof.impl.tiers.base import Claim
from tierproof.impl.tiers.block_file import file_bytes
from tierproof.impl.tiers.block_folder import BlockFolder
from tierproof.impl.tiers.file_io import FileIO
from tierproof.impl.tiers.files import FileTier

from .support import (
    PATIENCE,
    Faults,
    Gate,
    Rig,
    block_files,
    eventually,
    file_rig,
    leftovers,
    payload,
)

KEYS = [b"k%d" % number for number in range(1, 6)]

# --- T10: restart ---


def test_t10_what_was_reported_stored_is_found_after_a_restart(tmp_path: Path) -> None:
    for shared in (True, False):
        with file_rig(tmp_path, shared=shared) as rig:
            rig.store(*KEYS)
        with file_rig(tmp_path, shared=shared) as rig:
            assert [rig.decide(key) for key in KEYS] == [Claim.PRESENT] * 5
            assert rig.load(*KEYS) == set(KEYS)
            assert rig.tier.used_bytes == 5 * file_bytes(4096)


def test_t10_lookups_do_not_wait_for_the_listing_of_a_large_folder(tmp_path: Path) -> None:
    with file_rig(tmp_path) as rig:
        rig.store(*KEYS)
    gate = Gate()
    with file_rig(tmp_path, io=Faults(scandir=gate)) as rig:
        assert gate.reached.wait(PATIENCE)
        assert rig.ask(KEYS[0]) is Claim.UNDECIDED
        assert rig.decide(KEYS[0]) is Claim.PRESENT
        assert rig.decide(b"unknown") is Claim.ABSENT
        assert rig.load(KEYS[0]) == {KEYS[0]}
        gate.open.set()


def test_t10_a_listing_undoes_nothing_that_happened_while_it_ran(tmp_path: Path) -> None:
    with file_rig(tmp_path) as rig:
        rig.store(*KEYS)
    seen = 0

    class Pausing(FileIO):
        def scandir(self, path: str) -> Iterator[os.DirEntry[str]]:
            nonlocal seen
            for entry in super().scandir(path):
                yield entry
                seen += entry.name.endswith(".block")
                if seen == 5 and not gate.reached.is_set():
                    gate()

    gate = Gate()
    with file_rig(tmp_path, io=Pausing(), shared=False) as rig:
        assert gate.reached.wait(PATIENCE)
        block_files(tmp_path)[0].unlink()
        gone = next(key for key in KEYS if rig.load(key) == frozenset())
        corrupt = block_files(tmp_path)[0]
        corrupt.write_bytes(b"")
        bad = next(key for key in KEYS if key != gone and rig.load(key) == frozenset())
        gate.open.set()
        eventually(lambda: len(rig.tier._index) == 3, "the listing")
        assert rig.decide(gone) is rig.decide(bad) is Claim.ABSENT


def test_t10_a_clear_while_the_folder_is_listed_wins(tmp_path: Path) -> None:
    with file_rig(tmp_path) as rig:
        rig.store(*KEYS)
    gate = Gate(lambda path: not path.endswith("writers"))
    io = Faults(scandir=gate)
    with file_rig(tmp_path, io=io, shared=False) as rig:
        assert gate.reached.wait(PATIENCE)
        rig.tier.clear()
        gate.open.set()
        assert [rig.decide(key) for key in KEYS] == [Claim.ABSENT] * 5
        eventually(lambda: not block_files(tmp_path), "the files to go")
        assert [rig.decide(key) for key in KEYS] == [Claim.ABSENT] * 5
        assert rig.tier.used_bytes == 0


def test_files_that_are_not_blocks_are_left_alone(tmp_path: Path) -> None:
    with file_rig(tmp_path) as rig:
        rig.store(KEYS[0])
    (block,) = block_files(tmp_path)
    strangers = [
        tmp_path / "README",
        block.with_name("notes.txt"),
        block.with_name("ab.block"),
        block.parents[1] / "zz",
        tmp_path / "0123",
    ]
    for stranger in strangers:
        stranger.write_text("mine")
    with file_rig(tmp_path, capacity_bytes=file_bytes(4096)) as rig:
        rig.store(*KEYS)
        assert len(rig.tier._index) == 1
    assert all(stranger.read_text() == "mine" for stranger in strangers)


# --- B43: temporaries ---


@pytest.mark.parametrize("seed", range(8))
def test_b43_two_writers_of_one_key_in_any_interleaving_leave_one_whole_file(
    tmp_path: Path, seed: int
) -> None:
    rng = random.Random(seed)

    def jitter(*_: object) -> None:
        time.sleep(rng.random() * 0.003)

    def slow() -> Faults:
        return Faults(open=jitter, pwritev=jitter, rename=jitter, fstat=jitter)

    with file_rig(tmp_path, io=slow()) as one, file_rig(tmp_path, io=slow()) as two:
        for number in range(3):
            key = b"%d" % number
            jobs = one.begin_store([key]), two.begin_store([key])
            assert one.report(jobs[0]).landed == two.report(jobs[1]).landed == {key}
            assert one.load(key) == two.load(key) == {key}
        assert len(block_files(tmp_path)) == 3
        assert leftovers(tmp_path) == []


@pytest.mark.parametrize("winner", [0, 1])
def test_b43_both_writers_hold_a_complete_temporary_and_both_renames_succeed(
    tmp_path: Path, winner: int
) -> None:
    gates = Gate(), Gate()
    rigs = [Rig(FileTier(tmp_path, io=Faults(rename=gate))) for gate in gates]
    jobs = [rig.begin_store([KEYS[0]]) for rig in rigs]
    for gate in gates:
        assert gate.reached.wait(PATIENCE)
    assert len(leftovers(tmp_path)) == 2, "each writer has its own temporary"
    for number in (winner, 1 - winner):
        gates[number].open.set()
        assert rigs[number].report(jobs[number]).landed == {KEYS[0]}
        assert rigs[1 - winner].load(KEYS[0]) == {KEYS[0]}
    assert len(block_files(tmp_path)) == 1
    for rig in rigs:
        rig.close()
    assert leftovers(tmp_path) == []


def test_b43_a_live_writers_temporary_is_not_swept_and_never_counted_as_a_block(
    tmp_path: Path,
) -> None:
    gate = Gate()
    with file_rig(tmp_path, io=Faults(rename=gate)) as one:
        job = one.begin_store([KEYS[0]])
        assert gate.reached.wait(PATIENCE)
        with file_rig(tmp_path, capacity_bytes=1 << 20) as two:
            assert two.decide(KEYS[0]) is Claim.ABSENT
            assert two.store(KEYS[1]) == {KEYS[1]}
            assert two.tier.used_bytes == file_bytes(4096)
            assert len(leftovers(tmp_path)) == 1
        gate.open.set()
        assert one.report(job).landed == {KEYS[0]}
        assert one.load(KEYS[0]) == {KEYS[0]}


def test_b43_what_a_dead_writer_left_is_swept_and_uses_no_capacity(tmp_path: Path) -> None:
    size = file_bytes(4096)
    with file_rig(tmp_path) as rig:
        rig.store(KEYS[0])
    dead = tmp_path / ".tierproof" / "writers" / "1-dead"
    dead.mkdir()
    (dead / "lock").touch()
    (dead / "0").write_bytes(bytes(size))
    (dead / "cleared-1").mkdir()
    (dead / "cleared-1" / "x").write_bytes(bytes(size))
    unborn = dead.with_name("2-killed-before-it-had-a-lock")
    unborn.mkdir()
    os.utime(unborn, (0, 0))
    being_born = dead.with_name("3-about-to-have-a-lock")
    being_born.mkdir()
    with file_rig(tmp_path, capacity_bytes=2 * size) as rig:
        assert rig.store(KEYS[1]) == {KEYS[1]}
        assert rig.load(*KEYS[:2]) == set(KEYS[:2])
        assert not dead.exists()
        assert not unborn.exists()
        assert being_born.exists()


def test_b43_without_flock_only_old_leftovers_are_swept(tmp_path: Path) -> None:
    def no_flock(*_: object) -> None:
        raise OSError(37, "No locks available")

    writers = tmp_path / ".tierproof" / "writers"
    io = Faults(flock=no_flock)
    with file_rig(tmp_path, io=io, capacity_bytes=1 << 20) as rig:
        rig.store(*KEYS)
        for name in ("young", "old"):
            (writers / name).mkdir()
            (writers / name / "lock").touch()
        os.utime(writers / "old", (0, 0))
        assert rig.load(*KEYS) == set(KEYS)
    with file_rig(tmp_path, io=io) as rig:
        rig.decide(KEYS[0])
        eventually(lambda: not (writers / "old").exists(), "the old leftovers to go")
        assert (writers / "young").exists()


def test_a_leftover_that_cannot_be_removed_does_not_stop_the_tier(tmp_path: Path) -> None:
    with file_rig(tmp_path) as rig:
        rig.store(KEYS[0])
    dead = tmp_path / ".tierproof" / "writers" / "1-dead"
    dead.mkdir()
    (dead / "lock").touch()

    def fault(path: str) -> None:
        if "1-dead" in path:
            raise PermissionError(13, "Permission denied")

    with file_rig(tmp_path, io=Faults(unlink=fault), shared=False) as rig:
        assert rig.decide(KEYS[0]) is Claim.PRESENT
        assert rig.decide(b"unknown") is Claim.ABSENT
        assert dead.exists()


# --- T11: several processes at once ---


def test_t11_an_absent_told_once_is_looked_for_again_after_a_while(tmp_path: Path) -> None:
    now = [0.0]
    with file_rig(tmp_path, clock=lambda: now[0]) as rig, file_rig(tmp_path) as other:
        assert rig.decide(KEYS[0]) is Claim.ABSENT
        other.store(KEYS[0])
        assert rig.ask(KEYS[0]) is Claim.ABSENT
        now[0] += 1.5
        assert rig.ask(KEYS[0]) is Claim.UNDECIDED
        assert rig.decide(KEYS[0]) is Claim.PRESENT


def test_t7_t11_a_block_that_another_process_used_is_spared(tmp_path: Path) -> None:
    options = {"capacity_bytes": 3 * file_bytes(4096)}
    with file_rig(tmp_path, **options) as one:
        for key in KEYS[:3]:
            one.store(key)
        with file_rig(tmp_path, **options) as two:
            two.load(KEYS[0])
            one.store(KEYS[3])
            assert two.load(KEYS[0]) == {KEYS[0]}
            assert one.decide(KEYS[1]) is Claim.ABSENT


def test_t11_a_lock_kept_by_a_stopped_process_fails_stores_in_bounded_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tierproof.impl.tiers.folder_lock._WAIT", 0.1)
    stopped = BlockFolder(str(tmp_path), FileIO())
    with file_rig(tmp_path, capacity_bytes=1 << 20) as rig:
        rig.store(KEYS[0])
        with stopped.locked():
            assert rig.store(KEYS[1], KEYS[2]) == frozenset()
            assert rig.load(KEYS[0]) == {KEYS[0]}
        assert rig.store(KEYS[1]) == {KEYS[1]}
    stopped.close()


def test_t11_payloads_of_two_writers_never_mix(tmp_path: Path) -> None:
    with file_rig(tmp_path, slots=1) as one, file_rig(tmp_path, slots=1) as two:
        for number in range(20):
            key = b"%d" % number
            jobs = one.begin_store([key]), two.begin_store([key])
            one.report(jobs[0])
            two.report(jobs[1])
        for path in block_files(tmp_path):
            assert path.read_bytes()[4096:] in {payload(b"%d" % n, 4096) for n in range(20)}
