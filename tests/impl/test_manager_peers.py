"""What a tier does for a peer: its own claims excluded, its sends bounded and pinned."""

from __future__ import annotations

import pytest

from tierproof import ContractViolation

from .support import HIT, HIT_PENDING, MISS, Rig, sent


def test_an_external_request_never_asks_the_tier_that_serves_it():
    rig = Rig(tiers=2)
    serving, other = rig.tiers
    serving.has("a", "b")
    other.has("b")
    peer = rig.manager.external("tier0")
    request = peer.on_new_request("peer")
    assert [peer.lookup(key, request) for key in ("a", "b")] == [MISS, HIT_PENDING]
    assert serving.asked == []
    assert serving.begun == other.begun == [request.info]
    peer.on_request_finished(request)
    rig.step()
    assert serving.ended == other.ended == [request.info]
    assert serving.loads == other.loads == []


def test_an_external_request_does_not_inherit_a_promotion_from_the_tier_that_serves_it():
    rig = Rig(tiers=1)
    rig.tier.has("k")
    request = rig.request()
    rig.lookup(request, "k")
    peer = rig.manager.external("tier0")
    external = peer.on_new_request("peer")
    assert peer.lookup("k", external) is HIT_PENDING
    rig.manager.on_request_finished(request)
    assert rig.probe.phase("k") == "ABSENT"
    assert rig.probe.waiters("k") == set()
    rig.probe.check()


def test_what_a_peer_is_sent_is_pinned_until_the_job_reports_and_counts_as_cascading():
    rig = Rig(slots=8)  # two berths
    request = rig.request()
    rig.store(request, "a", "b", "c")
    rig.settle()
    peer = rig.manager.external("tier0")
    external = peer.on_new_request("peer")
    assert [peer.lookup(key, external) for key in ("a", "b", "c")] == [HIT] * 3
    assert peer.send(["a", "b", "c"], external) is None
    job_id = peer.send(["a", "b"], external)
    assert job_id in rig.tier.running
    assert (rig.probe.pins("a"), rig.probe.cascading_slots()) == (1, 2)
    peer.on_request_finished(external)
    rig.step()
    assert rig.tier.ended == [external.info], "told after its last submit"
    rig.tier.fail(rig.tier.stores[-1])
    rig.notice()
    assert (rig.probe.pins("a"), len(rig.tier.running)) == (0, 0)
    assert not rig.manager._secondaries[0].due, "a failed send is the peer's matter"


def test_a_send_that_the_tier_does_not_take_pins_nothing():
    rig = Rig(slots=8, pending_deadline=10.0)
    rig.store(rig.request(), "a")
    rig.settle()
    peer = rig.manager.external("tier0")
    external = peer.on_new_request("peer")
    rig.tier.refuses_all = True
    assert peer.send(["a"], external) is None
    rig.tier.refuses_all = False
    rig.tier.raises["submit_store"] = OSError()
    assert peer.send(["a"], external) is None
    rig.tier.raises.clear()
    assert rig.probe.pins("a") == 0
    assert peer.send(["a"], external) is not None
    rig.now = 10.0
    rig.step()
    assert peer.send(["a"], external) is None, "the tier has an overdue store"


def test_a_send_of_what_is_not_resident_or_by_a_request_of_others_is_refused():
    rig = Rig(slots=8)
    request = rig.request()
    rig.store(request, "a")
    peer = rig.manager.external("tier0")
    external = peer.on_new_request("peer")
    for keys, sender, words in (
        (["z"], external, "not resident"),
        (["a", "a"], external, "named twice"),
        (["a"], request, "was not announced by tier"),
    ):
        with pytest.raises(ContractViolation, match=words):
            peer.send(keys, sender)
    with pytest.raises(ContractViolation, match="tape"):
        rig.manager.external("tape")
    rig.probe.check()


def test_a_send_changes_nothing_of_what_cascades():
    rig = Rig(slots=8)
    rig.tier.raises["submit_store"] = OSError()
    request = rig.request()
    rig.store(request, "a")
    rig.tier.raises.clear()
    peer = rig.manager.external("tier0")
    external = peer.on_new_request("peer")
    peer.send(["a"], external)
    rig.tier.done(rig.tier.stores[-1])
    rig.step()
    assert sent(rig.tier) == [("a",), ("a",), ("a",)], "the cascade is still due"
