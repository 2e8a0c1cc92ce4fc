"""Random histories alone decide on a manager that nobody can look into: a right one, or a wrong."""

import random

import pytest

from tierproof import TieredOffloadingManager
from tierproof.model.operations import (
    Advance,
    CompleteStore,
    Flushed,
    Lookup,
    Mind,
    Mood,
    Operation,
    PrepareStore,
    Report,
    Reset,
    Setting,
    StepEnd,
    TierSetting,
)
from tierproof.properties.cli import main
from tierproof.properties.managers import resolve
from tierproof.properties.watch import Watch
from tierproof.properties.watch_runs import LARGE, LENGTH, operations
from tierproof.properties.watch_tour import runs

from .test_watch import blind

STRANGER = '''
from tierproof import TieredOffloadingManager

CALLS = ("on_new_request", "lookup", "prepare_load", "complete_load", "prepare_store",
         "complete_store", "on_schedule_end", "on_request_finished", "has_pending_work",
         "take_events", "reset_cache", "on_reset_flushed")


class Stranger:
    """A right manager that shows what it must show and nothing else."""

    judged_by_what_is_seen = True

    def __init__(self, **given):
        manager = TieredOffloadingManager(**given)
        self.arena = manager.arena
        for call in CALLS:
            setattr(self, call, getattr(manager, call))
'''
HAS_K0 = Setting(slots=1, tiers=(TierSetting("t0", has=("k0",)),))
STORED = (PrepareStore(("k0",), "r0"), StepEnd(), CompleteStore(1))


def test_a_right_manager_without_probes_passes_fuzz_alone(tmp_path, monkeypatch, capsys):
    (tmp_path / "stranger.py").write_text(STRANGER)
    monkeypatch.chdir(tmp_path)
    code = main(["fuzz", "--manager", "stranger.py:Stranger", "--examples", "150", "--seed", "1"])
    told = capsys.readouterr().out
    assert code == 0, told
    assert "not reached" not in told
    assert "violated" not in told


@pytest.mark.parametrize("fault", ["lookup_raises", "poll_raises", "submit_raises"])
def test_a_manager_that_lets_a_tier_s_exception_out_is_found_by_random_histories(fault):
    found = runs(blind(f"fault:{fault}"), examples=100, seed=1).found
    assert "F3-tier-raises" in found, sorted(found)


@pytest.mark.parametrize("fault", ["raising_is_undecided", "raising_hides_later_tiers"])
def test_what_a_tier_that_raises_must_not_change_is_seen_in_the_answers(fault):
    found = runs(blind(f"fault:{fault}"), examples=100, seed=1).found
    assert "L1-answer-true" in found, sorted(found)


def test_a_lost_slot_shows_when_a_history_comes_to_rest():
    found = runs(blind("fault:slot_lost"), examples=100, seed=1).found
    assert "F1-partial-failure" in found, sorted(found)


@pytest.mark.parametrize("seed", range(4))
def test_a_history_ends_with_tiers_that_work_and_nothing_under_way(seed):
    dice, late = random.Random(seed), random.Random(f"late {seed}")
    watch = Watch(resolve().factory, LARGE[2].setting)
    drawn: list[Operation] = []
    for op in operations(watch, LARGE[2], dice, late):
        drawn.append(op)
        assert watch.do(op) == []
    assert not watch.facts.moods()
    assert not [*watch.facts.flying(), *(c for c in watch.facts.running() if c.kind == "load")]
    assert any(isinstance(op, Mood) and op.on for op in drawn[LENGTH:])
    assert not any(isinstance(op, Mood) for op in drawn[:LENGTH])


def test_a_tier_that_raises_counts_when_it_has_been_called():
    watch = Watch(resolve().factory, HAS_K0)
    watch.run((StepEnd(), Mood("t0", "raise on submit"), Lookup("k0", "r0")))
    before = watch.reached["F3-tier-raises"]
    watch.run((StepEnd(),))
    assert (before, watch.reached["F3-tier-raises"]) == (0, 1)


RIGHT = {
    "a tier is not asked whose load has failed and whose copy failed too": (
        *(Lookup("k0", "r0"), StepEnd(("r0",)), Report(1, ()), *STORED, Report(2, ())),
        *(Reset(), Flushed(), Lookup("k0", "r0")),
    ),
    "a copy rests that failed after time had passed": (
        *(Advance(31.0), *STORED, Report(1, ()), *[StepEnd()] * 5),
    ),
    "the lease of a block begins when the manager hears that it has landed": (
        *(Lookup("k0", "r0"), StepEnd(), Report(1, ("k0",)), Advance(31.0), *[StepEnd()] * 5),
    ),
    "what a tier had not decided is open until somebody asks again": (
        *(Mind("t0", "k0", "UNDECIDED"), Lookup("k0", "r0"), StepEnd()),
        *(Mind("t0", "k0", "PRESENT"), *[StepEnd()] * 5),
    ),
}


@pytest.mark.parametrize("history", RIGHT.values(), ids=RIGHT)
def test_what_is_right_is_not_held_against_a_manager(history):
    assert Watch(resolve().factory, HAS_K0).run(history) == []


def test_a_reset_that_raises_is_not_judged_by_what_it_has_left(monkeypatch):
    def build(**given):
        manager = TieredOffloadingManager(**given)
        monkeypatch.setattr(manager, "reset_cache", not_today, raising=True)
        return manager

    def not_today(tiers):
        raise ValueError("not today")

    watch = Watch(build, HAS_K0)
    watch.run((*STORED, Report(1, ("k0",)), StepEnd()))
    assert [contract for contract, _ in watch.run((Reset(),))] == ["S4-operations"]
    assert not watch.reached["R1-reset"]
