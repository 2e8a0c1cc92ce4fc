"""What a search for victims leaves behind: nothing that a later one would stumble over."""

from __future__ import annotations

import pytest

from tierproof import MissReason
from tierproof.impl.operations import PlanVerdict
from tierproof.impl.tiers.base import Claim

from .support import HIT, HIT_PENDING, MISS, Rig

PLANNED, NO_ROOM = PlanVerdict.PLANNED, PlanVerdict.NO_ROOM


def full(*keys: str) -> Rig:
    """Every slot holds a block that nothing pins; each stored by a request of its own, in order."""
    rig = Rig(slots=len(keys), tiers=1, promotion_share=1.0)
    for key in keys:
        rig.store(rig.request(f"stores {key}"), key)
    rig.settle()
    assert rig.probe.pins(keys[0]) == 0
    return rig


def test_a_plan_that_finds_too_few_victims_leaves_them_to_others():
    rig = full("x", "y", "z")
    other, request = rig.request("other"), rig.request()
    assert rig.lookup(other, "y", "z") == [HIT, HIT]
    rig.tier.has("a", "b", "k")
    rig.manager.exists(["a", "b"], request)
    assert rig.manager.plan_load(["a", "b"], request).verdict is NO_ROOM
    assert rig.lookup(request, "k") == [HIT_PENDING]
    assert rig.probe.resident_keys() == {"y", "z"}


def test_a_plan_leaves_the_hit_promises_of_others_on_its_own_blocks():
    rig = full("mine", "x", "y")
    other, request = rig.request("other"), rig.request()
    assert rig.lookup(other, "mine") == [HIT]
    rig.tier.has("a", "k", "l")
    rig.manager.exists(["a"], request)
    assert rig.manager.plan_load(["mine", "a"], request).verdict is PLANNED
    rig.manager.withdraw(["mine"], request)
    assert rig.probe.resident_keys() == {"mine", "y"}
    assert rig.lookup(request, "k", "l") == [HIT_PENDING, MISS]
    assert rig.probe.resident_keys() == {"mine"}, "it may still be read in this step"


def test_a_plan_spares_its_own_blocks_whatever_was_promised_in_an_earlier_step():
    rig = full("mine", "x", "y")
    request = rig.request()
    assert rig.lookup(request, "mine") == [HIT]
    rig.step()
    rig.tier.has("a")
    rig.manager.exists(["a"], request)
    assert rig.manager.plan_load(["mine", "a"], request).verdict is PLANNED
    assert rig.probe.resident_keys() == {"mine", "y"}


def test_what_a_store_spared_of_its_own_offer_may_go_for_a_promotion():
    rig = full("x", "y")
    request = rig.request()
    rig.tier.has("k")
    assert rig.begin_store(request, "new", "y").evicted == ("x",)
    assert rig.lookup(request, "k") == [HIT_PENDING]
    assert rig.probe.resident_keys() == set()


@pytest.mark.parametrize("promised", [False, True])
def test_it_is_explained_whether_a_promotion_would_find_its_victim(promised):
    rig = full("x")
    request = rig.request()
    rig.tier.has("k")
    if promised:
        assert rig.lookup(rig.request("other"), "x") == [HIT]
    else:
        rig.lookup(request, "nothing")
    told = rig.manager.explain("k", request)
    answers = [told.answer, *rig.lookup(request, "k")]
    assert answers == ([MISS, MISS] if promised else [HIT_PENDING, HIT_PENDING])
    assert told.reason is (MissReason.FULL if promised else None)


def test_a_block_that_is_read_beside_forgotten_ones_may_go_after_the_read():
    rig = Rig(slots=2, tiers=0)
    request = rig.request()
    rig.store(request, "old")
    rig.manager.prepare_load(["old"], request)
    rig.manager.reset_cache()
    rig.store(request, "new")
    rig.load(request, "new")
    assert rig.begin_store(request, "next").evicted == ("new",)
    rig.probe.check()


def test_evicted_blocks_are_counted():
    rig = full("x", "y", "z")
    rig.begin_store(rig.request(), "a", "b")
    assert rig.manager.stats()["tierproof_evicted_blocks_total"] == 2


def leased(rig: Rig, *keys: str) -> list[bool]:
    """Is each block still kept for who waits on it?"""
    return [bool(rig.probe.waiters(key)) for key in keys]


def test_each_block_has_its_own_lease_whatever_landed_with_it_or_after_it():
    rig = Rig(slots=16, tiers=0, lease=10.0)
    writer, request = rig.request("writer"), rig.request()
    writes = {key: rig.begin_store(writer, key) for key in ("a", "b", "c", "d")}
    assert rig.lookup(request, *writes) == [HIT_PENDING] * 4
    rig.step()
    for now, key in ((0.0, "a"), (4.0, "b"), (4.0, "c"), (7.0, "d")):
        rig.now = now
        rig.manager.complete_store(writes[key])
    seen = []
    for now in (9.9, 10.0, 13.9, 14.0, 16.9, 17.0):
        rig.now = now
        rig.notice()
        seen.append(leased(rig, *writes))
    assert seen == [
        [True, True, True, True],
        [False, True, True, True],
        [False, True, True, True],
        [False, False, False, True],
        [False, False, False, True],
        [False, False, False, False],
    ]


def test_blocks_that_land_at_one_time_share_an_entry_however_many_jobs_they_came_from():
    rig = Rig(slots=32, tiers=0, lease=10.0)
    writer, request = rig.request("writer"), rig.request()
    writes = [rig.begin_store(writer, f"k{number}") for number in range(9)]
    rig.lookup(request, *(f"k{number}" for number in range(9)))
    rig.step()
    for now, part in ((1.0, writes[:3]), (2.0, writes[3:])):
        rig.now = now
        for write in part:
            rig.manager.complete_store(write)
    assert [len(blocks) for _, blocks in rig.manager._requests._leases] == [3, 6]


def test_a_lease_that_was_begun_anew_does_not_prolong_those_beside_it():
    rig = Rig(slots=8, lease=10.0)
    request = rig.request()
    rig.promote(request, "a", "b", "c")
    rig.now = 9.0
    assert rig.manager.plan_load(["a"], request).verdict is PLANNED
    rig.step()
    rig.now = 10.0
    rig.notice()
    assert leased(rig, "a", "b", "c") == [True, False, False]


def test_a_promotion_ends_the_question_that_another_tier_had_left_open():
    rig = Rig(tiers=2)
    request = rig.request()
    rig.tiers[0].claims["k"] = Claim.UNDECIDED
    rig.lookup(request, "k")
    rig.tiers[1].has("k")
    assert rig.lookup(request, "k") == [HIT_PENDING]
    assert not request.probes
    rig.probe.check()
