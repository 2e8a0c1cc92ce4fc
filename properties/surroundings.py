"""A found history in the plainest surroundings, without what does not matter to it."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from ..model.operations import Operation, Setting, StepEnd
from .counterexamples import replay
from .driver import Factory
from .found import Found
from .lockstep import Divergence, every
from .wording import plain

History = tuple[Operation, ...]


def plainest(
    factory: Factory,
    found: Found,
    until: float = math.inf,
    counts: Callable[[str], bool] = every,
) -> Found:
    """The same history in the plainest surroundings in which it still breaks the contract.

    It ends at `until` (seconds of `time.monotonic`) with what it has by then.
    """
    named = str([op.args() for op in found.history])
    needed = [key for key in found.setting.keys if repr(key) in named]
    for setting, history in _plainer(found.setting, found.history):
        if time.monotonic() > until:
            break
        if any(key not in setting.keys for key in needed):
            continue  # a world without the very key would be another one
        try:
            _, divergence = replay(factory, setting, history, counts)
        except Exception:  # history or manager name what is no longer there
            continue
        if divergence is not None and _seen(divergence) == _seen(found.divergence):
            return plainest(factory, Found(setting, divergence, found.method), until, counts)
    return found


def _seen(divergence: Divergence) -> tuple[Any, ...]:
    """What must stay the same, so that the history does not come to tell another story."""
    return (
        divergence.contract,
        len(divergence.history),
        plain(divergence.expected),
        plain(divergence.got),
    )


def _plainer(setting: Setting, history: History) -> Iterator[tuple[Setting, History]]:
    """Without one of the things that there are, and with steps at which nothing is scheduled."""
    for plainer in _plainer_settings(setting):
        yield plainer, history
    for i, op in enumerate(history):
        if isinstance(op, StepEnd) and op.scheduled:
            yield setting, (*history[:i], StepEnd(), *history[i + 1 :])


def _plainer_settings(setting: Setting) -> Iterator[Setting]:
    """Settings without one of the things that this one has."""

    def without(things: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:
        for i in range(len(things)):
            yield things[:i] + things[i + 1 :]

    for requests in without(setting.requests):
        yield replace(setting, requests=requests)
    for tiers in without(setting.tiers):
        yield replace(setting, tiers=tiers)
    for keys in without(setting.keys):
        yield replace(setting, keys=keys)
    for i, tier in enumerate(setting.tiers):
        changed = [replace(tier, has=has) for has in without(tier.has)]
        changed += [replace(tier, undecided=some) for some in without(tier.undecided)]
        changed += [replace(tier, whole_request=False)] if tier.whole_request else []
        for other in changed:
            yield replace(setting, tiers=(*setting.tiers[:i], other, *setting.tiers[i + 1 :]))
    for i, request in enumerate(setting.requests):
        if request.only is not None:
            free = replace(request, only=None)
            yield replace(
                setting, requests=(*setting.requests[:i], free, *setting.requests[i + 1 :])
            )
    if setting.slots > 1:
        yield replace(setting, slots=setting.slots - 1)
