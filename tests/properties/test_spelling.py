"""A word of the table that does not exist is told with the word that was meant."""

from dataclasses import replace

import pytest

from tierproof.model.rules import RULES
from tierproof.properties import spelling
from tierproof.properties.spelling import misspelt

HIT = next(rule for rule in RULES if rule.name == "hit")


def test_the_table_is_spelt_right():
    assert misspelt() == []


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"event": "lokup"}, "there is no event 'lokup'; did you mean 'lookup'?"),
        ({"answer": "HITT"}, "there is no answer 'HITT'; did you mean 'HIT'?"),
        ({"reason": "OVRDUE"}, "there is no reason 'OVRDUE'; did you mean 'OVERDUE'?"),
        ({"when": {"phse": ("RESIDENT",)}}, "there is no word 'phse'; did you mean 'phase'?"),
        ({"when": {"phase": ("RESIDNT",)}}, "no value of phase 'RESIDNT'; did you mean 'RESIDENT'"),
        ({"when": {"phase": ()}}, "the guard 'phase' allows nothing"),
        ({"then": {"hit[asker]": "YEs"}}, "no effect on hit[asker] 'YEs'"),
        ({"then": {"hitt[asker]": "YES"}}, "there is no word 'hitt'; did you mean 'hit'?"),
        ({"then": {"hit[askr]": "YES"}}, "there is no role 'askr'; did you mean 'asker'?"),
        ({"then": {"slot": "tak"}}, "no effect on slot 'tak'; did you mean 'take'?"),
        ({"then": {"transfer": "start LAOD"}}, "did you mean 'start LOAD'?"),
        ({"then": {"submits": {"0": "l"}}}, "no effect on submits 'l'; it may be 0, 1, 2+"),
        ({"then": {"source": "teir"}}, "no effect on source 'teir'; did you mean 'tier'?"),
    ],
)
def test_a_misspelt_word_is_told_with_the_one_that_was_meant(changed, words):
    (wrong,) = misspelt([replace(HIT, **changed)])
    assert wrong.startswith("the rule 'hit': ")
    assert words in wrong


def test_a_command_with_a_misspelt_table_ends_in_a_sentence(monkeypatch, capsys):
    from tierproof._entry import main

    monkeypatch.setattr(spelling, "misspelt", lambda: ["the rule 'hit': there is no event 'x'"])
    assert main() == 2
    told = capsys.readouterr().err
    assert told == "tierproof: model/rules.py, the rule 'hit': there is no event 'x'\n"
