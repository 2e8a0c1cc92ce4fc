"""Tiers under a whole manager: other sessions' bytes (B41), sharing between hosts, full disks."""

from __future__ import annotations

import errno
import importlib
import random
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tierproof.impl.keys import BlockKey, Namespace
from tierproof.impl.manager import TieredOffloadingManager
from tierproof.impl.tiers.base import Claim
from tierproof.impl.tiers.block_file import file_bytes
from tierproof.impl.tiers.files import FileTier
from tierproof.impl.tiers.object_store import ObjectStoreTier
from tierproof.impl.tiers.redis import RedisTier
from tierproof.impl.tiers.slab import SlabTier
from tierproof.properties import tier_factories
from tierproof.properties.servers import RedisServer, SeaweedServer
from tierproof.properties.tier_rig import TierRig, payload
from tierproof.properties.tier_writer import Writer, key_of

from .support import Faults, block_files, failing, leftovers

SIZE = 16384
KEYS = 30


@contextmanager
def manager_over(tier: Any, slots: int = 10) -> Iterator[Any]:
    manager = TieredOffloadingManager(slots=slots, block_bytes=SIZE, tiers=[tier])
    try:
        yield manager
    finally:
        manager.shutdown()


def serve(manager: Any, keys: list[Any], request: Any, arena: Any) -> set[Any]:
    """Look up, wait for what is on its way, read, recompute the rest; the keys that were read."""
    read = set()
    ends = time.monotonic() + 10
    waiting = list(keys)
    while waiting and time.monotonic() < ends:
        answers = {key: manager.lookup(key, request).name for key in waiting}
        hits = [key for key, answer in answers.items() if answer == "HIT"]
        if hits:
            operation = manager.prepare_load(hits, request)
            for key, slot in zip(operation.keys, operation.slots, strict=True):
                assert arena.row(slot) == payload(key, SIZE), "a HIT with another session's bytes"
                read.add(key)
            manager.complete_load(operation)
        missing = [key for key, answer in answers.items() if answer == "MISS"]
        stored = manager.prepare_store(missing, request) if missing else None
        if stored is not None:
            for key, slot in zip(stored.keys, stored.slots, strict=True):
                arena.row(slot)[:] = payload(key, SIZE)
            manager.complete_store(stored)
        manager.on_schedule_end()
        waiting = [key for key, answer in answers.items() if answer in ("RETRY", "HIT_PENDING")]
        time.sleep(0.0002)
    assert not waiting, "a lookup that never settles"
    return read


def b41(tier: Any, operations: int) -> None:
    rng = random.Random(41)
    with manager_over(tier) as manager:
        arena = manager.arena
        read = 0
        for number in range(operations):
            with manager.lock:
                request = manager.on_new_request(f"session {number % 20}")
                chosen = rng.sample([b"tag %d" % n for n in range(KEYS)], 3)
                read += len(serve(manager, chosen, request, arena))
                manager.on_request_finished(request)
                manager.on_schedule_end()
        assert read > operations, "hardly anything was ever found again"


@pytest.mark.parametrize("layout", ["files", "slab"])
def test_b41_every_hit_carries_its_own_keys_bytes(tmp_path: Path, layout: str) -> None:
    make = getattr(tier_factories, layout)
    b41(make(block_bytes=SIZE, root=tmp_path, namespace="b41"), 700)


def test_b41_every_hit_carries_its_own_keys_bytes_redis(redis: RedisServer, tmp_path: Path) -> None:
    b41(tier_factories.redis(url=redis.url, block_bytes=SIZE, root=tmp_path, namespace="b41"), 300)


# --- several hosts, one cache ---


def another_host_is_served(make: Callable[..., Any], root: Path) -> None:
    # The first host is a process of its own; a kit's writer stands for it, as it must be picklable.
    with Writer(make, block_bytes=SIZE, root=root, namespace="hosts", rounds=6) as host:
        host.listen()
        assert host.said == ""
        stored = [key_of(number) for number in sorted(set(host.landed))][:8]
    tier = make(block_bytes=SIZE, root=root, namespace="hosts")
    with manager_over(tier) as manager, manager.lock:
        request = manager.on_new_request("r")
        read = set()
        for start in range(0, len(stored), 4):
            read |= serve(manager, stored[start : start + 4], request, manager.arena)
        assert read == set(stored), "a host's manager was not served what another has stored"


@pytest.mark.parametrize("layout", ["files", "slab"])
def test_a_manager_is_served_what_another_process_has_stored(tmp_path: Path, layout: str) -> None:
    another_host_is_served(getattr(tier_factories, layout), tmp_path)


def test_a_manager_is_served_what_another_host_has_stored_in_redis(
    redis: RedisServer, tmp_path: Path
) -> None:
    another_host_is_served(partial(tier_factories.redis, url=redis.url), tmp_path)


def test_a_manager_is_served_what_another_host_has_stored_in_a_bucket(
    seaweed: SeaweedServer, tmp_path: Path
) -> None:
    access = {"access_key": seaweed.access_key, "secret_key": seaweed.secret_key}
    make: Any = partial(tier_factories.s3, bucket=seaweed.bucket, endpoint=seaweed.endpoint)
    another_host_is_served(partial(make, **access), tmp_path)


# --- B52, B53: what a name must carry ---


def the_fields(make: Callable[..., Any]) -> None:
    """Store under one configuration; every other one misses, an equal one hits."""
    base = Namespace(model="m", dtype="bf16", block_size=16, layout="NHD", salt="s1")
    others = {
        "model": "n",
        "revision": "r2",
        "dtype": "fp8",
        "block_size": 32,
        "layout": "HND",
        "tensor_parallel": 2,
        "group": "mamba",
        "runner": "v2",
        "salt": None,
        "adapter": "s1",
    }
    hostile = [base.for_user(salt=salt) for salt in ("s2", "../..", "@", "/", "x" * 300)]
    spaces = [msgspec.structs.replace(base, **{f: v}) for f, v in others.items()]
    key = BlockKey(b"the same tokens")
    rig = TierRig(make(base))
    assert rig.store(key) == {key}
    rig.close()
    for space in (*spaces, *hostile):
        rig = TierRig(make(space))
        assert rig.decide(key) is Claim.ABSENT, space
        assert rig.load(key) == frozenset()
        rig.close()
    rig = TierRig(make(msgspec.structs.replace(base)))
    assert rig.decide(key) is Claim.PRESENT
    assert rig.load(key) == {key}
    rig.close()


def test_b52_b53_every_field_of_a_namespace_counts_in_every_tier(
    tmp_path: Path, redis: RedisServer
) -> None:
    bucket = importlib.import_module("obstore.store").MemoryStore()
    for make in (
        lambda space: FileTier(tmp_path / "files", namespace=space),
        lambda space: SlabTier(tmp_path / "slab", namespace=space, capacity_bytes=100_000),
        lambda space: RedisTier(redis.url, namespace=space),
        lambda space: ObjectStoreTier(bucket, namespace=space),
    ):
        the_fields(make)
    assert {path.name for path in tmp_path.iterdir()} == {"files", "slab"}


# --- B47 on a real disk ---


def test_b47_a_real_full_disk_fails_stores_and_nothing_else(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(disk)], capture_output=True
    )
    if mounted.returncode:
        pytest.skip("this machine lets nobody mount a tmpfs")
    try:
        rig = TierRig(FileTier(disk / "cache", threads=2), block_bytes=SIZE)
        keys = [b"%d" % n for n in range(16)]
        landed = rig.store(*keys)
        assert 5 < len(landed) < 16, "the disk is not full"
        assert rig.load(*keys) == landed, "reads go on"
        assert len(block_files(disk)) == len(landed)
        assert leftovers(disk) == [], "a failed store left its temporary"
        assert rig.decide(next(k for k in keys if k not in landed)) is Claim.ABSENT
        for path in block_files(disk)[:4]:
            path.unlink()
        late = [key for key in keys if key not in landed][:2]
        assert rig.store(*late) == set(late), "space has returned"
        rig.close()
    finally:
        subprocess.run(["umount", str(disk)], check=True)


def test_b47_a_capacity_keeps_the_disk_from_being_full(tmp_path: Path) -> None:
    with (
        manager_over(FileTier(tmp_path, capacity_bytes=3 * file_bytes(SIZE), threads=2)) as manager,
        manager.lock,
    ):
        for n in range(20):
            request = manager.on_new_request(f"{n}")
            serve(manager, [b"a%d" % n, b"b%d" % n], request, manager.arena)
            manager.on_request_finished(request)
            manager.on_schedule_end()
            assert len(block_files(tmp_path)) <= 3


def test_b47_no_space_leaves_the_primary_copy_a_hit(tmp_path: Path) -> None:
    io = Faults()
    with manager_over(FileTier(tmp_path, io=io)) as manager, manager.lock:
        io.faults["pwritev"] = failing(errno.ENOSPC)
        request = manager.on_new_request("r")
        keys = [b"tag %d" % n for n in range(5)]
        serve(manager, keys, request, manager.arena)
        for _ in range(50):
            manager.on_schedule_end()
            time.sleep(0.001)
        assert serve(manager, keys, request, manager.arena) == set(keys)
        assert block_files(tmp_path) == leftovers(tmp_path) == []
        io.faults.clear()
        other = [b"later %d" % n for n in range(3)]
        serve(manager, other, request, manager.arena)
        ends = time.monotonic() + 10
        while len(block_files(tmp_path)) < 3 and time.monotonic() < ends:
            manager.on_schedule_end()
            time.sleep(0.001)
        assert len(block_files(tmp_path)) >= 3
