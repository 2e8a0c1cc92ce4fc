"""Promises until read, permits, leases, and the short promise of a HIT."""

from __future__ import annotations

import pytest

from tierproof import ContractViolation

from .support import HIT, HIT_PENDING, MISS, Rig


def test_a_landed_block_stays_until_its_waiter_has_read_it():
    rig = Rig(slots=4)
    request = rig.request()
    rig.promote(request, "a", "b")
    rig.store(request, "x", "y")
    rig.settle()
    assert rig.begin_store(request, "z", "w").evicted == ("y", "x")
    assert rig.manager.prepare_store(["v"], request) is None, "a promised block was evicted"
    rig.lookup(request, "a", "b")
    rig.load(request, "a", "b")
    assert rig.begin_store(request, "v").evicted == ("b",)


def test_a_waiter_is_never_answered_miss_or_retry_again_before_a_named_release():
    rig = Rig(slots=4)
    request, other = rig.request(), rig.request("other")
    rig.promote(request, "k")
    for number in range(20):
        operation = rig.manager.prepare_store([f"x{number}"], other)
        if operation is not None:
            rig.manager.complete_store(operation)
        assert rig.lookup(request, "k") == [HIT]
        rig.step()


def test_there_are_as_many_permits_as_the_share_but_a_slot_is_left_to_stores():
    for slots, share, permits in [(1, 0.5, 1), (2, 1.0, 1), (4, 0.5, 2), (10, 1.0, 9), (10, 0, 1)]:
        rig = Rig(slots=slots, promotion_share=share)
        keys = [f"k{number}" for number in range(10)]
        rig.tier.has(*keys)
        answers = rig.lookup(rig.request(), *keys)
        assert answers == [HIT_PENDING] * permits + [MISS] * (10 - permits)
        assert rig.probe.permits_in_use() == permits


def test_the_permit_is_held_until_the_last_waiter_has_read_or_let_go():
    rig = Rig(slots=4)
    one, other = rig.request("one"), rig.request("other")
    rig.tier.has("k")
    rig.lookup(one, "k")
    rig.lookup(other, "k")
    rig.step()
    rig.tier.done_all()
    rig.lookup(one, "k")
    rig.load(one, "k")
    assert (rig.probe.permits_in_use(), rig.probe.waiters("k")) == (1, {other.handle})
    rig.manager.on_request_finished(other)
    assert (rig.probe.permits_in_use(), rig.probe.waiters("k")) == (0, set())
    rig.probe.check()


def test_a_block_that_nobody_waits_on_any_more_gives_its_permit_back_when_it_lands():
    rig = Rig()
    request = rig.request()
    rig.tier.has("k")
    rig.lookup(request, "k")
    rig.step()
    rig.manager.on_request_finished(request)
    assert rig.probe.permits_in_use() == 1, "the permit belongs to the slot while it is written"
    rig.tier.done_all()
    rig.notice()
    assert rig.probe.permits_in_use() == 0
    assert rig.probe.resident_keys() == {"k"}


def test_a_wait_on_a_store_takes_a_permit_if_one_is_free():
    rig = Rig(slots=2)  # one permit
    writer, reader = rig.request("writer"), rig.request("reader")
    operation = rig.begin_store(writer, "k")
    assert rig.lookup(reader, "k") == [HIT_PENDING]
    assert rig.probe.permits_in_use() == 1
    rig.manager.complete_store(operation)
    assert rig.probe.waiters("k") == {reader.handle}
    assert rig.begin_store(writer, "x").evicted == ()
    assert rig.manager.prepare_store(["y"], writer) is None, "a promised block was evicted"
    rig.probe.check()


def test_a_wait_on_a_store_without_a_permit_ends_when_it_lands():
    rig = Rig(slots=3, promotion_share=0.0)  # one permit
    writer, reader = rig.request("writer"), rig.request("reader")
    operation = rig.begin_store(writer, "a", "b")
    assert rig.lookup(reader, "a", "b") == [HIT_PENDING] * 2
    rig.manager.complete_store(operation)
    assert rig.probe.waiters("a") == {reader.handle}
    assert rig.probe.waiters("b") == set()
    rig.probe.check()


def test_a_waiter_on_a_store_that_asks_again_tries_again_for_a_permit():
    rig = Rig(slots=3, promotion_share=0.0)  # one permit
    writer, reader = rig.request("writer"), rig.request("reader")
    first, second = rig.begin_store(writer, "a"), rig.begin_store(writer, "b")
    rig.lookup(reader, "a", "b")
    rig.manager.complete_store(first, ok=False)
    assert rig.manager.lookup_many(["b"], reader) == [HIT_PENDING]
    rig.manager.complete_store(second)
    assert rig.probe.waiters("b") == {reader.handle}
    rig.probe.check()


def test_a_later_waiter_on_a_store_without_a_permit_tries_again():
    rig = Rig(slots=3, promotion_share=0.0)  # one permit
    writer, one, other = rig.request("writer"), rig.request("one"), rig.request("other")
    operation = rig.begin_store(writer, "a", "b")
    rig.lookup(one, "a", "b")
    rig.manager.withdraw(["a"], one)
    assert rig.probe.permits_in_use() == 1, "the permit stays with the writer"
    rig.manager.complete_store(operation, ok=False)
    operation = rig.begin_store(writer, "a", "b")
    rig.lookup(one, "a", "b")
    rig.manager.complete_store(operation, ok=False)
    operation = rig.begin_store(writer, "c")
    rig.lookup(one, "c")
    assert rig.probe.permits_in_use() == 1
    first = rig.begin_store(writer, "d")
    rig.lookup(one, "d")
    rig.manager.complete_store(operation, ok=False)
    rig.lookup(other, "d")
    assert rig.probe.permits_in_use() == 1
    rig.manager.complete_store(first)
    assert rig.probe.waiters("d") == {one.handle, other.handle}
    rig.probe.check()


def test_a_hit_can_be_loaded_whatever_is_looked_up_or_promoted_before():
    rig = Rig(slots=3, promotion_share=1.0)
    filler, reader, other = rig.request("filler"), rig.request("reader"), rig.request("other")
    rig.store(filler, "a", "b", "c")
    rig.settle()
    assert rig.lookup(reader, "a", "b") == [HIT, HIT]
    rig.tier.has("p", "q")
    assert rig.lookup(other, "p", "q") == [HIT_PENDING, MISS], "only c is neither promised"
    assert rig.probe.resident_keys() == {"a", "b"}
    rig.load(reader, "a", "b")
    assert rig.lookup(other, "q") == [HIT_PENDING]
    rig.probe.check()


def test_a_hit_promise_ends_with_the_step():
    rig = Rig(slots=2)
    request, other = rig.request(), rig.request("other")
    rig.store(request, "a", "b")
    rig.settle()
    rig.tier.has("k")
    rig.lookup(request, "a", "b")
    assert rig.lookup(other, "k") == [MISS]
    rig.step()
    assert rig.lookup(other, "k") == [HIT_PENDING]
    rig.probe.check()


def test_a_hit_promise_ends_when_a_store_begins_even_one_that_gets_nothing():
    rig = Rig(slots=2)
    request, other = rig.request(), rig.request("other")
    rig.store(request, "a", "b")
    rig.settle()
    rig.lookup(request, "a", "b")
    pinned = rig.manager.prepare_load(["a", "b"], request)
    assert rig.manager.prepare_store(["x"], other) is None
    rig.manager.complete_load(pinned)
    rig.lookup(request, "a", "b")
    rig.tier.has("k")
    assert rig.lookup(other, "k") == [MISS]
    assert rig.begin_store(other, "x").evicted == ("b",)
    assert rig.lookup(other, "k") == [HIT_PENDING], "a's promise should have ended with the store"
    rig.probe.check()


@pytest.mark.parametrize("first_to_load", [0, 1])
def test_a_hit_promise_to_two_requests_lasts_until_both_have_loaded(first_to_load):
    rig = Rig(slots=2)
    pair = [rig.request("one"), rig.request("two")]
    rig.store(pair[0], "a", "b")
    rig.settle()
    rig.lookup(pair[0], "a", "b")
    rig.lookup(pair[1], "a", "b")
    rig.tier.has("k")
    other = rig.request("other")
    rig.load(pair[first_to_load], "a", "b")
    assert rig.lookup(other, "k") == [MISS]
    rig.load(pair[1 - first_to_load], "a", "b")
    assert rig.lookup(other, "k") == [HIT_PENDING]


def test_a_third_request_joins_a_shared_hit_promise():
    rig = Rig(slots=2)
    three = [rig.request(name) for name in ("one", "two", "three")]
    rig.store(three[0], "a", "b")
    rig.settle()
    for request in three:
        rig.lookup(request, "a", "b")
    for request in three[:2]:
        rig.load(request, "a", "b")
    rig.tier.has("k")
    assert rig.lookup(rig.request("other"), "k") == [MISS]
    assert rig.lookup(three[0], "a") == [HIT]
    rig.probe.check()


def test_the_end_of_a_request_ends_its_hit_promises_and_nobody_elses():
    rig = Rig(slots=2)
    one, two, other = rig.request("one"), rig.request("two"), rig.request("other")
    rig.store(one, "a", "b")
    rig.settle()
    rig.lookup(one, "a", "b")
    rig.lookup(two, "b")
    rig.tier.has("k", "j")
    assert rig.lookup(other, "k") == [MISS]
    rig.manager.on_request_finished(one)
    assert rig.lookup(other, "k") == [HIT_PENDING]
    assert rig.probe.resident_keys() == {"b"}
    rig.manager.on_request_finished(two)
    rig.probe.check()


def test_a_promise_whose_request_has_ended_is_replaced_by_the_next_ones():
    rig = Rig(slots=2)
    one, two, three = rig.request("one"), rig.request("two"), rig.request("three")
    rig.store(one, "a", "b")
    rig.settle()
    rig.lookup(one, "a", "b")
    rig.lookup(two, "a")
    rig.manager.on_request_finished(one)
    rig.manager.on_request_finished(two)
    rig.lookup(three, "a", "b")
    rig.tier.has("k")
    assert rig.lookup(rig.request("other"), "k") == [MISS]


def test_stores_are_not_starved_by_requests_that_hit_the_same_blocks_in_every_step():
    rig = Rig(slots=4)
    waiting = [rig.request(f"waiting{number}") for number in range(3)]
    running = rig.request("running")
    rig.store(running, "a", "b", "c", "d")
    for number in range(5):
        for request in waiting:
            rig.lookup(request, "a", "b", "c", "d")
        assert rig.store(running, f"x{number}").keys == (f"x{number}",)
        rig.tier.done_all()
        rig.step()


def test_the_lease_bounds_how_long_a_landed_block_waits_to_be_read():
    rig = Rig(slots=2, lease=10.0)
    request = rig.request()
    rig.promote(request, "k")
    rig.now = 9.9
    rig.notice()
    assert rig.probe.waiters("k") == {request.handle}
    rig.now = 10.0
    rig.notice()
    assert rig.probe.waiters("k") == set()
    assert rig.lookup(request, "k") == [HIT]
    assert rig.probe.permits_in_use() == 0
    rig.probe.check()


def test_the_lease_does_not_end_the_promise_of_who_is_reading():
    rig = Rig(slots=4, lease=10.0)
    reading, late = rig.request("reading"), rig.request("late")
    rig.tier.has("k")
    rig.lookup(reading, "k")
    rig.lookup(late, "k")
    rig.step()
    rig.tier.done_all()
    operation = rig.manager.prepare_load(["k"], reading)
    rig.now = 10.0
    rig.step()
    rig.notice()
    assert rig.probe.waiters("k") == {reading.handle}
    rig.manager.complete_load(operation)
    assert rig.probe.waiters("k") == set()
    rig.probe.check()


def test_without_a_lease_a_landed_block_waits_for_ever():
    rig = Rig(slots=2, lease=None)
    request = rig.request()
    rig.promote(request, "k")
    rig.now = 1e9
    rig.notice()
    assert rig.probe.waiters("k") == {request.handle}


def test_a_lease_of_a_block_that_was_read_does_not_touch_its_successor():
    rig = Rig(slots=2, lease=10.0)
    request = rig.request()
    rig.promote(request, "k")
    rig.lookup(request, "k")
    rig.load(request, "k")
    rig.begin_store(request, "x", "y")
    rig.now = 10.0
    rig.notice()
    assert rig.probe.phase("k") == "ABSENT"


def test_a_request_that_is_scheduled_lets_go_of_what_it_does_not_read():
    rig = Rig(slots=8)
    request = rig.request()
    rig.promote(request, "read", "unread")
    rig.tier.has("queued")
    rig.lookup(request, "queued")
    operation = rig.manager.prepare_load(["read"], request)
    rig.step(request)
    assert rig.probe.waiters("read") == {request.handle}
    assert rig.probe.waiters("unread") == rig.probe.waiters("queued") == set()
    assert rig.probe.phase("queued") == "LOADING", "it was submitted: the writer goes on"
    rig.manager.complete_load(operation)
    assert rig.probe.waiters("read") == set()
    rig.probe.check()


def test_withdraw_drops_a_queued_promotion_that_nobody_else_waits_on():
    rig = Rig(slots=4)
    request = rig.request()
    rig.tier.has("a", "b")
    rig.lookup(request, "a", "b")
    rig.manager.withdraw(["b", "unknown"], request)
    rig.step()
    assert [job.keys for job in rig.tier.loads] == [("a",)]
    assert (rig.probe.free_slots(), rig.probe.permits_in_use()) == (3, 1)


def test_withdraw_passes_a_queued_promotion_to_who_else_waits_on_it():
    rig = Rig(slots=8)
    one, other = rig.request("one"), rig.request("other")
    rig.tier.has("a", "b", "c")
    rig.lookup(other, "c")
    rig.lookup(one, "a", "b")
    rig.lookup(other, "a")
    rig.manager.withdraw(["a", "b"], one)
    rig.step()
    (job,) = rig.tier.loads
    assert (job.keys, job.request) == (("c", "a"), other.info)


def test_withdraw_of_a_block_that_has_landed_ends_the_promise():
    rig = Rig(slots=4)
    request = rig.request()
    rig.promote(request, "k")
    rig.manager.withdraw(["k"], request)
    assert (rig.probe.waiters("k"), rig.probe.permits_in_use()) == (set(), 0)


def test_two_loads_of_one_block_by_one_request_end_its_promise_with_the_first():
    rig = Rig(slots=4)
    request = rig.request()
    rig.promote(request, "k")
    first = rig.manager.prepare_load(["k"], request)
    second = rig.manager.prepare_load(["k"], request)
    assert rig.probe.pins("k") == 2
    rig.manager.complete_load(second)
    assert (rig.probe.pins("k"), rig.probe.waiters("k")) == (1, set())
    rig.manager.complete_load(first.operation_id)
    assert rig.probe.pins("k") == 0
    rig.probe.check()
    with pytest.raises(ContractViolation, match="unknown or complete"):
        rig.manager.complete_load(first)


@pytest.mark.parametrize("many", [False, True])
def test_a_hit_of_another_request_takes_no_promise_away_however_it_is_asked(many):
    rig = Rig(slots=1)
    first, second = rig.request("first"), rig.request("second")
    rig.store(first, "a")
    rig.settle()
    assert rig.lookup(first, "a") == [HIT]
    if many:
        assert rig.manager.lookup_many(["a"], second) == [HIT]
    else:
        assert rig.lookup(second, "a") == [HIT]
    rig.manager.on_request_finished(second)
    rig.tier.has("k")
    assert rig.lookup(rig.request("third"), "k") == [MISS]
    rig.load(first, "a")
