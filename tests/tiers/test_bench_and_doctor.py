"""`bench tiers` and `doctor`: that they measure and look, not what they find on this machine."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tierproof.impl.manager import TieredOffloadingManager
from tierproof.properties import bench_rounds, bench_servers, bench_tiers, commands_doctor
from tierproof.properties.bench_calls import (
    calls_beside_memcpy,
    calls_beside_tiers,
    percentile,
    rounds_beside,
)
from tierproof.properties.cli import main
from tierproof.properties.report import Report
from tierproof.properties.servers import NoServerError, RedisServer, free_ports

from .conftest import started

MIB = 1 << 20


def silent(done: int, total: int) -> None:
    pass


def test_both_layouts_are_measured_against_a_limit_of_the_same_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TIERPROOF_CACHE", str(tmp_path / "no release of vLLM"))
    report = Report("bench tiers")
    bench_tiers.file_tiers(
        report, tmp_path, sizes=[MIB, 4 * MIB], total=8 * MIB, rounds=2, progress=silent
    )
    of_the_limit = [m for m in report.measures if m.what.endswith("of the limit")]
    assert len(of_the_limit) == 10
    assert all(0 < measure.value < 20 for measure in of_the_limit)
    (how,) = [line for line in report.lines if "the disk's limit is measured by" in line]
    assert "16 threads" in how
    assert how.endswith("MiB of all tiers' buffers on huge pages")
    assert sum("of the limit:" in line and "goal 0." in line for line in report.lines) == 5
    (worked,) = [line for line in report.lines if line.startswith("processor time for a block")]
    steps = ("files store", "slab store", "files store when full", "files load", "slab load")
    assert all(f"{step} " in worked for step in steps), worked
    assert "of each but stock's is its checksum" in worked
    assert list(tmp_path.iterdir()) == [], "the benchmark left files"


def test_who_comes_first_changes_from_round_to_round() -> None:
    began: list[tuple[str, int]] = []

    def step(name: str) -> Callable[[int], float]:
        def run(number: int) -> float:
            began.append((name, number))
            return float(number)

        return run

    phases = [{name: step(name) for name in "abc"}, {"x": step("x")}, {"y": step("y")}]
    found = bench_rounds.rounds_of(2, phases, silent)
    assert found == {name: [0.0, 1.0] for name in "abcxy"}
    assert "".join(name for name, _ in began) == "abcxy" + "bcaxy"


def test_servers_are_measured_against_their_clients(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started(RedisServer, tmp_path / "probe").stop()

    def missing(folder: Path) -> None:
        raise NoServerError("not here")

    monkeypatch.setattr(bench_servers, "SeaweedServer", missing)
    report = Report("bench tiers")
    bench_servers.remote_tiers(report, size=MIB, total=8 * MIB, rounds=1, progress=silent)
    assert [m.what for m in report.measures] == [
        "redis store, 1 MiB, of the client alone",
        "redis load, 1 MiB, of the client alone",
    ]
    assert "s3: not measured; not here" in report.lines
    assert any(line.startswith("redis is measured with ") for line in report.lines)


def test_calls_are_timed_beside_tiers_and_beside_a_memcpy(tmp_path: Path) -> None:
    with_tiers = calls_beside_tiers(tmp_path, block_bytes=MIB, total=16 * MIB)
    beside = calls_beside_memcpy(block_bytes=MIB, total=16 * MIB)
    assert len(with_tiers) > 100
    assert len(beside) >= 5_000
    assert 0 < percentile(beside, 0.5) <= percentile(beside, 0.999) < 1


def test_every_call_of_the_comparison_has_a_copy_beside_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    copies: list[int] = []
    monkeypatch.setattr(np, "copyto", lambda target, source: copies.append(1))
    seen: list[int] = []
    real = TieredOffloadingManager.lookup

    def lookup(self: Any, key: Any, request: Any) -> Any:
        seen.append(len(copies))
        return real(self, key, request)

    monkeypatch.setattr(TieredOffloadingManager, "lookup", lookup)
    took = calls_beside_memcpy(block_bytes=4096, total=16 * 4096, least=3_000)
    assert len(took) >= 3_000
    assert seen[-1] > seen[len(seen) // 2] > 16, "the copies ended before the calls did"


def test_tiers_and_memcpy_take_turns_and_a_round_has_both(tmp_path: Path) -> None:
    steps: list[tuple[int, int]] = []
    found = rounds_beside(
        tmp_path,
        block_bytes=MIB,
        total=8 * MIB,
        rounds=2,
        progress=lambda *step: steps.append(step),
    )
    assert steps == [(0, 2), (1, 2)]
    assert len(found) == 2
    assert all(0 < b.tiers < 10 and 0 < b.memcpy < 10 and b.calls > 100 for b in found)
    assert list(tmp_path.iterdir()) == []


def test_the_command_tells_ratios_with_their_goals_and_ends_with_0(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TIERPROOF_CACHE", str(tmp_path / "no release of vLLM"))
    out = tmp_path / "out.json"
    disk = tmp_path / "disk"
    disk.mkdir()
    arguments = ["bench", "tiers", "--folder", str(disk), "--mib", "64", "--beside", "64"]
    arguments += ["--rounds", "1", "--block", "1", "--block", "2", "--no-servers"]
    assert main([*arguments, "--json", str(out)]) == 0
    told = json.loads(out.read_text())
    of_the_limit = [m["what"] for m in told["measures"] if m["what"].endswith("of the limit")]
    assert {what.split(", ")[1] for what in of_the_limit} == {"1 MiB", "2 MiB"}
    (ratio,) = [m for m in told["measures"] if m["what"] == "ratio of the two"]
    assert ratio["goal"] == 3.0
    assert list(disk.iterdir()) == []


@pytest.mark.parametrize(
    ("folder", "said"),
    [
        ("nothing here", "there is no such folder; make it first"),
        ("a file", "that is no folder"),
        ("/proc", "cannot write into --folder /proc"),
    ],
)
def test_a_folder_that_cannot_be_written_is_a_mistake_with_what_to_do(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], folder: str, said: str
) -> None:
    (tmp_path / "a file").write_text("")
    assert main(["bench", "tiers", "--folder", str(tmp_path / folder), "--rounds", "1"]) == 2
    told = " ".join(capsys.readouterr().err.split())
    assert said in told
    assert "Traceback" not in told


def test_a_disk_without_room_is_told_before_anything_is_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["bench", "tiers", "--folder", str(tmp_path), "--mib", str(1 << 30)]) == 2
    told = " ".join(capsys.readouterr().err.split())
    assert "MiB left, and measuring takes 4,29" in told
    assert "lower --mib" in told
    assert list(tmp_path.iterdir()) == []


# --- doctor ---


def test_doctor_looks_at_everything_and_tries_the_tiers(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "tiers.toml"
    config.write_text(
        f'[[tiers]]\nkind = "files"\nroot = "{tmp_path}/files"\n'
        f'[[tiers]]\nkind = "slab"\nroot = "{tmp_path}/slab"\ncapacity = "1MiB"\n'
        '[[tiers]]\nkind = "memory"\n'
    )
    out = tmp_path / "doctor.json"
    arguments = ["doctor", "--folder", str(tmp_path), "--config", str(config), "--json", str(out)]
    assert main(arguments) == 0
    told = capsys.readouterr().out
    for what in ("huge pages", "O_DIRECT in", "memory:", "disk:", "device:", "versions: python"):
        assert what in told
    assert told.count("a block went there and came back") == 3
    assert json.loads(out.read_text())["exit"] == 0
    assert not list(tmp_path.glob("files/*/*/*.block")), "the doctor left its block"
    assert not list((tmp_path / "slab").iterdir()), "a second slab would take the disk for good"


def test_doctor_says_where_a_slab_has_no_room_and_makes_none(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "tiers.toml"
    config.write_text(
        f'[[tiers]]\nkind = "slab"\nroot = "{tmp_path}/slab"\ncapacity = "900000TiB"\n'
    )
    assert main(["doctor", "--config", str(config)]) == 2
    assert "bytes left, and a slab of" in " ".join(capsys.readouterr().out.split())
    assert not list((tmp_path / "slab").iterdir())


def test_doctor_tells_of_every_tier_that_is_wrong_and_tries_the_others(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "tiers.toml"
    config.write_text(
        '[[tiers]]\nkind = "memory"\nthreads = 3\n[[tiers]]\nkind = "memory"\n'
        '[[tiers]]\nkind = "memory"\ncapacity_blocks = 0\n'
    )
    assert main(["doctor", "--config", str(config)]) == 2
    told = " ".join(capsys.readouterr().out.split())
    assert "tiers[0] (memory): unknown setting 'threads'" in told
    assert "tier 'memory': a block went there and came back" in told
    assert "tiers[2] (memory): capacity_blocks must be" in told
    config.write_text('[[tiers]]\nkind = "memory"\n' * 2)
    assert main(["doctor", "--config", str(config)]) == 2
    assert "'memory' is taken" in capsys.readouterr().out


def test_doctor_names_a_server_that_is_not_there_and_ends_with_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "tiers.toml"
    config.write_text(f'[[tiers]]\nkind = "redis"\nurl = "redis://127.0.0.1:{free_ports(1)[0]}"\n')
    assert main(["doctor", "--folder", str(tmp_path), "--config", str(config)]) == 2
    told = " ".join(capsys.readouterr().out.split())
    assert "a block could not be stored: tier 'redis' cannot write: the server cannot be" in told
    config.write_text("[[tiers]]\nkind = 3\n")
    assert main(["doctor", "--folder", str(tmp_path), "--config", str(config)]) == 2
    assert "it must be one of memory" in capsys.readouterr().out


def test_doctor_looks_at_the_folders_of_the_configuration(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "tiers.toml"
    config.write_text(f'[[tiers]]\nkind = "files"\nroot = "{tmp_path}/cache"\n')
    assert main(["doctor", "--config", str(config)]) == 0
    told = capsys.readouterr().out
    assert f"O_DIRECT in {tmp_path}/cache:" in told
    assert f"free in {tmp_path}/cache" in told
    assert " in .:" not in told
    assert main(["doctor", "--config", str(config), "--folder", str(tmp_path)]) == 0
    assert capsys.readouterr().out.count("O_DIRECT in ") == 2
    assert main(["doctor"]) == 0
    assert "O_DIRECT in .:" in capsys.readouterr().out


@pytest.mark.parametrize(("folder", "said"), [("none", "no such folder"), ("file", "is no folder")])
def test_doctor_refuses_a_folder_that_there_is_not(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], folder: str, said: str
) -> None:
    (tmp_path / "file").touch()
    assert main(["doctor", "--folder", str(tmp_path / folder)]) == 2
    told = capsys.readouterr()
    assert said in told.err
    assert told.out == ""


def test_doctor_advises(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    setting = tmp_path / "enabled"
    monkeypatch.setattr(commands_doctor, "_THP", setting)
    assert "none" in commands_doctor.huge_pages()[0]
    setting.write_text("always madvise [never]\n")
    assert "echo madvise >" in commands_doctor.huge_pages()[1]
    setting.write_text("[always] madvise never\n")
    assert commands_doctor.huge_pages() == ("huge pages: always", "")
    assert commands_doctor.direct_io(tmp_path / "none")[1]
    assert commands_doctor.disk(tmp_path / "none")[1]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "tiers must be a list of tables"),
        ("tiers = 3", "tiers must be a list of tables"),
        ('namespace = 3\n[[tiers]]\nkind = "memory"', "namespace must be a text or a table"),
    ],
)
def test_doctor_tells_what_is_wrong_with_a_configuration_as_a_whole(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, said: str
) -> None:
    config = tmp_path / "tiers.toml"
    config.write_text(text)
    assert main(["doctor", "--folder", str(tmp_path), "--config", str(config)]) == 2
    assert said in " ".join(capsys.readouterr().out.split())
