"""The commands that hold a manager to the contracts: verify, tour, fuzz."""

from __future__ import annotations

import secrets
from pathlib import Path

from .checks import add_counterexamples, by_proof, by_readings, by_runs, by_tour
from .contracts import RUNS, TOUR
from .generated_tests import write_tests
from .managers import Chosen
from .report import Report
from .terminal import Terminal, conclusion

FILES = 3000
"""How many operations of `verify` move real bytes through a real file tier."""


def a_seed(given: int | None) -> int:
    """The seed of the random histories: always one that can be given again."""
    return secrets.randbelow(2**32) if given is None else given


def verify(
    chosen: Chosen, terminal: Terminal, *, examples: int, seed: int | None, folder: Path
) -> Report:
    """Proof, comparison of the readings, tour and runs."""
    report = Report("verify", chosen.spec, proof_of=_proof_of(chosen))
    with terminal.progress("proof"):
        by_proof(chosen, report)
    with terminal.progress("readings"):
        by_readings(chosen, report)
    found = {}
    with terminal.progress("tour") as step:
        found[TOUR] = by_tour(chosen, report, step)
    with terminal.progress("runs") as step:
        found[RUNS] = by_runs(
            chosen, report, examples=examples, seed=a_seed(seed), files=FILES, progress=step
        )
    with terminal.progress("counterexamples") as step:
        add_counterexamples(chosen, report, found, step)
    return _finished(report, chosen, folder)


def tour(chosen: Chosen, terminal: Terminal, *, folder: Path) -> Report:
    """The tour alone."""
    report = Report("tour", chosen.spec)
    with terminal.progress("tour") as step:
        found = {TOUR: by_tour(chosen, report, step)}
    with terminal.progress("counterexamples") as step:
        add_counterexamples(chosen, report, found, step)
    return _finished(report, chosen, folder)


def fuzz(
    chosen: Chosen, terminal: Terminal, *, examples: int, seed: int | None, folder: Path
) -> Report:
    """The random histories alone."""
    report = Report("fuzz", chosen.spec)
    with terminal.progress("runs") as step:
        found = {RUNS: by_runs(chosen, report, examples=examples, seed=a_seed(seed), progress=step)}
    with terminal.progress("counterexamples") as step:
        add_counterexamples(chosen, report, found, step)
    return _finished(report, chosen, folder)


def _finished(report: Report, chosen: Chosen, folder: Path) -> Report:
    command = f"tierproof {report.command} --manager {chosen.spec}"
    report.counterexamples = write_tests(report.counterexamples, folder, command)
    report.conclusion = conclusion(report)
    return report


def _proof_of(chosen: Chosen) -> str:
    return "the table" if chosen.rules is None else "the broken table"
