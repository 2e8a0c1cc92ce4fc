"""What a room of the tour is."""

from __future__ import annotations

from dataclasses import dataclass

from ..model.operations import Operation, Setting
from .moves import Menu


@dataclass(frozen=True)
class Room:
    """A setting and what may be done in it.

    `focus` is the block whose life the room is about; None: all of them, which suits small rooms.
    """

    name: str
    says: str
    setting: Setting
    menu: Menu
    focus: str | None = "k0"
    weight: int = 0
    """How long a walk takes beside those of other rooms: the long ones begin first."""
    start: tuple[Operation, ...] = ()
    """What has happened before the walk begins."""
    closely: bool = False
    """Tell states apart by the manager's fingerprint as well, where it has one: two ways to one
    state of the model may have left an implementation in different ones."""


def menu(**on: object) -> Menu:
    """A menu without what most rooms do without."""
    off = dict.fromkeys(
        ("stores", "loads", "resets", "reset_tiers", "ends", "withdraw", "scheduled", "time"), False
    )
    return Menu(**{**off, **on})  # type: ignore[arg-type]


COPYING = frozenset({"prepare_store", "complete_store", "job_ends", "on_schedule_end"})
"""Operations by which blocks are stored and copied to tiers."""
