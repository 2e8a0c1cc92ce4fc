"""The matrix as a page, made from its JSON alone."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

from .contracts import CONTRACTS

_SHORT = {
    "holds": "holds",
    "not_observable": "not observable",
    "not_reached": "not reached",
    "not_claimed": "not claimed",
}


_PLACE = re.compile(r"\s+\(\w+\.py,\s+line\s+\d+\)")
"""Where in a release's files something was raised: another line in each release."""


def page(matrix: Mapping[str, Any]) -> str:
    """The page: the table, then the histories, then what could not be seen."""
    return "\n".join([*_head(matrix), *_table(matrix), *_histories(matrix), *_unseen(matrix), ""])


def _head(matrix: Mapping[str, Any]) -> Iterator[str]:
    yield f"<!-- Written by `{matrix['command']}`. Do not edit. -->"
    yield ""
    yield "# The contracts in releases of vLLM"
    yield ""
    yield "What each release's tiering manager was seen to do, judged by what is seen alone: as a"
    yield "manager with policies of its own, not as a copy of ours. *Broken (n)* is followed by the"
    yield "length of the shortest history that shows it. What stands behind each finding in the"
    yield "release's source, and which of them vLLM's own documentation promises otherwise, is told"
    yield "in [vllm.md](vllm.md)."
    yield ""


def _table(matrix: Mapping[str, Any]) -> Iterator[str]:
    cells: dict[tuple[str, str], list[Mapping[str, Any]]] = defaultdict(list)
    for cell in matrix["cells"]:
        cells[cell["contract"], cell["version"]].append(cell)
    versions = list(dict.fromkeys(cell["version"] for cell in matrix["cells"]))
    yield "| contract | " + " | ".join(versions) + " |"
    yield "|---" * (len(versions) + 1) + "|"
    for contract in CONTRACTS:
        row = [_verdict(cells[contract, version]) for version in versions]
        if any(row):
            yield f"| `{contract}` | " + " | ".join(row) + " |"
    yield ""


def _verdict(cells: list[Mapping[str, Any]]) -> str:
    """One word for what all methods say."""
    broken = [c["operations"] for c in cells if c["verdict"] == "violated"]
    if broken:
        return f"**broken ({min(broken)})**"
    verdicts = {c["verdict"] for c in cells}
    for verdict in ("holds", "not_reached", "not_observable", "not_claimed"):
        if verdict in verdicts:
            return _SHORT[verdict]
    return ""


def _histories(matrix: Mapping[str, Any]) -> Iterator[str]:
    yield "## Histories"
    yield ""
    yield "One for each way in which a contract is broken, with the releases in which it is."
    for contract in CONTRACTS:
        alike: dict[tuple[str, ...], list[str]] = defaultdict(list)
        for found in matrix["findings"]:
            if found["contract"] == contract:
                alike[tuple(_steps(found["history"]))].append(found["version"])
        for steps, versions in alike.items():
            yield ""
            yield f"### {contract}: {', '.join(versions)}"
            yield ""
            yield "```text"
            yield from steps
            yield "```"
    yield ""


def _steps(history: list[str]) -> Iterator[str]:
    """The history without what names the release or repeats the contract."""
    for line in _PLACE.sub("", "\n".join(history[1:])).split("\n"):
        if not line.lstrip().startswith("As a test:"):
            yield line[2:] if line.startswith("  ") else line


def _unseen(matrix: Mapping[str, Any]) -> Iterator[str]:
    yield "## What could not be seen"
    yield ""
    alike: dict[tuple[str, str], list[str]] = defaultdict(list)
    for cell in matrix["unseen"]:
        alike[cell["contract"], cell["says"]].append(cell["version"])
    for (contract, says), versions in alike.items():
        yield f"- `{contract}` ({', '.join(versions)}): {says}"
