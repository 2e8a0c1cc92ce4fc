"""One call in the making: the steps that several calls of a manager share.

Everything that happens to a block goes through `fire`, that is, through the table. What stands
here is order and choice: when completions are absorbed, which tiers are asked, what goes together.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from .jobs import Jobs
from .operations import Seen
from .state import State
from .vocabulary import CASCADES, OVERDUE, OWNING


class Forbidden(Exception):
    """An implementation chose what is not allowed; `contract` is the one that it broke."""

    def __init__(self, contract: str, words: str) -> None:
        super().__init__(words)
        self.contract = contract


class Working(Jobs):
    """A state that is being changed by one call."""

    class Refused(Exception):
        """The caller broke the protocol: ContractViolation."""

    def __init__(self, state: State, seen: Seen) -> None:
        super().__init__(state)
        self.seen = seen
        self.victims = None if seen.victims is None else list(seen.victims)
        self.reason: str | None = None
        self.asked: list[tuple[str, str]] = []
        self.told: list[str] = []
        self._begun_here = False
        extra = [t.name for t in state.setting.tiers if t.name in (seen.polled or ())]
        self._polled = set(extra)
        if state.begun:  # polling more often than required is allowed
            self._absorb(extra)

    # -- protocol --------------------------------------------------------------------------------

    def require(self, condition: bool) -> None:
        """Refuse the call unless the condition holds."""
        if not condition:
            raise self.Refused

    def require_live(self, request: str) -> None:
        """Refuse the call for a request that is unknown or has ended."""
        self.require(request in self.state.requests and self.world.get("life", request) == "LIVE")

    def refused_state(self, before: State) -> State:
