"""What may come of `lookup_many`, when it cannot be seen between which two keys a tier was polled.

A manager has to poll where the specification says, and may poll earlier; what it absorbs changes
the answers from there on. Of a single call the driver sees that a tier was polled. Of a call with
several keys it does not see where, so each place is allowed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import product

from ..model import operations as ops
from ..model.operations import Seen
from ..model.reference import Forbidden, Outcome, State, apply
from .driver import Got


def outcomes(before: State, op: ops.LookupMany, seen: Seen, got: Got) -> Iterator[Outcome]:
    """The outcomes that the specification allows, the usual one first.

    Usual is to poll nowhere but where it is required. The others differ from it only when one of
    the tiers that were polled had something to say.

    Raises:
        Forbidden: after the last one, when the usual one is not allowed.
    """
    refused = None
    try:
        yield apply(before, op, replace(seen, polled=None))
    except Forbidden as forbidden:
        refused = forbidden
    talking = [tier for tier in dict.fromkeys(got.polled) if before.mail.get(tier)]
    places = range(len(op.keys))
    for chosen in product(places, repeat=len(talking)) if talking else ():
        polls = [
            tuple(tier for tier, at in zip(talking, chosen, strict=True) if at == place)
            for place in places
        ]
        yield from _one_by_one(before, op, seen, polls)
    if refused is not None:
        raise refused


def _one_by_one(
    before: State, op: ops.LookupMany, seen: Seen, polls: list[tuple[str, ...]]
) -> Iterator[Outcome]:
    """The same keys looked up one after the other, tiers polled before the keys that `polls` says.

    A lookup evicts one block at most, and which of them did is not seen either.
    """
    for evicting in product((False, True), repeat=len(op.keys)):
        if sum(evicting) != len(seen.victims or ()):
            continue
        try:
            yield _in_turn(before, op, seen, polls, evicting)
        except Forbidden:
            continue


def _in_turn(
    before: State,
    op: ops.LookupMany,
    seen: Seen,
    polls: list[tuple[str, ...]],
    evicting: tuple[bool, ...],
) -> Outcome:
    victims = iter(seen.victims or ())
    whole = Outcome(before, ())
    for key, polled, evicts in zip(op.keys, polls, evicting, strict=True):
        mine = (next(victims),) if evicts else ()
        one = apply(
            whole.state, ops.Lookup(key, op.request), Seen(polled or None, mine, seen.slots)
        )
        whole = Outcome(
            one.state,
            (*whole.answer, one.answer),
            error=whole.error or one.error,
            asked=whole.asked + one.asked,
            rules=whole.rules + one.rules,
        )
    return whole
