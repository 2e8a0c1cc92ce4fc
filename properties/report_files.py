"""Where reports go besides the terminal: one file of each form for one report or several."""

from __future__ import annotations

import json as json_module
from collections.abc import Sequence
from pathlib import Path

from .html_page import html_page
from .junit import write_junit
from .places import write
from .report import Report, versions
from .terminal import conclusion

SEVERAL = "tierproof.reports/1"
"""The form of a file that holds several reports."""


def write_reports(
    reports: Sequence[Report],
    *,
    json: Path | None = None,
    junit: Path | None = None,
    html: Path | None = None,
) -> None:
    """Write what a run of pytest found out; None: not in this form.

    Raises:
        UsageError: a file cannot be written.
    """
    if json is not None:
        data = {
            "schema": SEVERAL,
            "versions": versions(),
            "reports": [report.as_json() for report in reports],
        }
        text = json_module.dumps(data, indent=2, ensure_ascii=False)
        write(json, text + "\n", "--tierproof-json")
    if junit is not None:
        write_junit(reports, junit)
    if html is not None:
        for report in reports:
            report.conclusion = report.conclusion or conclusion(report)
        write(html, html_page(reports), "--tierproof-html")
