"""Blocks as objects in a bucket, by obstore, each call with a hard time limit.

    <prefix>/<fingerprint>/<2 hex>/<64 hex>.block    a header of 128 bytes, then the payload

An object is put whole or not at all, and `mode="create"` decides between writers: the first wins,
the others learn that it is there.
"""

from __future__ import annotations

import asyncio
import importlib
import re
import threading
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import suppress
from datetime import timedelta
from functools import partial
from typing import Any, TypeVar
from urllib.parse import urlsplit

from ..errors import ConfigError, CorruptBlockError
from .block_file import SHORT_HEADER
from .mover import RemoteError

_T = TypeVar("_T")
_RETRIES = 2
_RELEASE = 0.001
_BATCH = 500
_NO_BUCKET = "the server has no such bucket"
_SIGNS = {
    "kind: Connect": "the server cannot be reached",
    "kind: Timeout": "the server does not answer in time",
    "NoSuchBucket": _NO_BUCKET,
}
"""What there is in a message of the library, and what we say then."""
_BUCKET = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_OBJECT = re.compile(r"([0-9a-f]{64})\.block$")


def client_library() -> Any:
    """The module obstore.

    Raises:
        ConfigError: it is not installed.
    """
    try:
        return importlib.import_module("obstore")
    except ModuleNotFoundError:
        raise ConfigError(
            "the s3 tier needs the library obstore, which is not installed; "
            "in a clone of TierProof: pip install '.[s3]'"
        ) from None


def check_address(bucket: str, endpoint: str | None) -> None:
    """Refuse what the library would take and then fail with at every call.

    Raises:
        ConfigError: that is no name of a bucket, or no address of a server.
    """
    if not _BUCKET.fullmatch(bucket):
        raise ConfigError(
            f"bucket must be a bucket's name, without s3:// and without a path, not {bucket!r}"
        )
    if endpoint is None:
        return
    try:
        parts = urlsplit(endpoint)
        good = parts.scheme in ("http", "https") and bool(parts.hostname)
        _ = parts.port
    except ValueError:
        good = False
    if not good:
        raise ConfigError("endpoint must be http://HOST:PORT or https://HOST")
    if "@" in parts.netloc:
        raise ConfigError(
            "endpoint must not hold a user or a secret; use access_key_env and secret_key_env, or "
            "the arguments access_key and secret_key"
        )


def s3_bucket(
    bucket: str,
    *,
    endpoint: str | None,
    region: str,
    access_key: str | None,
    secret_key: str | None,
    timeout: float,
) -> Any:
    """An obstore S3 store whose calls end within about `timeout` seconds.

    The library's defaults retry for three minutes: a server that answers nothing would hold every
    worker for so long.

    Raises:
        ConfigError: the library is not installed, or an argument is none that could work.
    """
    client_library()
    check_address(bucket, endpoint)
    if (access_key is None) != (secret_key is None):
        raise ConfigError(
            "access_key and secret_key (access_key_env and secret_key_env in a configuration) must "
            "be given both, or neither"
        )
    store = importlib.import_module("obstore.store")
    keys = {"access_key_id": access_key, "secret_access_key": secret_key, "endpoint": endpoint}
    return store.S3Store(
        bucket,
        region=region,
        **{name: value for name, value in keys.items() if value is not None},
        client_options={
            "timeout": timedelta(seconds=timeout),
            "connect_timeout": timedelta(seconds=timeout / 2),
            "allow_http": bool(endpoint and endpoint.startswith("http://")),
        },
        retry_config={
            "max_retries": _RETRIES,
            "retry_timeout": timedelta(seconds=timeout),
            "backoff": {
                "init_backoff": timedelta(milliseconds=50),
                "max_backoff": timedelta(seconds=1),
                "base": 2,
            },
        },
    )


class Bucket:
    """One namespace in one bucket. `store` is any store of obstore; `timeout` is for each call."""

    def __init__(
        self, store: Any, *, prefix: str, space: str, block_bytes: int, timeout: float
    ) -> None:
        self._obstore = client_library()
        self._errors = importlib.import_module("obstore.exceptions")
        self._store = store
        self._folder = f"{prefix}/{space}" if prefix else space
        self._size = SHORT_HEADER + block_bytes
        self._timeout = timeout
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(
            target=self._loop.run_forever, name="tierproof-bucket", daemon=True
        )
        self._thread.start()

    def put(self, digest: bytes, header: bytes, payload: memoryview, replace: bool) -> bool:
        """Put one object; the library reads the arena row itself."""
        mode = "overwrite" if replace else "create"
        row = payload[:]
        try:
            self._wait(
                lambda: self._obstore.put_async(
                    self._store, self._path(digest), [header, row], mode=mode, use_multipart=False
                )
            )
        except self._errors.AlreadyExistsError:
            return False
        except FileNotFoundError as error:  # nothing else need be there for an object to be put
            raise RemoteError(_NO_BUCKET) from error
        finally:
            _let_go(row)
        return True

    def get(self, digest: bytes, header: memoryview, payload: memoryview) -> bool:
        """Get one object; it is copied when it is all there."""
        try:
            found = self._wait(lambda: self._read(self._path(digest)))
        except FileNotFoundError:
            return False
        if len(found) != self._size:
            raise CorruptBlockError(f"{len(found)} bytes long instead of {self._size}")
        header[:] = found[:SHORT_HEADER]
        payload[:] = found[SHORT_HEADER:]
        return True

    def headers(self, digests: Sequence[bytes]) -> list[bytes | None]:
        """The first bytes of objects, all asked for at once."""
        return self._wait(lambda: self._heads([self._path(digest) for digest in digests]))

    def remove(self, digest: bytes) -> None:
        """Delete one object."""
        with suppress(FileNotFoundError):
            self._wait(lambda: self._obstore.delete_async(self._store, self._path(digest)))

    def remove_all(self) -> None:
        """Delete every object of the namespace."""
        for batch in self._batches():
            with suppress(FileNotFoundError):
                self._wait(partial(self._delete, [item["path"] for item in batch]))

    def blocks(self) -> Iterator[tuple[bytes, int]]:
        """Digests and times of the namespace's objects."""
        for batch in self._batches():
            for item in batch:
                name = _OBJECT.search(item["path"])
                if name and item["size"] == self._size:
                    stamp = int(item["last_modified"].timestamp() * 1e9)
                    yield bytes.fromhex(name[1]), stamp

    def close(self) -> None:
        """End the thread that waits for the server."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(1.0)
        if not self._thread.is_alive():
            self._loop.close()

    # --- parts ---

    def _batches(self) -> Iterator[Sequence[Any]]:
        listing = self._obstore.list(self._store, f"{self._folder}/", chunk_size=_BATCH)
        while batch := self._wait(lambda: _next(listing)):
            yield batch

    async def _delete(self, paths: Sequence[str]) -> None:
        await self._obstore.delete_async(self._store, paths)

    async def _read(self, path: str) -> memoryview:
        result = await self._obstore.get_async(self._store, path)
        if result.meta["size"] > 2 * self._size:  # do not fetch what cannot be a block
            raise CorruptBlockError(f"{result.meta['size']} bytes long instead of {self._size}")
        return memoryview(await result.bytes_async())

    async def _heads(self, paths: Sequence[str]) -> list[bytes | None]:
        return await asyncio.gather(*map(self._head, paths))

    async def _head(self, path: str) -> bytes | None:
        try:
            result = await self._obstore.get_async(
                self._store, path, options={"range": (0, SHORT_HEADER)}
            )
            if result.meta["size"] != self._size:
                return b"of a wrong length"
            return bytes(await result.bytes_async())
        except FileNotFoundError:
            return None
        except self._errors.GenericError:
            if await self._is_shorter(path):  # some servers refuse the range of a short object
                return b"of a wrong length"
            raise

    async def _is_shorter(self, path: str) -> bool:
        meta = await self._obstore.head_async(self._store, path)
        return bool(meta["size"] < SHORT_HEADER)

    def _wait(self, call: Callable[[], Awaitable[_T]]) -> _T:
        async def bounded() -> _T:
            return await asyncio.wait_for(call(), self._timeout)

        future = asyncio.run_coroutine_threadsafe(bounded(), self._loop)
        try:
            return future.result(self._timeout + 5.0)
        except TimeoutError as error:
            future.cancel()
            raise RemoteError("the server does not answer in time") from error
        except (FileNotFoundError, CorruptBlockError, self._errors.AlreadyExistsError):
            raise
        except (self._errors.PermissionDeniedError, self._errors.UnauthenticatedError) as error:
            raise RemoteError("the server refuses this user or secret") from error
        except (self._errors.BaseError, OSError, RuntimeError, asyncio.CancelledError) as error:
            raise RemoteError(_reason(error)) from error

    def _path(self, digest: bytes) -> str:
        name = digest.hex()
        return f"{self._folder}/{name[:2]}/{name}.block"


def _reason(error: BaseException) -> str:
    """What to tell of an error whose own message names the object and the server's address."""
    said = str(error)
    for sign, reason in _SIGNS.items():
        if sign in said:
            return reason
    return f"the server failed ({type(error).__name__})"


async def _next(batches: Any) -> Any:
    return await anext(batches, None)


def _let_go(row: memoryview) -> None:
    """Wait until the library reads a row no more, also after it was told to stop."""
    while True:
        try:
            row.release()
            return
        except BufferError:
            time.sleep(_RELEASE)
