"""Load plans: where blocks are, then all of a wave or nothing."""

import pytest

from tierproof.impl.errors import ContractViolation
from tierproof.impl.operations import PlanVerdict
from tierproof.impl.tiers.base import Claim

from .support import HIT, HIT_PENDING, MISS, Rig, ScriptedTier

PLANNED, NO_ROOM, LOST = PlanVerdict.PLANNED, PlanVerdict.NO_ROOM, PlanVerdict.LOST


class ManyAtOnce(ScriptedTier):
    """Takes questions in batches."""

    def __init__(self, *given, **more):
        super().__init__(*given, **more)
        self.batches = []
        self.answer = None

    def lookup_many(self, keys, request):
        self.batches.append(keys)
        self._maybe_raise("lookup_many")
        if self.answer is not None:
            return self.answer
        return [self.claims.get(key, Claim.ABSENT) for key in keys]


def test_existence_reserves_nothing_and_starts_nothing():
    rig = Rig(slots=4)
    rig.tier.has("a")
    rig.tier.claims["u"] = Claim.UNDECIDED
    request = rig.request()
    assert rig.manager.exists(["a", "u", "x"], request) == [True, None, False]
    assert rig.probe.free_slots() == 4
    assert rig.probe.permits_in_use() == 0
    rig.step()
    assert rig.tier.loads == []


@pytest.mark.parametrize("phase", ["QUEUED", "LOADING", "RESIDENT", "STORING"])
def test_what_the_primary_tier_has_or_awaits_is_there_without_a_question(phase):
    rig = Rig(slots=4)
    first, second = rig.request(), rig.request()
    rig.tier.has("a")
    if phase == "STORING":
        rig.begin_store(first, "a")
    else:
        rig.lookup(first, "a")
    if phase == "LOADING":
        rig.step()
    if phase == "RESIDENT":
        rig.step()
        rig.tier.done(rig.tier.loads[-1])
        rig.notice()
    asked = len(rig.tier.asked)
    assert rig.probe.phase("a") == phase
    assert rig.manager.exists(["a"], second) == [True]
    assert len(rig.tier.asked) == asked


def test_tiers_are_asked_in_batches_each_for_what_is_still_open():
    near, far = ManyAtOnce("near"), ManyAtOnce("far")
    rig = Rig(tiers=[near, far])
    near.has("a")
    far.has("b")
    assert rig.manager.exists(["a", "b", "c"], rig.request()) == [True, True, False]
    assert (near.batches, far.batches) == ([("a", "b", "c")], [("b", "c")])


@pytest.mark.parametrize(
    "answer", [[], [Claim.PRESENT], [Claim.PRESENT] * 3, ["yes", "no"], [None, None]]
)
def test_a_tier_that_answers_nonsense_in_a_batch_counts_as_raising(answer):
    tier = ManyAtOnce("t")
    tier.answer = answer
    rig = Rig(tiers=[tier])
    assert rig.manager.exists(["a", "b"], rig.request()) == [False, False]


def test_a_tier_that_raises_in_a_batch_does_not_stop_the_next():
    near, far = ManyAtOnce("near"), ManyAtOnce("far")
    near.raises["lookup_many"] = OSError()
    far.has("a")
    rig = Rig(tiers=[near, far])
    assert rig.manager.exists(["a"], rig.request()) == [True]


def test_a_plan_promotes_what_is_neither_there_nor_on_its_way_and_holds_it_all():
    rig = Rig(slots=8)
    first, second = rig.request(), rig.request()
    rig.store(first, "there")
    rig.tier.done_all()
    rig.tier.has("coming", "new")
    rig.lookup(first, "coming")
    keys = ["there", "coming", "new"]
    rig.manager.exists(keys, second)
    plan = rig.manager.plan_load(keys, second)
    assert (plan.verdict, plan.promoted) == (PLANNED, ("new",))
    assert all(second.handle in rig.probe.waiters(key) for key in keys)
    assert rig.probe.permits_in_use() == 3, "the resident block takes a permit too"
    rig.step()
    rig.tier.done_all()
    rig.notice()
    assert rig.manager.landed(keys, second) is HIT
    rig.load(second, *keys)
    assert rig.probe.waiters("new") == set()
    assert rig.probe.permits_in_use() == 1, "the first request still waits"


def test_a_plan_that_does_not_fit_changes_nothing():
    rig = Rig(slots=4)
    rig.tier.has("a", "b", "c")
    request = rig.request()
    keys = ["a", "b", "c"]
    rig.manager.exists(keys, request)
    before = rig.probe.fingerprint()
    assert rig.manager.plan_load(keys, request).verdict is NO_ROOM
    assert rig.probe.fingerprint() == before
    assert rig.manager.plan_head(keys, request) == 2
    assert rig.manager.plan_load(keys[:2], request).verdict is PLANNED


def test_a_plan_evicts_only_what_it_does_not_load():
    rig = Rig(slots=3, promotion_share=1.0)
    request = rig.request()
    rig.tier.refuses_all = True  # no copy pins a block
    rig.store(request, "old", "mine", "other")
    rig.tier.has("new")
    rig.manager.exists(["other", "new"], request)
    plan = rig.manager.plan_load(["other", "new"], request)
    assert (plan.verdict, plan.promoted) == (PLANNED, ("new",))
    assert rig.probe.phase("other") == "RESIDENT", "the first to go, but the plan's own"
    assert rig.probe.phase("mine") == "ABSENT"


def test_a_block_that_was_answered_hit_is_not_evicted_for_a_plan():
    rig = Rig(slots=2)
    first, second = rig.request(), rig.request()
    rig.store(first, "a", "b")
    rig.tier.done_all()
    rig.notice()
    assert rig.lookup(first, "a", "b") == [HIT, HIT]
    rig.tier.has("c")
    rig.manager.exists(["c"], second)
    assert rig.manager.plan_load(["c"], second).verdict is NO_ROOM
    rig.load(first, "a", "b")


@pytest.mark.parametrize("how", ["never asked", "claim retracted", "held", "overdue"])
def test_a_plan_of_what_is_nowhere_is_lost_and_changes_nothing(how):
    rig = Rig(slots=4, pending_deadline=5.0)
    request = rig.request()
    rig.tier.has("a")
    if how == "claim retracted":
        rig.lookup(rig.request(), "a")
        rig.step()
        rig.tier.done(rig.tier.loads[-1], [])
    if how == "overdue":
        rig.begin_store(request, "a")
        rig.step()
        rig.now = 6.0
    if how != "never asked":
        rig.manager.exists(["a"], request)
    if how == "held":
        rig.manager.reset_cache()
    plan = rig.manager.plan_load(["a"], request)
    assert (plan.verdict, plan.lost) == (LOST, ("a",))
    assert rig.manager.landed(["a"], request) is MISS


def test_a_plan_ends_the_questions_that_no_tier_has_answered():
    rig = Rig(slots=4)
    rig.tier.claims["u"] = Claim.UNDECIDED
    request = rig.request()
    rig.manager.exists(["u"], request)
    assert rig.manager.has_pending_work()
    assert rig.manager.plan_load([], request).verdict is PLANNED
    rig.step()
    assert not rig.manager.has_pending_work()


def test_a_plan_begins_the_lease_of_a_resident_block_anew():
    rig = Rig(slots=4, lease=10.0)
    request = rig.request()
    rig.tier.has("a")
    rig.promote(request, "a")
    rig.now = 9.0
    assert rig.manager.plan_load(["a"], request).verdict is PLANNED
    rig.step()
    rig.now = 15.0
    rig.notice()
    assert rig.probe.waiters("a") == {request.handle}, "the first lease is over, the second not"
    rig.now = 19.0
    rig.notice()
    assert rig.probe.waiters("a") == set()
    assert rig.probe.permits_in_use() == 0


def test_a_planned_load_that_fails_is_lost_and_the_rest_can_be_let_go():
    rig = Rig(slots=8)
    rig.tier.has("a", "b")
    request = rig.request()
    rig.manager.exists(["a", "b"], request)
    rig.manager.plan_load(["a", "b"], request)
    rig.step()
    assert rig.manager.landed(["a", "b"], request) is HIT_PENDING
    rig.tier.done(rig.tier.loads[-1], ["a"])
    rig.notice()
    assert rig.manager.landed(["a", "b"], request) is MISS
    rig.manager.withdraw(["a", "b"], request)
    assert rig.probe.permits_in_use() == 0
    assert rig.manager.exists(["a", "b"], request) == [True, False]


def test_an_ended_request_and_a_key_named_twice_are_refused():
    rig = Rig()
    request = rig.request()
    with pytest.raises(ContractViolation, match="named twice"):
        rig.manager.plan_load(["a", "a"], request)
    rig.manager.on_request_finished(request)
    for call in (
        lambda: rig.manager.exists(["a"], request),
        lambda: rig.manager.plan_load(["a"], request),
        lambda: rig.manager.plan_head(["a"], request),
        lambda: rig.manager.landed(["a"], request),
    ):
        with pytest.raises(ContractViolation, match="not a live request"):
            call()


def test_a_tier_that_answers_in_batches_again_is_heard_again():
    near = ManyAtOnce("near")
    near.has("a")
    near.raises["lookup_many"] = OSError()
    rig = Rig(tiers=[near])
    request = rig.request()
    assert rig.manager.exists(["a"], request) == [False]
    near.raises.clear()
    assert rig.manager.exists(["a"], request) == [True]


def test_a_block_that_was_answered_hit_keeps_that_promise_while_its_plan_makes_room():
    rig = Rig(slots=3, promotion_share=1.0)
    request = rig.request()
    rig.store(request, "hit", "old", "older")
    rig.settle()
    rig.tier.has("new")
    assert rig.lookup(request, "hit") == [HIT]
    rig.manager.exists(["new"], request)
    plan = rig.manager.plan_load(["hit", "new"], request)
    assert (plan.verdict, plan.promoted) == (PLANNED, ("new",))
    assert "hit" in rig.probe.resident_keys()
    rig.probe.check()


def test_what_was_found_counts_until_it_is_asked_for_again():
    rig = Rig()
    request = rig.request()
    rig.tier.has("a", "b")
    assert rig.manager.exists(["a", "b"], request) == [True, True]
    rig.tier.claims.clear()
    assert rig.manager.exists(["b"], request) == [False]
    assert rig.manager.plan_load(["b"], request).verdict is LOST
    assert rig.manager.plan_load(["a"], request).verdict is PLANNED


def test_what_was_found_serves_one_plan():
    rig = Rig(slots=2, promotion_share=1.0)
    request = rig.request()
    rig.tier.has("a")
    rig.manager.exists(["a"], request)
    assert rig.manager.plan_load(["a"], request).verdict is PLANNED
    rig.step()
    rig.settle()
    rig.load(request, "a")
    assert rig.begin_store(request, "x", "y").evicted == ("a",)
    plan = rig.manager.plan_load(["a"], request)
    assert (plan.verdict, plan.lost) == (LOST, ("a",))


def test_a_block_that_the_gpu_is_storing_is_not_lost_to_a_plan():
    rig = Rig()
    request = rig.request()
    rig.begin_store(request, "a")
    assert rig.manager.plan_load(["a"], request).verdict is PLANNED


def test_only_the_keys_before_the_first_without_a_permit_are_counted():
    rig = Rig(slots=4)  # two permits
    request = rig.request()
    rig.tier.has("a", "b")
    rig.lookup(request, "a", "b")
    assert rig.manager.plan_head(["a", "new", "b"], request) == 1


@pytest.mark.parametrize("room", ["to spare", "just enough"])
def test_a_plan_that_fits_polls_no_tier(room):
    rig = Rig(slots=4, promotion_share=0.5)
    request, other = rig.request(), rig.request("other")
    rig.tier.has("a", "b")
    rig.begin_store(other, *(["x"] if room == "to spare" else ["x", "y"]))
    rig.manager.exists(["a", "b"], request)
    polls = rig.tier.polls
    keys = ["a"] if room == "to spare" else ["a", "b"]
    assert rig.manager.plan_load(keys, request).verdict is PLANNED
    assert rig.tier.polls == polls


@pytest.mark.parametrize("short", ["of slots", "of permits"])
def test_a_plan_that_is_short_hears_first_what_has_ended(short):
    rig = Rig(slots=2, promotion_share=0.5)
    request, other = rig.request(), rig.request("other")
    rig.tier.has("k", "new")
    if short == "of slots":
        rig.store(other, "a")
        rig.begin_store(other, "x")
    else:
        rig.lookup(other, "k")
        rig.step()
    rig.manager.exists(["new"], request)
    if short == "of slots":
        rig.tier.done_all()
    else:
        rig.tier.fail(rig.tier.loads[0])
    assert rig.manager.plan_load(["new"], request).verdict is PLANNED
    rig.probe.check()


@pytest.mark.parametrize("reader", ["itself", "another", "itself another block"])
def test_a_planned_block_is_let_go_by_who_runs_unless_he_is_reading_it(reader):
    rig = Rig(slots=8)
    request, other = rig.request(), rig.request("other")
    rig.store(request, "a", "b")
    rig.settle()
    mine = rig.manager.prepare_load(["a" if reader == "itself" else "b"], request)
    theirs = rig.manager.prepare_load(["b" if reader == "itself" else "a"], other)
    if reader != "itself another block":
        rig.manager.complete_load(theirs if reader == "itself" else mine)
    assert rig.probe.pins("a") == 1
    assert rig.manager.plan_load(["a"], request).verdict is PLANNED
    rig.step(request)
    assert rig.probe.waiters("a") == ({request.handle} if reader == "itself" else set())
    if reader == "itself":
        rig.manager.complete_load(mine)
        assert rig.probe.waiters("a") == set()
