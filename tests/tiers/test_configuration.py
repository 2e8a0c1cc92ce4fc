"""Tiers from TOML or a dictionary: what is built, and what a mistake is told."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tierproof.impl.errors import ConfigError
from tierproof.impl.keys import Namespace
from tierproof.impl.tiers.configuration import KINDS, build_tiers, size_in_bytes
from tierproof.impl.tiers.files import FileTier
from tierproof.impl.tiers.memory import MemoryTier
from tierproof.impl.tiers.object_store import ObjectStoreTier
from tierproof.impl.tiers.redis import RedisTier
from tierproof.impl.tiers.slab import SlabTier
from tierproof.properties.tier_rig import TierRig

TOML = """
[namespace]
model = "m"
dtype = "bfloat16"
block_size = 16
layout = "NHD"
extra = { engine = "x" }

[[tiers]]
kind = "memory"
capacity_blocks = 10

[[tiers]]
kind = "file"
name = "disk"
root = "ROOT/files"
capacity = "64MiB"
io_deadline = "none"
direct = "auto"

[[tiers]]
kind = "slab"
root = "ROOT/slab"
capacity = 1048576
threads = 2

[[tiers]]
kind = "redis"
url = "redis://localhost:6379/0"
password_env = "CACHE_PASSWORD"
ttl_seconds = 3600

[[tiers]]
kind = "s3"
bucket = "kv"
endpoint = "http://localhost:1"
access_key_env = "KEY"
secret_key_env = "SECRET"
"""
SECRETS = {"CACHE_PASSWORD": "hunter2", "KEY": "k", "SECRET": "hunter3"}


def close(tiers: list[Any]) -> None:
    for tier in tiers:
        tier.shutdown()


def test_a_file_of_every_kind_of_tier(tmp_path: Path) -> None:
    path = tmp_path / "tiers.toml"
    path.write_text(TOML.replace("ROOT", str(tmp_path)))
    tiers = build_tiers(path, environment=SECRETS)
    assert [type(t) for t in tiers] == [MemoryTier, FileTier, SlabTier, RedisTier, ObjectStoreTier]
    assert [t.name for t in tiers] == ["memory", "disk", "slab", "redis", "s3"]
    namespace = Namespace(
        model="m", dtype="bfloat16", block_size=16, layout="NHD", extra=(("engine", "x"),)
    )
    assert tiers[1]._namespace == namespace.digest()  # type: ignore[attr-defined]
    assert tiers[3]._password == "hunter2"  # type: ignore[attr-defined]
    rig = TierRig(tiers[2], block_bytes=4096)
    assert rig.store(b"k") == rig.load(b"k") == {b"k"}
    close(tiers)


def test_two_builds_of_one_configuration_find_each_others_blocks(tmp_path: Path) -> None:
    config = {"namespace": "n", "tiers": [{"kind": "files", "root": str(tmp_path)}]}
    for key in (b"one", b"two"):
        (tier,) = build_tiers(config)
        rig = TierRig(tier)
        assert rig.store(key)
        assert rig.load(b"one") == {b"one"}
        rig.close()
    (tier,) = build_tiers({**config, "namespace": "m"})
    rig = TierRig(tier)
    assert rig.load(b"one") == frozenset()
    rig.close()


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ({}, r"tiers\[0\]: kind is missing; it must be one of memory, files, slab, s3, redis"),
        ({"kind": "disk"}, r"tiers\[0\]: kind must not be 'disk'; it must be one of memory"),
        ({"kind": "files"}, r"tiers\[0\] \(files\): root is missing; it must be a folder's path"),
        ({"kind": "slab", "root": "ROOT"}, r"capacity is missing; it must be bytes"),
        (
            {"kind": "files", "root": "ROOT", "treads": 3},
            r"unknown setting 'treads'; did you mean threads\? a tier of kind files has name,",
        ),
        (
            {"kind": "files", "root": "ROOT", "threads": "3"},
            r"threads must be a whole number of at least 1, not '3'",
        ),
        ({"kind": "files", "root": "ROOT", "threads": 0}, r"\(files\): threads must be .* 1"),
        ({"kind": "files", "root": "ROOT", "capacity": "1 GB"}, r"GiB or TiB\), not \'1 GB\'"),
        ({"kind": "files", "root": "ROOT", "direct": "yes"}, r'true, false or "auto", not \'yes\''),
        ({"kind": "files", "root": "ROOT", "io_deadline": "off"}, r'or "none", not \'off\''),
        ({"kind": "files", "root": "ROOT", "io_deadline": -1}, r"io_deadline must be above 0"),
        ({"kind": "memory", "capacity_blocks": 0}, r"capacity_blocks must be"),
        ({"kind": "redis", "url": "http://x"}, r"url must be redis://HOST:PORT/DB"),
        ({"kind": "redis"}, r"url is missing; it must be redis://"),
        ({"kind": "s3", "bucket": "b", "prefix": "../x"}, r"prefix must be letters"),
        ({"kind": "files", "root": "ROOT", "capacity": "-1GiB"}, r"capacity .* GiB or TiB\)"),
        ({"kind": "files", "root": "ROOT", "capacity": 0}, r"capacity must be bytes .*, not 0"),
        ({"kind": "files", "root": "ROOT", "threads": 10**9}, r"threads must be at most 1,024"),
        ({"kind": "redis", "url": "redis://x/cache"}, r"a number for DB"),
        ({"kind": "redis", "url": "redis://x:99999/0"}, r"url must be redis://HOST:PORT/DB"),
        ({"kind": "s3", "bucket": ""}, r"bucket must be a bucket's name"),
        ({"kind": "s3", "bucket": "s3://kv"}, r"without s3:// and without a path, not 's3://kv'"),
        ({"kind": "s3", "bucket": "kv", "endpoint": "localhost:1"}, r"endpoint must be http://"),
        ({"kind": "s3", "bucket": "kv", "endpoint": "ftp://x"}, r"endpoint must be http://HOST"),
        ({"kind": "s3", "bucket": "kv", "endpoint": "http://x:y"}, r"endpoint must be http://HOST"),
    ],
)
def test_a_mistake_names_the_setting_and_what_it_may_be(
    tmp_path: Path, table: dict[str, Any], said: str
) -> None:
    if "root" in table:
        table = {**table, "root": str(tmp_path)}
    with pytest.raises(ConfigError, match=said):
        build_tiers({"tiers": [table]})


@pytest.mark.parametrize("root", ["", " ", "~/cache", "~someone/cache"])
def test_a_root_that_would_be_a_folder_below_the_current_one_by_mistake_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, root: str
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match="root must be a folder's path, in full and without ~"):
        build_tiers({"tiers": [{"kind": "files", "root": root}]})
    assert list(tmp_path.iterdir()) == []


def test_a_user_of_an_object_store_without_a_secret_is_a_mistake_that_names_both() -> None:
    table = {"kind": "s3", "bucket": "kv", "endpoint": "http://x", "access_key_env": "KEY"}
    with pytest.raises(ConfigError, match="access_key_env and secret_key_env in a configuration"):
        build_tiers({"tiers": [table]}, environment=SECRETS)


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ({"kind": "redis", "url": "redis://x", "password": "hunter2"}, "name that by password_env"),
        ({"kind": "redis", "url": "redis://:hunter2@x"}, "must not hold a password"),
        ({"kind": "redis", "url": "redis://x?password=hunter2"}, "must not hold a password"),
        ({"kind": "redis", "url": "unix:///x?password=hunter2"}, "must not hold a password"),
        ({"kind": "redis", "url": "redis://x", "password_env": "hunter2"}, "not the secret itself"),
        ({"kind": "s3", "bucket": "b", "endpoint": "http://a:hunter2@x"}, "must not hold a user"),
        ({"kind": "redis", "url": ["hunter2"]}, "without a password"),
        ({"kind": "s3", "bucket": "b", "secret_key": "hunter2"}, "name that by secret_key_env"),
        ({"kind": "redis", "url": "redis://x", "password_env": "NONE"}, "'NONE', which is not set"),
    ],
)
def test_a_secret_in_the_configuration_is_refused_and_not_repeated(
    table: dict[str, Any], said: str
) -> None:
    with pytest.raises(ConfigError, match=said) as caught:
        build_tiers({"tiers": [table]}, environment={})
    assert "hunter2" not in str(caught.value)


def test_two_tiers_of_one_name_and_other_shapes_are_refused(tmp_path: Path) -> None:
    memory = {"kind": "memory"}
    for config, said in (
        ({"tiers": [memory, memory]}, r"tiers\[1\]: name must be .* 'memory' is taken"),
        ({}, "tiers must be a list of tables"),
        ({"tiers": [memory], "namspace": "m"}, "unknown setting 'namspace'; did you mean namespa"),
        ({"tier": [memory]}, r"unknown setting 'tier'; did you mean tiers\?"),
        ({"tiers": [3]}, r"tiers\[0\] must be a table"),
        ({"tiers": [memory], "namespace": 3}, "namespace must be a text or a table"),
        ({"tiers": [memory], "namespace": {"modell": "m"}}, "unknown field 'modell'"),
        ({"tiers": [memory], "namespace": {"model": "m"}}, "namespace: .*dtype"),
    ):
        with pytest.raises(ConfigError, match=said):
            build_tiers(config)
    for neither in (None, [memory]):
        with pytest.raises(ConfigError, match="path of a TOML file, or a dictionary with tiers"):
            build_tiers(neither)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="cannot be read: No such file"):
        build_tiers(tmp_path / "none.toml")
    (tmp_path / "bad.toml").write_text("[[tiers]\n")
    with pytest.raises(ConfigError, match="is no TOML"):
        build_tiers(tmp_path / "bad.toml")


def test_sizes() -> None:
    assert [size_in_bytes(s) for s in (5, "5", "1KiB", "1.5 GiB", "2TiB")] == [
        *(5, 5, 1024, 3 << 29, 2 << 40)
    ]


def test_the_documented_kinds_are_those_that_can_be_built() -> None:
    assert set(KINDS) == {"memory", "files", "slab", "s3", "redis"}
