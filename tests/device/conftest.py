"""Device tests need torch; on the build machine (CI is set) its absence is a failure."""

from __future__ import annotations

import os

import pytest

try:
    import torch
except ModuleNotFoundError:
    if os.environ.get("CI"):
        raise
    collect_ignore_glob = ["test_*.py"]
else:
    # Copies of a few bytes: a pool of threads costs more than it gives.
    torch.set_num_threads(1)


@pytest.fixture(autouse=True)
def _seeded() -> None:
    torch.manual_seed(1)
