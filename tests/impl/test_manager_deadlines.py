"""What time does: overdue writers, probes, and one reading of the clock for each step."""

from __future__ import annotations

import logging

import pytest

from tierproof import MissReason

from .support import HIT, HIT_PENDING, MISS, Rig


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


def test_a_block_that_lands_between_two_steps_has_its_whole_lease():
    rig = Rig(slots=4, tiers=0, lease=10.0, pending_deadline=None)
    writer, reader = rig.request("writer"), rig.request("reader")
    operation = rig.begin_store(writer, "k")
    assert rig.lookup(reader, "k") == [HIT_PENDING]
    rig.step()
    rig.now = 100.0
    rig.manager.complete_store(operation)
    rig.now = 109.9
    rig.notice()
    assert rig.probe.waiters("k") == {reader.handle}
    rig.now = 110.0
    rig.notice()
    assert not rig.probe.waiters("k")


def test_a_copy_that_begins_between_two_steps_has_its_whole_deadline():
    rig = Rig(slots=8, pending_deadline=10.0)
    request = rig.request()
    operation = rig.begin_store(request, "k")
    rig.step()
    rig.now = 9.0
    rig.manager.complete_store(operation)
    rig.now = 18.0
    rig.store(request, "other")
    assert [job.keys for job in rig.tier.stores] == [("k",), ("other",)], "k's copy is not overdue"


def test_a_send_between_two_steps_has_its_whole_deadline():
    rig = Rig(slots=16, tiers=2, pending_deadline=10.0)
    peer = rig.manager.external("tier1")
    request = peer.on_new_request("peer")
    rig.store(rig.request(), "k", "l")
    rig.settle()
    rig.now = 100.0
    assert peer.send(["k"], request) is not None
    rig.now = 109.0
    rig.step()
    assert peer.send(["l"], request) is not None, "the tier's store is not overdue"


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


@pytest.mark.parametrize("what", ["load", "store"])
def test_a_transfer_is_overdue_however_long_nobody_looked(what, caplog):
    rig = Rig(slots=8, pending_deadline=10.0)
    rig.now = 1000.0
    rig.notice()
    request = rig.request()
    if what == "load":
        rig.tier.has("k", "l")
        rig.lookup(request, "k", "l")
    else:
        rig.begin_store(request, "k", "l")
    rig.step()
    rig.now = 1100.0
    assert rig.lookup(request, "k") == [MISS]
    assert "a transfer into 2 slots has not reported for 100.0 s" in caplog.text


@pytest.mark.parametrize("first", ["load", "store"])
def test_the_oldest_transfer_is_overdue_first_whatever_began_after_it(first):
    rig = Rig(slots=8, pending_deadline=10.0)
    request = rig.request()
    rig.tier.has("load")

    def begin(what: str) -> None:
        if what == "load":
            rig.lookup(request, "load")
        else:
            rig.begin_store(request, "store")
        rig.step()

    second = "load" if first == "store" else "store"
    begin(first)
    rig.now = 6.0
    begin(second)
    rig.now = 10.0
    assert rig.lookup(request, first, second) == [MISS, HIT_PENDING]
    rig.step()
    rig.now = 16.0
    assert rig.lookup(request, first, second) == [MISS, MISS]
