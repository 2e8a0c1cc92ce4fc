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
        """What a refused call leaves: a step that it has begun has begun, what it has polled has
        been polled, and nothing of the call itself."""
        if not self._begun_here and not self.seen.polled:
            return before
        again = Working(before.copy(), Seen(polled=self.seen.polled))
        if self._begun_here:
            again.begin_step()
        return again.state

    def finish(self) -> None:
        """The call returns: everything that was seen must have been used."""
        if self.victims:
            raise Forbidden("S3-pins", f"evicted {self.victims[0]}, for which nothing needed room")

    # -- completions and time --------------------------------------------------------------------

    def begin_step(self) -> None:
        """The first call of a step reads the clock, absorbs completions and lets time tell."""
        if self.state.begun:
            return
        self.state.begun = self._begun_here = True
        self.state.now = self.state.clock
        self._must_absorb("at the first call of the step")
        self._expire()

    def date(self) -> None:
        """A call between two steps reads the clock if what it starts, or ends, has a date."""
        if not self.state.begun:
            self.state.now = self.state.clock

    def absorb_before_evicting(self) -> None:
        """Completions are absorbed again before any eviction is decided."""
        self._must_absorb("before deciding what to evict")

    def _must_absorb(self, when: str) -> None:
        tiers = [t.name for t in self.state.setting.tiers]
        if self.seen.polled is not None:
            for tier in tiers:
                if self.state.mail.get(tier) and tier not in self._polled:
                    raise Forbidden("P1-progress", f"did not poll {tier} {when}")
        self._absorb(tiers)

    def _absorb(self, tiers: Iterable[str]) -> None:
        for tier in tiers:
            if (tier, "raise on poll") in self.state.moods:
                continue
            mail = self.state.mail.pop(tier, ())
            # what a poll says was verified counts before what it reports: a failure is newer
            for what, number, said in sorted(mail, key=lambda message: message[0] != "verify"):
                if what == "verify":
                    self.fire("verified", key=number, tier=tier)
                elif not self._report(tier, number, said):
                    self.state.violations += 1

    def post(self, tier: str, message: tuple[str, Any, Any]) -> None:
        """Something a tier will say when it is polled."""
        self.state.mail[tier] = (*self.state.mail.get(tier, ()), message)

    def _report(self, tier: str, number: int, landed: frozenset[str]) -> bool:
        job = self.state.jobs.get(number)
        if job is None or job.tier != tier or not landed <= set(job.keys):
            return False
        del self.state.jobs[number]
        for key in job.keys:
            x = (number, key)
            self.state.since.pop(x, None)
            if job.kind == "LOAD":
                if key in landed:
                    self.landed("load_landed", x)
                else:
                    self.fire("load_failed", transfer=x)
            elif job.kind == "CASCADE":
                self._cascade_ends(x, tier, key in landed)
            else:
                self.state.barred -= {x}
                self.fire("unpin", transfer=x)
        if job.kind in CASCADES:
            self.state.pressed.pop(tier, None)
        return True

    def landed(self, event: str, x: Any) -> None:
        """A writer has reported success: the lease of those who wait begins."""
        key, late = self.world.links["of"][x], self.world.get("stale", x) == "YES"
        self.fire(event, transfer=x)
        if not late and self.world.holders("waits", key):
            self.state.landed[key] = self.state.now

    def _expire(self) -> None:
        limits = self.state.setting
        if limits.pending_deadline is not None:
            for key, x in list(self.world.links["writer"].items()):
                age = self.state.now - self.state.since[x]
                if age >= limits.pending_deadline and self.world.phase(key) in (
                    "LOADING",
                    "STORING",
                ):
                    self.fire("overdue", key=key)
        if limits.lease is not None:
            for key, since in list(self.state.landed.items()):
                if self.state.now - since >= limits.lease:
                    for request in self.world.holders("waits", key):
                        if not self.reading(key, request):
                            self.let_go(key, request)

    # -- lookups ---------------------------------------------------------------------------------

    def lookup(self, key: str, request: str) -> tuple[str, str | None]:
        """One lookup: the answer, and the reason of a MISS."""
        world = self.world
        said: dict[str, str] = {}
        tier = None
        if world.phase(key) == "ABSENT" and world.get("held") == "NO":
            if not world.free_slots() or world.word("permits", {}, {}) == "NO":
                self.absorb_before_evicting()
            said["tiers"], tier = self._ask(key, request)
        rule = world.matching("lookup", {"key": key, "asker": request, "tier": tier}, said)
        if len(rule) == 1 and rule[0].then.get("slot") == "take":
            if not world.free_slots():
                self.evict(1, spared=(key,))
            self.take_slot("lookup", key, said, asker=request, tier=tier)
            self.state.queue += (key,)
            chosen = rule[0]
        else:
            chosen = self.fire("lookup", said, key=key, asker=request, tier=tier)
        if chosen.answer in ("HIT", "HIT_PENDING"):
            self.settle(request, key)
        assert chosen.answer is not None
        return chosen.answer, chosen.reason

    def settle(self, request: str, *key: str) -> None:
        """What some tiers have not decided about the key, or about any, matters no more."""
        about = (request, *key)
        for probe in [p for p in self.state.probes if p[: len(about)] == about]:
            self._decided(probe)

    def _decided(self, probe: tuple[str, str, str]) -> None:
        """A tier is undecided no more: the time that it took counts for the rest of the request."""
        state, deadline = self.state, self.state.setting.probe_deadline
        since = state.probes.get(probe)
        if since is not None:  # else it was not undecided, or has timed out, which is for good
            del state.probes[probe]
            if deadline is not None and state.now > since:
                used = state.spent.get(probe, 0.0) + (state.now - since)
                state.spent[probe] = min(used, deadline)

    def exists(self, key: str, request: str) -> str:
        """Is the block somewhere? Nothing is reserved; a plan may act on what was found."""
        phase = self.world.phase(key)
        self.state.claims.pop((request, key), None)
        if phase in OWNING:
            word = "ABSENT" if phase in OVERDUE else "PRESENT"
        elif self.world.get("held") == "YES":
            word = "ABSENT"
        else:
            said, tier = self._ask(key, request)
            if tier is not None:
                self.state.claims[request, key] = tier
            word = {"CLAIMED": "PRESENT", "UNDECIDED": "UNDECIDED"}.get(said, "ABSENT")
        if word == "PRESENT":
            self.settle(request, key)
        return word

    def _ask(self, key: str, request: str) -> tuple[str, str | None]:
        state, limits = self.state, self.state.setting
        raised = undecided = timed_out = retracted = False
        for tier in self.world.limits.allowed[request]:
            probe = (request, key, tier)
            if self.world.get("retracted", key, tier) == "YES":
                retracted = True
                self._decided(probe)
                continue
            if probe in state.probes and state.probes[probe] is None:
                timed_out = True
                continue
            self.asked.append((tier, key))
            mind = state.minds.get((tier, key), "ABSENT")
            if (tier, "raise on lookup") in state.moods:
                raised = True
                self._decided(probe)
            elif mind == "PRESENT":
                self._decided(probe)
                return "CLAIMED", tier
            elif mind == "UNDECIDED":
                first = state.probes.setdefault(probe, state.now)
                assert first is not None
                used = state.spent.get(probe, 0.0) + (state.now - first)
                if limits.probe_deadline is not None and used >= limits.probe_deadline:
                    state.probes[probe] = None
                    state.spent.pop(probe, None)
                    timed_out = True
                else:
                    undecided = True
            else:
                self._decided(probe)
        for holds, word in (
            (undecided, "UNDECIDED"),
            (raised, "RAISED"),
            (timed_out, "TIMED_OUT"),
            (retracted, "RETRACTED"),
        ):
            if holds:
                return word, None
        return "UNCLAIMED", None

    def evict(self, count: int, spared: Sequence[str]) -> None:
        """Make room for `count` blocks, choosing as the implementation chose."""
        for _ in range(count):
            allowed = self.world.evictable(spared)
            seen = self.victims
            victim = allowed[0] if seen is None else seen.pop(0) if seen else None
            if victim not in allowed:
                raise Forbidden("S3-pins", f"evicted {victim or 'nothing'}, allowed: {allowed}")
            assert victim is not None
            self.fire("evict", key=victim)
            self._forget_copies(victim)

    def _forget_copies(self, key: str) -> None:
        state = self.state
        state.due = {d: offer for d, offer in state.due.items() if d[0] != key}
        state.attempts = {a: n for a, n in state.attempts.items() if a[0] != key}
        state.landed.pop(key, None)

    def take_slot(
        self, event: str, key: str, said: dict[str, str] | None = None, **roles: Any
    ) -> None:
        """Let an event happen that takes a free slot, the one that the implementation took."""
        free = self.world.free_slots()
        slot = self.seen.slots.get(key, free[0])
        if slot not in free:
            busy = self.world.running(slot=slot)
            raise Forbidden(
                "S2-no-reuse-under-transfer" if busy else "S1-slot-exclusive",
                f"gave {key} slot {slot}, which is not free (free: {free})",
            )
        self.fire(event, said, key=key, fresh_slot=slot, **roles)

    # -- promises --------------------------------------------------------------------------------

    def waited_by(self, request: str) -> list[str]:
        """The keys that a request waits on, in the order in which it was promised them."""
        return [k for k, r in self.world.fields["waits"] if r == request]

    def reading(self, key: str, request: str) -> bool:
        """Does the GPU read the block for this request at this moment?"""
        return any(
            self.world.get("kind", x) == "READ" and self.world.links["by"][x] == request
            for x in self.world.running(key)
        )

    def let_go(self, key: str, request: str) -> None:
        """A request stops waiting on a key."""
        heirs = []
        if self.world.phase(key) == "QUEUED":
            heirs = self.world.heirs(key, request)
        rule = self.fire("let_go", key=key, asker=request, heir=heirs[0] if heirs else None)
        if rule.then.get("phase") == "ABSENT":
            self.state.queue = tuple(k for k in self.state.queue if k != key)
        if not self.world.holders("waits", key):
            self.state.landed.pop(key, None)

    def tell_ends(self) -> None:
        """Each tier hears of the ends that nothing under the request can follow any more."""
        for request in self.state.ending:
            duties = self.world.word("duties", {"asker": request}, {})
            if duties == "NONE" and not [p for p in self.world.fields["parked"] if p[1] == request]:
                self.world.broadcast("tell", self.state.setting.keys, {"asker": request})
                self.told.append(request)
        self.state.ending = tuple(r for r in self.state.ending if r not in self.told)
