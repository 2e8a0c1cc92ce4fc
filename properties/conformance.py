"""What the pytest plugin does once it is used: options read, tests made, reports written."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from difflib import get_close_matches
from pathlib import Path
from typing import Any, NoReturn

import pytest

from .budget import SECONDS, Budget
from .contracts import CONTRACTS, RUNS, TIER_CONTRACTS
from .managers import UsageError, resolve
from .places import folder_to_make, writable
from .plugin import kit_of
from .report import Report, versions
from .report_files import write_reports
from .tiers_under_test import chosen_tier
from .trial import METHODS, ManagerTrial, TierTrial, Trial

OPEN = ("not_claimed", "not_observable", "not_reached", "skipped")
"""Verdicts of which a test says that it was skipped, and why."""


class Kit:
    """The options of one run, and the trials that it made."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._trials: dict[Any, Trial] = {}
        self._mistakes: dict[Any, UsageError] = {}
        self._servers = ExitStack()
        self.only = _contracts(self._option("contracts"))
        self.seed: int = self._option("seed") or 0
        self.budget_seconds: float | None = self._option("budget")
        if self.budget_seconds is not None and not 0 < self.budget_seconds < float("inf"):
            raise pytest.UsageError(
                f"--tierproof-budget must be a number of seconds above 0, such as 30, not "
                f"{self.budget_seconds:g}"
            )
        if self.seed < 0:
            raise pytest.UsageError(
                f"--tierproof-seed must be a whole number of at least 0, not {self.seed}"
            )
        self.folder = self._place("counterexamples", folder_to_make)
        self._files = {form: self._place(form, writable) for form in ("json", "junit", "html")}
        if any(self._files.values()) and getattr(config.option, "numprocesses", None):
            raise pytest.UsageError(
                "--tierproof-json, --tierproof-junit and --tierproof-html are written by one "
                "process; run the kit without -n (pytest -m tierproof -n 0)"
            )

    def _option(self, name: str) -> Any:
        return getattr(self._config.option, f"tierproof_{name}", None)

    def _place(self, name: str, refuse: Callable[[Path | None, str], Path | None]) -> Path | None:
        try:
            return refuse(self._option(name), f"--tierproof-{name}")
        except UsageError as mistake:
            raise pytest.UsageError(str(mistake)) from None

    # -- trials ----------------------------------------------------------------------------------

    def budget(self, seconds: float | None = None) -> Budget:
        """A budget: what the command line says, else what a class says, else the usual."""
        return Budget(self.budget_seconds or seconds or SECONDS)

    def trial(self, subject: Any, make: Callable[[], Trial]) -> Trial:
        """The trial of a subject, made when it is first asked for.

        Raises:
            UsageError: it cannot be made; told again each time.
        """
        if subject in self._mistakes:
            raise self._mistakes[subject]
        if subject not in self._trials:
            try:
                self._trials[subject] = make()
            except UsageError as mistake:
                self._mistakes[subject] = mistake
                raise
        return self._trials[subject]

    # -- tests -----------------------------------------------------------------------------------

    def collect(self, session: pytest.Session, items: list[pytest.Item]) -> None:
        """Add the tests of the subjects that the command line names; leave others out."""
        try:
            items += self._named(session)
        except UsageError as mistake:
            raise pytest.UsageError(str(mistake)) from None
        left_out = [item for item in items if not self._wanted(item)]
        if left_out:
            self._config.hook.pytest_deselected(items=left_out)
            items[:] = [item for item in items if item not in left_out]

    def _wanted(self, item: pytest.Item) -> bool:
        mark = item.get_closest_marker("tierproof")
        return mark is None or self.only is None or mark.kwargs.get("contract") in self.only

    def _named(self, session: pytest.Session) -> Iterator[pytest.Item]:
        name = self._option("manager")
        if name is not None:
            chosen = resolve(name)
            trial: Trial = ManagerTrial(
                chosen,
                budget=self.budget(),
                seed=self.seed,
                wanted=tuple(CONTRACTS) if self.only is None else self.only,
                folder=self.folder,
            )
            yield from self._tests(session, name, trial, pairs())
        name = self._option("tier")
        if name is not None:
            tier = self._servers.enter_context(chosen_tier(name))
            trial = TierTrial(tier, budget=self.budget())
            yield from self._tests(session, name, trial, ((c, RUNS) for c in TIER_CONTRACTS))

    def _tests(
        self,
        session: pytest.Session,
        name: str,
        trial: Trial,
        of: Iterable[tuple[str, str]],
    ) -> Iterator[pytest.Item]:
        self._trials[f"--tierproof: {name}"] = trial
        subject = Subject.from_parent(session, name=name, nodeid=f"tierproof::{name}")
        for contract, method in of:
            yield Held.from_parent(
                subject, name=f"{contract}-{method}", trial=trial, contract=contract, method=method
            )

    def describe(self, item: pytest.Item, mark: pytest.Mark) -> None:
        """Properties of a test for pytest's JUnit file."""
        found = versions()
        item.user_properties += [
            ("tierproof", found["tierproof"]),
            ("contracts", found["contracts"]),
            *((name, value) for name, value in mark.kwargs.items()),
        ]

    # -- what is told ----------------------------------------------------------------------------

    def header(self) -> str:
        """One line on top of the run."""
        found = versions()
        return f"tierproof: {found['tierproof']}, contracts version {found['contracts']}"

    @property
    def reports(self) -> list[Report]:
        """One for each subject of which something was asked."""
        return [trial.report for trial in self._trials.values() if trial.report.results]

    def summary(self) -> Iterator[str]:
        """What was tried of each subject, and where the reports are."""
        for report in self.reports:
            for line in report.lines:
                yield f"tierproof: {report.manager}: {line}"
        for path in filter(None, self._files.values()):
            yield f"tierproof: written to {path}"

    def finish(self) -> None:
        """Stop what runs and write the reports."""
        self._servers.close()
        write_reports(self.reports, **self._files)


def pairs() -> list[tuple[str, str]]:
    """Every contract of a manager with every method that drives a manager, method by method."""
    return [(c.id, m) for m in METHODS for c in CONTRACTS.values() if m in c.methods]


def _contracts(said: str | None) -> set[str] | None:
    """The contracts that the command line names; None: all."""
    if said is None:
        return None
    known = {**CONTRACTS, **TIER_CONTRACTS}
    chosen = set()
    for name in filter(None, (part.strip() for part in said.split(","))):
        found = [c for c in known if c == name or c.partition("-")[0] == name]
        if not found:
            close = get_close_matches(name, known, n=1, cutoff=0.3)
            hint = f"; did you mean {close[0]}?" if close else ""
            raise pytest.UsageError(
                f"--tierproof-contracts names {name!r}, which is no contract{hint}"
            )
        chosen.update(found)
    if not chosen:
        raise pytest.UsageError(
            "--tierproof-contracts names no contract; write ids separated by commas, such as L1,T3"
        )
    return chosen


# -- one test ------------------------------------------------------------------------------------


class Subject(pytest.Collector):
    """A manager or a tier that the command line names."""

    def collect(self) -> list[pytest.Item]:
        """Its tests are made by the kit."""
        return []


class Held(pytest.Item):
    """One contract by one method."""

    def __init__(self, *, trial: Trial, contract: str, method: str, **known: Any) -> None:
        super().__init__(**known)
        self._trial, self._contract, self._method = trial, contract, method
        self.add_marker(pytest.mark.tierproof(contract=contract, method=method))

    def runtest(self) -> None:
        """Ask for the verdict."""
        settle(self._trial, self._contract, self._method)

    def reportinfo(self) -> tuple[Path, int | None, str]:
        """Where a test is that has no file."""
        return self.path, None, self.nodeid


def settle(trial: Trial, contract: str, method: str) -> None:
    """Turn a verdict into the outcome of a test."""
    __tracebackhide__ = True
    try:
        result = trial.result(contract, method)
    except UsageError as mistake:
        say_once(mistake)
    if result.verdict in ("holds", "proved"):
        return
    verdict = result.verdict.replace("_", " ")
    if result.verdict == "expected_failure":
        pytest.xfail(result.says)
    unreached = result.verdict == "not_reached" and trial.must_reach(method)
    if result.verdict in OPEN and not unreached:
        pytest.skip(f"{contract}, {method}: {result.says or verdict}")
    pytest.fail("\n".join(told(trial, contract, method)), pytrace=False)


def say_once(mistake: UsageError) -> NoReturn:
    """One test of a class fails with a mistake that would fail all of them; the others skip."""
    __tracebackhide__ = True
    if mistake.told:
        pytest.skip("nothing could be tried: the first test of its kind says why")
    mistake.told = True
    pytest.fail(str(mistake), pytrace=False)


WORDS = {
    "violated": "{contract} is broken by {by}",
    "gap_closed": "{contract} is a known gap of {by} no more",
    "not_reached": "{contract} was not reached: {by} was never brought to what it speaks of",
    "unknown": "{contract} could not be decided for {by}",
}


def told(trial: Trial, contract: str, method: str) -> list[str]:
    """What a test says that fails: the contract in words, and the shortest history."""
    result = trial.result(contract, method)
    found = trial.counterexample(contract)
    if result.verdict == "violated" and found is not None:
        return found.lines()
    lines = [
        WORDS[result.verdict].format(contract=contract, by=trial.report.manager),
        f"  The contract: {trial.contracts[contract].words}.",
        f"  What was seen: {result.says}",
    ]
    if result.verdict == "not_reached":
        lines.append("  If the manager does not do this, leave the contract out of its claims.")
    return lines


def trial_of(request: pytest.FixtureRequest, make: Callable[[Kit], Trial]) -> Trial:
    """The trial of the class whose test asks."""
    kit = kit_of(request.config)
    try:
        return kit.trial(request.cls, lambda: make(kit))
    except UsageError as mistake:
        say_once(mistake)
