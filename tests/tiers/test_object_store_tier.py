"""The object-store tier against a real S3 server, and against stores that misbehave."""

from __future__ import annotations

import importlib
import logging
import socket
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tierproof.impl.errors import ConfigError
from tierproof.impl.tiers.base import Claim
from tierproof.impl.tiers.object_store import ObjectStoreTier
from tierproof.properties import tier_factories
from tierproof.properties.servers import SeaweedServer, free_ports
from tierproof.properties.tier_rig import TierRig
from tierproof.properties.tier_writer import Writer, key_of

obstore = pytest.importorskip("obstore", reason="the extra s3 is not installed")
stores = importlib.import_module("obstore.store")
KEYS = [b"k%d" % number for number in range(1, 6)]
SIZE = 16384


@contextmanager
def rig_on(store: Any, *, block_bytes: int = SIZE, slots: int = 8, **options: Any) -> Iterator[Any]:
    rig = TierRig(ObjectStoreTier(store, **options), slots=slots, block_bytes=block_bytes)
    try:
        yield rig
    finally:
        rig.close()


def seaweed_rig(server: SeaweedServer, **options: Any) -> Any:
    access: dict[str, Any] = {
        "endpoint": server.endpoint,
        "access_key": server.access_key,
        "secret_key": server.secret_key,
    }
    return rig_on(server.bucket, **{**access, **options})


def path_of(rig: Any, key: bytes) -> str:
    path = rig.tier._mover._store._path(rig.tier._name(key))
    assert isinstance(path, str)
    return path


def objects(store: Any) -> list[str]:
    return sorted(item["path"] for batch in obstore.list(store) for item in batch)


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        (b"HTTP/1.1 404 Not Found\r\ncontent-length: 44\r\n\r\n"
         b"<Error><Code>NoSuchBucket</Code></Error>    ", "has no such bucket"),
        (b"HTTP/1.1 501 Not Implemented\r\ncontent-length: 0\r\n\r\n", "the server failed"),
        (None, "cannot be reached"),
    ],
)  # fmt: skip
def test_the_log_says_why_a_server_fails_and_names_no_address(
    said: bytes | None, reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    (port,) = free_ports(1)
    server = None if said is None else socket.create_server(("127.0.0.1", port))
    if server is not None:

        def answer() -> None:
            with suppress(OSError):
                while True:
                    peer, _ = server.accept()
                    with peer:
                        peer.recv(65536)
                        peer.sendall(said or b"")

        threading.Thread(target=answer, daemon=True).start()
    with rig_on("kv", endpoint=f"http://127.0.0.1:{port}", access_key="a", secret_key="b") as rig:
        assert not rig.store(b"key")
        assert reason in caplog.text
        assert "127.0.0.1" not in caplog.text
    if server is not None:
        server.shutdown(socket.SHUT_RDWR)
        server.close()


# --- a real server ---


@pytest.mark.parametrize("block_bytes", [1, SIZE, 6 << 20])
def test_blocks_of_any_size_come_back_from_a_real_server(
    seaweed: SeaweedServer, block_bytes: int
) -> None:
    with seaweed_rig(seaweed, block_bytes=block_bytes, namespace="sizes") as rig:
        assert rig.present(KEYS) == set()
        assert rig.store(*KEYS[:3]) == rig.load(*KEYS[:3]) == set(KEYS[:3])
        assert rig.load(b"unknown") == frozenset()
    with seaweed_rig(seaweed, block_bytes=block_bytes, namespace="sizes") as rig:
        assert rig.load(*KEYS[:3]) == set(KEYS[:3])
        rig.tier.clear()
        rig.until(lambda: not rig.tier._index.clearing, "T4-visible", "the clear did not end")
        assert rig.present(KEYS) == set()


def test_a_server_killed_in_mid_transfer_fails_calls_and_is_used_again_when_it_is_back(
    own_seaweed: SeaweedServer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="tierproof")
    with seaweed_rig(
        own_seaweed, block_bytes=4 << 20, slots=16, timeout=2.0, absent_seconds=0.05
    ) as rig:
        rig.store(*KEYS)
        jobs = []
        for number in range(8):
            jobs.append(rig.begin_store([b"%d" % number], [number]))
            jobs.append(rig.begin_load([KEYS[number % 5]], [8 + number]))
        own_seaweed.kill()
        landed = [rig.report(job).landed for job in jobs]
        assert not all(landed)
        assert rig.load(*KEYS) == rig.store(b"new") == frozenset()
        warnings = [r for r in caplog.records if r.levelno >= logging.WARNING]
        assert len(warnings) == 1, [r.getMessage() for r in warnings]
        assert rig.decide(KEYS[0]) is Claim.ABSENT
        own_seaweed.start()
        rig.until(lambda: rig.store(b"again"), "T9-raises", "it did not recover", 20.0)
        assert rig.load(b"again") == {b"again"}
        rig.load(*KEYS)  # whatever the server kept, the bytes are right
        assert any("works again" in record.getMessage() for record in caplog.records)


def test_t11_processes_share_a_bucket_and_serve_each_others_blocks(
    seaweed: SeaweedServer, tmp_path: Path
) -> None:
    server: dict[str, Any] = {
        "bucket": seaweed.bucket,
        "endpoint": seaweed.endpoint,
        "access_key": seaweed.access_key,
        "secret_key": seaweed.secret_key,
    }
    factory = partial(tier_factories.s3, **server)
    common: dict[str, Any] = {"block_bytes": SIZE, "root": tmp_path, "namespace": "shared"}
    with (
        Writer(factory, seed=1, rounds=15, **common) as one,
        Writer(factory, seed=2, rounds=15, **common) as two,
        seaweed_rig(seaweed, namespace=f"{tmp_path}:shared") as rig,
    ):
        one.listen(until=4)
        key = key_of(one.landed[0])
        assert rig.decide(key) is Claim.PRESENT
        assert rig.load(key) == {key}
        one.listen()
        two.listen()
        assert (one.said, two.said) == ("", "")


def test_wrong_secrets_fail_calls_with_one_warning_and_are_never_logged(
    seaweed: SeaweedServer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    with seaweed_rig(seaweed, secret_key="hunter2-is-wrong", timeout=2.0) as rig:
        assert rig.store(*KEYS) == rig.load(*KEYS) == frozenset()
    assert "refuses this user or secret" in caplog.text
    ours = [r.getMessage() for r in caplog.records if r.name.startswith("tierproof")]
    assert not any("hunter2" in said or seaweed.access_key in said for said in ours)
    assert not any(".block" in said for said in ours), "a log names an object"


def test_a_server_that_accepts_and_never_answers_fails_a_call_within_its_timeout() -> None:
    with socket.create_server(("127.0.0.1", free_ports(1)[0])) as hole:
        endpoint = f"http://127.0.0.1:{hole.getsockname()[1]}"
        with rig_on(
            "bucket", endpoint=endpoint, access_key="k", secret_key="s", timeout=0.5
        ) as rig:
            for begin in (rig.begin_load, rig.begin_store):
                began = time.monotonic()
                assert rig.report(begin(KEYS[:1])).landed == frozenset()
                assert time.monotonic() - began < 5, "the usual timeout is 10"
            assert rig.decide(KEYS[0]) is Claim.ABSENT


# --- a store in memory ---


@pytest.mark.parametrize(
    "what",
    ["a flipped bit", "a flipped bit in the header", "another block", "shorter", "longer", "empty"],
)
def test_b44_wrong_bytes_are_a_failed_key_and_the_others_survive(what: str) -> None:
    store = stores.MemoryStore()
    with rig_on(store) as rig:
        rig.store(*KEYS)
        path = path_of(rig, KEYS[0])
        data = bytes(obstore.get(store, path).bytes())
        changed = {
            "a flipped bit": data[:-1] + bytes([data[-1] ^ 1]),
            "a flipped bit in the header": bytes([data[30] ^ 1]).join((data[:30], data[31:])),
            "another block": bytes(obstore.get(store, path_of(rig, KEYS[1])).bytes()),
            "shorter": data[:-1],
            "longer": data + b"x",
            "empty": b"",
        }
        obstore.put(store, path, changed[what])
        assert rig.load(*KEYS) == set(KEYS[1:])
        assert path not in objects(store), "the bad object was left"
        assert rig.decide(KEYS[0]) is Claim.ABSENT
        assert rig.store(KEYS[0]) == rig.load(KEYS[0]) == {KEYS[0]}
    # and by one that has not looked at it before
    obstore.put(store, path, changed[what])
    with rig_on(store) as rig:
        if what != "a flipped bit":
            assert rig.decide(KEYS[0]) is Claim.ABSENT
        assert rig.store(KEYS[0]) == {KEYS[0]}
        rig.load(*KEYS)


def test_the_first_of_two_writers_wins_and_a_bad_object_is_replaced() -> None:
    store = stores.MemoryStore()
    with rig_on(store) as one, rig_on(store) as two:
        assert one.store(KEYS[0]) == two.store(KEYS[0]) == {KEYS[0]}
        assert two.tier.counters["already_stored"] == 1
        obstore.put(store, path_of(one, KEYS[0]), b"nonsense")
        assert two.store(KEYS[0]) == {KEYS[0]}
        assert one.load(KEYS[0]) == {KEYS[0]}


def test_objects_that_vanish_are_failed_keys_and_then_absent() -> None:
    store = stores.MemoryStore()
    with rig_on(store) as rig:
        rig.store(*KEYS)
        obstore.delete(store, path_of(rig, KEYS[0]))
        assert rig.load(*KEYS) == set(KEYS[1:])
        assert rig.present(KEYS) == set(KEYS[1:])


def test_t7_count_and_age_are_kept_as_well_as_can_be() -> None:
    store = stores.MemoryStore()
    now = [0.0]
    with rig_on(store, capacity_blocks=3, clock=lambda: now[0]) as rig:
        for key in KEYS:
            rig.store(key)
        assert len(objects(store)) == 3
        assert rig.load(*KEYS) == set(KEYS[2:])
    with rig_on(store, capacity_blocks=2, trim_seconds=1.0, clock=lambda: now[0]) as rig:
        rig.until(lambda: len(objects(store)) == 2, "T7-bounded", "too many", 5.0)
        with rig_on(store) as other:  # one that knows no bound
            other.store(*KEYS)
        now[0] += 2
        rig.until(lambda: len(objects(store)) == 2, "T7-bounded", "too many", 5.0)
    with rig_on(store, max_age_seconds=0.001) as rig:
        time.sleep(0.01)
        rig.until(lambda: not objects(store), "T7-bounded", "too old", 5.0)


def test_a_salt_or_prefix_cannot_leave_the_prefix() -> None:
    store = stores.MemoryStore()
    for salt in ("../../x", "/", "a\0b", "@" * 300):
        with rig_on(store, namespace=salt) as rig:
            assert rig.store(KEYS[0]) == rig.load(KEYS[0]) == {KEYS[0]}
    assert all(path.startswith("tierproof/") and len(path) < 130 for path in objects(store))
    assert len(objects(store)) == 4
    for prefix in ("..", "a/../b", "/a", "a//b", "a b"):
        with pytest.raises(ConfigError, match="prefix"):
            ObjectStoreTier(store, prefix=prefix)


def test_without_the_library_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "obstore", None)
    with pytest.raises(ConfigError, match=r"pip install '\.\[s3\]'"):
        ObjectStoreTier("bucket")


def test_no_thread_is_left_behind() -> None:
    before = threading.active_count()
    with rig_on(stores.MemoryStore()) as rig:
        rig.store(*KEYS)
    assert threading.active_count() == before


def test_settings_out_of_range_are_named() -> None:
    store = stores.MemoryStore()
    for name, value in (
        ("capacity_blocks", 0),
        ("max_age_seconds", -1),
        ("timeout", 0),
        ("absent_seconds", -1),
        ("threads", 0),
    ):
        with pytest.raises(ConfigError, match=name):
            ObjectStoreTier(store, **{name: value})  # type: ignore[arg-type]
