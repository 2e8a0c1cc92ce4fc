"""The demo needs torch; on the build machine (CI is set) its absence is a failure."""

from __future__ import annotations

import importlib.util
import json
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tierproof.properties.cli import main

if importlib.util.find_spec("torch") is None:
    if os.environ.get("CI"):
        raise ModuleNotFoundError("torch")
    collect_ignore_glob = ["test_*.py"]


@dataclass
class Run:
    """What came of `tierproof demo`."""

    code: int
    out: str
    err: str
    report: dict[str, Any] = field(default_factory=dict)


Demo = Callable[..., Run]


@pytest.fixture
def demo(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Demo:
    """Run the command here; its phases have processes of their own anyway."""
    monkeypatch.delenv("COLUMNS", raising=False)
    monkeypatch.delenv("TIERPROOF_CONFIG", raising=False)
    file = tmp_path / "demo.json"

    def run(*words: str) -> Run:
        code = main(["demo", "--json", str(file), *words])
        told = capsys.readouterr()
        report = json.loads(file.read_text()) if file.exists() else {}
        file.unlink(missing_ok=True)
        return Run(code, told.out, told.err, report)

    return run
