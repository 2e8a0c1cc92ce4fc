"""Reports as one HTML page that needs nothing else: a table, and each counterexample drawn."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape

from .contracts import CONTRACTS, TIER_CONTRACTS
from .diagrams import svg
from .report import Report, Result, versions
from .wording import say_setting

KNOWN = {**TIER_CONTRACTS, **CONTRACTS}
GOOD, BAD, OPEN = ("proved", "holds"), ("violated", "gap_closed"), ("unknown", "not_reached")
NOTHING = "–"  # noqa: RUF001  # the method does not apply to the contract

STYLE = """
:root { color-scheme: light dark; --paper: #ffffff; --ink: #1b1f24; --faint: #6a737d;
  --line: #d5d9de; --soft: #f4f6f8; --good: #1a7f37; --bad: #b3261e; --pale: #fdecea;
  --open: #8250df; }
@media (prefers-color-scheme: dark) { :root { --paper: #14171b; --ink: #e6e9ec; --faint: #9aa4ae;
  --line: #363c43; --soft: #1d2126; --good: #56d364; --bad: #ff7b72; --pale: #3a1d1d;
  --open: #c297ff; } }
body { margin: 2rem auto; max-width: 72rem; padding: 0 1rem; background: var(--paper);
  color: var(--ink); font: 15px/1.5 system-ui, sans-serif; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.25rem; margin-top: 2.5rem; }
h3 { font-size: 1.05rem; margin-top: 2rem; color: var(--bad); }
table { border-collapse: collapse; } td, th { text-align: left; padding: .25rem .75rem .25rem 0;
  border-bottom: 1px solid var(--line); vertical-align: top; }
td.words, .faint { color: var(--faint); } td.id { white-space: nowrap; }
.good { color: var(--good); } .bad { color: var(--bad); font-weight: 600; }
.open { color: var(--open); } .scroll { overflow-x: auto; }
pre { background: var(--soft); padding: .75rem; overflow-x: auto; font-size: 13px; }
svg.diagram { background: var(--soft); border: 1px solid var(--line); border-radius: 6px;
  font: 12px system-ui, sans-serif; }
svg text { fill: var(--ink); } svg text.number { fill: var(--faint); }
svg text.name { font-weight: 600; } svg text.wrong { fill: var(--bad); font-weight: 600; }
svg line { stroke: var(--ink); stroke-width: 1.3; }
svg line.lane { stroke: var(--line); stroke-width: 2; }
svg line.manager { stroke: var(--faint); }
svg line.rule { stroke: var(--faint); stroke-dasharray: 2 4; }
svg line.reply { stroke-dasharray: 6 3; } svg line.wrong { stroke: var(--bad); }
svg rect.lane, svg rect.note { fill: var(--paper); stroke: var(--faint); }
svg rect.wrong { fill: var(--pale); } svg polygon { fill: var(--ink); }
svg polygon.wrong { fill: var(--bad); }
"""


def html_page(reports: Sequence[Report]) -> str:
    """A whole page about one report or several."""
    return "".join(f"{line}\n" for line in _page(reports))


def _page(reports: Sequence[Report]) -> Iterator[str]:
    found = versions()
    told = ", ".join(f"{name} {v}" for name, v in found.items() if name != "contracts")
    yield "<!DOCTYPE html>"
    yield '<html lang="en"><head><meta charset="utf-8">'
    yield '<meta name="viewport" content="width=device-width, initial-scale=1">'
    title = ", ".join(r.manager or r.command for r in reports) or "nothing was checked"
    yield f"<title>tierproof: {escape(title)}</title>"
    yield f"<style>{STYLE}</style></head><body>"
    yield "<h1>Held to the contracts</h1>"
    yield f'<p class="faint">Contracts version {found["contracts"]}; {escape(told)}.</p>'
    if not reports:
        yield "<p>Nothing was checked.</p>"
    for report in reports:
        yield from _section(report)
    yield "</body></html>"


def _section(report: Report) -> Iterator[str]:
    yield f"<h2>{escape(report.manager or report.command)}</h2>"
    if report.conclusion:
        kind = "bad" if report.exit else "good"
        yield f'<p class="{kind}">{escape(report.conclusion)}.</p>'
    methods = report.methods()
    yield '<div class="scroll"><table><tr><th>contract</th>'
    yield "".join(f"<th>{escape(m)}</th>" for m in methods) + "<th>in words</th></tr>"
    for contract in report.contracts():
        cells = "".join(_cell(report.of(contract, m)) for m in methods)
        words = escape(KNOWN[contract].words)
        yield f'<tr><td class="id">{contract}</td>{cells}<td class="words">{words}</td></tr>'
    yield "</table></div>"
    for line in (*report.lines, *report.doubts):
        yield f'<p class="faint">{escape(line)}</p>'
    shown = {c.contract for c in report.counterexamples}
    for result in report.results:
        drawn = result.contract in shown and result.verdict == "violated"
        if result.says and result.verdict not in GOOD and not drawn:
            yield f"<p>{escape(f'{result.contract}, {result.method}: {result.says}')}</p>"
    yield from _counterexamples(report)


def _cell(result: Result | None) -> str:
    if result is None:
        return f'<td class="faint">{NOTHING}</td>'
    verdict = result.verdict
    kind = "good" if verdict in GOOD else "bad" if verdict in BAD else "faint"
    kind = "open" if verdict in OPEN else kind
    return f'<td class="{kind}">{escape(verdict.replace("_", " "))}</td>'


def _counterexamples(report: Report) -> Iterator[str]:
    for found in report.counterexamples:
        first, *rest = found.lines()
        yield f"<h3>{escape(first)}</h3>"
        yield f"<p>The contract: {escape(found.words)}.</p>"
        yield f"<p>To begin with: {escape(say_setting(found.setting))}.</p>"
        yield f'<div class="scroll">{svg(found)}</div>'
        yield f'<p class="bad">{escape(found.said)}</p>'
        text = escape("\n".join(rest).strip("\n"))
        yield f"<details><summary>The same in words</summary><pre>{text}</pre></details>"
