"""Random runs: an ordinary Hypothesis machine, reproducible, that finds and shrinks."""

import logging
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import Phase, seed, settings
from hypothesis.stateful import RuleBasedStateMachine, run_state_machine_as_test

from tierproof import LookupResult, TieredOffloadingManager
from tierproof.model.operations import Lookup
from tierproof.properties.machine import LockstepMachine, fuzz, machine
from tierproof.properties.managers import shipped


@pytest.fixture(autouse=True)
def _quiet(caplog):
    """Tiers are made to fail on purpose; what the manager logs of it would only cost time."""
    caplog.set_level(logging.CRITICAL, logger="tierproof")


class AnswersRetry(TieredOffloadingManager):
    """Answers RETRY where a promotion has been started."""

    def lookup(self, key, request):
        answer = super().lookup(key, request)
        return LookupResult.RETRY if answer is LookupResult.HIT_PENDING else answer


# Runs under the profile, the seed and the statistics that pytest was started with.
TestTheShippedManagerKeepsInStep = machine(shipped).TestCase


def test_the_machine_is_an_ordinary_state_machine_under_the_profile_of_whoever_runs_it():
    built = machine(shipped)
    assert issubclass(built, LockstepMachine)
    assert issubclass(built, RuleBasedStateMachine)
    mine, profile = built.TestCase.settings, settings()
    assert mine.max_examples == profile.max_examples
    assert mine.stateful_step_count == profile.stateful_step_count


USERS = """
from hypothesis import Phase, seed, settings
from tierproof.properties.machine import machine
from tierproof.properties.managers import shipped

settings.register_profile("three", max_examples=3, stateful_step_count=4, deadline=None)
settings.load_profile("three")
TestInStep = machine(shipped).TestCase
"""


def test_a_user_may_run_the_machine_with_hypothesis_own_options(tmp_path):
    (tmp_path / "test_mine.py").write_text(USERS)
    options = ["--hypothesis-seed=7", "--hypothesis-show-statistics"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *options, "test_mine.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Stopped because settings.max_examples=3" in done.stdout
    assert "Events:" in done.stdout, "the kinds of operations are counted as events"


def test_two_machines_do_not_share_their_managers():
    one, other = machine(shipped), machine(AnswersRetry)
    assert one.factory is shipped
    assert other.factory is AnswersRetry


def test_random_runs_with_the_same_seed_are_the_same():
    first, second = (fuzz(shipped, examples=15, steps=15, seed=11) for _ in range(2))
    assert first.divergences == []
    assert (first.seed, first.examples) == (11, second.examples)
    assert first.operations == second.operations
    assert first.reached == second.reached != fuzz(shipped, examples=15, steps=15, seed=13).reached


def test_a_seed_is_drawn_and_told_when_none_is_given():
    seeds = {fuzz(shipped, examples=1, steps=1).seed for _ in range(3)}
    assert len(seeds) > 1, "each run explores something else"


def test_progress_is_told_after_each_example():
    told: list[tuple[int, int]] = []
    result = fuzz(shipped, examples=5, steps=5, seed=1, progress=lambda *now: told.append(now))
    assert told[-1] == (5, 5)
    assert [done for done, _ in told] == [min(n, 5) for n in range(1, result.examples + 1)]


def test_a_faulty_manager_is_found_and_its_history_shrunk():
    (found,) = fuzz(AnswersRetry, examples=100, seed=4).divergences
    assert found.contract in ("L1-answer-true", "L2-until-landed")
    assert found.method == "runs"
    assert found.divergence.expected == "HIT_PENDING"
    assert found.divergence.got == "RETRY"
    assert len(found.history) <= 3, f"not shrunk: {[str(op) for op in found.history]}"
    assert isinstance(found.history[-1], Lookup)
    assert len(found.setting.keys) <= 2, "settings shrink as well"


def test_the_same_seed_finds_the_same_history():
    runs = [fuzz(AnswersRetry, examples=60, seed=5).divergences[0] for _ in range(2)]
    assert runs[0].history == runs[1].history
    assert runs[0].setting == runs[1].setting


def test_a_failing_machine_speaks_in_the_words_of_the_contract():
    quick = settings(
        max_examples=60,
        stateful_step_count=5,
        database=None,
        deadline=None,
        print_blob=False,
        report_multiple_bugs=False,
        phases=(Phase.generate, Phase.shrink),
    )
    said = r"L\d-.*\n  here: lookup of k\d by \w+ answered RETRY, to be answered: HIT_PENDING"
    with pytest.raises(AssertionError, match=said):
        run_state_machine_as_test(seed(1)(machine(AnswersRetry)), settings=quick)


def test_a_manager_that_lacks_the_optional_calls_is_run_without_them():
    class Few(TieredOffloadingManager):
        withdraw = reset_cache = lookup_many = None  # type: ignore[assignment]

    assert fuzz(Few, examples=15, steps=20, seed=2).divergences == []


def test_an_exception_of_the_kit_is_not_taken_for_a_finding():
    def broken(**_):
        raise AssertionError("the factory's own")

    with pytest.raises(AssertionError, match="the factory's own"):
        fuzz(broken, examples=2, seed=1)


def test_random_runs_touch_neither_profiles_nor_the_example_database(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    profile, default = settings.get_current_profile_name(), settings.default
    fuzz(AnswersRetry, examples=30, steps=10, seed=3)
    assert settings.get_current_profile_name() == profile
    assert settings.default == default
    assert not list(Path(tmp_path).rglob("*")), "nothing is written where the user stands"
