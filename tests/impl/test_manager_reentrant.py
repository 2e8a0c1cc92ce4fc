"""Tiers that call the manager from within, when they are polled, asked, told or given work."""

from __future__ import annotations

from collections.abc import Callable, Collection

import pytest

from tierproof.impl.errors import ContractViolation
from tierproof.impl.operations import StoreOperation
from tierproof.impl.requests import Request
from tierproof.impl.tiers.base import (
    Claim,
    JobReport,
    Key,
    LoadJob,
    Poll,
    RequestInfo,
    StoreJob,
    StorePolicy,
)

from .support import HIT, HIT_PENDING, MISS, Rig, ScriptedTier


class Asking(ScriptedTier):
    """Does something, once, when one of its methods is called."""

    def __init__(self, name: str = "peer") -> None:
        super().__init__(name)
        self.acts: dict[str, Callable[[], object]] = {}

    def _act(self, hook: str) -> None:
        act = self.acts.pop(hook, None)
        if act is not None:
            act()

    def poll(self) -> Poll:
        self._act("poll")
        return super().poll()

    def lookup(self, key: Key, request: RequestInfo) -> Claim:
        self._act("lookup")
        return super().lookup(key, request)

    def submit_load(self, job: LoadJob) -> None:
        super().submit_load(job)
        self._act("submit_load")

    def submit_store(self, job: StoreJob) -> Collection[Key]:
        refused = super().submit_store(job)
        self._act("submit_store")
        return refused

    def on_request_finished(self, request: RequestInfo) -> None:
        super().on_request_finished(request)
        self._act("on_request_finished")


@pytest.mark.parametrize("hook", ["poll", "lookup"])
def test_a_key_that_a_peer_asks_for_meanwhile_is_reserved_once(hook):
    peer, disk = Asking(), ScriptedTier("disk")
    rig = Rig(slots=4, tiers=[peer, disk])
    external = rig.manager.external("peer")
    peers = external.on_new_request("peer")
    disk.has("k", "x", "y")
    request, other = rig.request(), rig.request("other")
    assert rig.lookup(other, "x", "y") == [HIT_PENDING, HIT_PENDING]
    rig.step()
    disk.fail(disk.loads[0])
    if hook == "poll":
        rig.lookup(request, "n")  # the step has begun; no permit is free but by what is reported
        disk.claims["x"] = disk.claims["y"] = Claim.ABSENT
    answers: list[object] = []
    peer.acts[hook] = lambda: answers.append(external.lookup("k", peers))
    assert rig.lookup(request, "k") == [HIT_PENDING]
    rig.probe.check()
    assert rig.probe.waiters("k") >= {request.handle}
    rig.step()
    assert [job.keys for job in disk.loads[1:]] == [("k",)]
    disk.done_all()
    rig.notice()
    assert rig.lookup(request, "k") == [HIT]
    rig.probe.check()


def test_a_peers_hit_in_the_middle_of_a_store_ends_with_it():
    peer = Asking()
    rig = Rig(slots=2, tiers=[peer])
    peers = rig.manager.external("peer").on_new_request("peer")
    rig.store(rig.request(), "a")
    rig.store(rig.request(), "b")
    rig.settle()
    request = rig.request()
    rig.lookup(request, "n")
    peer.acts["poll"] = lambda: rig.manager.external("peer").lookup("a", peers)
    operation = rig.manager.prepare_store(["c", "d"], request)
    assert operation is not None
    assert operation.evicted == ("a", "b")
    rig.probe.check()


def test_what_a_tier_asks_for_when_it_is_given_a_job_belongs_to_the_next_step():
    peer, disk = Asking(), ScriptedTier("disk")
    rig = Rig(slots=8, tiers=[peer, disk])
    one, two = rig.request("one"), rig.request("two")
    peer.has("a")
    disk.has("b", "d")
    assert rig.lookup(one, "a") == [HIT_PENDING]
    assert rig.lookup(two, "b") == [HIT_PENDING]
    peer.acts["submit_load"] = lambda: rig.manager.lookup("d", two)
    rig.step()
    assert [job.keys for job in disk.loads] == [("b",)]
    assert rig.probe.phase("d") == "QUEUED"
    rig.step()
    assert [job.keys for job in disk.loads] == [("b",), ("d",)]
    rig.probe.check()


def test_a_reset_from_within_a_submit_knows_of_every_job_of_the_step():
    peer, disk = Asking(), ScriptedTier("disk")
    rig = Rig(slots=8, tiers=[peer, disk])
    peer.has("a")
    disk.has("b")
    rig.lookup(rig.request(), "a", "b")
    peer.acts["submit_load"] = rig.manager.reset_cache
    rig.step()
    rig.tiers[0].done_all()
    rig.tiers[1].done_all()
    rig.notice()
    assert rig.probe.resident_keys() == set()
    assert rig.probe.free_slots() == 8
    rig.probe.check()


def test_a_tier_that_ends_a_step_when_it_is_told_of_an_end_hears_each_end_once():
    peer = Asking()
    rig = Rig(tiers=[peer])
    for name in ("one", "two", "three"):
        rig.manager.on_request_finished(rig.request(name))
    peer.acts["on_request_finished"] = rig.manager.on_schedule_end
    rig.step()
    assert sorted(info.request_id for info in peer.ended) == ["one", "three", "two"]


def test_a_failure_is_newer_than_what_the_same_poll_says_was_verified():
    rig = Rig()
    rig.tier.has("k")
    request = rig.request()
    rig.lookup(request, "k")
    rig.step()
    rig.tier.verify("k")
    rig.tier.report(JobReport(rig.tier.loads[0].job_id, frozenset()))
    rig.notice()
    assert rig.probe.retracted() == {("tier0", "k")}


@pytest.mark.parametrize("ends", [True, False])
def test_a_block_that_comes_while_tiers_are_polled_is_seen(ends):
    peer = Asking()
    rig = Rig(slots=2, tiers=[peer])
    request, other = rig.request(), rig.request("other")
    rig.store(request, "x", "y")
    rig.settle()
    rig.lookup(other, "n")

    def store() -> None:
        operation = rig.begin_store(other, "k")
        if ends:
            rig.manager.complete_store(operation)

    peer.acts["poll"] = store
    assert rig.lookup(request, "k") == [HIT if ends else HIT_PENDING]
    rig.probe.check()


@pytest.mark.parametrize("landed", [(), ("a",), ("a", "b")])
def test_a_reset_from_within_a_store_knows_of_it_and_the_next_tier_gets_nothing(
    landed: tuple[str, ...],
) -> None:
    first, second = Asking("first"), ScriptedTier("second")
    rig = Rig(slots=4, tiers=[first, second], reoffers=3, cascade_share=1.0)
    request = rig.request()
    first.acts["submit_store"] = lambda: rig.manager.reset_cache("all")
    rig.store(request, "a", "b")
    rig.probe.check()
    assert second.stores == [], "blocks that a reset has forgotten were sent on"
    assert rig.probe.quarantined() == {0, 1}
    rig.manager.on_reset_flushed()
    first.done(first.stores[0], landed)
    rig.notice()
    assert rig.probe.free_slots() == 4
    assert rig.probe.due() == set()
    rig.store(request, "c", "d")  # in the same slots
    rig.settle()
    assert {job.keys for job in first.stores[1:]} == {("c", "d")}
    assert set(landed) <= {key for _, key in rig.probe.retracted()}, "from before the reset"


def test_a_reset_from_within_an_offer_that_was_due_drops_the_others_of_that_step() -> None:
    tier = Asking()
    rig = Rig(slots=4, tiers=[tier], reoffers=3, cascade_share=1.0)
    tier.refuses_all = True
    rig.store(rig.request("one"), "a")
    rig.store(rig.request("two"), "b")
    rig.store(rig.request("three"), "c")
    rig.step()
    tier.refuses_all = False
    assert rig.probe.due() == {("peer", "a"), ("peer", "b"), ("peer", "c")}
    before = len(tier.stores)
    tier.acts["submit_store"] = rig.manager.reset_cache
    for _ in range(3):
        rig.now += 1.0
        rig.step()
    assert [job.keys for job in tier.stores[before:]] == [("a",)]
    tier.done_all()
    rig.notice()
    assert rig.probe.free_slots() == 4
    assert not rig.probe.quarantined()
    rig.probe.check()


def test_a_step_that_ends_within_an_offer_that_was_due_offers_the_others_once() -> None:
    tier = Asking()
    rig = Rig(slots=4, tiers=[tier], reoffers=3, cascade_share=1.0)
    tier.refuses_all = True
    for key in ("a", "b", "c"):
        rig.store(rig.request(f"of {key}"), key)
    rig.step()
    tier.refuses_all = False
    before = len(tier.stores)
    tier.acts["submit_store"] = rig.manager.on_schedule_end
    for _ in range(3):
        rig.now += 1.0
        rig.step()
    assert sorted(job.keys for job in tier.stores[before:]) == [("a",), ("b",), ("c",)]
    rig.probe.check()
    tier.done_all()
    rig.notice()
    assert rig.probe.cascading_slots() == 0
    assert rig.probe.due() == set()
    rig.probe.check()


def test_a_block_evicted_from_within_a_store_is_not_sent_to_the_next_tier() -> None:
    first, second = Asking("first"), ScriptedTier("second")
    rig = Rig(slots=4, tiers=[first, second], cascade_share=0.5, reoffers=3)
    request, other = rig.request(), rig.request("other")
    more: list[StoreOperation | None] = []
    first.acts["submit_store"] = lambda: more.append(rig.manager.prepare_store(["x", "y"], other))
    rig.store(request, "a", "b", "c", "d")
    (operation,) = more
    assert operation is not None
    assert len(operation.evicted) == 2, "only the one that is being sent is pinned"
    rig.probe.check()
    rig.manager.complete_store(operation)
    rig.settle()
    for tier in (first, second):
        offered = {key for job in tier.stores for key in job.keys}
        assert offered == {"a", "b", "c", "d", "x", "y"} - set(operation.evicted)


@pytest.mark.parametrize("act", ["reset", "evict"])
def test_what_is_gone_from_within_a_whole_request_is_not_sent_to_the_next_tier(act: str) -> None:
    first, second, disk = Asking("first"), ScriptedTier("second"), ScriptedTier("disk")
    first.policy = second.policy = StorePolicy.WHOLE_REQUEST
    rig = Rig(slots=4, tiers=[first, second, disk], cascade_share=0.75)
    request, other = rig.request(), rig.request("other")
    disk.has("a", "b")
    rig.lookup(other, "a", "b")
    rig.step()
    rig.settle()
    rig.manager.withdraw(["a", "b"], other)
    more: list[StoreOperation | None] = []

    def evict() -> None:
        more.append(rig.manager.prepare_store(["x", "y", "z"], other))

    first.acts["submit_store"] = rig.manager.reset_cache if act == "reset" else evict
    assert rig.manager.prepare_store(["a", "b"], request) is not None
    rig.probe.check()
    for operation in more:
        assert operation is not None
        assert operation.evicted, "a block that was offered"
        rig.manager.complete_store(operation)
    rig.settle()
    sent = {key for job in second.stores for key in job.keys}
    if act == "reset":
        assert sent == set()
    else:
        (operation,) = more
        assert operation is not None
        assert sent == {"a", "b", *operation.keys} - set(operation.evicted)
    rig.probe.check()


def _calls(rig: Rig, request: Request) -> dict[str, Callable[[], object]]:
    manager = rig.manager
    return {
        "lookup": lambda: manager.lookup("k", request),
        "lookup_many": lambda: manager.lookup_many(["k", "n"], request),
        "prepare_load": lambda: manager.prepare_load(["r"], request),
        "prepare_store": lambda: manager.prepare_store(["s"], request),
        "exists": lambda: manager.exists(["k"], request),
        "plan_load": lambda: manager.plan_load(["r"], request),
    }


@pytest.mark.parametrize(
    "call", ["lookup", "lookup_many", "prepare_load", "prepare_store", "exists", "plan_load"]
)
def test_a_request_that_a_polled_tier_ends_as_its_call_begins_is_promised_nothing(call):
    peer, disk = Asking(), ScriptedTier("disk")
    rig = Rig(slots=4, tiers=[peer, disk])
    disk.has("k")
    request = rig.request()
    rig.store(rig.request("other"), "r")
    rig.step()
    peer.acts["poll"] = lambda: rig.manager.on_request_finished(request)
    with pytest.raises(ContractViolation, match="not a live request"):
        _calls(rig, request)[call]()
    rig.probe.check()
    assert rig.probe.permits_in_use() == 0


@pytest.mark.parametrize("says", [Claim.PRESENT, Claim.UNDECIDED, Claim.ABSENT])
def test_a_request_that_a_tier_ends_when_it_is_asked_is_promised_nothing(says):
    peer, disk = Asking(), ScriptedTier("disk")
    rig = Rig(slots=4, tiers=[peer, disk], lease=None)
    peer.claims["k"], disk.claims["k"] = says, Claim.UNDECIDED
    request = rig.request()
    rig.lookup(request, "first")
    peer.acts["lookup"] = lambda: rig.manager.on_request_finished(request)
    assert rig.lookup(request, "k") == [MISS]
    rig.probe.check()
    assert rig.probe.permits_in_use() == 0
    rig.step()
    assert not disk.loads
    assert not rig.manager.has_pending_work()


@pytest.mark.parametrize("hook", ["poll", "lookup"])
def test_a_block_that_comes_while_its_request_ends_is_kept_for_nobody(hook):
    peer, disk = Asking(), ScriptedTier("disk")
    rig = Rig(slots=4, tiers=[peer, disk])
    external = rig.manager.external("peer")
    peers = external.on_new_request("peer")
    disk.has("k", "x", "y")
    request, other = rig.request(), rig.request("other")
    rig.lookup(other, "x", "y")
    rig.step()
    if hook == "poll":
        rig.lookup(request, "n")  # the step has begun, and no permit is free
    disk.fail(disk.loads[0])

    def ask_and_end() -> None:
        external.lookup("k", peers)
        rig.manager.on_request_finished(request)

    if hook == "lookup":
        rig.lookup(request, "n")
    peer.acts[hook] = ask_and_end
    assert rig.lookup(request, "k") == [MISS]
    rig.probe.check()
    assert request.handle not in rig.probe.waiters("k")


def test_a_plan_of_a_request_that_ends_as_permits_come_free_holds_nothing():
    peer, disk = Asking(), ScriptedTier("disk")
    rig = Rig(slots=4, tiers=[peer, disk])
    disk.has("x", "y")
    request, other = rig.request(), rig.request("other")
    rig.store(other, "r")
    rig.settle()
    rig.lookup(other, "x", "y")
    rig.step()
    rig.lookup(request, "n")  # the step has begun, and no permit is free
    disk.fail(disk.loads[0])
    disk.done_all()
    peer.acts["poll"] = lambda: rig.manager.on_request_finished(request)
    plan = rig.manager.plan_load(["r"], request)
    assert (plan.verdict.name, plan.lost) == ("LOST", ("r",))
    rig.probe.check()
    assert rig.probe.permits_in_use() == 0


def test_what_a_tier_has_not_decided_stays_open_when_it_ends_the_request_from_within() -> None:
    peer = Asking()
    rig = Rig(slots=4, tiers=[peer])
    peer.claims["k"] = Claim.UNDECIDED
    request = rig.request()
    rig.lookup(request, "first")
    peer.acts["lookup"] = lambda: rig.manager.on_request_finished(request)
    assert rig.manager.exists(["k"], request) == [None]
    rig.probe.check()
