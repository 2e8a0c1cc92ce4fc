"""A manager that does not claim everything still sees long histories, and all of its claims."""

from pathlib import Path

import pytest

from tierproof.model.operations import (
    CompleteStore,
    Lookup,
    PrepareStore,
    Setting,
    StepEnd,
    TierSetting,
)
from tierproof.properties.checks import by_runs
from tierproof.properties.histories import many
from tierproof.properties.leading import MOST, Led
from tierproof.properties.lockstep import Divergence, Lockstep
from tierproof.properties.machine import fuzz
from tierproof.properties.managers import resolve
from tierproof.properties.moves import Menu
from tierproof.properties.real_tiers import EPISODES, with_files
from tierproof.properties.report import Report
from tierproof.properties.tour import Patience

SAMPLE = Path(__file__).parents[1] / "sample_repository" / "small_manager.py"
SETTING = Setting(slots=2, keys=("k0", "k1"), tiers=(TierSetting("t0"),))
WRITTEN, STEP = CompleteStore(1), StepEnd()
TO_THE_STORE = (PrepareStore(("k0",), "r0"), STEP)


@pytest.fixture(scope="module")
def small():
    """A manager that copies nothing to its tiers, and does not claim to."""
    return resolve(f"{SAMPLE}:SmallManager")


def led_to_the_store(small):
    led = Led(small.factory, Lockstep(small.factory, SETTING), small.answers_for)
    for op in TO_THE_STORE:
        led.do(op)
    return led


def test_a_history_goes_on_where_the_manager_does_what_it_does_not_claim(small):
    led = led_to_the_store(small)
    assert WRITTEN in led.now(Menu())
    led.do(WRITTEN)
    assert [found.contract for found in led.passed] == ["C1-cascade-once"]
    assert led.passed[0].history == (*TO_THE_STORE, WRITTEN)
    assert tuple(led.lockstep.history) == TO_THE_STORE, "it is where they last agreed"
    assert WRITTEN not in led.now(Menu())
    led.do(Lookup("k0", "r0"))
    assert led.lockstep.shown[-1][2] == "HIT_PENDING"
    assert WRITTEN not in led.now(Menu()), "it would go wrong again"


def test_what_counts_still_ends_a_history(small):
    led = Led(small.factory, Lockstep(small.factory, SETTING))
    led.do(TO_THE_STORE[0])
    led.do(STEP)
    with pytest.raises(Divergence, match="C1-cascade-once"):
        led.do(WRITTEN)


def test_a_history_that_goes_wrong_everywhere_is_given_up(small):
    led = led_to_the_store(small)
    for _ in range(MOST):
        led.do(WRITTEN)
        assert not led.over
    led.do(WRITTEN)
    assert (led.over, led.now(Menu())) == (True, [])


@pytest.mark.parametrize("seed", [0, 1])
def test_runs_are_as_long_for_a_manager_that_claims_less(small, seed):
    result = fuzz(small.factory, examples=40, seed=seed, counts=small.answers_for)
    assert result.examples >= 40
    assert result.operations >= 30 * result.examples, "histories of 50 operations were asked for"
    assert not any(small.answers_for(found.contract) for found in result.divergences)
    drawn = many(small.factory, count=40, seed=seed, patience=Patience(counts=small.answers_for))
    assert (drawn.histories, drawn.operations) == (40, 40 * 60)
    assert not any(small.answers_for(found.contract) for found in drawn.divergences)


def test_real_files_go_on_with_another_episode(small):
    result = with_files(small.factory, operations=300, seed=0, counts=small.answers_for)
    assert result.operations > 100
    assert len(result.divergences) <= EPISODES
    assert len(with_files(small.factory, operations=300, seed=0).divergences) == 1


def test_a_report_says_when_less_was_tried_than_was_asked_for(small):
    report = Report("fuzz", small.spec)
    by_runs(small, report, examples=10, seed=0, files=3000)
    assert report.lines[-1] == "files: fewer than the 3,000 that were asked for"
    assert not any(line.startswith("runs: fewer") for line in report.lines)
