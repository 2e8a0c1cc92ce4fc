"""The words of a lookup: its four answers, the reasons of a MISS, the phases of a block.

The specification has a vocabulary of its own, on purpose (an oracle that shares code with what it
judges shares its faults); a test compares the two by name.
"""

from __future__ import annotations

from enum import Enum, IntEnum, auto


class LookupResult(Enum):
    """What a lookup says of one block."""

    HIT = auto()
    """The bytes are in the primary tier; `prepare_load` may follow in this step."""
    HIT_PENDING = auto()
    """The place is certain and one writer owns the slot: count it as a hit and wait."""
    RETRY = auto()
    """No allowed tier claims the block and one has not answered yet: ask again next step."""
    MISS = auto()
    """No allowed tier claims the block, or a `MissReason` makes it unavailable: recompute."""


class MissReason(Enum):
    """Why a lookup answered MISS, for metrics and `explain`."""

    ABSENT = auto()
    """No allowed tier claims the block."""
    FULL = auto()
    """A tier has it, but no permit or no slot is to be had."""
    HELD = auto()
    """Promotions are held between a reset and its flush."""
    OVERDUE = auto()
    """The block's writer is past `pending_deadline`."""
    FAILED = auto()
    """Its load failed (the claim is retracted) and no other allowed tier claims it."""
    TIER_ERROR = auto()
    """A tier raised when asked and no other allowed tier claims it."""
    PROBE_TIMEOUT = auto()
    """A tier stayed undecided for longer than `probe_deadline`."""


class Phase(IntEnum):
    """Where a block that owns a slot is in its life; an unknown key is ABSENT."""

    QUEUED = 0
    """A promotion holds slot and permit; submitted when the step ends."""
    LOADING = 1
    """A secondary tier is writing the slot."""
    STORING = 2
    """The GPU is writing the slot."""
    OVERDUE_LOADING = 3
    """As LOADING, past the deadline: lookups answer MISS, the slot waits for the report."""
    OVERDUE_STORING = 4
    """As STORING, past the deadline."""
    RESIDENT = 5
    """The block's bytes are in the slot."""
