"""Mutants of the manager's core, made by cosmic-ray's operators: tried, and told.

    python -m tests.mutants.core.measure [MODULE...]

Modules are named as in `impl/`; without any, the whole core is mutated. What became of each mutant
is kept in `build/core-mutants`, so an interrupted run goes on where it was, and a later one tries
what is in functions that have changed since. Survivors are tried again when there are new tests.

    --tell          try nothing, tell what is known so far
    --again         forget what is known of these modules
    --seconds N     put a mutant only to checks that take N seconds together: a first impression
    --explained     also go on with survivors that are explained: is it true of every check?
    --workers N     processes that try (2)
    --instead FILE  with one module: try this one file in its place

A survivor that `equivalent.toml` explains is counted as equivalent; any other makes the exit code
1. What is not tried at all, because it would show nothing, is said in `making`.
"""

from __future__ import annotations

import argparse
import json
import os
import pickle
import sqlite3
import sys
import tomllib
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

from .checks import UNIT_TESTS, Check, collected, digest
from .making import ROOT, Made, Mutant, make, source_of
from .trying import Outcome, Reach, reaches, try_imported, try_within

HERE = Path(__file__).parent
WORK = ROOT / "build" / "core-mutants"
CORE = (
    *("claims", "jobs", "undecided", "arguments", "cascades", "ledger", "probes", "lookups"),
    *("stores", "step", "external", "closing", "plans", "usage", "secondary", "manager"),
    *("blocks", "primary", "policies", "transfers", "requests"),
)


def _database() -> sqlite3.Connection:
    WORK.mkdir(parents=True, exist_ok=True)
    database = sqlite3.connect(WORK / "outcomes.sqlite", timeout=60, isolation_level=None)
    database.execute(
        "create table if not exists outcomes "
        "(key text primary key, module text, verdict text, killer text, seconds real, passed text)"
    )
    return database


def mutants(module: str) -> Made:
    """Those of a module as it is now; making them takes seconds, so they are kept."""
    kept = WORK / "made" / f"{module}-{digest(*HERE.glob('making.py'))[:8]}.pickle"
    source = source_of(module)
    if kept.exists():
        old, made = pickle.loads(kept.read_bytes())
        if old == source and isinstance(made, Made):
            return made
    made = make(module)
    kept.parent.mkdir(parents=True, exist_ok=True)
    kept.write_bytes(pickle.dumps((source, made)))
    return made


def outcomes(module: str) -> dict[str, Outcome]:
    """Key of a mutant -> what became of it; those that were tried."""
    rows = _database().execute("select * from outcomes where module = ?", (module,))
    return {row[0]: Outcome(row[2], row[3], row[4], row[5].split()) for row in rows}


def record(mutant: Mutant, outcome: Outcome) -> None:
    """Keep what became of a mutant."""
    old = outcomes(mutant.module).get(mutant.key)
    passed = {*outcome.passed, *(old.passed if old is not None else ())}
    if outcome.verdict == "killed":
        passed = set()
    _database().execute(
        "insert or replace into outcomes values (?, ?, ?, ?, ?, ?)",
        (mutant.key, mutant.module, outcome.verdict, outcome.by, outcome.seconds, " ".join(passed)),
    )


# -- trying ---------------------------------------------------------------------------------------


def learn(tests: Sequence[str], whole: bool) -> dict[str, Reach]:
    """What each check does on the unbroken core, kept as long as neither changes."""
    state = digest(*(ROOT / "impl").glob("*.py"))
    kept = WORK / "reaches.json"
    known: dict[str, Reach] = {}
    if kept.exists():
        told = json.loads(kept.read_text())
        if told["state"] == state:
            known = {name: Reach(**reach) for name, reach in told["reaches"].items()}
    if not _done_in_a_process(lambda: _learn(tests, whole, known, state)):
        raise SystemExit(1)
    told = json.loads(kept.read_text())
    return {name: Reach(**reach) for name, reach in told["reaches"].items()}


def _learn(tests: Sequence[str], whole: bool, known: dict[str, Reach], state: str) -> None:
    def run(checks: list[Check]) -> None:
        found = known | reaches(checks, CORE, known)
        told = {"state": state, "reaches": {name: asdict(r) for name, r in found.items()}}
        WORK.mkdir(parents=True, exist_ok=True)
        (WORK / "reaches.json").write_text(json.dumps(told))

    collected(tests, whole, run)


def try_all(todo: Sequence[Mutant], workers: int, allowed: float, known: dict[str, Reach]) -> None:
    """Try mutants in several processes, each with a share of them."""
    passed = {
        key: outcome.passed
        for module in {m.module for m in todo}
        for key, outcome in outcomes(module).items()
    }

    def work(share: Sequence[Mutant]) -> None:
        unfit = WORK / f"unfit-{os.getpid()}.json"
        imported: list[str] = []

        def tell(mutant: Mutant, outcome: Outcome | None) -> None:
            if outcome is None:
                imported.append(mutant.key)
                unfit.write_text(json.dumps(imported))
            else:
                record(mutant, outcome)

        def within() -> None:
            def run(checks: list[Check]) -> None:
                try_within(share, checks, known, allowed, passed, tell)

            collected(UNIT_TESTS, True, run)

        if not _done_in_a_process(within):
            raise SystemExit(1)
        keys = json.loads(unfit.read_text()) if unfit.exists() else []
        unfit.unlink(missing_ok=True)
        for mutant in [m for m in share if m.key in keys]:
            marks = passed.get(mutant.key, ())
            record(mutant, try_imported(mutant, UNIT_TESTS, True, known, allowed, marks))

    shares = [todo[number::workers] for number in range(workers)]
    children = [_start(partial(work, share)) for share in shares if share]
    if not all([_ended_well(child) for child in children]):
        raise SystemExit("a process that tries mutants has died; what it told is kept")


def _start(work: Callable[[], None]) -> int:
    sys.stdout.flush()
    child = os.fork()
    if child:
        return child
    code = 1
    try:
        work()
        code = 0
    except SystemExit as end:
        print(end, file=sys.stderr)
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _ended_well(child: int) -> bool:
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def _done_in_a_process(work: Callable[[], None]) -> bool:
    return _ended_well(_start(work))


# -- telling --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Explained:
    """An entry of `equivalent.toml`: why nothing can notice these changes of a line."""

    module: str
    line: str
    operators: tuple[str, ...]
    why: str
    number: int
    """How many mutants it explains: of the two of a number, often one is noticed."""

    def about(self, mutant: Mutant) -> bool:
        """Does it speak of this mutant?"""
        named = (mutant.module, mutant.text) == (self.module, self.line)
        return named and mutant.operator in self.operators


def explained() -> list[Explained]:
    """All entries; one that does not say how many it explains explains one for each operator."""
    told = tomllib.loads((HERE / "equivalent.toml").read_text()).get("equivalent", ())
    return [
        Explained(
            *(entry["module"], entry["line"], tuple(entry["operators"]), entry["why"]),
            entry.get("number", len(entry["operators"])),
        )
        for entry in told
    ]


def equivalents(survivors: Sequence[Mutant]) -> set[str]:
    """The keys of those that are explained; none of an entry that would explain too many."""
    found: set[str] = set()
    for entry in explained():
        meant = [mutant.key for mutant in survivors if entry.about(mutant)]
        if len(meant) <= entry.number:
            found.update(meant)
    return found


def tell(module: str) -> bool:
    """Count; list the survivors that nobody has explained. Returns whether all is well."""
    made, said = mutants(module), outcomes(module)
    verdicts = {m.key: said[m.key].verdict if m.key in said else "not tried" for m in made.mutants}
    survivors = [m for m in made.mutants if verdicts[m.key] not in ("killed", "not tried")]
    same = equivalents(survivors)
    in_part = sum(verdicts[key] == "left" for key in same)
    verdicts |= dict.fromkeys(same, "equivalent")
    counts = Counter(verdicts.values())
    told = ", ".join(f"{n:,} {word}" for word, n in counts.most_common())
    if in_part:
        told += f" ({in_part:,} of them put to the quickest checks only)"
    print(f"{module}: {len(made.mutants):,} mutants ({made.left_out:,} left out): {told}")
    for mutant in survivors:
        if verdicts[mutant.key] != "equivalent":
            print(f"  {verdicts[mutant.key]} {mutant}", flush=True)
    return counts.keys() <= {"killed", "equivalent"}


def instead(module: str, path: Path) -> int:
    """Try one file in the place of a module."""
    mutant = Mutant(module, "written by hand", 1, 0, (), "", "", "", path.read_text())
    known = learn(UNIT_TESTS, True)
    outcome = try_imported(mutant, UNIT_TESTS, True, known, 1e9, ())
    print(f"{outcome.verdict} {outcome.by}".strip())
    return 0 if outcome.verdict == "killed" else 1


def main(args: Sequence[str]) -> int:
    """Do what is left to do, and tell."""
    parser = argparse.ArgumentParser(description="mutants of the core", epilog="see the module")
    parser.add_argument("modules", nargs="*")
    parser.add_argument("--tell", action="store_true")
    parser.add_argument("--again", action="store_true")
    parser.add_argument("--explained", action="store_true")
    parser.add_argument("--seconds", type=float, default=1e9)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--instead", type=Path)
    options = parser.parse_args(args)
    modules = options.modules or list(CORE)
    if unknown := sorted(set(modules) - set(CORE)):
        print(f"no module of the core: {', '.join(unknown)}; they are {', '.join(CORE)}")
        return 2
    if options.instead is not None:
        return instead(modules[0], options.instead)
    if options.tell:
        return 0 if all([tell(module) for module in modules]) else 1
    known = learn(UNIT_TESTS, True)
    good = True
    for module in modules:
        if options.again:
            _database().execute("delete from outcomes where module = ?", (module,))
        said = outcomes(module)
        all_of_it = mutants(module).mutants
        survivors = [m for m in all_of_it if m.key in said and said[m.key].verdict != "killed"]
        done = said.keys() - {mutant.key for mutant in survivors}
        if not options.explained:
            done |= equivalents(survivors)
        todo = [mutant for mutant in all_of_it if mutant.key not in done]
        try_all(todo, options.workers, options.seconds, known)
        good &= tell(module)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
