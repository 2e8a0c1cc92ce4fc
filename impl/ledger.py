"""Counts what lookups said: once for each request and key, however often it asks.

A lookup that is decided at once is a synchronous delay, also when it starts a promotion. One that
was deferred (RETRY) and resolves later is an asynchronous delay, counted when it resolves. To
measure the first kind the clock is read around each lookup that asks tiers; uncounted managers read
it once a step.
"""

from __future__ import annotations

from collections.abc import Callable

from .blocks import Block
from .claims import Claims
from .lookups import Lookups
from .metrics import Totals
from .requests import Request
from .secondary import Secondary, logger
from .step import Step
from .tiers.base import Claim, Key
from .vocabulary import LookupResult

HIT, HIT_PENDING = LookupResult.HIT, LookupResult.HIT_PENDING
RETRY, MISS = LookupResult.RETRY, LookupResult.MISS


class CountedLookups:
    """Stands between the manager and `Lookups` when lookups are counted.

    Whatever goes wrong in the counting is logged once; the answer does not depend on it.
    """

    def __init__(
        self,
        lookups: Lookups,
        claims: Claims,
        totals: Totals,
        step: Step,
        clock: Callable[[], float],
    ) -> None:
        claims.observer = self._hear
        self._lookups = lookups
        self._totals = totals
        self._step = step
        self._clock = clock
        self._complained = False

    def decide(self, key: Key, block: Block | None, request: Request) -> LookupResult:
        """As `Lookups.decide`, counted."""
        begin = self._clock()
        answer = self._lookups.decide(key, block, request)
        self._count(key, request, answer, None if block else self._clock() - begin)
        return answer

    def share(self, block: Block, request: Request) -> None:
        """As `Lookups.share`, counted."""
        self._lookups.share(block, request)
        self._count(block.key, request, HIT, None)

    def _hear(self, secondary: Secondary, key: Key, request: Request, claim: Claim | None) -> None:
        """A tier was asked: count its first decided answer."""
        asked = request.asked
        if asked is not None and claim is not Claim.UNDECIDED:
            bits = asked.get(key, 0)
            if not bits & secondary.bit:
                asked[key] = bits | secondary.bit
                secondary.totals.queries += 1
                secondary.totals.hits += claim is Claim.PRESENT

    def _count(
        self, key: Key, request: Request, answer: LookupResult, seconds: float | None
    ) -> None:
        try:
            self.record(key, request, answer, seconds)
        except Exception as error:
            if not self._complained:
                self._complained = True
                logger.warning("lookups are not counted: %s", type(error).__name__)

    def record(
        self, key: Key, request: Request, answer: LookupResult, seconds: float | None
    ) -> None:
        """Count an answer unless it was counted; `seconds` it took to ask the tiers."""
        totals, seen = self._totals, request.seen
        if seen is None:  # the request was allocated: what it asks now is not a new question
            return
        if key not in seen:
            totals.lookup_queries += 1
            deferred = None
        elif (deferred := seen[key]) is None:
            return
        if answer is RETRY:
            seen[key] = self._step.now if deferred is None else deferred
            return
        seen[key] = None
        if deferred is not None:
            totals.lookup_async.observe(self._step.now - deferred)
        elif seconds is not None:
            totals.lookup_sync.observe(seconds)
        if answer is not MISS:
            totals.lookup_hits += 1
        else:
            totals.lookup_misses[self._lookups.reason] += 1

    def close(self, request: Request) -> None:
        """The request runs or has ended: what never resolved is counted as what it was."""
        if request.seen is not None:
            self._totals.lookup_undecided += sum(s is not None for s in request.seen.values())
            request.seen = request.asked = None
