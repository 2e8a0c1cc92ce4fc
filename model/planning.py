"""A load plan: all of its blocks are promised until read, or none is.

What is neither in the primary tier nor on its way is promoted, from the tier that an `exists` of
the same request found to have it; nothing else is.
"""

from __future__ import annotations

from collections.abc import Sequence

from .vocabulary import OVERDUE
from .working import Working

Answer = tuple[str, tuple[str, ...]]
"""PLANNED with the keys that are promoted; LOST with those that are nowhere; or NO_ROOM."""


class Planning:
    """One plan in the making."""

    def __init__(self, working: Working, keys: Sequence[str], request: str) -> None:
        self.w, self.keys, self.request = working, keys, request

    def decide(self) -> Answer:
        """What comes of the plan; unless it is PLANNED, nothing has changed."""
        lost = self._lost()
        if not lost and self._short():
            self.w.absorb_before_evicting()
            lost = self._lost()
        if lost:
            return "LOST", lost
        if self._short(evicting=True):
            return "NO_ROOM", ()
        return "PLANNED", self._plan()

    def _absent(self) -> tuple[str, ...]:
        return tuple(k for k in self.keys if self.w.world.phase(k) == "ABSENT")

    def _lost(self) -> tuple[str, ...]:
        """Keys that a plan cannot have: overdue, or absent and nobody is known to have them."""
        world = self.w.world
        return tuple(k for k in self.keys if world.phase(k) in OVERDUE or self._unfounded(k))

    def _unfounded(self, key: str) -> bool:
        world = self.w.world
        if world.phase(key) != "ABSENT":
            return False
        tier = self.w.state.claims.get((self.request, key))
        retracted = tier is not None and world.get("retracted", key, tier) == "YES"
        return tier is None or retracted or world.get("held") == "YES"

    def _short(self, *, evicting: bool = False) -> bool:
        """Are permits or slots missing, evictions counted or not?"""
        world = self.w.world
        slots = world.links["slot_of"]
        bare = [k for k in self.keys if k not in slots or world.get("permit", slots[k]) == "NO"]
        room = len(world.free_slots())
        if evicting:
            room += len(world.evictable(spared=self.keys))
        free = world.limits.permits - len(world.fields["permit"])
        return len(bare) > free or len(self._absent()) > room

    def _plan(self) -> tuple[str, ...]:
        w, world = self.w, self.w.world
        absent = self._absent()
        for key in self.keys:
            if key not in absent:
                w.fire("plan", key=key, asker=self.request)
                if world.phase(key) == "RESIDENT":  # the lease begins anew with each plan
                    w.state.landed[key] = w.state.now
        w.evict(max(0, len(absent) - len(world.free_slots())), spared=self.keys)
        for key in absent:
            tier = w.state.claims[self.request, key]
            w.take_slot("plan", key, {"tiers": "CLAIMED"}, asker=self.request, tier=tier)
            w.state.queue += (key,)
        for key in self.keys:
            w.state.claims.pop((self.request, key), None)
        w.settle(self.request)  # it has decided what it loads: no question is open any more
        return absent
