"""One proof of the shipped table for all tests that look at it."""

import pytest

from tierproof.properties.proof import Verdict, prove


@pytest.fixture(scope="session")
def verdicts() -> list[Verdict]:
    return prove()
