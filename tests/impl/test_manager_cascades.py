"""Stores to secondary tiers: offered once, offered again, within a share, under a request."""

from __future__ import annotations

import pytest

from tierproof import ContractViolation
from tierproof.impl.tiers.base import NO_REQUEST, StorePolicy

from .support import HIT, HIT_PENDING, MISS, Rig, ScriptedTier


def sent(tier: ScriptedTier) -> list[tuple[object, ...]]:
    """The keys of each store job so far."""
    return [job.keys for job in tier.stores]


def test_a_stored_block_is_offered_to_every_tier_as_one_job_that_pins_it():
    rig = Rig(slots=12, tiers=2)
    request = rig.request()
    rig.store(request, "a", "b")
    for tier in rig.tiers:
        (job,) = tier.stores
        assert (job.keys, job.request) == (("a", "b"), request.info)
    assert (rig.probe.pins("a"), rig.probe.cascading_slots()) == (2, 2)
    rig.settle()
    assert rig.probe.pins("a") == 0
    assert rig.tiers[1].kept["b"] == rig.tiers[0].kept["b"]


def test_a_cascade_that_succeeded_is_not_offered_again():
    rig = Rig()
    request = rig.request()
    rig.store(request, "a")
    rig.settle()
    assert sent(rig.tier) == [("a",)]
    assert not rig.manager.has_pending_work()


def test_a_promoted_block_is_not_offered_to_anyone():
    rig = Rig(tiers=2)
    rig.promote(rig.request(), "k")
    assert sent(rig.tiers[0]) == sent(rig.tiers[1]) == []


def test_a_refused_cascade_is_offered_again_when_the_pressure_has_cleared():
    rig = Rig(slots=12)
    request = rig.request()
    rig.store(request, "a")
    rig.tier.refuses = {"b"}
    rig.store(request, "b")
    assert rig.manager.has_pending_work()
    rig.tier.refuses = set()
    rig.step()
    rig.step()
    assert sent(rig.tier) == [("a",), ("b",)], "a's store has not ended: the pressure is not over"
    rig.tier.done_all()
    rig.step()
    assert sent(rig.tier) == [("a",), ("b",), ("b",)]
    rig.settle()
    assert not rig.manager.has_pending_work()


def test_a_refused_cascade_is_not_offered_again_in_its_own_step():
    rig = Rig(slots=12)
    request = rig.request()
    rig.store(request, "a")
    rig.tier.refuses_all = True
    rig.store(request, "b")
    rig.tier.done_all()
    rig.manager._transfers.absorb()  # as a lookup that needs room would
    assert not rig.manager._secondaries[0].pressed
    rig.step()
    assert sent(rig.tier) == [("a",), ("b",)]
    rig.step()
    assert sent(rig.tier) == [("a",), ("b",), ("b",)]


def test_a_tier_with_nothing_in_flight_is_tried_again_a_step_later():
    rig = Rig(slots=12)
    rig.tier.refuses_all = True
    rig.store(rig.request(), "a")
    rig.step()
    assert len(rig.tier.stores) == 1
    rig.step()
    assert len(rig.tier.stores) == 2


@pytest.mark.parametrize("way", ["refused", "failed", "raised"])
def test_a_cascade_is_offered_a_bounded_number_of_times(way):
    rig = Rig(slots=12, reoffers=3)
    rig.tier.refuses_all = way == "refused"
    if way == "raised":
        rig.tier.raises["submit_store"] = OSError()
    rig.store(rig.request(), "a")
    for _ in range(12):
        rig.step()
        for job in list(rig.tier.running):
            rig.tier.fail(job)
    assert sent(rig.tier) == [("a",)] * 4
    assert not rig.manager.has_pending_work()
    assert rig.manager.stats()["tierproof_cascades_given_up_total"] == 1
    assert rig.probe.resident_keys() == {"a"}


@pytest.mark.parametrize("how", ["refused", "failed", "raised"])
def test_one_bad_moment_does_not_use_up_all_offers(how):
    rig = Rig(slots=12, reoffers=3, reoffer_pause=1.0)
    if how == "refused":
        rig.tier.refuses_all = True
    elif how == "raised":
        rig.tier.raises["submit_store"] = OSError()
    rig.store(rig.request(), "k")
    offers = []
    for tick in range(45):
        rig.now = tick / 10
        if how == "failed":
            for job_id in list(rig.tier.running):
                rig.tier.fail(job_id)
        rig.notice()
        offers.append(len(rig.tier.stores))
    later = how == "failed"  # the failure itself is heard of a tick later
    assert [
        offers[at] for at in (9, 10, 19 + later, 20 + later, 29 + 2 * later, 30 + 2 * later)
    ] == [*(1, 2, 2, 3, 3, 4)]
    assert not rig.manager.has_pending_work(), "and at last it is given up"


def test_a_report_clears_the_pressure_without_a_pause():
    rig = Rig(slots=16, reoffer_pause=1000.0)
    request = rig.request()
    rig.store(request, "a")
    rig.tier.refuses_all = True
    rig.store(request, "b")
    rig.tier.refuses_all = False
    rig.step()
    rig.tier.done(rig.tier.stores[0])
    rig.notice()
    assert [job.keys for job in rig.tier.stores] == [("a",), ("b",), ("b",)]


def test_without_reoffers_a_refused_cascade_is_given_up_at_once():
    rig = Rig(slots=12, reoffers=0)
    rig.tier.refuses_all = True
    rig.store(rig.request(), "a")
    assert not rig.manager.has_pending_work()


def test_a_failed_cascade_is_offered_again_at_the_end_of_the_step_that_heard_of_it():
    rig = Rig(slots=8)
    rig.store(rig.request(), "a", "b")
    rig.step()
    rig.tier.done(rig.tier.stores[0], ["b"])
    rig.step()
    assert sent(rig.tier) == [("a", "b"), ("a",)]
    assert rig.probe.pins("b") == 0


def test_offers_that_outlive_their_request_go_under_no_request():
    rig = Rig(slots=12)
    one, other = rig.request("one"), rig.request("other")
    rig.tier.raises["submit_store"] = OSError()
    rig.store(one, "a")
    rig.store(other, "b")
    rig.store(one, "c")
    rig.manager.on_request_finished(one)
    rig.step()
    rig.tier.raises.clear()
    rig.step()
    assert [(job.keys, job.request) for job in rig.tier.stores[-2:]] == [
        (("a", "c"), NO_REQUEST),
        (("b",), other.info),
    ]


def test_a_store_that_ends_after_its_request_was_told_cascades_under_no_request():
    rig = Rig(pending_deadline=10.0)
    request = rig.request()
    operation = rig.begin_store(request, "a")
    rig.manager.on_request_finished(request)
    rig.step()
    assert rig.tier.ended == []
    rig.now = 10.0
    rig.step()
    assert rig.tier.ended == [request.info], "an overdue store does not delay the end"
    rig.manager.complete_store(operation)
    assert rig.tier.stores[0].request == NO_REQUEST
    rig.settle()


def test_cascades_pin_no_more_than_their_share_and_the_rest_stays_due():
    rig = Rig(slots=8)  # two berths
    request = rig.request()
    rig.store(request, "a", "b", "c", "d", "e")
    assert (sent(rig.tier), rig.probe.cascading_slots()) == ([("a", "b")], 2)
    rig.step()
    assert sent(rig.tier) == [("a", "b")]
    rig.tier.done(rig.tier.stores[0])
    rig.step()
    assert sent(rig.tier) == [("a", "b"), ("c", "d")]
    rig.settle()
    assert sent(rig.tier) == [("a", "b"), ("c", "d"), ("e",)]


def test_a_slot_that_cascades_already_needs_no_second_berth():
    rig = Rig(slots=16, tiers=2)  # four berths, of which each tier may fill three
    slow, other = rig.tiers
    slow.raises["submit_store"] = OSError()
    request = rig.request()
    rig.store(request, "a", "b", "c")
    assert (sent(other), rig.probe.cascading_slots()) == ([("a", "b", "c")], 3)
    slow.raises.clear()
    rig.step()
    assert sent(slow) == [("a", "b", "c"), ("a", "b", "c")], "they share, no slot more is pinned"
    assert (rig.probe.pins("a"), rig.probe.cascading_slots()) == (2, 3)


def test_when_the_share_is_used_up_in_the_middle_the_blocks_being_sent_elsewhere_still_start():
    rig = Rig(slots=16, tiers=2, reoffers=20)  # four berths, of which each tier may fill three
    slow, other = rig.tiers
    slow.raises["submit_store"] = OSError()
    request = rig.request()
    for key in ("a", "b", "c"):
        rig.store(request, key)
        if key != "b":
            other.done(other.stores[-1])
        rig.step()
        rig.step()
    rig.store(request, "d")
    rig.store(request, "e")
    assert rig.probe.cascading_slots() == 3, "b, d and e are being sent to the other tier"
    slow.raises.clear()
    rig.step()
    assert sent(slow)[-1] == ("a", "b", "d"), "a took the last berth, b and d need none, c waits"
    rig.probe.check()


def test_a_tier_with_an_overdue_store_gets_no_more_until_it_reports():
    rig = Rig(slots=12, tiers=2, pending_deadline=10.0)
    hung, quick = rig.tiers
    request = rig.request()
    rig.store(request, "a")
    quick.done_all()
    rig.step()
    rig.now = 10.0
    rig.store(request, "b")
    assert (sent(hung), sent(quick)) == ([("a",)], [("a",), ("b",)])
    rig.step()
    assert sent(hung) == [("a",)]
    hung.done_all()
    rig.step()
    assert sent(hung) == [("a",), ("b",)]


def test_back_pressure_is_measured_on_the_transfer_itself():
    rig = Rig(slots=12, backpressure_seconds=1.0)
    request = rig.request()
    rig.store(request, "a")
    rig.store(request, "b")
    rig.tier.done(rig.tier.stores[0], seconds=2.0)
    rig.notice()
    rig.store(request, "c")
    rig.step()
    assert sent(rig.tier) == [("a",), ("b",)], "the tier has become slow"
    rig.tier.done(rig.tier.stores[1], seconds=0.5)
    rig.step()
    assert sent(rig.tier) == [("a",), ("b",), ("c",)]
    rig.tier.done(rig.tier.stores[2], seconds=2.0)
    rig.step()
    rig.store(request, "d")
    assert sent(rig.tier)[-1] == ("d",), "an idle tier is tried again"


def test_the_time_until_somebody_polled_is_no_back_pressure():
    rig = Rig(slots=12, backpressure_seconds=1.0)
    request = rig.request()
    rig.store(request, "a")
    rig.tier.done(rig.tier.stores[0], seconds=0.5)
    rig.now = 20.0
    rig.notice()
    rig.store(request, "b")
    assert sent(rig.tier) == [("a",), ("b",)]


def test_what_is_due_goes_with_its_block_when_that_is_evicted():
    rig = Rig(slots=2)
    rig.tier.refuses_all = True
    request = rig.request()
    rig.store(request, "a", "b")
    rig.begin_store(request, "x", "y")
    assert not rig.manager._secondaries[0].due
    assert rig.manager.stats()["tierproof_cascades_given_up_total"] == 2
    rig.probe.check()


def test_a_promotion_that_evicts_takes_the_due_cascade_of_its_victim():
    rig = Rig(slots=2)
    rig.tier.refuses_all = True
    request = rig.request()
    rig.store(request, "a", "b")
    rig.tier.has("k")
    assert rig.lookup(request, "k") == [HIT_PENDING]
    assert [block.key for block in rig.manager._secondaries[0].due] == ["a"]


def test_a_tier_that_refuses_what_it_was_not_offered_is_not_believed():
    class Confused(ScriptedTier):
        def submit_store(self, job):
            super().submit_store(job)
            return ["never offered", *self.refuses]

    rig = Rig(slots=8, tiers=[Confused()])
    rig.store(rig.request(), "a", "b")
    assert rig.probe.cascading_slots() == 2
    rig.settle()


def test_a_tier_that_returns_nonsense_for_a_store_has_failed_it():
    class Mute(ScriptedTier):
        def submit_store(self, job):
            self.stores.append(job)

    rig = Rig(slots=8, tiers=[Mute()], reoffers=1)
    rig.store(rig.request(), "a")
    for _ in range(4):
        rig.step()
    assert sent(rig.tier) == [("a",), ("a",)]
    assert rig.probe.cascading_slots() == 0


# -- a whole request ------------------------------------------------------------------------------


def whole_rig(slots: int = 12) -> Rig:
    return Rig(
        slots=slots,
        tiers=[ScriptedTier("whole", policy=StorePolicy.WHOLE_REQUEST), ScriptedTier("plain")],
    )


def test_a_tier_that_asks_for_the_whole_request_is_offered_blocks_that_are_resident_already():
    rig = whole_rig()
    whole, plain = rig.tiers
    first, second = rig.request("first"), rig.request("second")
    plain.has("k")
    rig.lookup(first, "k")
    rig.step()
    plain.done_all()
    rig.notice()
    rig.begin_store(second, "k", "new")
    assert [(job.keys, job.request) for job in whole.stores] == [(("k",), second.info)]
    assert plain.stores == []
    rig.begin_store(second, "k")
    assert len(whole.stores) == 1, "it is in flight"
    whole.done_all()
    rig.step()
    rig.begin_store(second, "k")
    assert len(whole.stores) == 1, "it has succeeded"


def test_an_offer_of_a_whole_request_is_made_once_while_it_is_due():
    rig = whole_rig()
    whole = rig.tiers[0]
    request = rig.request()
    whole.refuses_all = True
    rig.store(request, "a")
    rig.begin_store(request, "a")
    assert sent(whole) == [("a",)]


def test_an_offer_that_finds_a_block_being_written_parks_until_the_write_ends():
    rig = whole_rig()
    writer, other = rig.request("writer"), rig.request("other")
    operation = rig.begin_store(writer, "a")
    rig.begin_store(other, "a")
    rig.begin_store(other, "a")
    assert other.parked == 1
    rig.manager.on_request_finished(other)
    rig.step()
    assert [info.request_id for info in rig.tiers[0].ended] == []
    assert rig.manager.has_pending_work()
    rig.manager.complete_store(operation)
    assert sent(rig.tiers[0]) == [("a",)]
    rig.step()
    assert rig.tiers[0].ended == [other.info]
    rig.settle()


def test_a_failed_write_drops_the_parked_offer_and_lets_the_request_go():
    rig = whole_rig()
    writer, other = rig.request("writer"), rig.request("other")
    operation = rig.begin_store(writer, "a")
    rig.begin_store(other, "a")
    rig.manager.on_request_finished(other)
    rig.manager.complete_store(operation, ok=False)
    rig.step()
    assert rig.tiers[0].ended == [other.info]
    assert sent(rig.tiers[0]) == []


def test_an_overdue_write_drops_the_parked_offer_so_that_the_end_is_told_in_time():
    rig = whole_rig()
    writer, other = rig.request("writer"), rig.request("other")
    rig.begin_store(writer, "a")
    rig.begin_store(other, "a")
    rig.manager.on_request_finished(other)
    rig.step()
    assert rig.tiers[0].ended == []
    rig.now = 30.0
    rig.step()
    assert rig.tiers[0].ended == [other.info]


def test_blocks_that_are_loading_are_not_offered_to_a_tier_that_wants_the_whole_request():
    rig = whole_rig()
    rig.tiers[1].has("k")
    request = rig.request()
    rig.lookup(request, "k")
    rig.begin_store(request, "k")
    assert (request.parked, sent(rig.tiers[0])) == (0, [])


def test_a_store_that_gets_nothing_offers_nothing():
    rig = whole_rig(slots=2)
    request, other = rig.request(), rig.request("other")
    rig.tiers[1].has("k")
    rig.lookup(other, "k")
    rig.step()
    rig.tiers[1].done_all()
    rig.notice()
    rig.begin_store(request, "x")
    assert rig.manager.prepare_store(["k", "y"], request) is None
    assert sent(rig.tiers[0]) == []


# -- requests of peers ----------------------------------------------------------------------------


def test_an_external_request_never_asks_the_tier_that_serves_it():
    rig = Rig(tiers=2)
    serving, other = rig.tiers
    serving.has("a", "b")
    other.has("b")
    peer = rig.manager.external("tier0")
    request = peer.on_new_request("peer")
    assert [peer.lookup(key, request) for key in ("a", "b")] == [MISS, HIT_PENDING]
    assert serving.asked == []
    assert serving.begun == other.begun == [request.info]
    peer.on_request_finished(request)
    rig.step()
    assert serving.ended == other.ended == [request.info]
    assert serving.loads == other.loads == []


def test_an_external_request_does_not_inherit_a_promotion_from_the_tier_that_serves_it():
    rig = Rig(tiers=1)
    rig.tier.has("k")
    request = rig.request()
    rig.lookup(request, "k")
    peer = rig.manager.external("tier0")
    external = peer.on_new_request("peer")
    assert peer.lookup("k", external) is HIT_PENDING
    rig.manager.on_request_finished(request)
    assert rig.probe.phase("k") == "ABSENT"
    assert rig.probe.waiters("k") == set()
    rig.probe.check()


def test_what_a_peer_is_sent_is_pinned_until_the_job_reports_and_counts_as_cascading():
    rig = Rig(slots=8)  # two berths
    request = rig.request()
    rig.store(request, "a", "b", "c")
    rig.settle()
    peer = rig.manager.external("tier0")
    external = peer.on_new_request("peer")
    assert [peer.lookup(key, external) for key in ("a", "b", "c")] == [HIT] * 3
    assert peer.send(["a", "b", "c"], external) is None
    job_id = peer.send(["a", "b"], external)
    assert job_id in rig.tier.running
    assert (rig.probe.pins("a"), rig.probe.cascading_slots()) == (1, 2)
    peer.on_request_finished(external)
    rig.step()
    assert rig.tier.ended == [external.info], "told after its last submit"
    rig.tier.fail(rig.tier.stores[-1])
    rig.notice()
    assert (rig.probe.pins("a"), len(rig.tier.running)) == (0, 0)
    assert not rig.manager._secondaries[0].due, "a failed send is the peer's matter"


def test_a_send_that_the_tier_does_not_take_pins_nothing():
    rig = Rig(slots=8, pending_deadline=10.0)
    rig.store(rig.request(), "a")
    rig.settle()
    peer = rig.manager.external("tier0")
    external = peer.on_new_request("peer")
    rig.tier.refuses_all = True
    assert peer.send(["a"], external) is None
    rig.tier.refuses_all = False
    rig.tier.raises["submit_store"] = OSError()
    assert peer.send(["a"], external) is None
    rig.tier.raises.clear()
    assert rig.probe.pins("a") == 0
    assert peer.send(["a"], external) is not None
    rig.now = 10.0
    rig.step()
    assert peer.send(["a"], external) is None, "the tier has an overdue store"


def test_a_send_of_what_is_not_resident_or_by_a_request_of_others_is_refused():
    rig = Rig(slots=8)
    request = rig.request()
    rig.store(request, "a")
    peer = rig.manager.external("tier0")
    external = peer.on_new_request("peer")
    for keys, sender, words in (
        (["z"], external, "not resident"),
        (["a", "a"], external, "named twice"),
        (["a"], request, "was not announced by tier"),
    ):
        with pytest.raises(ContractViolation, match=words):
            peer.send(keys, sender)
    with pytest.raises(ContractViolation, match="tape"):
        rig.manager.external("tape")
    rig.probe.check()


def test_a_send_changes_nothing_of_what_cascades():
    rig = Rig(slots=8)
    rig.tier.raises["submit_store"] = OSError()
    request = rig.request()
    rig.store(request, "a")
    rig.tier.raises.clear()
    peer = rig.manager.external("tier0")
    external = peer.on_new_request("peer")
    peer.send(["a"], external)
    rig.tier.done(rig.tier.stores[-1])
    rig.step()
    assert sent(rig.tier) == [("a",), ("a",), ("a",)], "the cascade is still due"
