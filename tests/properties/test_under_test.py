"""The hand-driven tier does what it is told, and nothing of itself."""

import inspect
from dataclasses import fields
from typing import Any

import pytest

from tierproof import Arena, TierError
from tierproof.impl.tiers.base import Claim, LoadJob, RequestInfo, StoreJob, StorePolicy
from tierproof.model.operations import Setting
from tierproof.properties import protocol_page
from tierproof.properties.managers import OPTIONAL_SIGNATURES
from tierproof.properties.under_test import (
    OPTIONAL_CALLS,
    HandDrivenTier,
    OptionalCalls,
    garbage,
    payload,
)

SIZE = 64
WHO = RequestInfo("r0", 1)
LOAD = LoadJob(7, ("a", "b"), (0, 1), WHO)
STORE = StoreJob(8, ("a", "b"), (0, 1), WHO)


@pytest.fixture
def arena():
    return Arena(slots=3, block_bytes=SIZE)


@pytest.fixture
def tier(arena):
    made = HandDrivenTier("t0")
    made.attach(arena)
    return made


def row(arena, slot):
    return bytes(arena.row(slot))


def put(arena, slot, data):
    arena.row(slot)[:] = data


def test_payloads_fill_a_block_carry_their_key_and_differ():
    assert len(payload("a", SIZE)) == len(garbage("a", SIZE)) == SIZE
    assert b"<a>" in payload("a", SIZE)
    assert len({payload("a", SIZE), payload("b", SIZE), garbage("a", SIZE)}) == 3
    assert payload("a", 3) == b"<a>", "a block may be smaller than what marks it"


def test_a_tier_answers_as_it_was_told_and_absent_otherwise(tier):
    tier.minds["a"] = "PRESENT"
    tier.minds["b"] = "UNDECIDED"
    answers = [tier.lookup(key, WHO) for key in "abc"]
    assert answers == [Claim.PRESENT, Claim.UNDECIDED, Claim.ABSENT]
    assert tier.log == [("asked", "a"), ("asked", "b"), ("asked", "c")]


def test_a_load_touches_nothing_until_it_is_told_to_end(tier, arena):
    tier.submit_load(LOAD)
    assert tier.poll().reports == ()
    assert row(arena, 0) == bytes(SIZE)
    tier.end(7, ("a", "b"))
    assert (row(arena, 0), row(arena, 1)) == (payload("a", SIZE), payload("b", SIZE))
    (report,) = tier.poll().reports
    assert (report.job_id, report.landed) == (7, {"a", "b"})
    assert tier.poll().reports == (), "a job is reported once"


def test_a_load_that_lands_in_part_leaves_garbage_where_it_failed(tier, arena):
    tier.submit_load(LOAD)
    tier.end(7, ("b",))
    assert row(arena, 0) == garbage("failed load", SIZE)
    assert row(arena, 1) == payload("b", SIZE)
    assert tier.poll().reports[0].landed == {"b"}


def test_a_load_brings_the_bytes_that_were_stored_and_not_what_ought_to_have_been(tier, arena):
    tier.kept["a"] = b"x" * SIZE
    tier.submit_load(LOAD)
    tier.end(7, ("a",))
    assert row(arena, 0) == b"x" * SIZE


def test_a_store_keeps_what_is_in_the_slot_when_it_ends(tier, arena):
    assert tier.submit_store(STORE) == ()
    put(arena, 0, payload("a", SIZE))
    put(arena, 1, payload("b", SIZE))
    tier.end(8, ("a",))
    assert tier.kept == {"a": payload("a", SIZE)}
    assert tier.lookup("a", WHO) is Claim.PRESENT
    assert tier.lookup("b", WHO) is Claim.ABSENT


def test_a_store_that_finds_other_bytes_says_so_and_still_reports(tier, arena):
    tier.submit_store(STORE)
    put(arena, 0, payload("another key", SIZE))
    with pytest.raises(AssertionError, match=r"given other bytes to store under \['a'\]"):
        tier.end(8, ("a",))
    assert len(tier.poll().reports) == 1


def test_a_job_that_is_never_told_to_end_is_named_when_the_tier_is_drained(tier):
    tier.submit_load(LOAD)
    assert tier.drain(0.0) == (7,)
    tier.shutdown()
    assert tier.log[-1] == ("shut down", None)


def test_a_job_ends_once(tier):
    tier.submit_load(LOAD)
    tier.end(7, ())
    with pytest.raises(KeyError):
        tier.end(7, ())


def test_a_tier_may_report_what_it_must_not(tier):
    tier.misreport(7, ("a",))
    tier.misreport(7, ("a",))
    assert [r.job_id for r in tier.poll().reports] == [7, 7]


def test_a_tier_may_verify_a_key_anew(tier):
    tier.verify("a")
    assert tier.lookup("a", WHO) is Claim.PRESENT
    assert tier.poll().verified == ("a",)
    assert tier.poll().verified == ()


@pytest.mark.parametrize(
    ("mood", "call"),
    [
        ("raise on lookup", lambda tier: tier.lookup("a", WHO)),
        ("raise on submit", lambda tier: tier.submit_load(LOAD)),
        ("raise on submit", lambda tier: tier.submit_store(STORE)),
        ("raise on poll", lambda tier: tier.poll()),
    ],
)
def test_a_tier_that_is_told_to_raise_raises_is_seen_to_be_called_and_takes_nothing(
    tier, mood, call
):
    tier.moods.add(mood)
    with pytest.raises(TierError, match=f"tier t0 was told to {mood}"):
        call(tier)
    assert len(tier.log) == 1
    assert not tier.jobs
    tier.moods.clear()
    call(tier)


def test_a_tier_that_raised_when_polled_keeps_its_mail(tier):
    tier.misreport(7, ())
    tier.moods.add("raise on poll")
    with pytest.raises(TierError):
        tier.poll()
    tier.moods.clear()
    assert len(tier.poll().reports) == 1


def test_a_tier_may_refuse_stores(tier):
    tier.moods.add("refuse stores")
    assert tier.submit_store(STORE) == ("a", "b")
    assert not tier.jobs


def test_a_tier_that_is_cleared_forgets(tier):
    tier.minds["a"] = "PRESENT"
    tier.kept["a"] = b"x" * SIZE
    tier.clear()
    assert tier.lookup("a", WHO) is Claim.ABSENT
    assert not tier.kept


def test_a_tier_hears_of_requests_and_has_its_policy(tier):
    assert tier.on_new_request(WHO) is StorePolicy.NEW_BLOCKS
    tier.on_request_finished(WHO)
    assert tier.log == [("begun", WHO), ("told", WHO)]
    assert HandDrivenTier("t", whole_request=True).on_new_request(WHO) is StorePolicy.WHOLE_REQUEST


def test_a_tier_that_got_no_arena_says_so():
    tier = HandDrivenTier("t0")
    tier.submit_load(LOAD)
    with pytest.raises(TierError, match=r"tier t0 was used before attach\(arena\)"):
        tier.end(7, ("a",))


def test_the_page_tells_every_setting_that_a_manager_is_held_to():
    numbers = {f.name for f in fields(Setting) if f.type in ("float", "float | None", "int")}
    assert set(protocol_page.SETTINGS) == numbers - {"slots"}


def test_the_calls_that_may_be_missing_are_those_that_are_tried():
    assert set(OPTIONAL_CALLS) == set(OPTIONAL_SIGNATURES)
    calls: dict[str, Any] = dict(OPTIONAL_SIGNATURES)
    for name, asked in calls.items():
        told = set(inspect.signature(getattr(OptionalCalls, name)).parameters)
        assert set(inspect.signature(asked).parameters) == told
