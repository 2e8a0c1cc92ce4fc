"""Whose bytes come back, under which names: `D1`, `D2`, `T3`, `T10`; B41, B52, B53."""

from __future__ import annotations

import errno
import os
import random
import stat
from contextlib import suppress
from pathlib import Path

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tierproof.impl.errors import ConfigError
from tierproof.impl.keys import BlockKey, Namespace
from tierproof.impl.tiers.base import NO_REQUEST, Claim, StorePolicy, Tier
from tierproof.impl.tiers.block_file import file_bytes
from tierproof.impl.tiers.files import FileTier

from .support import (
    Faults,
    Rig,
    block_files,
    file_rig,
    leftovers,
)

KEYS = [b"k%d" % number for number in range(1, 6)]


# --- D1, B41: bytes ---


def test_b41_every_hit_carries_its_own_key_over_ten_thousand_operations(tmp_path: Path) -> None:
    rng = random.Random(41)
    keys = [BlockKey(b"session %d" % number, number % 2) for number in range(20)]
    size = file_bytes(512)
    with file_rig(tmp_path, slots=7, block_bytes=512, capacity_bytes=12 * size) as rig:
        loads = 0
        for _ in range(10_000):
            action = rng.random()
            key = rng.choice(keys)
            if action < 0.80:
                if rig.ask(key) is Claim.PRESENT and action < 0.1:
                    loads += len(rig.load(key))
            elif action < 0.88:
                rig.store(*rng.sample(keys, rng.randint(1, 3)))
            elif action < 0.9:
                loads += len(rig.load(*rng.sample(keys, 7)))
            else:
                rig.poll()
    assert loads > 500


operations = st.lists(
    st.tuples(
        st.sampled_from(["store", "load", "clear", "restart", "flip", "cut", "remove"]),
        st.lists(st.integers(0, 5), min_size=1, max_size=3, unique=True),
        st.integers(0, 10_000),
    ),
    max_size=25,
)


def harm(how: str, path: Path, where: int) -> None:
    data = bytearray(path.read_bytes())
    if how == "remove":
        path.unlink()
        return
    if how == "cut":
        data = data[: where % len(data)] if data else data
    elif data:
        data[where % len(data)] ^= 1 + where % 255
    # At once, because a listing may run: what grows in place after it was counted is not counted.
    path.with_name("harm").write_bytes(data)
    path.with_name("harm").rename(path)


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(operations=operations, capacity=st.none() | st.integers(1, 6))
def test_d1_t3_whatever_happens_to_the_files_a_landed_key_has_its_bytes(
    tmp_path_factory: pytest.TempPathFactory,
    operations: list[tuple[str, list[int], int]],
    capacity: int | None,
) -> None:
    root = tmp_path_factory.mktemp("tier")
    bytes_ = None if capacity is None else capacity * file_bytes(200)
    rig = Rig(FileTier(root, capacity_bytes=bytes_), slots=3, block_bytes=200)
    keys = [BlockKey(b"%d" % number) for number in range(6)]
    stored: set[BlockKey] = set()
    try:
        for name, numbers, where in operations:
            chosen = [keys[number] for number in numbers]
            if name == "store":
                landed = rig.store(*chosen)
                assert capacity is not None or landed == set(chosen)
                stored |= {key for key in chosen if key in landed}
                limit = capacity or 6
                assert len(block_files(root)) <= limit
            elif name == "load":
                assert rig.load(*chosen) <= stored  # and rig.load has compared the bytes
            elif name == "clear":
                rig.tier.clear()
                stored = set()
            elif name == "restart":
                rig.close()
                rig = Rig(FileTier(root, capacity_bytes=bytes_), slots=3, block_bytes=200)
            elif files := block_files(root):
                with suppress(FileNotFoundError):  # a clear goes on in the background
                    harm(name, files[where % len(files)], where)
    finally:
        rig.close()
    assert leftovers(root) == []


# --- requests, configuration, layout ---


def test_it_is_a_tier_and_wants_new_blocks_only(tmp_path: Path) -> None:
    with file_rig(tmp_path, name="disk") as rig:
        assert isinstance(rig.tier, Tier)
        assert rig.tier.name == "disk"
        assert rig.tier.on_new_request(NO_REQUEST) is StorePolicy.NEW_BLOCKS


def test_files_are_0600_in_folders_of_0700_whatever_the_salt_contains(tmp_path: Path) -> None:
    root = tmp_path / "deep" / "cache"
    salt = "../../@/" + "x" * 300
    space = Namespace(
        model="m", dtype="fp8", block_size=16, layout="NHD", salt=salt, adapter="../../etc"
    )
    with file_rig(root, namespace=space) as rig:
        keys = [BlockKey(b"h", namespace=space.digest()), salt, salt.encode(), "/etc/passwd", ""]
        rig.store(*keys)
        assert rig.load(*keys) == set(keys)
        assert len(block_files(root)) == 5
    for path in [root, *root.rglob("*")]:
        mode = stat.S_IMODE(path.stat().st_mode)
        assert mode == (0o700 if path.is_dir() else 0o600), f"{path}: {mode:o}"
    assert {path.name for path in tmp_path.iterdir()} == {"deep"}
    assert {path.name for path in (tmp_path / "deep").iterdir()} == {"cache"}


def test_b53_tenants_in_one_tier_never_meet(tmp_path: Path) -> None:
    base = Namespace(model="m", dtype="bf16", block_size=16, layout="NHD")
    one, two, none, empty = (
        BlockKey(b"tokens", namespace=base.for_user(salt=salt).digest())
        for salt in ("s1", "s2", None, "")
    )
    with file_rig(tmp_path) as rig:
        rig.store(one)
        assert [rig.decide(key) for key in (one, two, none)] == [
            Claim.PRESENT,
            Claim.ABSENT,
            Claim.ABSENT,
        ]
        rig.store(none)
        assert rig.decide(empty) is Claim.PRESENT, "an empty salt is no salt"


@pytest.mark.parametrize(
    "field",
    ["model", "revision", "dtype", "block_size", "layout", "tensor_parallel", "group", "runner"],
)
def test_b52_a_restart_with_another_field_misses_and_leaves_the_old_files(
    tmp_path: Path, field: str
) -> None:
    space = Namespace(model="m", dtype="bf16", block_size=16, layout="NHD")
    other = msgspec.structs.replace(space, **{field: 32 if field in COUNTS else "other"})
    with file_rig(tmp_path, namespace=space) as rig:
        rig.store(*KEYS)
        before = [path.read_bytes() for path in block_files(tmp_path)]
    with file_rig(tmp_path, namespace=other) as rig:
        assert [rig.decide(key) for key in KEYS] == [Claim.ABSENT] * 5
        assert rig.load(*KEYS) == frozenset()
        assert [path.read_bytes() for path in block_files(tmp_path)] == before
    with file_rig(tmp_path, namespace=space) as rig:
        assert [rig.decide(key) for key in KEYS] == [Claim.PRESENT] * 5
        assert rig.load(*KEYS) == set(KEYS)


COUNTS = ("block_size", "tensor_parallel")


def test_b52_another_size_of_blocks_is_another_namespace(tmp_path: Path) -> None:
    with file_rig(tmp_path, block_bytes=4096) as rig:
        rig.store(*KEYS)
    with file_rig(tmp_path, block_bytes=8192) as rig:
        assert rig.decide(KEYS[0]) is Claim.ABSENT
        assert len(block_files(tmp_path)) == 5
        assert rig.store(KEYS[0]) == rig.load(KEYS[0]) == {KEYS[0]}


@pytest.mark.parametrize("block_bytes", [1, 64, 4095, 4096, 5000, 3 << 20])
def test_blocks_of_any_size_come_back(tmp_path: Path, block_bytes: int) -> None:
    with file_rig(tmp_path, block_bytes=block_bytes, slots=3) as rig:
        keys = [b"1", b"2"]
        assert rig.store(*keys) == rig.load(*keys) == set(keys)
    with file_rig(tmp_path, block_bytes=block_bytes, slots=3, direct=False) as rig:
        assert rig.load(*keys) == set(keys)


def test_direct_io_falls_back_where_it_is_refused(tmp_path: Path) -> None:
    def refuses(_: str, flags: int) -> None:
        if flags & os.O_DIRECT:
            raise OSError(errno.EINVAL, "Invalid argument")

    with file_rig(tmp_path, io=Faults(open=refuses)) as rig:
        assert not rig.tier.direct
        assert rig.store(*KEYS) == rig.load(*KEYS) == set(KEYS)
    io = Faults()
    with file_rig(tmp_path, io=io) as rig:
        io.faults["open"] = refuses  # later only: another mount below, an odd alignment
        assert rig.store(*KEYS, b"new") == rig.load(*KEYS, b"new") == {*KEYS, b"new"}
    with pytest.raises(ConfigError, match="direct=None"):
        FileTier(tmp_path, direct=True, io=Faults(open=refuses))
    with file_rig(tmp_path, direct=False) as rig:
        assert not rig.tier.direct
        assert rig.load(*KEYS) == set(KEYS)


def test_a_store_of_a_key_that_is_there_writes_nothing(tmp_path: Path) -> None:
    io = Faults()
    with file_rig(tmp_path, io=io) as rig:
        rig.store(*KEYS)
        before = [path.stat().st_ino for path in block_files(tmp_path)]
        io.calls.clear()
        assert rig.store(*KEYS) == set(KEYS)
        assert "pwritev" not in io.calls
        assert sorted(path.stat().st_ino for path in block_files(tmp_path)) == sorted(before)
        assert rig.tier.counters["already_stored"] == 5
