"""Every break of the table and of the manager must be noticed: by what, how soon, why.

A break of the *table* is killed by the proof, which looks for a small world in which a contract
fails; or it is proved equivalent. A break of *production* is killed by the tour, which is the same
every time, or else by random histories; the operations are those of the shortest history.
"""

from __future__ import annotations

import logging
import multiprocessing
import os
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import cache, partial
from typing import TypeVar

from .contracts import RUNS, TOUR
from .faults import FAULTS, Fault
from .found import Found
from .histories import first_found
from .processes import deaf_workers
from .rooms import ROOMS, Room
from .shortest import search
from .tour import walk

Progress = Callable[[int, int], None]
Item = TypeVar("Item")

PRODUCTION, TABLE = "production", "table"
KILLED, EQUIVALENT, SURVIVED = "killed", "equivalent", "survived"
HISTORIES = 3_000
"""Random histories after which a fault is given up."""
SEARCH_SECONDS = 2.0
"""Of processor time, for trying all histories shorter than the one that showed a fault."""


@dataclass(frozen=True)
class Fate:
    """What became of one break.

    `killer` is the method that noticed it, `contract` the one that it breaks, `operations` the
    length of the shortest history that shows it; of a break of the table there is none.
    """

    set: str
    name: str
    verdict: str
    killer: str = ""
    contract: str = ""
    operations: int | None = None
    seconds: float = 0.0
    reason: str = ""
    """Why an equivalent break is one."""
    shortest: bool = True
    """Whether all shorter histories were tried."""
    found: Found | None = None
    """The history that shows it, for a break of production."""


# -- production ----------------------------------------------------------------------------------


def production_fates(
    progress: Progress | None = None,
    *,
    names: Sequence[str] | None = None,
    search: float = SEARCH_SECONDS,
) -> list[Fate]:
    """The fate of every fault, or of those named; `search` is what `SEARCH_SECONDS` says."""
    fate = partial(_production_fate, search_seconds=search)
    return list(_shared(fate, list(FAULTS) if names is None else names, progress))


def _production_fate(name: str, *, search_seconds: float) -> Fate:
    began = time.perf_counter()
    fault = FAULTS[name]
    found = notice(fault)
    if found is None:
        return Fate(PRODUCTION, name, SURVIVED, seconds=time.perf_counter() - began)
    best, complete = search(fault.factory, found, limit_s=search_seconds, clock=time.process_time)
    seconds = time.perf_counter() - began
    how = (found.method, found.contract, len(best.history))
    return Fate(PRODUCTION, name, KILLED, *how, seconds, shortest=complete, found=best)


def notice(fault: Fault) -> Found | None:
    """How the checks come upon a fault: on the tour, else in random histories.

    The rooms that a fault names are only walked through first; no verdict depends on them.
    """
    for room in _rooms(fault):
        divergences = walk(fault.factory, room, enough=1).divergences
        if divergences:
            return divergences[0]
    return first_found(fault.factory, range(HISTORIES))


def _rooms(fault: Fault) -> list[Room]:
    """The rooms that the fault names, then the others; none when it takes more than the tour."""
    if fault.method == RUNS:
        return []
    assert fault.method == TOUR
    named = [room for name in fault.rooms for room in ROOMS if room.name == name]
    return named + sorted((r for r in ROOMS if r not in named), key=lambda room: room.weight)


# -- the table -----------------------------------------------------------------------------------


def table_fates(progress: Progress | None = None) -> list[Fate]:
    """The fate of every one-cell break of the table."""
    return list(_shared(_table_fate, range(len(_table_mutants())), progress))


@cache
def _table_mutants():  # type: ignore[no-untyped-def]
    from .table_mutants import table_mutants  # the solver takes a second to load

    return table_mutants()


def _table_fate(at: int) -> Fate:
    from .table_mutants import is_equivalent, kill_by_proof

    began = time.perf_counter()
    mutant = _table_mutants()[at]
    contract = kill_by_proof(mutant)
    fate = partial(Fate, TABLE, mutant.name)
    if contract is not None:
        return fate(KILLED, "proof", contract, seconds=time.perf_counter() - began)
    same = is_equivalent(mutant)
    seconds = time.perf_counter() - began
    if same:
        reason = "under the invariants the rule fires where it did and leads where it led"
        return fate(EQUIVALENT, seconds=seconds, reason=reason)
    return fate(SURVIVED, seconds=seconds)


# -- several processes ---------------------------------------------------------------------------


def _quietly() -> None:
    logging.getLogger("tierproof").setLevel(logging.CRITICAL + 1)


def _shared(
    fate: Callable[[Item], Fate], items: Sequence[Item], progress: Progress | None
) -> Iterator[Fate]:
    """The fates of all items in their order, by one process for each processor."""
    count = len(os.sched_getaffinity(0))
    chunk = max(1, min(20, len(items) // (8 * count)))
    spawn = multiprocessing.get_context("spawn")  # a solver does not survive a fork
    with ProcessPoolExecutor(count, mp_context=spawn, initializer=_quietly) as pool:
        with deaf_workers():
            fates = pool.map(fate, items, chunksize=chunk)
        for done, one in enumerate(fates, 1):
            if progress is not None:
                progress(done, len(items))
            yield one
