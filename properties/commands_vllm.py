"""The commands about vLLM's releases: `fetch-vllm`."""

from __future__ import annotations

from collections.abc import Sequence

from .report import Report
from .terminal import Terminal
from .vllm_cache import cache_folder, checked
from .vllm_cache import fetch as fetch_one


def fetch(versions: Sequence[str], terminal: Terminal) -> Report:
    """Put releases into the cache, one after the other.

    Raises:
        UsageError: one of them could not be fetched; those before it were.
    """
    report = Report("fetch-vllm")
    for version in [checked(v) for v in versions]:
        with terminal.patiently(f"vLLM {version}"):
            fetched = fetch_one(version)
        report.lines.append(f"vLLM {version} {'fetched' if fetched else 'was there already'}")
    report.conclusion = f"the releases are in {cache_folder()}"
    return report
