"""Every contract held against every release of vLLM: the cells of the matrix.

All releases use the same module names, so each is checked in a process of its own.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, field, replace
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from ..impl.counted import counted
from .checks import A2, NOT_DRIVEN
from .contracts import CONTRACTS, RUNS, TOUR
from .counterexamples import Counterexample
from .generated_tests import write_tests
from .managers import Chosen, resolve
from .watch_tour import CASES, Result, runs, tour
from .watched import as_found, counterexample, verdict_on

SCHEMA = "tierproof.matrix/1"
RELEASES = (
    *("0.22.1", "0.24.0", "0.25.1", "0.27.1", "0.28.0"),
    *("0.30.0", "0.31.0", "0.32.0", "0.33.0"),
)
"""The releases that the matrix is about: those in which the tiering interface changed."""
METHODS = (TOUR, RUNS)


@dataclass(frozen=True)
class Settings:
    """How much is tried."""

    cases: int = CASES
    """(state, operation) pairs in each room of the tour."""
    examples: int = 200
    """Random histories."""
    seed: int = 0
    """Of the random histories; the tour has none."""
    budget: float | None = None
    """Seconds for each release, of which the tour gets two thirds; no limit if None."""


@dataclass
class Cell:
    """What one method says of one contract in one release."""

    version: str
    contract: str
    method: str
    verdict: str
    operations: int | None = None
    """Length of the shortest history that breaks it."""
    seconds: float = 0.0
    """After how long it was first found."""
    says: str = ""
    reproducer: str | None = None


@dataclass
class Checked:
    """One release, checked."""

    version: str
    cells: list[Cell] = field(default_factory=list)
    counterexamples: list[Counterexample] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    seconds: float = 0.0


def check(version: str, settings: Settings) -> Checked:
    """Check one release in this process.

    Raises:
        UsageError: it is not in the cache, or this process has another release loaded.
    """
    logging.getLogger("vllm").setLevel(logging.CRITICAL)  # tiers fail by the thousand on purpose
    began = time.perf_counter()
    chosen = resolve(f"vllm:{version}")
    budget = settings.budget
    for_tour = None if budget is None else began + budget * 2 / 3
    toured = tour(chosen.factory, cases=settings.cases, deadline=for_tour)
    for_runs = None if budget is None else began + budget
    ran = runs(chosen.factory, examples=settings.examples, seed=settings.seed, deadline=for_runs)
    checked = Checked(version)
    for method, result in ((TOUR, toured), (RUNS, ran)):
        checked.cells += _cells(chosen, version, method, result)
        cut = f"; not to full depth: {', '.join(result.cut)}" if result.cut else ""
        checked.lines.append(
            f"vLLM {version}, {method}: {counted(result.cases, 'case')}, "
            f"{counted(result.operations, 'operation')} "
            f"in {result.seconds:.1f} s{cut}"
        )
    checked.counterexamples = list(_counterexamples(chosen, toured, ran))
    checked.seconds = time.perf_counter() - began
    return checked


def _cells(chosen: Chosen, version: str, method: str, result: Result) -> Iterator[Cell]:
    for contract in CONTRACTS.values():
        if method not in contract.methods:
            continue
        if contract.id == A2:
            yield Cell(version, A2, method, "not_observable", says=NOT_DRIVEN)
            continue
        verdict, says = verdict_on(chosen, contract.id, result)
        seen = result.found.get(contract.id)
        if seen is None:
            yield Cell(version, contract.id, method, verdict, says=says)
        else:
            length = len(seen.history)
            yield Cell(version, contract.id, method, verdict, length, seen.seconds, seen.said)


def _counterexamples(chosen: Chosen, toured: Result, ran: Result) -> Iterator[Counterexample]:
    """For each broken contract its shortest history, whichever method found it."""
    for contract in CONTRACTS:
        found = [f for r in (toured, ran) for f in as_found(r) if f.contract == contract]
        if found:
            best = min(found, key=lambda f: len(f.history))
            yield counterexample(chosen, best, [f.method for f in found])


def check_all(
    versions: Sequence[str],
    settings: Settings,
    *,
    processes: int,
    progress: Callable[[int, int], None] | None = None,
) -> list[Checked]:
    """Check releases, each in a process of its own.

    Raises:
        UsageError: one of them is not in the cache or cannot be loaded.
    """
    context = get_context("spawn")
    checked = {}
    with ProcessPoolExecutor(processes, mp_context=context, max_tasks_per_child=1) as pool:
        started = {pool.submit(check, version, settings): version for version in versions}
        for done, one in enumerate(as_completed(started), 1):
            checked[started[one]] = one.result()
            if progress is not None:
                progress(done, len(versions))
    return [checked[version] for version in versions]


def write_reproducers(checked: Sequence[Checked], folder: Path) -> None:
    """Write one pytest file for each broken contract of each release, and tell the cells of it.

    Raises:
        UsageError: it cannot be written.
    """
    for one in checked:
        alone = f"tierproof matrix --versions {one.version}"
        one.counterexamples = write_tests(one.counterexamples, folder, alone, "--reproducers")
        files = {c.contract: str(c.file) for c in one.counterexamples}
        one.cells = [
            replace(cell, reproducer=files.get(cell.contract))
            if cell.operations is not None
            else cell
            for cell in one.cells
        ]


def as_json(checked: Sequence[Checked], command: str) -> dict[str, Any]:
    """The matrix as data."""
    return {
        "schema": SCHEMA,
        "command": command,
        "cells": [
            {
                "version": cell.version,
                "contract": cell.contract,
                "method": cell.method,
                "verdict": cell.verdict,
                "operations": cell.operations,
                "reproducer": cell.reproducer,
            }
            for one in checked
            for cell in one.cells
        ],
        "findings": [
            {
                "version": one.version,
                "contract": found.contract,
                "says": found.said,
                "history": found.lines(),
            }
            for one in checked
            for found in one.counterexamples
        ],
        "unseen": [
            {"version": one.version, "contract": contract, "says": says}
            for one in checked
            for contract, says in _unseen(one)
        ],
    }


def _unseen(checked: Checked) -> Iterator[tuple[str, str]]:
    """Contracts of which no method could say anything, and why."""
    for contract in dict.fromkeys(cell.contract for cell in checked.cells):
        mine = [cell for cell in checked.cells if cell.contract == contract]
        if all(cell.verdict.startswith("not_") for cell in mine):
            yield contract, mine[0].says
