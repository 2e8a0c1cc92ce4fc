"""The share of cascades, to the block: who takes a berth, who needs none, and who goes first."""

from __future__ import annotations

import pytest

from tierproof.impl.tiers.base import StorePolicy

from .support import Rig, ScriptedTier, sent


def test_a_berth_that_is_left_in_the_middle_of_a_step_goes_to_what_is_due():
    rig = Rig(slots=4)  # one berth
    request = rig.request()
    rig.store(request, "a")
    rig.store(request, "b")
    rig.step()
    rig.tier.done(rig.tier.stores[0])
    rig.lookup(request, "nothing")  # the step begins and hears of it
    rig.store(request, "c")
    rig.settle()
    assert sent(rig.tier) == [("a",), ("b",), ("c",)]


def test_blocks_that_are_stored_together_take_all_berths_that_are_left():
    rig = Rig(slots=16)  # four berths
    request = rig.request()
    rig.store(request, "a")
    rig.store(request, "b", "c", "d", "e")
    assert sent(rig.tier) == [("a",), ("b", "c", "d")]
    assert rig.probe.due() == {("tier0", "e")}


def test_each_tier_keeps_one_berth_free_for_each_other():
    rig = Rig(slots=8, tiers=2)  # two berths
    rig.store(rig.request(), "a", "b")
    assert sent(rig.tiers[0]) == [("a",)]
    assert sent(rig.tiers[1]) == [("a",)]
    assert rig.probe.due() == {("tier0", "b"), ("tier1", "b")}


@pytest.mark.parametrize("tiers", [2, 3])
def test_one_berth_serves_every_tier_in_turn(tiers):
    rig = Rig(slots=4, tiers=tiers)
    rig.store(rig.request(), "a", "b")
    rig.settle()
    assert all(tier.kept.keys() == {"a", "b"} for tier in rig.tiers)


def test_a_block_that_only_one_tier_is_sent_takes_a_berth_of_its_own():
    rig = Rig(slots=12, tiers=2)  # three berths, of which each tier may fill two
    slow, quick = rig.tiers
    request = rig.request()
    rig.store(request, "a", "b")
    quick.done_all()
    rig.notice()
    rig.store(request, "c", "d")
    assert (sent(slow), sent(quick)) == ([("a", "b")], [("a", "b"), ("c",)])
    assert rig.probe.cascading_slots() == 3
    rig.probe.check()


def test_a_tier_that_refused_is_offered_nothing_that_is_due_before_the_next_step():
    rig = Rig(slots=12, reoffer_pause=0.0)
    request = rig.request()
    rig.tier.refuses = {"a"}
    rig.store(request, "a")
    rig.store(request, "b")
    rig.step()
    assert sent(rig.tier) == [("a",)]
    rig.step()
    assert sent(rig.tier) == [("a",), ("a", "b")]


def test_what_is_parked_in_the_first_step_of_all_is_offered_in_it():
    rig = Rig(slots=4)  # one berth
    request = rig.request()
    rig.store(request, "a")
    rig.store(rig.request("other"), "b")
    rig.tier.done(rig.tier.stores[0])
    assert rig.begin_store(request, "x", "y", "z").evicted == ("a",), "what has ended is heard"
    assert rig.manager._step.number == 0
    rig.step()
    assert sent(rig.tier) == [("a",), ("b",)]


@pytest.mark.parametrize(("seconds", "is_slow"), [(0.5, False), (1.0, False), (1.5, True)])
def test_a_tier_is_slow_when_a_store_took_longer_than_the_limit(seconds, is_slow):
    rig = Rig(slots=12, backpressure_seconds=1.0)
    request = rig.request()
    rig.store(request, "a")
    rig.store(request, "b")
    rig.tier.done(rig.tier.stores[0], seconds=seconds)
    rig.notice()
    rig.store(request, "c")
    assert (sent(rig.tier)[-1] == ("b",)) is is_slow


def test_only_a_tier_that_asked_for_whole_requests_is_offered_what_was_there_before():
    tiers = [ScriptedTier("whole", policy=StorePolicy.WHOLE_REQUEST), ScriptedTier("plain")]
    rig = Rig(slots=12, tiers=tiers, reoffers=0)
    request = rig.request()
    for tier in tiers:
        tier.refuses_all = True
    rig.store(request, "a")
    for tier in tiers:
        tier.refuses_all = False
    rig.begin_store(request, "a")
    rig.settle()
    assert (sent(tiers[0]), sent(tiers[1])) == ([("a",), ("a",)], [("a",)])


def test_no_request_waits_for_a_write_whose_block_no_tier_wants_of_it():
    rig = Rig(slots=12)
    writer, other = rig.request("writer"), rig.request("other")
    rig.begin_store(writer, "a")
    rig.begin_store(other, "a")
    assert other.parked == 0
    rig.manager.on_request_finished(other)
    rig.step()
    assert rig.tier.ended == [other.info]
