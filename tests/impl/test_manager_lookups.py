"""What a lookup answers, whom it asks, and what it starts."""

from __future__ import annotations

import pytest

from tierproof import ContractViolation, LookupResult, MissReason, TieredOffloadingManager
from tierproof.impl.requests import Request
from tierproof.impl.tiers.base import Claim, Key, StorePolicy

from .support import HIT, HIT_PENDING, MISS, RETRY, Rig, ScriptedTier


def test_promotion_from_a_secondary_tier():
    rig = Rig()
    rig.tier.has("k")
    request = rig.request()
    assert rig.lookup(request, "k") == [HIT_PENDING]
    rig.step()
    (job,) = rig.tier.loads
    assert (job.keys, job.request) == (("k",), request.info)
    assert rig.lookup(request, "k") == [HIT_PENDING]
    rig.step()
    rig.tier.done(job)
    assert rig.lookup(request, "k") == [HIT]
    rig.load(request, "k")


def test_a_failed_promotion_keeps_only_the_successful_blocks():
    rig = Rig(slots=8)
    rig.tier.has("a", "b", "c")
    request = rig.request()
    assert rig.lookup(request, "a", "b", "c") == [HIT_PENDING] * 3
    rig.step()
    rig.tier.done(rig.tier.loads[0], ["a", "c"])
    assert rig.lookup(request, "a", "b", "c") == [HIT, MISS, HIT]
    assert rig.probe.free_slots() == 6
    assert rig.manager.explain("b", request).reason is MissReason.FAILED


def test_lookups_batch_submit_load_per_request():
    rig = Rig(slots=12)
    rig.tier.has("a", "b", "c", "d")
    one, other = rig.request("one"), rig.request("other")
    rig.lookup(one, "a")
    rig.lookup(other, "b")
    rig.lookup(one, "c")
    rig.lookup(other, "d")
    rig.step()
    assert [(job.request.request_id, job.keys) for job in rig.tier.loads] == [
        ("one", ("a", "c")),
        ("other", ("b", "d")),
    ]


def test_a_block_shared_by_two_requests_is_promoted_once_and_both_are_answered_hit_pending():
    rig = Rig()
    rig.tier.has("k")
    one, other = rig.request("one"), rig.request("other")
    assert rig.lookup(one, "k") + rig.lookup(other, "k") == [HIT_PENDING] * 2
    rig.step()
    assert len(rig.tier.loads) == 1
    assert rig.tier.asked == ["k"]
    assert rig.probe.waiters("k") == {one.handle, other.handle}


def test_a_deferred_lookup_that_resolves_is_answered_hit_pending():
    rig = Rig()
    rig.tier.claims["k"] = Claim.UNDECIDED
    request = rig.request()
    assert rig.lookup(request, "k") == [RETRY]
    rig.step()
    rig.tier.has("k")
    assert rig.lookup(request, "k") == [HIT_PENDING]


@pytest.mark.parametrize(("only", "answer"), [("tier0", HIT_PENDING), ("tier1", MISS)])
def test_a_tier_filter_that_matches_lets_the_tier_be_asked_one_that_does_not_not(only, answer):
    rig = Rig(tiers=2)
    rig.tier.has("k")
    assert rig.lookup(rig.request("R", only), "k") == [answer]
    assert [tier.asked for tier in rig.tiers] == [
        ["k"] if only == tier.name else [] for tier in rig.tiers
    ]


@pytest.mark.parametrize("tier_filter", [["tape"], "tier0"])
def test_a_tier_filter_that_names_no_tier_is_refused(tier_filter):
    rig = Rig()
    with pytest.raises(ContractViolation, match=r"\['tier0'\]"):
        rig.manager.on_new_request("R", tier_filter=tier_filter)
    assert rig.tier.begun == []


def test_tiers_are_asked_in_order_and_none_after_the_first_that_has_the_block():
    rig = Rig(tiers=3)
    rig.tiers[1].has("k")
    assert rig.lookup(rig.request(), "k") == [HIT_PENDING]
    assert [len(tier.asked) for tier in rig.tiers] == [1, 1, 0]


def test_no_tier_is_asked_when_the_primary_tier_decides():
    rig = Rig()
    rig.tier.has("a", "b", "c")
    request = rig.request()
    operation = rig.begin_store(request, "b")
    rig.store(request, "c")
    assert rig.lookup(request, "a", "b", "c") == [HIT_PENDING, HIT_PENDING, HIT]
    assert rig.tier.asked == ["a"]
    rig.manager.complete_store(operation)


def test_an_undecided_tier_does_not_stop_a_later_tiers_hit():
    rig = Rig(tiers=2)
    rig.tiers[0].claims["k"] = Claim.UNDECIDED
    rig.tiers[1].has("k")
    request = rig.request()
    assert rig.lookup(request, "k") == [HIT_PENDING]
    assert not request.probes


def test_a_promotion_without_a_permit_or_a_slot_is_a_miss_that_changes_nothing():
    rig = Rig(slots=4)
    rig.tier.has("a", "b", "c")
    request = rig.request()
    assert rig.lookup(request, "a", "b", "c") == [HIT_PENDING, HIT_PENDING, MISS]
    assert rig.manager.explain("c", request).reason is MissReason.FULL

    rig = Rig(slots=2)
    rig.tier.has("a")
    request = rig.request()
    rig.begin_store(request, "x", "y")
    assert rig.lookup(request, "a") == [MISS]
    assert rig.manager.explain("a", request).reason is MissReason.FULL
    rig.probe.check()


def test_a_promotion_evicts_when_no_slot_is_free():
    rig = Rig(slots=2)
    request = rig.request()
    rig.store(request, "x", "y")
    rig.settle()
    rig.tier.has("k")
    assert rig.manager.explain("k", request).answer is HIT_PENDING
    assert rig.lookup(request, "k") == [HIT_PENDING]
    assert rig.probe.phase("y") == "ABSENT"
    rig.probe.check()


def test_completions_are_absorbed_at_the_first_call_of_a_step_and_not_at_the_second():
    rig = Rig(slots=8)
    request = rig.request()
    rig.lookup(request, "a")
    rig.lookup(request, "b")
    assert rig.tier.polls == 1
    rig.step()
    rig.step()
    assert rig.tier.polls == 2


def test_completions_are_absorbed_again_before_an_eviction_is_decided():
    rig = Rig(slots=2)
    rig.tier.has("a", "b")
    request = rig.request()
    rig.lookup(request, "a")
    rig.step()
    assert rig.lookup(request, "a") == [HIT_PENDING]
    rig.tier.fail(rig.tier.loads[0])
    assert rig.lookup(request, "b") == [HIT_PENDING], "the failed load's permit was not noticed"


def test_lookup_many_answers_as_lookup_does_key_by_key():
    def scene() -> tuple[Rig, Request]:
        rig = Rig(slots=12)
        rig.tier.has("promoted", "queued")
        rig.tier.claims["undecided"] = Claim.UNDECIDED
        request, other = rig.request(), rig.request("other")
        rig.store(request, "stored", "shared")
        rig.promote(request, "promoted")
        rig.lookup(other, "shared", "queued")
        return rig, request

    keys = ["stored", "shared", "promoted", "queued", "undecided", "absent", "stored", "queued"]
    rig, request = scene()
    one_by_one = rig.lookup(request, *keys)
    rig, request = scene()
    assert rig.manager.lookup_many(keys, request) == one_by_one
    assert rig.manager.lookup_many(keys, request) == one_by_one
    assert one_by_one == [HIT, HIT, HIT, HIT_PENDING, RETRY, MISS, HIT, HIT_PENDING]
    rig.probe.check()


def test_lookup_many_settles_the_probe_of_a_block_that_has_been_stored_meanwhile():
    rig = Rig()
    rig.tier.claims["k"] = Claim.UNDECIDED
    request = rig.request()
    assert rig.manager.lookup_many(["k"], request) == [RETRY]
    assert rig.manager.has_pending_work()
    rig.store(request, "k", "z")
    assert rig.manager.lookup_many(["k", "z"], request) == [HIT, HIT]
    assert not request.probes
    rig.settle()


def test_a_subclass_that_overrides_lookup_means_every_key():
    class Stubborn(TieredOffloadingManager):
        def lookup(self, key: Key, request: Request) -> LookupResult:
            return RETRY

    manager = Stubborn(slots=2, block_bytes=8)
    assert manager.lookup_many(["a", "b"], manager.on_new_request("R")) == [RETRY, RETRY]


@pytest.mark.parametrize("finished", [True, False], ids=["finished", "foreign"])
def test_a_handle_that_is_finished_or_foreign_is_refused_by_every_call(finished):
    rig = Rig()
    request = rig.request() if finished else Rig().request()
    if finished:
        rig.lookup(request, "k")
        rig.manager.on_request_finished(request)
    manager = rig.manager
    for call in (
        lambda: manager.lookup("k", request),
        lambda: manager.lookup_many(["k"], request),
        lambda: manager.explain("k", request),
        lambda: manager.prepare_load(["k"], request),
        lambda: manager.prepare_store(["k"], request),
        lambda: manager.touch(["k"], request),
        lambda: manager.withdraw(["k"], request),
        lambda: manager.on_schedule_end([request]),
        lambda: manager.on_request_finished(request),
        lambda: manager.external("tier0").send(["k"], request),
    ):
        with pytest.raises(ContractViolation, match=r"handle=0"):
            call()
    rig.probe.check()


def test_a_handle_of_the_wrong_type_is_refused():
    rig = Rig()
    with pytest.raises(ContractViolation, match="'R' is not a live request"):
        rig.manager.touch(["k"], "R")  # type: ignore[arg-type]


def test_explain_says_a_word_for_each_tier_and_changes_nothing():
    tiers = [ScriptedTier(name) for name in ("gone", "slow", "bad", "far", "home", "last")]
    gone, slow, bad, far, home, last = tiers
    rig = Rig(slots=8, tiers=tiers)
    request = rig.request("R", "gone", "slow", "bad", "home", "last")
    gone.has("k")
    rig.lookup(request, "k")
    rig.step()
    gone.fail(gone.loads[0])
    rig.notice()
    slow.claims["k"] = Claim.UNDECIDED
    bad.raises["lookup"] = OSError("no such disk")
    home.has("k")
    before = rig.probe.fingerprint()
    explanation = rig.manager.explain("k", request)
    assert (explanation.answer, explanation.reason) == (HIT_PENDING, None)
    assert explanation.tiers == {
        "gone": "retracted",
        "slow": "undecided",
        "bad": "raised",
        "far": "not allowed",
        "home": "present",
        "last": "not asked",
    }
    assert rig.probe.fingerprint() == before
    assert far.asked == last.asked == []


def test_explain_answers_as_lookup_does_in_every_phase():
    rig = Rig(slots=12, pending_deadline=10.0)
    request = rig.request()
    rig.tier.has("queued", "overdue")
    rig.lookup(request, "overdue")
    rig.step()
    rig.now = 10.0
    rig.lookup(request, "queued")
    rig.store(request, "stored")
    rig.begin_store(request, "storing")
    keys = ["queued", "overdue", "stored", "storing", "absent"]
    reasons = [MissReason.OVERDUE, MissReason.ABSENT]
    explained = [rig.manager.explain(key, request) for key in keys]
    assert [e.reason for e in explained if e.reason] == reasons
    assert [e.answer for e in explained] == rig.lookup(request, *keys)
    rig.manager.reset_cache()
    assert rig.manager.explain("absent", request).reason is MissReason.HELD


def test_every_tier_hears_of_every_request():
    rig = Rig(tiers=2)
    one, two = rig.request("same"), rig.request("same", "tier0")
    assert [tier.begun for tier in rig.tiers] == [[one.info, two.info]] * 2
    assert one.handle != two.handle
    assert repr(two) == "Request('same', handle=1)"


def test_a_tier_that_raises_when_it_hears_of_a_request_is_offered_new_blocks_only():
    whole = ScriptedTier(policy=StorePolicy.WHOLE_REQUEST)
    whole.raises["on_new_request"] = OSError()
    rig = Rig(tiers=[whole])
    assert rig.request().whole == 0


def test_a_lookup_without_a_permit_hears_first_what_has_ended():
    rig = Rig(slots=4, promotion_share=0.25)
    request = rig.request()
    rig.tier.has("k", "new")
    rig.lookup(request, "k")
    rig.step()
    rig.lookup(request, "nothing")
    rig.tier.fail(rig.tier.loads[0])
    assert rig.probe.free_slots() == 3
    assert rig.lookup(request, "new") == [HIT_PENDING]


def test_a_lookup_that_finds_a_permit_and_a_slot_polls_no_tier():
    rig = Rig(slots=4, promotion_share=0.5)
    request = rig.request()
    rig.tier.has("a", "b")
    rig.lookup(request, "nothing")
    polls = rig.tier.polls
    assert rig.lookup(request, "a", "b") == [HIT_PENDING, HIT_PENDING]
    assert rig.tier.polls == polls


def test_a_block_that_was_answered_hit_to_requests_that_have_all_ended_may_go():
    rig = Rig(slots=1)
    requests = [rig.request(str(number)) for number in range(3)]
    rig.store(requests[0], "a")
    rig.settle()
    for request in requests:
        assert rig.lookup(request, "a") == [HIT]
    rig.tier.has("k")
    assert rig.lookup(rig.request("late"), "k") == [MISS]
    for request in requests:
        rig.manager.on_request_finished(request)
    assert rig.lookup(rig.request("later"), "k") == [HIT_PENDING]
