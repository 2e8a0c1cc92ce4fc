"""GPU stores and loads: slots, pins, operations; and the events that follow from them."""

from __future__ import annotations

import pytest

from tierproof import ContractViolation

from .support import HIT, HIT_PENDING, MISS, Rig


def test_a_store_is_readable_when_it_is_complete_and_not_before():
    rig = Rig()
    request, other = rig.request(), rig.request("other")
    operation = rig.begin_store(request, "a", "b")
    assert rig.lookup(other, "a") == [HIT_PENDING]
    with pytest.raises(ContractViolation, match="1 of 1 blocks to load are not resident"):
        rig.manager.prepare_load(["a"], other)
    rig.manager.complete_store(operation)
    assert rig.lookup(other, "a", "b") == [HIT, HIT]
    rig.load(other, "a", "b")


def test_a_failed_store_is_at_no_instant_readable_evented_or_cascaded():
    rig = Rig()
    request, other = rig.request(), rig.request("other")
    operation = rig.begin_store(request, "a")
    rig.lookup(other, "a")
    rig.manager.complete_store(operation, ok=False)
    assert rig.lookup(other, "a") == [MISS]
    assert rig.manager.take_events() == []
    assert rig.tier.stores == []
    assert rig.probe.free_slots() == 4
    rig.step()


def test_the_longest_head_of_an_offer_that_fits_is_accepted():
    rig = Rig(slots=3)
    request = rig.request()
    operation = rig.begin_store(request, "a", "b", "c", "d", "e")
    assert (operation.keys, operation.refused) == (("a", "b", "c"), ("d", "e"))
    assert rig.manager.prepare_store(["d", "e"], request) is None
    rig.manager.complete_store(operation)
    rig.settle()
    assert rig.begin_store(request, *operation.refused).evicted == ("c", "b")


def test_a_key_that_is_present_in_any_phase_needs_no_store():
    rig = Rig(slots=8)
    request = rig.request()
    rig.store(request, "resident")
    rig.begin_store(request, "storing")
    rig.tier.has("queued")
    rig.lookup(request, "queued")
    operation = rig.begin_store(request, "resident", "new", "storing", "queued")
    assert operation.keys == ("new",)
    assert operation.present == ("resident", "storing", "queued")
    assert operation.refused == operation.evicted == ()


def test_an_offer_of_present_keys_only_is_an_operation_without_keys():
    rig = Rig(slots=1)
    request = rig.request()
    rig.store(request, "a")
    operation = rig.manager.prepare_store(["a"], request)
    assert operation is not None
    assert (operation.keys, operation.present) == ((), ("a",))
    assert rig.probe.work_in_flight() == 1, "the cascade of a, and nothing of the empty store"
    rig.manager.complete_store(operation)
    with pytest.raises(ContractViolation, match="unknown or complete"):
        rig.manager.complete_store(operation)
    assert rig.lookup(request, "a") == [HIT]


def test_a_store_evicts_exactly_what_is_missing_and_none_of_its_own_offer():
    rig = Rig(slots=4, tiers=0)
    request = rig.request()
    rig.store(request, "a", "b", "c", "d")
    operation = rig.begin_store(request, "x", "a", "y", "b")
    assert operation.evicted == ("d", "c")
    assert rig.manager.prepare_store(["z", "a", "b"], request) is None, (
        "all that could go is spared"
    )
    rig.manager.complete_store(operation, ok=False)
    rig.probe.check()
    operation = rig.begin_store(request, "z", "a", "b")
    assert operation.evicted == ()
    rig.manager.complete_store(operation)
    assert rig.begin_store(request, "p", "q").evicted == ("z",)


def test_a_store_hears_what_has_ended_before_it_evicts():
    rig = Rig(slots=2)
    request = rig.request()
    rig.tier.has("k")
    rig.lookup(request, "k")
    rig.store(request, "a")
    rig.settle()
    rig.lookup(request, "nothing")
    rig.tier.has("j")
    assert rig.probe.free_slots() == 0
    polls = rig.tier.polls
    assert rig.begin_store(request, "x").evicted == ("a",)
    assert rig.tier.polls == polls + 1


def test_a_key_named_twice_is_refused_and_nothing_changes():
    rig = Rig()
    request = rig.request()
    rig.store(request, "a")
    before = rig.probe.fingerprint()
    for call in (rig.manager.prepare_store, rig.manager.prepare_load):
        with pytest.raises(ContractViolation, match="named twice"):
            call(["a", "a"], request)
        assert rig.probe.fingerprint() == before


def test_a_load_of_a_block_that_is_not_there_takes_no_pin():
    rig = Rig()
    request = rig.request()
    rig.store(request, "a")
    rig.settle()
    with pytest.raises(ContractViolation, match="1 of 2 blocks"):
        rig.manager.prepare_load(["a", "b"], request)
    assert rig.probe.pins("a") == 0


def test_a_block_is_not_evicted_while_it_is_read():
    rig = Rig(slots=2, tiers=0)
    request = rig.request()
    rig.store(request, "a", "b")
    operation = rig.manager.prepare_load(["a"], request)
    assert rig.begin_store(request, "x", "y").evicted == ("b",)
    rig.manager.on_request_finished(request)
    assert rig.probe.pins("a") == 1, "the end of a request takes no pin from a running copy"
    rig.manager.complete_load(operation)
    rig.probe.check()


def test_an_operation_completes_once_and_only_as_what_it_is():
    rig = Rig()
    request = rig.request()
    stored = rig.begin_store(request, "a")
    with pytest.raises(ContractViolation, match="load operation"):
        rig.manager.complete_load(stored.operation_id)
    rig.manager.complete_store(stored.operation_id)
    loaded = rig.manager.prepare_load(["a"], request)
    with pytest.raises(ContractViolation, match="store operation"):
        rig.manager.complete_store(loaded.operation_id)
    rig.manager.complete_load(loaded)
    for call, operation in ((rig.manager.complete_load, 99), (rig.manager.complete_store, 99)):
        with pytest.raises(ContractViolation, match="99 is unknown"):
            call(operation)
    rig.probe.check()


def test_operation_and_job_ids_are_never_used_again():
    rig = Rig()
    request = rig.request()
    seen = set()
    for number in range(5):
        operation = rig.store(request, f"k{number}")
        assert operation.operation_id not in seen
        seen.add(operation.operation_id)
        rig.manager.reset_cache()
        rig.manager.on_reset_flushed()
    jobs = [job.job_id for job in rig.tier.stores]
    assert len(set(jobs)) == len(jobs)


def test_replaying_the_events_gives_the_resident_set():
    rig = Rig(slots=2, tiers=0)
    request = rig.request()
    rig.store(request, "a", "b")
    rig.store(request, "c")
    events = [(event.kind, event.key) for event in rig.manager.take_events()]
    assert events == [("stored", "a"), ("stored", "b"), ("removed", "b"), ("stored", "c")]
    rig.manager.reset_cache()
    events = [(event.kind, event.key) for event in rig.manager.take_events()]
    assert events == [("removed", "a"), ("removed", "c")]
    assert rig.manager.take_events() == []


def test_events_can_be_switched_off():
    rig = Rig(slots=1, tiers=0, events=False)
    request = rig.request()
    rig.store(request, "a")
    rig.store(request, "b")
    rig.manager.reset_cache()
    assert rig.manager.take_events() == []


@pytest.mark.parametrize("number", [1, 2])
def test_a_store_that_fits_polls_no_tier(number):
    rig = Rig(slots=2)
    request = rig.request()
    rig.lookup(request, "nothing")
    polls = rig.tier.polls
    rig.begin_store(request, *"ab"[:number])
    assert rig.tier.polls == polls
