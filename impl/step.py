"""The scheduler's step: its number and its one reading of the clock."""

from __future__ import annotations

from collections.abc import Callable


class Step:
    """Where the manager is in time. The clock is read when a step begins and not again."""

    __slots__ = ("_clock", "begun", "now", "number")

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self.number = 0
        self.begun = False
        self.now = clock()
        """Seconds, as of the begin of the last step."""

    def begin(self) -> None:
        """A call found that no step is under way."""
        self.begun = True
        self.now = self._clock()

    def end(self) -> None:
        """The step is over; the next call begins another."""
        self.begun = False
        self.number += 1
