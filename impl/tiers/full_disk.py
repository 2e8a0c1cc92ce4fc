"""What a disk that is full below the capacity has taught: what it holds, and if evicting helps."""

from __future__ import annotations

from collections.abc import Callable

BOUND_SECONDS = 60.0
"""For how long what a disk held when it refused bytes bounds the folder."""
_IN_VAIN = 4
_LONGEST = 3600.0


class FullDisk:
    """A disk as the stores of one tier find it; `clock` gives seconds.

    Where no store gets through although blocks made way (a quota, a snapshot that keeps what is
    deleted), evicting would empty the cache for nothing. After a few such stores no block goes for
    a minute, then one, and so on, each time after twice as long, up to an hour, until a store
    lands. (Stores of other threads that begin just then may take one each.)
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._holds = 0
        """The most bytes that the disk had room for, until `_holds_until`."""
        self._holds_until = self._helpless_until = self._helpless_for = 0.0
        self._in_vain = 0

    def bound(self, limit: int) -> int:
        """`limit`, or what the disk holds where that is less; both in bytes."""
        return min(limit, self._holds) if self._clock() < self._holds_until else limit

    def refused(self, used: int, limit: int) -> None:
        """The disk has refused bytes while `used` were in use; a block goes for the next store."""
        self._holds = min(used, self.bound(limit))
        self._holds_until = self._clock() + BOUND_SECONDS
        if self._helpless_for:  # only one until that has helped
            self._give_up()

    def forget(self) -> None:
        """No block can go, so only trying can tell whether there is room."""
        self._holds_until = self._clock()

    def landed(self) -> None:
        """A store has landed."""
        self._in_vain, self._helpless_for = 0, 0.0

    def failed(self) -> None:
        """A store has failed although blocks could make way for it."""
        self._in_vain += 1
        if self._in_vain >= _IN_VAIN:
            self._give_up()

    @property
    def helpless(self) -> bool:
        """Whether no block should make way, because that has not helped."""
        return bool(self._helpless_for) and self._clock() < self._helpless_until

    @property
    def has_room(self) -> bool:
        """Whether the disk has refused nothing since it was tried again.

        Not at once: the first of many threads that tries tells nothing about the others.
        """
        return self._clock() >= self._holds_until + BOUND_SECONDS

    def _give_up(self) -> None:
        if self.helpless:  # another thread has come to that just now
            return
        self._helpless_for = min(max(2 * self._helpless_for, BOUND_SECONDS), _LONGEST)
        self._helpless_until = self._clock() + self._helpless_for
