"""The fingerprint: whatever can change a future answer changes it, and nothing else does."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tierproof.impl.blocks import Epoch
from tierproof.impl.jobs import Load, Owed, Send
from tierproof.impl.requests import Request
from tierproof.impl.tiers.base import Claim

from .support import Rig


def strained(start: float = 0.0) -> Rig:
    """Something of all that has a date or was tried before: rests, pressure, leases, questions."""
    rig = Rig(slots=32, tiers=3, reoffer_pause=10.0, lease=50.0, pending_deadline=20.0)
    rig.now = start
    rig.notice()
    one, two = rig.request("one"), rig.request("two")
    failing, pressed, hung = rig.tiers
    rig.begin_store(two, "overdue")
    rig.step()
    rig.now += 15.0
    pressed.refuses_all = True
    rig.store(one, "a")
    pressed.refuses_all = False
    failing.fail(failing.stores[0])
    rig.promote(one, "landed", "planned")
    rig.now += 5.0
    hung.claims["question"] = Claim.UNDECIDED
    rig.lookup(two, "question")
    rig.manager.plan_load(["planned"], one)
    rig.manager.prepare_load(["a"], two)
    rig.step()
    rig.now += 2.0
    rig.lookup(two, "nothing")
    rig.probe.check()
    return rig


def retried() -> Rig:
    """A copy in flight that was refused before, and another under a request that is no more."""
    rig = Rig(slots=32, reoffer_pause=0.0)
    gone, here = rig.request("gone"), rig.request("here")
    rig.store(gone, "b")
    rig.manager.on_request_finished(gone)
    rig.step()
    rig.tier.refuses = {"a"}
    rig.store(here, "a")
    rig.tier.refuses = set()
    rig.tier.done(rig.tier.stores[0])
    rig.notice()
    rig.step()
    assert sent_owed(rig)["a"].attempts == 1
    return rig


def sends(rig: Rig) -> list[Send]:
    return [job for s in rig.manager._secondaries for job in s.sends.values()]


def sent_owed(rig: Rig) -> dict[object, Owed]:
    return {key: owed for job in sends(rig) for key, owed in (job.owed or {}).items()}


def due(rig: Rig, tier: int) -> Owed:
    (owed,) = rig.manager._secondaries[tier].due.values()
    return owed


def requests(rig: Rig) -> dict[str, Request]:
    return {request.request_id: request for request in rig.manager._requests.live.values()}


def test_what_is_dated_is_dated_from_now():
    assert strained().probe.fingerprint() == strained(1000.0).probe.fingerprint()


Change = Callable[[Rig], object]


@pytest.mark.parametrize(
    ("scene", "change"),
    [
        (strained, lambda rig: setattr(due(rig, 0), "not_before", rig.now + 1.0)),
        (strained, lambda rig: setattr(due(rig, 0), "not_before", rig.now + 0.5)),
        (strained, lambda rig: setattr(due(rig, 0), "attempts", 2)),
        (strained, lambda rig: setattr(due(rig, 0), "request", None)),
        (strained, lambda rig: setattr(due(rig, 0), "not_in_step", rig.manager._step.number)),
        (strained, lambda rig: setattr(rig.manager._secondaries[1], "pressed_at", rig.now)),
        (
            strained,
            lambda rig: setattr(
                rig.manager._secondaries[1], "pressed_in_step", rig.manager._step.number
            ),
        ),
        (strained, lambda rig: setattr(rig.manager._secondaries[1], "pressed", False)),
        (strained, lambda rig: setattr(rig.manager._secondaries[1], "slow", True)),
        (strained, lambda rig: rig.manager._requests._leases.pop()),
        (strained, lambda rig: requests(rig)["two"].probes.clear()),
        (strained, lambda rig: setattr(requests(rig)["two"], "home", None)),
        (retried, lambda rig: setattr(sent_owed(rig)["a"], "attempts", 2)),
        (retried, lambda rig: setattr(sends(rig)[0], "owed", None)),
        (retried, lambda rig: setattr(sends(rig)[0], "barred", True)),
        (retried, lambda rig: setattr(sends(rig)[0], "request", None)),
    ],
)
def test_what_changes_the_future_changes_the_fingerprint(scene: Callable[[], Rig], change: Change):
    rig = scene()
    before = rig.probe.fingerprint()
    change(rig)
    assert rig.probe.fingerprint() != before


def test_whose_a_copy_is_matters_as_long_as_its_request_lives():
    rig = Rig(slots=32)
    gone, other, here = (rig.request(name) for name in ("gone", "other", "here"))
    rig.store(gone, "a")
    rig.store(gone, "b")
    rig.manager.on_request_finished(gone)
    rig.step()
    assert gone.told
    first, second = sends(rig)
    seen = set()
    for owner in (gone, other, here):
        second.request = owner
        seen.add(rig.probe.fingerprint())
    second.request = None
    assert rig.probe.fingerprint() in seen, "nobody and one who is no more are the same"
    assert len(seen) == 3
    assert first.request is gone


def leased(landed: float, planned: float | None) -> object:
    """The fingerprint at the time 10 of a block that landed and was planned for then."""
    rig = Rig(slots=8, lease=50.0)
    request = rig.request()
    rig.now = landed
    rig.notice()
    rig.promote(request, "a")
    if planned is not None:
        rig.now = planned
        rig.manager.plan_load(["a"], request)
        rig.step()
    rig.now = 10.0
    rig.lookup(request, "nothing")
    return rig.probe.fingerprint()


def test_a_lease_counts_from_when_it_was_begun_last():
    assert leased(0.0, None) != leased(8.0, None)
    assert leased(0.0, 9.0) == leased(8.0, 9.0)
    assert leased(0.0, 9.0) != leased(0.0, 8.0)


def rested(pause: float) -> object:
    rig = Rig(slots=32, reoffer_pause=pause)
    rig.store(rig.request(), "a")
    rig.now = 1.0
    rig.tier.fail(rig.tier.stores[0])
    rig.notice()
    rig.now = 4.0
    rig.lookup(rig.request("other"), "nothing")
    return rig.probe.fingerprint()


def test_how_long_ago_a_rest_was_over_does_not_matter_and_how_long_it_lasts_does():
    assert rested(1.0) == rested(2.5)
    assert len({rested(2.5), rested(3.5), rested(4.5)}) == 3


@pytest.mark.parametrize("how", ["load", "copy", "read"])
def test_which_block_it_was_that_a_reset_forgot_does_not_matter(how):
    def scene(*keys: str) -> object:
        rig = Rig(slots=8)
        request = rig.request()
        if how == "load":
            rig.tier.has(*keys)
            rig.lookup(request, *keys)
            rig.step()
            rig.tier.claims.clear()
        else:
            rig.store(request, *keys)
            if how == "read":
                rig.settle()
                rig.manager.prepare_load(keys, request)
        rig.manager.reset_cache()
        rig.begin_store(request, "a")
        return rig.probe.fingerprint()

    assert scene("a", "b") == scene("c", "d")
    assert scene("a", "b") != scene("a")


def test_what_stands_together_for_a_live_request_is_part_of_it():
    rig = Rig(slots=8, tiers=0)
    one, two = rig.request("one"), rig.request("two")
    rig.store(one, "a", "b")
    rig.store(two, "x")
    runs = {
        request.request_id: [block.key for block in blocks]
        for request, blocks in rig.manager._primary.policy.runs()
    }
    assert runs == {"one": ["b", "a"], "two": ["x"]}
    before = rig.probe.fingerprint()
    rig.manager._primary.policy.close(one)
    assert rig.probe.fingerprint() != before


def test_a_promise_counts_as_long_as_it_holds():
    rig = Rig()
    request = rig.request()
    rig.store(request, "a")
    rig.lookup(request, "a")
    block = rig.manager._primary.blocks["a"]

    def states() -> tuple[object, object]:
        promised, promise = rig.probe.fingerprint(), block.promise
        block.promise = None
        free = rig.probe.fingerprint()
        block.promise = promise
        return promised, free

    promised, free = states()
    assert promised != free
    rig.manager._primary.epoch = Epoch()
    promised, free = states()
    assert promised == free


def test_under_whom_a_promotion_is_queued_matters():
    rig = Rig(tiers=2)
    one, two = rig.request("one"), rig.request("two")
    for tier in rig.tiers:
        tier.has("k")
    rig.lookup(one, "k")
    rig.lookup(two, "k")
    seen = set()
    for secondary in rig.manager._secondaries:
        for request in (one, two):
            rig.manager._primary.blocks["k"].writer = Load(secondary, request)
            seen.add(rig.probe.fingerprint())
    assert len(seen) == 4
