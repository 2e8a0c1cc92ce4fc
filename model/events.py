"""What the table is made of, and its events: what can happen, and when it is offered at all.

An event of *every* key is a broadcast: it can happen only when each key matches a rule.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from .vocabulary import CASCADES

Guard = Mapping[str, tuple[str, ...]]
Effects = Mapping[str, "str | Mapping[str, str]"]


@dataclass(frozen=True)
class Event:
    """Something that happens, the roles it is about, and what must hold for it to be offered."""

    name: str
    roles: tuple[str, ...]
    says: str
    given: Guard = field(default_factory=dict)
    every: bool = False


@dataclass(frozen=True)
class Rule:
    """One row of the table."""

    name: str
    event: str
    when: Guard
    then: Effects = field(default_factory=dict)
    answer: str | None = None
    reason: str | None = None


EVENTS = {
    e.name: e
    for e in (
        Event("lookup", ("key", "asker"), "a request asks for a key", {"life[asker]": ("LIVE",)}),
        Event(
            "plan",
            ("key", "asker"),
            "a load plan takes a block, to be held until it is read",
            {"life[asker]": ("LIVE",)},
        ),
        Event("submit", ("key", "transfer"), "the step ends: a queued promotion is submitted"),
        Event("step_end", ("key",), "the step ends", every=True),
        Event(
            "let_go",
            ("key", "asker"),
            "a waiter has read the block, ends, withdraws, is scheduled without it, or its lease "
            "has run out",
            {"waits[asker]": ("YES",)},
        ),
        Event("overdue", ("key",), "the writer is older than the pending deadline"),
        Event(
            "load_landed",
            ("transfer",),
            "a tier reports a key of a load as landed",
            {"state": ("RUNNING",), "kind": ("LOAD",)},
        ),
        Event(
            "load_failed",
            ("transfer",),
            "a tier reports a key of a load as failed",
            {"state": ("RUNNING",), "kind": ("LOAD",)},
        ),
        Event("verified", ("key", "tier"), "a store to the tier succeeded, or it checked anew"),
        Event("unfounded", ("key", "tier"), "a reset cleared the tier while a copy was under way"),
        Event("store_begin", ("key",), "a store is prepared: short promises end", every=True),
        Event(
            "accept",
            ("key", "asker", "transfer"),
            "a store gets a slot for a key",
            {"life[asker]": ("LIVE",), "phase": ("ABSENT",)},
        ),
        Event(
            "store_landed",
            ("transfer",),
            "the GPU has written the slot",
            {"state": ("RUNNING",), "kind": ("STORE",)},
        ),
        Event(
            "store_failed",
            ("transfer",),
            "the GPU has not written the slot",
            {"state": ("RUNNING",), "kind": ("STORE",)},
        ),
        Event(
            "read",
            ("key", "asker", "transfer"),
            "the GPU begins to read the block",
            {"life[asker]": ("LIVE",)},
        ),
        Event(
            "unpin",
            ("transfer",),
            "a read, cascade or export no longer touches its slot",
            {"state": ("RUNNING",), "kind": ("READ", *CASCADES)},
        ),
        Event("evict", ("key",), "the slot is needed"),
        Event(
            "park",
            ("key", "asker"),
            "a whole-request offer meets a block still being written",
            {"life[asker]": ("LIVE",)},
        ),
        Event("offer", ("key", "tier"), "a whole-request offer meets a resident block"),
        Event("copy", ("key", "tier", "transfer"), "a due cascade is submitted"),
        Event(
            "export",
            ("key", "asker", "transfer"),
            "a block is pinned to be sent to a peer",
            {"life[asker]": ("LIVE",)},
        ),
        Event("copied", ("key", "tier"), "an offered cascade landed, failed or was refused"),
        Event("forget", ("key",), "the cache is reset: the block is forgotten"),
        Event("reset_end", ("key",), "the cache has been reset", every=True),
        Event("flushed", (), "the hold of all resets ends"),
        Event(
            "finish",
            ("key", "asker"),
            "a request has ended and let go of everything",
            {"life[asker]": ("LIVE",)},
            every=True,
        ),
        Event(
            "tell",
            ("key", "asker"),
            "each tier is told the end of a request",
            {"life[asker]": ("ENDING",), "duties": ("NONE",)},
            every=True,
        ),
    )
}
