"""Real servers for the tier tests: started when first needed, skipped with a reason where missing.

On the build machine (CI is set) a missing server is a failure.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tierproof.properties.servers import NoServerError, RedisServer, SeaweedServer, Server


def started(make: Callable[[Path], Server], folder: Path) -> Server:
    """A running server, or the end of the test that wants it."""
    try:
        server = make(folder)
        server.start()
    except NoServerError as error:
        if os.environ.get("CI"):
            pytest.fail(str(error))
        pytest.skip(str(error))
    return server


@pytest.fixture(scope="session")
def redis(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A Redis server that all tests share: nobody may stop it."""
    server = started(RedisServer, tmp_path_factory.mktemp("redis"))
    yield server
    server.stop()


@pytest.fixture(scope="session")
def seaweed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A SeaweedFS server that all tests share: nobody may stop it."""
    server = started(SeaweedServer, tmp_path_factory.mktemp("seaweed"))
    yield server
    server.stop()


@pytest.fixture
def own_redis(tmp_path: Path) -> Iterator[Server]:
    """A Redis server of the test's own, to be killed."""
    server = started(RedisServer, tmp_path / "redis")
    yield server
    server.stop()


@pytest.fixture
def own_seaweed(tmp_path: Path) -> Iterator[Server]:
    """A SeaweedFS server of the test's own, to be killed."""
    server = started(SeaweedServer, tmp_path / "seaweed")
    yield server
    server.stop()
