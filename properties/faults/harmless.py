"""Variants that differ from the shipped manager only where the specification leaves the choice."""

from __future__ import annotations

from collections.abc import Iterable

from ...impl.blocks import Block, Epoch
from ...impl.manager import TieredOffloadingManager
from ...impl.operations import LoadOperation
from ...impl.policies import LeastRecentlyUsed
from ...impl.requests import Request
from ...impl.tiers.base import Key
from ...impl.transfers import Transfers
from ...impl.vocabulary import LookupResult
from .making import harmless


@harmless
class NewestGoesFirst(LeastRecentlyUsed):
    """Of the blocks that may go, the one that was used last is evicted."""

    def victim(self, epoch: Epoch) -> Block | None:
        """From the other end."""
        last = None
        for block in self.order():
            promised = block.promise is not None and block.promise.holds(epoch)
            if not block.pins and block.waits is None and not promised:
                last = block
        return last


@harmless
class LastTierFirst(Transfers):
    """Jobs of one step are submitted to the last tier first."""

    def submit_queued(self) -> None:
        """As usual, but tiers in reverse; a job's keys keep their order."""
        queued = self._requests.queued
        tiers = list(dict.fromkeys(block.writer.secondary for block in queued))  # type: ignore[union-attr]
        order = [
            block
            for tier in reversed(tiers)
            for block in queued
            if block.writer.secondary is tier  # type: ignore[union-attr]
        ]
        queued.clear()
        queued.update(dict.fromkeys(order))
        super().submit_queued()


@harmless
class PollsEarly(TieredOffloadingManager):
    """Tiers are polled before each lookup and load, not only where it is required."""

    def lookup(self, key: Key, request: Request) -> LookupResult:
        """As usual, after a poll."""
        self._renew(request)
        self._transfers.absorb()
        return super().lookup(key, request)

    def lookup_many(self, keys: Iterable[Key], request: Request) -> list[LookupResult]:
        """As usual, after a poll for each key."""
        return [self.lookup(key, request) for key in keys]

    def prepare_load(self, keys: Iterable[Key], request: Request) -> LoadOperation:
        """As usual, after a poll."""
        self._renew(request)
        self._transfers.absorb()
        return super().prepare_load(keys, request)


@harmless
class PollsBetweenKeys(TieredOffloadingManager):
    """Within a lookup of several keys, tiers are polled after the first key, and only there."""

    def lookup_many(self, keys: Iterable[Key], request: Request) -> list[LookupResult]:
        """As usual, but for a poll that nobody can see the place of."""
        answers = []
        for number, key in enumerate(keys):
            if number == 1:
                self._transfers.absorb()
            answers.append(self.lookup(key, request))
        return answers
