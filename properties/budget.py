"""Seconds that a trial may take, shared among what it does."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

SECONDS = 60.0
"""What holding one manager or tier to its contracts may take when nothing else is said."""


class Budget:
    """Counts what is spent within `part`, and nothing that happens between two parts.

    Args:
        seconds: all that may be spent.
        clock: monotonic, in seconds; the same in a forked process.
    """

    def __init__(
        self, seconds: float = SECONDS, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.seconds = seconds
        self.spent = 0.0
        self._clock = clock

    @property
    def left(self) -> float:
        """Seconds that are left, never negative."""
        return max(0.0, self.seconds - self.spent)

    @contextmanager
    def part(self, share: float = 1.0) -> Iterator[Callable[[], bool]]:
        """Spend at most this share of what is left; yields a function that says when it is over.

        Nothing is interrupted: whoever spends asks.
        """
        began = self._clock()
        until = began + share * self.left
        try:
            yield lambda: self._clock() >= until
        finally:
            self.spent += self._clock() - began
