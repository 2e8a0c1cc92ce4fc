"""A reset forgets every block at once and waits for nothing."""

from __future__ import annotations

import pytest

from tierproof import ContractViolation, MissReason
from tierproof.impl.tiers.base import Claim, StorePolicy

from .support import HIT, HIT_PENDING, MISS, RETRY, Rig, ScriptedTier, payload


def test_a_reset_clears_the_orchestrators_state_and_keeps_live_requests_going():
    rig = Rig(slots=12)
    request = rig.request()
    rig.promote(request, "landed")
    rig.store(request, "stored")
    rig.settle()
    rig.tier.has("loading")
    rig.lookup(request, "loading")
    rig.step()
    rig.tier.has("queued")
    assert rig.lookup(request, "queued", "landed") == [HIT_PENDING, HIT]
    result = rig.manager.reset_cache()
    rig.probe.check()
    assert result.tiers == ()
    assert rig.probe.resident_keys() == set()
    assert rig.probe.waiters("loading") == set()
    assert (len(rig.probe.quarantined()), rig.probe.permits_in_use()) == (1, 1)
    rig.step()
    assert [job.keys for job in rig.tier.loads] == [("landed",), ("loading",)]
    rig.manager.on_reset_flushed()
    assert rig.lookup(request, "queued") == [HIT_PENDING]
    rig.tier.done_all()
    rig.notice()
    assert (rig.probe.quarantined(), rig.probe.free_slots()) == (set(), 11)
    rig.settle()


def test_promotions_are_held_until_the_flush_and_one_flush_ends_all_holds():
    rig = Rig()
    rig.tier.has("k")
    request = rig.request()
    rig.manager.reset_cache()
    rig.manager.reset_cache()
    assert rig.lookup(request, "k") == [MISS]
    assert rig.manager.explain("k", request).reason is MissReason.HELD
    assert rig.tier.asked == []
    assert rig.store(request, "x").keys == ("x",), "stores go on"
    assert rig.lookup(request, "x") == [HIT]
    rig.manager.on_reset_flushed()
    assert rig.lookup(request, "k") == [HIT_PENDING]


def test_a_late_load_only_frees_its_slot_and_its_bytes_are_nobodys():
    rig = Rig(slots=2)
    rig.tier.has("k")
    request = rig.request()
    rig.lookup(request, "k")
    rig.step()
    rig.manager.reset_cache()
    operation = rig.begin_store(request, "x", "y")
    assert (operation.keys, operation.refused) == (("x",), ("y",)), "the slot is quarantined"
    rig.manager.complete_store(operation)
    rig.step()
    rig.tier.done_all()
    assert rig.lookup(request, "k", "x") == [MISS, HIT]
    rig.load(request, "x")
    assert rig.probe.free_slots() == 1
    assert [event.key for event in rig.manager.take_events()] == ["x"]


def test_a_late_failed_load_retracts_the_claim():
    rig = Rig()
    rig.tier.has("k")
    request = rig.request()
    rig.lookup(request, "k")
    rig.step()
    rig.manager.reset_cache()
    rig.manager.on_reset_flushed()
    rig.tier.fail(rig.tier.loads[0])
    assert rig.lookup(request, "k") == [MISS]
    assert rig.manager.explain("k", request).reason is MissReason.FAILED


def test_operations_from_before_the_reset_complete_once_and_only_free_slots():
    rig = Rig(slots=4, tiers=0)
    request = rig.request()
    rig.store(request, "read")
    read = rig.manager.prepare_load(["read"], request)
    write = rig.begin_store(request, "written")
    empty = rig.begin_store(request, "written")
    rig.lookup(request, "written")
    rig.manager.take_events()
    rig.manager.reset_cache()
    assert len(rig.probe.quarantined()) == 2
    assert rig.probe.permits_in_use() == 1, "the writer's permit stays until it reports"
    rig.manager.complete_store(write)
    assert rig.lookup(request, "written") == [MISS]
    rig.manager.complete_load(read)
    rig.manager.complete_store(empty)
    assert (rig.probe.quarantined(), rig.probe.free_slots()) == (set(), 4)
    assert rig.probe.permits_in_use() == 0
    with pytest.raises(ContractViolation):
        rig.manager.complete_load(read)
    with pytest.raises(ContractViolation):
        rig.manager.complete_store(write)
    assert [event.key for event in rig.manager.take_events()] == ["read"]


def test_a_slot_under_two_readers_leaves_quarantine_with_the_last():
    rig = Rig(slots=4)
    request = rig.request()
    rig.store(request, "a")
    read = rig.manager.prepare_load(["a"], request)
    rig.manager.reset_cache()
    rig.tier.done_all()
    rig.notice()
    assert len(rig.probe.quarantined()) == 1
    rig.manager.complete_load(read)
    assert rig.probe.free_slots() == 4
    rig.probe.check()


def test_a_reset_gives_back_the_permit_of_a_block_that_only_readers_hold():
    rig = Rig(slots=4)
    request = rig.request()
    rig.promote(request, "k")
    read = rig.manager.prepare_load(["k"], request)
    assert rig.probe.permits_in_use() == 1
    rig.manager.reset_cache()
    assert rig.probe.permits_in_use() == 0
    rig.manager.complete_load(read)
    rig.probe.check()


def test_an_overdue_store_from_before_the_reset_does_not_count_twice():
    rig = Rig(pending_deadline=10.0)
    request = rig.request()
    operation = rig.begin_store(request, "a")
    rig.step()
    rig.now = 10.0
    rig.notice()
    rig.manager.reset_cache()
    rig.manager.reset_cache()
    assert request.storing == 0
    rig.manager.complete_store(operation)
    rig.probe.check()
    assert rig.probe.free_slots() == 4


def test_a_writer_from_before_the_reset_is_not_overdue_in_the_new_life():
    rig = Rig(pending_deadline=10.0)
    rig.tier.has("k")
    request = rig.request()
    rig.lookup(request, "k")
    rig.step()
    rig.manager.reset_cache()
    rig.manager.on_reset_flushed()
    assert rig.lookup(request, "k") == [HIT_PENDING]
    rig.step()
    rig.now = 9.0
    rig.begin_store(request, "x")
    rig.step()
    rig.now = 10.0
    assert rig.lookup(request, "k", "x") == [MISS, HIT_PENDING]


def test_a_stale_cascade_is_not_joined_by_a_new_one_of_the_same_block():
    rig = Rig(slots=12)
    request = rig.request()
    rig.store(request, "a")
    rig.manager.reset_cache()
    rig.store(request, "a")
    rig.step()
    assert len(rig.tier.stores) == 1, "the old one is still in flight"
    assert rig.manager.has_pending_work()
    rig.tier.done_all()
    rig.step()
    assert len(rig.tier.stores) == 2
    rig.settle()
    assert not rig.manager.has_pending_work()


def test_what_is_due_or_parked_is_forgotten():
    tier = ScriptedTier(policy=StorePolicy.WHOLE_REQUEST)
    tier.refuses_all = True
    rig = Rig(tiers=[tier])
    request, other = rig.request(), rig.request("other")
    rig.store(request, "a")
    operation = rig.begin_store(request, "b")
    rig.begin_store(other, "b")
    rig.manager.reset_cache()
    assert not rig.manager.has_pending_work()
    rig.manager.on_request_finished(other)
    rig.step()
    assert tier.ended == [other.info]
    rig.manager.complete_store(operation)
    rig.probe.check()


def test_the_pressure_of_a_tier_is_forgotten():
    rig = Rig(slots=8)
    request = rig.request()
    rig.tier.refuses_all = True
    rig.store(request, "a")
    rig.tier.refuses_all = False
    rig.manager.reset_cache()
    rig.tier.raises["submit_store"] = OSError()
    rig.store(request, "b")
    rig.tier.raises.clear()
    rig.step()
    assert [job.keys for job in rig.tier.stores] == [("a",), ("b",), ("b",)]


def test_a_reset_that_names_tiers_clears_them_and_says_so():
    rig = Rig(slots=8, tiers=3)
    rig.store(rig.request(), "a")
    rig.settle()
    rig.tiers[2].raises["clear"] = OSError()
    assert rig.manager.reset_cache(["tier2", "tier0"]).tiers == ("tier0",)
    assert [tier.cleared for tier in rig.tiers] == [1, 0, 1]
    assert rig.manager.reset_cache("all").tiers == ("tier0", "tier1")
    with pytest.raises(ContractViolation, match="tape"):
        rig.manager.reset_cache(["tape"])
    with pytest.raises(ContractViolation, match="tier0"):
        rig.manager.reset_cache("tier0")


def test_a_cascade_in_flight_cannot_bring_a_key_back_to_a_tier_that_was_cleared():
    rig = Rig(slots=8, tiers=2)
    request = rig.request()
    rig.store(request, "a")
    rig.manager.reset_cache(["tier0"])
    rig.manager.on_reset_flushed()
    rig.tiers[0].done_all()
    rig.notice()
    assert rig.tiers[0].claims["a"] is Claim.PRESENT, "the late write did land there"
    only = rig.request("only", "tier0")
    assert rig.lookup(only, "a") == [MISS]
    assert rig.manager.explain("a", only).reason is MissReason.FAILED
    assert rig.probe.retracted() == {("tier0", "a")}
    rig.tiers[1].done_all()
    rig.notice()
    assert rig.lookup(request, "a") == [HIT_PENDING], "tier1 was not cleared"
    rig.manager.withdraw(["a"], request)
    rig.store(request, "a")
    rig.settle()
    assert rig.probe.retracted() == set(), "a later store of the key is new evidence"


def test_a_second_reset_bars_cascades_that_are_stale_already():
    rig = Rig(slots=8)
    rig.store(rig.request(), "a")
    rig.manager.reset_cache()
    rig.manager.reset_cache("all")
    rig.tier.done_all()
    rig.notice()
    assert rig.probe.retracted() == {("tier0", "a")}


def test_what_a_peer_is_sent_cannot_bring_a_key_back_to_a_tier_that_was_cleared():
    rig = Rig(slots=8)
    rig.store(rig.request(), "a")
    rig.settle()
    peer = rig.manager.external("tier0")
    external = peer.on_new_request("peer")
    peer.send(["a"], external)
    rig.manager.reset_cache("all")
    assert rig.probe.retracted() == {("tier0", "a")}
    rig.settle()
    assert rig.probe.retracted() == {("tier0", "a")}, "what a peer was sent is no evidence"
    assert rig.probe.free_slots() == 8


def test_retractions_survive_a_reset():
    rig = Rig()
    rig.tier.has("k")
    request = rig.request()
    rig.lookup(request, "k")
    rig.step()
    rig.tier.fail(rig.tier.loads[0])
    rig.notice()
    rig.manager.reset_cache()
    rig.manager.on_reset_flushed()
    assert rig.lookup(request, "k") == [MISS]


def test_probes_survive_a_reset():
    rig = Rig()
    rig.tier.claims["k"] = Claim.UNDECIDED
    request = rig.request()
    assert rig.lookup(request, "k") == [RETRY]
    rig.manager.reset_cache()
    assert rig.manager.has_pending_work()
    rig.probe.check()


def test_hit_promises_end_with_a_reset():
    rig = Rig(slots=2)
    request = rig.request()
    rig.store(request, "a", "b")
    rig.lookup(request, "a")
    rig.manager.reset_cache()
    with pytest.raises(ContractViolation, match="not resident"):
        rig.manager.prepare_load(["a"], request)


def test_after_a_reset_the_manager_behaves_as_a_new_one_with_fewer_slots():
    rig = Rig(slots=4)
    request = rig.request()
    rig.tier.has("k")
    rig.lookup(request, "k")
    rig.step()
    rig.manager.reset_cache()
    rig.manager.on_reset_flushed()
    for number in range(4):
        rig.store(request, f"x{number}")
        rig.settle() if number == 3 else rig.step()
    rig.probe.check()
    rig.tier.done_all()
    rig.notice()
    assert rig.store(request, "y").keys == ("y",)
    for key, slot in ((k, rig.probe.slot_of(k)) for k in rig.probe.resident_keys()):
        assert slot is not None
        assert bytes(rig.manager.arena.row(slot)) == payload(key, rig.manager.arena)


@pytest.mark.parametrize("ok", [True, False])
def test_a_store_that_a_reset_forgot_has_failed_only_if_it_did(ok):
    rig = Rig(slots=8)
    operation = rig.begin_store(rig.request(), "a", "b")
    rig.manager.reset_cache()
    rig.manager.complete_store(operation, ok=ok)
    stats = rig.manager.stats()
    assert stats["tierproof_gpu_stored_blocks_total"] == 0
    assert stats["tierproof_gpu_store_block_failures_total"] == (0 if ok else 2)
