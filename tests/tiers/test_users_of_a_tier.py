"""Users who share a tier: tenants, adapters, models and layouts never meet, in none of them."""

from __future__ import annotations

import importlib
import itertools
import os
import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tierproof.impl.keys import BlockKey, Namespace
from tierproof.impl.manager import TieredOffloadingManager
from tierproof.impl.tiers.base import Claim
from tierproof.impl.tiers.files import FileTier
from tierproof.impl.tiers.memory import MemoryTier
from tierproof.impl.tiers.object_store import ObjectStoreTier
from tierproof.impl.tiers.redis import RedisTier
from tierproof.impl.tiers.slab import SlabTier
from tierproof.properties.servers import RedisServer, SeaweedServer
from tierproof.properties.tier_rig import TierRig, payload

SIZE = 4096
BASE = Namespace(model="m", dtype="bf16", block_size=16, layout="NHD")
HOSTILE = ("..", "../../../etc/passwd", "/", "/tmp/x", "@", "a\0b", "*", "x" * 300, ":", "\r\nGET")
USERS = (
    BASE,
    BASE.for_user(salt="one"),
    BASE.for_user(adapter="one"),
    BASE.for_user(salt="one", adapter="one"),
    Namespace(model="m", dtype="bf16", block_size=16, layout="HND"),
    Namespace(model="n", dtype="bf16", block_size=16, layout="NHD"),
    *(BASE.for_user(salt=text) for text in HOSTILE),
    *(BASE.for_user(adapter=text) for text in HOSTILE),
)


def memory(root: Path, redis: RedisServer, seaweed: SeaweedServer) -> Any:
    return MemoryTier()


def files(root: Path, redis: RedisServer, seaweed: SeaweedServer) -> Any:
    return FileTier(root / "cache")


def slab(root: Path, redis: RedisServer, seaweed: SeaweedServer) -> Any:
    return SlabTier(root / "cache", capacity_bytes=1 << 20)


def redis_server(root: Path, redis: RedisServer, seaweed: SeaweedServer) -> Any:
    return RedisTier(redis.url, namespace=f"users {root}")


def bucket(root: Path, redis: RedisServer, seaweed: SeaweedServer) -> Any:
    return ObjectStoreTier(seaweed.store(10.0), namespace=f"users {root}", timeout=10.0)


def bucket_in_memory(root: Path, redis: RedisServer, seaweed: SeaweedServer) -> Any:
    return ObjectStoreTier(importlib.import_module("obstore.store").MemoryStore())


Make = Callable[[Path, RedisServer, SeaweedServer], Any]
TIERS: tuple[Make, ...] = (memory, files, slab, redis_server, bucket)


def keys_of(block_hash: bytes) -> list[BlockKey]:
    """The same tokens, as each of the users names them."""
    return [BlockKey(block_hash, namespace=user.digest()) for user in USERS]


@pytest.mark.parametrize("make", TIERS)
def test_d2_users_with_the_same_tokens_have_blocks_of_their_own(
    make: Make, tmp_path: Path, redis: RedisServer, seaweed: SeaweedServer
) -> None:
    rig = TierRig(make(tmp_path, redis, seaweed), slots=len(USERS), block_bytes=SIZE)
    keys = keys_of(b"the same tokens")
    half = keys[::2]
    assert rig.store(*half) == set(half)
    for key in keys:
        claimed = rig.decide(key) is Claim.PRESENT
        assert claimed == (key in half), "a user is told of another's block"
    assert rig.load(*keys) == set(half), "a user was served another's block"
    others = [key for key in keys if key not in half]
    assert rig.store(*others) == set(others)
    assert rig.load(*keys) == set(keys)  # compares every byte with the user's own
    rig.close()


@pytest.mark.parametrize("make", TIERS[1:3])
def test_no_salt_and_no_adapter_can_name_a_file_outside_the_root(
    make: Make, tmp_path: Path, redis: RedisServer, seaweed: SeaweedServer
) -> None:
    before = set(tmp_path.iterdir())
    rig = TierRig(make(tmp_path, redis, seaweed), slots=len(USERS), block_bytes=SIZE)
    assert len(rig.store(*keys_of(b"t"))) == len(USERS)
    rig.close()
    assert set(tmp_path.iterdir()) - before == {tmp_path / "cache"}
    names = [
        name for _, folders, found in os.walk(tmp_path / "cache") for name in (*folders, *found)
    ]
    assert names
    for name, text in itertools.product(names, HOSTILE):
        assert text not in name, f"{name} holds what a user wrote"
    assert max(map(len, names)) < 100


@pytest.mark.parametrize("make", TIERS)
def test_d2_a_manager_answers_miss_for_what_only_another_user_has(
    make: Make, tmp_path: Path, redis: RedisServer, seaweed: SeaweedServer
) -> None:
    manager: Any = TieredOffloadingManager(
        slots=4, block_bytes=SIZE, tiers=[make(tmp_path, redis, seaweed)]
    )
    mine, *others = keys_of(b"the same tokens")
    try:
        with manager.lock:
            request = manager.on_new_request("mine")
            for key in (
                mine,
                *(BlockKey(b"%d" % n) for n in range(4)),
            ):  # the last ones push it out
                stored = room_for(manager, key, request)
                manager.arena.row(stored.slots[0])[:] = payload(key, SIZE)
                manager.complete_store(stored)
                manager.on_schedule_end()
            for key in others:
                assert decided(manager, key, request) == "MISS"
            assert decided(manager, mine, request) == "HIT"
            manager.on_request_finished(request)
    finally:
        manager.shutdown()


def room_for(manager: Any, key: Any, request: Any) -> Any:
    """The store of a key, as soon as there is room."""
    ends = time.monotonic() + 10
    while (stored := manager.prepare_store([key], request)) is None:
        assert time.monotonic() < ends, "never any room"
        manager.on_schedule_end()
        time.sleep(0.001)
    return stored


def decided(manager: Any, key: Any, request: Any) -> str:
    """The answer after RETRY and HIT_PENDING."""
    ends = time.monotonic() + 10
    while (answer := manager.lookup(key, request).name) in ("RETRY", "HIT_PENDING"):
        assert time.monotonic() < ends, f"{answer} for ever"
        manager.on_schedule_end()
        time.sleep(0.001)
    return str(answer)


# --- B41 where the tests of a manager have no real tier ---


@pytest.mark.parametrize("make", [memory, bucket_in_memory])
def test_b41_every_hit_of_many_sessions_carries_its_own_keys_bytes(
    make: Make, tmp_path: Path
) -> None:
    nobody: Any = None
    manager: Any = TieredOffloadingManager(
        slots=10, block_bytes=SIZE, tiers=[make(tmp_path, nobody, nobody)]
    )
    rng, hits = random.Random(41), 0
    try:
        with manager.lock:
            for number in range(400):
                request = manager.on_new_request(f"session {number % 20}")
                for key in rng.sample([b"tag %d" % n for n in range(30)], 3):
                    if decided(manager, key, request) == "HIT":
                        load = manager.prepare_load([key], request)
                        row = manager.arena.row(load.slots[0])
                        assert row == payload(key, SIZE), "a HIT with another session's bytes"
                        manager.complete_load(load)
                        hits += 1
                        continue
                    stored = manager.prepare_store([key], request)
                    if stored is not None:
                        manager.arena.row(stored.slots[0])[:] = payload(key, SIZE)
                        manager.complete_store(stored)
                manager.on_request_finished(request)
                manager.on_schedule_end()
    finally:
        manager.shutdown()
    assert hits > 400, "hardly anything was ever found again"
