"""Public failures of transfers, tiers, resets and numbers as tests (B25 and later)."""

from __future__ import annotations

import logging
import threading

import pytest

from tierproof import ContractViolation
from tierproof.impl.tiers.base import Claim

from .support import HIT, HIT_PENDING, MISS, RETRY, Rig, ScriptedTier


@pytest.mark.parametrize("ending", ["report", "shutdown"])
def test_B25_a_failed_load_is_at_no_instant_readable(ending):
    rig = Rig()
    request = rig.request()
    rig.tier.has("k")
    rig.lookup(request, "k")
    rig.step()
    seen, stop = set(), threading.Event()

    def watch() -> None:
        while not stop.is_set():
            with rig.manager.lock:
                seen.add(rig.probe.phase("k"))

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        rig.tier.fail(rig.tier.loads[0])
        if ending == "report":
            with rig.manager.lock:
                assert rig.lookup(request, "k") == [MISS]
                rig.step()
        else:
            rig.manager.shutdown()
    finally:
        stop.set()
        watcher.join()
    assert "RESIDENT" not in seen
    assert rig.manager.take_events() == []
    assert rig.tier.stores == []


def test_B27_a_failed_transfer_is_not_counted_as_loaded_and_shows_nobody_elses_bytes():
    rig = Rig(slots=1)
    request = rig.request()
    rig.store(request, "z")
    rig.settle()
    rig.tier.has("k")
    assert rig.lookup(request, "k") == [HIT_PENDING], "z's slot is given to k"
    rig.step()
    rig.tier.fail(rig.tier.loads[0])
    assert rig.lookup(request, "k") == [MISS]
    with pytest.raises(ContractViolation):
        rig.manager.prepare_load(["k"], request)
    stats = rig.manager.stats()
    assert stats['tierproof_loaded_blocks_total{tier="tier0"}'] == 0
    assert stats['tierproof_load_block_failures_total{tier="tier0"}'] == 1


@pytest.mark.parametrize("place", ["submit_load", "job", "poll"])
def test_B30_a_failed_load_means_recompute_and_the_loop_goes_on(place):
    rig = Rig(slots=8, tiers=2)
    request, unharmed = rig.request(), rig.request("unharmed")
    rig.tiers[0].has("k")
    rig.tiers[1].has("u")
    if place == "submit_load":
        rig.tiers[0].raises["submit_load"] = OSError(5, "Input/output error")
    rig.lookup(request, "k")
    rig.lookup(unharmed, "u")
    rig.step()
    if place == "job":
        rig.tiers[0].fail(rig.tiers[0].loads[0])
    elif place == "poll":
        rig.tiers[0].raises["poll"] = OSError(5, "Input/output error")
        rig.notice()
        rig.tiers[0].raises.clear()
        rig.tiers[0].fail(rig.tiers[0].loads[0])
    rig.tiers[1].done_all()
    assert rig.lookup(request, "k") == [MISS]
    assert rig.lookup(unharmed, "u") == [HIT]
    rig.step()


@pytest.mark.parametrize("late", ["ok", "fail"])
def test_B31_a_load_that_never_ends_is_a_miss_after_the_deadline(late, caplog):
    rig = Rig(slots=2, pending_deadline=30.0)
    request = rig.request()
    rig.tier.has("k")
    rig.lookup(request, "k")
    rig.step()
    rig.now = 30.0
    with caplog.at_level(logging.WARNING, "tierproof"):
        assert rig.lookup(request, "k", "k") == [MISS, MISS]
    assert len(caplog.records) == 1
    assert rig.manager.stats()["tierproof_overdue_blocks_total"] == 1
    slot = rig.probe.slot_of("k")
    assert slot not in rig.begin_store(request, "x", "y").slots, "the writer may still write it"
    rig.step()
    rig.tier.done(rig.tier.loads[0], None if late == "ok" else ())
    assert rig.lookup(request, "k") == [HIT if late == "ok" else MISS]
    stored = [event.key for event in rig.manager.take_events()]
    assert stored == (["k"] if late == "ok" else [])
    assert rig.probe.free_slots() == (0 if late == "ok" else 1)


def test_B33_the_end_of_one_round_is_not_credited_to_another():
    rig = Rig(slots=8)
    request = rig.request()
    rig.tier.has("k1", "k2")
    rig.lookup(request, "k1")
    rig.step()
    rig.lookup(request, "k2")
    rig.step()
    first, second = rig.tier.loads
    rig.tier.done(second)
    assert rig.lookup(request, "k1", "k2") == [HIT_PENDING, HIT]
    rig.manager.on_request_finished(request)
    rig.step()
    assert rig.probe.phase("k1") == "LOADING"
    rig.tier.fail(first)
    rig.notice()
    assert rig.probe.free_slots() == 7
    assert not rig.manager.contract_violations


def test_B35_one_store_of_five_that_raises_fails_alone():
    rig = Rig(slots=20, cascade_share=1.0, reoffers=0)
    request = rig.request()
    for n in range(5):
        rig.tier.raises.pop("submit_store", None)
        if n == 1:
            rig.tier.raises["submit_store"] = OSError("disk trouble")
        rig.store(request, f"k{n}")
        rig.step()
    rig.settle()
    assert set(rig.tier.kept) == {"k0", "k2", "k3", "k4"}
    assert rig.probe.pins("k1") == 0, "its slot may be used again"
    rig.probe.check()


def test_B38_a_load_that_has_ended_is_noticed_whatever_its_place_in_line():
    rig = Rig(slots=8, promotion_share=1.0)
    holder, waiter = rig.request("A"), rig.request("B")
    a = [f"a{n}" for n in range(5)]
    b = [f"b{n}" for n in range(6)]
    rig.tier.has(*a, *b)
    rig.lookup(holder, *a)
    rig.step()
    rig.tier.done_all()
    for _ in range(10):
        rig.lookup(waiter, *b)  # the head of the queue is asked first, and does not fit
        if rig.lookup(holder, *a) == [HIT] * 5:
            rig.load(holder, *a)
            rig.manager.on_request_finished(holder)
            break
        rig.step()
    assert holder.home is None, "A's loads have ended and were not noticed"
    rig.step()
    assert rig.lookup(waiter, *b) == [HIT_PENDING] * 6
    rig.step()
    assert rig.manager.has_pending_work()


def test_B50_a_tier_that_fails_is_a_miss_and_recovers_without_being_built_anew(caplog):
    rig = Rig(slots=8)
    request = rig.request()
    denied = PermissionError(13, "Permission denied")
    with caplog.at_level(logging.WARNING, "tierproof"):
        for method in ("submit_store", "lookup"):
            rig.tier.raises[method] = denied
        for number in range(3):
            assert rig.store(request, f"s{number}").keys
            assert rig.lookup(request, "k") == [MISS]
            rig.step()
    assert len(caplog.records) == 2, "one warning for each call that fails"
    rig.tier.raises.clear()
    rig.tier.has("k")
    assert rig.lookup(request, "k") == [HIT_PENDING]
    rig.store(request, "s9")
    rig.settle()
    assert set(rig.tier.kept) == {"s1", "s2", "s9"}, "offered again, but s0 often enough"


def test_B56_bytes_that_arrive_after_a_reset_do_not_reach_the_slots_new_owner():
    # A reset does not wait: the old load stays in flight and z gets another slot.
    rig = Rig(slots=2)
    one, other = rig.request("A"), rig.request("B")
    rig.tier.has("k", "q")
    assert rig.lookup(one, "k") == [HIT_PENDING]
    rig.step()
    rig.manager.reset_cache()
    stored = rig.store(other, "z")
    assert stored.slots != rig.tier.loads[0].slots
    rig.tier.done(rig.tier.loads[0])
    rig.step()
    assert rig.lookup(one, "k") == [MISS]
    rig.manager.on_reset_flushed()
    rig.load(other, "z")
    assert rig.lookup(one, "k") == [HIT_PENDING], "T2 keeps its blocks: a new load"


def test_B56_queued_promotions_are_dropped_by_a_reset():
    rig = Rig()
    request = rig.request()
    rig.tier.has("k")
    rig.lookup(request, "k")
    rig.manager.reset_cache()
    rig.step()
    assert (rig.tier.loads, rig.probe.free_slots(), rig.probe.work_in_flight()) == ([], 4, 0)


def test_B59_a_reset_of_all_tiers_is_a_miss_at_once_and_a_write_in_flight_does_not_undo_it():
    rig = Rig(slots=8, tiers=2)
    request = rig.request()
    rig.store(request, "k")
    rig.tiers[0].done_all()
    assert rig.manager.reset_cache("all").tiers == ("tier0", "tier1")
    rig.manager.on_reset_flushed()
    assert rig.lookup(request, "k") == [MISS]
    rig.step()
    rig.tiers[1].done_all()
    assert rig.tiers[1].claims["k"] is Claim.PRESENT
    assert rig.lookup(request, "k") == [MISS]
    rig.step()
    assert rig.lookup(request, "k") == [MISS]


def test_B59_a_reset_says_which_tiers_it_cleared():
    rig = Rig(slots=8, tiers=2)
    rig.store(rig.request(), "k")
    rig.settle()
    assert rig.manager.reset_cache().tiers == ()
    assert [tier.cleared for tier in rig.tiers] == [0, 0]
    rig.manager.on_reset_flushed()
    assert rig.lookup(rig.request(), "k") == [HIT_PENDING]


def test_B60_a_tier_that_does_not_stop_keeps_the_others_from_nothing():
    rig = Rig(slots=8, tiers=3)
    rig.tiers[1].raises["shutdown"] = RuntimeError("second tier")
    rig.store(rig.request(), "k")
    with pytest.raises(RuntimeError, match="second tier"):
        rig.manager.shutdown()
    assert [tier.stopped for tier in rig.tiers] == [1, 1, 1]
    assert not rig.manager.arena.released
    rig.manager.shutdown()
    assert [tier.stopped for tier in rig.tiers] == [1, 1, 1]


def test_B63_a_slow_tier_pins_its_share_and_no_more():
    rig = Rig(slots=8, tiers=[ScriptedTier("slow")])
    request = rig.request()
    for tick in range(100):
        stored = rig.store(request, f"k{tick}")
        assert stored.keys == (f"k{tick}",), "no room for the next request"
        assert rig.probe.cascading_slots() <= 2
        rig.step()
        rig.now += 1.0
    assert [job.keys for job in rig.tier.stores] == [("k0",), ("k1",)], "later ones find no berth"
    dropped = rig.manager.stats()["tierproof_cascades_given_up_total"]
    assert dropped == 100 - 8
    rig.tier.done_all()
    assert not set(rig.tier.kept) & {f"k{tick}" for tick in range(2, 92)}, "dropped, not stored"


def test_B63_a_fast_tier_still_gets_all_beside_a_slow_one():
    rig = Rig(slots=8, tiers=[ScriptedTier("slow"), ScriptedTier("fast")])
    request = rig.request()
    for tick in range(100):
        rig.store(request, f"k{tick}")
        rig.tiers[1].done_all()
        rig.step()
        rig.now += 1.0
    assert len(rig.tiers[1].kept) == 100


def test_B65_queries_and_hits_of_a_tier_are_counted_once():
    rig = Rig(slots=16, count_lookups=True)
    request = rig.request()
    primary = [f"g{n}" for n in range(6)]
    rig.store(rig.request("other"), *primary)
    rig.settle()
    secondary = [f"k{n}" for n in range(4)]
    for key in secondary:
        rig.tier.claims[key] = Claim.UNDECIDED
    keys = primary + secondary
    assert rig.lookup(request, *keys) == [HIT] * 6 + [RETRY] * 4
    rig.step()
    rig.tier.claims.update(k0=Claim.PRESENT, k1=Claim.PRESENT, k2=Claim.ABSENT, k3=Claim.ABSENT)
    for _ in range(4):
        rig.lookup(request, *keys)
        rig.step()
        rig.tier.done_all()
    assert rig.lookup(request, *keys) == [HIT] * 8 + [MISS] * 2
    rig.load(request, *keys[:8])
    rig.step(request)
    rig.lookup(request, *keys, "more")
    stats = rig.manager.stats()
    assert stats['tierproof_tier_queries_total{tier="tier0"}'] == 4
    assert stats['tierproof_tier_hits_total{tier="tier0"}'] == 2
    assert stats['tierproof_lookup_misses_total{reason="ABSENT"}'] == 2
    assert stats["tierproof_lookup_queries_total"] == 10


def test_B65_an_abort_while_pending_is_counted_once_as_what_it_was():
    rig = Rig(count_lookups=True)
    request = rig.request()
    rig.tier.has("k")
    rig.lookup(request, "k", "k")
    rig.manager.on_request_finished(request)
    rig.step()
    stats = rig.manager.stats()
    assert stats["tierproof_lookup_queries_total"] == stats["tierproof_lookup_hits_total"] == 1


def test_B68_recency_follows_the_prefix_and_not_the_order_in_which_transfers_end():
    rig = Rig(slots=5, cascade_share=1.0)
    request, other = rig.request(), rig.request("other")
    rig.store(other, "z")
    rig.tier.has("k1", "k2")
    operations = {key: rig.begin_store(request, key) for key in ("k1", "k2", "k3", "k4")}
    for key in ("k3", "k1", "k4", "k2"):
        rig.manager.complete_store(operations[key])
    for _ in range(100):  # decode steps count as one access
        rig.manager.touch(["k1", "k2", "k3", "k4"], request)
        rig.step()
    rig.settle()  # copies to the tier do not count
    rig.manager.touch(["z"], other)
    rig.manager.on_request_finished(request)
    rig.manager.on_request_finished(other)
    fresh = rig.request()
    assert [rig.store(fresh, f"n{n}").evicted for n in range(2)] == [("k4",), ("k3",)]
