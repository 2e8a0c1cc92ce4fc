"""The probe says what is there, and complains in words when something does not add up."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tierproof.impl.blocks import Block, Epoch
from tierproof.impl.tiers.base import Claim, StorePolicy
from tierproof.impl.vocabulary import Phase

from .support import Rig, ScriptedTier


def busy() -> Rig:
    """A manager with something of everything: every phase, pins, waits, probes, dues, ends."""
    tiers = [ScriptedTier("whole", policy=StorePolicy.WHOLE_REQUEST), ScriptedTier("plain")]
    rig = Rig(slots=24, tiers=tiers, cascade_share=0.15, lease=100.0)
    one, two, three = rig.request("one"), rig.request("two"), rig.request("three", "plain")
    rig.store(one, "old1", "old2")
    rig.manager.prepare_load(["old1"], one)
    rig.manager.reset_cache()
    rig.manager.on_reset_flushed()
    rig.promote(one, "landed")
    rig.tier.has("loading", "queued", "overdue")
    rig.lookup(two, "overdue")
    rig.step()
    rig.begin_store(two, "overdue store")
    rig.step()
    rig.now = 30.0
    rig.lookup(two, "loading")
    rig.step()
    rig.store(one, "stored", "shared", "due")
    rig.manager.prepare_load(["stored"], one)
    rig.begin_store(two, "storing")
    rig.begin_store(three, "storing")
    tiers[1].claims["undecided"] = Claim.UNDECIDED
    rig.lookup(one, "queued", "undecided", "shared")
    rig.lookup(three, "queued", "shared", "storing")
    rig.manager.on_request_finished(three)
    rig.manager.on_request_finished(rig.request("gone"))
    rig.probe.check()
    return rig


def test_the_probe_sees_every_fact():
    rig = busy()
    probe = rig.probe
    assert probe.resident_keys() >= {"landed", "stored", "shared", "due"}
    keys = ("queued", "loading", "storing", "overdue", "overdue store", "stored", "absent")
    assert [probe.phase(key) for key in keys] == [
        "QUEUED",
        "LOADING",
        "STORING",
        "OVERDUE_LOADING",
        "OVERDUE_STORING",
        "RESIDENT",
        "ABSENT",
    ]
    assert probe.slot_of("absent") is None
    assert (probe.pins("absent"), probe.waiters("absent")) == (0, set())
    assert probe.slot_of("stored") not in probe.quarantined()
    assert len(probe.quarantined()) == 2
    jobs = sum(len(tier.running) for tier in rig.tiers)
    assert probe.work_in_flight() == jobs + 4, "two loads to the GPU, two stores of a block"
    assert probe.retracted() == set()


def test_equal_histories_have_equal_fingerprints_and_different_ones_have_not():
    assert busy().probe.fingerprint() == busy().probe.fingerprint()
    rig = busy()
    before = rig.probe.fingerprint()
    assert rig.probe.fingerprint() == before
    rig.manager.lookup("queued", rig.request("new"))
    assert rig.probe.fingerprint() != before


def test_a_fingerprint_does_not_know_ids_or_the_hour():
    def scene(start: float, requests: int) -> object:
        rig = Rig(slots=4)
        rig.now = start
        for _ in range(requests):
            rig.manager.on_request_finished(rig.request("before"))
            rig.step()
        request = rig.request()
        rig.tier.has("k")
        rig.lookup(request, "k")
        rig.step()
        return rig.probe.fingerprint()

    assert scene(0.0, 0) == scene(1000.0, 5)


Damage = Callable[[Rig], object]


def _lose_slot(rig: Rig) -> None:
    rig.manager._primary._returned.clear()
    rig.manager._primary._fresh = 24


def _double_slot(rig: Rig) -> None:
    blocks = rig.manager._primary.blocks
    blocks["stored"].slot = blocks["shared"].slot


def _wait_unknown(rig: Rig) -> None:
    (request,) = (r for r in rig.manager._requests.live.values() if r.request_id == "one")
    request.waits.clear()


def _lose_request_count(rig: Rig) -> None:
    next(iter(rig.manager._requests.live.values())).parked += 1


def _forget_request_store(rig: Rig) -> None:
    (request,) = (r for r in rig.manager._requests.live.values() if r.storing)
    request.storing -= 1


def _quarantine_too_many(rig: Rig) -> None:
    rig.manager._primary.quarantine.add(Block("nobody's", 999, Phase.LOADING))


def _permit_nobody(rig: Rig) -> None:
    rig.manager._primary.permitted.add(Block("forgotten", 0, Phase.RESIDENT))


def _damage_block(name: str, /, **fields: object) -> Damage:
    def damage(rig: Rig) -> None:
        for field, value in fields.items():
            setattr(rig.manager._primary.blocks[name], field, value)

    return damage


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda rig: setattr(rig.manager._primary, "free", 1), "free slots, counted 1"),
        (_lose_slot, "free slots, counted"),
        (_quarantine_too_many, "24 slots, but"),
        (_double_slot, "more than one of free, owned, quarantined"),
        (lambda rig: rig.manager._primary.blocks.pop("stored"), "24 slots, but"),
        (_damage_block("stored", key="other"), "the block of 'stored' says it is 'other'"),
        (_damage_block("stored", key="zeta"), "the block of 'stored' says it is 'zeta'"),
        (lambda rig: setattr(rig.manager._primary, "evictable", 99), "evictable blocks, counted"),
        (lambda rig: setattr(rig.manager._primary, "evictable", -1), "evictable blocks, counted"),
        (_damage_block("stored", pins=5), "has 5 pins, read by 1 transfer"),
        (lambda rig: rig.manager._primary.sending.clear(), "berths differ"),
        (lambda rig: rig.manager._requests.queued.clear(), "is QUEUED and not queued"),
        (_damage_block("queued", phase=Phase.LOADING), "'queued' is LOADING and queued"),
        (_damage_block("loading", phase=Phase.RESIDENT), "is RESIDENT and being written"),
        (_damage_block("loading", writer=None), "its writer is not what is in flight"),
        (lambda rig: rig.manager._transfers.reads.clear(), r"has \d pins?, read by \d transfers?"),
        (
            lambda rig: next(iter(rig.manager._primary.quarantine)).__setattr__("pins", 0),
            "has 0 pins",
        ),
        (_permit_nobody, "of blocks that are no more"),
        (lambda rig: setattr(rig.manager._primary, "permits", 1), r"\d of 1 permits"),
        (
            lambda rig: setattr(rig.manager._primary, "berths", 0),
            "slots in cascades, allowed are 0",
        ),
        (_damage_block("loading", waits={}), "empty waits"),
        (_wait_unknown, "without knowing it"),
        (lambda rig: setattr(rig.manager._requests, "waiting", 0), "waits, counted 0"),
        (lambda rig: setattr(rig.manager._requests, "waiting", 99), "waits, counted 99"),
        (lambda rig: setattr(rig.manager._undecided, "count", 0), "undecided probes, counted 0"),
        (lambda rig: setattr(rig.manager._undecided, "count", 9), "undecided probes, counted 9"),
        (_lose_request_count, "parked offers, there are"),
        (_forget_request_store, "parked offers, there are"),
    ],
)
def test_what_does_not_add_up_is_told_in_words(damage: Damage, words: str):
    rig = busy()
    damage(rig)
    with pytest.raises(AssertionError, match=words):
        rig.probe.check()


def test_a_pinned_block_that_is_not_resident_is_told():
    rig = busy()
    rig.manager._primary.blocks["stored"].phase = Phase.LOADING
    rig.manager._primary.evictable = sum(
        b.phase is Phase.RESIDENT and b.loose for b in rig.manager._primary.blocks.values()
    )
    with pytest.raises(AssertionError, match="'stored' is pinned but LOADING"):
        rig.probe.check()


def test_a_permit_in_the_wrong_place_is_told():
    rig = busy()
    primary = rig.manager._primary
    due, landed, loading = (primary.blocks[key] for key in ("due", "landed", "loading"))
    primary.permitted -= {landed}
    primary.permitted |= {due}
    with pytest.raises(AssertionError, match="'landed' is promised without a permit"):
        rig.probe.check()
    primary.permitted ^= {landed, loading}
    with pytest.raises(AssertionError, match="'loading' is promoted without a permit"):
        rig.probe.check()
    primary.permitted |= {loading}
    with pytest.raises(AssertionError, match="'due' holds a permit for nobody"):
        rig.probe.check()


def test_a_writer_that_nothing_is_in_flight_for_is_told():
    rig = busy()
    block = rig.manager._primary.blocks["loading"]
    (load,) = (j for j in rig.manager._secondaries[0].loads.values() if "loading" in j.blocks)
    del load.blocks["loading"]
    block.writer = None
    with pytest.raises(AssertionError, match="'loading' is LOADING and not being written"):
        rig.probe.check()


def test_a_slot_that_nothing_will_free_is_told():
    rig = busy()
    primary = rig.manager._primary
    block = primary.blocks.pop("due")
    primary.evictable -= not block.pins
    primary.quarantine.add(block)
    for secondary in rig.manager._secondaries:
        secondary.due.pop(block, None)
    with pytest.raises(AssertionError, match="under no transfer that will report"):
        rig.probe.check()


def test_an_end_that_still_waits_for_something_is_told():
    rig = busy()
    (ended,) = (r for r in rig.manager._requests.ends if r.request_id == "gone")
    ended.home = rig.manager._requests
    with pytest.raises(AssertionError, match="has finished and still waits"):
        rig.probe.check()


def test_a_cascade_that_is_due_for_a_block_that_is_gone_is_told():
    rig = busy()
    secondary = rig.manager._secondaries[0]
    block = next(iter(secondary.due))
    rig.manager._primary.blocks[block.key].phase = Phase.RESIDENT
    secondary.due[rig.manager._primary.blocks["loading"]] = secondary.due[block]
    with pytest.raises(AssertionError, match="is due, which is not resident"):
        rig.probe.check()


def test_a_promise_of_an_old_epoch_is_none():
    rig = Rig()
    request = rig.request()
    rig.store(request, "a")
    rig.lookup(request, "a")
    before = rig.probe.fingerprint()
    rig.manager._primary.epoch = Epoch()
    assert rig.probe.fingerprint() != before
