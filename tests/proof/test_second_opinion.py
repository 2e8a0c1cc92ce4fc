"""Spacer and cvc5 agree with the proof, and neither agrees with everything."""

import pytest

from tierproof.model.events import EVENTS
from tierproof.model.rules import RULES
from tierproof.properties.invariants import INVARIANTS
from tierproof.properties.logic import TRUE
from tierproof.properties.projection import Machine
from tierproof.properties.questions import CAN_HAPPEN, scenes
from tierproof.properties.second_opinion import CONTRACTS, _inductive, ask_spacer
from tierproof.properties.smtlib import export, reprove
from tierproof.properties.waiting_proof import theorems

from .support import rule, table_with, without

SOON = (
    "a promise is about a block that is there or on its way",
    "no promotion is submitted twice",
    "a resident block's slot holds its bytes",
)
SOME_RULES = ("promote", "failed", "writer_quarantined")


def test_spacer_finds_what_a_contract_rests_on_and_the_plain_solver_agrees():
    for opinion in ask_spacer(SOON):
        assert (opinion.verdict, opinion.checked) == ("holds", True), opinion
        assert opinion.invented > 0


@pytest.mark.nightly
def test_spacer_agrees_on_every_contract_that_it_is_asked_about():
    assert {(o.verdict, o.checked) for o in ask_spacer(CONTRACTS)} == {("holds", True)}


def test_spacer_refutes_a_block_that_is_evicted_under_its_waiter():
    broken = table_with("evicted", when=without(rule("evicted").when, "waiters"))
    (opinion,) = ask_spacer(["a promise is about a block that is there or on its way"], broken)
    assert opinion.verdict == "broken"


def test_what_spacer_invents_is_not_believed_unchecked():
    machine = Machine()
    contract = machine.holds(next(i for i in INVARIANTS if i.name == SOON[1]))
    assert not _inductive(machine, TRUE, contract), "implied by nothing"
    assert not _inductive(machine, contract, contract), "true, but not inductive alone"


def test_every_scene_is_exported_and_every_question_in_it(tmp_path):
    paths = export(tmp_path / "new" / "folder")
    mine = scenes(RULES, EVENTS)
    assert len(set(paths)) == len(mine) + 1, "and what is proved of deadlines"
    asked = sum(path.read_text().count("(check-sat)") for path in paths)
    of_rules = sum(q.name != CAN_HAPPEN for scene in mine for q in scene.questions)
    assert asked == of_rules + len(theorems())


def test_cvc5_proves_what_is_exported(tmp_path):
    paths = export(tmp_path, only=SOME_RULES)
    found = list(reprove(paths))
    assert not [(r.rule, r.failed) for r in found if r.failed]
    assert sum(r.proved for r in found) > 200


@pytest.mark.nightly
def test_cvc5_proves_everything(tmp_path):
    assert not [(r.rule, r.failed) for r in reprove(export(tmp_path)) if r.failed]


def test_cvc5_does_not_prove_what_is_false(tmp_path):
    broken = table_with("failed", then=without(rule("failed").then, "retracted[tier]"))
    failed = [
        label for r in reprove(export(tmp_path, broken, only=["failed"])) for label in r.failed
    ]
    assert {label.partition(":")[0] for label in failed} == {"F2-claim-retracted", "P1-progress"}
