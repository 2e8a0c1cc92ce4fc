"""Replies of a Redis server, received straight into memory, in whatever pieces they come."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tierproof.impl.errors import CorruptBlockError
from tierproof.impl.tiers import redis_store
from tierproof.impl.tiers.mover import NoRoomError, RemoteError
from tierproof.impl.tiers.redis_reader import (
    RefusedError,
    Reply,
    UnexpectedReplyError,
    WrongLengthError,
)
from tierproof.impl.tiers.redis_store import RedisStore
from tierproof.properties.servers import RedisServer

BLOCK = 3 * redis_store.PIECE // 2


class Pieces:
    """A socket that gives what it was given, at most so many bytes at a time, then closes."""

    def __init__(self, said: bytes, sizes: list[int] | None = None) -> None:
        self.said = said
        self.sizes = sizes or [1 << 30]
        self.calls = 0

    def recv_into(self, buffer: memoryview) -> int:
        size = min(self.sizes[self.calls % len(self.sizes)], buffer.nbytes, len(self.said))
        self.calls += 1
        buffer[:size] = self.said[:size]
        self.said = self.said[size:]
        return size


def encoded(values: list[bytes | None], null: bytes = b"$-1") -> bytes:
    parts = [b"*%d\r\n" % len(values)]
    for value in values:
        parts.append(null + b"\r\n" if value is None else b"$%d\r\n%b\r\n" % (len(value), value))
    return b"".join(parts)


@given(
    values=st.lists(st.none() | st.binary(max_size=40) | st.just(b"\r\n$5\r\n" * 2000), min_size=1),
    sizes=st.lists(st.integers(1, 9000), min_size=1, max_size=5),
    null=st.sampled_from([b"$-1", b"_"]),
)
def test_values_reach_their_targets_in_whatever_pieces_a_reply_comes(
    values: list[bytes | None], sizes: list[int], null: bytes
) -> None:
    targets = [memoryview(bytearray(0 if value is None else len(value))) for value in values]
    socket = Pieces(encoded(values, null), sizes)
    assert Reply(socket).values(targets) is (None not in values)
    for value, target in zip(values, targets, strict=True):
        assert value is None or bytes(target) == value
    assert socket.said == b"", "something of the reply is left for the next command"


def test_a_large_value_is_received_where_it_belongs_and_nowhere_else() -> None:
    value = bytes(range(256)) * 4096
    offered: list[int] = []

    class Watched(Pieces):
        def recv_into(self, buffer: memoryview) -> int:
            offered.append(buffer.nbytes)
            return super().recv_into(buffer)

    target = memoryview(bytearray(len(value)))
    assert Reply(Watched(encoded([value]))).values([target])
    assert offered[0] <= 4096, "what surrounds a value needs no large buffer"
    assert offered[1] >= len(value) - 4096, "the value was not received into its target"
    assert bytes(target) == value


@pytest.mark.parametrize(
    ("said", "error", "words"),
    [
        (b"-NOPERM no rights\r\n", RefusedError, "NOPERM no rights"),
        (b"+OK\r\n", UnexpectedReplyError, "was expected"),
        (b"*2\r\n", UnexpectedReplyError, "was expected"),
        (b"*1\r\n:5\r\n", UnexpectedReplyError, "was expected"),
        (b"*1\r\n$4\r\nabcd\r\n", WrongLengthError, "4 bytes instead of 3"),
        (b"*1\r\n$3\r\nabcd\r\n", UnexpectedReplyError, "was expected"),
        (b"x" * 10_000, UnexpectedReplyError, "a line without an end"),
        (b"*1\r\n$3\r\nab", ConnectionResetError, "closed"),
        (b"", ConnectionResetError, "closed"),
    ],
)
def test_what_is_no_such_reply_is_an_error(said: bytes, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        Reply(Pieces(said)).values([memoryview(bytearray(3))])


# --- with the client library's connections ---


def a_store(server: RedisServer, **options: Any) -> RedisStore:
    return RedisStore(
        server.url,
        space="reader",
        block_bytes=BLOCK,
        ttl_seconds=None,
        timeout=2.0,
        connections=1,  # what one call leaves behind, the next one finds
        **options,
    )


@pytest.fixture
def parts() -> tuple[memoryview, memoryview]:
    return memoryview(bytearray(128)), memoryview(bytearray(BLOCK))


@pytest.mark.parametrize("socket", ["_sock", "somewhere else"])
def test_a_connection_serves_the_next_block_whatever_became_of_the_last(
    redis: RedisServer,
    parts: tuple[memoryview, memoryview],
    monkeypatch: pytest.MonkeyPatch,
    socket: str,
) -> None:
    monkeypatch.setattr(redis_store, "_SOCKET", socket)
    store = a_store(redis)
    header, payload = parts
    good, short, torn, absent = (bytes([n]) * 32 for n in range(4))
    row = memoryview(bytes(range(256)) * (BLOCK // 256))
    for digest in (good, short, torn):
        store.put(digest, b"h" * 128, row, True)
    client: Any = store._client
    client.set(store._piece(short, 0), b"short")
    client.unlink(store._piece(torn, 1))

    def is_served() -> None:
        payload[:] = bytes(BLOCK)
        assert store.get(good, header, payload)
        assert bytes(header) == b"h" * 128
        assert payload == row

    is_served()
    with pytest.raises(CorruptBlockError, match="5 bytes instead of"):
        store.get(short, header, payload)
    is_served()
    assert not store.get(torn, header, payload)
    is_served()
    assert not store.get(absent, header, payload)
    is_served()
    client.set(store._name(short), b"no header")
    with pytest.raises(CorruptBlockError, match="9 bytes instead of 128"):
        store.get(short, header, payload)
    is_served()
    store.remove_all()
    store.close()


def test_a_servers_refusal_is_told_apart_and_the_connection_goes_on(
    redis: RedisServer, parts: tuple[memoryview, memoryview]
) -> None:
    owner = a_store(redis)
    owner.put(b"k" * 32, b"h" * 128, memoryview(bytes(BLOCK)), True)
    admin: Any = owner._client
    admin.execute_command("ACL", "SETUSER", "weak", "on", ">pw", "+@all", "-mget", "~*")
    try:
        store = a_store(redis, username="weak", password="pw")
        with pytest.raises(RemoteError, match="refuses this user"):
            store.get(b"k" * 32, *parts)
        assert store.headers([b"k" * 32]) == [b"h" * 128]
        store.close()
    finally:
        admin.execute_command("ACL", "DELUSER", "weak")
        owner.remove_all()
        owner.close()


def test_a_server_of_another_kind_is_told_as_such() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            peer, _ = server.accept()
            with peer:
                peer.recv(4096)
                peer.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

        thread = threading.Thread(target=answer, daemon=True)
        thread.start()
        store = RedisStore(
            f"redis://127.0.0.1:{server.getsockname()[1]}",
            space="s",
            block_bytes=BLOCK,
            ttl_seconds=None,
            timeout=5.0,
            connections=1,
        )
        with pytest.raises(RemoteError, match="is no Redis or Valkey server"):
            store.headers([b"k" * 32])
        thread.join()
        store.close()


@pytest.mark.parametrize(
    ("said", "error", "words"),
    [
        (b"-OOM command not allowed\r\n", NoRoomError, "maxmemory"),
        (b"-NOAUTH who are you\r\n", RemoteError, "refuses this user"),
        (b"-LOADING the dataset\r\n", RemoteError, "the server failed"),
        (b"+nonsense\r\n", RemoteError, "the server failed"),
        (b"", RemoteError, "cannot be reached"),
        (TimeoutError(), RemoteError, "does not answer in time"),
    ],
)
def test_what_a_server_may_say_instead_of_a_block_is_mapped(
    redis: RedisServer,
    parts: tuple[memoryview, memoryview],
    monkeypatch: pytest.MonkeyPatch,
    said: bytes | Exception,
    error: type[Exception],
    words: str,
) -> None:
    store = a_store(redis)

    class Silent:
        def recv_into(self, buffer: memoryview) -> int:
            assert isinstance(said, Exception)
            raise said

    fake = Silent() if isinstance(said, Exception) else Pieces(said)
    monkeypatch.setattr(redis_store, "Reply", lambda _: Reply(fake))
    with pytest.raises(error, match=words):
        store.get(b"k" * 32, *parts)
    monkeypatch.undo()
    assert not store.get(b"k" * 32, *parts), "the unread reply answered the next command"
    store.close()


def test_a_library_that_wants_no_command_with_its_connection_gets_none(
    redis: RedisServer, parts: tuple[memoryview, memoryview]
) -> None:
    store = a_store(redis)
    asked: list[tuple[str, ...]] = []
    real = store._pool.get_connection

    def newer(*names: str) -> Any:
        asked.append(names)
        return real(*redis_store._arguments(real))

    store._pool.get_connection = newer
    store._asking = redis_store._arguments(newer)
    assert not store.get(b"k" * 32, *parts)
    assert asked == [()]
    store.close()


def test_the_reader_is_what_the_tier_loads_with(tmp_path: Path, redis: RedisServer) -> None:
    from tierproof.impl.tiers import redis_reader
    from tierproof.impl.tiers.redis import RedisTier
    from tierproof.properties.tier_rig import TierRig

    made: list[Any] = []

    class Counted(redis_reader.Reply):
        def __init__(self, socket: Any) -> None:
            made.append(socket)
            super().__init__(socket)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(redis_store, "Reply", Counted)
        rig = TierRig(RedisTier(redis.url, namespace="reader's tier"), block_bytes=16384)
        assert rig.store(b"k") == {b"k"}
        assert rig.load(b"k") == {b"k"}
        rig.close()
    assert made


_RACE = """
import gc, threading
from tierproof.impl.tiers.redis_store import RedisStore

store = RedisStore("redis://localhost:1/0", space="s", block_bytes=1, ttl_seconds=None, timeout=1,
                   connections=2)
retry = store._pool.connection_kwargs["retry"]

def race(shared):
    collecting, seen, found = threading.Event(), threading.Event(), []

    class Finalized:
        def __del__(self):  # lets the other thread go on in the middle of a collection
            collecting.set()
            seen.wait(10)

    def other():
        collecting.wait(10)
        found.append(vars(shared))
        seen.set()

    thread = threading.Thread(target=other)
    thread.start()
    gc.disable()
    garbage = Finalized()
    garbage.itself = garbage
    del garbage
    spare = [{1: number} for number in range(500)]  # no dictionary is left over to be used again
    gc.set_threshold(1)
    gc.enable()
    mine = vars(shared)
    gc.disable()
    collecting.set()  # where nothing was collected, the other one may go on too
    thread.join()
    assert found[0] is mine, f"two threads see two dictionaries of one {type(shared).__name__}"

race(retry)
race(retry._backoff)
"""


def test_what_new_connections_copy_is_the_same_for_all_threads() -> None:
    """Else a collection of garbage ends the process some day: with CPython 3.11, two runs of these
    tests did (segmentation fault). Tried in a process of its own, which may end so."""
    told = subprocess.run(
        [sys.executable, "-c", _RACE], capture_output=True, text=True, timeout=60, check=False
    )
    assert (told.returncode, told.stderr) == (0, "")
