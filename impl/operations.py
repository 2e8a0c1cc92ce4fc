"""What the manager's calls return. Immutable copies: the manager's state never shows through."""

from __future__ import annotations

from enum import Enum, auto

import msgspec

from .tiers.base import Key
from .vocabulary import LookupResult, MissReason


class LoadOperation(msgspec.Struct, frozen=True):
    """A GPU load: copy arena row `slots[i]` for `keys[i]`, then call `complete_load` once."""

    operation_id: int
    """Never used again, also across resets."""
    keys: tuple[Key, ...]
    slots: tuple[int, ...]


class StoreOperation(msgspec.Struct, frozen=True):
    """A GPU store: fill arena row `slots[i]` for `keys[i]`, then call `complete_store` once."""

    operation_id: int
    """Never used again, also across resets."""
    keys: tuple[Key, ...]
    """The accepted head of the offer, without the keys that are present."""
    slots: tuple[int, ...]
    present: tuple[Key, ...]
    """Keys that own a slot already, in whatever phase: they need no store."""
    refused: tuple[Key, ...]
    """Keys that did not fit: offer them again."""
    evicted: tuple[Key, ...]
    """Keys that made room."""


class Explanation(msgspec.Struct, frozen=True):
    """What a lookup would answer now, and why."""

    answer: LookupResult
    reason: MissReason | None
    """Why not, when `answer` is MISS."""
    tiers: dict[str, str]
    """A word for each secondary tier, in order: present, absent, undecided, raised, retracted,
    timed out, not allowed, not asked."""


class PlanVerdict(Enum):
    """What came of a load plan."""

    PLANNED = auto()
    """Every block is promised to the request until it has read it."""
    NO_ROOM = auto()
    """Permits or slots are missing: nothing has changed, ask again or plan fewer."""
    LOST = auto()
    """Some blocks are nowhere any more: nothing has changed, resolve again."""


class LoadPlan(msgspec.Struct, frozen=True):
    """A wave of blocks that a request loads together."""

    verdict: PlanVerdict
    keys: tuple[Key, ...]
    promoted: tuple[Key, ...] = ()
    """Those that were neither in the primary tier nor on their way."""
    lost: tuple[Key, ...] = ()


class ResetResult(msgspec.Struct, frozen=True):
    """What `reset_cache` cleared beside the primary tier."""

    tiers: tuple[str, ...]
    """Names of the secondary tiers that forgot their blocks, in order."""
