"""The calls of a manager that plan loads: the half of its interface that has two phases."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from .arguments import distinct, listed
from .operations import LoadPlan
from .plans import Plans
from .requests import Request, Requests
from .tiers.base import Key
from .vocabulary import LookupResult


class LoadPlanning:
    """Resolve first, then promote exactly what is read; `TieredOffloadingManager` inherits it."""

    _plans: Plans
    _requests: Requests
    _begin_step_for: Callable[[Request], None]

    def exists(self, keys: Iterable[Key], request: Request) -> list[bool | None]:
        """Whether each block is in the primary tier, on its way, or in a tier that may be asked.

        Reserves nothing and starts nothing. A tier is asked once for all keys that are still open.

        Returns:
            None where a tier has not decided and none has the block: ask again in a later step.

        Raises:
            ContractViolation: the handle is not a live one.
        """
        self._requests.check(request)
        keys = listed(keys)
        self._begin_step_for(request)
        return self._plans.exists(keys, request)

    def plan_load(self, keys: Iterable[Key], request: Request) -> LoadPlan:
        """Promise all of the blocks to the request until it has read them, or none of them.

        Each block takes a permit that has none yet, those in the primary tier too. What is neither
        there nor on its way is promoted, from the tier that `exists` found for this request. A plan
        that succeeds, an empty one too, ends what `exists` left undecided.

        Raises:
            ContractViolation: a key is named twice, or the handle is not a live one.
        """
        self._requests.check(request)
        keys = distinct(keys)
        self._begin_step_for(request)
        return self._plans.plan(keys, request)

    def plan_head(self, keys: Iterable[Key], request: Request) -> int:
        """How many of the keys, from the first on, a plan would find permits for now.

        Raises:
            ContractViolation: the handle is not a live one.
        """
        self._requests.check(request)
        keys = listed(keys)
        self._begin_step_for(request)
        return self._plans.head(keys)

    def landed(self, keys: Iterable[Key], request: Request) -> LookupResult:
        """HIT when all of a plan's blocks can be loaded, HIT_PENDING while one is on its way, MISS
        when one has been lost: its load failed, a deadline passed, or the cache was reset.

        Raises:
            ContractViolation: the handle is not a live one.
        """
        self._requests.check(request)
        keys = listed(keys)
        self._begin_step_for(request)
        return self._plans.landed(keys)
