"""The concrete and the symbolic reading of the table agree, and a fault in either is seen."""

import pytest

from tierproof.model.reading import World
from tierproof.model.rules import RULES
from tierproof.properties import readings, symbolic
from tierproof.properties.readings import compare
from tierproof.properties.terms import value

from .support import rule, table_with


@pytest.fixture(scope="module")
def compared():
    return compare(worlds=1)


def test_both_readings_agree_on_every_rule(compared):
    assert not compared.differences
    assert compared.cases > 5_000, "every combination of values, and a world for each rule"


@pytest.mark.nightly
def test_both_readings_agree_in_ten_worlds_for_each_rule():
    assert not compare(worlds=10, seed=1).differences


def differences(*names):
    """What differs for a few rules; their events' other rules are compared as well."""
    events = {rule(name).event for name in names}
    return compare([r for r in RULES if r.event in events], worlds=1).differences


def test_a_concrete_reading_that_keeps_a_permit_is_seen(monkeypatch):
    monkeypatch.setattr(World, "_verb_permit", lambda *_: None)
    assert any("permit" in d for d in differences("failed"))


def test_a_concrete_reading_that_forgets_whom_it_waits_for_is_seen(monkeypatch):
    monkeypatch.setattr(World, "_word_others", lambda *_: "NONE")
    assert any("rules of let_go that match" in d for d in differences("one_of_many"))


def test_a_symbolic_reading_that_maps_too_much_is_seen(monkeypatch):
    def always_two(name, effect, old):
        return value(name, "2+") if name == "submits" else plain(name, effect, old)

    plain = symbolic.new_term
    monkeypatch.setattr(symbolic, "new_term", always_two)
    monkeypatch.setattr(readings, "new_term", always_two)
    assert any("submits" in d for d in differences("submitted"))


def test_the_comparison_is_of_the_table_that_it_is_given():
    other = table_with("hit", then={})
    hits = [r for r in other if r.event == "lookup"]
    assert not compare(hits, worlds=1).differences
