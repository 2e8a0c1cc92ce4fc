"""What the small manager keeps of blocks, requests and operations, and what it answers."""

from collections.abc import Hashable
from dataclasses import dataclass, field
from enum import Enum

from tierproof.impl.tiers.base import RequestInfo, Tier

Answer = Enum("Answer", ["HIT", "HIT_PENDING", "RETRY", "MISS"])
Key = Hashable


class ContractViolation(Exception):
    """The caller broke the protocol; the kit knows it by its name."""


@dataclass
class Event:
    """A block became readable, or is no longer."""

    kind: str
    key: Key


@dataclass(eq=False)
class Request:
    """A request's handle: an id may be used again, a handle is not."""

    info: RequestInfo
    tiers: list[Tier]
    live: bool = True
    whole: bool = False
    """Whether some tier wants all of its blocks."""


@dataclass(eq=False)
class Operation:
    """What the GPU reads or writes: `slots[i]` is the row of `keys[i]`."""

    keys: list[Key]
    slots: list[int]
    request: Request
    reads: bool


@dataclass(eq=False)
class Block:
    """One key's place in the primary tier."""

    slot: int
    phase: str  # QUEUED, LOADING, STORING, RESIDENT or OVERDUE
    since: float = 0.0
    source: Tier | None = None
    owner: Request | None = None
    waits: list[Request] = field(default_factory=list)
    permit: bool = False
    pins: int = 0
    hits: set[Request] = field(default_factory=set)
    parked: set[Request] = field(default_factory=set)
    """Who offered it while it was written, for a tier that wants whole requests."""
