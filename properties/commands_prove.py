"""The command `prove`: the table, for any sizes, by z3; and what other provers say of it."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

from ..impl.counted import counted
from .checks import by_proof, by_readings
from .contracts import PROOF
from .managers import UsageError
from .places import folder_to_make
from .report import VIOLATED, Report, versions
from .terminal import Step, Terminal


def prove(terminal: Terminal, *, seeds: int, export: Path | None) -> Report:
    """Prove the table over one seed or several; ask Spacer; export for cvc5 and ask it.

    Raises:
        UsageError: the folder of the export cannot be written.
    """
    if export is not None:
        _make(export)
    report = Report("prove")
    with terminal.progress("proof"):
        verdicts = by_proof(None, report, seeds=range(seeds))
    with terminal.progress("readings"):
        by_readings(None, report)
    with terminal.progress("Spacer"):
        _ask_spacer(report)
    if export is not None:
        with terminal.progress("cvc5") as step:
            _ask_cvc5(report, export, step)
    from .cores import unused_cells

    idle = unused_cells(verdicts)
    report.lines.append(
        f"cells of guards that no proof about a single rule uses: {', '.join(idle) or 'none'}"
    )
    report.conclusion = _conclusion(report)
    return report


def _conclusion(report: Report) -> str:
    proved = report.tally(PROOF)["proved"]
    if report.exit == VIOLATED:
        return f"the table breaks {', '.join(report.violated())}"
    if report.exit:
        return "the table was not found to break a contract, but not everything could be proved"
    return (
        f"the table keeps {counted(proved, 'contract')} for any number of keys, tiers, requests, "
        "slots and "
        "transfers"
    )


def _make(folder: Path) -> None:
    folder_to_make(folder, "--export")
    try:
        folder.mkdir(exist_ok=True)
        (folder / ".tierproof").touch()
        (folder / ".tierproof").unlink()
    except OSError as error:
        raise UsageError(f"--export {folder}: cannot be written to: {error.strerror}") from error


def _ask_spacer(report: Report) -> None:
    """Spacer invents its own invariants; the plain solver checks each of them again."""
    from .second_opinion import ask_spacer

    began = time.monotonic()
    opinions = ask_spacer()
    for opinion in opinions:
        said = f"Spacer: {opinion.verdict}: {opinion.name} ({opinion.contract})"
        if opinion.verdict == "broken":
            report.results = [
                replace(r, verdict="violated", says=said)
                if (r.contract, r.method) == (opinion.contract, PROOF)
                else r
                for r in report.results
            ]
        elif opinion.verdict != "holds":
            report.doubts.append(said)
        elif not opinion.checked:
            report.doubts.append(f"{said}, but the plain solver does not accept its invariant")
    agreed = sum(o.verdict == "holds" and o.checked for o in opinions)
    report.lines.append(
        f"second opinion: of {counted(len(opinions), 'statement')} of contracts Spacer proves "
        f"{agreed} with "
        f"invariants of its own, checked again, in {time.monotonic() - began:.1f} s"
    )


def _ask_cvc5(report: Report, folder: Path, step: Step) -> None:
    """Another solver, given nothing but the exported text."""
    from .smtlib import export, reprove

    began = time.monotonic()
    paths = export(folder)
    proved = 0
    for done, answer in enumerate(reprove(paths), 1):
        proved += answer.proved
        report.doubts += [f"cvc5 does not prove of {answer.rule}: {q}" for q in answer.failed]
        step(done, len(paths))
    report.lines.append(
        f"export: {counted(len(paths), 'SMT-LIB file')} in {folder}; cvc5 {versions()['cvc5']} "
        "proves "
        f"{counted(proved, 'question')} in {time.monotonic() - began:.1f} s"
    )
