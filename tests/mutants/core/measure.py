"""Mutants of the manager's core by cosmic-ray: made, filtered, tried, and told.

    python tests/mutants/core/measure.py [MODULE...]

Modules are named as in `impl/`; without any, the whole core is mutated, one module after the other.
The work is done in a copy under `build/core-mutants`, and goes on where it was interrupted;
`--again` begins anew, `--tell` tries nothing and tells what is known so far.

A survivor that `equivalent.toml` explains is counted as equivalent; any other makes the exit code
1. What is not tried at all, because no check could tell it apart, is said in `_is_pointless`.
"""

from __future__ import annotations

import ast
import os
import shutil
import sqlite3
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parent.parent.parent
WORK = ROOT / "build" / "core-mutants"
PRISTINE = WORK / "build" / "pristine"
"""The unbroken core of which the mutants were made, while cosmic-ray changes the copy's own."""
CORE = (
    *("claims", "jobs", "undecided", "arguments", "primary", "cascades", "ledger", "policies"),
    *("probes", "lookups", "blocks", "stores", "step", "external", "closing", "plans", "usage"),
    *("secondary", "transfers", "requests", "manager"),
)
CONFIG = """[cosmic-ray]
module-path = ["impl/{module}.py"]
timeout = 600.0
excluded-modules = []
test-command = "{python} tests/mutants/core/kill.py"

[cosmic-ray.distributor]
name = "local"
"""
IDENTITY = {"Is_Eq", "Eq_Is", "IsNot_NotEq", "NotEq_IsNot"}
"""Members of enumerations, None and single objects are the same exactly when they are equal."""


@dataclass(frozen=True)
class Mutant:
    """One change: what was done (cosmic-ray's operator) at which place."""

    job: str
    module: str
    operator: str
    occurrence: int
    line: int
    column: int

    @property
    def text(self) -> str:
        """The line that is changed, as it is in the unbroken source."""
        return (PRISTINE / self.module).read_text().splitlines()[self.line - 1].strip()

    @property
    def name(self) -> str:
        """The operator without its package."""
        return self.operator.rpartition("/")[2]


def copy_tree() -> None:
    """Copy what is committed, or would be."""
    shutil.rmtree(WORK, ignore_errors=True)
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    for name in listed.stdout.decode().splitlines():
        target = WORK / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if (ROOT / name).is_symlink():
            target.symlink_to((ROOT / name).readlink())
        elif (ROOT / name).is_file():
            shutil.copy2(ROOT / name, target)
    shutil.copytree(WORK / "impl", PRISTINE / "impl")


def accept_unbroken() -> None:
    """See that the checks pass on the copy as it is: else every mutant would count as killed.

    It also leaves compiled tests behind, which halves the time that each mutant takes.
    """
    for path in (PRISTINE / "impl").rglob("*.py"):  # an interrupted run may have left a mutant
        shutil.copy2(path, WORK / path.relative_to(PRISTINE))
    command = [sys.executable, "tests/mutants/core/kill.py"]
    if subprocess.run(command, cwd=WORK, env=_environment(), stdout=subprocess.DEVNULL).returncode:
        raise SystemExit("the checks accuse the unbroken core: mend that first, or begin --again")


def try_all(module: str) -> None:
    """Let cosmic-ray list the mutants of a module, leave out the pointless ones, try the others."""
    config, session = f"{module}.toml", _session(module)
    if not (WORK / config).exists():
        (WORK / config).write_text(CONFIG.format(module=module, python=sys.executable))
        cosmic_ray("init", config, session.name)
        pointless = [(m.job,) for m in mutants(module) if _is_pointless(m)]
        with sqlite3.connect(session) as database:
            database.executemany("delete from mutation_specs where job_id = ?", pointless)
            database.executemany("delete from work_items where job_id = ?", pointless)
        left = len(mutants(module))
        print(f"impl/{module}.py: {len(pointless):,} left out, {left:,} to be tried", flush=True)
    cosmic_ray("exec", config, session.name)


def cosmic_ray(*args: str) -> None:
    """Run cosmic-ray in the copy."""
    command = Path(sys.executable).parent / "cosmic-ray"
    subprocess.run([str(command), *args], cwd=WORK, check=True, env=_environment())


def _environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(WORK / "src")}


def _session(module: str) -> Path:
    return WORK / f"{module}.sqlite"


def mutants(module: str) -> list[Mutant]:
    """All that are, or were, to be tried."""
    with sqlite3.connect(_session(module)) as database:
        rows = database.execute(
            "select job_id, module_path, operator_name, occurrence, start_pos_row, start_pos_col "
            "from mutation_specs order by start_pos_row, start_pos_col, operator_name"
        ).fetchall()
    return [Mutant(*row) for row in rows]


def _is_pointless(mutant: Mutant) -> bool:
    """Does the change say the same, or is it in what is never evaluated (an annotation)?"""
    if any(mutant.name.endswith(f"ReplaceComparisonOperator_{same}") for same in IDENTITY):
        return True
    tree = ast.parse((PRISTINE / mutant.module).read_text())
    return any(
        (node.lineno, node.col_offset)
        <= (mutant.line, mutant.column)
        < (node.end_lineno or 0, node.end_col_offset or 0)
        for node in _annotations(tree)
    )


def _annotations(tree: ast.AST) -> Iterator[ast.expr]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and node.returns is not None:
            yield node.returns
        elif isinstance(node, ast.arg | ast.AnnAssign) and node.annotation is not None:
            yield node.annotation
            is_alias = getattr(node.annotation, "id", "") == "TypeAlias"
            if isinstance(node, ast.AnnAssign) and is_alias and node.value is not None:
                yield node.value


def outcomes(module: str) -> dict[str, str]:
    """job -> survived, killed or another word of cosmic-ray; those that were tried."""
    with sqlite3.connect(_session(module)) as database:
        rows = database.execute(
            "select job_id, worker_outcome, test_outcome from work_results"
        ).fetchall()
    return {job: str(test or worker).lower() for job, worker, test in rows}


def explained() -> dict[tuple[str, str, str], str]:
    """(module, operator, line) -> why nothing can notice the change."""
    told = tomllib.loads((HERE / "equivalent.toml").read_text())
    return {
        (f"impl/{entry['module']}.py", operator, entry["line"]): entry["why"]
        for entry in told.get("equivalent", ())
        for operator in entry["operators"]
    }


def tell(module: str) -> bool:
    """Count; list the survivors that nobody has explained. Returns whether there is none."""
    said, known, mine = outcomes(module), explained(), mutants(module)
    survived = [m for m in mine if said.get(m.job) == "survived"]
    left = [m for m in survived if (m.module, m.name, m.text) not in known]
    counts = Counter(said.get(m.job, "not tried") for m in mine)
    told = ", ".join(f"{n:,} {word}" for word, n in counts.most_common())
    equivalent = len(survived) - len(left)
    print(f"impl/{module}.py: {len(mine):,} mutants: {told} ({equivalent:,} of them equivalent)")
    for m in left:
        print(f"  {m.line}:{m.column} {m.name}#{m.occurrence}: {m.text}", flush=True)
    return not left


def main(args: list[str]) -> int:
    """Do what is left to do, and tell."""
    modules = [a for a in args if not a.startswith("-")] or list(CORE)
    if unknown := sorted(set(modules) - set(CORE)):
        print(f"no module of the core: {', '.join(unknown)}; they are {', '.join(CORE)}")
        return 2
    if "--tell" in args:
        return 0 if all([tell(m) for m in modules if (WORK / f"{m}.toml").exists()]) else 1
    if "--again" in args or not PRISTINE.exists():
        copy_tree()
    accept_unbroken()
    good = True
    for module in modules:
        try_all(module)
        good &= tell(module)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
