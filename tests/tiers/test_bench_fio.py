"""fio as the measure of a disk: asked and read rightly, and put aside where it misleads."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from tierproof.properties import bench_fio, bench_limits, bench_tiers
from tierproof.properties.bench_fio import Fio, FioError, speed_of
from tierproof.properties.bench_limits import DiskLimit
from tierproof.properties.managers import UsageError
from tierproof.properties.report import Report

MIB = 1 << 20
RECORDED = (Path(__file__).parent / "fio-3.33-write.json").read_text()
"""What fio 3.33 wrote on the project's machine: 128 MiB written in 92 ms."""


def changed(**of_the_job: Any) -> str:
    told = json.loads(RECORDED)
    told["jobs"][0].update(of_the_job)
    return json.dumps(told)


def test_the_speed_is_the_bytes_in_a_second_that_fio_tells() -> None:
    told = json.loads(RECORDED)["jobs"][0]["write"]
    assert speed_of(RECORDED, "write") == pytest.approx(1.458888347)
    assert told["io_bytes"] / told["runtime"] * 1e3 / 1e9 == pytest.approx(1.4589, abs=1e-4)


def test_notes_before_the_json_do_not_matter() -> None:
    assert speed_of(f"note: both iodepth >= 1\n\n{RECORDED}", "write") > 1


@pytest.mark.parametrize(
    ("said", "what", "words"),
    [
        (RECORDED, "read", "moved nothing in a read"),
        (changed(error=28), "write", "No space left on device"),
        ("", "write", "could not be read"),
        ("{", "write", "could not be read"),
        ('{"jobs": []}', "write", "could not be read"),
        ('{"jobs": [{"error": 0}]}', "write", "could not be read"),
        (changed(write=None), "write", "could not be read"),
    ],
)
def test_an_answer_without_a_speed_is_an_error_that_says_why(
    said: str, what: str, words: str
) -> None:
    with pytest.raises(FioError, match=words):
        speed_of(said, what)


# --- the program itself ---


@pytest.fixture
def real_fio() -> None:
    if shutil.which("fio") is None:
        if os.environ.get("CI"):
            pytest.fail("fio is not installed on the build machine")
        pytest.skip("fio is not installed")


@pytest.mark.usefixtures("real_fio")
def test_the_installed_fio_measures_a_disk_with_huge_pages(tmp_path: Path) -> None:
    limit = DiskLimit(tmp_path, block_bytes=4 * MIB, blocks=8)
    if "fio" not in limit.by.split()[0]:
        assert any(why in limit.by for why in ("huge pages", "fio failed", "buffered")), limit.by
        pytest.skip(limit.by)
    assert "io_uring, O_DIRECT, depth 16, huge pages" in limit.by
    assert 0.01 < limit.write() < 100
    assert 0.01 < limit.read() < 100
    assert (tmp_path / "limit").stat().st_size == 32 * MIB, "fio changed the file's length"
    limit.close()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("real_fio")
def test_fio_on_small_pages_is_refused_as_a_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bench_fio, "_HUGE", "glibc.malloc.hugetlb=0")
    monkeypatch.setattr(bench_fio, "_LOOK_SECONDS", 1.0)
    monkeypatch.setattr(bench_fio, "huge_bytes", lambda pid: 0)
    limit = DiskLimit(tmp_path, block_bytes=MIB, blocks=8)
    assert limit.by.startswith("an O_DIRECT loop of 8 threads (fio")
    assert 0.001 < limit.write() < 100
    limit.close()


def program(folder: Path, text: str) -> None:
    path = folder / "fio"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


@pytest.fixture
def own_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that is looked in first for programs."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    return folder


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[ $1 = --version ] || { echo 'fio: engine not loadable' >&2; exit 1; }", "not loadable"),
        ("[ $1 = --version ] || exit 1", "it said nothing"),
        ("[ $1 = --version ] || exec sleep 60", "0 of 16 MiB on huge pages"),
    ],
)
def test_a_fio_that_cannot_be_the_limit_is_named_beside_the_loop_that_is(
    tmp_path: Path, own_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, words: str
) -> None:
    monkeypatch.setattr(bench_fio, "_LOOK_SECONDS", 1.0)
    program(own_path, text)
    limit = DiskLimit(tmp_path, block_bytes=MIB, blocks=2)
    assert "loop of 8 threads (fio" in limit.by
    assert words in limit.by
    limit.close()


def test_a_fio_that_cannot_run_is_no_limit(tmp_path: Path, own_path: Path) -> None:
    program(own_path, "")
    (own_path / "fio").write_bytes(b"\x7fELF not really")
    with pytest.raises(FioError, match="did not run"):
        Fio(tmp_path / "limit", block_bytes=MIB, blocks=2)


def test_without_fio_the_loop_is_the_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    limit = DiskLimit(tmp_path, block_bytes=MIB, blocks=2)
    assert limit.by == "an O_DIRECT loop of 8 threads (fio is not installed)"
    limit.close()


def test_where_o_direct_is_refused_the_limit_is_buffered_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bench_limits, "probe_direct", lambda *_: False)
    limit = DiskLimit(tmp_path, block_bytes=MIB, blocks=2)
    assert limit.by == "a buffered loop of 8 threads"
    assert limit.read() > 0
    limit.close()


def test_a_fio_that_fails_in_mid_run_ends_the_command_as_a_mistake_of_the_machine(
    tmp_path: Path, own_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program(own_path, '[ $1 = --version ] && echo fio-9 || { echo "no disk" >&2; exit 3; }')
    monkeypatch.setattr(Fio, "_look_for_huge_pages", lambda *_: None)
    monkeypatch.setenv("TIERPROOF_CACHE", str(tmp_path / "no release of vLLM"))
    with pytest.raises(UsageError, match="could not be measured: fio failed: no disk"):
        bench_tiers.file_tiers(
            Report("x"),
            tmp_path,
            sizes=[MIB],
            total=8 * MIB,
            rounds=1,
            progress=lambda done, total: None,
        )
