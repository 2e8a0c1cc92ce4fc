"""What a command found out: contract by contract and method by method, in words and as data.

A contract that a method cannot check has no result for it; one that it should check and could not
has a verdict that says why. Nothing is left out silently.
"""

from __future__ import annotations

import json
import platform
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tierproof import __version__

from .contracts import CONTRACTS
from .contracts import VERSION as CONTRACTS_VERSION
from .places import write

if TYPE_CHECKING:
    from .counterexamples import Counterexample

SCHEMA = "tierproof.report/1"
METHODS = ("proof", "tour", "runs", "exhaustive", "replay")
VERDICTS = (
    "proved",
    "holds",
    "violated",
    "unknown",
    "not_reached",
    "not_claimed",
    "not_observable",
    "expected_failure",
    "gap_closed",
    "skipped",
)
"""What a method can find of a contract.

`not_reached`: the manager was never brought to what the contract speaks of (`situations`), so that
it could neither keep nor break it. `gap_closed`: a known gap, an expected failure so far, is kept.
"""
RED = frozenset({"violated", "gap_closed"})
GOOD, VIOLATED, COULD_NOT, OUR_FAULT, INTERRUPTED = 0, 1, 2, 3, 130
"""Exit codes: 2 is usage, could not run, `unknown`, and contracts that were not reached at all."""


@dataclass(frozen=True)
class Result:
    """A verdict on one contract by one method.

    `seconds` is what the check took that gave the verdict; contracts that one tour checks together
    share it. `says` is the reason of a verdict that is neither proved nor holds.
    """

    contract: str
    method: str
    verdict: str
    counts: Mapping[str, int] = field(default_factory=dict)
    seconds: float = 0.0
    says: str = ""


@dataclass(frozen=True)
class Page:
    """A generated page, and why it is stale; empty when it is not."""

    name: str
    stale: str = ""


@dataclass(frozen=True)
class Measure:
    """A figure of a benchmark, with the goal that it should not exceed."""

    what: str
    value: float
    unit: str
    goal: float | None = None

    @property
    def missed(self) -> bool:
        """Whether it exceeds its goal, or only comes up to it."""
        return self.goal is not None and self.value >= self.goal


@dataclass
class Report:
    """Everything that one command found out."""

    command: str
    manager: str | None = None
    proof_of: str = "the table"
    """What the proof speaks of: never of a manager's code."""
    results: list[Result] = field(default_factory=list)
    counterexamples: list[Counterexample] = field(default_factory=list)
    mutants: list[Any] = field(default_factory=list)
    """Fates of mutants (`mutants.Fate`)."""
    pages: list[Page] = field(default_factory=list)
    measures: list[Measure] = field(default_factory=list)
    missed: list[str] = field(default_factory=list)
    """Goals of a benchmark that were missed, besides those of its measures."""
    held_to_goals: bool = False
    """Whether a goal that is missed is a violation."""
    result: dict[str, Any] | None = None
    """The figures of a scan, or of `bench manager`."""
    lines: list[str] = field(default_factory=list)
    """Counts and circumstances, one line each, for whoever reads the terminal."""
    conclusion: str = ""
    """The last line of all."""
    failures: list[str] = field(default_factory=list)
    """What a manager under measurement did wrong, so that it has no figures."""
    doubts: list[str] = field(default_factory=list)
    """Reasons for which what is green would not mean what it should."""
    fault: str = ""
    """An exception that was not to come: our own fault, and no verdict."""

    @property
    def exit(self) -> int:
        """The exit code; a violation outweighs what stayed unknown."""
        if self.fault:
            return OUR_FAULT
        verdicts = {r.verdict for r in self.results}
        survived = any(m.verdict == "survived" for m in self.mutants)
        stale = any(p.stale for p in self.pages)
        slow = self.held_to_goals and self.missed_goals()
        if verdicts & RED or survived or stale or slow or self.failures:
            return VIOLATED
        undecided = "unknown" in verdicts or self.doubts or self.unreached()
        return COULD_NOT if undecided else GOOD

    def missed_goals(self) -> list[str]:
        """The goals that a benchmark missed, in words."""
        return [m.what for m in self.measures if m.missed] + self.missed

    def of(self, contract: str, method: str) -> Result | None:
        """The result of a contract by a method; None where the method does not apply."""
        found = (r for r in self.results if (r.contract, r.method) == (contract, method))
        return next(found, None)

    def methods(self) -> list[str]:
        """The methods that were used, in their usual order."""
        used = {r.method for r in self.results}
        return [m for m in METHODS if m in used]

    def contracts(self) -> list[str]:
        """The contracts with a result, in the order in which they are stated."""
        found = dict.fromkeys(r.contract for r in self.results)
        return [c for c in CONTRACTS if c in found] + [c for c in found if c not in CONTRACTS]

    def violated(self) -> list[str]:
        """The contracts that some method found violated."""
        return self.with_verdict("violated")

    def unreached(self) -> list[str]:
        """The contracts that some method on the manager did not reach, and none of them did."""
        asked = {r.contract for r in self.results if r.verdict == "not_reached"}
        answered = {
            r.contract
            for r in self.results
            if r.method != "proof" and r.verdict not in ("not_reached", "skipped")
        }
        return [c for c in self.contracts() if c in asked - answered]

    def with_verdict(self, verdict: str) -> list[str]:
        """The contracts that some method gave this verdict."""
        given = {r.contract for r in self.results if r.verdict == verdict}
        return [c for c in self.contracts() if c in given]

    def tally(self, method: str) -> Counter[str]:
        """How many contracts got each verdict by a method."""
        return Counter(r.verdict for r in self.results if r.method == method)

    def as_json(self) -> dict[str, Any]:
        """The report as data; `schema` names its form."""
        data: dict[str, Any] = {
            "schema": SCHEMA,
            "command": self.command,
            "exit": self.exit,
            "versions": versions(),
            "manager": self.manager,
            "results": [
                {
                    "contract": r.contract,
                    "method": r.method,
                    "verdict": r.verdict,
                    "counts": dict(r.counts),
                    "seconds": round(r.seconds, 3),
                }
                for r in self.results
            ],
            "counterexamples": [c for found in self.counterexamples for c in found.as_json()],
            "mutants": [
                {
                    "set": m.set,
                    "name": m.name,
                    "verdict": m.verdict,
                    "killer": m.killer,
                    "contract": m.contract,
                    "operations": m.operations,
                    "seconds": round(m.seconds, 3),
                }
                for m in self.mutants
            ],
        }
        if self.failures:
            data["failures"] = self.failures
        if self.held_to_goals:
            data["missed"] = self.missed_goals()
        if self.fault:
            data["fault"] = self.fault
        if self.result is not None:  # of `scan` and `bench manager`
            data["result"] = self.result
        if self.measures:  # of the other benchmarks
            data["measures"] = [
                {"what": m.what, "value": round(m.value, 3), "unit": m.unit, "goal": m.goal}
                for m in self.measures
            ]
        return data


def versions() -> dict[str, str]:
    """What a verdict depends on besides the code under test."""
    found = {"python": platform.python_version(), "tierproof": __version__}
    for name, package in (("z3", "z3-solver"), ("cvc5", "cvc5"), ("hypothesis", "hypothesis")):
        try:
            found[name] = version(package)
        except PackageNotFoundError:
            found[name] = "not installed"
    return {**found, "contracts": CONTRACTS_VERSION}


def write_json(report: Report, path: Path) -> None:
    """Write the report for a program to read."""
    text = json.dumps(report.as_json(), indent=2, ensure_ascii=False)
    write(path, text + "\n", "--json")
