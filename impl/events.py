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
    """Events since they were last taken. Switched off, it keeps nothing."""

    def __init__(self, *, enabled: bool) -> None:
        self._enabled = enabled
        self._events: list[Event] = []

    def stored(self, key: Key) -> None:
        """The block of `key` became RESIDENT."""
        if self._enabled:
            self._events.append(Event("stored", key))

    def removed(self, key: Key) -> None:
        """The block of `key` stopped being RESIDENT."""
        if self._enabled:
            self._events.append(Event("removed", key))

    def take(self) -> list[Event]:
        """All events since the last call, oldest first."""
        events, self._events = self._events, []
        return events
