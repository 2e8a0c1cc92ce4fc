"""Who waits on what, for how long, and what it costs."""

import pytest

from tierproof.model import operations as ops

from .support import HIT, PENDING, History, R, T

TWO = (R("r0"), R("r1"))


def withdraw(h: History, *keys: str, request: str = "r0") -> None:
    h.do(ops.Withdraw(keys, request))


# -- the short promise of a HIT --------------------------------------------------------------------


def hit(**setting: object) -> History:
    """One slot; r0 has been told HIT of k0; tier t0 has k1."""
    h = History(slots=1, keys=("k0", "k1"), tiers=(T("t0", "k1"),), requests=TWO, **setting)
    h.store("k0")
    h.land("CASCADE")
    h.end()
    assert h.lookup("k0") == HIT
    return h


def test_a_hit_is_not_evicted_for_another_lookup():
    h = hit()
    assert h.reason("k1", "r1") == "FULL"
    assert h.reason("k1", "r0") == "FULL"
    assert h.read("k0")


def test_a_hit_takes_no_permit():
    assert hit().permits == 0


@pytest.mark.parametrize("ends", ["store", "step", "reset", "load", "finish"])
def test_the_short_promise_of_a_hit_ends(ends):
    h = hit()
    if ends == "store":
        assert h.offer("k1") is not None, "a store may have the block's slot"
    elif ends == "step":
        h.end()
    elif ends == "reset":
        h.do(ops.Reset())
    elif ends == "load":
        h.do(ops.CompleteLoad(h.read("k0")))
    else:
        h.do(ops.Finish("r0"))
    assert not h.state.world.fields["hit"]


def test_a_hit_of_one_request_outlives_the_load_of_another():
    h = hit()
    assert h.lookup("k0", "r1") == HIT
    h.do(ops.CompleteLoad(h.read("k0", request="r1")))
    assert h.reason("k1") == "FULL", "r0 may still load what it was told"


def test_the_short_promise_ends_also_with_a_store_that_gets_nothing():
    h = hit()
    h.read("k0", request="r1")
    assert h.offer("k1") is None
    assert not h.state.world.fields["hit"]


# -- queued promotions -----------------------------------------------------------------------------


def test_a_second_request_waits_on_the_same_promotion_whatever_its_own_filter_says():
    h = History(requests=(R("r0"), R("r1", "t1")), tiers=(T("t0", "k0"), T("t1")))
    h.lookup()
    assert h.lookup(request="r1") == PENDING
    assert h.permits == 1, "one permit for each promised block"
    assert len(h.end().submitted) == 1


def test_a_withdrawn_promotion_that_nobody_else_waits_on_is_never_submitted():
    h = History()
    h.lookup()
    withdraw(h, "k0")
    assert (h.phase(), h.free, h.permits) == ("ABSENT", 4, 0)
    assert h.end().submitted == ()


def test_a_queued_promotion_passes_to_the_longest_waiting_heir_and_keeps_its_place():
    h = History(keys=("k0", "k1"), requests=(R("r0"), R("r1"), R("r2")))
    h.lookup("k0", "r0")
    h.lookup("k0", "r2")
    h.lookup("k0", "r1")
    h.lookup("k1", "r2")
    withdraw(h, "k0")
    (job,) = h.end().submitted
    assert (job.request, job.keys) == ("r2", ("k0", "k1"))


def test_a_queued_promotion_does_not_pass_to_a_request_whose_filter_forbids_its_tier():
    h = History(requests=(R("r0"), R("r1", "t1")), tiers=(T("t0", "k0"), T("t1")))
    h.lookup()
    h.lookup(request="r1")
    h.do(ops.Finish("r0"))
    assert (h.phase(), h.waits(request="r1")) == ("ABSENT", False)


def test_a_waiter_that_is_not_the_owner_leaves_a_queue_alone():
    h = History(requests=TWO)
    h.lookup()
    h.lookup(request="r1")
    withdraw(h, "k0", request="r1")
    assert h.waits()
    assert [j.request for j in h.end().submitted] == ["r0"]


def test_to_withdraw_what_one_does_not_wait_on_changes_nothing():
    h = History(requests=TWO)
    h.lookup()
    withdraw(h, "k0", request="r1")
    assert h.phase() == "QUEUED"


# -- until read ------------------------------------------------------------------------------------


def test_a_landed_block_stays_until_its_waiter_has_read_it():
    h = History(slots=1, keys=("k0", "k1"))
    h.promote("k0")
    assert h.offer("k1") is None, "not even a store may take a promised block"
    operation = h.read("k0")
    assert h.permits == 1
    h.do(ops.CompleteLoad(operation))
    assert (h.waits(), h.permits) == (False, 0)
    assert h.offer("k1") is not None


def test_a_permit_is_held_until_the_last_waiter_lets_go():
    h = History(requests=TWO)
    h.lookup(request="r1")
    h.promote()
    h.do(ops.CompleteLoad(h.read("k0")))
    assert h.permits == 1
    withdraw(h, "k0", request="r1")
    assert h.permits == 0


def test_a_waiter_that_lets_go_while_the_block_is_written_leaves_the_permit_with_the_writer():
    h = History()
    h.lookup()
    h.end("r0")
    assert (h.waits(), h.permits) == (False, 1)
    h.land()
    h.end()
    assert (h.phase(), h.permits) == ("RESIDENT", 0)


def test_a_request_that_was_scheduled_lets_go_of_what_it_has_not_read():
    h = History(requests=TWO)
    h.lookup(request="r1")
    h.promote()
    h.end("r0")
    assert not h.waits()
    assert h.waits(request="r1")


def test_a_request_that_was_scheduled_keeps_what_it_is_reading():
    h = History(slots=1, keys=("k0", "k1"))
    h.promote("k0")
    operation = h.read("k0")
    h.end("r0")
    assert h.waits()
    h.do(ops.CompleteLoad(operation))
    assert not h.waits()


def test_a_read_of_another_request_does_not_end_a_promise():
    h = History(requests=TWO)
    h.promote()
    h.do(ops.CompleteLoad(h.read("k0", request="r1")))
    assert h.waits()


# -- stores ----------------------------------------------------------------------------------------


def test_a_wait_on_a_store_takes_a_permit_if_one_is_free():
    h = History(tiers=())
    h.offer("k0")
    assert h.permits == 0
    assert h.lookup() == PENDING
    assert h.permits == 1
    h.do(ops.CompleteStore(1))
    assert h.waits(), "with a permit the promise is until read"


def test_a_wait_on_a_store_without_a_permit_ends_when_it_lands():
    h = History(slots=2, keys=("k0", "k1"), tiers=(T("t0", "k1"),))
    h.lookup("k1")
    h.offer("k0")
    assert h.lookup("k0") == PENDING
    assert h.waits()
    h.do(ops.CompleteStore(1))
    assert not h.waits()


def test_a_later_waiter_on_a_store_tries_again_for_the_permit():
    h = History(slots=2, keys=("k0", "k1"), tiers=(T("t0", "k1"),), requests=TWO)
    h.lookup("k1")
    h.offer("k0")
    h.lookup("k0")
    withdraw(h, "k1")
    assert h.permits == 0
    h.lookup("k0", "r1")
    h.do(ops.CompleteStore(1))
    assert h.waits("k0", "r0"), "the permit belongs to the slot, so everyone's promise gains"
    assert h.waits("k0", "r1")


def test_a_store_that_fails_ends_the_waits_on_it():
    h = History(tiers=())
    h.offer("k0")
    h.lookup()
    h.do(ops.CompleteStore(1, ok=False))
    assert (h.phase(), h.waits(), h.permits, h.free) == ("ABSENT", False, 0, 4)
