"""The object-store tier: a bucket, shared by the hosts that use it."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from typing import Any

from ..errors import ConfigError
from ..keys import Namespace
from .base import Poll, claims_all_but
from .block_tier import at_least
from .bucket import Bucket, client_library, s3_bucket
from .remote_mover import RemoteStore
from .remote_tier import RemoteTier

_PREFIX = re.compile(r"[A-Za-z0-9._-]+(/[A-Za-z0-9._-]+)*")


class ObjectStoreTier(RemoteTier):
    """Keeps blocks as objects in a bucket; claims `T1` to `T11`, the capacity as a best effort.

    Args:
        bucket: Name of an S3 bucket that exists, or any store of `obstore.store` (GCS, Azure, ...).
        endpoint: Where the server is, `http://` or `https://`; None: AWS itself.
        region: As the server wants it.
        access_key: Name of the user; None: as the AWS environment says.
        secret_key: Its secret; never logged.
        prefix: Under which all objects are; letters, digits, `.`, `_`, `-` and `/`.
        namespace: What changes the bytes or keeps users apart and is not in the keys.
        name: The tier's name within its manager.
        capacity_blocks: Blocks of this namespace that the bucket should hold at most; the oldest go
            when this tier stores, and about once a minute. None: no bound, as life-cycle rules of
            the bucket do it better.
        max_age_seconds: Blocks that were written longer ago go about once a minute.
        threads: Blocks that are moved at once.
        timeout: Seconds after which any call to the server has failed.
        io_deadline: Seconds after which I/O that has not begun is cancelled and reported failed;
            None: never.
        queued_stores: Blocks that may wait to be stored; stores beyond are refused.
        absent_seconds: How long, after it was first told, an ABSENT is not asked for again.
        present_seconds: How long a PRESENT is believed before the server is asked again.
        trim_seconds: How often capacity and age are looked after.
        clock: Monotonic time in seconds.

    Raises:
        ConfigError: an argument is out of range, or the library is not installed.
    """

    claims = claims_all_but()

    def __init__(
        self,
        bucket: str | Any,
        *,
        endpoint: str | None = None,
        region: str = "us-east-1",
        access_key: str | None = None,
        secret_key: str | None = None,
        prefix: str = "tierproof",
        namespace: str | bytes | Namespace = "",
        name: str = "s3",
        capacity_blocks: int | None = None,
        max_age_seconds: float | None = None,
        threads: int = 4,
        timeout: float = 10.0,
        io_deadline: float | None = 30.0,
        queued_stores: int = 256,
        absent_seconds: float = 1.0,
        present_seconds: float = 60.0,
        trim_seconds: float = 60.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        at_least("trim_seconds", trim_seconds, 0.001)
        if prefix and (not _PREFIX.fullmatch(prefix) or ".." in prefix):
            raise ConfigError(
                f"tier {name!r}: prefix must be letters, digits, '.', '_', '-' and single '/' "
                "between them"
            )
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
            capacity_blocks=capacity_blocks,
            max_age_seconds=max_age_seconds,
        )
        try:
            client_library()
            self._store = bucket
            if isinstance(bucket, str):
                self._store = s3_bucket(
                    bucket,
                    endpoint=endpoint,
                    region=region,
                    access_key=access_key,
                    secret_key=secret_key,
                    timeout=timeout,
                )
        except ConfigError as error:
            raise ConfigError(f"tier {name!r}: {error}") from None
        self._prefix = prefix
        self._trim_seconds = trim_seconds
        self._trim_at = clock() + trim_seconds

    def _connect(self, space: str, block_bytes: int) -> RemoteStore:
        return Bucket(
            self._store,
            prefix=self._prefix,
            space=space,
            block_bytes=block_bytes,
            timeout=self._timeout,
        )

    def poll(self) -> Poll:
        """Finished jobs; now and then it has a worker look after capacity and age."""
        if self._clock() >= self._trim_at:
            self._trim_at = self._clock() + self._trim_seconds
            self._pool.chore(self._mover.list_blocks)
        return super().poll()
