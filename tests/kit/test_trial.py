"""A trial keeps to its budget, by a clock that counts how often it is asked."""

from functools import partial
from itertools import count
from typing import Any

import pytest

from tierproof import LookupResult, ManagerConfig, TieredOffloadingManager
from tierproof.properties import checks, watch_tour
from tierproof.properties import trial as trial_module
from tierproof.properties.budget import SECONDS, Budget
from tierproof.properties.contracts import RUNS, TOUR
from tierproof.properties.diagrams import svg
from tierproof.properties.managers import of_factory, resolve
from tierproof.properties.rooms import ROOMS
from tierproof.properties.tiers_under_test import chosen_tier
from tierproof.properties.tour import tour
from tierproof.properties.trial import METHODS, ManagerTrial, TierTrial

PROMISES = [room for room in ROOMS if room.name == "promises"]
JOBS = [room for room in ROOMS if room.name == "jobs"]


@pytest.fixture(autouse=True)
def _less_to_do(monkeypatch):
    monkeypatch.setattr(trial_module, "FILES", 20)
    monkeypatch.setattr(checks, "ASKINGS", 5)


def asked(seconds):
    """A budget whose clock goes on by one second whenever it is asked."""
    return Budget(seconds, clock=count().__next__)


def test_a_budget_counts_what_is_spent_in_its_parts_only():
    now = [0.0]
    budget = Budget(10, clock=lambda: now[0])
    with budget.part(0.5) as over:
        now[0] = 4.0
        assert not over()
        now[0] = 5.0
        assert over()
    now[0] = 100.0  # between two parts
    assert budget.left == 5.0
    with budget.part():
        now[0] = 200.0
    assert budget.left == 0.0


def test_a_budget_is_a_minute_unless_something_else_is_said():
    assert Budget().seconds == SECONDS == 60.0


def test_a_tour_ends_with_its_share_and_does_not_call_kept_what_it_did_not_finish():
    trial = ManagerTrial(resolve(), budget=asked(20), rooms=PROMISES, histories=0)
    result = trial.result("L1-answer-true", TOUR)
    assert result.verdict == "skipped"
    assert "the tour left 1 of 1 room unfinished" in result.says
    assert "--tierproof-budget" in result.says
    assert trial._budget.spent <= 20
    assert result.counts["rooms"] == 0


def test_a_fault_that_was_found_in_time_is_told_though_the_tour_was_cut_off():
    trial = ManagerTrial(
        resolve("retry_on_promotion"), budget=asked(6), rooms=PROMISES, histories=0
    )
    assert trial.result("L1-answer-true", TOUR).verdict == "violated"
    assert trial.counterexample("L1-answer-true") is not None
    assert trial.result("L5-tiers-asked", TOUR).verdict == "skipped"


def test_random_histories_end_with_their_share():
    trial = ManagerTrial(resolve(), budget=asked(40), rooms=(), histories=1_000_000)
    result = trial.result("L1-answer-true", RUNS)
    assert result.verdict in ("holds", "not_reached")
    assert 0 < result.counts["examples"] < 40
    assert trial._budget.spent <= 41


def test_without_any_history_nothing_is_called_kept():
    trial = ManagerTrial(resolve(), rooms=(), histories=0)
    assert trial.result("L1-answer-true", RUNS).verdict == "skipped"
    assert trial.result("L1-answer-true", TOUR).verdict == "skipped"


def test_a_tour_of_all_contracts_is_walked_once(monkeypatch):
    walked = []

    def counted(*arguments, **named):
        walked.append(1)
        return tour(*arguments, **named)

    monkeypatch.setattr(trial_module, "tour", counted)
    trial = ManagerTrial(resolve(), rooms=JOBS, histories=0)
    for contract in ("L1-answer-true", "L3-until-read", "D1-bytes"):
        trial.result(contract, TOUR)
    assert walked == [1]


def test_a_fault_of_ours_is_raised_for_every_test_and_not_only_the_first(monkeypatch):
    def broken(*arguments, **named):
        raise RuntimeError("a fault of ours")

    monkeypatch.setattr(trial_module, "tour", broken)
    trial = ManagerTrial(resolve(), rooms=PROMISES)
    for _ in range(2):
        with pytest.raises(RuntimeError, match="a fault of ours"):
            trial.result("L1-answer-true", TOUR)


def test_the_same_seed_gives_the_same_histories_and_another_one_others():
    def operations(seed):
        trial = ManagerTrial(resolve(), rooms=(), histories=3, seed=seed)
        trial.result("L1-answer-true", RUNS)
        return trial.report.lines[-1].partition(" operations")[0]

    assert operations(5) == operations(5)
    assert operations(5) != operations(50)


def test_a_tier_is_not_checked_when_its_time_is_over():
    with chosen_tier("memory") as chosen:
        trial = TierTrial(chosen, budget=asked(5))
        verdicts = [trial.result(c).verdict for c in ("T1-nonblocking", "T6-own-arguments")]
        again = [trial.result(c).verdict for c in ("T1-nonblocking", "T6-own-arguments")]
    assert verdicts == again == ["holds", "holds"]
    with chosen_tier("memory") as chosen:
        trial = TierTrial(chosen, budget=asked(1))
        result = trial.result("T1-nonblocking")
    assert result.verdict == "skipped"
    assert "no time was left in the budget of 1 s" in result.says


class OwnPolicies(TieredOffloadingManager):
    """Promotes at most one block at a time, and says so."""

    judged_by_what_is_seen = True

    def __init__(self, **given: Any) -> None:
        super().__init__(**given, config=ManagerConfig(promotion_share=0.01))


class OwnMistakes(OwnPolicies):
    """Answers RETRY where a block is on its way."""

    def lookup(self, key: Any, request: Any) -> LookupResult:
        answer = super().lookup(key, request)
        return LookupResult.RETRY if answer is LookupResult.HIT_PENDING else answer


@pytest.fixture
def watched(monkeypatch):
    """Trials of managers that are judged by what is seen alone, with few cases for each room."""
    few = partial(watch_tour.tour, cases=80)
    monkeypatch.setattr(watch_tour, "tour", few)

    def make(factory, **more):
        chosen = of_factory(factory, factory.__name__, **more)
        return ManagerTrial(chosen, budget=Budget(600), histories=6)

    return make


def test_a_manager_with_policies_of_its_own_is_judged_by_what_is_seen_alone(watched):
    trial = watched(OwnPolicies)
    verdicts = {m: trial.result("L1-answer-true", m).verdict for m in METHODS}
    assert verdicts == dict.fromkeys(METHODS, "holds")
    assert "judged by what is seen alone" in trial.report.lines[0]
    assert trial.result("A2-ask-no-more", RUNS).verdict == "not_observable"


def test_such_a_manager_is_found_out_and_its_history_can_be_drawn(watched):
    trial = watched(OwnMistakes)
    assert trial.result("L2-until-landed", TOUR).verdict == "violated"
    found = trial.counterexample("L2-until-landed")
    assert found is not None
    assert "here the contract is broken" in svg(found)
    assert [s.wrong for s in found.shown] == [False, True]


def test_a_known_gap_of_such_a_manager_that_is_closed_is_told_by_the_tour(watched):
    trial = watched(OwnPolicies, known_gaps={"L1-answer-true": "issue 7"})
    verdicts = [trial.result("L1-answer-true", m).verdict for m in METHODS]
    assert verdicts == ["gap_closed", "holds"]


def test_the_tour_of_such_a_manager_ends_with_its_share_too():
    trial = ManagerTrial(of_factory(OwnPolicies, "OwnPolicies"), budget=Budget(0.001))
    result = trial.result("L1-answer-true", TOUR)
    assert result.verdict == "skipped"
    assert "the tour was not finished in its share of the budget" in result.says
