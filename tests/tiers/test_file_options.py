"""What the file tier is given: options, an arena, keys; and what it says in the log."""

from __future__ import annotations

import errno
import logging
import threading
from pathlib import Path

import pytest

from tierproof.impl.arena import Arena
from tierproof.impl.errors import ConfigError, TierError
from tierproof.impl.tiers.base import NO_REQUEST, LoadJob, StoreJob
from tierproof.impl.tiers.files import FileTier

from .support import (
    Faults,
    block_files,
    failing,
    file_rig,
)

KEYS = [b"k%d" % number for number in range(1, 6)]


@pytest.mark.parametrize(
    ("options", "word"),
    [
        ({"threads": 0}, "threads"),
        ({"threads": True}, "threads"),
        ({"queued_stores": 0}, "queued_stores"),
        ({"io_deadline": 0}, "io_deadline"),
        ({"capacity_bytes": 0}, "capacity_bytes"),
        ({"absent_seconds": -1}, "absent_seconds"),
        ({"namespace": 7}, "namespace"),
    ],
)
def test_a_wrong_option_is_named(tmp_path: Path, options: dict[str, object], word: str) -> None:
    with pytest.raises(ConfigError, match=word):
        FileTier(tmp_path, **options)  # type: ignore[arg-type]
    assert list(tmp_path.iterdir()) == [], "a refused configuration leaves nothing behind"


def test_a_capacity_below_one_block_is_refused_with_both_numbers(tmp_path: Path) -> None:
    tier = FileTier(tmp_path, capacity_bytes=8191)
    with pytest.raises(ConfigError, match=r"8,191.*8,192"):
        tier.attach(Arena(slots=1, block_bytes=4096))
    tier.shutdown()


def test_a_tier_is_attached_once_and_before_it_is_used(tmp_path: Path) -> None:
    tier = FileTier(tmp_path)
    assert tier.used_bytes == 0
    for call in (lambda: tier.lookup(b"k", NO_REQUEST), tier.clear):
        with pytest.raises(TierError, match="attach"):
            call()
    arena = Arena(slots=1, block_bytes=4096)
    tier.attach(arena)
    with pytest.raises(TierError, match="attached already"):
        tier.attach(arena)
    tier.shutdown()


def test_a_key_without_a_name_is_refused_and_nothing_of_its_job_begins(tmp_path: Path) -> None:
    with file_rig(tmp_path) as rig:
        for call in (
            lambda: rig.ask(7),
            lambda: rig.tier.submit_load(LoadJob(1, (b"a", 7), (0, 1))),
            lambda: rig.tier.submit_store(StoreJob(1, (b"a", 7), (0, 1))),
        ):
            with pytest.raises(ConfigError, match="int"):
                call()
        with pytest.raises(ValueError, match="zip"):
            rig.tier.submit_load(LoadJob(1, (b"a", b"b"), (0,)))
        rig.poll()
        assert rig.reports == {}
        assert block_files(tmp_path) == []


def test_the_system_giving_no_threads_is_a_tier_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_more(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    tier = FileTier(tmp_path)
    monkeypatch.setattr(threading.Thread, "start", no_more)
    with pytest.raises(TierError, match="lower its threads"):
        tier.attach(Arena(slots=1, block_bytes=4096))


def bug(*_: object) -> None:
    raise ZeroDivisionError


def test_no_key_and_no_payload_in_the_log(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, logger="tierproof")
    io = Faults()
    with file_rig(tmp_path, io=io) as rig:
        rig.store("tenant-secret", "other-secret")
        for path in block_files(tmp_path):
            path.write_bytes(b"payload-secret")
        rig.load("tenant-secret")
        io.faults["pwritev"] = failing(errno.ENOSPC)
        rig.store("third-secret")
        io.faults["utime"] = bug
        del io.faults["pwritev"]
        rig.store("fourth-secret")
    assert caplog.records
    assert "secret" not in "".join(record.getMessage() for record in caplog.records)
