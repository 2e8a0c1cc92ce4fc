"""The stock file tier of a vLLM release, driven beside ours: its own code, a fair loop."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tierproof.properties import bench_stock, bench_tiers
from tierproof.properties.bench_stock import VERSION, stock_release
from tierproof.properties.managers import UsageError
from tierproof.properties.report import Report
from tierproof.properties.vllm_cache import EXTENSION, is_cached

MIB = 1 << 20
here = pytest.mark.skipif(
    not is_cached(VERSION),
    reason=f"vLLM {VERSION} is not in the cache; fetch it once: tierproof fetch-vllm {VERSION}",
)


def own_process(name: str, folder: Path) -> None:
    """Do what `stock_process.py` says under this name."""
    script = Path(__file__).with_name("stock_process.py")
    done = subprocess.run(
        [sys.executable, str(script), name, str(folder)], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


@here
def test_the_stock_tier_moves_the_bytes_of_its_keys(tmp_path: Path) -> None:
    own_process("moves_bytes", tmp_path)


@here
def test_the_stock_tier_forgets_when_told_to_and_says_what_it_cannot_load(tmp_path: Path) -> None:
    own_process("forgets", tmp_path)


@here
def test_the_stock_tier_is_given_jobs_as_its_own_manager_gives_them(tmp_path: Path) -> None:
    own_process("is_given_its_managers_jobs", tmp_path)


@here
def test_stock_and_ours_take_turns_in_the_same_rounds(tmp_path: Path) -> None:
    own_process("takes_turns", tmp_path)


def test_without_the_release_the_comparison_is_left_out_with_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TIERPROOF_CACHE", str(tmp_path / "nothing"))
    report = Report("bench tiers")
    bench_tiers.file_tiers(
        report, tmp_path, sizes=[MIB], total=8 * MIB, rounds=1, progress=lambda *_: None
    )
    assert len(report.measures) == 5
    assert f"tierproof fetch-vllm {VERSION}" in report.lines[-1]
    assert "is not compared" in report.lines[-1]


# --- which of its two loops moves the bytes ---


class Unloaded:
    """A release of which only the file tier's module is asked for."""

    folder = Path("somewhere")

    def __init__(self, error: ImportError | None = None) -> None:
        self.error = error

    def module(self, name: str) -> None:
        if self.error:
            raise self.error


def a_cache(monkeypatch: pytest.MonkeyPatch, folder: Path, release: Unloaded) -> None:
    monkeypatch.setattr(bench_stock, "folder_of", lambda version: folder)
    monkeypatch.setattr(bench_stock, "load", lambda version: release)


def test_a_cache_without_the_compiled_loop_says_how_to_have_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    a_cache(monkeypatch, tmp_path, Unloaded())
    by = stock_release()[1]
    assert by.startswith("its own Python loop (its C extension is not in the cache")
    assert f"remove {tmp_path}" in by


def test_a_compiled_loop_that_cannot_be_loaded_is_told_with_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    a_cache(monkeypatch, tmp_path, Unloaded())
    (tmp_path / f"{EXTENSION}so").parent.mkdir()
    (tmp_path / f"{EXTENSION}so").write_text("")
    monkeypatch.setitem(sys.modules, "vllm.fs_io_C", None)
    by = stock_release()[1]
    assert by.startswith("its own Python loop (its C extension cannot be loaded here: ")
    monkeypatch.setitem(sys.modules, "vllm.fs_io_C", sys)
    monkeypatch.setitem(sys.modules, "vllm", sys)
    assert stock_release()[1] == "its C extension"


def test_a_file_tier_that_cannot_be_imported_is_not_compared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    a_cache(monkeypatch, tmp_path, Unloaded(ImportError("no module named spice")))
    with pytest.raises(UsageError, match="could not be loaded: no module named spice"):
        stock_release()
