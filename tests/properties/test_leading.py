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
from tierproof.properties.counterexamples import replay
from tierproof.properties.histories import many
from tierproof.properties.leading import MOST, Led
from tierproof.properties.lockstep import Divergence, Lockstep
from tierproof.properties.machine import fuzz
from tierproof.properties.managers import resolve
from tierproof.properties.moves import Menu
from tierproof.properties.real_tiers import EPISODES, with_files
from tierproof.properties.report import Report
from tierproof.properties.rooms import ROOMS
from tierproof.properties.tour import Patience, tour

SAMPLE = Path(__file__).parents[1] / "sample_repository" / "small_manager.py"
SETTING = Setting(slots=2, keys=("k0", "k1"), tiers=(TierSetting("t0"),))
WRITTEN, STEP = CompleteStore(1), StepEnd()
TO_THE_STORE = (PrepareStore(("k0",), "r0"), STEP)


@pytest.fixture(scope="module")
def small():
    """A manager that copies nothing to its tiers, and does not claim to."""
    return resolve(f"{SAMPLE}:SmallManager")


def led_to_the_store(small):
    led = Led(small.factory, Lockstep(small.factory, SETTING, counts=small.answers_for))
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


def toured(tmp_path, room, right="", wrong=""):
    """What a tour of one room finds that counts, of the sample's manager written otherwise."""
    text = SAMPLE.read_text()
    assert right in text
    (tmp_path / "mine.py").write_text(text.replace(right, wrong) if right else text)
    chosen = resolve(f"{tmp_path / 'mine.py'}:SmallManager")
    rooms = [r for r in ROOMS if r.name == room]
    found = tour(
        chosen.factory, rooms=rooms, processes=1, patience=Patience(counts=chosen.answers_for)
    )
    assert found.cases > 50
    return chosen, [f for f in found.divergences if chosen.answers_for(f.contract)]


LET_GO = "            {}:\n                self._let_go(key, {})"
READ = LET_GO.format("if operation.request in block.waits", "operation.request")
ALL_READ = LET_GO.format("for request in list(block.waits)", "request")
ENDED = "                for key in keys:\n                    if key in report.landed:"


def test_a_known_gap_in_what_is_said_of_pending_work_hides_nothing(tmp_path):
    assert toured(tmp_path, "hits")[1] == []
    chosen, found = toured(tmp_path, "hits", READ, ALL_READ)
    assert found, "one reader has ended everybody's promise"
    shown, divergence = replay(
        chosen.factory, found[0].setting, found[0].history, chosen.answers_for
    )
    assert divergence is not None
    assert (divergence.contract, len(shown)) == (found[0].contract, len(found[0].history))


def test_jobs_of_four_are_driven_without_a_call_for_several_lookups(tmp_path):
    assert toured(tmp_path, "jobs of four")[1] == []
    _, found = toured(tmp_path, "jobs of four", ENDED, ENDED.replace("in keys:", "in keys[:3]:"))
    assert "F1-partial-failure" in {f.contract for f in found}
