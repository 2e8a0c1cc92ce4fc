"""What the secondary tiers claim of a key that the primary tier does not have."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from .config import ManagerConfig
from .requests import Request
from .secondary import Secondary
from .tiers.base import Claim, Key
from .undecided import Undecided
from .vocabulary import MissReason

PRESENT, UNDECIDED = Claim.PRESENT, Claim.UNDECIDED
NOT_THERE = MissReason.ABSENT


class Claims:
    """Asks the tiers in order, each at most once a lookup and none after the first that has it."""

    def __init__(self, undecided: Undecided, config: ManagerConfig) -> None:
        self._undecided = undecided
        self._probe_deadline = config.probe_deadline
        self.observer: Callable[[Secondary, Key, Request, Claim | None], None] | None = None
        """Told of every answer when lookups are counted."""

    def ask(self, key: Key, request: Request) -> Secondary | MissReason | None:
        """The tier that has the block; else why none has; None when one has not decided."""
        undecided = raised = retracted = False
        timed_out = request.timed_out.get(key, 0) if request.timed_out else 0
        for secondary in request.secondaries:
            if key in secondary.retracted:
                retracted = True
                if request.probes:
                    self._undecided.decided(request, key, secondary)
                continue
            if timed_out & secondary.bit:
                continue
            claim = secondary.claim(key, request.info)
            if self.observer is not None:
                self.observer(secondary, key, request, claim)
            if claim is UNDECIDED:
                if self._undecided.times_out(request, key, secondary):
                    timed_out |= secondary.bit
                else:
                    undecided = True
                continue
            if request.probes:
                self._undecided.decided(request, key, secondary)
            if claim is PRESENT:
                return secondary
            if claim is None:
                raised = True
        if undecided:
            return None
        if raised:
            return MissReason.TIER_ERROR
        if timed_out:
            return MissReason.PROBE_TIMEOUT
        return MissReason.FAILED if retracted else NOT_THERE

    def locate(self, keys: Sequence[Key], request: Request) -> dict[Key, Secondary | None]:
        """Where each key is, each tier asked once for all that are still open.

        A key that nobody has is left out; one that a tier has not decided about is with None.
        """
        found: dict[Key, Secondary | None] = {}
        undecided = set[Key]()
        for secondary in request.secondaries:
            asked = []
            for key in keys:
                if key in found:
                    continue
                if key in secondary.retracted:
                    if request.probes:
                        self._undecided.decided(request, key, secondary)
                elif not request.timed_out.get(key, 0) & secondary.bit:
                    asked.append(key)
            if not asked:
                continue
            for key, claim in zip(asked, secondary.claims(asked, request.info), strict=True):
                if self.observer is not None:
                    self.observer(secondary, key, request, claim)
                if claim is UNDECIDED:
                    if not self._undecided.times_out(request, key, secondary):
                        undecided.add(key)
                    continue
                if request.probes:
                    self._undecided.decided(request, key, secondary)
                if claim is PRESENT:
                    found[key] = secondary
        for key in undecided.difference(found):
            found[key] = None
        return found

    def explain(
        self, key: Key, request: Request, now: float, words: dict[str, str]
    ) -> Secondary | MissReason | None:
        """As `ask`, but nothing changes in the manager; fills `words` for each tier."""
        said = set()
        for secondary in request.secondaries:
            word = words[secondary.name] = self._word(key, request, secondary, now)
            if word == "present":
                return secondary
            said.add(word)
        if "undecided" in said:
            return None
        for word, reason in _REASONS.items():
            if word in said:
                return reason
        return NOT_THERE

    def _word(self, key: Key, request: Request, secondary: Secondary, now: float) -> str:
        if key in secondary.retracted:
            return "retracted"
        if request.timed_out.get(key, 0) & secondary.bit:
            return "timed out"
        claim = secondary.claim(key, request.info)
        if claim is None:
            return "raised"
        since = request.probes.get(key, {}).get(secondary, now)
        used = request.spent.get((key, secondary), 0.0) + (now - since)
        deadline = self._probe_deadline
        if claim is UNDECIDED and deadline is not None and used >= deadline:
            return "timed out"
        return claim.name.lower()


_REASONS = {
    "raised": MissReason.TIER_ERROR,
    "timed out": MissReason.PROBE_TIMEOUT,
    "retracted": MissReason.FAILED,
}
"""The reason of a MISS, the first that applies."""
