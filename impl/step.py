"""The scheduler's step: its number and its one reading of the clock."""

from __future__ import annotations

from collections.abc import Callable


class Step:
    """Where the manager is in time: within a step the clock is read once, when it begins."""

    __slots__ = ("_clock", "begun", "now", "number")

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self.number = 0
        self.begun = False
        self.now = clock()
        """Seconds, as of the begin of this step; between steps, as of the last call that dated
        something."""

    def begin(self) -> None:
        """A call found that no step is under way."""
        self.begun = True
        self.look()

    def date(self) -> None:
        """A call between two steps starts or ends something that has a date."""
        if not self.begun:
            self.look()

    def look(self) -> None:
        """Read the clock."""
        self.now = self._clock()

    def end(self) -> None:
        """The step is over; the next call begins another."""
        self.begun = False
        self.number += 1
