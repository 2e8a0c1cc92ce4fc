"""Negative controls: tables that are known to be wrong, and the contracts that say so."""

import pytest

from tierproof.model.events import EVENTS
from tierproof.model.reading import TableError, refuse_bad_rules
from tierproof.properties.proof import prove

from .support import refuted, rule, table_with, without

UNTOUCHED_BY_A_LIVELOCK = {"F2-claim-retracted", "P1-progress"}


def test_answering_retry_where_a_promotion_was_started_is_refuted():
    broken = table_with("promote", answer="RETRY")
    assert "L1-answer-true" in refuted(prove(broken, only=["promote"]))


def test_answering_miss_where_somebody_waits_is_refuted():
    broken = table_with("promised", answer="MISS", reason="ABSENT", then={})
    assert {"L2-until-landed", "L3-until-read"} <= refuted(prove(broken, only=["promised"]))


def test_submitting_twice_is_refuted():
    broken = table_with("submitted", then=without(rule("submitted").then, "phase"))
    assert "L4-submitted-once" in refuted(prove(broken, only=["submitted"]))


def test_a_submission_that_is_not_counted_is_refuted():
    broken = table_with("submitted", then=without(rule("submitted").then, "submits"))
    assert refuted(prove(broken, only=["submitted"])) == {"L4-submitted-once"}


def test_a_claim_kept_after_a_failed_load_is_safe_but_makes_no_progress():
    kept = table_with("failed", then=without(rule("failed").then, "retracted[tier]"))
    found = prove(kept)
    assert refuted(found) == UNTOUCHED_BY_A_LIVELOCK
    assert {v.rule for v in found if v.verdict == "refuted"} == {"failed"}


def test_without_the_short_promise_a_hit_does_not_hold():
    broken = table_with("evicted", when=without(rule("evicted").when, "hits"))
    assert refuted(prove(broken, only=["evicted"])) == {"L6-hit-holds"}


@pytest.mark.parametrize(
    ("name", "part", "cell"),
    [
        ("promote", "when", "permits"),  # more promises than permits
        ("last_waiter", "then", "permit"),  # a permit that nobody gives back
        ("copy_takes_berth", "when", "berths"),
        ("last_one_out", "then", "berth"),
    ],
)
def test_stores_that_promises_or_cascades_can_starve_are_noticed(name, part, cell):
    broken = table_with(name, **{part: without(getattr(rule(name), part), cell)})
    assert "P2-room-for-stores" in refuted(prove(broken, only=[name]))


@pytest.mark.parametrize(
    ("name", "changes", "contract"),
    [
        ("writer_quarantined", {"slot": "free"}, "S2-no-reuse-under-transfer"),
        ("landed_late", {"phase": "RESIDENT"}, "R1-reset"),
        ("store_failed", {"cascade[all]": "DUE"}, "C1-cascade-once"),
        ("copied", {"cascade[tier]": "DUE"}, "C1-cascade-once"),
        ("copied_again_later", {"cascade[tier]": "NONE"}, "C2-cascade-reoffered"),
        ("finished", {"life[asker]": "ENDED"}, "Q1-finish"),
        ("failed", {"slot": "quarantine"}, "F1-partial-failure"),
        ("load_overdue", {"phase": "LOADING"}, "P1-progress"),
        ("pinned", {"transfer": "start STORE"}, "S3-pins"),
    ],
)
def test_a_wrong_effect_is_refuted_by_the_contract_that_it_breaks(name, changes, contract):
    broken = table_with(name, then={**rule(name).then, **changes})
    assert contract in refuted(prove(broken, only=[name]))


def test_a_deleted_rule_leaves_a_lookup_without_an_answer():
    broken = [r for r in table_with("undecided") if r.name != "undecided"]
    found = prove(broken, only=["absent"])
    assert refuted(found) == {"L1-answer-true"}
    assert {v.rule for v in found if v.verdict == "refuted"} == {"event lookup"}


def test_two_rules_for_one_case_are_refuted():
    broken = table_with("retracted", when={**rule("retracted").when, "tiers": ("UNCLAIMED",)})
    names = {v.obligation for v in prove(broken, only=["absent"]) if v.verdict == "refuted"}
    assert "has one outcome at most" in names


def test_a_rule_that_can_never_fire_is_refuted():
    broken = table_with("pinned", when={"phase": ("RESIDENT",), "life[asker]": ("ENDED",)})
    names = {v.obligation for v in prove(broken, only=["pinned"]) if v.verdict == "refuted"}
    assert "can happen" in names


def test_an_empty_set_of_values_is_refused_and_not_taken_for_false():
    broken = table_with("hit", when={"phase": ()})
    with pytest.raises(TableError, match="phase may be some of"):
        refuse_bad_rules(broken, EVENTS)
    with pytest.raises(ValueError, match="phase may be some of"):
        prove(broken, only=["hit"])
