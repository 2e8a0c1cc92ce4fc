"""The contract of a tier, kept by a slab in ways of its own; `test_both_layouts` has the rest."""

from __future__ import annotations

import errno
import logging
import os
import subprocess
import threading
from pathlib import Path

import pytest

from tierproof.impl.errors import ConfigError, TierError
from tierproof.impl.tiers.base import Claim
from tierproof.impl.tiers.file_io import PAGE
from tierproof.impl.tiers.slab import SlabTier
from tierproof.impl.tiers.slab_file import (
    RECORD_BYTES,
    SlabFile,
    file_length,
)
from tierproof.impl.tiers.slab_mover import SlabMover

from .slab_support import KEYS, SIZE, index_of, scribble, slab_of, slab_rig
from .support import PATIENCE, Faults, Gate, Rig, eventually, failing


def test_t4_a_store_is_found_after_its_report_and_never_before(tmp_path: Path) -> None:
    with slab_rig(tmp_path) as rig:
        assert rig.decide(KEYS[0]) is Claim.ABSENT
        job = rig.begin_store(KEYS[:1])
        eventually(lambda: rig.tier.counters["stored"], "the write")
        for _ in range(200):
            assert rig.ask(KEYS[0]) is Claim.ABSENT, "claimed before the store was reported"
        rig.report(job)
        assert rig.ask(KEYS[0]) is Claim.PRESENT


def test_t8_shutdown_with_a_stuck_thread_keeps_the_slab_locked(tmp_path: Path) -> None:
    gate = Gate()
    io = Faults()
    rig = Rig(SlabTier(tmp_path, capacity_bytes=file_length(8, SIZE), threads=1, io=io))
    rig.store(KEYS[0])
    io.faults["preadv"] = gate
    job = rig.begin_load(KEYS[:1])
    assert gate.reached.wait(PATIENCE)
    rig.tier.shutdown()
    rig.tier.shutdown()
    with pytest.raises(ConfigError, match="another tier owns"):
        Rig(SlabTier(tmp_path, capacity_bytes=file_length(8, SIZE)))
    with pytest.raises(TierError, match="shut down"):
        rig.begin_load(KEYS[:1])
    gate.open.set()
    assert rig.report(job).landed == {KEYS[0]}
    rig.tier._mover.close(True)


def test_t9_a_disk_that_fails_gives_one_warning_and_recovers(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="tierproof")
    io = Faults()
    now = [0.0]
    with slab_rig(tmp_path, io=io, clock=lambda: now[0]) as rig:
        rig.store(*KEYS[:3])
        io.faults.update(preadv=failing(errno.EIO), pwritev=failing(errno.EIO))
        for _ in range(5):
            assert rig.store(b"new") == frozenset()
            assert rig.load(KEYS[1]) == frozenset()
            assert rig.decide(KEYS[1]) is Claim.ABSENT
        warnings = [record for record in caplog.records if record.levelno >= logging.WARNING]
        assert len(warnings) == 1
        io.faults.clear()
        scribble(index_of(tmp_path), PAGE, bytes(RECORD_BYTES * 8))  # and the index has gone
        assert rig.store(b"new") == {b"new"}
        assert rig.decide(KEYS[0]) is Claim.ABSENT, "an entry from before was trusted"
        assert rig.load(b"new") == {b"new"}
        assert any("works again" in record.getMessage() for record in caplog.records)


def test_b50_an_unwritable_folder_is_a_clear_error_at_the_start(tmp_path: Path) -> None:
    def deny(*_: object) -> None:
        raise OSError(errno.EACCES, os.strerror(errno.EACCES))

    for call in ("mkdir", "open"):
        with pytest.raises(ConfigError, match=r"cannot write to folder .*Permission denied"):
            SlabTier(tmp_path / call, capacity_bytes=1 << 20, io=Faults(**{call: deny}))
    io = Faults()
    tier = SlabTier(tmp_path / "later", capacity_bytes=1 << 20, io=io)
    io.faults["open"] = deny
    with pytest.raises(ConfigError, match="Permission denied"):
        Rig(tier)


def test_b47_a_disk_with_no_room_for_the_slab_is_a_clear_error(tmp_path: Path) -> None:
    tier = SlabTier(tmp_path, capacity_bytes=1 << 20, io=Faults(fallocate=failing(errno.ENOSPC)))
    with pytest.raises(ConfigError, match=r"no room for a slab of .* bytes"):
        Rig(tier)
    assert slab_of(tmp_path).stat().st_size == 0
    with slab_rig(tmp_path, io=Faults(fallocate=failing(errno.EOPNOTSUPP))) as rig:
        assert rig.store(*KEYS) == rig.load(*KEYS) == set(KEYS)


def test_b47_a_slab_that_found_no_room_after_its_index_leaves_the_disk_as_it_was(
    tmp_path: Path,
) -> None:
    had: list[int] = []

    def fallocate(fd: int, length: int) -> None:
        if had:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        had.append(length)
        os.posix_fallocate(fd, 0, length)

    tier = SlabTier(tmp_path, capacity_bytes=1 << 20, io=Faults(fallocate=fallocate))
    with pytest.raises(ConfigError, match=r"no room for a slab of 1,0\d\d,\d\d\d bytes; lower its"):
        Rig(tier)
    assert len(had) == 1
    assert index_of(tmp_path).stat().st_size == slab_of(tmp_path).stat().st_size == 0


def test_b47_a_slab_on_a_real_full_disk(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(disk)], capture_output=True
    )
    if mounted.returncode:
        pytest.skip("this machine lets nobody mount a tmpfs")
    try:
        with pytest.raises(ConfigError, match="no room"):
            Rig(SlabTier(disk, capacity_bytes=2 << 20))
        with slab_rig(disk, capacity_bytes=900 << 10) as rig:
            (disk / "filler").write_bytes(bytes(100 << 10))  # the slab has its bytes already
            keys = [b"%d" % number for number in range(8)]
            assert rig.store(*keys) == rig.load(*keys) == set(keys)
    finally:
        subprocess.run(["umount", str(disk)], check=True)


def test_clear_forgets_at_once_and_a_running_store_does_not_bring_a_block_back(
    tmp_path: Path,
) -> None:
    gate = Gate()
    io = Faults()
    with slab_rig(tmp_path, io=io) as rig:
        rig.store(*KEYS[:3])
        io.faults["pwritev"] = gate
        job = rig.begin_store([KEYS[4]])
        assert gate.reached.wait(PATIENCE)
        rig.tier.clear()
        assert [rig.ask(key) for key in KEYS[:3]] == [Claim.ABSENT] * 3
        gate.open.set()
        assert rig.report(job).landed == frozenset()
        assert rig.decide(KEYS[4]) is Claim.ABSENT
        eventually(lambda: not rig.tier._index.clearing, "the clear")
        assert rig.store(KEYS[4]) == {KEYS[4]}
    with slab_rig(tmp_path) as rig:
        assert rig.load(*KEYS) == {KEYS[4]}


def test_a_clear_right_after_a_store_has_set_its_record_loses_no_slot(tmp_path: Path) -> None:
    with slab_rig(tmp_path, blocks=2, threads=2) as rig:
        rig.store(KEYS[0])
        mover, lock = rig.tier._mover, ClearingLock(rig)
        assert isinstance(mover, SlabMover)
        mover._lock = lock  # type: ignore[assignment]
        assert rig.report(rig.begin_store([KEYS[1]])).landed == frozenset()
        assert lock.cleared
        assert rig.store(*KEYS[2:4]) == set(KEYS[2:4])
        assert rig.load(*KEYS[2:4]) == set(KEYS[2:4]), "a slot of the two was lost"


class ClearingLock:
    """The mover's lock; where it is let go with a new record in the map, all is cleared."""

    def __init__(self, rig: Rig[SlabTier]) -> None:
        self.cleared = False
        self._rig = rig
        self._lock = threading.Lock()

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()
        mover = self._rig.tier._mover
        assert isinstance(mover, SlabMover)
        if len(mover._records) == 2 and not self.cleared:
            self.cleared = True
            self._rig.tier.clear()
            eventually(lambda: not self._rig.tier._index.clearing, "the clear")


def test_a_clear_that_has_not_ended_ends_with_the_shutdown(tmp_path: Path) -> None:
    with slab_rig(tmp_path) as rig:
        rig.store(*KEYS)
        gate = Gate()
        rig.tier._pool.chore(lambda: gate())
        rig.tier.clear()
        gate.open.set()
    with slab_rig(tmp_path) as rig:
        assert rig.load(*KEYS) == frozenset()


def test_the_slab_file_closes_its_descriptors_when_it_cannot_be_opened(tmp_path: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))
    for call in ("flock", "ftruncate", "pwritev"):
        with pytest.raises((OSError, ConfigError)):
            SlabFile(
                Faults(**{call: failing(errno.EIO)}),
                str(tmp_path / call),
                fingerprint=bytes(32),
                block_bytes=SIZE,
                slots=4,
                direct=False,
            )
    assert len(os.listdir("/proc/self/fd")) == before
