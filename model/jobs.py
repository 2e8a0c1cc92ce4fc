"""Work given to tiers, as far as several calls share it: submitting loads, offering cascades."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from .reading import World
from .rules import Rule
from .state import NO_REQUEST, Due, Job, Refusal, State
from .vocabulary import CASCADES


@dataclass(frozen=True)
class Submitted:
    """A job as a tier sees it: LOAD, or a store that is a CASCADE or an EXPORT."""

    number: int
    kind: str
    tier: str
    request: str
    keys: tuple[str, ...]


class Jobs:
    """A state that is being changed by one call: the part that deals with tiers."""

    def __init__(self, state: State) -> None:
        self.state = state
        self.submitted: list[Submitted] = []

    @property
    def world(self) -> World:
        """The world of the table."""
        return self.state.world

    def fire(self, event: str, said: dict[str, str] | None = None, **roles: Any) -> Rule:
        """Let an event of the table happen."""
        return self.world.fire(event, roles, said)

    def number(self) -> int:
        """A number for a job or operation, never used before."""
        self.state.count += 1
        return self.state.count

    def _submit(self, kind: str, tier: str, request: str, keys: Sequence[str]) -> tuple[int, bool]:
        """A tier is given a job; False when it raised."""
        number = self.number()
        self.submitted.append(Submitted(number, kind, tier, request, tuple(keys)))
        return number, (tier, "raise on submit") not in self.state.moods

    def submit_queue(self) -> None:
        """One load job for each (tier, request), keys in the order in which they were queued."""
        groups: dict[tuple[str, str], list[str]] = {}
        for key in self.state.queue:
            links = self.world.links
            groups.setdefault((links["source"][key], links["asked_by"][key]), []).append(key)
        self.state.queue = ()
        for (tier, request), keys in groups.items():
            number, accepted = self._submit("LOAD", tier, request, keys)
            for key in keys:
                self.fire("submit", key=key, transfer=(number, key), asker=request, tier=tier)
                self.state.since[number, key] = self.state.now
            if accepted:
                self.state.jobs[number] = Job(number, "LOAD", tier, request, tuple(keys))
                continue
            for key in keys:
                del self.state.since[number, key]
                self.fire("load_failed", transfer=(number, key))

    # -- cascades --------------------------------------------------------------------------------

    def under(self, request: str) -> str:
        """The request that a cascade runs under: none once the tiers were told of its end."""
        over = request == NO_REQUEST or self.world.get("life", request) == "ENDED"
        return NO_REQUEST if over else request

    def offer_present(self, present: Sequence[str], request: str) -> None:
        """A whole-request offer: resident blocks are cascaded, those being written later."""
        # a hand-driven tier has the same policy for every request
        for tier in [t.name for t in self.state.setting.tiers if t.whole_request]:
            fresh = []
            for key in present:
                if self.world.phase(key) == "STORING":
                    self.fire("park", key=key, asker=request)
                elif self.world.matching("offer", {"key": key, "tier": tier}):
                    self.fire("offer", key=key, tier=tier)
                    fresh.append(key)
            self._offer(tier, fresh, request)

    def offer_new(self, keys: Sequence[str], request: str) -> None:
        """Newly stored blocks are offered to each tier in turn."""
        for tier in self.world.limits.tiers:
            self._offer(tier, keys, request)

    def offer_due(self) -> None:
        """At the end of a step, offers that could not be made, or were refused, are made again."""
        for tier in self.world.limits.tiers:
            if tier in self.state.pressed:
                copying = any(
                    j.tier == tier and j.kind in CASCADES for j in self.state.jobs.values()
                )
                said, pause = self.state.pressed[tier], self.state.setting.reoffer_pause
                if copying or said.step == self.state.step or self.state.now - said.at < pause:
                    continue
                del self.state.pressed[tier]
            offers = {
                key: due.request
                for (key, to), due in self.state.due.items()
                if to == tier and due.step <= self.state.step and due.after <= self.state.now
            }
            groups: dict[str, list[str]] = {}
            for key in self._starting(tier, list(offers)):
                groups.setdefault(self.under(offers[key]), []).append(key)
            for request, keys in groups.items():
                self._copy(tier, keys, request)

    def _overdue(self, tier: str) -> bool:
        limit = self.state.setting.pending_deadline
        to, kind = self.world.links["to"], self.world.get
        return limit is not None and any(
            to[x] == tier
            and kind("kind", x) in CASCADES
            and self.state.now - self.state.since[x] >= limit
            for x in self.world.running()
        )

    def _berths_left(self) -> int:
        return self.world.limits.berths - len(self.world.fields["berth"])

    def _starting(self, tier: str, keys: Sequence[str]) -> list[str]:
        """Those of `keys` whose cascade to the tier can start now, as far as the berths go."""
        starting: list[str] = []
        if self._overdue(tier):
            return starting
        berths, turns = self._berths_left(), self._turns_left(tier)
        for key in keys:
            slot = self.world.links["slot_of"][key]
            shares = self.world.word("cascading", {"slot": slot}, {}) == "SOME"
            if turns > 0 and not self.world.copies(key, tier) and (shares or berths > 0):
                starting.append(key)
                berths -= not shares
                turns -= 1
        return starting

    def _turns_left(self, tier: str) -> int:
        """How many more blocks may be on their way to this tier: each other tier keeps a berth.

        Otherwise a slow tier would in time hold every berth, and a fast one get nothing (B63).
        """
        limits, to = self.world.limits, self.world.links["to"]
        part = max(1, limits.berths - (len(limits.tiers) - 1))
        running = self.world.running()
        mine = [x for x in running if self.world.get("kind", x) in CASCADES and to[x] == tier]
        return part - len(mine)

    def _offer(self, tier: str, keys: Sequence[str], request: str) -> None:
        """Offer what can start now as one job; the rest stays due.

        What is due goes first, and a tier that has refused is left alone.
        """
        later = tier in self.state.pressed or any(to == tier for _, to in self.state.due)
        starting = [] if later else self._starting(tier, keys)
        for key in keys:
            if key not in starting:
                self.state.due.setdefault((key, tier), Due(request, self.state.step))
        if starting:
            self._copy(tier, starting, request)

    def _copy(self, tier: str, starting: Sequence[str], request: str) -> None:
        """Submit one cascade job; what the tier refuses or fails becomes due again."""
        number, accepted = self._submit("CASCADE", tier, request, starting)
        refused = accepted and (tier, "refuse stores") in self.state.moods
        for key in starting:
            self.state.due.pop((key, tier), None)
            if refused:
                self._not_copied(key, tier, "REFUSED", request, self.state.step + 1)
                continue
            x = (number, key)
            self.fire("copy", key=key, tier=tier, transfer=x, asker=request)
            self.state.since[x] = self.state.now
            if not accepted:
                self._not_copied(key, tier, "FAILED", request, self.state.step)
                del self.state.since[x]
                self.fire("unpin", transfer=x)
        if refused:
            self._refused_by(tier)
        elif accepted:
            self.state.jobs[number] = Job(number, "CASCADE", tier, request, tuple(starting))

    def _refused_by(self, tier: str) -> None:
        self.state.pressed[tier] = Refusal(self.state.step, self.state.now)

    def _not_copied(self, key: str, tier: str, outcome: str, request: str, step: int) -> None:
        tries = self.state.attempts.get((key, tier), 0) + 1
        self.state.attempts[key, tier] = tries
        left = tries <= self.state.setting.reoffers
        self.fire(
            "copied", {"outcome": outcome, "tries": "LEFT" if left else "SPENT"}, key=key, tier=tier
        )
        if left:
            # a refusal is the tier's state, and ends with it; a failure says nothing of its end
            pause = self.state.setting.reoffer_pause if outcome == "FAILED" else 0.0
            self.state.due[key, tier] = Due(request, step, self.state.now + pause)
        else:
            del self.state.attempts[key, tier]

    def _cascade_ends(self, x: Any, tier: str, ok: bool) -> None:
        key = x[1]
        request = self.world.links["by"][x]
        if self.world.get("stale", x) == "NO":
            if ok:
                self.fire("copied", {"outcome": "LANDED", "tries": "LEFT"}, key=key, tier=tier)
                self.state.attempts.pop((key, tier), None)
            else:
                self._not_copied(key, tier, "FAILED", request, self.state.step)
        if ok and x not in self.state.barred:
            self.fire("verified", key=key, tier=tier)
        self.state.barred -= {x}
        self.fire("unpin", transfer=x)

    def export(self, keys: Sequence[str], request: str, tier: str) -> int | None:
        """Blocks are pinned to be sent to a peer, all of them or none."""
        fresh = 0
        for key in keys:
            slot = self.world.links["slot_of"][key]
            fresh += self.world.word("cascading", {"slot": slot}, {}) == "NONE"
        if fresh > self._berths_left() or len(keys) > self._turns_left(tier):
            return None
        if self._overdue(tier):
            return None
        number, accepted = self._submit("EXPORT", tier, request, keys)
        refused = (tier, "refuse stores") in self.state.moods
        if refused and accepted:
            self._refused_by(tier)
        if refused or not accepted:
            return None
        for key in keys:
            self.fire("export", key=key, asker=request, tier=tier, transfer=(number, key))
            self.state.since[number, key] = self.state.now
        self.state.jobs[number] = Job(number, "EXPORT", tier, request, tuple(keys))
        return number
