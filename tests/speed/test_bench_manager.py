"""`tierproof bench manager`: every row is measured, and a wrong answer is no figure."""

import json
import subprocess
import sys
import textwrap
import time
from functools import partial

import msgspec
import pytest

from tierproof import LookupResult, TieredOffloadingManager
from tierproof.properties import commands_bench_manager as command
from tierproof.properties import terminal
from tierproof.properties.cli import main
from tierproof.properties.managers import Chosen, resolve
from tierproof.properties.speed import results, scenarios, showing
from tierproof.properties.speed.growth import memory
from tierproof.properties.speed.ours import OurSide
from tierproof.properties.speed.rounds import measure
from tierproof.properties.speed.rows import ROWS, SPARE
from tierproof.properties.speed.side import WrongAnswerError
from tierproof.properties.terminal import Terminal
from tierproof.properties.vllm_cache import is_cached

RESIDENT = 1_000
STOCK = "0.33.0"


def quiet(done: int, total: int) -> None:
    pass


@pytest.fixture(scope="module")
def found():
    """One round of ours beside ours, since no release need be at hand."""
    return measure(RESIDENT, 1, OurSide, partial(OurSide), quiet)


@pytest.fixture
def result(found):
    return results.Result(
        command="tierproof bench manager",
        manager="tierproof",
        stock="vLLM 0.33.0",
        tierproof="0",
        machine=results.machine([0.0, 0.0]),
        rounds=1,
        tables=[results.table(RESIDENT, found)],
        memory=[memory(RESIDENT, OurSide, None)],
    )


def test_every_row_has_figures_of_both_sides_and_of_the_floor(found):
    names = {row.name for row in ROWS}
    assert found.ours.keys() == found.stock.keys() == found.floor.keys() == names
    for of_side in (found.ours, found.stock, found.floor):
        assert all(len(seconds) == 1 and seconds[0] > 0 for seconds in of_side.values())


def test_a_ratio_is_the_median_of_the_rounds_ratios_with_the_least_and_the_greatest(found):
    rounds = {row.name: [1.0, 2.0, 4.0] for row in ROWS}
    slower = {row.name: [3.0, 4.0, 20.0] for row in ROWS}
    table = results.table(RESIDENT, type(found)(ours=rounds, stock=slower, floor=rounds))
    assert all(row.ratio == results.Spread(3.0, 2.0, 5.0) for row in table.rows)
    assert all(row.distance == results.Spread(1.0, 1.0, 1.0) for row in table.rows)


def test_what_was_measured_can_be_read_again(result, tmp_path):
    path = tmp_path / "run.json"
    path.write_bytes(msgspec.json.encode(result))
    assert results.read(path) == result
    path.write_text(
        json.dumps({"schema": "tierproof.report/1", "result": json.loads(path.read_bytes())})
    )
    assert results.read(path) == result


def test_every_goal_is_judged(result):
    goals = results.goals(result)
    with_goal = [row for row in ROWS if row.goal is not None]
    assert len(goals) == len(with_goal) + 2, "the idle step and the memory have goals too"
    assert results.Goal("x", 2.0, 2.0, True).reached
    assert not results.Goal("x", 1.99, 2.0, True).reached
    assert results.Goal("x", 3.0, 3.0, False).reached
    assert not results.Goal("x", 3.01, 3.0, False).reached


def test_a_goal_that_is_missed_says_how_much_there_is_to_be_had(result):
    told = [goal for goal in results.goals(result) if goal.most is not None]
    assert told
    for goal in told:
        assert goal.most is not None
        assert goal.most > 1, "the floor is no slower than ours, which stands for stock here"
    page = showing.page(result)
    missed = next(goal for goal in told if not goal.reached)
    assert f"**missed**; the floor alone would be {missed.most:g}" in page


@pytest.mark.parametrize("scenario", [*scenarios.STILL, *scenarios.MOVING])
def test_a_scenario_leaves_the_manager_as_it_found_it(scenario):
    side = OurSide(resident=RESIDENT, spare=SPARE, tiers=2)
    side.fill()
    for number in range(2):
        scenario(side, scenarios.Draw(RESIDENT, number))
        probe = side.manager.probe()
        probe.check()
        assert probe.free_slots() == SPARE
        assert len(probe.resident_keys()) == RESIDENT
        assert probe.work_in_flight() == probe.permits_in_use() == 0
        assert not probe.retracted()
        assert not side.manager._requests.live
    side.close()


class AnswersRetry(TieredOffloadingManager):
    def lookup(self, key, request):
        answer = super().lookup(key, request)
        return LookupResult.RETRY if answer is LookupResult.HIT_PENDING else answer


class NeverHas(TieredOffloadingManager):
    def lookup(self, key, request):
        return LookupResult.MISS


class NeverCascades(TieredOffloadingManager):
    def complete_store(self, operation, ok=True):
        tiers, self._cascades._secondaries = self._cascades._secondaries, ()
        super().complete_store(operation, ok)
        self._cascades._secondaries = tiers


class AlwaysBusy(TieredOffloadingManager):
    def has_pending_work(self):
        return True


@pytest.mark.parametrize(
    ("broken", "words"),
    [
        (AnswersRetry, "answered RETRY where HIT_PENDING"),
        (NeverHas, "answered MISS where HIT"),
        (NeverCascades, "cascaded once to every tier"),
        (AlwaysBusy, "work is pending 100 steps after"),
    ],
)
def test_a_manager_that_does_less_than_is_measured_has_no_figures(broken, words):
    with pytest.raises(WrongAnswerError, match=words):
        measure(RESIDENT, 1, partial(OurSide, factory=broken), None, quiet)


def test_another_manager_with_the_same_calls_can_be_measured():
    one = measure(RESIDENT, 1, partial(OurSide, factory=TieredOffloadingManager), None, quiet)
    assert one.ours.keys() == {row.name for row in ROWS}
    assert not one.stock


# -- the command ---------------------------------------------------------------------------------


@pytest.fixture
def run(monkeypatch, capsys, tmp_path, found):
    """The command, with one round that has been measured before."""
    monkeypatch.setenv("TIERPROOF_CACHE", str(tmp_path / "empty"))
    monkeypatch.setattr(
        command,
        "measure",
        lambda resident, rounds, ours, stock, step: type(found)(
            found.ours, {} if stock is None else found.stock, found.floor
        ),
    )
    monkeypatch.setattr(command, "MEMORY_AT", (RESIDENT,))

    def run_here(*words):
        code = main(["bench", "manager", *map(str, words)])
        told = capsys.readouterr()
        return code, told.out, told.err

    return run_here


def test_without_a_release_the_command_says_how_to_get_it_and_shows_the_floor(run):
    code, out, _ = run("--resident", RESIDENT)
    assert code == 0
    assert "tierproof fetch-vllm 0.33.0" in out
    assert "x floor" in out
    assert "  ratio  " not in out
    assert all(row.name in out for row in ROWS)


def test_the_json_has_a_schema_and_the_whole_run(run, tmp_path):
    code, _, err = run("--resident", RESIDENT, "--json", tmp_path / "run.json")
    assert code == 0, err
    data = json.loads((tmp_path / "run.json").read_text())
    assert data["schema"] == "tierproof.report/1"
    assert data["result"]["schema"] == results.SCHEMA == "tierproof.bench-manager/1"
    assert [t["resident"] for t in data["result"]["tables"]] == [RESIDENT]
    assert {r["row"] for r in data["result"]["tables"][0]["rows"]} == {row.name for row in ROWS}


def test_who_waits_is_told_how_far_it_is(run, monkeypatch, found, capsys):
    def slow(resident, rounds, ours, stock, step):
        step(3, 12)
        time.sleep(0.2)
        return found

    monkeypatch.setattr(terminal, "REMINDER", 0.02)
    monkeypatch.setattr(command, "measure", slow)
    code, _, errors = run("--resident", RESIDENT)
    assert code == 0
    assert f"tierproof: {RESIDENT:,} resident blocks: 3 of 12, 0 s so far" in errors


def test_an_earlier_run_is_shown_without_measuring(run, tmp_path, monkeypatch):
    run("--resident", RESIDENT, "--json", tmp_path / "run.json")
    monkeypatch.setattr(command, "measure", None)
    code, out, err = run(
        *("--from", tmp_path / "run.json", "--plot", tmp_path / "run.svg", "--pages", tmp_path)
    )
    assert code == 0, err
    assert "1,000 resident blocks" in out
    names = {"run.json", "run.svg", "speed.json", "speed.md", "speed.svg"}
    assert {path.name for path in tmp_path.iterdir()} == names
    assert results.read(tmp_path / "speed.json") == results.read(tmp_path / "run.json")


def test_a_broken_manager_ends_with_the_code_of_a_broken_contract(monkeypatch, tmp_path, capsys):
    monkeypatch.setenv("TIERPROOF_CACHE", str(tmp_path / "empty"))
    args = ["--manager", "retry_on_promotion", "--resident", str(RESIDENT)]
    code = main(["bench", "manager", *args, "--json", str(tmp_path / "run.json")])
    out = capsys.readouterr().out
    assert code == 1
    assert "RETRY where HIT_PENDING is measured" in out
    assert "ours" not in out, "no table is shown"
    data = json.loads((tmp_path / "run.json").read_text())
    assert data["exit"] == 1
    assert "result" not in data
    assert len(data["failures"]) == 1


def test_a_missed_goal_is_told_and_changes_no_exit_code(result):
    told = [showing.goal_line(goal) for goal in results.goals(result)]
    assert any(line.endswith("missed") for line in told), "ours is no faster than itself"
    assert all(line.endswith(("missed", "reached")) for line in told)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--rounds", "8"], ["--rounds 8", "9 or more"]),
        (["--resident", "10"], ["--resident 10", "from 1000 to 10000000"]),
        (["--growth", "999"], ["--growth 999"]),
        (["--stock", "newest"], ["'newest'", "0.33.0"]),
        (["--stock", "0.99.9"], ["--stock 0.99.9", "tierproof fetch-vllm 0.99.9"]),
        (["--from", "nowhere.json"], ["nowhere.json", "cannot be read"]),
        (["--pages", "no/folder"], ["no/folder", "make it first"]),
        (["--plot", "no/folder/x.svg"], ["no/folder", "make it first"]),
    ],
)
def test_a_mistake_is_told_in_a_sentence(run, words, told, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, _, err = run(*words)
    assert code == 2
    assert err.count("\n") == 1, err
    assert all(word in err for word in told), err


@pytest.mark.parametrize("text", ["{", "[1]", '{"schema": "tierproof.report/1"}'])
def test_what_is_no_earlier_run_is_refused(run, tmp_path, text):
    path = tmp_path / "other.json"
    path.write_text(text)
    code, _, err = run("--from", path)
    assert code == 2
    assert "no result of `tierproof bench manager`" in err


def test_a_result_of_another_schema_is_refused(run, tmp_path, result):
    path = tmp_path / "other.json"
    data = json.loads(msgspec.json.encode(result))
    path.write_text(json.dumps({**data, "schema": "tierproof.bench-manager/9"}))
    code, _, err = run("--from", path)
    assert code == 2
    assert "bench-manager/9" in err


def test_the_stock_release_is_driven_through_its_own_interface():
    if not is_cached(STOCK):
        pytest.skip(
            f"vLLM {STOCK} is not in the cache; fetch it once: tierproof fetch-vllm {STOCK}"
        )
    code = f"""
        from functools import partial
        from tierproof.properties.speed.ours import OurSide
        from tierproof.properties.speed.rounds import measure
        from tierproof.properties.speed.rows import ROWS
        from tierproof.properties.speed.stock import StockSide
        from tierproof.properties.vllm_loader import load
        stock = partial(StockSide, load({STOCK!r}))
        found = measure({RESIDENT}, 1, OurSide, stock, lambda done, total: None)
        assert found.stock.keys() == {{row.name for row in ROWS}}
        assert all(seconds[0] > 0 for seconds in found.stock.values())
        print("measured")
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "measured"


def test_the_command_that_is_kept_gives_the_same_run(monkeypatch, tmp_path, found):
    monkeypatch.setenv("TIERPROOF_CACHE", str(tmp_path / "empty"))
    monkeypatch.setattr(command, "measure", lambda *given: found)
    monkeypatch.setattr(command, "MEMORY_AT", (RESIDENT,))
    chosen = Chosen("mine.py:My Manager", resolve().factory)
    report = command.bench_manager(
        Terminal(),
        chosen,
        stock=None,
        rounds=9,
        resident=(1000, 2000),
        growth=None,
        again=None,
        plot=None,
        pages=None,
    )
    assert report.result is not None
    assert report.result["command"] == (
        "tierproof bench manager --rounds 9 --resident 1000 --resident 2000 "
        "--manager 'mine.py:My Manager'"
    )


def test_a_missed_goal_of_an_earlier_run_ends_with_1_where_goals_are_checked(run, tmp_path, result):
    path = tmp_path / "run.json"
    path.write_bytes(msgspec.json.encode(result))
    missed = [goal.what for goal in results.goals(result) if not goal.reached]
    assert missed, "ours is no faster than itself"
    code, out, _ = run("--from", path, "--check")
    assert code == 1
    assert f"{len(missed)} goals missed: {missed[0]}" in " ".join(out.split())
    assert run("--from", path)[0] == 0
