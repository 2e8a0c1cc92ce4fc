"""A report as JUnit XML, the form that build servers show."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

from .places import write
from .report import Report, Result, versions

_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that no XML document may hold, not even escaped."""


def write_junit(reports: Report | Sequence[Report], path: Path) -> None:
    """Write a report, or several, for a build server: a suite each."""
    root = ET.Element("testsuites", name="tierproof")
    several = [reports] if isinstance(reports, Report) else reports
    for report in several:
        _suite(root, report)
    for attribute in ("tests", "failures", "errors", "skipped", "time"):
        total = sum(float(suite.get(attribute, "0")) for suite in root)
        root.set(attribute, f"{total:.3f}" if attribute == "time" else f"{total:.0f}")
    ET.indent(root)
    text = ET.tostring(root, encoding="unicode")
    write(path, f'<?xml version="1.0" encoding="UTF-8"?>\n{text}\n', "--junit")


def _suite(root: ET.Element, report: Report) -> None:
    who = f" {report.manager}" if report.command == "pytest" else ""
    suite = ET.SubElement(
        root, "testsuite", name=_NOT_XML.sub("?", f"tierproof {report.command}{who}")
    )
    properties = ET.SubElement(suite, "properties")
    for name, value in versions().items():
        ET.SubElement(properties, "property", name=name, value=value)
    for result in report.results:
        _case(suite, result.method, result.contract, result.seconds, *_of_result(report, result))
    for m in report.mutants:
        failed = ("failure", "no check noticed this mutant") if m.verdict == "survived" else ()
        _case(suite, f"mutants.{m.set}", m.name, m.seconds, *failed)
    for page in report.pages:
        _case(suite, "pages", page.name, 0.0, *(("failure", page.stale) if page.stale else ()))
    for doubt in report.doubts:
        _case(suite, "doubts", doubt[:60], 0.0, "error", doubt)
    if report.fault:
        _case(suite, "faults", "a fault of tierproof", 0.0, "error", report.fault)
    for tag, plural in (("failure", "failures"), ("error", "errors"), ("skipped", "skipped")):
        suite.set(plural, str(len(suite.findall(f"testcase/{tag}"))))
    suite.set("tests", str(len(suite.findall("testcase"))))
    suite.set("time", f"{sum(_seconds(report).values()):.3f}")


def _seconds(report: Report) -> dict[Any, float]:
    """Contracts that one tour checked share its time, which is counted once."""
    told: dict[Any, float] = {}
    for r in report.results:
        shared = r.method if r.method != "proof" else (r.method, r.contract)
        told[shared] = max(told.get(shared, 0.0), r.seconds)
    return told | {m.name: m.seconds for m in report.mutants}


def _of_result(report: Report, result: Result) -> tuple[str, ...]:
    if result.verdict == "violated":
        told = [
            "\n".join(c.lines())
            for c in report.counterexamples
            if c.contract == result.contract and result.method in c.methods
        ]
        return "failure", result.says or f"{result.contract} is broken", *told
    if result.verdict == "gap_closed":
        return "failure", result.says
    if result.verdict == "unknown":
        return "error", result.says or "unknown"
    if result.verdict == "not_reached" and result.contract in report.unreached():
        return "error", f"not reached: {result.says}"
    if result.verdict not in ("proved", "holds"):
        said = result.verdict.replace("_", " ")
        return "skipped", f"{said}: {result.says}" if result.says else said
    return ()


def _case(
    suite: ET.Element,
    group: str,
    name: str,
    seconds: float,
    tag: str | None = None,
    message: str = "",
    *texts: str,
) -> None:
    case = ET.SubElement(
        suite, "testcase", classname=f"tierproof.{group}", name=name, time=f"{seconds:.3f}"
    )
    if tag is not None:
        told = ET.SubElement(case, tag, message=_NOT_XML.sub("?", message))
        told.text = _NOT_XML.sub("?", "\n\n".join(texts)) or None
