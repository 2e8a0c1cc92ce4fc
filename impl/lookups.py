"""Every answer but a plain HIT, which `manager` gives itself because it must be fast."""

from __future__ import annotations

from .blocks import Block, SharedHitPromise
from .cascades import Cascades
from .claims import Claims
from .operations import Explanation
from .primary import PrimaryTier
from .requests import Request, Requests
from .secondary import Secondary
from .step import Step
from .tiers.base import Key
from .transfers import Transfers
from .undecided import Undecided
from .vocabulary import LookupResult, MissReason, Phase

HIT, HIT_PENDING = LookupResult.HIT, LookupResult.HIT_PENDING
RETRY, MISS = LookupResult.RETRY, LookupResult.MISS
RESIDENT, STORING = Phase.RESIDENT, Phase.STORING


class Lookups:
    """Decides what a lookup answers when the block is not simply there."""

    def __init__(
        self,
        primary: PrimaryTier,
        requests: Requests,
        transfers: Transfers,
        cascades: Cascades,
        claims: Claims,
        undecided: Undecided,
        step: Step,
    ) -> None:
        self._primary = primary
        self._requests = requests
        self._transfers = transfers
        self._cascades = cascades
        self._claims = claims
        self._undecided = undecided
        self._step = step
        self.held = False
        """Whether promotions wait for the flush of a reset."""
        self.reason = MissReason.ABSENT
        """Why the last MISS."""

    def decide(self, key: Key, block: Block | None, request: Request) -> LookupResult:
        """The answer for a block that is not RESIDENT. The step has begun."""
        if block is None:
            if self.held:
                self.reason = MissReason.HELD
                return MISS
            # After each call of a tier the block is looked for again: one that serves a peer may
            # have asked for it from within.
            primary = self._primary
            find = primary.blocks.get
            if not primary.free or len(primary.permitted) >= primary.permits:
                # An eviction may have to be decided: first hear what has ended.
                self._transfers.absorb()
                block = find(key)
            verdict: Secondary | MissReason | None = None
            if block is None:
                verdict = self._claims.ask(key, request)
                block = find(key)
            if request.home is None:  # ended from within: nothing is begun or promised for it
                self.reason = MissReason.ABSENT
                return MISS
            if block is None:
                if verdict is None:
                    return RETRY
                if isinstance(verdict, Secondary):
                    return self._promote(key, verdict, request)
                self.reason = verdict
                return MISS
        if block.phase is RESIDENT:
            self.share(block, request)
            return HIT
        if block.phase > STORING:
            self.reason = MissReason.OVERDUE
            return MISS
        permitted = self._primary.permitted
        if block.waits is None or request not in block.waits or block not in permitted:
            self._requests.wait(block, request)
        return HIT_PENDING

    def _promote(self, key: Key, source: Secondary, request: Request) -> LookupResult:
        """Reserve permit and slot and queue the promotion; or change nothing."""
        primary = self._primary
        self.reason = MissReason.FULL
        if len(primary.permitted) >= primary.permits:
            return MISS
        if not primary.free:
            victim = primary.evict()
            if victim is None:
                return MISS
            self._cascades.evicted(victim)
        self._requests.queue(primary.reserve(key), source, request)
        return HIT_PENDING

    def share(self, block: Block, request: Request) -> None:
        """A HIT on a block that was promised to others as well, or that settles a probe."""
        promise, held, epoch = request.promise, block.promise, self._primary.epoch
        if held is None or not held.holds(epoch):
            block.promise = promise
        elif isinstance(held, SharedHitPromise):
            held.members.add(promise)
        else:
            block.promise = SharedHitPromise(epoch, held, promise)
        self._undecided.settle(request, block.key)

    def explain(
        self, key: Key, request: Request, secondaries: tuple[Secondary, ...]
    ) -> Explanation:
        """What a lookup would answer now, and why. Asks the tiers; changes nothing here."""
        words = {
            s.name: "not asked" if s in request.secondaries else "not allowed" for s in secondaries
        }
        answer, reason = self._explain(key, request, words)
        return Explanation(answer, reason, words)

    def _explain(
        self, key: Key, request: Request, words: dict[str, str]
    ) -> tuple[LookupResult, MissReason | None]:
        block = self._primary.blocks.get(key)
        if block is not None:
            if block.phase is RESIDENT:
                return HIT, None
            if block.phase > STORING:
                return MISS, MissReason.OVERDUE
            return HIT_PENDING, None
        if self.held:
            return MISS, MissReason.HELD
        verdict = self._claims.explain(key, request, self._step.now, words)
        if verdict is None:
            return RETRY, None
        if isinstance(verdict, MissReason):
            return MISS, verdict
        if self._primary.can_promote():
            return HIT_PENDING, None
        return MISS, MissReason.FULL
