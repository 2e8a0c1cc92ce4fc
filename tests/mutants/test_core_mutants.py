"""The measurement of the core by cosmic-ray's operators: what is tried, and that it notices."""

import ast
import os
import re
import subprocess
import sys
import tomllib
from dataclasses import replace
from pathlib import Path

import pytest

from .core import checks, making, measure, trying

ROOT = Path(__file__).parent.parent.parent
HERE = Path(__file__).parent / "core"
SOURCE = """
LIMIT = 3

class Box:
    def full(self, held: set[int] | None, *, most: int = LIMIT) -> bool | None:
        if held is None:
            return None
        return (
            len(held)
            >= most
        )
"""


def test_every_module_of_the_core_is_mutated():
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


def test_a_module_that_is_none_of_the_core_is_refused(capsys):
    assert measure.main(["clams"]) == 2
    assert "no module of the core: clams" in capsys.readouterr().out


def test_a_change_is_looked_for_where_its_statement_is_executed():
    name, text, lines = making.Places(SOURCE, ast.parse(SOURCE)).find(10, 12)
    assert (name, lines) == ("Box.full", (8, 9, 10, 11))
    assert text.startswith("    def full")
    assert making.Places(SOURCE, ast.parse(SOURCE)).find(6, 16)[2] == (6,)


def test_what_a_signature_or_a_constant_says_has_its_effect_at_the_import():
    places = making.Places(SOURCE, ast.parse(SOURCE))
    assert places.find(2, 8)[2] == ()
    assert places.find(5, 63)[2] == ()


def test_a_changed_function_is_told_from_a_changed_import():
    codes = trying.changed_functions(SOURCE, SOURCE.replace(">=", ">"))
    assert codes is not None
    assert [code.co_qualname for code in codes] == ["Box.full"]
    assert trying.changed_functions(SOURCE, SOURCE) == []
    assert trying.changed_functions(SOURCE, SOURCE.replace("LIMIT = 3", "LIMIT = 4")) is None
    assert trying.changed_functions(SOURCE, SOURCE.replace("most: int = LIMIT", "most=3")) is None


def test_what_is_only_written_for_a_type_checker_is_left_out():
    pytest.importorskip("cosmic_ray")
    made = making.make("claims", SOURCE)
    assert {(m.line, m.operator) for m in made.mutants} == {
        (2, "NumberReplacer"),
        (6, "ReplaceComparisonOperator_Is_IsNot"),
        (10, "ReplaceComparisonOperator_GtE_Gt"),
        (10, "ReplaceComparisonOperator_GtE_Lt"),
    }
    assert len({m.key for m in made.mutants}) == len(made.mutants) == 5


def test_what_explains_one_survivor_does_not_hide_a_second(monkeypatch):
    def survivor(key, line="x = 1"):
        return making.Mutant("jobs", "NumberReplacer", 1, 4, (1,), line, "f", key, "")

    entry = measure.Explained("jobs", "x = 1", ("NumberReplacer",), "because", 1)
    monkeypatch.setattr(measure, "explained", lambda: [entry])
    assert measure.equivalents([survivor("a"), survivor("b", "y = 1")]) == {"a"}
    assert measure.equivalents([survivor("a"), survivor("b")]) == set()


TRIAL = """
import sys
sys.path.insert(0, {root!r})
from tests.mutants.core import checks, making, trying

TESTS = ("tests/impl/test_manager_arguments.py",)
source = making.source_of("arguments")
known = {{}}

def mutant(old, new, line):
    changed = source.replace(old, new, 1)
    assert changed != source
    return making.Mutant("arguments", "", line, 0, (line,) if line else (), "", "f", new, changed)

number = 1 + source.splitlines().index("    if len(set(keys)) < len(keys):")
killed = mutant("if len(set(keys)) < len(keys)", "if len(set(keys)) <= len(keys)", number)
survivor = mutant("if len(set(keys)) < len(keys)", "if len(set(keys)) != len(keys)", number)
endless = mutant("if len(set(keys)) < len(keys)", "while len(set(keys)) <= len(keys)", number)
imported = mutant("from .errors import", "from .err0rs import", 0)

def run(found):
    known.update(trying.reaches(found, ["arguments"], {{}}))
    trying.try_within(
        [killed, survivor, endless, imported], found, known, 1e9, {{}},
        lambda m, outcome: print(m.key, "|", outcome and outcome.verdict, file=sys.stderr),
    )

if sys.argv[1:] == ["within"]:
    checks.collected(TESTS, False, run)
else:
    class Every(dict):
        def __contains__(self, name):
            return True

        def __missing__(self, name):
            return trying.Reach(0.1, {{}}, "")

    other = mutant("keys = tuple(keys)\\n    hash(keys)", "keys = tuple(keys)", 0)
    for each in (imported, other):
        print(trying.try_imported(each, TESTS, False, Every(), 1e9, ()).by, file=sys.stderr)
"""


def trial(*args):
    done = subprocess.run(
        [sys.executable, "-c", TRIAL.format(root=str(ROOT)), *args],
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
        timeout=300,
    )
    return done.stderr


def test_a_break_is_killed_an_equivalent_survives_and_an_endless_loop_ends():
    told = trial("within")
    assert "if len(set(keys)) <= len(keys) | killed" in told
    assert "if len(set(keys)) != len(keys) | survived" in told
    assert "while len(set(keys)) <= len(keys) | killed" in told
    assert "from .err0rs import | None" in told


def test_what_has_its_effect_at_the_import_is_tried_by_importing_it():
    first, second = trial("imported").splitlines()
    assert first == "the import"
    assert second.startswith("tests/impl/test_manager_arguments.py::")


def test_a_survivor_is_put_to_new_checks_only_and_the_quickest_first():
    def check(name, last=False):
        return checks.Check(name, "", lambda: False, last)

    those = [check("slow"), check("elsewhere"), check("end", last=True), check("quick")]
    known = {
        name: trying.Reach(seconds, {"jobs": [line]}, "")
        for name, seconds, line in (
            ("slow", 9.0, 4),
            ("elsewhere", 0.1, 5),
            ("end", 0.1, 4),
            ("quick", 0.2, 4),
        )
    }
    mutant = making.Mutant("jobs", "", 4, 0, (4,), "", "f", "", "")

    def chosen(mutant, passed=(), first=()):
        return [c.name for c in trying.choose(mutant, those, known, passed, first)]

    assert chosen(mutant) == ["quick", "slow", "end"]
    assert chosen(mutant, first=["slow"]) == ["slow", "quick", "end"]
    assert chosen(mutant, passed=[those[0].mark, those[3].mark]) == ["end"]
    assert chosen(replace(mutant, lines=())) == ["elsewhere", "quick", "slow", "end"]
