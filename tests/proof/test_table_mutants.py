"""Every one-cell break of the table is refuted by the proof, or is no break at all."""

import pytest

from tierproof.properties.mutants import table_fates
from tierproof.properties.table_mutants import is_equivalent, kill_by_proof, table_mutants

MUTANTS = table_mutants()
BY_NAME = {mutant.name: mutant for mutant in MUTANTS}
PINNED = 1896
EVERY = 60
"""The tests look at one mutant of so many; all of them are for `tierproof mutants`."""


def test_the_number_of_breaks_is_pinned_and_each_has_a_name():
    assert len(MUTANTS) == len(BY_NAME) == PINNED


def test_every_rule_and_every_given_is_broken():
    touched = {name.partition(":")[0].partition(" deleted")[0] for name in BY_NAME}
    rules = {r.name for r in MUTANTS[0].table} | {MUTANTS[0].name.partition(" ")[0]}
    given = {name for name, event in MUTANTS[0].events.items() if event.given}
    assert touched == rules | given


@pytest.mark.parametrize("mutant", MUTANTS[::EVERY], ids=lambda m: m.name)
def test_a_break_does_not_survive(mutant):
    assert kill_by_proof(mutant) or is_equivalent(mutant)


@pytest.mark.nightly
def test_no_break_survives():
    assert not [f.name for f in table_fates() if f.verdict == "survived"]


@pytest.mark.parametrize(
    ("name", "contract"),
    [
        ("promote: answers RETRY", "L1-answer-true"),
        ("undecided deleted", "L1-answer-true"),
        ("evicted: when hits dropped", "L6-hit-holds"),
        ("failed: then retracted[tier] dropped", "F2-claim-retracted"),
        ("load_overdue: then phase dropped", "P1-progress"),
        ("unpin: given state dropped", "S4-operations"),
        ("no_slot: reason ABSENT", "L1-answer-true"),
    ],
)
def test_a_break_is_blamed_on_the_contract_that_it_breaks(name, contract):
    assert kill_by_proof(BY_NAME[name]) == contract


@pytest.mark.parametrize(
    "name",
    [
        "submitted: then submits = 1",  # it was 0
        "evicted: when phase or QUEUED",  # a queued promotion is waited for
        "last_waiter: then waits[asker] of all",  # nobody else waits
    ],
)
def test_a_break_that_changes_nothing_is_proved_equivalent(name):
    assert kill_by_proof(BY_NAME[name]) is None
    assert is_equivalent(BY_NAME[name])


@pytest.mark.parametrize(
    "name",
    [
        "promote: answers RETRY",
        "evicted: when hits dropped",
        "submitted: then phase dropped",
        "let_go: given waits[asker] dropped",
        "hit deleted",
    ],
)
def test_a_real_break_is_not_taken_for_an_equivalent_one(name):
    assert not is_equivalent(BY_NAME[name])
