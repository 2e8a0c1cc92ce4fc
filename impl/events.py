"""Stored and removed events: replaying them gives exactly the set of RESIDENT keys."""

from __future__ import annotations

from typing import Literal

import msgspec

from .tiers.base import Key


class Event(msgspec.Struct, frozen=True):
    """A block became readable in the primary tier, or stopped being so."""

    kind: Literal["stored", "removed"]
    key: Key


class EventLog:
    """Events since they were last taken; whoever causes one appends it to `entries`."""

    def __init__(self, *, enabled: bool) -> None:
        self.entries: list[Event] | None = [] if enabled else None
        """Always the same list; None when events are switched off."""

    def take(self) -> list[Event]:
        """All events since the last call, oldest first."""
        if self.entries is None:
            return []
        events = self.entries.copy()
        self.entries.clear()
        return events
