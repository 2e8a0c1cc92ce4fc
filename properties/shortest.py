"""The shortest real history that shows a broken contract, by breadth-first search.

What a solver or a random run finds is rarely the simplest story. Here all histories are tried on
the manager itself, shorter ones first, in settings that grow from one key, request and tier to
the setting of the finding. Histories that lead to the same state of the model *and* of the manager
(its fingerprint) are tried once; without a fingerprint every history is tried.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Hashable, Iterator
from dataclasses import replace
from typing import Any

from ..model import operations as ops
from ..model.operations import MINDS, Operation, Setting
from .driver import Factory
from .found import Found
from .lockstep import Divergence, Lockstep, Saved, every
from .moves import Menu, moves

Clock = Callable[[], float]
Counts = Callable[[str], bool]
"""Does a contract count? See `lockstep`."""

NEEDS: tuple[tuple[str, frozenset[str]], ...] = (
    ("time", frozenset({"time_passes"})),
    ("resets", frozenset({"reset_cache", "on_reset_flushed"})),
    ("ends", frozenset({"on_request_finished"})),
    ("withdraw", frozenset({"withdraw"})),
    ("stores", frozenset({"prepare_store", "complete_store"})),
    ("loads", frozenset({"prepare_load", "complete_load"})),
    ("lookup_many", frozenset({"lookup_many"})),
    ("plans", frozenset({"exists", "plan_load"})),
    ("verify", frozenset({"tier_verifies"})),
    ("mistakes", frozenset({"misreport"})),
)

AT_LEAST = 1.0
"""Seconds for leaving out what does not matter, even when there is no time for more."""


def shortest(
    factory: Factory, found: Found, *, limit_s: float = 20.0, counts: Counts = every
) -> Found:
    """The shortest history that breaks the same contract as `found`, or `found` itself.

    The search ends after `limit_s` seconds; what was found by then, if only `found`, is returned
    with the operations that do not matter left out, as far as that takes a second.
    """
    return search(factory, found, limit_s=limit_s, counts=counts)[0]


def search(
    factory: Factory,
    found: Found,
    *,
    limit_s: float = 20.0,
    clock: Clock = time.monotonic,
    counts: Counts = every,
) -> tuple[Found, bool]:
    """As `shortest`, and whether every shorter history of its kind was tried in that time.

    `clock` is what the seconds are measured by: with `time.process_time` a busy machine finds as
    much as an idle one.
    """
    until = clock() + limit_s
    latest = max(until, clock() + AT_LEAST)
    best = without_detours(factory, found, lambda: clock() > latest, counts)
    for setting in _settings(best):
        best = _search(factory, setting, best, lambda: clock() > until, counts) or best
    return best, clock() <= until


def replay(
    factory: Factory, setting: Setting, history: tuple[Operation, ...], counts: Counts = every
) -> Divergence | None:
    """Perform a history on a fresh manager; the divergence that it ends in, if any."""
    lockstep = Lockstep(factory, setting, counts=counts)
    try:
        lockstep.run(history)
    except Divergence as divergence:
        return divergence
    except (KeyError, ValueError):  # a job that this history never started
        return None
    return None


def without_detours(
    factory: Factory,
    found: Found,
    over: Callable[[], bool] = lambda: False,
    counts: Counts = every,
) -> Found:
    """Leave out, one by one, operations without which the same contract is still broken.

    When it is `over`, it ends with what it has by then.
    """
    best = found
    i = len(best.history) - 1
    while i >= 0 and not over():
        tried = best.history[:i] + best.history[i + 1 :]
        divergence = replay(factory, best.setting, tried, counts)
        if divergence is not None and divergence.contract == found.contract:
            best = Found(best.setting, divergence, found.method)
            i = len(best.history)
        i -= 1
    return best


def _settings(found: Found) -> Iterator[Setting]:
    """Settings from small to the finding's own: only what the history names, and less."""
    full = found.setting
    named = _named(found.history)
    keys = tuple(k for k in full.keys if k in named) or full.keys[:1]
    requests = tuple(r for r in full.requests if r.name in named) or full.requests[:1]
    plain = replace(full, keys=keys, requests=requests)
    for slots in sorted({1, 2, full.slots}):
        for count in range(1, len(full.tiers) + 1):
            some = full.tiers[:count]
            if all(
                r.external_of is None or r.external_of in [t.name for t in some] for r in requests
            ):
                kept = {t.name for t in some}
                yield replace(
                    plain,
                    slots=slots,
                    tiers=some,
                    requests=tuple(
                        replace(
                            r,
                            only=None if r.only is None else tuple(t for t in r.only if t in kept),
                        )
                        for r in requests
                    ),
                )
    yield full


def _named(history: tuple[Operation, ...]) -> set[str]:
    names: set[str] = set()
    for op in history:
        for value in op.args().values():
            names.update([value] if isinstance(value, str) else ())
            names.update(v for v in value if isinstance(v, str)) if isinstance(
                value, list | tuple
            ) else None
    return names


def menu_of(history: tuple[Operation, ...]) -> Menu:
    """The smallest menu from which the history can be drawn."""
    kinds = {op.op for op in history}
    menu = Menu(
        batches=any(len(getattr(op, "keys", ())) > 1 for op in history),
        minds=MINDS if "tier_says" in kinds else (),
        moods=tuple(sorted({op.mood for op in history if isinstance(op, ops.Mood)})),
        scheduled=any(isinstance(op, ops.StepEnd) and op.scheduled for op in history),
    )
    switches: dict[str, Any] = {name: bool(needs & kinds) for name, needs in NEEDS}
    return replace(menu, **switches)


def _search(
    factory: Factory, setting: Setting, best: Found, over: Callable[[], bool], counts: Counts
) -> Found | None:
    """A history in `setting` shorter than `best` that breaks the same contract."""
    menu = menu_of(best.history)
    kinds = frozenset(op.op for op in best.history)
    menu = replace(menu, only=kinds | {"on_schedule_end", "lookup", "job_ends"})
    start = Lockstep(factory, setting, counts=counts)
    seen: set[Hashable] = {_mark(start)}
    queue: deque[Saved] = deque([start.save()])
    while queue:
        saved = queue.popleft()
        if len(saved.history) + 1 >= len(best.history):
            return None
        for op in list(moves(saved.state, menu)):
            if over():
                return None
            here = Lockstep.resume(factory, setting, saved, counts)
            try:
                here.do(op)
            except Divergence as divergence:
                if divergence.contract == best.contract:
                    return Found(setting, divergence, best.method)
                continue
            mark = _mark(here)
            if mark is None or mark not in seen:
                seen.add(mark)
                queue.append(here.save())
    return None


def _mark(lockstep: Lockstep) -> Hashable:
    if not lockstep.driver.observes("fingerprint"):
        return None
    return lockstep.state.canonical(), lockstep.driver.probe.fingerprint()
