"""Releases of vLLM are used where they are in the cache; without them their tests are skipped."""

import pytest

from tierproof.properties.vllm_cache import cache_folder, is_cached

PINNED = "0.33.0"
"""The release that CI fetches; all others are for the nightly run."""
RELEASES = (
    *("0.22.1", "0.24.0", "0.25.1", "0.27.1", "0.28.0"),
    *("0.30.0", "0.31.0", "0.32.0", PINNED),
)


def pytest_generate_tests(metafunc):
    if "release" in metafunc.fixturenames:
        every = [
            version if version == PINNED else pytest.param(version, marks=pytest.mark.nightly)
            for version in RELEASES
        ]
        metafunc.parametrize("release", every)


def needed(version):
    """Skip a test whose release is not here."""
    if not is_cached(version):
        pytest.skip(
            f"vLLM {version} is not in the cache {cache_folder()}; "
            f"fetch it once: tierproof fetch-vllm {version}"
        )


@pytest.fixture(autouse=True)
def _release_is_here(request):
    if "release" in request.fixturenames:
        needed(request.getfixturevalue("release"))


@pytest.fixture
def pinned():
    """The one release that this process loads."""
    needed(PINNED)
    return PINNED
