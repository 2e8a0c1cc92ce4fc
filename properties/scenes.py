"""Scenes: an operation together with what its surroundings do meanwhile, and their return to calm.

What a tier answers, refuses or raises matters only while it is called. Setting it up just for one
call, instead of letting it vary freely, keeps the tour's states to those of the manager.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import product

from ..model import operations as ops
from ..model.operations import Operation
from ..model.state import State
from .moves import Menu, moves

Scene = tuple[Operation, ...]


def scenes(state: State, menu: Menu) -> Iterator[Scene]:
    """Every operation of `menu`, under every mood and mind that can make a difference to it."""
    for op in moves(state, replace(menu, minds=(), moods=())):
        yield (op,)
        if isinstance(op, ops.Lookup):
            yield from _lookups(state, op, op.key, menu)
        elif isinstance(op, ops.Exists) and len(op.keys) == 1:
            yield from _lookups(state, op, op.keys[0], menu)
        for mood in menu.moods:
            if isinstance(op, SENSITIVE.get(mood, ())):
                for tier in state.setting.tiers:
                    yield (
                        ops.Mood(tier.name, mood),
                        op,
                        ops.Mood(tier.name, mood, on=False),
                    )


SENSITIVE: dict[str, tuple[type[Operation], ...]] = {
    "raise on submit": (ops.StepEnd, ops.CompleteStore, ops.Send),
    "refuse stores": (ops.StepEnd, ops.CompleteStore, ops.Send),
    "raise on poll": (ops.StepEnd, ops.Lookup, ops.PrepareStore),
}
"""Which calls a mood can make a difference to; lookups have minds of their own."""


def _lookups(state: State, op: Operation, key: str, menu: Menu) -> Iterator[Scene]:
    """A question under each combination of what the tiers can say, or raise, of its key."""
    if not menu.minds or state.world.phase(key) != "ABSENT":
        return
    raising = ("raise on lookup",) if "raise on lookup" in menu.moods else ()
    tiers = [t.name for t in state.setting.tiers]
    usual = [state.minds.get((t, key), "ABSENT") for t in tiers]
    for answers in product((*menu.minds, *raising), repeat=len(tiers)):
        if list(answers) == usual:
            continue
        before: list[Operation] = []
        after: list[Operation] = []
        for tier, was, now in zip(tiers, usual, answers, strict=True):
            if now in raising:
                before.append(ops.Mood(tier, now))
                after.append(ops.Mood(tier, now, on=False))
            elif now != was:
                before.append(ops.Mind(tier, key, now))
                after.append(ops.Mind(tier, key, was))
        yield (*before, op, *after)
