"""What is in flight: the manager's own records of jobs and operations.

Public counterparts (`LoadJob`, `StoreOperation`, ...) are immutable copies handed out at submit, so
that nothing that happens here later reaches a running transfer.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from .blocks import Block
from .tiers.base import Key

if TYPE_CHECKING:
    from .requests import Request
    from .secondary import Secondary


class Load:
    """A promotion job. Until its step ends it only groups the queued blocks of (tier, owner)."""

    __slots__ = ("blocks", "job_id", "overdue", "request", "secondary", "since", "stale")

    def __init__(self, secondary: Secondary, request: Request) -> None:
        self.secondary = secondary
        self.request = request
        self.job_id = -1
        self.blocks: dict[Key, Block] = {}
        """Filled at submit, emptied by the report."""
        self.since = 0.0
        self.overdue = False
        self.stale = False
        """Submitted before a reset: its report only frees slots."""


class Write:
    """A GPU store in flight, from `prepare_store` to `complete_store`."""

    __slots__ = ("blocks", "operation_id", "overdue", "request", "since", "stale")

    def __init__(
        self, operation_id: int, request: Request, blocks: list[Block], since: float
    ) -> None:
        self.operation_id = operation_id
        self.request = request
        self.blocks = blocks
        self.since = since
        self.overdue = False
        self.stale = False


class Read:
    """A GPU load in flight, from `prepare_load` to `complete_load`."""

    __slots__ = ("blocks", "operation_id", "request")

    def __init__(self, operation_id: int, request: Request, blocks: list[Block]) -> None:
        self.operation_id = operation_id
        self.request = request
        self.blocks = blocks


class Owed:
    """A cascade that is to be offered again, or could not start yet."""

    __slots__ = ("attempts", "not_before", "not_in_step", "order", "request")

    def __init__(self, request: Request | None, order: int) -> None:
        self.request = request
        self.attempts = 0
        """Offers refused or failed so far."""
        self.not_in_step = -1
        """The step in which it was refused: a tier under pressure is not asked twice in a step."""
        self.not_before = -math.inf
        """The time before which it is not offered: one that failed rests for a while."""
        self.order = order
        """Age: lower is older."""


class Send:
    """A store job of a secondary tier: a cascade, or what an external request sends."""

    __slots__ = (
        "barred",
        "blocks",
        "job_id",
        "owed",
        "request",
        "secondary",
        "since",
        "stale",
    )

    def __init__(
        self,
        job_id: int,
        secondary: Secondary,
        request: Request | None,
        blocks: dict[Key, Block],
        since: float,
        owed: dict[Key, Owed] | None,
    ) -> None:
        self.job_id = job_id
        self.secondary = secondary
        self.request = request
        """None when the offer outlived its request."""
        self.blocks = blocks
        self.since = since
        self.owed = owed
        """The keys offered before, and how often; None for what an external request sends."""
        self.stale = False
        self.barred = False
        """Its tier was cleared meanwhile: success must not bring the key back."""
