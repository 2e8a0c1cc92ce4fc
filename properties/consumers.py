"""The consumers that `scan` and `bench scan` know by name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

from ..impl.one_phase import OnePhase
from ..impl.two_phase import TwoPhase
from .simulation import MakeConsumer


@dataclass(frozen=True)
class Choice:
    """A consumer, and what share of the slots promotions may take under it."""

    make: MakeConsumer
    share: float
    says: str


CONSUMERS: Mapping[str, Choice] = {
    # today's managers know no share of promotions
    "retry": Choice(partial(OnePhase, retry=True), 1.0, "one phase, RETRY on promotion"),
    "pending": Choice(partial(OnePhase, retry=False), 1.0, "one phase, HIT_PENDING on promotion"),
    "two-phase": Choice(TwoPhase, 0.5, "resolve first, then promote what is read"),
}
