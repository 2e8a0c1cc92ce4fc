"""Tiers that have not made up their mind about a key, and how long that took them for a request.

A tier's time runs while it is undecided, and what has run counts for as long as the request lives:
a tier that decides and wavers again goes on where it stopped. Otherwise two tiers that waver in
turn could answer RETRY for ever, and no deadline would end it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .config import ManagerConfig
from .secondary import Secondary
from .step import Step
from .tiers.base import Key

if TYPE_CHECKING:
    from .requests import Request


class Undecided:
    """The probes of all live requests."""

    def __init__(self, step: Step, config: ManagerConfig, *, counted: bool) -> None:
        self._step = step
        self._deadline = config.probe_deadline
        self._counted = counted
        self.count = 0
        """Probes that have neither been answered nor timed out."""

    def times_out(self, request: Request, key: Key, secondary: Secondary) -> bool:
        """The tier has just said that it is undecided: whether it has been for too long."""
        if request.home is None:  # the tier has ended it from within: nobody waits for the answer
            return False
        now = self._step.now
        probes = request.probes.setdefault(key, {})
        since = probes.get(secondary)
        if since is None:
            since = probes[secondary] = now
            self.count += 1
            request.watched = True
        used = request.spent.get((key, secondary), 0.0) + (now - since)
        if self._deadline is None or used < self._deadline:
            return False
        self.decided(request, key, secondary)
        request.spent.pop((key, secondary), None)
        request.timed_out[key] = request.timed_out.get(key, 0) | secondary.bit
        return True

    def decided(self, request: Request, key: Key, secondary: Secondary) -> None:
        """The tier has decided, or will not be asked again."""
        probes = request.probes.get(key)
        if probes is not None and secondary in probes:
            self._stop(request, key, secondary, probes.pop(secondary))
            if not probes:
                del request.probes[key]
                request.watched = self._counted or bool(request.probes)

    def settle(self, request: Request, key: Key) -> None:
        """The block has a place: what some tiers did not decide matters no more."""
        probes = request.probes.pop(key, None)
        if probes is not None:
            for secondary, since in probes.items():
                self._stop(request, key, secondary, since)
            request.watched = self._counted or bool(request.probes)

    def settle_all(self, request: Request) -> None:
        """The request knows what it reads: no question of it is open any more."""
        for key in list(request.probes):
            self.settle(request, key)

    def forget(self, request: Request) -> None:
        """The request has ended."""
        self.settle_all(request)
        request.timed_out.clear()
        request.spent.clear()

    def _stop(self, request: Request, key: Key, secondary: Secondary, since: float) -> None:
        self.count -= 1
        seconds = self._step.now - since
        if seconds > 0 and self._deadline is not None:
            used = request.spent.get((key, secondary), 0.0) + seconds
            request.spent[key, secondary] = min(used, self._deadline)
