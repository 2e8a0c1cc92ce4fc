"""Tries mutants: forks a process from one that has collected every check, breaks the core in there.

A change within a function is made by giving the function the changed code; what has an effect only
when a module is imported is tried in a process in which nothing of TierProof is imported yet.

Which checks execute which lines is found out first, once: a mutant is put to those that execute the
changed statement, the quickest first, and no other check could notice it.
"""

from __future__ import annotations

import contextlib
import gc
import importlib.abc
import importlib.machinery
import importlib.util
import json
import os
import resource
import select
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

from .checks import Check, collected, noticed
from .making import Mutant, plain, source_of

PACKAGE = "tierproof.impl"
PATIENCE = 3.0, 5.0
"""A check may take so many seconds of CPU, and so many times what it takes on the unbroken core."""
SILENCE = 120.0
"""Seconds without a word after which a process hangs: none of the checks waits for anything."""
MEMORY = 4 << 30


@dataclass(frozen=True)
class Outcome:
    """What became of a mutant."""

    verdict: str
    """killed, survived; left: all checks that were allowed passed, and some were not."""
    by: str = ""
    """The check that noticed it."""
    seconds: float = 0.0
    passed: Sequence[str] = ()
    """The marks of the checks that did not notice it, unless one did."""


@dataclass(frozen=True)
class Reach:
    """What a check does on the unbroken core."""

    seconds: float
    lines: Mapping[str, Sequence[int]]
    """Module -> its lines that are executed."""
    depends: str


# -- the unbroken core ----------------------------------------------------------------------------


def reaches(
    checks: Sequence[Check], modules: Sequence[str], known: Mapping[str, Reach]
) -> dict[str, Reach]:
    """Run each check on the unbroken core; raises SystemExit when one fails."""
    found: dict[str, Reach] = {}
    core = {str((Path(_imported(m).__file__ or "")).resolve()): m for m in modules}
    for check in checks:
        old = known.get(check.name)
        if old is not None and old.depends == check.depends:
            found[check.name] = old
            continue
        told = list(_forked(partial(_traced, check, core)))
        if not told or "lines" not in told[-1]:
            raise SystemExit(f"{check.name} fails on the unbroken core: mend that first")
        found[check.name] = Reach(told[-1]["seconds"], told[-1]["lines"], check.depends)
    return found


def _traced(check: Check, core: Mapping[str, str]) -> Iterator[dict[str, Any]]:
    import coverage

    recorder = coverage.Coverage(data_file=None, include=list(core), config_file=False)
    began = time.process_time()
    recorder.start()
    failed = noticed(check)
    recorder.stop()
    seconds = time.process_time() - began
    data = recorder.get_data()
    lines = {name: sorted(data.lines(path) or ()) for path, name in core.items()}
    yield {"failed": True} if failed else {"seconds": seconds, "lines": lines}


# -- a mutant -------------------------------------------------------------------------------------


def try_within(
    mutants: Sequence[Mutant],
    checks: Sequence[Check],
    known: Mapping[str, Reach],
    allowed: float,
    passed: Mapping[str, Sequence[str]],
    tell: Callable[[Mutant, Outcome | None], None],
) -> None:
    """Try mutants by changed functions; None is told of those that cannot be tried so.

    Args:
        mutants: to be tried.
        checks: collected in this process.
        known: what each check does on the unbroken core.
        allowed: seconds, on the unbroken core, of the checks that a mutant is put to.
        passed: key of a mutant -> marks of the checks that are known not to notice it.
        tell: called with each mutant and what became of it.
    """
    killers: dict[tuple[str, str], list[str]] = {}
    live = _live_functions()
    for mutant in mutants:
        changes = changed_functions(source_of(mutant.module), mutant.source)
        path = str(_imported(mutant.module).__file__)
        found = None if changes is None else _targets(live, path, changes)
        if found is None or not mutant.lines:
            tell(mutant, None)
            continue
        here = killers.setdefault((mutant.module, mutant.place), [])
        chosen = choose(mutant, checks, known, passed.get(mutant.key, ()), here)
        outcome = _attempt(partial(_swap, found), chosen, known, allowed)
        if outcome.by in known:
            here[:] = [outcome.by, *(k for k in here if k != outcome.by)][:4]
        tell(mutant, outcome)


def try_imported(
    mutant: Mutant,
    tests: Sequence[str],
    whole: bool,
    known: Mapping[str, Reach],
    allowed: float,
    passed: Sequence[str],
) -> Outcome:
    """Try one mutant in a process that imports the broken module; nothing may be imported yet."""

    def attempt() -> Iterator[dict[str, Any]]:
        told: list[dict[str, Any]] = []

        def run(checks: list[Check]) -> None:
            chosen = choose(mutant, checks, known, passed, ())
            told.append(asdict(_attempt(lambda: None, chosen, known, allowed)))

        yield {"check": "the import"}
        sys.meta_path.insert(0, _Broken(mutant))
        _imported(mutant.module)  # now: pytest has finders of its own, and puts them first
        collected(tests, whole, run)
        yield told[0]

    began = time.perf_counter()
    told = list(_forked(attempt, silence=1800.0))
    if told and "verdict" in told[-1]:
        return Outcome(**told[-1])
    return Outcome("killed", "the import", time.perf_counter() - began)


def choose(
    mutant: Mutant,
    checks: Sequence[Check],
    known: Mapping[str, Reach],
    passed: Sequence[str],
    first: Sequence[str],
) -> list[Check]:
    """The checks that can notice a mutant, in the order to try."""
    lines = set(mutant.lines)
    able = [
        check
        for check in checks
        if check.mark not in passed
        and check.name in known
        and (not lines or lines & set(known[check.name].lines.get(mutant.module, ())))
    ]
    return sorted(able, key=lambda c: (c.name not in first, c.last, known[c.name].seconds))


def _attempt(
    break_it: Callable[[], None],
    checks: Sequence[Check],
    known: Mapping[str, Reach],
    allowed: float,
) -> Outcome:
    def attempt() -> Iterator[dict[str, Any]]:
        break_it()
        spent = 0.0
        for check in checks:
            spent += known[check.name].seconds
            if spent > allowed:
                yield {"verdict": "left"}
                return
            yield {"check": check.name}
            limit = PATIENCE[0] + PATIENCE[1] * known[check.name].seconds
            signal.setitimer(signal.ITIMER_PROF, limit)
            if noticed(check):
                yield {"verdict": "killed"}
                return
            signal.setitimer(signal.ITIMER_PROF, 0)
        yield {"verdict": "survived"}

    began = time.perf_counter()
    verdict = "killed"  # a process that has died has noticed
    tried: list[str] = []
    for told in _forked(attempt):
        tried += [told["check"]] if "check" in told else []
        verdict = told.get("verdict", verdict)
    seconds = time.perf_counter() - began
    if verdict == "killed":
        return Outcome(verdict, tried[-1] if tried else "the start", seconds)
    marks = {check.name: check.mark for check in checks}
    return Outcome(verdict, "", seconds, [marks[name] for name in tried])


def _forked(
    work: Callable[[], Iterator[dict[str, Any]]], silence: float = SILENCE
) -> Iterator[dict[str, Any]]:
    """Do something in a process of its own and yield what it yields, until it ends or hangs."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        with contextlib.suppress(BaseException):
            os.close(reading)
            os.setpgid(0, 0)
            nothing = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nothing, 1)
            os.dup2(nothing, 2)
            resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            for told in work():
                os.write(writing, json.dumps(told).encode() + b"\n")
        os._exit(0)
    os.close(writing)
    rest = b""
    try:
        while select.select([reading], [], [], silence)[0]:
            got = os.read(reading, 1 << 16)
            if not got:
                break
            *lines, rest = (rest + got).split(b"\n")
            yield from map(json.loads, lines)
    finally:
        os.close(reading)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child, signal.SIGKILL)
        os.waitpid(child, 0)


# -- breaking -------------------------------------------------------------------------------------


def changed_functions(old: str, new: str) -> list[CodeType] | None:
    """The functions' codes, as they are in `new`, that differ; None: not only functions differ."""
    try:
        after = compile(new, "new", "exec", dont_inherit=True)
    except (SyntaxError, ValueError):
        return None
    changed: list[CodeType] = []
    before = compile(old, "old", "exec", dont_inherit=True)
    return changed if _compare(before, after, changed) else None


def _compare(old: CodeType, new: CodeType, changed: list[CodeType]) -> bool:
    if len(old.co_consts) != len(new.co_consts):
        return False
    for a, b in zip(old.co_consts, new.co_consts, strict=True):
        if not isinstance(a, CodeType) or not isinstance(b, CodeType):
            if type(a) is not type(b) or repr(a) != repr(b):
                return False
        elif a.co_qualname != b.co_qualname:
            return False
        elif a.co_flags & 1:  # optimized: a function, and no body of a class
            if plain(a) != plain(b):
                changed.append(b)
        elif not _compare(a, b, changed):
            return False
    return (old.co_code, old.co_names) == (new.co_code, new.co_names)


Targets = list[tuple[FunctionType, CodeType]]


def _live_functions() -> dict[tuple[str, str, int], list[FunctionType]]:
    found: dict[tuple[str, str, int], list[FunctionType]] = {}
    for thing in gc.get_objects():
        if isinstance(thing, FunctionType):
            code = thing.__code__
            key = code.co_filename, code.co_qualname, code.co_firstlineno
            found.setdefault(key, []).append(thing)
    return found


def _targets(
    live: Mapping[tuple[str, str, int], list[FunctionType]], path: str, codes: list[CodeType]
) -> Targets | None:
    found: Targets = []
    for code in codes:
        functions = live.get((path, code.co_qualname, code.co_firstlineno), [])
        if not functions or any(f.__code__.co_freevars != code.co_freevars for f in functions):
            return None
        found += [(function, code) for function in functions]
    return found


def _swap(targets: Targets) -> None:
    for function, code in targets:
        function.__code__ = code


def _imported(module: str) -> ModuleType:
    return importlib.import_module(f"{PACKAGE}.{module}")


class _Broken(importlib.abc.MetaPathFinder):
    """Finds the broken module instead of the unbroken one."""

    def __init__(self, mutant: Mutant) -> None:
        self._mutant = mutant

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if name != f"{PACKAGE}.{self._mutant.module}" or path is None:
            return None
        where = str(Path(path[0]) / f"{self._mutant.module}.py")
        return importlib.util.spec_from_file_location(
            name, where, loader=_Loader(name, where, self._mutant.source)
        )


class _Loader(importlib.machinery.SourceFileLoader):
    def __init__(self, name: str, path: str, source: str) -> None:
        super().__init__(name, path)
        self._source = source

    def get_code(self, fullname: str) -> CodeType:
        return compile(self._source, self.path, "exec", dont_inherit=True)
