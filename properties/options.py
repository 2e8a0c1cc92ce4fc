"""Options that several commands have, and where their reports go."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from ..impl.counted import counted
from .managers import UsageError
from .places import folder_to_make, writable, write
from .report import Report, write_json
from .terminal import Terminal

ManagerOption = Annotated[
    str,
    typer.Option(
        "--manager",
        metavar="NAME",
        help="What is checked: tierproof (the shipped manager), fault:NAME (a built-in faulty "
        "one), vllm:VERSION, or your own as module:factory or file.py:factory.",
    ),
]
JsonOption = Annotated[
    Path | None,
    typer.Option(
        "--json", metavar="FILE", help="Write the report as JSON, in a folder that is there."
    ),
]
JunitOption = Annotated[
    Path | None,
    typer.Option(
        "--junit", metavar="FILE", help="Write it as JUnit XML, in a folder that is there."
    ),
]
HtmlOption = Annotated[
    Path | None,
    typer.Option(
        "--html",
        metavar="FILE",
        help="Write it as one HTML page, histories drawn, in a folder that is there.",
    ),
]
ExamplesOption = Annotated[
    int, typer.Option("--examples", metavar="N", min=1, help="How many random histories.")
]
SeedOption = Annotated[
    int | None,
    typer.Option(
        "--seed",
        metavar="S",
        min=0,
        help="Repeat the run that printed this seed; a new one if none.",
    ),
]
FolderOption = Annotated[
    Path,
    typer.Option(
        "--counterexamples",
        metavar="DIR",
        help="Where counterexamples go as pytest files; made if need be.",
    ),
]
CheckOption = Annotated[
    bool, typer.Option("--check", help="Exit 1 when a goal is missed; without it goals are shown.")
]
EXAMPLES = 300


class Outputs:
    """Where a report goes besides the terminal; refused at once where it could not be written."""

    latest: Outputs | None = None
    """Those of the command that runs: a program that reads the report must hear of a fault too."""

    def __init__(
        self,
        json: Path | None,
        junit: Path | None,
        html: Path | None = None,
        counterexamples: Path | None = None,
    ) -> None:
        folder_to_make(counterexamples, "--counterexamples")
        self.json, self.junit = writable(json, "--json"), writable(junit, "--junit")
        self.html = writable(html, "--html")
        Outputs.latest = self

    def finish(self, report: Report, terminal: Terminal, *, check: bool = False) -> None:
        """Show and write the report; the command ends with its exit code.

        With `check` a goal of a benchmark that is missed is a violation.
        """
        if check:
            _hold_to_goals(report)
        terminal.show(report)
        self.write(report)
        raise typer.Exit(report.exit)

    def write(self, report: Report) -> None:
        """Write the report where it was asked for."""
        if self.json is not None:
            write_json(report, self.json)
        if self.junit is not None:
            from .junit import write_junit

            write_junit(report, self.junit)
        if self.html is not None:
            from .html_page import html_page

            write(self.html, html_page([report]), "--html")


def _hold_to_goals(report: Report) -> None:
    report.held_to_goals = True
    if missed := report.missed_goals():
        report.conclusion = f"{counted(len(missed), 'goal')} missed: {'; '.join(missed)}"
    elif not report.exit:
        report.conclusion = "every goal that could be measured is reached"


def write_fault(args: Sequence[str], fault: Exception) -> None:
    """Write a report of a fault of ours where the command was to write one; never raises."""
    outputs, Outputs.latest = Outputs.latest, None
    words = [word for word in args if not word.startswith("-")]
    command = " ".join(words[: 2 if words[:1] == ["bench"] else 1])
    if outputs is not None:
        with contextlib.suppress(UsageError):
            outputs.write(Report(command, fault=f"{type(fault).__name__}: {fault}"))
