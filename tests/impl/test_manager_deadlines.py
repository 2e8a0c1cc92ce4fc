"""What time does: overdue writers, probes, and one reading of the clock for each step."""

from __future__ import annotations

import logging

import pytest

from tierproof import MissReason
from tierproof.impl.tiers.base import Claim

from .support import HIT, HIT_PENDING, MISS, RETRY, Rig


def loading(rig: Rig, *keys: str) -> None:
    """Promotions under way, for a request of their own."""
    rig.tier.has(*keys)
    rig.lookup(rig.request("loader"), *keys)
    rig.step()


def test_a_promotion_past_the_deadline_answers_miss_and_its_slot_is_not_given_out():
    rig = Rig(slots=2, pending_deadline=10.0)
    loading(rig, "k")
    rig.now = 10.0
    request = rig.request()
    assert rig.lookup(request, "k", "k") == [MISS, MISS]
    assert rig.manager.explain("k", request).reason is MissReason.OVERDUE
    assert rig.probe.waiters("k") == set()
    assert (rig.probe.free_slots(), rig.probe.permits_in_use()) == (1, 1)
    operation = rig.manager.prepare_store(["x", "y", "k"], request)
    assert operation is not None
    assert (operation.keys, operation.present, operation.refused) == (("x",), ("k",), ("y",))


def test_a_report_that_arrives_with_the_deadline_wins():
    rig = Rig(pending_deadline=10.0)
    loading(rig, "k")
    rig.now = 10.0
    rig.tier.done_all()
    assert rig.lookup(rig.request(), "k") == [HIT]


def test_a_late_success_makes_the_block_resident_once_and_gives_the_permit_back():
    rig = Rig(pending_deadline=10.0)
    loading(rig, "k")
    rig.now = 10.0
    rig.notice()
    rig.tier.done_all()
    request = rig.request()
    assert rig.lookup(request, "k") == [HIT]
    assert rig.probe.permits_in_use() == 0
    assert [event.key for event in rig.manager.take_events()] == ["k"]
    rig.load(request, "k")


def test_a_late_failure_frees_the_slot_and_retracts_the_claim():
    rig = Rig(pending_deadline=10.0)
    loading(rig, "k")
    rig.now = 10.0
    rig.notice()
    rig.tier.fail(rig.tier.loads[0])
    request = rig.request()
    assert rig.lookup(request, "k") == [MISS]
    assert rig.manager.explain("k", request).reason is MissReason.FAILED
    assert rig.probe.free_slots() == 4


def test_a_store_past_the_deadline_is_overdue_and_cascades_when_it_lands_late():
    rig = Rig(pending_deadline=10.0)
    request, other = rig.request(), rig.request("other")
    operation = rig.begin_store(request, "a")
    rig.lookup(other, "a")
    rig.step()
    rig.now = 10.0
    assert rig.lookup(other, "a") == [MISS]
    assert rig.probe.permits_in_use() == 1
    rig.manager.complete_store(operation)
    assert rig.lookup(other, "a") == [HIT]
    assert rig.probe.permits_in_use() == 0
    assert [job.keys for job in rig.tier.stores] == [("a",)]
    rig.step()


def test_a_late_failed_store_frees_its_slots():
    rig = Rig(pending_deadline=10.0)
    request = rig.request()
    operation = rig.begin_store(request, "a")
    rig.step()
    rig.now = 10.0
    rig.notice()
    rig.manager.complete_store(operation, ok=False)
    assert rig.probe.free_slots() == 4
    assert rig.lookup(request, "a") == [MISS]
    rig.probe.check()


def test_without_a_deadline_a_writer_may_take_for_ever():
    rig = Rig(pending_deadline=None)
    loading(rig, "k")
    request = rig.request()
    rig.begin_store(request, "a")
    rig.step()
    rig.now = 1e9
    assert rig.lookup(request, "k", "a") == [HIT_PENDING] * 2
    rig.store(request, "b")
    rig.step()
    assert [job.keys for job in rig.tier.stores] == [("b",)]


def test_an_overdue_transfer_is_told_once(caplog):
    rig = Rig(slots=8, pending_deadline=10.0)
    loading(rig, "a", "b")
    rig.now = 10.0
    with caplog.at_level(logging.WARNING, "tierproof"):
        rig.notice()
        rig.now = 50.0
        rig.notice()
    (record,) = caplog.records
    assert "a transfer into 2 slots has not reported for 10.0 s" in record.getMessage()
    assert rig.manager.stats()["tierproof_overdue_blocks_total"] == 2


def test_a_tier_that_stays_undecided_counts_as_a_miss_and_is_not_asked_again():
    rig = Rig(tiers=2, probe_deadline=5.0)
    rig.tiers[0].claims["k"] = Claim.UNDECIDED
    request = rig.request()
    assert rig.lookup(request, "k") == [RETRY]
    rig.step()
    rig.now = 4.9
    assert rig.lookup(request, "k") == [RETRY]
    assert rig.manager.explain("k", request).answer is RETRY
    rig.step()
    rig.now = 5.0
    assert rig.manager.has_pending_work()
    rig.lookup(request, "other")
    assert rig.manager.explain("k", request).reason is MissReason.PROBE_TIMEOUT
    assert rig.lookup(request, "k") == [MISS]
    assert not rig.manager.has_pending_work()
    asked = len(rig.tiers[0].asked)
    rig.tiers[0].has("k")
    assert rig.lookup(request, "k") == [MISS]
    assert rig.manager.explain("k", request).tiers == {"tier0": "timed out", "tier1": "absent"}
    assert len(rig.tiers[0].asked) == asked, "the timeout is sticky for this request"
    assert rig.lookup(rig.request("another"), "k") == [HIT_PENDING]


def test_a_tier_that_decides_in_time_is_asked_first_and_then_believed():
    rig = Rig(probe_deadline=5.0)
    rig.tier.claims["k"] = Claim.UNDECIDED
    request = rig.request()
    rig.lookup(request, "k")
    rig.step()
    rig.now = 5.0
    rig.tier.claims["k"] = Claim.PRESENT
    assert rig.lookup(request, "k") == [HIT_PENDING]


def test_a_decided_answer_starts_the_probe_anew():
    rig = Rig(tiers=2, probe_deadline=5.0)
    request = rig.request()
    for tier in rig.tiers:
        tier.claims["k"] = Claim.UNDECIDED
    rig.lookup(request, "k")
    rig.step()
    rig.tiers[0].claims["k"] = Claim.ABSENT
    assert rig.lookup(request, "k") == [RETRY]
    rig.step()
    rig.tiers[0].claims["k"] = Claim.UNDECIDED
    rig.now = 5.0
    assert rig.lookup(request, "k") == [RETRY], "tier1 has timed out, tier0 has not"
    assert rig.manager.explain("k", request).tiers == {"tier0": "undecided", "tier1": "timed out"}


def test_one_tier_may_time_out_for_several_keys_and_several_tiers_for_one():
    rig = Rig(tiers=2, probe_deadline=5.0)
    request = rig.request()
    for tier in rig.tiers:
        tier.claims.update(a=Claim.UNDECIDED, b=Claim.UNDECIDED)
    assert rig.lookup(request, "a", "b") == [RETRY, RETRY]
    rig.step()
    rig.now = 5.0
    assert rig.lookup(request, "a", "b") == [MISS, MISS]
    assert request.timed_out == {"a": 3, "b": 3}
    rig.probe.check()


def test_a_tier_that_raises_ends_its_probe():
    rig = Rig(probe_deadline=None)
    rig.tier.claims["k"] = Claim.UNDECIDED
    request = rig.request()
    rig.lookup(request, "k")
    rig.step()
    rig.now = 1e6
    assert rig.lookup(request, "k") == [RETRY]
    rig.tier.raises["lookup"] = OSError()
    assert rig.lookup(request, "k") == [MISS]
    assert not rig.manager.has_pending_work()


def test_probes_die_with_their_request():
    rig = Rig()
    rig.tier.claims["k"] = Claim.UNDECIDED
    request = rig.request()
    rig.lookup(request, "k")
    rig.manager.on_request_finished(request)
    rig.step()
    assert not rig.manager.has_pending_work()


def test_a_full_primary_tier_leaves_other_tiers_probes_as_they_are():
    rig = Rig(slots=1, tiers=2)
    request = rig.request()
    rig.begin_store(request, "x")
    rig.tiers[0].claims["k"] = Claim.UNDECIDED
    rig.tiers[1].has("k")
    assert rig.lookup(request, "k") == [MISS]
    assert rig.manager.explain("k", request).reason is MissReason.FULL
    assert list(request.probes) == ["k"]
    rig.probe.check()


def test_a_wait_on_a_block_that_another_request_promotes_settles_the_probe():
    rig = Rig(tiers=2)
    one, other = rig.request("one", "tier0"), rig.request("other")
    rig.tiers[0].claims["k"] = Claim.UNDECIDED
    assert rig.lookup(one, "k") == [RETRY]
    rig.tiers[1].has("k")
    assert rig.lookup(other, "k") == [HIT_PENDING]
    assert rig.lookup(one, "k") == [HIT_PENDING]
    assert not one.probes
    rig.probe.check()


def test_the_clock_is_read_once_a_step():
    rig = Rig()
    readings = []

    def clock() -> float:
        readings.append(rig.now)
        return rig.now

    rig.manager._step._clock = clock
    request = rig.request()
    for _ in range(3):
        rig.lookup(request, "a", "b", "c")
        rig.store(request, "x")
        rig.step()
    assert len(readings) == 3


@pytest.mark.parametrize("first", ["lookup", "prepare_store", "step"])
def test_whatever_comes_first_begins_the_step(first):
    rig = Rig(pending_deadline=10.0)
    loading(rig, "k")
    rig.now = 10.0
    request = rig.request()
    if first == "lookup":
        rig.lookup(request, "other")
    elif first == "prepare_store":
        rig.begin_store(request, "other")
    else:
        rig.step()
    assert rig.probe.phase("k") == "OVERDUE_LOADING"


def test_calls_that_only_take_note_do_not_begin_a_step():
    rig = Rig()
    request = rig.request()
    rig.manager.explain("k", request)
    rig.manager.touch(["k"], request)
    rig.manager.withdraw(["k"], request)
    rig.manager.take_events()
    rig.manager.has_pending_work()
    rig.manager.on_request_finished(request)
    assert rig.tier.polls == 0
