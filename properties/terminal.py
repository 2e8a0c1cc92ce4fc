"""What a person at a terminal sees: tables, counterexamples, progress bars."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from textwrap import wrap

from rich import box
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from .report import VIOLATED, Measure, Report

Step = Callable[[int, int], None]
"""Called with how much is done and how much there is."""

STYLES = {
    "proved": "green",
    "holds": "green",
    "violated": "bold red",
    "unknown": "bold magenta",
    "not_reached": "magenta",
    "expected_failure": "yellow",
    "gap_closed": "bold red",
    "not_claimed": "dim",
    "not_observable": "dim",
    "skipped": "dim",
    "killed": "green",
    "equivalent": "dim",
    "survived": "bold red",
}
REMINDER = 15.0
"""Seconds after which whoever reads no terminal is told that something still goes on."""
NOTHING = "–"  # noqa: RUF001  # the method does not apply to the contract


class Terminal(Console):
    """Standard output, wide enough for our tables where it is a pipe or a file."""

    def __init__(self) -> None:
        piped = not sys.stdout.isatty() and "COLUMNS" not in os.environ
        super().__init__(highlight=False, width=100 if piped else None)

    def on_broken_pipe(self) -> None:
        """Go on silently: the exit code is the verdict, whoever has stopped reading."""
        self.quiet = True
        with open(os.devnull, "w") as devnull:
            os.dup2(devnull.fileno(), sys.stdout.fileno())

    def say(self, text: str, style: str = "") -> None:
        """Print one line, as it is."""
        self.print(Text(text, style=style), soft_wrap=True)

    @contextmanager
    def patiently(self, what: str) -> Iterator[Step]:
        """As `progress`, for what may take minutes: elsewhere a line on stderr now and then.

        Not for what forks: the lines come from a thread.
        """
        if self.is_terminal:
            with self.progress(what) as bar:
                yield bar
            return
        far, over, began = [0, 0], threading.Event(), time.monotonic()

        def remind() -> None:
            while not over.wait(REMINDER):
                seconds = time.monotonic() - began
                of = f"{far[0]:,} of {far[1]:,}" if far[1] else "begun"
                print(f"tierproof: {what}: {of}, {seconds:.0f} s so far", file=sys.stderr)

        def step(done: int, total: int) -> None:
            far[:] = done, total

        threading.Thread(target=remind, daemon=True).start()
        try:
            yield step
        finally:
            over.set()

    @contextmanager
    def progress(self, what: str) -> Iterator[Step]:
        """A progress bar on a terminal, nothing elsewhere."""
        bar = Progress(
            TextColumn(f"{what:<16}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            console=self,
            transient=True,
            disable=not self.is_terminal,
        )
        with bar:
            task = bar.add_task(what, total=None)

            def step(done: int, total: int) -> None:
                bar.update(task, completed=done, total=total)

            yield step

    def show(self, report: Report) -> None:
        """Print everything that a command found out."""
        if report.results:
            self.print(contracts_table(report))
        if report.mutants:
            self.print(mutants_table(report))
        if report.measures:
            self.print(measures_table(report.measures))
        for line in report.lines:
            self.say(line)
        for failure in report.failures:
            self.say(failure, "bold red")
        for doubt in report.doubts:
            self.say(doubt, "bold magenta")
        for told, style in reasons(report):
            for line in wrap(told, min(self.width, 100), subsequent_indent="    "):
                self.say(line, style)
        for found in report.counterexamples:
            self.say("")
            first, *rest = found.lines(min(self.width, 100))
            self.say(first, "bold red")
            for line in rest:
                self.say(line)
        for page in report.pages:
            self.say(page.stale or f"{page.name} is current", "bold red" if page.stale else "")
        if report.conclusion:
            self.say("")
            self.say(report.conclusion, "bold red" if report.exit else "bold green")


def contracts_table(report: Report) -> Table:
    """One row for each contract, one column for each method."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("contract", no_wrap=True)
    methods = report.methods()
    for method in methods:
        table.add_column(f"proof of {report.proof_of}" if method == "proof" else method)
    for contract in report.contracts():
        cells = []
        for method in methods:
            result = report.of(contract, method)
            verdict = result.verdict if result else NOTHING
            cells.append(Text(verdict.replace("_", " "), style=STYLES.get(verdict, "dim")))
        table.add_row(contract, *cells)
    return table


def mutants_table(report: Report) -> Table:
    """One row for each mutant of production, and for each of the table that survived."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for name in ("mutant", "verdict", "by", "contract", "ops", "seconds"):
        right = name in ("ops", "seconds")
        table.add_column(name, justify="right" if right else "left", no_wrap=not right)
    for m in report.mutants:
        if m.set == "table" and m.verdict != "survived":  # there are hundreds; they are counted
            continue
        operations = str(m.operations or "")
        if operations and not m.shortest:  # the search ended before all shorter ones were tried
            operations = f"<= {operations}"
        verdict = Text(m.verdict, style=STYLES.get(m.verdict, ""))
        name = m.name if m.set != "table" else f"table: {m.name}"
        row = (name, verdict, m.killer or "", m.contract or "", operations)
        table.add_row(*row, f"{m.seconds:.2f}")
    return table


def measures_table(measures: list[Measure]) -> Table:
    """The figures of a benchmark next to their goals."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("measured")
    table.add_column("value", justify="right")
    table.add_column("goal", justify="right")
    for m in measures:
        goal = "" if m.goal is None else f"< {m.goal:g} {m.unit}"
        digits = 0 if float(m.value).is_integer() else 2
        value = Text(f"{m.value:,.{digits}f} {m.unit}", style="bold red" if m.missed else "")
        table.add_row(m.what, value, goal)
    return table


def reasons(report: Report) -> Iterator[tuple[str, str]]:
    """Why verdicts are not simply good: sentences, each with its style."""
    for result in report.results:
        if result.says and result.verdict not in ("proved", "holds", "not_reached"):
            yield f"{result.contract}, {result.method}: {result.says}", STYLES[result.verdict]
    for method in report.methods():
        mine = [r for r in report.results if (r.method, r.verdict) == (method, "not_reached")]
        if mine and report.exit == VIOLATED:  # what went wrong comes first, and ended the way
            yield f"not reached, {method}: {', '.join(r.contract for r in mine)}", "dim"
            continue
        for r in mine:
            style = STYLES["not_reached"] if r.contract in report.unreached() else "dim"
            yield f"{r.contract}, {method}: not reached, {r.says}", style


def conclusion(report: Report) -> str:
    """One sentence for the end of a check of a manager."""
    who = report.manager
    broken, closed = report.violated(), report.with_verdict("gap_closed")
    if broken or closed:
        told = [f"breaks {', '.join(broken)}"] if broken else []
        if closed:
            told.append(f"keeps {', '.join(closed)}, now a known gap no more")
        return f"{who} {' and '.join(told)}"
    unreached = report.unreached()
    if report.exit and unreached:
        more = (
            "; more --examples, or the tour, may come to more"
            if report.methods() == ["runs"]
            else ""
        )
        return (
            f"{who} was not found to break a contract, but was never brought to what "
            f"{', '.join(unreached)} {'speaks' if len(unreached) == 1 else 'speak'} of{more}"
        )
    if report.exit:
        return f"{who} was not found to break a contract, but not everything could be decided"
    gaps = report.with_verdict("expected_failure")
    but = f", but for its known gaps: {', '.join(gaps)}" if gaps else ""
    return f"{who} keeps every contract that was checked{but}"
