"""Load plans that promote what nobody reads, or begin a part of what they do not promise."""

from __future__ import annotations

from collections.abc import Sequence

from ...impl.operations import LoadPlan, PlanVerdict
from ...impl.plans import Plans
from ...impl.requests import Request
from ...impl.tiers.base import Key
from .making import fault

PLANS = "a plan promotes what is not read, or half of what it promises"


@fault("A1-promote-what-is-read", PLANS, "plans", case="B01")
class PlansAPart(Plans):
    """A plan that does not fit as a whole promotes the head that does."""

    def plan(self, keys: Sequence[Key], request: Request) -> LoadPlan:
        """As usual, but something rather than nothing."""
        plan = super().plan(keys, request)
        if plan.verdict is PlanVerdict.NO_ROOM and len(keys) > 1:
            return super().plan(keys[:1], request)
        return plan


@fault("A1-promote-what-is-read", PLANS, "plans", case="B01")
class PlansWithoutRoom(Plans):
    """A plan for which there is no room is called lost, and its blocks are recomputed."""

    def plan(self, keys: Sequence[Key], request: Request) -> LoadPlan:
        """As usual, but for the reason."""
        plan = super().plan(keys, request)
        if plan.verdict is PlanVerdict.NO_ROOM:
            return LoadPlan(PlanVerdict.LOST, plan.keys, lost=plan.keys)
        return plan


@fault("A1-promote-what-is-read", PLANS, "plans", case="B03")
class AskingPromotes(Plans):
    """To ask whether a block exists costs a load of it."""

    def exists(self, keys: Sequence[Key], request: Request) -> list[bool | None]:
        """As usual, and what a tier has is promoted."""
        answers = super().exists(keys, request)
        for key in [key for key in keys if key in request.found]:
            super().plan([key], request)
        return answers


@fault("A1-promote-what-is-read", PLANS, "plans and time", case="B05")
class PlansWhatFailed(Plans):
    """A plan begins from a tier whose claim was retracted after it was asked."""

    def _lost(self, keys: Sequence[Key], request: Request) -> tuple[Key, ...]:
        lost = super()._lost(keys, request)
        return tuple(k for k in lost if k in self._primary.blocks or k not in request.found)
