"""Deadlines, leases, resets and ends: what bounds every wait."""

import pytest

from tierproof.model import operations as ops

from .support import HIT, MISS, PENDING, RETRY, History, R, T

TWO = (R("r0"), R("r1"))


def writing(kind: str, **setting: object) -> History:
    """r0 waits on k0, which a load or a store has begun to write."""
    h = History(**setting)
    if kind == "store":
        h.offer("k0")
    h.lookup()
    h.end()
    return h


def write_ends(h: History, kind: str, ok: bool) -> None:
    if kind == "store":
        h.do(ops.CompleteStore(1, ok))
    else:
        h.report(h.job(), *(("k0",) if ok else ()))


KINDS = pytest.mark.parametrize("kind", ["load", "store"])


@KINDS
def test_a_writer_past_its_deadline_answers_miss_ends_the_waits_and_keeps_its_slot(kind):
    h = writing(kind)
    h.pass_time(29.9)
    assert h.lookup() == PENDING
    h.pass_time(0.1)
    assert h.reason() == "OVERDUE"
    assert h.last.asked == (), "no tier is asked: the primary tier decides"
    assert (h.waits(), h.free, h.permits) == (False, 3, 1)


def test_a_block_that_lands_between_two_steps_has_its_whole_lease():
    h = writing("store", tiers=(), pending_deadline=None)
    h.do(ops.Advance(100))
    write_ends(h, "store", ok=True)
    h.pass_time(29.9)
    h.notice()
    assert h.waits()
    h.pass_time(0.1)
    h.notice()
    assert not h.waits()


def test_a_copy_that_begins_between_two_steps_has_its_whole_deadline():
    h = History(slots=8, keys=("k0", "k1"), tiers=(T("t0"),))
    h.offer("k0")
    h.end()
    h.do(ops.Advance(29))
    h.do(ops.CompleteStore(1))
    h.do(ops.Advance(29))
    h.store("k1")
    assert h.cascade("k1") == "RUNNING", "the copy of k0 is not overdue"


@KINDS
def test_a_report_that_arrives_with_the_deadline_wins(kind):
    h = writing(kind)
    h.do(ops.Advance(30))
    write_ends(h, kind, ok=True)
    assert h.lookup() == HIT


@KINDS
def test_a_late_success_is_a_hit_that_nobody_waits_on(kind):
    h = writing(kind)
    h.pass_time()
    h.end()
    write_ends(h, kind, ok=True)
    assert h.lookup() == HIT
    assert (h.permits, h.state.landed) == (0, {})


@KINDS
def test_a_late_failure_frees_the_slot(kind):
    h = writing(kind)
    h.pass_time()
    h.end()
    write_ends(h, kind, ok=False)
    h.notice()
    assert (h.phase(), h.free, h.permits) == ("ABSENT", 4, 0)
    assert h.retracted() == (kind == "load")


def test_a_late_store_is_copied_like_any_other():
    h = writing("store")
    h.pass_time()
    h.end()
    write_ends(h, "store", ok=True)
    assert [j.kind for j in h.last.submitted] == ["CASCADE"]


@KINDS
def test_without_a_pending_deadline_a_writer_may_take_for_ever(kind):
    h = writing(kind, pending_deadline=None)
    h.pass_time(1e9)
    assert h.lookup() == PENDING


def test_an_offer_parked_at_an_overdue_write_is_dropped():
    h = History(tiers=(T("t0", whole_request=True),))
    h.offer("k0")
    h.offer("k0")
    h.do(ops.Finish("r0"))
    h.end()
    h.pass_time()
    assert h.end().told == ("r0",), "an overdue store delays no end either"


def test_a_lease_lets_an_unread_block_go():
    h = History()
    h.promote()
    h.pass_time(29.9)
    h.end()
    assert h.waits()
    h.pass_time(0.1)
    h.end()
    assert (h.waits(), h.permits, h.phase()) == (False, 0, "RESIDENT")


def test_a_lease_does_not_end_a_promise_that_is_being_read():
    h = History(requests=TWO)
    h.lookup(request="r1")
    h.promote()
    operation = h.read("k0")
    h.pass_time()
    h.end()
    assert (h.waits(), h.waits(request="r1")) == (True, False)
    h.do(ops.CompleteLoad(operation))
    assert not h.waits()


def test_without_a_lease_a_promise_waits_to_be_read():
    h = History(lease=None)
    h.promote()
    h.pass_time(1e9)
    h.end()
    assert h.waits()


def test_the_clock_is_read_once_in_a_step():
    h = writing("load")
    h.lookup()
    h.do(ops.Advance(30))
    assert h.lookup() == PENDING
    h.end()
    assert h.lookup() == MISS


# -- resets ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("phase", ["QUEUED", "LOADING", "STORING", "OVERDUE", "RESIDENT"])
def test_nothing_from_before_a_reset_is_readable_after_it(phase):
    h = History(tiers=(T("t0", "k0"),))
    if phase == "STORING":
        h.offer("k0")
    else:
        h.lookup()
    if phase in ("LOADING", "OVERDUE", "RESIDENT"):
        h.end()
    if phase == "OVERDUE":
        h.pass_time()
        h.end()
    if phase == "RESIDENT":
        h.land()
        h.end()
    h.do(ops.Reset())
    assert h.phase() == "ABSENT"
    assert not h.waits()
    assert h.reason() == "HELD"
    quarantined = phase in ("LOADING", "STORING", "OVERDUE")
    assert h.free == (3 if quarantined else 4)


@KINDS
@pytest.mark.parametrize("ok", [True, False])
def test_a_late_completion_only_frees_its_slot_and_permit(kind, ok):
    h = writing(kind)
    h.do(ops.Reset())
    assert (h.free, h.permits) == (3, 1), "the permit of a live writer stays with its slot"
    write_ends(h, kind, ok)
    h.notice()
    assert (h.phase(), h.free, h.permits) == ("ABSENT", 4, 0)
    assert h.last.submitted == ()
    assert h.retracted() == (kind == "load" and not ok), "a failure is evidence, late or not"


def test_a_slot_under_readers_gives_its_permit_back_and_leaves_quarantine_with_the_last():
    h = History(requests=TWO)
    h.promote()
    first, second = h.read("k0"), h.read("k0", request="r1")
    h.do(ops.Reset())
    assert (h.free, h.permits) == (3, 0)
    h.do(ops.CompleteLoad(first))
    assert h.free == 3
    h.do(ops.CompleteLoad(second))
    assert h.free == 4
    assert h.do(ops.CompleteLoad(second)).error, "an operation completes once"


def test_a_key_may_be_stored_again_while_its_old_slot_is_quarantined():
    h = History(tiers=(T("t0"),), slots=8)
    h.store("k0")
    h.do(ops.Reset())
    h.store("k0")
    assert len(h.state.jobs) == 1, "a stale copy to the tier is not joined by a new one"
    assert h.free == 6
    h.land("CASCADE")
    h.end()
    h.notice()
    assert [j.keys for j in h.last.submitted] == [("k0",)]


def test_one_flush_ends_the_hold_of_all_resets_before_it():
    h = History()
    h.do(ops.Reset())
    h.do(ops.Reset())
    h.do(ops.Flushed())
    assert h.lookup() == PENDING


def test_a_reset_keeps_live_requests_pending_ends_and_retractions():
    h = History(keys=("k0", "k1"), requests=TWO)
    h.lookup()
    h.end()
    h.report(h.job())
    h.end()
    h.offer("k1", request="r1")
    h.do(ops.Finish("r1"))
    h.do(ops.Reset())
    h.do(ops.Flushed())
    assert h.reason() == "FAILED"
    assert h.end().told == ("r1",), "its store was forgotten: nothing delays the end any more"


def test_a_reset_forgets_due_and_parked_copies():
    h = History(tiers=(T("t0", whole_request=True),), keys=("k0", "k1"))
    h.do(ops.Mood("t0", "refuse stores"))
    h.store("k0")
    h.offer("k1")
    h.offer("k1")
    h.do(ops.Reset())
    assert (h.state.due, h.state.attempts, h.state.pressed) == ({}, {}, {})
    assert not h.state.world.fields["parked"]


def test_a_probe_outlives_a_reset():
    h = History(tiers=(T("t0", undecided=("k0",)),))
    h.lookup()
    h.do(ops.Reset())
    h.do(ops.Flushed())
    h.pass_time(5)
    assert h.reason() == "PROBE_TIMEOUT"


def cleared() -> History:
    """A copy of k0 to t0 was under way when a reset cleared t0."""
    h = History(tiers=(T("t0"), T("t1")))
    h.store("k0")
    h.do(ops.Reset(("t0",)))
    h.do(ops.Flushed())
    return h


def test_a_copy_from_before_a_reset_that_cleared_its_tier_cannot_bring_the_key_back():
    h = cleared()
    h.land("CASCADE", "t0")
    assert h.reason() == "FAILED"
    assert h.last.asked == (("t1", "k0"),)


def test_a_copy_to_a_tier_that_was_not_cleared_is_good_also_after_the_reset():
    h = cleared()
    h.land("CASCADE", "t1")
    assert h.lookup() == PENDING
    assert h.last.asked == (("t1", "k0"),)


def test_a_tier_that_was_cleared_is_believed_again_after_a_new_copy():
    h = cleared()
    h.land("CASCADE", "t0")
    h.land("CASCADE", "t1")
    h.notice()
    h.store("k0")
    h.land("CASCADE", "t0")
    h.notice()
    assert not h.retracted()


def test_a_reset_clears_only_the_tiers_that_it_names_and_refuses_unknown_names():
    h = History(tiers=(T("t0", "k0"), T("t1", undecided=("k0",))))
    h.do(ops.Reset(("t0",)))
    h.do(ops.Flushed())
    assert h.lookup() == RETRY
    assert h.do(ops.Reset(("t9",))).error


# -- ends ------------------------------------------------------------------------------------------


def test_the_end_of_a_request_releases_its_promises_at_once_and_is_told_once():
    h = History()
    h.promote()
    h.do(ops.Finish("r0"))
    assert (h.waits(), h.permits) == (False, 0)
    assert h.pending(), "its end has not been told"
    assert h.end().told == ("r0",)
    assert h.end().told == ()
    assert not h.pending()


def test_the_end_of_a_request_takes_no_pin_from_a_running_copy():
    h = History(slots=1, keys=("k0", "k1"))
    h.promote("k0")
    operation = h.read("k0")
    h.do(ops.Finish("r0"))
    h.do(ops.NewRequest("r1"))
    assert h.offer("k1", request="r1") is None
    h.do(ops.CompleteLoad(operation))
    assert h.offer("k1", request="r1") is not None


def test_a_store_of_its_own_delays_the_end_of_a_request_and_still_lands():
    h = History(tiers=(T("t0"),))
    h.offer("k0")
    h.do(ops.Finish("r0"))
    assert h.end().told == ()
    h.do(ops.CompleteStore(1))
    assert [j.request for j in h.last.submitted] == ["r0"], "not told yet: its last submit"
    assert h.phase() == "RESIDENT"
    assert h.end().told == ("r0",)


def test_queued_loads_are_submitted_before_an_end_is_told():
    h = History(requests=TWO)
    h.lookup()
    h.lookup(request="r1")
    h.do(ops.Finish("r0"))
    outcome = h.end()
    assert [j.request for j in outcome.submitted] == ["r1"]
    assert outcome.told == ("r0",)


def test_the_probes_of_a_request_end_with_it():
    h = History(tiers=(T("t0", undecided=("k0",)),))
    h.lookup()
    h.do(ops.Finish("r0"))
    h.end()
    assert not h.pending()


# -- pending work ----------------------------------------------------------------------------------


def test_there_is_work_exactly_while_something_is_still_to_happen():
    h = History(tiers=(T("t0", "k0"), T("t1")))
    assert not h.pending()
    h.lookup()
    assert h.pending(), "a queued promotion"
    h.end("r0")
    assert h.pending(), "a job"
    h.land()
    h.end()
    assert not h.pending()
    h.do(ops.CompleteLoad(h.read("k0")))
    assert not h.pending()


def test_a_store_of_the_gpu_is_no_pending_work_of_the_managers():
    h = History(tiers=())
    h.offer("k0")
    assert not h.pending()
    h.lookup()
    assert h.pending(), "a promise that waits"
