"""The command `matrix`: contracts against releases of vLLM."""

from __future__ import annotations

import os
from collections.abc import Sequence
from json import dumps
from pathlib import Path

from ..impl.counted import counted
from .generated_tests import FOLDER
from .managers import UsageError
from .places import write
from .report import Report
from .terminal import Terminal
from .vllm_cache import cache_folder, checked, is_cached
from .vllm_matrix import RELEASES, Settings, as_json, check_all, write_reproducers
from .vllm_page import page


def chosen_versions(asked: Sequence[str]) -> list[str]:
    """The releases to check: those asked for, or those of the matrix that are in the cache.

    Raises:
        UsageError: one that was asked for is not in the cache, or none is; or none was named.
    """
    named = [checked(v) for part in asked for v in part.replace(",", " ").split()]
    if asked and not named:
        raise UsageError(
            f"--versions {','.join(asked)!r} names no release; write some, such as 0.24.0,0.33.0, "
            "or leave the option out for all that are in the cache"
        )
    missing = [v for v in named or RELEASES if not is_cached(v)]
    versions = [v for v in dict.fromkeys(named or RELEASES) if v not in missing]
    if (named and missing) or not versions:
        raise UsageError(
            f"not in the cache ({cache_folder()}): vLLM {', '.join(missing)}; fetch once: "
            f"tierproof fetch-vllm {' '.join(missing)}"
        )
    return versions


def matrix(
    asked: Sequence[str],
    terminal: Terminal,
    *,
    settings: Settings,
    json: Path | None,
    to_page: Path | None,
    folder: Path,
) -> Report:
    """Check releases; whatever is found, the command has done its work."""
    versions = chosen_versions(asked)
    report = Report("matrix")
    command = _command(asked, settings, json, to_page, folder)
    cores = len(os.sched_getaffinity(0))
    with terminal.patiently("releases") as step:
        found = check_all(versions, settings, processes=min(cores, len(versions)), progress=step)
    write_reproducers(found, folder)
    for one in found:
        report.lines += one.lines
    for one in found:
        broken = [
            f"{c.contract} ({counted(c.operations or 0, 'operation')}, {c.seconds:.1f} s)"
            for c in one.cells
            if c.verdict == "violated" and c.method == "tour"
        ]
        report.lines.append(f"vLLM {one.version}: {', '.join(broken) or 'nothing'} broken")
    data = as_json(found, command)
    if json is not None:
        write(json, dumps(data, indent=1, ensure_ascii=False) + "\n", "--json")
    if to_page is not None:
        write(to_page, page(data), "--page")
    left = [v for v in RELEASES if v not in versions] if not asked else []
    if left:
        report.lines.append(f"not in the cache, and not checked: {', '.join(left)}")
    count = sum(len(one.counterexamples) for one in found)
    report.conclusion = (
        f"{counted(count, 'broken contract')} in {counted(len(found), 'release')}; reproducers in "
        f"{folder}"
        if count
        else f"no contract is broken in {counted(len(found), 'release')}"
    )
    return report


def _command(
    asked: Sequence[str], settings: Settings, json: Path | None, to_page: Path | None, folder: Path
) -> str:
    usual = Settings()
    told = ["tierproof matrix"]
    told += [f"--versions {','.join(asked)}"] if asked else []
    told += [f"--cases {settings.cases}"] if settings.cases != usual.cases else []
    told += [f"--examples {settings.examples}"] if settings.examples != usual.examples else []
    told += [f"--seed {settings.seed}"]
    told += [f"--budget {settings.budget:g}"] if settings.budget is not None else []
    told += [f"--json {json}"] if json is not None else []
    told += [f"--page {to_page}"] if to_page is not None else []
    told += [f"--reproducers {folder}"] if folder != FOLDER else []
    return " ".join(told)
