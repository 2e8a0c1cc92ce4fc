"""Blocks on a Redis or Valkey server, by either of the two client libraries.

    tierproof:<fingerprint>:<digest>        the header; written last, so a block is whole
    tierproof:<fingerprint>:<digest>:<n>    pieces of at most 4 MiB of the payload

The server may evict any of the keys at any time. A block whose header is there and one of whose
pieces is not is not there.
"""

from __future__ import annotations

import copy
import importlib
import inspect
import re
from collections.abc import Iterator, Sequence
from typing import Any
from urllib.parse import parse_qs, urlsplit

from ..errors import ConfigError, CorruptBlockError
from .mover import NoRoomError, RemoteError
from .redis_reader import RefusedError, Reply, UnexpectedReplyError, WrongLengthError

PIECE = 4 << 20
_SCAN = 1000
_LINGER = 60
"""Seconds that pieces outlive their header, so that no header is without them at its end."""
_SOCKET = "_sock"
"""Where the connections of both libraries keep their socket."""
_DATABASE = re.compile(r"/?|/\d+")
SCHEMES = ("redis", "rediss", "valkey", "valkeys", "unix")


def client_library() -> Any:
    """The client library: valkey where it is installed, else redis.

    Raises:
        ConfigError: neither is.
    """
    for name in ("valkey", "redis"):
        try:
            return importlib.import_module(name)
        except ModuleNotFoundError:
            continue
    raise ConfigError(
        "the redis tier needs the client library valkey or redis, and neither is installed; "
        "in a clone of TierProof: pip install '.[redis]'"
    )


def check_url(url: str) -> str:
    """A server's address; a user and a password have no place in it.

    Raises:
        ConfigError: it is no address of a server, or holds a password.
    """
    try:
        parts = urlsplit(url)
        secret = parts.password is not None or "password" in parse_qs(parts.query)
        known = parts.scheme in SCHEMES
        _ = parts.port
    except ValueError:
        secret = known = False
    if known and parts.scheme != "unix":
        # The libraries take the database 0 where they cannot read the number.
        known = _DATABASE.fullmatch(parts.path) is not None
    if not known:
        raise ConfigError(
            "url must be redis://HOST:PORT/DB, rediss://HOST:PORT/DB (TLS) or unix:///PATH, with "
            "a number for DB"
        )
    if secret:
        raise ConfigError("url must not hold a password; use password_env or the argument password")
    return url


def _arguments(get_connection: Any) -> tuple[str, ...]:
    """What a pool wants to be told: newer libraries warn of what older ones insist on."""
    wanted = inspect.signature(get_connection).parameters.get("command_name")
    insists = wanted is not None and wanted.default is inspect.Parameter.empty
    return ("MGET",) if insists else ()


def _make_dicts(retry: Any) -> None:
    """Have the dictionaries made in which a library's object keeps its attributes.

    Each new connection makes a deep copy of this one object, several threads at once, and the first
    makes them. CPython 3.11 (3.12 no longer) can collect garbage while it does so; a finalizer that
    lets another thread go on then lets it make a second one of the same memory, and a later
    collection ends the process (a segmentation fault).
    """
    copy.deepcopy(retry)


def _copied(values: Sequence[bytes | None], targets: Sequence[memoryview]) -> bool:
    """Copy values to where they belong; False if one is missing."""
    for value, target in zip(values, targets, strict=True):
        if value is not None:
            if len(value) != target.nbytes:
                raise WrongLengthError(f"{len(value)} bytes instead of {target.nbytes}")
            target[:] = value
    return None not in values


def _library_error(errors: Any, said: str) -> Exception:
    """What the library would have raised for a server's error."""
    kind = {
        "NOAUTH": errors.AuthenticationError,
        "WRONGPASS": errors.AuthenticationError,
        "NOPERM": errors.NoPermissionError,
        "OOM": errors.OutOfMemoryError,
    }.get(said.partition(" ")[0], errors.ResponseError)
    error = kind(said)
    assert isinstance(error, Exception)
    return error


class RedisStore:
    """One namespace on one server; safe to use from `connections` threads at once.

    Args:
        url: Where the server is, see `check_url`.
        space: The namespace, in characters that need no quoting.
        block_bytes: Size of a payload.
        ttl_seconds: After which the server drops a block; None: never by time.
        timeout: Seconds that the server may be silent within one call.
    """

    def __init__(
        self,
        url: str,
        *,
        space: str,
        block_bytes: int,
        ttl_seconds: float | None,
        timeout: float,
        connections: int,
        username: str | None = None,
        password: str | None = None,
    ) -> None:
        self._library = library = client_library()
        self._prefix = f"tierproof:{space}:".encode()
        self._pieces = [
            (start, min(PIECE, block_bytes - start)) for start in range(0, block_bytes, PIECE)
        ]
        self._ttl = None if ttl_seconds is None else max(1, int(ttl_seconds * 1000))
        connection = importlib.import_module(f"{library.__name__}.connection")
        retry = importlib.import_module(f"{library.__name__}.retry")
        backoff = importlib.import_module(f"{library.__name__}.backoff")
        encoder = connection.Encoder("utf-8", "strict", False)
        once = retry.Retry(backoff.NoBackoff(), 0)
        _make_dicts(once)
        if library.__name__ == "valkey":
            url = url.replace("redis", "valkey", 1) if url.startswith("redis") else url
        else:
            url = url.replace("valkey", "redis", 1) if url.startswith("valkey") else url
        pool = connection.BlockingConnectionPool.from_url(
            url,
            max_connections=connections,
            timeout=timeout,
            socket_timeout=timeout,
            socket_connect_timeout=timeout,
            retry=once,
            # The library's fast packer copies what it sends; this one passes arena rows on.
            command_packer=connection.PythonRespSerializer(6000, encoder.encode),
            **{k: v for k, v in (("username", username), ("password", password)) if v is not None},
        )
        self._client = getattr(library, "Valkey", None) or library.Redis
        self._client = self._client(connection_pool=pool)
        self._pool = pool
        self._asking = _arguments(pool.get_connection)

    def put(self, digest: bytes, header: bytes, payload: memoryview, replace: bool) -> bool:
        """Keep a block: the pieces, then the header."""
        if not replace and self.headers([digest])[0] is not None:
            return False
        pieces = self._client.pipeline(transaction=False)
        linger = None if self._ttl is None else self._ttl + _LINGER * 1000
        for number, (start, length) in enumerate(self._pieces):
            pieces.set(self._piece(digest, number), payload[start : start + length], px=linger)
        self._do(pieces.execute)
        self._do(lambda: self._client.set(self._name(digest), header, px=self._ttl))
        return True

    def get(self, digest: bytes, header: memoryview, payload: memoryview) -> bool:
        """Fill header and payload, in one round trip and without a copy on the way."""
        names = [self._piece(digest, number) for number in range(len(self._pieces))]
        targets = [header, *(payload[start : start + length] for start, length in self._pieces)]
        return bool(self._do(lambda: self._receive([self._name(digest), *names], targets)))

    def _receive(self, names: Sequence[bytes], targets: Sequence[memoryview]) -> bool:
        errors = self._library.exceptions
        connection = self._pool.get_connection(*self._asking)
        whole_reply = False
        try:
            connection.send_command("MGET", *names)
            socket = getattr(connection, _SOCKET, None)
            if socket is None:  # a library that keeps it elsewhere: one copy more
                found = _copied(connection.read_response(), targets)
            else:
                found = Reply(socket).values(targets)
            whole_reply = True
            return found
        except RefusedError as refused:
            raise _library_error(errors, str(refused)) from refused
        except UnexpectedReplyError as unexpected:
            raise errors.ResponseError(str(unexpected)) from unexpected
        except WrongLengthError as wrong:
            raise CorruptBlockError(f"a part is wrong: {wrong}") from wrong
        except TimeoutError as error:
            raise errors.TimeoutError("silent for too long") from error
        except OSError as error:
            raise errors.ConnectionError(type(error).__name__) from error
        finally:
            if not whole_reply:  # what is left of the reply must not answer the next command
                connection.disconnect()
            self._pool.release(connection)

    def headers(self, digests: Sequence[bytes]) -> list[bytes | None]:
        """The headers of the blocks of which every piece is there in full length."""
        asked = self._client.pipeline(transaction=False)
        for digest in digests:
            asked.get(self._name(digest))
            for number in range(len(self._pieces)):
                asked.strlen(self._piece(digest, number))
        answers = iter(self._do(asked.execute))
        found: list[bytes | None] = []
        for _ in digests:
            header = next(answers)
            lengths = [next(answers) for _ in self._pieces]
            whole = lengths == [length for _, length in self._pieces]
            found.append(header if whole else None)
        return found

    def remove(self, digest: bytes) -> None:
        """Remove a block, the header first."""
        names = [self._piece(digest, number) for number in range(len(self._pieces))]
        self._do(lambda: self._client.unlink(self._name(digest), *names))

    def remove_all(self) -> None:
        """Remove every key of the namespace."""
        names = self._client.scan_iter(match=self._prefix + b"*", count=_SCAN)
        while batch := self._do(lambda: [name for _, name in zip(range(_SCAN), names)]):  # noqa: B905
            self._do(lambda batch=batch: self._client.unlink(*batch))

    def blocks(self) -> Iterator[tuple[bytes, int]]:
        """Nothing: the server keeps no times, and evicts by itself."""
        return iter(())

    def close(self) -> None:
        """Close all connections; a call that runs ends with an error."""
        self._pool.disconnect()

    def _do(self, call: Any) -> Any:
        errors = self._library.exceptions
        try:
            return call()
        except errors.OutOfMemoryError as error:
            raise NoRoomError("the server's maxmemory is reached") from error
        except errors.TimeoutError as error:
            raise RemoteError("the server does not answer in time") from error
        except (errors.AuthenticationError, errors.NoPermissionError) as error:
            raise RemoteError("the server refuses this user or password") from error
        except errors.ConnectionError as error:
            raise RemoteError("the server cannot be reached") from error
        except errors.InvalidResponse as error:
            raise RemoteError("what answers is no Redis or Valkey server") from error
        except (errors.ResponseError, OSError) as error:
            if str(error).startswith(("OOM", "command not allowed when used memory")):
                raise NoRoomError("the server's maxmemory is reached") from error
            raise RemoteError(f"the server failed ({type(error).__name__})") from error

    def _name(self, digest: bytes) -> bytes:
        return self._prefix + digest.hex().encode()

    def _piece(self, digest: bytes, number: int) -> bytes:
        return b"%b:%d" % (self._name(digest), number)
