"""The command `check-tier`: hold a secondary tier to the contracts that it claims."""

from __future__ import annotations

import logging

from ..impl.counted import counted
from .budget import Budget
from .report import VIOLATED, Report
from .terminal import Terminal
from .tiers_under_test import check_tier, chosen_tier


def check(spec: str, terminal: Terminal, *, operations: int, budget: float | None = None) -> Report:
    """Check a tier, in `budget` seconds if that is given.

    The faults are real ones, so what tiers log about them is not shown.
    """
    log = logging.getLogger("tierproof")
    before = log.level
    log.setLevel(logging.CRITICAL)
    try:
        with chosen_tier(spec) as chosen, terminal.patiently("contracts") as step:
            report = check_tier(
                chosen,
                operations=operations,
                budget=None if budget is None else Budget(budget),
                progress=step,
            )
    finally:
        log.setLevel(before)
    faults = sum(r.counts.get("faults", 0) for r in report.results)
    kills = sum(r.counts.get("kills", 0) for r in report.results)
    jobs = sum(r.counts.get("reports", 0) for r in report.results)
    report.lines.append(
        f"{counted(jobs, 'job')}, {counted(faults, 'injected fault')}, "
        f"{counted(kills, 'killed writer')}"
    )
    damaged = [r for r in report.results if r.contract == "T3-bytes" and r.verdict == "holds"]
    if damaged and not any(r.counts.get("faults") for r in damaged):
        report.lines.append("no stored bytes were found that could be damaged")
    if late := report.with_verdict("skipped"):
        report.doubts.append(f"no time was left for {', '.join(late)}")
    report.conclusion = _conclusion(report)
    return report


def _conclusion(report: Report) -> str:
    if report.exit == VIOLATED:
        return f"{report.manager} breaks {', '.join(report.violated())}"
    if report.exit:
        return f"{report.manager}: not everything could be checked"
    return f"{report.manager} keeps every contract that it claims"
