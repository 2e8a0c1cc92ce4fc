"""The Redis tier against a real server: what the server does to it, and what others do to it."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tierproof.impl.errors import ConfigError
from tierproof.impl.tiers import redis_store
from tierproof.impl.tiers.base import NO_REQUEST, Claim, StoreJob
from tierproof.impl.tiers.redis import RedisTier
from tierproof.properties import tier_factories
from tierproof.properties.servers import RedisServer, free_ports
from tierproof.properties.tier_rig import TierRig
from tierproof.properties.tier_writer import Writer, key_of

from .support import PATIENCE, usual_seconds

KEYS = [b"k%d" % number for number in range(1, 6)]
SIZE = 16384


@contextmanager
def redis_rig(
    url: str, *, block_bytes: int = SIZE, slots: int = 8, **options: Any
) -> Iterator[Any]:
    rig = TierRig(RedisTier(url, **options), slots=slots, block_bytes=block_bytes)
    try:
        yield rig
    finally:
        rig.close()


def client_of(server: RedisServer) -> Any:
    library = redis_store.client_library()
    return (getattr(library, "Valkey", None) or library.Redis)(port=server.port)


def names_in(server: RedisServer, namespace_rig: Any) -> list[bytes]:
    return sorted(client_of(server).keys(namespace_rig.tier._mover._store._prefix + b"*"))


# --- bytes ---


@pytest.mark.parametrize("block_bytes", [1, 4 << 20, (4 << 20) + 1, 9 << 20])
def test_blocks_of_any_size_come_back_and_large_ones_go_in_pieces(
    redis: RedisServer, block_bytes: int
) -> None:
    with redis_rig(redis.url, block_bytes=block_bytes, namespace=f"{block_bytes}") as rig:
        keys = KEYS[:2]
        assert rig.store(*keys) == set(keys)
        assert rig.load(*keys) == set(keys)
        pieces = -(-block_bytes // redis_store.PIECE)
        assert len(names_in(redis, rig)) == 2 * (1 + pieces)
        rig.tier.clear()
        rig.until(lambda: not rig.tier._index.clearing, "T4-visible", "the clear did not end")
        assert names_in(redis, rig) == []


def test_a_unix_socket_serves_as_well(redis: RedisServer) -> None:
    if not redis.socket.exists():
        pytest.skip("the temporary folder's name is too long for a socket")
    with redis_rig(f"unix://{redis.socket}", namespace="socket") as rig:
        assert rig.store(*KEYS) == rig.load(*KEYS) == set(KEYS)


@pytest.mark.parametrize(
    "what", ["a flipped bit", "another block", "shorter", "longer", "empty", "not a string"]
)
@pytest.mark.parametrize("which", ["header", "piece"])
def test_b44_wrong_bytes_are_a_failed_key_and_the_others_survive(
    redis: RedisServer, what: str, which: str
) -> None:
    with redis_rig(redis.url, namespace=f"{what} {which}") as rig:
        rig.store(*KEYS)
        client, store = client_of(redis), rig.tier._mover._store
        mine, other = (rig.tier._name(key) for key in KEYS[:2])
        names = [store._name(d) if which == "header" else store._piece(d, 0) for d in (mine, other)]
        value = client.get(names[0])
        client.delete(names[0])
        if what == "not a string":
            client.lpush(names[0], b"x")
        else:
            changed = {
                "a flipped bit": bytes([value[0] ^ 1]) + value[1:],
                "another block": client.get(names[1]),
                "shorter": value[:-1],
                "longer": value + b"x",
                "empty": b"",
            }
            client.set(names[0], changed[what])
        assert rig.load(*KEYS) == set(KEYS[1:])
        assert rig.decide(KEYS[0]) is Claim.ABSENT
        if what != "not a string":
            assert rig.store(KEYS[0]) == rig.load(KEYS[0]) == {KEYS[0]}


def test_keys_that_vanish_are_failed_keys_and_then_absent(redis: RedisServer) -> None:
    with redis_rig(redis.url, namespace="vanish") as rig:
        rig.store(*KEYS)
        store = rig.tier._mover._store
        digests = [rig.tier._name(key) for key in KEYS]
        client_of(redis).delete(store._name(digests[0]), store._piece(digests[1], 0))
        assert rig.load(*KEYS) == set(KEYS[2:])
        assert rig.present(KEYS) == set(KEYS[2:])
        assert rig.tier.counters["vanished"] == 2


# --- the server's own will ---


def test_blocks_live_as_long_as_they_were_given(redis: RedisServer) -> None:
    client = client_of(redis)
    with redis_rig(redis.url, namespace="ttl", ttl_seconds=3600, present_seconds=0.05) as rig:
        assert rig.store(*KEYS) == rig.load(*KEYS) == set(KEYS)
        names = names_in(redis, rig)
        assert len(names) >= len(KEYS)
        for name in names:
            assert 3500 < client.ttl(name) <= 3660, "pieces live a minute longer"
            client.pexpire(name, 1)  # an hour later
        rig.until(lambda: not rig.present(KEYS), "T4-visible", "blocks were claimed", PATIENCE)
        assert rig.load(*KEYS) == frozenset()


@pytest.mark.parametrize("policy", ["allkeys-lru", "noeviction"])
def test_maxmemory_costs_blocks_and_nothing_else(
    tmp_path: Path, own_redis: RedisServer, policy: str
) -> None:
    client = client_of(own_redis)
    client.config_set("maxmemory", "12mb")
    client.config_set("maxmemory-policy", policy)
    size, keys = 256 << 10, [b"%d" % number for number in range(100)]
    with redis_rig(own_redis.url, block_bytes=size, present_seconds=0.2, slots=4) as rig:
        landed = set()
        for start in range(0, 100, 4):
            landed |= rig.store(*keys[start : start + 4])
        loaded = set()
        for start in range(0, 100, 4):
            loaded |= rig.load(*keys[start : start + 4])  # compares the bytes
        if policy == "noeviction":
            assert 10 < len(landed) < 60
            assert loaded == landed
            assert rig.tier.counters["no_room"] == 100 - len(landed)
        else:
            assert landed == set(keys)
            assert 5 < len(loaded) < 60
        assert client.info("stats")["evicted_keys"] > 0 or policy == "noeviction"


def test_a_server_killed_in_mid_transfer_fails_calls_and_is_used_again_when_it_is_back(
    own_redis: RedisServer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="tierproof")
    size = 4 << 20
    with redis_rig(own_redis.url, block_bytes=size, slots=16, absent_seconds=0.05) as rig:
        for _ in range(2):
            jobs = []
            for number in range(8):
                jobs.append(rig.begin_store([b"%d" % number], [number]))
                jobs.append(rig.begin_load([b"%d" % number], [8 + number]))
            own_redis.kill()
            landed = set()
            for job in jobs:
                landed |= rig.report(job).landed
            assert len(landed) < 16
            assert rig.load(*KEYS) == rig.store(*KEYS) == frozenset()
            assert rig.present(KEYS) == set()
            warnings = [r for r in caplog.records if r.levelno >= logging.WARNING]
            assert len(warnings) == 1, [r.getMessage() for r in warnings]
            own_redis.start()
            rig.until(lambda: rig.store(b"again"), "T9-raises", "it did not recover", 5.0)
            assert rig.load(b"again") == {b"again"}
            assert rig.store(*KEYS) == rig.load(*KEYS) == set(KEYS)
            assert any("works again" in record.getMessage() for record in caplog.records)
            caplog.clear()


def test_a_server_that_hangs_keeps_no_call_of_the_scheduler_waiting_and_ends_in_time(
    own_redis: RedisServer,
) -> None:
    with redis_rig(own_redis.url, timeout=0.3, threads=2) as rig:
        rig.store(*KEYS)
        own_redis.pause()
        jobs: list[int] = []

        def calls(number: int) -> tuple[Callable[[], Any], ...]:
            return (
                lambda: jobs.append(rig.begin_load(KEYS[:1], [7])),
                lambda: rig.ask(KEYS[0]),
                lambda: rig.ask(b"unknown %d" % number),
                rig.poll,
            )

        assert usual_seconds(calls, 20) < 0.25
        assert rig.report(jobs[0], 4.0).landed == frozenset()
        began = time.monotonic()
        running = rig.tier.drain(0.2)
        assert time.monotonic() - began < 4, "the usual timeout is 5"
        assert len(running) <= 2
        own_redis.resume()
        ended = "jobs without end", PATIENCE
        rig.until(lambda: set(jobs) <= set(rig.reports), "T2-one-report", *ended)
        rig.until(lambda: rig.load(KEYS[0]), "T9-raises", "it did not recover", PATIENCE)


def test_a_server_that_was_never_there_is_no_reason_not_to_start() -> None:
    with redis_rig(f"redis://127.0.0.1:{free_ports(1)[0]}") as rig:
        assert rig.decide(KEYS[0]) is Claim.ABSENT
        assert rig.store(KEYS[0]) == rig.load(KEYS[0]) == frozenset()


# --- others ---


def test_t11_processes_share_a_server_and_serve_each_others_blocks(
    redis: RedisServer, tmp_path: Path
) -> None:
    factory = partial(tier_factories.redis, url=redis.url)
    common: dict[str, Any] = {"block_bytes": SIZE, "root": tmp_path, "namespace": "shared"}
    with (
        Writer(factory, seed=1, rounds=40, **common) as one,
        Writer(factory, seed=2, rounds=40, **common) as two,
        redis_rig(redis.url, namespace=f"{tmp_path}:shared") as rig,
    ):
        one.listen(until=4)
        key = key_of(one.landed[0])
        assert rig.decide(key) is Claim.PRESENT
        assert rig.load(key) == {key}
        one.listen()
        two.listen()
        assert (one.said, two.said) == ("", "")
        assert len(rig.load(*map(key_of, range(8)))) == 8


def test_namespaces_never_meet(redis: RedisServer) -> None:
    with (
        redis_rig(redis.url, namespace="one*") as one,
        redis_rig(redis.url, namespace="one?") as two,
        redis_rig(redis.url, namespace="one*", block_bytes=8192) as three,
    ):
        one.store(*KEYS)
        for other in (two, three):
            assert other.present(KEYS) == set()
            assert other.load(*KEYS) == frozenset()
            other.tier.clear()
            other.until(lambda o=other: not o.tier._index.clearing, "T4-visible", "no clear")
        assert one.load(*KEYS) == set(KEYS)


# --- configuration ---


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("http://localhost", "redis://HOST:PORT/DB"),
        ("localhost:6379", "redis://HOST:PORT/DB"),
        ("redis://:hunter2@localhost", "must not hold a password"),
        ("redis://localhost:99999", "redis://HOST:PORT/DB"),
    ],
)
def test_a_wrong_url_is_refused_and_no_secret_is_repeated(url: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said) as caught:
        RedisTier(url)
    assert "hunter2" not in str(caught.value)


def test_a_password_is_used_and_never_logged(
    own_redis: RedisServer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    client_of(own_redis).config_set("requirepass", "hunter2")
    with redis_rig(own_redis.url, password="hunter2") as rig:
        assert rig.store(*KEYS) == rig.load(*KEYS) == set(KEYS)
    with redis_rig(own_redis.url, password="wrong secret") as rig:
        assert rig.store(*KEYS) == frozenset()
    with redis_rig(own_redis.url) as rig:
        assert rig.store(*KEYS) == frozenset()
    assert "refuses this user or password" in caplog.text
    assert "hunter2" not in caplog.text
    assert "wrong secret" not in caplog.text


def test_without_a_client_library_the_error_names_the_extra(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "valkey", None)
    monkeypatch.setitem(sys.modules, "redis", None)
    with pytest.raises(ConfigError, match=r"pip install '\.\[redis\]'"):
        RedisTier("redis://localhost")


def test_t7_a_hanging_server_makes_stores_be_refused_and_not_pile_up(
    own_redis: RedisServer,
) -> None:
    with redis_rig(own_redis.url, timeout=0.5, threads=1, queued_stores=4) as rig:
        own_redis.pause()
        refused = 0
        for number in range(20):
            refused += len(
                rig.tier.submit_store(StoreJob(1000 + number, (b"%d" % number,), (0,), NO_REQUEST))
            )
            rig.jobs[1000 + number] = (b"%d" % number,)
        assert refused >= 15
        own_redis.resume()
