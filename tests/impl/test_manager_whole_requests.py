"""A tier that asks for whole requests is offered blocks that are resident or being written."""

from __future__ import annotations

from tierproof.impl.tiers.base import StorePolicy

from .support import Rig, ScriptedTier, sent


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
