"""The measurement of the core by cosmic-ray covers the core, and explains only lines that exist."""

import importlib.util
import re
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
HERE = Path(__file__).parent / "core"


@pytest.fixture(scope="module")
def measure():
    described = importlib.util.spec_from_file_location("core_measure", HERE / "measure.py")
    assert described is not None
    assert described.loader is not None
    module = importlib.util.module_from_spec(described)
    sys.modules["core_measure"] = module
    described.loader.exec_module(module)
    yield module
    del sys.modules["core_measure"]


def test_every_module_of_the_core_is_mutated(measure):
    makefile = (ROOT / "Makefile").read_text()
    core = re.search(r"^CORE := ((?:.|\\\n)*?)\n(?!\t)", makefile, re.MULTILINE)
    assert core is not None
    assert set(core[1].replace("\\", "").split()) <= set(measure.CORE)
    assert all((ROOT / "impl" / f"{name}.py").exists() for name in measure.CORE)


def test_every_explained_survivor_is_a_line_of_the_core():
    told = tomllib.loads((HERE / "equivalent.toml").read_text()).get("equivalent", [])
    for entry in told:
        lines = (ROOT / "impl" / f"{entry['module']}.py").read_text().splitlines()
        assert entry["line"] in {line.strip() for line in lines}, entry
        assert entry["operators"]
        assert entry["why"]


def test_what_is_only_written_for_a_type_checker_is_left_out(measure, monkeypatch):
    source = "def f(a: int | None) -> str | None:\n    b: set[int] | None = x | y\n    return b\n"
    monkeypatch.setattr(measure.Path, "read_text", lambda *_: source)
    operator = "core/ReplaceBinaryOperator_BitOr_Add"

    def pointless(line, column, name=operator):
        return measure._is_pointless(measure.Mutant("", "impl/x.py", name, 0, line, column))

    assert pointless(1, source.index("|"))
    assert pointless(2, 4 + len("b: set[int] "))
    assert not pointless(2, 4 + len("b: set[int] | None = x "))
    assert pointless(3, 4, "core/ReplaceComparisonOperator_Is_Eq")
    assert not pointless(3, 4, "core/ReplaceComparisonOperator_Is_IsNot")


def test_a_module_that_is_none_of_the_core_is_refused(measure, capsys):
    assert measure.main(["clams"]) == 2
    assert "no module of the core: clams" in capsys.readouterr().out
