"""The plugin: what it costs who does not use it, its options and tests, how mistakes are told."""

import subprocess
import sys
from functools import partial

import pytest

from tierproof import __version__
from tierproof.properties import checks, conformance, trial
from tierproof.properties.contracts import CONTRACTS, RUNS, TIER_CONTRACTS, TOUR, VERSION
from tierproof.properties.generated_tests import FOLDER
from tierproof.properties.manager_conformance import name_of
from tierproof.properties.rooms import ROOMS
from tierproof.properties.trial import METHODS, ManagerTrial

from .support import PLAIN, run_kit

FEW = [room for room in ROOMS if room.name in ("answers", "jobs")]


@pytest.fixture(autouse=True)
def _less_to_do(monkeypatch):
    monkeypatch.setattr(trial, "FILES", 20)
    monkeypatch.setattr(checks, "ASKINGS", 5)


@pytest.fixture
def short(monkeypatch):
    """What the command line names is led through two rooms only."""
    monkeypatch.setattr(trial, "FILES", 20)
    monkeypatch.setattr(checks, "ASKINGS", 5)
    monkeypatch.setattr(conformance, "ManagerTrial", partial(ManagerTrial, rooms=FEW, histories=5))


def failures(result):
    return {r.nodeid: str(r.longrepr) for r in result.reports if r.outcome == "failed"}


# -- unused --------------------------------------------------------------------------------------


def test_loading_the_plugin_imports_nothing_but_pytest():
    code = (
        "import pytest, sys\nbefore = set(sys.modules)\nimport tierproof.properties.plugin\n"
        "ours = {'tierproof', 'tierproof.properties', 'tierproof.properties.plugin'}\n"
        "new = {m for m in set(sys.modules) - before - ours\n"
        "       if m.partition('.')[0] not in sys.stdlib_module_names}\n"
        "sys.exit(', '.join(sorted(new)) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, f"the plugin imports {done.stderr}"


def test_a_repository_that_does_not_use_it_sees_no_difference(pytester):
    pytester.makepyfile("def test_good(): pass\ndef test_bad(): assert 1 == 2")

    def lines(result):
        return [
            line
            for line in result.outlines
            if not line.startswith(("plugins:", "====", "platform"))
        ]

    used = run_kit(pytester, "-p", "no:randomly")
    without = pytester.runpytest_inprocess(*PLAIN)
    assert lines(used) == lines(without)
    assert used.ret == without.ret == 1


def test_nothing_of_the_kit_is_made_where_no_option_and_no_class_asks_for_it(pytester):
    pytester.makepyfile("def test_it(request):\n    assert not request.config.stash.get(KIT, 0)")
    (path,) = pytester.path.glob("test_*.py")
    path.write_text("from tierproof.properties.plugin import KIT\n" + path.read_text())
    assert run_kit(pytester).ret == 0


def test_the_marker_is_registered(pytester):
    pytester.makepyfile("import pytest\n@pytest.mark.tierproof\ndef test_it(): pass")
    assert run_kit(pytester, "--strict-markers", "-m", "not tierproof").ret == 5
    assert "tierproof(contract, method)" in run_kit(pytester, "--markers").stdout.str()


# -- what the command line names -----------------------------------------------------------------


def test_a_manager_is_held_by_name_without_any_file(pytester, short):
    result = run_kit(pytester, "--tierproof-manager", "retry_on_promotion")
    assert result.ret == 1
    assert {r.nodeid for r in result.reports} == {
        f"tierproof::retry_on_promotion::{c.id}-{m}"
        for m in METHODS
        for c in CONTRACTS.values()
        if m in c.methods
    }
    told = failures(result)["tierproof::retry_on_promotion::L1-answer-true-tour"]
    assert "L1-answer-true is broken by retry_on_promotion after one operation" in told
    assert CONTRACTS["L1-answer-true"].words.split(":")[0] in told
    assert "RETRY   (expected: HIT_PENDING)" in told
    assert "Traceback" not in result.stdout.str()


def test_the_versions_are_in_the_header(pytester, short):
    told = run_kit(pytester, "--tierproof-manager", "tierproof", "-k", "nothing").stdout.str()
    assert f"tierproof: {__version__}, contracts version {VERSION}" in told


@pytest.mark.parametrize("ids", ["L1,L5", "L1-answer-true, L5"])
def test_only_the_contracts_that_are_named_are_held(ids, pytester, short):
    arguments = ("--tierproof-manager", "tierproof", "--tierproof-contracts", ids)
    result = run_kit(pytester, *arguments)
    assert result.ret == 0, result.stdout.str()
    names = [r.nodeid.rpartition("::")[2] for r in result.reports]
    assert names == [f"{c}-{m}" for m in METHODS for c in ("L1-answer-true", "L5-tiers-asked")]
    result.assert_outcomes(passed=4, deselected=43)


def test_a_tier_is_held_by_name_and_what_it_does_not_claim_is_skipped(pytester):
    result = run_kit(pytester, "--tierproof-tier", "memory", "--tierproof-contracts", "T1,T3,T10")
    result.assert_outcomes(passed=2, skipped=1, deselected=len(TIER_CONTRACTS) - 3)
    assert "tierproof::memory::T10-restart-runs" in [r.nodeid for r in result.reports]


def test_tests_that_have_nothing_to_do_with_it_are_not_left_out(pytester, short):
    pytester.makepyfile("def test_it(): pass")
    arguments = ("--tierproof-manager", "tierproof", "--tierproof-contracts", "L1")
    run_kit(pytester, *arguments).assert_outcomes(passed=3, deselected=45)
    told = run_kit(pytester, *arguments, "-m", "tierproof", "--collect-only", "-q").outlines
    assert [line for line in told if "::" in line] == [
        "tierproof::tierproof::L1-answer-true-tour",
        "tierproof::tierproof::L1-answer-true-runs",
    ]


MISTAKES = {
    "there is no manager 'retry_on_promotoin'": ("--tierproof-manager", "retry_on_promotoin"),
    "there is no tier 'disk'": ("--tierproof-tier", "disk"),
    "there is no file 'mine.py'": ("--tierproof-manager", "mine.py:Mine"),
    "'L99', which is no contract": ("--tierproof-contracts", "L99"),
    "names no contract; write ids": ("--tierproof-contracts", ","),
    "must be a number of seconds above 0": ("--tierproof-budget", "0"),
    "a whole number of at least 0, not -1": ("--tierproof-seed", "-1"),
    "there is no folder nowhere": ("--tierproof-html", "nowhere/page.html"),
    "there is no folder nowhere;": ("--tierproof-counterexamples", "nowhere/found"),
    "written by one process": ("--tierproof-json", "a.json", "-n", "2"),
}


@pytest.mark.parametrize("said", MISTAKES)
def test_a_mistake_is_told_in_one_sentence(said, pytester):
    pytester.makepyfile("def test_it(): pass")
    result = run_kit(pytester, *MISTAKES[said])
    told = result.stdout.str() + result.stderr.str()
    assert result.ret == pytest.ExitCode.USAGE_ERROR, told
    assert said in " ".join(told.split())
    assert "Traceback" not in told


def test_a_missing_package_of_the_kit_is_named(pytester):
    pytester.makeconftest("import sys\nsys.modules['typer'] = None")
    code = (
        "import sys\nsys.modules['valkey'] = None\nfor name in ('numpy',):\n"
        "    sys.modules[name] = None\n"
        "import pytest\nfrom tierproof.properties import plugin\n"
        "sys.exit(pytest.main(['-p', 'no:tierproof', '--tierproof-manager', 'tierproof'],"
        " plugins=[plugin]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=pytester.path, capture_output=True, text=True
    )
    assert done.returncode == 4, done.stdout + done.stderr
    assert "the kit needs numpy, which is not installed" in done.stderr
    assert "pip install '.[kit]'" in done.stderr


# -- classes -------------------------------------------------------------------------------------

CLASS = """
from tierproof import TieredOffloadingManager
from tierproof.kit import ManagerConformance
from tierproof.properties.faults import FAULTS

def faulty(**arguments):
    return FAULTS["retry_on_promotion"].factory(**arguments)

class TestIt(ManagerConformance):
    {body}
    contracts = ("L1-answer-true", "L5-tiers-asked")
    rooms = ("answers",)
    histories = 3
"""


def hold(pytester, body, *arguments):
    pytester.makepyfile(CLASS.format(body=body))
    return run_kit(pytester, "-rA", *arguments)


@pytest.mark.parametrize(
    "body",
    [
        "factory = TieredOffloadingManager",
        "factory = staticmethod(lambda **a: TieredOffloadingManager(**a))",
        "factory = lambda **a: TieredOffloadingManager(**a)",
        "def factory(self, **a): return TieredOffloadingManager(**a)",
    ],
)
def test_a_factory_may_be_a_class_a_function_or_a_method(body, pytester):
    hold(pytester, body).assert_outcomes(passed=4)


def test_a_manager_that_breaks_a_contract_fails_in_its_words_by_both_methods(pytester):
    told = failures(hold(pytester, "factory = faulty"))
    assert {nodeid.rpartition("[")[2] for nodeid in told} == {
        "L1-answer-true-tour]",
        "L1-answer-true-runs]",
    }
    for text in told.values():
        assert "L1-answer-true is broken by test_" in text
        assert ".py:faulty after 2 operations" in text


def test_a_known_gap_is_an_expected_failure(pytester):
    result = hold(pytester, "factory = faulty; known_gaps = {'L1-answer-true': 'issue 7'}")
    result.assert_outcomes(passed=2, xfailed=2)
    assert "issue 7" in result.stdout.str()


def test_a_known_gap_that_is_closed_fails_in_the_tour_and_not_in_random_runs(pytester):
    body = "factory = TieredOffloadingManager; known_gaps = {'L1-answer-true': 'issue 7'}"
    (told,) = failures(hold(pytester, body)).items()
    assert told[0].endswith("[L1-answer-true-tour]")
    assert "a known gap of" in told[1]
    assert "take it out of known_gaps (issue 7)" in told[1]


def test_a_contract_that_is_not_claimed_is_skipped_and_said_to_be(pytester):
    result = hold(pytester, "factory = faulty; claims = ('L5-tiers-asked',)")
    result.assert_outcomes(passed=2, skipped=2)
    assert "L1-answer-true, tour: not claimed" in result.stdout.str()


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("claims = ('L9',); factory = faulty", "claims names 'L9', which is no contract"),
        ("known_gaps = ['L1-answer-true']; factory = faulty", "known_gaps must be a dict"),
        ("factory = object", "must accept factory(*, slots, tiers, clock, block_bytes)"),
        ("pass", "override factory(*, slots, tiers, clock, block_bytes)"),
        ("factory = lambda **a: 3", "which has no on_new_request"),
    ],
)
def test_a_class_that_cannot_be_held_fails_with_one_sentence(body, said, pytester):
    result = hold(pytester, body)
    (text,) = failures(result).values()
    assert said in " ".join(text.split())
    assert "Traceback" not in text
    result.assert_outcomes(failed=1, skipped=3)
    assert "the first test of its kind says why" in result.stdout.str()
    assert result.ret == 1


def test_a_tier_class_without_a_factory_fails_once(pytester):
    pytester.makepyfile(
        "from tierproof.kit import TierConformance\nclass TestIt(TierConformance): pass"
    )
    result = run_kit(pytester)
    (text,) = failures(result).values()
    assert "override factory(*, block_bytes, root, namespace)" in text
    result.assert_outcomes(failed=1, skipped=len(TIER_CONTRACTS) - 1)


def test_counterexamples_of_the_command_line_do_not_disturb_a_run_of_all_tests(pytester):
    pytester.makepyfile("def test_it(): pass")
    folder = pytester.mkdir(FOLDER.name)
    (folder / "test_found.py").write_text("def test_broken(): assert False")
    run_kit(pytester).assert_outcomes(passed=1)
    run_kit(pytester, ".").assert_outcomes(passed=1)
    for named in (FOLDER.name, f"{FOLDER.name}/test_found.py", f"./{FOLDER.name}"):
        run_kit(pytester, named).assert_outcomes(failed=1)
    run_kit(pytester, f"{FOLDER.name}/test_found.py::test_broken").assert_outcomes(failed=1)


# -- verdicts ------------------------------------------------------------------------------------


class Decided:
    """A trial that has been decided."""

    contracts = CONTRACTS

    def __init__(self, verdict, reaches=True):
        from tierproof.properties.report import Report, Result

        self.report, self.reaches = Report("pytest", "mine.py:Mine"), reaches
        self.decided = Result("L1-answer-true", TOUR, verdict, says="because")

    def result(self, contract, method):
        return self.decided

    def counterexample(self, contract):
        return None

    def must_reach(self, method):
        return self.reaches


@pytest.mark.parametrize(
    ("verdict", "outcome"),
    [
        ("violated", "broken by mine.py:Mine"),
        ("gap_closed", "a known gap of mine.py:Mine no more"),
        ("unknown", "could not be decided"),
        ("not_reached", "leave the contract out of its claims"),
    ],
)
def test_a_verdict_that_is_not_good_fails(verdict, outcome):
    with pytest.raises(pytest.fail.Exception, match=outcome):
        conformance.settle(Decided(verdict), "L1-answer-true", TOUR)


@pytest.mark.parametrize("verdict", ["not_claimed", "not_observable", "skipped", "not_reached"])
def test_what_was_not_looked_at_is_skipped_with_its_reason(verdict):
    with pytest.raises(pytest.skip.Exception, match="because"):
        conformance.settle(Decided(verdict, reaches=False), "L1-answer-true", RUNS)


def test_what_holds_passes():
    conformance.settle(Decided("holds"), "L1-answer-true", TOUR)
    conformance.settle(Decided("proved"), "L1-answer-true", TOUR)


def test_a_factory_is_called_as_the_command_line_would_call_it(pytester, monkeypatch):
    monkeypatch.chdir(pytester.path)
    pytester.makepyfile(
        mine="class Mine: pass\n\ndef make(): pass\n\nlocal = (lambda: (lambda: 3))()\n"
    )
    monkeypatch.syspath_prepend(pytester.path)
    import mine  # type: ignore[import-not-found]

    class Tests:
        def factory(self): ...

    assert name_of(mine.Mine) == "mine.py:Mine"
    assert name_of(mine.make) == "mine.py:make"
    assert ":" not in name_of(mine.local)
    assert ":" not in name_of(Tests().factory)
    assert ":" not in name_of(partial(mine.make))
    assert name_of(ManagerTrial) == "tierproof.properties.trial:ManagerTrial"


def test_no_file_is_written_for_a_factory_that_cannot_be_named(pytester):
    body = "def factory(self, **arguments): return faulty(**arguments)"
    folder = pytester.path / "found"
    result = hold(pytester, body, f"--tierproof-counterexamples={folder}")
    result.assert_outcomes(failed=2, passed=2)
    assert not folder.exists()
