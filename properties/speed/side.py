"""One manager on the bench: how it is filled and driven, and the loops that are timed.

A timed loop calls the manager's own methods and nothing else, so that no wrapper of ours is in a
figure. What a loop is given is made before the clock starts.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol

from .clock import now, since

GROUP = (0).to_bytes(4, "big")
FILL_BATCH = 1024
PATIENCE = 100

Keys = Sequence[bytes]


class WrongAnswerError(Exception):
    """The manager on the bench did not do what the row measures: its figures mean nothing."""


def keys_of(numbers: Iterable[int]) -> list[bytes]:
    """Block keys as vLLM makes them: a hash of 32 bytes and the number of the cache group.

    New objects every time, whose hash Python has not cached, as a new request's keys are.
    """
    return [number.to_bytes(32, "big") + GROUP for number in numbers]


class InstantTier(Protocol):
    """A secondary tier that costs as good as nothing, the same on both sides.

    It has the keys in `keys` and no others: what is stored there is forgotten at once. A job ends
    when the bench says so.
    """

    keys: set[bytes]

    def report(self, ok: bool) -> int:
        """Let every job that was submitted end, well or not; how many blocks that were."""


class Side(ABC):
    """A manager with `resident` blocks, once they are filled in, and room for `spare` more.

    Args:
        resident: how many blocks there are before anything is measured.
        spare: slots that are free then.
        tiers: how many secondary tiers there are.
    """

    name: str
    """What the report calls it."""
    manager: Any
    """Both managers' calls of one name take the same; the other loops are each side's own."""

    def __init__(self, *, resident: int, spare: int, tiers: int) -> None:
        self.resident = resident
        self.spare = spare
        self.tiers: Sequence[InstantTier] = self.build(resident + spare, tiers)

    def fill(self) -> None:
        """Store the blocks 0 to `resident` - 1."""
        for first in range(0, self.resident, FILL_BATCH):
            self.store_all(keys_of(range(first, min(first + FILL_BATCH, self.resident))))

    # -- preparing, not timed ---------------------------------------------------------------------

    @abstractmethod
    def build(self, slots: int, tiers: int) -> Sequence[InstantTier]:
        """Make `manager` and its tiers, which hold nothing."""

    @abstractmethod
    def begin(self, name: str, keys: Keys) -> Any:
        """A new request, which will speak of these keys in this order."""

    def finish(self, request: Any) -> None:
        """The request has ended; the tiers hear of it at once or when the step ends."""
        self.manager.on_request_finished(request)

    @abstractmethod
    def store(self, keys: Keys, request: Any, *, ok: bool) -> None:
        """Store all of the keys in one operation, which ends well or not.

        Raises:
            WrongAnswerError: not all of them were accepted.
        """

    def pending(self) -> bool:
        """Does the manager say that work is pending?"""
        return bool(self.manager.has_pending_work())

    def close(self) -> None:
        """Stop the manager and let its memory go."""
        self.manager.shutdown()

    def store_all(self, keys: Keys, *, ok: bool = True) -> None:
        """A request stores the keys, the tiers get them, and it ends; evicts what it must."""
        request = self.begin("filler", keys)
        self.store(keys, request, ok=ok)
        self.settle(request)

    def settle(self, *requests: Any, ok: bool = True) -> None:
        """The requests end, jobs end, and steps go by until nothing is left to happen.

        Raises:
            WrongAnswerError: something is still to happen after `PATIENCE` steps.
        """
        for request in requests:
            self.finish(request)
        for _ in range(PATIENCE):
            self.steps(1)
            if not self.report(ok) and not self.pending():
                self.steps(1)  # in which tiers say that what failed is verified anew
                return
        raise WrongAnswerError(f"work is pending {PATIENCE} steps after all requests have ended")

    def report(self, ok: bool) -> int:
        """Let the tiers' jobs end; how many blocks they moved."""
        return sum(tier.report(ok) for tier in self.tiers)

    def make_room(self, numbers: Iterable[int]) -> None:
        """Free as many slots as there are numbers: a store that evicts for them, and then fails."""
        self.store_all(keys_of(numbers), ok=False)

    def expect(self, answer: str, keys: Keys, request: Any) -> None:
        """Look that lookups answer what the row is about.

        Raises:
            WrongAnswerError: one answers otherwise.
        """
        for key in keys:
            said = self.lookup(key, request).name
            if said != answer:
                raise WrongAnswerError(f"a lookup answered {said} where {answer} is measured")

    # -- timed: seconds of the loop ---------------------------------------------------------------

    @property
    def lookup(self) -> Callable[[bytes, Any], Any]:
        """The manager's own `lookup(key, request)`."""
        return self.manager.lookup  # type: ignore[no-any-return]

    def lookups(self, keys: Keys, request: Any) -> float:
        """One lookup for each key."""
        lookup = self.lookup
        began = now()
        for key in keys:
            lookup(key, request)
        return since(began)

    def scan(self, keys: Keys, request: Any) -> float:
        """All keys by the fastest call that the manager has for it."""
        return self.lookups(keys, request)

    @abstractmethod
    def steps(self, number: int) -> float:
        """The end of so many steps."""

    def pending_work(self, number: int) -> float:
        """So many times: is there work that needs a further step?"""
        ask = self.manager.has_pending_work
        began = now()
        for _ in range(number):
            ask()
        return since(began)

    @abstractmethod
    def loads(self, batches: Sequence[Keys], request: Any) -> float:
        """For each batch: prepare a load to the GPU, and complete it."""

    @abstractmethod
    def stores(self, batches: Sequence[Keys], request: Any) -> float:
        """For each batch: prepare a store from the GPU, and complete it."""

    @abstractmethod
    def finishes(self, requests: Sequence[Any]) -> float:
        """Each request ends, and the tiers hear of it."""
