"""The Redis or Valkey tier: one server, shared by the hosts that use it."""

from __future__ import annotations

import time
from collections.abc import Callable

from ..errors import ConfigError
from ..keys import Namespace
from .base import claims_all_but
from .block_tier import at_least
from .redis_store import RedisStore, check_url, client_library
from .remote_mover import RemoteStore
from .remote_tier import RemoteTier


class RedisTier(RemoteTier):
    """Keeps blocks on a Redis or Valkey server; claims all but `T10`: it keeps what it likes.

    The server's own settings bound its memory (`maxmemory`, `maxmemory-policy allkeys-lru`). A
    block that it evicts between lookup and load is a failed key.

    Args:
        url: `redis://HOST:PORT/DB`, `rediss://...` (TLS) or `unix:///PATH`; no password in it.
        namespace: What changes the bytes or keeps users apart and is not in the keys.
        name: The tier's name within its manager.
        ttl_seconds: After which the server drops a block; None: never by time.
        threads: Blocks that are moved at once; the server gets one connection more.
        timeout: Seconds that the server may be silent before a call fails.
        io_deadline: Seconds after which I/O that has not begun is cancelled and reported failed;
            None: never.
        queued_stores: Blocks that may wait to be stored; stores beyond are refused.
        absent_seconds: How long, after it was first told, an ABSENT is not asked for again.
        present_seconds: How long a PRESENT is believed before the server is asked again.
        username: For the server's access control.
        password: Its secret; never logged.
        clock: Monotonic time in seconds.

    Raises:
        ConfigError: an argument is out of range, or no client library is installed.
    """

    claims = claims_all_but("T10-restart")

    def __init__(
        self,
        url: str,
        *,
        namespace: str | bytes | Namespace = "",
        name: str = "redis",
        ttl_seconds: float | None = None,
        threads: int = 4,
        timeout: float = 5.0,
        io_deadline: float | None = 30.0,
        queued_stores: int = 256,
        absent_seconds: float = 1.0,
        present_seconds: float = 5.0,
        username: str | None = None,
        password: str | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        if ttl_seconds is not None:
            at_least("ttl_seconds", ttl_seconds, 0.001)
        super().__init__(
            name,
            namespace=namespace,
            threads=threads,
            timeout=timeout,
            io_deadline=io_deadline,
            queued_stores=queued_stores,
            absent_seconds=absent_seconds,
            present_seconds=present_seconds,
            clock=clock,
        )
        try:
            self._url = check_url(url)
            client_library()
        except ConfigError as error:
            raise ConfigError(f"tier {name!r}: {error}") from None
        self._ttl = ttl_seconds
        self._connections = threads + 1
        self._username = username
        self._password = password

    def _connect(self, space: str, block_bytes: int) -> RemoteStore:
        return RedisStore(
            self._url,
            space=space,
            block_bytes=block_bytes,
            ttl_seconds=self._ttl,
            timeout=self._timeout,
            connections=self._connections,
            username=self._username,
            password=self._password,
        )
