"""The memory tier: the same contract, small enough to read first."""

from __future__ import annotations

import random

import pytest

from tierproof.impl.arena import Arena
from tierproof.impl.errors import ConfigError
from tierproof.impl.keys import BlockKey
from tierproof.impl.tiers.base import NO_REQUEST, Claim, LoadJob, StoreJob, StorePolicy, Tier
from tierproof.impl.tiers.memory import MemoryTier

from .support import Rig, payload

KEYS = ["k1", b"k2", 3, ("any", "hashable"), BlockKey(b"k5")]


def test_it_is_a_tier_that_keeps_any_hashable_key() -> None:
    rig = Rig(MemoryTier("ram"))
    assert isinstance(rig.tier, Tier)
    assert rig.tier.name == "ram"
    assert rig.tier.on_new_request(NO_REQUEST) is StorePolicy.NEW_BLOCKS
    assert rig.ask(KEYS[0]) is Claim.ABSENT
    assert rig.store(*KEYS) == rig.load(*KEYS) == frozenset(KEYS)
    assert [rig.ask(key) for key in KEYS] == [Claim.PRESENT] * 5
    assert len(rig.tier) == 5
    rig.tier.on_request_finished(NO_REQUEST)


def test_t2_each_job_is_reported_once_and_drain_leaves_none() -> None:
    rig = Rig(MemoryTier())
    job = rig.begin_store(KEYS)
    assert list(rig.tier.drain(0.0)) == []
    assert rig.report(job).landed == frozenset(KEYS)
    rig.poll()
    assert list(rig.reports) == [job]


def test_t3_a_key_that_has_gone_is_a_failed_key_and_the_others_land() -> None:
    rig = Rig(MemoryTier())
    rig.store(KEYS[0])
    assert rig.load(KEYS[0], "gone") == {KEYS[0]}
    rig.tier.clear()
    assert rig.load(KEYS[0]) == frozenset()
    assert rig.ask(KEYS[0]) is Claim.ABSENT


def test_t6_a_row_that_changes_after_the_report_changes_nothing() -> None:
    rig = Rig(MemoryTier())
    rig.store(KEYS[0])
    rig.arena.row(0)[:] = b"x" * rig.block_bytes
    assert rig.load(KEYS[0]) == {KEYS[0]}


def test_t7_it_keeps_at_most_its_capacity_and_drops_the_least_recent() -> None:
    rig = Rig(MemoryTier(capacity_blocks=2))
    rig.store("a")
    rig.store("b")
    rig.load("a")
    rig.store("c")
    assert [rig.ask(key) for key in "abc"] == [Claim.PRESENT, Claim.ABSENT, Claim.PRESENT]
    assert len(rig.tier) == 2


@pytest.mark.parametrize("capacity", [0, -1, True, "2"])
def test_a_capacity_that_is_no_number_of_blocks_is_refused(capacity: object) -> None:
    with pytest.raises(ConfigError, match="capacity_blocks"):
        MemoryTier(capacity_blocks=capacity)  # type: ignore[arg-type]


def test_without_an_arena_and_after_shutdown_no_memory_is_touched() -> None:
    tier = MemoryTier()
    for call in (
        lambda: tier.submit_load(LoadJob(1, ("k",), (0,))),
        lambda: tier.submit_store(StoreJob(1, ("k",), (0,))),
    ):
        with pytest.raises(ConfigError, match="no arena"):
            call()
    rig = Rig(tier)
    rig.store("k")
    rig.close()
    rig.tier.shutdown()
    with pytest.raises(ConfigError, match="no arena"):
        rig.begin_load(["k"])


def test_another_manager_may_take_its_blocks() -> None:
    rig = Rig(MemoryTier())
    rig.store(*KEYS)
    rig.close()
    assert Rig(rig.tier).load(*KEYS) == frozenset(KEYS)


def test_b41_every_hit_carries_its_own_key() -> None:
    rng = random.Random(41)
    rig = Rig(MemoryTier(capacity_blocks=12), slots=7, block_bytes=128)
    keys = [b"session %d" % number for number in range(20)]
    loads = 0
    for _ in range(10_000):
        key = rng.choice(keys)
        if rng.random() < 0.5:
            rig.store(key)
        elif rig.ask(key) is Claim.PRESENT:
            loads += len(rig.load(key))
    assert loads > 1_000
    assert payload(keys[0], 128) != payload(keys[1], 128)
    assert isinstance(rig.arena, Arena)


def test_a_block_is_found_from_its_report_on_and_a_clear_before_it_fails_the_store() -> None:
    rig = Rig(MemoryTier())
    job = rig.begin_store(["k"])
    assert rig.ask("k") is Claim.ABSENT, "not reported yet"
    rig.tier.clear()
    assert rig.report(job).landed == frozenset()
    assert rig.ask("k") is Claim.ABSENT
    assert rig.store("k") == {"k"}
    assert rig.ask("k") is Claim.PRESENT
