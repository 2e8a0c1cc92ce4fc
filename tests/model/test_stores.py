"""Stores of the GPU, what they evict, and how blocks go on to the tiers."""

import pytest

from tierproof.model import operations as ops

from .support import MISS, History, T, cascades

FOUR = ("k0", "k1", "k2", "k3")


def test_the_longest_head_of_an_offer_that_fits_is_accepted_and_the_rest_is_named():
    h = History(slots=2, keys=FOUR, tiers=())
    assert h.offer("k2", "k0", "k1", "k3") == (("k2", "k0"), (), ("k1", "k3"))


def test_what_is_present_in_any_phase_needs_no_store():
    h = History(slots=4, keys=FOUR, tiers=(T("t0", "k1"),))
    h.offer("k0")
    h.lookup("k1")
    assert h.offer("k0", "k1", "k2") == (("k2",), ("k0", "k1"), ())


def test_an_offer_of_which_nothing_fits_is_answered_none_and_evicts_nothing():
    h = History(slots=1, keys=FOUR, tiers=())
    h.offer("k0")
    assert h.offer("k1") is None
    assert h.phase("k0") == "STORING"


def test_an_offer_that_finds_everything_present_is_an_operation_without_keys():
    h = History(tiers=())
    h.offer("k0")
    assert h.offer("k0") == ((), ("k0",), ())
    assert not h.do(ops.CompleteStore(2)).error


def test_an_offer_does_not_evict_what_it_names_itself():
    h = History(slots=2, keys=FOUR, tiers=())
    h.store("k0", "k1")
    assert h.offer("k2", "k3", "k0", "k1") is None
    assert h.offer("k2", "k3", "k0") == (("k2",), ("k0",), ("k3",))
    assert (h.phase("k0"), h.phase("k1")) == ("RESIDENT", "ABSENT")


def test_completions_are_absorbed_again_before_a_store_decides_what_to_evict():
    h = History(slots=1, keys=("k0", "k1"), tiers=(T("t0"),))
    h.store("k0")
    assert h.offer("k1") is None, "the block is pinned by its copy"
    h.land("CASCADE")
    assert h.offer("k1") == (("k1",), (), ())


def test_a_store_that_fails_leaves_nothing_and_is_copied_nowhere():
    h = History(tiers=(T("t0"),))
    h.store("k0", ok=False)
    assert h.last.submitted == ()
    assert (h.phase(), h.free) == ("ABSENT", 4)


def test_stores_work_while_promotions_are_held():
    h = History()
    h.do(ops.Reset())
    h.store("k0")
    assert h.lookup() == "HIT"


# -- cascades --------------------------------------------------------------------------------------


def test_a_newly_stored_batch_is_one_job_for_each_tier_in_the_order_offered():
    h = History(slots=16, keys=FOUR, tiers=(T("t0"), T("t1")))
    h.store("k1", "k0")
    assert cascades(h) == [("t0", ("k1", "k0")), ("t1", ("k1", "k0"))]
    assert h.berths == 2, "copies of one block share a berth"


def test_copies_that_find_no_berth_stay_due_and_start_when_there_is_one():
    h = History(slots=4, keys=("k0", "k1"), tiers=(T("t0"),))
    h.store("k0", "k1")
    assert cascades(h) == [("t0", ("k0",))]
    assert h.pending()
    h.end()
    assert cascades(h) == []
    h.land("CASCADE")
    h.end()
    assert cascades(h) == [("t0", ("k1",))]
    assert h.state.attempts == {}, "a copy that could not start has not failed"


def test_a_copy_pins_its_block_until_it_reports():
    h = History(slots=1, keys=("k0", "k1"), tiers=(T("t0"),))
    h.store("k0")
    assert h.offer("k1") is None
    h.report(h.job("CASCADE"))
    assert h.offer("k1") is not None


def test_a_refused_copy_is_offered_again_in_a_later_step_until_its_offers_are_spent():
    h = History(tiers=(T("t0"),), reoffers=2)
    h.do(ops.Mood("t0", "refuse stores"))
    h.store("k0")
    assert cascades(h) == [("t0", ("k0",))]
    assert h.berths == 0
    tried = []
    for _ in range(4):
        h.end()
        tried.append(len(cascades(h)))
    assert tried == [0, 1, 1, 0], "not in the step of the refusal, then once a step, twice in all"
    assert h.cascade() == "NONE"
    assert not h.pending()


def test_a_failed_copy_is_offered_again_at_the_end_of_the_step_that_heard_of_it():
    h = History(tiers=(T("t0"),))
    h.store("k0")
    h.end()
    h.report(h.job("CASCADE"))
    h.end()
    assert cascades(h) == [("t0", ("k0",))]
    h.land("CASCADE")
    h.end()
    assert h.cascade() == "DONE"
    assert h.state.attempts == {}


@pytest.mark.parametrize("mood", ["refuse stores", "raise on submit"])
def test_one_bad_moment_does_not_use_up_all_offers(mood):
    h = History(tiers=(T("t0"),), reoffer_pause=1.0)
    h.do(ops.Mood("t0", mood))
    h.store("k0")
    tried = []
    for _ in range(3):
        h.end()
        h.end()
        tried.append(len(cascades(h)))
        h.pass_time(1.0)
        h.end()
        tried.append(len(cascades(h)))
    assert tried == [0, 1, 0, 1, 0, 1]
    assert h.cascade() == "NONE"


def test_a_report_ends_the_pressure_without_a_pause():
    h = History(slots=8, keys=("k0", "k1"), tiers=(T("t0"),), reoffer_pause=1000.0)
    h.store("k0")
    h.do(ops.Mood("t0", "refuse stores"))
    h.store("k1")
    h.do(ops.Mood("t0", "refuse stores", on=False))
    h.land("CASCADE")
    h.end()
    h.end()
    assert h.cascade("k1") == "RUNNING"


def test_a_copy_whose_submit_raises_has_failed_and_takes_no_berth():
    h = History(tiers=(T("t0"),), reoffers=1)
    h.do(ops.Mood("t0", "raise on submit"))
    h.store("k0")
    assert (h.berths, h.cascade()) == (0, "DUE")
    h.end()
    assert (cascades(h), h.cascade()) == ([("t0", ("k0",))], "NONE")


def test_a_tier_that_refused_gets_no_more_while_its_copies_run():
    h = History(slots=8, keys=("k0", "k1"), tiers=(T("t0"),))
    h.store("k0")
    h.do(ops.Mood("t0", "refuse stores"))
    h.store("k1")
    h.do(ops.Mood("t0", "refuse stores", on=False))
    h.end()
    h.end()
    assert cascades(h) == [], "the pressure has not cleared"
    h.land("CASCADE")
    h.end()
    assert cascades(h) == [("t0", ("k1",))]


def test_a_tier_leaves_a_berth_to_each_other_tier():
    h = History(slots=8, keys=FOUR, tiers=(T("t0"), T("t1")))
    h.store("k0")
    h.land("CASCADE", "t1")
    h.notice()
    h.store("k1")
    assert cascades(h) == [("t1", ("k1",))], "t0 still copies k0, so t1's berth is not its own"
    assert h.cascade("k1", "t0") == "DUE"


def test_an_evicted_block_takes_its_due_copies_with_it():
    h = History(slots=1, keys=("k0", "k1"), tiers=(T("t0"),))
    h.do(ops.Mood("t0", "refuse stores"))
    h.store("k0")
    h.offer("k1")
    assert (h.state.due, h.state.attempts) == ({}, {})


def test_a_tier_with_an_overdue_copy_gets_no_more_until_it_reports():
    h = History(slots=8, keys=("k0", "k1"), tiers=(T("t0"),))
    h.store("k0")
    h.pass_time()
    h.store("k1")
    assert cascades(h) == []
    h.land("CASCADE")
    h.notice()
    assert cascades(h) == [("t0", ("k1",))]


def test_a_due_copy_runs_under_its_request_and_under_none_once_its_end_was_told():
    h = History(keys=("k0", "k1"), tiers=(T("t0"),))
    h.store("k0", "k1")
    h.do(ops.Finish("r0"))
    assert h.end().told == ("r0",)
    h.land("CASCADE")
    assert [j.request for j in h.end().submitted] == [""]


def test_a_copy_that_fails_after_its_request_was_told_is_offered_again_under_none():
    h = History(tiers=(T("t0"),))
    h.store("k0")
    h.do(ops.Finish("r0"))
    h.end()
    h.report(h.job("CASCADE"))
    assert [j.request for j in h.end().submitted] == [""]
    h.report(h.job("CASCADE"))
    assert [j.request for j in h.end().submitted] == [""]


# -- whole requests --------------------------------------------------------------------------------


def whole() -> History:
    return History(slots=8, keys=("k0", "k1"), tiers=(T("t0", "k0"), T("t1", whole_request=True)))


def test_a_tier_that_wants_whole_requests_is_offered_what_is_resident():
    h = whole()
    h.promote()
    h.offer("k0")
    assert cascades(h) == [("t1", ("k0",))]
    h.offer("k0")
    assert cascades(h) == [], "at most one copy of a block to a tier is in flight"
    h.land("CASCADE", "t1")
    h.notice()
    h.offer("k0")
    assert cascades(h) == [], "and it succeeds once for each store"


def test_an_offer_that_finds_a_block_being_written_is_parked_until_that_write_ends():
    h = whole()
    h.offer("k1")
    h.do(ops.NewRequest("r1"))
    h.offer("k1", request="r1")
    h.do(ops.Finish("r1"))
    assert h.end().told == (), "the request is not let go while its offer is parked"
    h.do(ops.CompleteStore(1))
    assert ("t1", ("k1",)) in cascades(h)
    assert h.end().told == ("r1",)


def test_a_failed_write_drops_the_parked_offer_and_lets_the_request_go():
    h = whole()
    h.offer("k1")
    h.offer("k1")
    h.do(ops.Finish("r0"))
    h.end()
    h.do(ops.CompleteStore(1, ok=False))
    assert h.last.submitted == ()
    assert h.end().told == ("r0",)


def test_a_whole_offer_of_a_block_that_is_being_loaded_does_nothing():
    h = whole()
    h.lookup()
    h.offer("k0")
    h.end()
    assert h.offer("k0") == ((), ("k0",), ())
    assert cascades(h) == []


# -- shares ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("slots", "share", "permits"),
    [(1, 0.5, 1), (2, 0.5, 1), (2, 1.0, 1), (3, 1.0, 2), (8, 0.5, 4), (8, 0.0, 1), (5, 0.5, 2)],
)
def test_permits_are_a_share_of_the_slots_at_least_one_and_not_the_last_of_several(
    slots, share, permits
):
    assert ops.Setting(slots=slots, promotion_share=share).permits == permits


@pytest.mark.parametrize(("slots", "berths"), [(1, 1), (4, 1), (7, 1), (8, 2), (100, 25)])
def test_berths_are_a_share_of_the_slots_and_at_least_one(slots, berths):
    assert ops.Setting(slots=slots).berths == berths


def test_a_slot_is_left_to_stores_when_every_tier_hangs_in_both_directions():
    h = History(slots=3, keys=FOUR, tiers=(T("t0", "k0", "k1", "k2"),))
    h.store("k3")
    for key in FOUR:
        h.lookup(key)
    h.pass_time()
    assert h.lookup("k2") == MISS
    assert h.free == 1
    assert h.offer("k2") == (("k2",), (), ())
