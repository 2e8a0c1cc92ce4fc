"""Jobs, operations and their completions: each acts once, on what it names."""

import pytest

from tierproof.model import operations as ops

from .support import HIT, MISS, PENDING, History, R, T


def test_a_step_submits_one_job_for_each_tier_and_request_with_keys_in_the_order_looked_up():
    h = History(
        slots=16,
        keys=("a", "b", "c", "d"),
        tiers=(T("t0", "a", "b", "d"), T("t1", "c")),
        requests=(R("r0"), R("r1")),
    )
    h.lookup("b", "r1")
    h.lookup("c", "r0")
    h.lookup("a", "r0")
    h.lookup("d", "r1")
    jobs = [(j.tier, j.request, j.keys) for j in h.end().submitted]
    assert jobs == [("t0", "r1", ("b", "d")), ("t1", "r0", ("c",)), ("t0", "r0", ("a",))]
    assert h.end().submitted == (), "a promotion is submitted once"


def test_in_a_failed_job_the_keys_that_landed_are_hits_and_no_slot_is_lost():
    h = History(keys=("k0", "k1"))
    h.lookup("k0")
    h.lookup("k1")
    h.end()
    h.report(h.job(), "k1")
    assert h.lookup("k1") == HIT
    assert h.reason("k0") == "FAILED"
    assert (h.free, h.permits) == (3, 1)
    assert h.retracted("k0")
    assert not h.retracted("k1")


def test_a_submit_that_raises_has_failed_for_all_its_keys_and_the_other_jobs_go_on():
    h = History(keys=("k0", "k1"), tiers=(T("t0", "k0"), T("t1", "k1")))
    h.lookup("k0")
    h.lookup("k1")
    h.do(ops.Mood("t0", "raise on submit"))
    assert [j.tier for j in h.end().submitted] == ["t0", "t1"]
    assert (h.phase("k0"), h.phase("k1")) == ("ABSENT", "LOADING")
    assert h.retracted("k0")
    assert not h.waits("k0")


def test_a_tier_is_not_asked_again_for_what_it_failed_to_load_and_the_next_tier_is():
    h = History(tiers=(T("t0", "k0"), T("t1", "k0")))
    h.lookup()
    h.end()
    h.report(h.job())
    assert h.lookup() == PENDING
    assert h.last.asked == (("t1", "k0"),)
    assert [j.tier for j in h.end().submitted] == ["t1"]


def test_a_store_to_the_tier_gives_its_claim_back():
    h = History()
    h.lookup()
    h.end()
    h.report(h.job())
    h.store("k0")
    assert h.retracted()
    h.land("CASCADE")
    h.notice()
    assert not h.retracted()


def test_a_block_that_came_from_a_tier_is_not_copied_back_to_it():
    h = History(tiers=(T("t0", "k0", whole_request=True),))
    h.promote()
    assert h.cascade() == "DONE"
    h.offer("k0")
    assert h.last.submitted == ()


@pytest.mark.parametrize("landed", [("k0", "k9"), ("k9",)])
def test_a_report_that_names_a_foreign_key_changes_nothing_and_the_job_goes_on(landed):
    h = History()
    h.lookup()
    h.end()
    h.do(ops.Misreport("t0", h.job(), landed))
    assert h.lookup() == PENDING
    assert h.state.violations == 1
    h.land()
    assert h.reason("k9") == "ABSENT"
    h.end()
    assert h.lookup() == HIT


def test_a_second_report_and_one_by_the_wrong_tier_change_nothing():
    h = History(tiers=(T("t0", "k0"), T("t1")))
    h.lookup()
    h.end()
    number = h.job()
    h.do(ops.Misreport("t1", number, ("k0",)))
    h.land()
    assert h.lookup() == HIT
    h.end()
    h.do(ops.Misreport("t0", number))
    assert h.lookup() == HIT
    assert h.state.violations == 2


def test_a_tier_that_raises_when_polled_is_polled_again_in_the_next_step():
    h = History()
    h.lookup()
    h.end()
    h.land()
    h.do(ops.Mood("t0", "raise on poll"))
    assert h.lookup() == PENDING
    h.end()
    h.do(ops.Mood("t0", "raise on poll", on=False))
    assert h.lookup() == HIT


def test_completions_are_absorbed_at_the_first_call_of_a_step_and_not_at_the_second():
    h = History()
    h.lookup()
    h.end()
    h.lookup()
    h.land()
    assert h.lookup() == PENDING
    h.end()
    assert h.lookup() == HIT


@pytest.mark.parametrize(
    "call", [ops.CompleteLoad(1), ops.CompleteStore(1), ops.CompleteLoad(7), ops.CompleteStore(7)]
)
def test_a_completion_of_an_operation_that_is_unknown_or_over_is_refused(call):
    h = History(tiers=())
    h.store("k0")
    before = h.state
    assert h.do(call).error
    assert h.state is before


def test_a_completion_acts_on_an_operation_of_its_own_kind_only():
    h = History(tiers=())
    h.offer("k0")
    assert h.do(ops.CompleteLoad(1)).error
    h.do(ops.CompleteStore(1))
    assert h.do(ops.CompleteStore(h.read("k0"))).error


def test_a_load_of_a_block_that_is_not_resident_is_refused_and_pins_nothing():
    h = History(keys=("k0", "k1"), tiers=())
    h.store("k0")
    assert h.do(ops.PrepareLoad(("k0", "k1"), "r0")).error
    assert not h.state.world.pins("k0")


@pytest.mark.parametrize("call", [ops.PrepareLoad, ops.PrepareStore, ops.Send])
def test_a_key_that_is_named_twice_in_one_call_is_refused(call):
    h = History(requests=(R("r0"), R("x0", external_of="t0")))
    h.store("k0")
    before = h.state
    assert h.do(call(("k0", "k0"), "x0" if call is ops.Send else "r0")).error
    assert h.state is before


def test_a_refused_call_that_began_a_step_has_begun_it_and_done_nothing_else():
    h = History()
    h.lookup()
    h.end()
    h.land()
    assert h.do(ops.PrepareLoad(("k9",), "r0")).error
    assert h.state.begun
    assert h.phase() == "RESIDENT", "the completion was absorbed when the step began"
    assert not h.state.operations


def test_pins_last_until_their_operation_completes_and_are_counted_one_by_one():
    h = History(slots=1, keys=("k0", "k1"), tiers=(), requests=(R("r0"), R("r1")))
    h.store("k0")
    first, second = h.read("k0"), h.read("k0", request="r1")
    assert len(h.state.world.pins("k0")) == 2
    h.do(ops.CompleteLoad(first))
    assert h.offer("k1") is None
    h.do(ops.CompleteLoad(second))
    assert h.offer("k1") == (("k1",), (), ())


CALLS = [
    ops.Lookup("k0", "r9"),
    ops.LookupMany(("k0",), "r9"),
    ops.PrepareLoad(("k0",), "r9"),
    ops.PrepareStore(("k0",), "r9"),
    ops.Withdraw(("k0",), "r9"),
    ops.StepEnd(("r9",)),
    ops.Finish("r9"),
    ops.Send(("k0",), "r9"),
]


@pytest.mark.parametrize("call", CALLS, ids=lambda call: call.op)
@pytest.mark.parametrize("finished", [False, True], ids=["unknown", "finished"])
def test_a_call_for_a_request_that_is_unknown_or_has_ended_is_refused(call, finished):
    h = History()
    if finished:
        h.do(ops.NewRequest("r9"))
        h.do(ops.Finish("r9"))
    before = h.state
    assert h.do(call).error
    assert h.state is before


def test_a_name_of_a_request_is_used_once():
    assert History().do(ops.NewRequest("r0")).error


def test_a_request_may_begin_later_with_a_filter_of_its_own():
    h = History()
    h.do(ops.NewRequest("r1", only=()))
    assert h.lookup(request="r1") == MISS
    assert h.lookup(request="r0") == PENDING
