"""Releases come into the cache whole or not at all, and mistakes are told."""

import subprocess
import zipfile
from types import SimpleNamespace

import pytest

from tierproof.properties.managers import UsageError
from tierproof.properties.vllm_cache import cache_folder, cached, fetch, folder_of, is_cached

FILES = {
    "vllm/v1/kv_offload/tiering/manager.py": "x = 1",
    "vllm/v1/kv_offload/cpu/kernel.so": "not Python",
    "vllm/version.py": "x = 2",
    "vllm/fs_io_C.abi3.so": "the compiled loop of the file tier",
    "vllm/fs_io_C_of_another_name.so": "not needed",
    "vllm/model_executor/models/llama.py": "not needed",
    "vllm-1.2.3.dist-info/METADATA": "not vllm's",
}


@pytest.fixture(autouse=True)
def _cache(monkeypatch, tmp_path):
    monkeypatch.setenv("TIERPROOF_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def pip(monkeypatch):
    """Instead of pip: writes a wheel with FILES, or says and returns what it is told to."""
    told = SimpleNamespace(files=FILES, says="", code=0, calls=0, raises=None)

    def run(command, **options):
        told.calls += 1
        if told.raises:
            raise told.raises
        if told.code == 0:
            folder = command[command.index("--dest") + 1]
            with zipfile.ZipFile(f"{folder}/vllm-1.2.3-py3-none-any.whl", "w") as wheel:
                for name, text in told.files.items():
                    wheel.writestr(name, text)
        return SimpleNamespace(returncode=told.code, stdout="", stderr=told.says)

    monkeypatch.setattr(subprocess, "run", run)
    return told


def test_a_fetched_release_has_the_files_that_are_needed_and_nothing_else(pip):
    assert fetch("1.2.3")
    root = folder_of("1.2.3")
    kept = {str(p.relative_to(root)) for p in root.rglob("*") if p.is_file()}
    assert kept == {
        "vllm/v1/kv_offload/tiering/manager.py",
        "vllm/version.py",
        "vllm/fs_io_C.abi3.so",
    }


def test_nothing_but_the_release_is_left_in_the_cache(pip):
    fetch("1.2.3")
    assert [p.name for p in cache_folder().iterdir()] == ["1.2.3"]


def test_a_release_is_fetched_once(pip):
    assert fetch("1.2.3")
    assert not fetch("1.2.3")
    assert pip.calls == 1
    assert cached() == ["1.2.3"]


def test_versions_are_listed_by_number_and_not_by_letter(pip):
    for version in ("1.10.0", "1.9.1", "1.9.0"):
        fetch(version)
    assert cached() == ["1.9.0", "1.9.1", "1.10.0"]


def test_a_release_without_a_tiering_manager_is_refused_and_not_kept(pip):
    pip.files = {"vllm/version.py": ""}
    with pytest.raises(UsageError, match=r"1\.2\.3 has no tiering manager"):
        fetch("1.2.3")
    assert list(cache_folder().iterdir()) == []


@pytest.mark.parametrize(
    ("says", "words"),
    [
        ("/usr/bin/python: No module named pip", "needs pip"),
        (
            "ERROR: Could not find a version that satisfies the requirement vllm==1.2.3 "
            "(from versions: 1.0, 1.1)\nERROR: No matching distribution found for vllm==1.2.3",
            "there is no vLLM 1.2.3 for this machine; the newest are 1.0, 1.1",
        ),
        (
            "WARNING: Retrying\nERROR: Could not find a version that satisfies the requirement "
            "vllm==1.2.3 (from versions: none)\nERROR: No matching distribution found",
            "did not reach a package index",
        ),
        ("", "did not reach a package index"),
    ],
)
def test_what_pip_could_not_do_is_told_with_its_cause(pip, says, words):
    pip.code, pip.says = 1, says
    with pytest.raises(UsageError) as told:
        fetch("1.2.3")
    assert words in str(told.value)
    assert not is_cached("1.2.3")


def test_a_download_that_does_not_end_is_given_up(pip):
    pip.raises = subprocess.TimeoutExpired("pip", 900)
    with pytest.raises(UsageError, match="more than 900 s"):
        fetch("1.2.3")


def test_a_cache_that_cannot_be_written_is_named(pip, monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("TIERPROOF_CACHE", str(tmp_path / "file"))
    with pytest.raises(UsageError, match="TIERPROOF_CACHE"):
        fetch("1.2.3")


@pytest.mark.parametrize("version", ["", "latest", "0", "../0.33.0", "0.33.0; rm"])
def test_what_cannot_be_a_version_is_refused_before_anything_is_asked(pip, version):
    with pytest.raises(UsageError, match="not the version of a vLLM release"):
        fetch(version)
    assert pip.calls == 0


def test_a_release_that_was_not_fetched_is_told_with_the_command_that_fetches_it():
    with pytest.raises(UsageError, match=r"tierproof fetch-vllm 1\.2\.3"):
        folder_of("1.2.3")


def test_the_cache_follows_the_environment(monkeypatch, tmp_path):
    assert cache_folder() == tmp_path / "cache/vllm"
    monkeypatch.delenv("TIERPROOF_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_folder() == tmp_path / "tierproof/vllm"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", "/home/somebody")
    assert str(cache_folder()) == "/home/somebody/.cache/tierproof/vllm"


def test_the_command_refuses_all_before_it_fetches_one(pip, monkeypatch, capsys):
    from tierproof.properties.cli import main

    assert main(["fetch-vllm", "1.2.3", "newest"]) == 2
    assert pip.calls == 0
    assert "'newest'" in capsys.readouterr().err
    assert main(["fetch-vllm", "1.2.3"]) == 0
    assert "vLLM 1.2.3 fetched" in capsys.readouterr().out
