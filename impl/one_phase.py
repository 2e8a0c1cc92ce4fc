"""The one-phase consumer: what schedulers do today, kept as the thing to measure against.

It finds the hit by single lookups, each of which may start a promotion, so it promotes blocks
before it knows whether the hit reads them. Full groups are scanned first, from the left; then
windows from the right, for a run as long as the boundary needs. A group's number shortens what the
next ones look for, until nothing changes; a deferral does not, and asks again in the next step.
"""

from __future__ import annotations

from .answers import WAIT, Answer, Asked
from .geometry import Lane
from .manager import TieredOffloadingManager
from .vocabulary import LookupResult

HIT, HIT_PENDING = LookupResult.HIT, LookupResult.HIT_PENDING
RETRY, MISS = LookupResult.RETRY, LookupResult.MISS


class OnePhase:
    """One waiting request, scanned from its start in every pass.

    Args:
        retry: take a promotion that is under way for RETRY, as managers answered before
            HIT_PENDING; such an answer counts as no hit and does not stop the scan.
    """

    def __init__(self, manager: TieredOffloadingManager, asked: Asked, *, retry: bool) -> None:
        self._manager = manager
        self._asked = asked
        self._pending = RETRY if retry else HIT_PENDING

    def ask(self) -> Answer:
        """Scan; load the hit at once when every lookup was decided."""
        hit = self._scan()
        if hit is None:
            return WAIT
        asked = self._asked
        chunks = asked.geometry.reads(asked.prompt, hit)
        if not chunks:
            return Answer(asked.prompt.on_gpu)
        return Answer(hit, self._manager.prepare_load(asked.keys(chunks), asked.request))

    def _scan(self) -> int | None:
        """Tokens of the hit, 0 when there is none; None when it is deferred."""
        geometry = self._asked.geometry
        limit, before = geometry.limit(self._asked.prompt), -1
        deferred = False
        while limit != before:
            before, deferred = limit, False
            for group in geometry.in_order():
                full = geometry.lanes[group].full
                number = (self._prefix if full else self._run)(group, limit)
                if number is None:
                    deferred = True
                elif number <= self._asked.prompt.on_gpu:
                    return 0
                else:
                    limit = min(limit, number)
        return None if deferred else limit

    def _lookup(self, group: int, chunk: int) -> LookupResult:
        key = self._asked.key_of(group, chunk)
        answer = self._manager.lookup(key, self._asked.request)
        return self._pending if answer is HIT_PENDING else answer

    def _range(self, lane: Lane, limit: int) -> range:
        prompt = self._asked.prompt
        end = -(-limit // lane.chunk) + lane.draft
        return range(prompt.on_gpu // lane.chunk, min(end, lane.complete(prompt.tokens)))

    def _prefix(self, group: int, limit: int) -> int | None:
        """A full group: how many tokens from the left are there; None when deferred."""
        lane, deferred = self._asked.geometry.lanes[group], False
        chunks = self._range(lane, limit)
        end = chunks.start
        for chunk in chunks:
            answer = self._lookup(group, chunk)
            if answer is MISS:
                break
            deferred = deferred or answer is not HIT
            end = chunk + 1
        return None if deferred else min(limit, max(0, end - lane.draft) * lane.chunk)

    def _run(self, group: int, limit: int) -> int | None:
        """A window group: the last boundary whose run is there; None when deferred."""
        lane, on_gpu = self._asked.geometry.lanes[group], self._asked.prompt.on_gpu
        if lane.recurrent:
            limit = limit // lane.chunk * lane.chunk
        if limit > on_gpu and not lane.asks(limit, on_gpu):
            return limit
        retry = pending = False
        streak, boundary = 0, 0
        for chunk in reversed(self._range(lane, limit)):
            answer = self._lookup(group, chunk)
            if answer is RETRY or answer is MISS:
                streak = 0
                retry = retry or answer is RETRY
                pending = pending and answer is RETRY
                continue
            if not streak:
                boundary = min(limit, (chunk + 1 - lane.draft) * lane.chunk)
            streak += 1
            pending = pending or answer is HIT_PENDING
            if streak >= len(lane.asks(boundary, on_gpu)):
                return None if retry or pending else boundary
        return None if retry else 0
