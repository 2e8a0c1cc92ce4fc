"""The command `mutants`: every break of the table and of the manager must be noticed."""

from __future__ import annotations

from collections import Counter

from ..impl.counted import counted
from .report import Report
from .terminal import Terminal


def mutants(terminal: Terminal, search: float) -> Report:
    """Break both, one thing at a time, and say what noticed each break.

    `search` is how many seconds of processor time may pass before the search for a shorter history
    that shows a fault is given up.
    """
    from .mutants import production_fates, table_fates

    report = Report("mutants")
    with terminal.progress("table mutants") as step:
        report.mutants += table_fates(step)
    with terminal.progress("faults") as step:
        report.mutants += production_fates(step, search=search)
    for name in dict.fromkeys(m.set for m in report.mutants):
        mine = [m for m in report.mutants if m.set == name]
        verdicts = Counter(m.verdict for m in mine)
        killers = Counter(m.killer for m in mine if m.verdict == "killed")
        told = ", ".join(f"{n} {v}" for v, n in verdicts.most_common())
        by = ", ".join(f"{killer} {n}" for killer, n in killers.most_common())
        seconds = sum(m.seconds for m in mine)
        report.lines.append(
            f"{name}: {counted(len(mine), 'mutant')} in {seconds:.1f} s: {told} (by {by})"
        )
        reasons = Counter(m.reason for m in mine if m.verdict == "equivalent")
        report.lines += [f"  equivalent: {n:,}, because {why}" for why, n in reasons.items()]
    return report
