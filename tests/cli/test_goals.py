"""`bench ... --check`: a goal that is missed is a violation; without it, it is shown."""

import json

import pytest

from tierproof.properties import (
    commands_bench,
    commands_bench_manager,
    commands_bench_scan,
    commands_bench_tiers,
)
from tierproof.properties.bench_rounds import tell_goal
from tierproof.properties.report import Measure, Report

COMMANDS = {
    "verify": (commands_bench, "bench_verify"),
    "scan": (commands_bench_scan, "bench_scan"),
    "tiers": (commands_bench_tiers, "bench_tiers"),
    "manager": (commands_bench_manager, "bench_manager"),
}


@pytest.fixture(params=COMMANDS)
def bench(request, run, monkeypatch):
    """Each benchmark, with figures that are given and not measured."""

    def bench(report, *args):
        monkeypatch.setattr(*COMMANDS[request.param], lambda *_, **__: report)
        return run("bench", request.param, *args, "--json", "out.json")

    return bench


def measured(proof=4.0, ratio=0.95):
    """Two goals: at most 5 s, and at least 0.9 of the limit."""
    report = Report("bench", measures=[Measure("proof", proof, "s", 5.0), Measure("rows", 3, "")])
    tell_goal(report, "slab store", [ratio], [1.0], 0.9)
    return report


def test_goals_that_are_reached_are_said_to_be(bench):
    done = bench(measured(), "--check")
    assert done.code == 0, done.out
    assert done.out.rstrip().endswith("every goal that could be measured is reached")


@pytest.mark.parametrize(
    ("figures", "told"),
    [
        ({"proof": 5.0}, "1 goal missed: proof"),
        ({"ratio": 0.8}, "1 goal missed: slab store"),
        ({"proof": 6.0, "ratio": 0.8}, "2 goals missed: proof; slab store"),
    ],
)
def test_a_goal_that_is_missed_ends_with_1_and_is_named(bench, figures, told, tmp_path):
    done = bench(measured(**figures), "--check")
    assert done.code == 1
    assert done.out.rstrip().endswith(told)
    data = json.loads((tmp_path / "out.json").read_text())
    assert data["exit"] == 1
    assert data["missed"] == told.partition(": ")[2].split("; ")


def test_without_the_option_a_missed_goal_is_shown_and_changes_no_exit_code(bench, tmp_path):
    done = bench(measured(ratio=0.8))
    assert done.code == 0
    assert "goal 0.9 missed" in done.out
    assert "goal missed:" not in done.out
    assert "missed" not in json.loads((tmp_path / "out.json").read_text())


def test_what_is_not_measured_is_not_said_to_reach_its_goals(bench):
    report = measured()
    report.failures.append("a wrong answer")
    done = bench(report, "--check")
    assert done.code == 1
    assert "is reached" not in done.out
