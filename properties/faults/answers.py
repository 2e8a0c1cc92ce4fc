"""Lookups that answer what is not so, ask whom they must not, or lose an exception of a tier."""

from __future__ import annotations

from dataclasses import replace

from ...impl.blocks import Block
from ...impl.claims import Claims
from ...impl.lookups import Lookups
from ...impl.manager import TieredOffloadingManager
from ...impl.requests import Request, Requests
from ...impl.secondary import Secondary
from ...impl.tiers.base import Claim, Key, Poll, RequestInfo
from ...impl.vocabulary import LookupResult, MissReason, Phase
from ...model.rules import RULES
from .making import fault

ANSWERS = "a lookup answers what is not so"
ASKING = "a tier is asked too often, too late, or in vain"
RAISING = "an exception of a tier does more than fail one call"

HIT, HIT_PENDING = LookupResult.HIT, LookupResult.HIT_PENDING
RETRY, MISS = LookupResult.RETRY, LookupResult.MISS


@fault(
    "L1-answer-true",
    ANSWERS,
    "answers",
    case="B03",
    rules=tuple(replace(r, answer="RETRY") if r.name == "promote" else r for r in RULES),
)
class RetryOnPromotion(Lookups):
    """A lookup that starts a promotion answers RETRY."""

    def _promote(self, key: Key, source: Secondary, request: Request) -> LookupResult:
        answer = super()._promote(key, source, request)
        return RETRY if answer is HIT_PENDING else answer


@fault("L1-answer-true", ANSWERS, "answers", case="B03")
class MissBehindUndecided(Claims):
    """A tier has the block, but an earlier one is undecided: the answer is MISS."""

    def ask(self, key: Key, request: Request) -> Secondary | MissReason | None:
        """As usual, but an undecided tier hides those behind it."""
        verdict = super().ask(key, request)
        hidden = isinstance(verdict, Secondary) and key in request.probes
        return MissReason.ABSENT if hidden else verdict


@fault("L1-answer-true", ANSWERS, "answers", case="B03")
class MissWhenUndecided(Claims):
    """A tier is undecided and the answer is MISS: a promotion is given up before it began."""

    def ask(self, key: Key, request: Request) -> Secondary | MissReason | None:
        """As usual, but undecided is taken for absent."""
        verdict = super().ask(key, request)
        return MissReason.ABSENT if verdict is None else verdict


@fault("L1-answer-true", ANSWERS, "room", case="B03")
class RetryWhenFull(Lookups):
    """No permit or slot is to be had, and the answer is RETRY instead of MISS."""

    def _promote(self, key: Key, source: Secondary, request: Request) -> LookupResult:
        answer = super()._promote(key, source, request)
        return RETRY if answer is MISS else answer


@fault("L1-answer-true", ANSWERS, "promises", case="B25")
class HitBeforeLanded(Lookups):
    """A block that a tier is still writing is answered HIT."""

    def decide(self, key: Key, block: Block | None, request: Request) -> LookupResult:
        """As usual, but what is submitted counts as landed."""
        answer = super().decide(key, block, request)
        return HIT if block is not None and block.phase is Phase.LOADING else answer


@fault("L1-answer-true", ANSWERS, "stores", case="B10")
class HitBeforeStored(Lookups):
    """A block that the GPU is still writing is answered HIT."""

    def decide(self, key: Key, block: Block | None, request: Request) -> LookupResult:
        """As usual, but what has a slot counts as stored."""
        answer = super().decide(key, block, request)
        return HIT if block is not None and block.phase is Phase.STORING else answer


@fault("L2-until-landed", ANSWERS, "promises", case="B33")
class MissForTheSecondAsker(Lookups):
    """A block that another request is promoting is answered MISS."""

    def decide(self, key: Key, block: Block | None, request: Request) -> LookupResult:
        """As usual, but a promotion is its asker's alone."""
        stranger = (
            block is not None
            and block.phase in (Phase.QUEUED, Phase.LOADING)
            and block.waits is not None
            and request not in block.waits
        )
        return MISS if stranger else super().decide(key, block, request)


@fault("L3-until-read", ANSWERS, "stores", case="B13")
class RetryForAWaiter(Lookups):
    """Who waits on a store and asks again is answered RETRY."""

    def decide(self, key: Key, block: Block | None, request: Request) -> LookupResult:
        """As usual, but a wait is answered once."""
        again = block is not None and block.phase is Phase.STORING and block in request.waits
        answer = super().decide(key, block, request)
        return RETRY if again else answer


@fault("L5-tiers-asked", ASKING, "answers")
class AsksAllTiers(Claims):
    """Tiers behind the first that has the block are asked as well."""

    def ask(self, key: Key, request: Request) -> Secondary | MissReason | None:
        """As usual, and then the rest."""
        verdict = super().ask(key, request)
        if isinstance(verdict, Secondary):
            for later in request.secondaries[request.secondaries.index(verdict) + 1 :]:
                later.claim(key, request.info)
        return verdict


@fault("L5-tiers-asked", ASKING, "answers")
class AsksBackwards(Requests):
    """The last tier is asked first."""

    def begin(
        self, request_id: str, tier_filter: object, excluded: Secondary | None = None
    ) -> Request:
        """As usual, but in the wrong order."""
        request = super().begin(request_id, tier_filter, excluded)  # type: ignore[arg-type]
        request.secondaries = request.secondaries[::-1]
        return request


@fault("L5-tiers-asked", ASKING, "failures")
class IgnoresTheFilter(Lookups):
    """A request's filter is forgotten once a tier has failed for it."""

    def decide(self, key: Key, block: Block | None, request: Request) -> LookupResult:
        """As usual, but every tier is asked for a key whose claim was retracted anywhere."""
        allowed, every = request.secondaries, self._transfers._secondaries
        if any(key in secondary.retracted for secondary in every):
            request.secondaries = every
        try:
            return super().decide(key, block, request)
        finally:
            request.secondaries = allowed


@fault("L5-tiers-asked", ASKING, "promises", case="B65")
class AsksThoughPromised(Lookups):
    """The tiers are asked although the block is on its way."""

    def decide(self, key: Key, block: Block | None, request: Request) -> LookupResult:
        """As usual, after a question too many."""
        if block is not None and request.secondaries:
            request.secondaries[0].claim(key, request.info)
        return super().decide(key, block, request)


@fault("L5-tiers-asked", ASKING, "probes", case="B31")
class ProbeTimeoutForgotten(Claims):
    """A tier that was undecided too long is asked again at once."""

    def ask(self, key: Key, request: Request) -> Secondary | MissReason | None:
        """As usual, but nothing stays timed out."""
        verdict = super().ask(key, request)
        request.timed_out.clear()
        return verdict


@fault("L5-tiers-asked", ASKING, "promises", "failures", case="B05")
class StaleAnswer(Claims):
    """What the tiers said to one request is told to the next one, who has a right to ask."""

    def ask(self, key: Key, request: Request) -> Secondary | MissReason | None:
        """As usual, but the absence of a key is remembered beyond the request."""
        known: dict[Key, int] = self.__dict__.setdefault("_known", {})
        if known.get(key, request.handle) != request.handle:
            return MissReason.ABSENT
        verdict = super().ask(key, request)
        if verdict is MissReason.ABSENT:
            known.setdefault(key, request.handle)
        return verdict


@fault("F3-tier-raises", RAISING, "answers", case="B30")
class LookupRaises(Secondary):
    """An exception of a tier's lookup reaches the caller."""

    __slots__ = ()

    def claim(self, key: Key, request: RequestInfo) -> Claim | None:
        """Unguarded."""
        return self.tier.lookup(key, request)


@fault("F3-tier-raises", RAISING, "answers", case="B30")
class RaisingIsUndecided(Secondary):
    """A tier that raises is asked again and again, as if it were undecided."""

    __slots__ = ()

    def claim(self, key: Key, request: RequestInfo) -> Claim | None:
        """As usual, but an exception is no answer."""
        answer = super().claim(key, request)
        return Claim.UNDECIDED if answer is None else answer


@fault("F3-tier-raises", RAISING, "answers", case="B30")
class RaisingHidesLaterTiers(Claims):
    """One tier raises, and those behind it are not asked."""

    def ask(self, key: Key, request: Request) -> Secondary | MissReason | None:
        """As usual, up to the first exception."""
        allowed = request.secondaries
        for at, secondary in enumerate(allowed):
            if "raise on lookup" in getattr(secondary.tier, "moods", ()):
                request.secondaries = allowed[: at + 1]
        try:
            return super().ask(key, request)
        finally:
            request.secondaries = allowed


@fault("F3-tier-raises", RAISING, "batches", case="B35")
class PollRaises(Secondary):
    """An exception of a tier's poll reaches whoever happened to begin the step."""

    __slots__ = ()

    def poll(self) -> Poll:
        """Unguarded."""
        return self.tier.poll()


@fault("F3-tier-raises", RAISING, "batches", case="B30")
class SubmitRaises(Secondary):
    """An exception of `submit_load` ends the step for everybody."""

    __slots__ = ()

    def submit_load(self, job: object) -> bool:
        """Unguarded."""
        self.tier.submit_load(job)  # type: ignore[arg-type]
        return True


@fault("S4-operations", ANSWERS, "after the end", case="B20")
class FinishedMayAsk(TieredOffloadingManager):
    """A request that has ended is answered as if it lived."""

    def lookup(self, key: Key, request: Request) -> LookupResult:
        """As usual, but with a handle that is made valid again."""
        if request.home is None:
            return MISS
        return super().lookup(key, request)
