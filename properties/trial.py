"""A manager or a tier held to its contracts within a budget: each method once, when first needed.

What pytest shows as many tests shares one tour and one series of random histories. This module
knows nothing of pytest.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Protocol

from ..impl.counted import counted
from . import watch_tour, watched
from .budget import Budget
from .checks import ask_no_more_of, driving, fewer, judge
from .contracts import CONTRACTS, RUNS, TIER_CONTRACTS, TOUR, Contract
from .counterexamples import SEARCH_SECONDS, Counterexample, gather
from .found import Found
from .generated_tests import write_tests
from .histories import many
from .managers import Chosen
from .real_tiers import with_files
from .report import Report, Result
from .rooms import ROOMS, Room
from .tiers_under_test import ChosenTier, check_tier
from .tour import ENOUGH, Patience, tour

METHODS = (TOUR, RUNS)
"""How a manager is driven. The proof speaks of the table, whoever's manager is under test."""
HISTORIES = 1000
FILES = 1000
"""Operations over a real file tier."""
TOUR_SHARE, RUNS_SHARE, SEARCH_SHARE = 0.6, 0.6, 0.5
"""Of what is left of the budget when each begins: what comes later must have its turn."""


class Trial(Protocol):
    """What a test asks: the verdict on one contract by one method, and what there is to show."""

    report: Report
    contracts: dict[str, Contract]

    def result(self, contract: str, method: str) -> Result:
        """The verdict; the work is done when it is first asked for."""

    def counterexample(self, contract: str) -> Counterexample | None:
        """The history that shows a broken contract, where there is one."""

    def must_reach(self, method: str) -> bool:
        """Would the method have brought a manager to everything that it claims?"""


class ManagerTrial:
    """A manager held to the contracts.

    Args:
        chosen: the manager.
        budget: seconds for all methods together.
        seed: the number of the first random history.
        histories: how many random histories, if there is time.
        rooms: the rooms of the tour.
        enough: findings after which a room, or the random histories, are left.
        wanted: the contracts that will be asked for.
        folder: where counterexamples are written as pytest files; None: nowhere.
    """

    contracts = CONTRACTS

    def __init__(
        self,
        chosen: Chosen,
        *,
        budget: Budget | None = None,
        seed: int = 0,
        histories: int = HISTORIES,
        rooms: Sequence[Room] = ROOMS,
        enough: int = ENOUGH,
        wanted: Collection[str] = tuple(CONTRACTS),
        folder: Path | None = None,
    ) -> None:
        self.report = Report("pytest", chosen.spec)
        self._chosen = chosen
        self._budget = budget or Budget()
        self._seed = seed
        self._histories = histories
        self._rooms = rooms
        self._enough = enough
        self._wanted = wanted
        self._folder = folder
        self._held: set[str] = set()
        self._failed: Exception | None = None
        self._disturbed = False

    def result(self, contract: str, method: str) -> Result:
        """The verdict of a method on a contract.

        Raises:
            UsageError: the manager cannot be driven.
        """
        if self._failed is not None:
            raise self._failed
        if method not in self._held:
            self._held.add(method)
            try:
                found = self._drive(method)
                self.report.results = [r for r in self.report.results if r.contract in self._wanted]
                self._shorten(method, found)
            except Exception as error:
                self._failed = error
                raise
        result = self.report.of(contract, method)
        assert result is not None, f"{method} says nothing of {contract}"
        return result

    def counterexample(self, contract: str) -> Counterexample | None:
        """The shortest history known that breaks a contract."""
        found = (c for c in self.report.counterexamples if c.contract == contract)
        return next(found, None)

    def must_reach(self, method: str) -> bool:
        """The whole tour would have; where a manager has gone wrong it was not led on."""
        return method == TOUR and len(self._rooms) == len(ROOMS) and not self._disturbed

    def _counts(self, contract: str) -> bool:
        """Is it news that this contract is broken?"""
        return contract in self._wanted and self._claimed(contract)

    def _claimed(self, contract: str) -> bool:
        return self._chosen.answers_for(contract)

    def _drive(self, method: str) -> list[Found]:
        if self._chosen.watched:
            return self._watch(method)
        return self._tour() if method == TOUR else self._runs()

    def _watch(self, method: str) -> list[Found]:
        """A manager with policies of its own is judged by what is seen alone."""
        share, factory = TOUR_SHARE if method == TOUR else RUNS_SHARE, self._chosen.factory
        until = time.perf_counter() + share * self._budget.left
        with driving(self._chosen), self._budget.part(share) as over:
            if method == TOUR:
                seen = watch_tour.tour(factory, deadline=until)
            else:
                count, seed = self._histories, self._seed
                seen = watch_tour.runs(factory, examples=count, seed=seed, deadline=until)
            late = over()
        watched.judge(self._chosen, self.report, method, seen)
        if method == RUNS:
            ask_no_more_of(self._chosen, self.report, self._seed)
        each = ("case",) if method == TOUR else ("history", "histories")
        self.report.lines.append(
            f"{method}: {counted(seen.cases, *each)}, "
            f"{counted(seen.operations, 'operation')} in {seen.seconds:.1f} s; judged by what is "
            "seen alone"
        )
        if method == RUNS:
            self.report.lines += fewer(seen.cases, self._histories, RUNS)
        if late and method == TOUR:
            self._skip(TOUR, f"nothing was found, but the tour was not finished{self._short()}")
        found = watched.as_found(seen)
        self._disturbed = self._disturbed or any(self._claimed(f.contract) for f in found)
        return found

    def _short(self) -> str:
        seconds = self._budget.seconds
        return f" in its share of the budget of {seconds:g} s; give more with --tierproof-budget"

    def _tour(self) -> list[Found]:
        with driving(self._chosen), self._budget.part(TOUR_SHARE) as over:
            patience = Patience(self._enough, over, self._counts)
            toured = tour(self._chosen.factory, rooms=self._rooms, patience=patience)
        self._disturbed = any(self._claimed(f.contract) for f in toured.divergences)
        whole, left = len(self._rooms), len(toured.cut)
        counts = {
            "cases": toured.cases,
            "states": toured.states,
            "operations": toured.operations,
            "rooms": whole - left,
        }
        judge(self._chosen, self.report, TOUR, counts, toured)
        self.report.lines.append(
            f"tour: {whole - left} of {counted(whole, 'room')}, {counted(toured.cases, 'case')}, "
            f"{counted(toured.operations, 'operation')} in {toured.seconds:.1f} s"
        )
        if not whole:
            self._skip(TOUR, "no room of the tour was walked through")
        elif left:
            self._skip(
                TOUR,
                f"nothing was found, but the tour left {left} of {counted(whole, 'room')} "
                "unfinished"
                f"{self._short()}",
            )
        return toured.divergences

    def _runs(self) -> list[Found]:
        factory, seed = self._chosen.factory, self._seed
        with driving(self._chosen), self._budget.part(RUNS_SHARE) as over:
            patience = Patience(self._enough, over, self._counts)
            drawn = many(factory, count=self._histories, seed=seed, patience=patience)
            files = 0 if over() else FILES
            real = with_files(factory, operations=files, seed=seed, counts=self._counts)
        alone = drawn.seconds
        drawn.divergences += real.divergences
        drawn.reached |= real.reached
        drawn.seconds += real.seconds
        counts = {
            "examples": drawn.histories,
            "operations": drawn.operations + real.operations,
            "blocks_written": real.stored,
            "blocks_read": real.loaded,
            "seed": seed,
        }
        judge(self._chosen, self.report, RUNS, counts, drawn)
        ask_no_more_of(self._chosen, self.report, seed)
        self.report.lines.append(
            f"runs: {counted(drawn.histories, 'history', 'histories')} from seed {seed} on, "
            f"{counted(drawn.operations, 'operation')} in {alone:.1f} s; "
            f"{counted(real.operations, 'operation')} over real files"
        )
        self.report.lines += fewer(drawn.histories, self._histories, RUNS)
        if not drawn.histories:
            self._skip(
                RUNS,
                f"there was no random history; the budget is {self._budget.seconds:g} s, give more "
                "with --tierproof-budget",
            )
        return drawn.divergences

    def _skip(self, method: str, says: str) -> None:
        """What was not looked at to the end must not be called kept."""
        self.report.results = [
            replace(r, verdict="skipped", says=says)
            if r.method == method and r.verdict in ("holds", "not_reached", "gap_closed")
            else r
            for r in self.report.results
        ]

    def _shorten(self, method: str, found: list[Found]) -> None:
        broken = [r for r in self.report.results if r.method == method and r.verdict == "violated"]
        known = {c.contract for c in self.report.counterexamples}
        seen = {f.contract for f in found}
        self.report.counterexamples = [
            replace(c, methods=(*c.methods, method)) if c.contract in seen else c
            for c in self.report.counterexamples
        ]
        wanted = [r.contract for r in broken if r.contract in seen - known]
        with driving(self._chosen), self._budget.part() as _:
            new = gather(
                self._chosen,
                {method: found},
                wanted,
                seconds=min(SEARCH_SECONDS, SEARCH_SHARE * self._budget.left),
            )
        if self._folder is not None:
            command = f"pytest --tierproof-manager {self._chosen.spec}"
            new = write_tests(new, self._folder, command, "--tierproof-counterexamples")
        self.report.counterexamples += new


class TierTrial:
    """A tier held to its contracts, one after the other as they are asked for.

    Args:
        chosen: the tier.
        budget: seconds for all contracts together; one that has begun is finished.
        operations: how many operations the check of bytes makes.
    """

    contracts = TIER_CONTRACTS

    def __init__(
        self, chosen: ChosenTier, *, budget: Budget | None = None, operations: int = 1000
    ) -> None:
        self.report = Report("pytest", chosen.spec)
        self._chosen = chosen
        self._budget = budget or Budget()
        self._operations = operations

    def result(self, contract: str, method: str = RUNS) -> Result:
        """The verdict on a contract."""
        known = self.report.of(contract, method)
        if known is not None:
            return known
        with _quietly(), self._budget.part() as over:
            if over():
                says = (
                    f"no time was left in the budget of {self._budget.seconds:g} s; give more with "
                    "--tierproof-budget"
                )
                result = Result(contract, method, "skipped", says=says)
            else:
                checked = check_tier(
                    self._chosen, contracts=[contract], operations=self._operations
                )
                (result,) = checked.results
                self.report.lines += checked.lines
        self.report.results.append(result)
        return result

    def counterexample(self, contract: str) -> None:
        """What a tier did wrong is said in words only."""

    def must_reach(self, method: str) -> bool:
        """What stops a tier's I/O the kit cannot bring with it."""
        return False


@contextmanager
def _quietly() -> Iterator[None]:
    """The faults are real ones: what a tier logs about them is no news."""
    logger = logging.getLogger("tierproof")
    level = logger.level
    logger.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        logger.setLevel(level)
