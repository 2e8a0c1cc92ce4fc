"""The end of a request: what it releases, who inherits, and when the tiers hear of it."""

from __future__ import annotations

import pytest

from tierproof import ContractViolation

from .support import HIT, HIT_PENDING, MISS, Rig


def test_each_tier_hears_the_end_once_after_the_last_submit_made_under_the_request():
    rig = Rig(slots=8, tiers=2)
    request = rig.request()
    rig.store(request, "a", "b", "c")  # two berths: c is due
    rig.manager.on_request_finished(request)
    for tier in rig.tiers:
        tier.done_all()
    rig.step()
    assert [tier.log for tier in rig.tiers] == [["store R", "end R"]] * 2
    rig.step()
    assert [len(tier.stores) for tier in rig.tiers] == [2, 2]
    rig.settle()
    assert [tier.ended for tier in rig.tiers] == [[request.info]] * 2
    assert not rig.manager.has_pending_work()


def test_a_store_in_flight_delays_the_end_until_it_has_cascaded():
    rig = Rig()
    request = rig.request()
    operation = rig.begin_store(request, "a")
    rig.manager.on_request_finished(request)
    rig.step()
    assert rig.tier.ended == []
    assert rig.manager.has_pending_work()
    rig.manager.complete_store(operation)
    rig.step()
    assert rig.tier.log == ["store R", "end R"]
    assert rig.probe.resident_keys() == {"a"}


def test_a_queued_promotion_is_dropped_when_nobody_else_waits_on_it():
    rig = Rig()
    request = rig.request()
    rig.tier.has("k")
    rig.lookup(request, "k")
    rig.manager.on_request_finished(request)
    assert (rig.probe.phase("k"), rig.probe.permits_in_use()) == ("ABSENT", 0)
    rig.step()
    assert rig.tier.loads == []
    assert rig.tier.ended == [request.info]


def test_a_queued_promotion_passes_to_the_longest_waiter_whose_filter_allows_its_tier():
    rig = Rig(slots=12, tiers=2)
    owner = rig.request("owner")
    barred = rig.request("barred", "tier1")
    heir = rig.request("heir")
    later = rig.request("later")
    rig.tier.has("a", "b", "c")
    rig.lookup(owner, "a")
    rig.lookup(heir, "b")
    rig.lookup(owner, "c")
    for request in (barred, heir, later):
        rig.lookup(request, "a", "c")
    rig.manager.on_request_finished(owner)
    rig.step()
    (job,) = rig.tier.loads
    assert (job.keys, job.request) == (("a", "b", "c"), heir.info)
    assert rig.probe.waiters("a") == {barred.handle, heir.handle, later.handle}


def test_an_heir_that_had_queued_nothing_of_its_own_gets_its_own_job():
    rig = Rig(slots=12)
    owner, heir = rig.request("owner"), rig.request("heir")
    rig.tier.has("a", "b")
    rig.lookup(owner, "a", "b")
    rig.lookup(heir, "b", "a")
    rig.manager.on_request_finished(owner)
    rig.step()
    assert [(job.keys, job.request) for job in rig.tier.loads] == [(("a", "b"), heir.info)]


def test_waiters_that_may_not_use_the_tier_lose_their_promise_when_it_is_dropped():
    rig = Rig(tiers=2)
    owner, barred = rig.request("owner"), rig.request("barred", "tier1")
    rig.tier.has("k")
    rig.lookup(owner, "k")
    assert rig.lookup(barred, "k") == [HIT_PENDING]
    rig.manager.on_request_finished(owner)
    assert rig.lookup(barred, "k") == [MISS]
    rig.probe.check()


def test_a_loading_block_goes_on_without_its_request():
    rig = Rig()
    request = rig.request()
    rig.tier.has("k")
    rig.lookup(request, "k")
    rig.step()
    rig.manager.on_request_finished(request)
    rig.step()
    assert rig.tier.log == ["load R", "end R"]
    rig.tier.done_all()
    assert rig.lookup(rig.request(), "k") == [HIT]


def test_an_id_that_is_used_again_names_a_new_request():
    rig = Rig(slots=8)
    old = rig.request("same")
    operation = rig.begin_store(old, "a")
    rig.manager.on_request_finished(old)
    new = rig.request("same")
    rig.lookup(new, "a")
    rig.step()
    assert rig.tier.ended == []
    rig.manager.on_request_finished(new)
    rig.step()
    assert rig.tier.ended == [new.info]
    rig.manager.complete_store(operation)
    rig.step()
    assert rig.tier.ended == [new.info, old.info]


def test_a_request_ends_once():
    rig = Rig()
    request = rig.request()
    rig.manager.on_request_finished(request)
    with pytest.raises(ContractViolation, match="not a live request"):
        rig.manager.on_request_finished(request)
    rig.step()
    assert rig.tier.ended == [request.info]


def test_a_tier_that_raises_when_it_hears_of_an_end_is_not_told_again():
    rig = Rig(tiers=2)
    rig.tiers[0].raises["on_request_finished"] = OSError()
    request = rig.request()
    rig.manager.on_request_finished(request)
    rig.step()
    rig.step()
    assert [tier.ended for tier in rig.tiers] == [[request.info]] * 2


def test_nothing_of_a_request_is_left_when_its_end_has_been_told():
    rig = Rig(slots=8)
    request = rig.request()
    rig.promote(request, "k")
    rig.store(request, "a")
    rig.lookup(request, "k", "z")
    rig.load(request, "k")
    rig.manager.on_request_finished(request)
    rig.settle()
    requests = rig.manager._requests
    assert not requests.live
    assert not requests.ends
    for left in (request.waits, request.mentions, request.probes, request.loads):
        assert not left


def test_pending_work_is_true_exactly_while_something_is_still_to_happen():
    rig = Rig(slots=8)
    pending = rig.manager.has_pending_work
    request = rig.request()
    assert not pending()
    rig.tier.has("k")
    rig.lookup(request, "k")
    assert pending(), "a queued promotion"
    rig.step()
    assert pending(), "a job"
    rig.tier.done_all()
    rig.notice()
    assert pending(), "a promise"
    rig.lookup(request, "k")
    rig.load(request, "k")
    assert not pending()
    rig.store(request, "a")
    assert pending(), "a cascade"
    rig.settle()
    assert not pending()
    rig.manager.on_request_finished(request)
    assert pending(), "an end that nobody was told"
    rig.step()
    assert not pending()
