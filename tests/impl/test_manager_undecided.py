"""Tiers that do not make up their minds: each has its time once, and nobody waits longer."""

from __future__ import annotations

import pytest

from tierproof import MissReason
from tierproof.impl.requests import Request
from tierproof.impl.tiers.base import Claim

from .support import HIT, HIT_PENDING, MISS, RETRY, Rig


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


def test_tiers_that_waver_in_turn_have_their_time_once_and_no_more():
    rig = Rig(tiers=2, probe_deadline=5.0)
    request = rig.request()
    answers = []
    for step in range(30):
        rig.now = float(step)
        undecided = rig.tiers[step % 2]
        rig.tiers[0].claims["k"] = rig.tiers[1].claims["k"] = Claim.ABSENT
        undecided.claims["k"] = Claim.UNDECIDED
        answers += rig.lookup(request, "k")
        rig.step()
    assert answers.count(RETRY) <= 2 * 5 + 1, "one probe deadline for each tier bounds the wait"
    assert answers[-15:] == [MISS] * 15
    rig.probe.check()


def test_the_bound_holds_for_deadlines_that_no_binary_fraction_is():
    rig = Rig(tiers=2, probe_deadline=0.3)
    request = rig.request()
    answers = []
    for step in range(200):
        rig.now = step * 0.1 + step % 7 * 0.013
        rig.tiers[0].claims["k"] = rig.tiers[1].claims["k"] = Claim.ABSENT
        rig.tiers[step % 2].claims["k"] = Claim.UNDECIDED
        answers += rig.lookup(request, "k")
        rig.step()
    assert answers.count(RETRY) <= 12
    assert answers[-100:] == [MISS] * 100


def test_time_in_which_a_tier_was_not_undecided_is_not_counted():
    rig = Rig(probe_deadline=5.0)
    request = rig.request()
    rig.tier.claims["k"] = Claim.UNDECIDED
    assert rig.lookup(request, "k") == [RETRY]
    rig.step()
    rig.now = 3.0
    rig.tier.claims["k"] = Claim.ABSENT
    assert rig.lookup(request, "k") == [MISS]
    rig.step()
    rig.now = 1000.0
    rig.tier.claims["k"] = Claim.UNDECIDED
    assert rig.lookup(request, "k") == [RETRY]
    rig.step()
    rig.now = 1001.9
    assert rig.lookup(request, "k") == [RETRY]
    assert rig.manager.explain("k", request).answer is RETRY
    rig.step()
    rig.now = 1002.0
    rig.lookup(request, "other")
    assert rig.manager.explain("k", request).reason is MissReason.PROBE_TIMEOUT
    assert rig.lookup(request, "k") == [MISS], "three seconds then, two now"


def test_what_wavering_took_counts_in_what_is_explained_too():
    rig = Rig(probe_deadline=5.0)
    request = rig.request()
    rig.tier.claims["k"] = Claim.UNDECIDED
    rig.lookup(request, "k")
    rig.step()
    rig.now = 6.0
    rig.tier.claims["k"] = Claim.ABSENT
    rig.lookup(request, "k")
    rig.tier.claims["k"] = Claim.UNDECIDED
    assert rig.manager.explain("k", request).reason is MissReason.PROBE_TIMEOUT
    assert rig.lookup(request, "k") == [MISS]


def test_a_scheduled_request_leaves_no_question_open():
    rig = Rig()
    rig.tier.claims["k"] = Claim.UNDECIDED
    request = rig.request()
    rig.lookup(request, "k")
    rig.manager.on_schedule_end([request])
    assert not rig.manager.has_pending_work()
    rig.probe.check()


def test_a_retracted_claim_ends_the_question_that_was_open():
    rig = Rig()
    first, second = rig.request("first"), rig.request("second")
    rig.tier.claims["k"] = Claim.UNDECIDED
    rig.lookup(second, "k")
    rig.tier.has("k")
    rig.lookup(first, "k")
    rig.step()
    rig.tier.fail(rig.tier.loads[0])
    rig.notice()
    for ask in (lambda: rig.manager.lookup("k", second), lambda: rig.manager.exists(["k"], second)):
        assert second.probes
        ask()
        assert not second.probes
        assert not rig.manager.has_pending_work()
        rig.tier.verify("k")
        rig.tier.claims["k"] = Claim.UNDECIDED
        rig.notice()
        rig.lookup(second, "k")
        rig.manager._secondaries[0].retracted.add("k")


def test_a_decided_answer_stops_the_probe():
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


def ask(rig: Rig, request: Request, how: str) -> bool | None:
    """Is the block there, as a lookup, a question of existence or an explanation says?"""
    if how == "exists":
        return rig.manager.exists(["k"], request)[0]
    if how == "explain":
        answer = rig.manager.explain("k", request).answer
    else:
        answer = rig.manager.lookup("k", request)
    return {RETRY: None, MISS: False}.get(answer, True)


@pytest.mark.parametrize("how", ["lookup", "exists", "explain"])
@pytest.mark.parametrize("late", [0, 1, 2])
def test_a_tier_that_has_timed_out_keeps_no_other_from_being_asked(how, late):
    rig = Rig(tiers=3, probe_deadline=5.0)
    request = rig.request()
    rig.tiers[late].claims["k"] = Claim.UNDECIDED
    assert ask(rig, request, "lookup" if how == "explain" else how) is None
    rig.step()
    rig.now += 5.0
    assert ask(rig, request, "lookup" if how == "explain" else how) is False
    rig.step()
    for tier in rig.tiers:
        tier.claims["k"] = Claim.ABSENT
        tier.asked.clear()
    for number, tier in enumerate(rig.tiers):
        if number != late:
            tier.claims["k"] = Claim.PRESENT
            assert ask(rig, request, how) is True, f"tier {number} beside tier {late}"
            tier.claims["k"] = Claim.ABSENT
            if how == "lookup":
                rig.manager.withdraw(["k"], request)
            assert tier.asked.count("k") == 1
        assert "k" not in rig.tiers[late].asked


def test_time_beyond_the_deadline_is_beyond_it():
    rig = Rig(probe_deadline=5.0)
    rig.tier.claims["k"] = Claim.UNDECIDED
    request = rig.request()
    rig.lookup(request, "k")
    rig.step()
    rig.now = 7.0
    assert rig.lookup(request, "k") == [MISS]


@pytest.mark.parametrize("seconds", [0.25, 0.5, 1.0])
def test_many_short_times_add_up_to_a_long_one_wherever_the_clock_starts(seconds):
    rig = Rig(probe_deadline=2.0)
    rig.now = 1000.0
    rig.notice()
    request = rig.request()
    answers = []
    for _ in range(round(2.0 / seconds)):
        rig.tier.claims["k"] = Claim.UNDECIDED
        answers += rig.lookup(request, "k")
        rig.step()
        rig.now += seconds
        rig.tier.claims["k"] = Claim.ABSENT
        assert rig.lookup(request, "k") == [MISS]
        rig.step()
        rig.now += 100.0
    assert answers == [RETRY] * len(answers)
    rig.tier.claims["k"] = Claim.UNDECIDED
    assert rig.lookup(request, "k") == [MISS], "two seconds, in pieces"


@pytest.mark.parametrize("how", ["decides", "is settled"])
def test_a_hit_settles_its_own_question_after_that_of_another_key(how):
    rig = Rig(slots=8)
    request, other = rig.request(), rig.request("other")
    rig.tier.claims.update(a=Claim.UNDECIDED, b=Claim.UNDECIDED)
    assert rig.lookup(request, "a", "b") == [RETRY, RETRY]
    if how == "decides":
        rig.tier.claims["a"] = Claim.ABSENT
        assert rig.lookup(request, "a") == [MISS]
    else:
        rig.store(other, "a")
        assert rig.lookup(request, "a") == [HIT]
    rig.store(other, "b")
    assert rig.lookup(request, "b") == [HIT]
    assert not request.probes


def test_a_tier_that_decides_when_it_is_asked_for_a_plan_ends_the_question():
    rig = Rig()
    rig.tier.claims.update(a=Claim.UNDECIDED, b=Claim.UNDECIDED)
    request = rig.request()
    assert rig.manager.exists(["a", "b"], request) == [None, None]
    rig.tier.claims["a"] = Claim.ABSENT
    assert rig.manager.exists(["a"], request) == [False]
    assert list(request.probes) == ["b"]
    rig.probe.check()
