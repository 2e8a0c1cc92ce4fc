"""Stores to secondary tiers: offered once, offered again, within a share, under a request."""

from __future__ import annotations

import pytest

from tierproof.impl.tiers.base import NO_REQUEST

from .support import HIT_PENDING, Rig, ScriptedTier, payload, sent


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


@pytest.mark.parametrize("nonsense", [None, 7, ([1],)], ids=str)
def test_a_tier_that_returns_nonsense_for_a_store_has_begun_it_all_the_same(nonsense):
    class Mute(ScriptedTier):
        def submit_store(self, job):
            super().submit_store(job)
            return nonsense

    rig = Rig(slots=1, tiers=[Mute()], reoffers=1)
    request = rig.request()
    rig.store(request, "a")
    assert rig.manager.prepare_store(["b"], request) is None, "the tier may read the slot"
    rig.tier.done_all()
    rig.notice()
    assert rig.begin_store(request, "b").evicted == ("a",)
    assert rig.tier.kept["a"] == payload("a", rig.manager.arena)
    assert rig.manager._secondaries[0].totals.errors == 1


def test_new_blocks_do_not_overtake_what_is_due():
    rig = Rig(slots=4)  # one berth
    request = rig.request()
    rig.store(request, "h0", "h1", "h2")
    for number in range(8):
        rig.tier.done_all()
        rig.notice()
        rig.store(request, f"n{number}")
    assert sent(rig.tier)[:3] == [("h0",), ("h1",), ("h2",)]


def test_a_tier_that_refused_is_left_alone_by_new_blocks_too():
    rig = Rig(slots=16, reoffer_pause=1.0)
    request = rig.request()
    rig.tier.refuses_all = True
    rig.store(request, "h")
    for number in range(4):
        rig.store(request, f"n{number}")
    assert sent(rig.tier) == [("h",)]
    rig.tier.refuses_all = False
    rig.step()
    rig.now = 1.0
    rig.step()
    assert sent(rig.tier)[1][0] == "h", "what was refused first is offered first"
