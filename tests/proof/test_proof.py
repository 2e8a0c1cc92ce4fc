"""The shipped table is proved: everything, for any number of keys, requests, tiers and slots."""

from collections import Counter
from dataclasses import replace

import pytest

from tierproof.model.events import EVENTS, Event
from tierproof.model.rules import RULES, Rule
from tierproof.properties.contracts import CONTRACTS, PROOF
from tierproof.properties.cores import cells, unused_cells, uses
from tierproof.properties.invariants import INVARIANTS
from tierproof.properties.obligations import OBLIGATIONS
from tierproof.properties.proof import prove, versions
from tierproof.properties.questions import CAN_HAPPEN, scenes

from .support import table_with, without

# A check that shrinks must turn red: whoever adds a rule or an obligation raises these.
PINNED = {
    "A1-promote-what-is-read": 96,
    "C1-cascade-once": 463,
    "C2-cascade-reoffered": 236,
    "D1-bytes": 222,
    "F1-partial-failure": 35,
    "F2-claim-retracted": 229,
    "L1-answer-true": 286,
    "L2-until-landed": 150,
    "L3-until-read": 252,
    "L4-submitted-once": 520,
    "L6-hit-holds": 148,
    "P1-progress": 321,
    "P2-room-for-stores": 833,
    "Q1-finish": 402,
    "R1-reset": 231,
    "S1-slot-exclusive": 150,
    "S2-no-reuse-under-transfer": 449,
    "S3-pins": 83,
    "S4-operations": 409,
    "W1-pending-work": 41,
}
INVARIANTS_PINNED, OBLIGATIONS_PINNED = 41, 116
SOME_OF_EACH = ("promote", "failed", "writer_quarantined", "last_one_out", "stored_for_waiters")


def test_every_obligation_is_proved_and_none_is_unknown(verdicts):
    assert Counter(v.verdict for v in verdicts) == {"proved": len(verdicts)}
    assert versions()["z3"]


def test_the_numbers_of_obligations_are_pinned(verdicts):
    assert Counter(v.contract for v in verdicts) == PINNED
    assert (len(INVARIANTS), len(OBLIGATIONS)) == (INVARIANTS_PINNED, OBLIGATIONS_PINNED)


def test_every_contract_that_claims_a_proof_has_obligations(verdicts):
    claimed = {c.id for c in CONTRACTS.values() if PROOF in c.methods}
    assert claimed <= {v.contract for v in verdicts}


def test_invariants_and_obligations_have_names_of_their_own():
    names = [i.name for i in INVARIANTS] + [o.name for o in OBLIGATIONS]
    assert len(names) == len(set(names))


def test_every_obligation_applies_to_some_rule():
    assert not [o.name for o in OBLIGATIONS if not any(map(o.applies, RULES))]


def test_every_rule_can_fire(verdicts):
    able = {v.rule for v in verdicts if v.obligation == CAN_HAPPEN and v.verdict == "proved"}
    assert able == {rule.name for rule in RULES}, "of the others, nothing is proved"


@pytest.mark.parametrize("seed", [1, 2])
def test_other_seeds_prove_the_same(seed):
    assert {v.verdict for v in prove(seed=seed, only=SOME_OF_EACH)} == {"proved"}


@pytest.mark.nightly
@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("how", ["quantified", "instantiated"])
def test_ten_seeds_leave_nothing_unknown(seed, how):
    assert {v.verdict for v in prove(seed=seed, how=how)} == {"proved"}


def test_the_daily_run_proves_the_same_at_chosen_terms():
    quantified = prove(only=SOME_OF_EACH)
    daily = prove(only=SOME_OF_EACH, how="instantiated")
    assert {v.verdict for v in daily} == {"proved"}
    assert [(v.rule, v.obligation) for v in daily] == [(v.rule, v.obligation) for v in quantified]


def test_two_workers_say_what_one_says():
    one, two = prove(only=SOME_OF_EACH), prove(only=SOME_OF_EACH, workers=2)
    assert [(v.rule, v.obligation, v.verdict) for v in one] == [
        (v.rule, v.obligation, v.verdict) for v in two
    ]


def test_scenes_have_names_of_their_own():
    names = [scene.rule for scene in scenes(RULES, EVENTS)]
    assert len(names) == len(set(names))


def test_a_solver_that_gives_up_is_not_taken_for_a_proof():
    found = {v.verdict for v in prove(only=["failed"], rlimit=10)}
    assert "unknown" in found
    assert "refuted" not in found


def test_a_refutation_shows_the_world_before_and_after():
    when = without(next(r for r in RULES if r.name == "evicted").when, "hits")
    broken = prove(table_with("evicted", when=when), only=["evicted"])
    shown = next(v for v in broken if v.verdict == "refuted")
    assert shown.before["phase[key]"] == "RESIDENT"
    assert shown.after["phase[key]"] == "ABSENT"


def test_cores_name_cells_and_few_of_them_are_never_used(verdicts):
    used = uses(verdicts)
    assert used["evicted.when.waiters"] > 0
    assert used["invariant: a fresh transfer is on the slot of its block"] > 0
    # A core is not the smallest there is, so which cells are left varies. They decide between
    # rules, as totality and determinism need, or say what an invariant implies.
    unused = unused_cells(verdicts)
    assert len(unused) <= 12, unused
    assert set(unused) <= set(cells())


def test_a_rule_that_speaks_of_what_its_event_does_not_mention_is_refused():
    stray = replace(RULES[0], then={"retracted[tier]": "YES"}, event="read")
    with pytest.raises(ValueError, match="does not mention"):
        prove([stray])


def test_an_event_that_nobody_says_when_to_accept_is_refused():
    events = {"surprise": Event("surprise", ("key",), "something happens")}
    with pytest.raises(ValueError, match="say in OFFERED"):
        prove([Rule("surprised", "surprise", {})], events=events)


def test_an_event_of_every_key_moves_no_slot():
    broken = table_with("step_ends", then={"slot": "free"})
    with pytest.raises(ValueError, match="cannot move one slot"):
        prove(broken, only=["step_ends"])


def test_an_unknown_way_of_proving_is_refused():
    with pytest.raises(ValueError, match="how is one of"):
        prove(how="by hope")
