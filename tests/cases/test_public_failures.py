"""Public failures of systems of this kind, as cases (shared/cases/public-cases.md) for the manager.

Where the semantics of this project differ from a report, the right outcome is the one that the
semantics give, and the test says so.
"""

from __future__ import annotations

import itertools

import pytest

from tierproof import MissReason
from tierproof.impl.tiers.base import JobReport

from .support import HIT, HIT_PENDING, MISS, Rig, payload


def test_B01_a_waiting_queue_that_promotes_leaves_room_for_stores():
    rig = Rig(slots=4)
    one, two, running = rig.request("R1"), rig.request("R2"), rig.request("R0")
    a, b = [f"a{n}" for n in range(1, 5)], [f"b{n}" for n in range(1, 5)]
    rig.tier.has(*a, *b)
    answers = rig.lookup(one, *a)
    assert answers == [HIT_PENDING, HIT_PENDING, MISS, MISS]
    assert rig.lookup(two, *b) == [MISS] * 4, "nothing reserved for R1 is taken for R2"
    assert rig.store(running, "x").keys == ("x",)
    rig.step()
    rig.tier.done_all()
    assert rig.lookup(one, *a[:2]) == [HIT, HIT]


def test_B01_over_a_long_run_no_more_is_read_than_is_consumed():
    rig = Rig(slots=6)
    consumed = 0
    for number in range(50):
        request = rig.request(f"R{number}")
        keys = [f"{number}-{part}" for part in range(3)]
        rig.tier.has(*keys)
        for _ in range(3):
            rig.lookup(request, *keys)
            rig.step()
            rig.tier.done_all()
        ready = [
            key
            for key, answer in zip(keys, rig.lookup(request, *keys), strict=True)
            if answer is HIT
        ]
        rig.load(request, *ready)
        consumed += len(ready)
        rig.manager.on_request_finished(request)
        rig.step()
    promoted = sum(len(job.keys) for job in rig.tier.loads)
    assert promoted == consumed


def test_B03_a_started_promotion_counts_as_a_hit_so_that_the_scan_can_stop():
    rig = Rig(slots=4)
    keys = [f"k{n}" for n in range(1, 11)]
    rig.tier.has(*keys)
    request = rig.request()
    run, window, asked = 0, 2, 0
    for key in reversed(keys):
        (answer,) = rig.lookup(request, key)
        asked += 1
        run = run + 1 if answer in (HIT, HIT_PENDING) else 0
        if run == window:
            break
    assert (asked, rig.probe.permits_in_use()) == (2, 2), "the window's two blocks, not ten"
    rig.step()
    assert [job.keys for job in rig.tier.loads] == [("k10", "k9")]


def test_B03_a_primary_tier_full_of_pinned_blocks_is_answered_and_recovers():
    rig = Rig(slots=4)
    request = rig.request()
    rig.store(request, "p1", "p2", "p3", "p4")
    rig.settle()
    pinned = rig.manager.prepare_load(["p1", "p2", "p3", "p4"], request)
    rig.tier.has("k5")
    assert rig.lookup(request, "k5") == [MISS]
    assert rig.manager.explain("k5", request).reason is MissReason.FULL
    assert len(rig.probe.resident_keys()) == 4, "a pinned block was evicted"
    rig.step()
    rig.manager.complete_load(pinned)
    second = rig.request("R2")
    assert rig.lookup(second, "k5") == [HIT_PENDING]
    rig.step()
    rig.tier.done_all()
    assert rig.lookup(second, "k5") == [HIT]


def test_B05_a_failed_load_is_read_once_and_not_retried_for_ever():
    rig = Rig()
    one, other = rig.request("A"), rig.request("B")
    rig.tier.has("k")
    assert rig.lookup(one, "k") == [HIT_PENDING]
    rig.step()
    rig.tier.fail(rig.tier.loads[0])
    assert rig.lookup(one, "k", "k") == [MISS, MISS]
    assert rig.lookup(other, "k") == [MISS]
    rig.step()
    assert (len(rig.tier.loads), rig.probe.free_slots()) == (1, 4)
    rig.store(other, "k")
    assert rig.lookup(rig.request("C"), "k") == [HIT]


def test_B07_a_store_of_a_key_that_is_loading_needs_no_second_slot():
    # Keys are content addresses: a newer value is a newer key, so the second store is a no-op.
    rig = Rig()
    request = rig.request()
    rig.tier.has("k")
    rig.lookup(request, "k")
    rig.step()
    operation = rig.begin_store(request, "k")
    assert (operation.keys, operation.present) == ((), ("k",))
    rig.manager.complete_store(operation)
    assert rig.lookup(request, "k") == [HIT_PENDING], "the empty store made nothing readable"
    rig.step()
    rig.tier.done_all()
    assert rig.lookup(request, "k") == [HIT]
    rig.load(request, "k")
    assert rig.probe.free_slots() == 3


def test_B10_overlapping_stores_give_each_key_one_slot_whatever_ends_first():
    for order in itertools.permutations(range(2)):
        rig = Rig(slots=4, tiers=0)
        request = rig.request()
        operations = [
            rig.begin_store(request, "k1", "k2"),
            rig.begin_store(request, "k1", "k2", "k3"),
        ]
        assert [operation.keys for operation in operations] == [("k1", "k2"), ("k3",)]
        done: set[object] = set()
        for index in order:
            assert rig.probe.resident_keys() == done, "readable before its own end"
            rig.manager.complete_store(operations[index])
            done |= set(operations[index].keys)
            rig.probe.check()
        assert len({rig.probe.slot_of(key) for key in ("k1", "k2", "k3")}) == 3
        assert rig.probe.free_slots() == 1


def test_B10_a_failed_store_takes_nothing_from_the_one_that_overlaps_it():
    rig = Rig(slots=4, tiers=0)
    request = rig.request()
    first = rig.begin_store(request, "k1", "k2")
    second = rig.begin_store(request, "k1", "k2", "k3")
    rig.manager.complete_store(second)
    rig.manager.complete_store(first, ok=False)
    assert rig.probe.resident_keys() == {"k3"}
    assert rig.probe.free_slots() == 3


def test_B12_a_newer_value_that_a_tier_refuses_is_never_answered_with_the_older_one():
    # Keys are content addresses: a newer value is a new key, and the older one stays what it was.
    rig = Rig(slots=4)
    request = rig.request()
    rig.store(rig.request(), "k, older")
    rig.tier.done_all()
    rig.step()
    rig.tier.refuses.add("k, newer")
    rig.store(rig.request(), "k, newer")
    rig.store(rig.request(), "x", "y")
    rig.store(rig.request(), "z")  # evicts the older value and, with one more, the newer one
    rig.settle()
    rig.store(rig.request(), "w")
    rig.settle()
    assert "k, newer" not in rig.probe.resident_keys() | set(rig.tier.kept)
    assert rig.lookup(request, "k, newer") == [MISS]
    assert rig.lookup(request, "k, older") == [HIT_PENDING], "another key, with its own bytes"


def test_B12_while_a_copy_is_on_its_way_lookup_and_read_agree():
    rig = Rig(slots=4)
    request = rig.request()
    rig.store(request, "k")
    assert rig.tier.running, "the copy has not ended"
    assert rig.lookup(request, "k") == [HIT]
    rig.load(request, "k")


def test_B13_a_landed_block_is_not_evicted_by_another_promotion_before_it_is_read():
    # With three slots there are two permits: at least one slot is always left to stores.
    rig = Rig(slots=3, promotion_share=1.0)
    one, other = rig.request("A"), rig.request("B")
    rig.tier.has("a1", "a2", "b1")
    rig.lookup(one, "a1", "a2")
    rig.step()
    rig.tier.done_all()
    assert rig.lookup(other, "b1") == [MISS]
    assert rig.manager.explain("b1", other).reason is MissReason.FULL
    assert rig.probe.resident_keys() == {"a1", "a2"}
    assert rig.lookup(one, "a1", "a2") == [HIT, HIT]
    rig.load(one, "a1", "a2")
    assert rig.lookup(other, "b1") == [HIT_PENDING]


def test_B13_an_abort_frees_what_nobody_will_read():
    rig = Rig(slots=3, promotion_share=1.0)
    one, other = rig.request("A"), rig.request("B")
    rig.tier.has("a1", "a2", "b1", "b2")
    rig.lookup(one, "a1", "a2")
    rig.step()
    rig.tier.done_all()
    rig.notice()
    rig.manager.on_request_finished(one)
    assert rig.probe.permits_in_use() == 0
    assert rig.lookup(other, "b1", "b2") == [HIT_PENDING, HIT_PENDING]


def test_B15_a_lease_that_ends_in_the_middle_of_a_read_does_not_give_the_slot_away():
    # A pinned block is not evicted whatever its lease says, so the read returns k's bytes.
    rig = Rig(slots=2, lease=5.0)
    request, other = rig.request(), rig.request("other")
    rig.promote(request, "k")
    operation = rig.manager.prepare_load(["k"], request)
    rig.now = 6.0
    rig.notice()
    stored = rig.begin_store(other, "z", "y")
    assert (stored.keys, stored.refused) == (("z",), ("y",))
    rig.now = 9.0
    assert bytes(rig.manager.arena.row(operation.slots[0])) == payload("k", rig.manager.arena)
    rig.manager.complete_load(operation)
    assert rig.begin_store(other, "y").evicted == ("k",)


def test_B18_the_slot_is_freed_exactly_once_in_every_order_of_releases():
    calls = ("unpin 1", "unpin 2", "finish")
    for order in itertools.permutations(calls):
        rig = Rig(slots=2)
        request, other = rig.request(), rig.request("other")
        rig.promote(request, "k")
        rig.lookup(other, "k")
        first = rig.manager.prepare_load(["k"], request)
        second = rig.manager.prepare_load(["k"], other)
        for position, call in enumerate(order):
            assert rig.probe.pins("k") == 2 - len({"unpin 1", "unpin 2"} & set(order[:position]))
            if call == "finish":
                rig.manager.on_request_finished(request)
            else:
                rig.manager.complete_load(first if call == "unpin 1" else second)
            rig.probe.check()
        assert (rig.probe.pins("k"), rig.probe.permits_in_use()) == (0, 0)
        assert rig.begin_store(other, "x", "y").keys == ("x", "y")


def test_B18_nothing_is_left_pinned_after_ten_thousand_rounds():
    rig = Rig(slots=4, tiers=0, events=False)
    request = rig.request()
    rig.store(request, "k")
    for _ in range(10_000):
        rig.manager.complete_load(rig.manager.prepare_load(["k"], request))
    assert rig.probe.pins("k") == 0
    rig.manager.reset_cache()
    assert (rig.probe.free_slots(), rig.probe.quarantined()) == (4, set())


@pytest.mark.parametrize("moment", ["queued", "loading", "landed"])
def test_B20_an_abort_before_use_leaves_no_lock(moment):
    rig = Rig(slots=4)
    request = rig.request()
    rig.tier.has("k")
    rig.lookup(request, "k")
    if moment != "queued":
        rig.step()
    if moment == "landed":
        rig.tier.done_all()
        rig.notice()
    rig.manager.on_request_finished(request)
    rig.step()
    rig.tier.done_all()
    rig.step()
    assert (rig.probe.pins("k"), rig.probe.waiters("k"), rig.probe.permits_in_use()) == (
        0,
        set(),
        0,
    )
    assert rig.begin_store(rig.request(), "w", "x", "y", "z").keys == ("w", "x", "y", "z")
    rig.settle()


def test_B21_a_promotion_counts_until_its_job_reports_however_often_it_is_polled():
    rig = Rig(slots=4)  # two permits
    one, other = rig.request("A"), rig.request("B")
    rig.tier.has("k1", "k2", "k3")
    rig.lookup(one, "k1")
    rig.lookup(other, "k2")
    rig.step()
    for _ in range(3):
        assert rig.lookup(one, "k1", "k3") == [HIT_PENDING, MISS]
        rig.step()
    rig.manager.on_request_finished(one)
    assert rig.probe.permits_in_use() == 2, "the aborted one still owns its slot"
    for job in list(rig.tier.running):
        rig.tier.done(job)
    assert rig.lookup(other, "k2") == [HIT]
    rig.load(other, "k2")
    assert (rig.probe.permits_in_use(), rig.probe.work_in_flight()) == (0, 0)
    assert rig.lookup(other, "k3") == [HIT_PENDING]


def test_B23_one_bad_key_does_not_throw_away_the_good_ones():
    rig = Rig(slots=8)
    request = rig.request()
    keys = ("k1", "k2", "k3")
    rig.tier.has(*keys)
    rig.lookup(request, *keys)
    rig.step()
    rig.tier.done(rig.tier.loads[0], ["k1", "k3"])
    answers = rig.lookup(request, *keys)
    assert answers == [HIT, MISS, HIT]
    assert rig.probe.free_slots() == 6
    prefix = list(itertools.takewhile(lambda answer: answer is HIT, answers))
    assert len(prefix) == 1, "a prefix reader stops at k1"


def test_B23_a_foreign_key_is_refused_and_nothing_landed_means_all_failed():
    rig = Rig(slots=8)
    request = rig.request()
    rig.tier.has("k1", "k2")
    rig.lookup(request, "k1", "k2")
    rig.step()
    job = rig.tier.loads[0]
    rig.tier.report(JobReport(job.job_id, frozenset({"k1", "k9"})))
    assert rig.lookup(request, "k1", "k2") == [HIT_PENDING, HIT_PENDING]
    assert len(rig.manager.contract_violations) == 1
    rig.step()
    rig.tier.fail(job)
    assert rig.lookup(request, "k1", "k2") == [MISS, MISS]
    assert rig.probe.free_slots() == 8
