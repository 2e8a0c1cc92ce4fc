"""What a lookup asks, answers and begins."""

import pytest

from tierproof.model import operations as ops

from .support import HIT, MISS, PENDING, RETRY, History, R, T


def says(h: History, tier: str, mind: str, key: str = "k0") -> None:
    h.do(ops.Mind(tier, key, mind))


def test_a_tier_that_has_the_block_is_answered_hit_pending_and_a_slot_and_a_permit_are_taken():
    h = History()
    assert h.lookup() == PENDING
    assert (h.phase(), h.free, h.permits, h.waits()) == ("QUEUED", 3, 1, True)


def test_tiers_are_asked_in_order_and_none_after_the_first_that_has_the_block():
    h = History(tiers=(T("t0"), T("t1", "k0"), T("t2", "k0")))
    assert h.lookup() == PENDING
    assert h.last.asked == (("t0", "k0"), ("t1", "k0"))


def test_an_undecided_tier_does_not_stop_a_later_tiers_claim():
    h = History(tiers=(T("t0", undecided=("k0",)), T("t1", "k0")))
    assert h.lookup() == PENDING
    assert not h.state.probes, "what was undecided is settled"


def test_a_filter_keeps_a_tier_from_being_asked():
    h = History(requests=(R("r0", "t1"),), tiers=(T("t0", "k0"), T("t1")))
    assert h.reason() == "ABSENT"
    assert h.last.asked == (("t1", "k0"),)


def test_the_tier_that_announced_a_request_is_not_asked_for_it():
    h = History(requests=(R("x0", external_of="t0"),))
    assert h.reason(request="x0") == "ABSENT"
    assert h.last.asked == ()


@pytest.mark.parametrize("begun", ["queued", "loading", "stored", "landed"])
def test_no_tier_is_asked_when_the_primary_tier_decides(begun):
    h = History()
    if begun == "stored":
        h.offer("k0")
    else:
        h.lookup()
    if begun in ("loading", "landed"):
        h.end()
    if begun == "landed":
        h.land()
    assert h.lookup() == (HIT if begun == "landed" else PENDING)
    assert h.last.asked == ()


def test_retry_is_answered_only_while_a_tier_is_undecided():
    h = History(tiers=(T("t0", undecided=("k0",)), T("t1")))
    assert h.lookup() == RETRY
    says(h, "t0", "ABSENT")
    assert h.reason() == "ABSENT"


def test_an_undecided_tier_comes_before_every_reason_to_miss():
    h = History(tiers=(T("t0"), T("t1", undecided=("k0",))))
    h.do(ops.Mood("t0", "raise on lookup"))
    assert h.lookup() == RETRY


def test_a_tier_that_raises_counts_as_a_miss_for_this_call_only():
    h = History()
    h.do(ops.Mood("t0", "raise on lookup"))
    assert h.reason() == "TIER_ERROR"
    h.do(ops.Mood("t0", "raise on lookup", on=False))
    assert h.lookup() == PENDING


def test_a_tier_that_raises_loses_the_time_that_it_was_undecided():
    h = History(tiers=(T("t0", undecided=("k0",)),))
    h.lookup()
    h.pass_time(4)
    h.do(ops.Mood("t0", "raise on lookup"))
    assert h.reason() == "TIER_ERROR"
    h.do(ops.Mood("t0", "raise on lookup", on=False))
    h.pass_time(4)
    assert h.lookup() == RETRY, "the deadline runs anew"


def failed(tier: str) -> History:
    """Tier t0 could not load the block; what `tier` says next is up to the test."""
    h = History(tiers=(T("t0", "k0"), T("t1", undecided=("k0",)), T("t2")))
    h.lookup()
    h.end()
    h.report(h.job())
    h.end()
    says(h, tier, "ABSENT")
    return h


def test_a_miss_names_the_first_reason_that_applies():
    h = failed("t2")
    assert h.lookup() == RETRY
    h.pass_time(5)
    h.do(ops.Mood("t2", "raise on lookup"))
    assert h.reason() == "TIER_ERROR"
    h.do(ops.Mood("t2", "raise on lookup", on=False))
    assert h.reason() == "PROBE_TIMEOUT"
    h = failed("t1")
    assert h.reason() == "FAILED"


def test_a_promotion_needs_a_permit_before_a_slot():
    h = History(slots=4, keys=("k0", "k1", "k2"))
    assert [h.lookup("k0"), h.lookup("k1")] == [PENDING, PENDING]
    assert h.reason("k2") == "FULL"
    assert (h.free, h.permits) == (2, 2)
    assert h.last.asked == (("t0", "k2"),), "FULL is decided only after asking"


def test_a_promotion_without_a_slot_misses_and_changes_nothing():
    h = History(slots=2, keys=("k0", "k1", "k2"), tiers=(T("t0", "k2"),))
    h.offer("k0", "k1")
    before = h.state.world.fields
    assert h.reason("k2") == "FULL"
    assert h.state.world.fields == before


def test_a_promotion_evicts_when_no_slot_is_free():
    h = History(slots=1, keys=("k0", "k1"), tiers=(T("t0", "k1"),))
    h.store("k0")
    h.land("CASCADE")
    assert h.lookup("k1") == PENDING
    assert (h.phase("k0"), h.phase("k1")) == ("ABSENT", "QUEUED")


def test_completions_are_absorbed_again_before_an_eviction_is_decided():
    h = History(slots=1, keys=("k0", "k1"), tiers=(T("t0", "k1"),))
    h.store("k0")
    assert h.reason("k1") == "FULL", "the block is pinned by its copy"
    h.land("CASCADE")
    assert h.lookup("k1") == PENDING


def test_a_claim_that_was_retracted_is_not_asked_again_until_it_is_verified_anew():
    h = failed("t1")
    assert h.retracted()
    h.do(ops.Verify("t0", "k0"))
    h.end()
    assert not h.retracted()
    assert h.lookup() == PENDING


def test_lookup_many_answers_as_lookups_one_by_one():
    keys = ("k0", "k1", "k2", "k3")
    tiers = (T("t0", "k0", "k1"), T("t1", undecided=("k2",)))
    together, alone = History(keys=keys, tiers=tiers), History(keys=keys, tiers=tiers)
    answers = together.do(ops.LookupMany(keys, "r0")).answer
    assert answers == tuple(alone.lookup(k) for k in keys) == (PENDING, PENDING, RETRY, MISS)
    assert together.state.canonical() == alone.state.canonical()


def test_a_probe_times_out_for_its_tier_key_and_request_alone():
    h = History(
        keys=("k0", "k1"), tiers=(T("t0", undecided=("k0", "k1")),), requests=(R("r0"), R("r1"))
    )
    h.lookup()
    h.pass_time(5)
    assert h.reason() == "PROBE_TIMEOUT"
    says(h, "t0", "PRESENT")
    assert h.reason() == "PROBE_TIMEOUT", "a probe that timed out is not asked again"
    assert h.last.asked == ()
    assert h.lookup("k1") == RETRY
    assert h.lookup(request="r1") == PENDING
    assert h.lookup() == PENDING, "what another request has begun is shared"


def test_a_probe_that_timed_out_is_not_taken_up_again_after_the_block_was_promised():
    h = History(tiers=(T("t0", undecided=("k0",)),), requests=(R("r0"), R("r1")))
    h.lookup()
    h.pass_time(5)
    assert h.reason() == "PROBE_TIMEOUT"
    says(h, "t0", "PRESENT")
    h.lookup(request="r1")
    assert h.lookup() == PENDING
    for request in ("r0", "r1"):
        h.do(ops.Withdraw(("k0",), request))
    assert h.reason() == "PROBE_TIMEOUT"


def test_a_probe_is_asked_once_more_at_its_deadline():
    h = History(tiers=(T("t0", undecided=("k0",)),))
    h.lookup()
    h.pass_time(5)
    says(h, "t0", "PRESENT")
    assert h.lookup() == PENDING


def test_a_decided_answer_ends_a_probe():
    h = History(tiers=(T("t0", undecided=("k0",)),))
    h.lookup()
    assert h.pending(), "an undecided probe is work"
    says(h, "t0", "ABSENT")
    h.lookup()
    assert not h.state.probes
    assert not h.pending()


def test_a_tier_that_wavers_goes_on_where_it_stopped():
    h = History(tiers=(T("t0", undecided=("k0",)),))
    h.lookup()
    h.pass_time(3)
    says(h, "t0", "ABSENT")
    assert h.reason() == "ABSENT"
    h.pass_time(100)
    says(h, "t0", "UNDECIDED")
    assert h.lookup() == RETRY
    h.pass_time(1.5)
    assert h.lookup() == RETRY
    h.pass_time(0.5)
    assert h.reason() == "PROBE_TIMEOUT", "three seconds then, two now"


def test_two_tiers_that_waver_in_turn_do_not_answer_retry_for_ever():
    h = History(tiers=(T("t0"), T("t1")))
    answers = []
    for step in range(20):
        for tier in ("t0", "t1"):
            says(h, tier, "UNDECIDED" if tier == f"t{step % 2}" else "ABSENT")
        answers.append(h.lookup())
        h.pass_time(1)
    assert answers == [RETRY] * answers.count(RETRY) + [MISS] * answers.count(MISS)
    assert 0 < answers.count(RETRY) <= 10, "one probe deadline of five steps for each tier"


def test_a_scheduled_request_leaves_no_question_open():
    h = History(tiers=(T("t0", undecided=("k0",)),))
    h.lookup()
    h.end("r0")
    assert not h.pending()


def test_a_retracted_claim_ends_the_question_that_was_open():
    h = History(tiers=(T("t0", undecided=("k0",)),), requests=(R("r0"), R("r1")))
    h.lookup()
    says(h, "t0", "PRESENT")
    h.lookup(request="r1")
    h.end()
    h.report(h.job())
    h.end()
    assert (h.retracted(), h.pending()) == (True, True)
    assert h.reason() == "FAILED"
    assert not h.pending()


def test_a_key_that_is_named_twice_is_asked_for_once():
    h = History(keys=("k0", "k1"), tiers=(T("t0", "k0"),))
    out = h.do(ops.Exists(("k0", "k1", "k0"), "r0"))
    assert out.answer == ("PRESENT", "ABSENT", "PRESENT")
    assert out.asked == (("t0", "k0"), ("t0", "k1"))


def test_without_a_probe_deadline_a_tier_may_be_undecided_for_ever():
    h = History(tiers=(T("t0", undecided=("k0",)),), probe_deadline=None)
    h.lookup()
    h.pass_time(1e9)
    assert h.lookup() == RETRY
    says(h, "t0", "ABSENT")
    h.lookup()
    assert h.state.spent == {}


def test_a_promotion_is_held_between_a_reset_and_its_flush_and_no_tier_is_asked():
    h = History()
    h.do(ops.Reset())
    assert h.reason() == "HELD"
    assert h.last.asked == ()
    h.do(ops.Flushed())
    assert h.lookup() == PENDING
