"""Every obligation as SMT-LIB text, one file for each scene, and cvc5 to prove them again.

A file declares the sorts and functions, asserts the invariants and the guard, and then asks one
question after the other: `unsat` means that the obligation holds. Any solver can be given them.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import cvc5
import z3

from ..model.events import EVENTS, Event
from ..model.rules import RULES, Rule
from .logic import Not
from .prover import Prover
from .questions import CAN_HAPPEN, Scene, scenes
from .waiting_proof import P1, theorems

CVC5_RLIMIT = 2_000_000
"""Resource steps of cvc5 for one question."""


@dataclass(frozen=True)
class Reproof:
    """What cvc5 says of the questions of one file: how many it proved, and which it did not."""

    rule: str
    proved: int
    failed: tuple[str, ...]
    seconds: float


def export(
    folder: Path,
    rules: Sequence[Rule] = RULES,
    events: Mapping[str, Event] = EVENTS,
    only: Iterable[str] | None = None,
) -> list[Path]:
    """Write one file for each scene into `folder`, which is made; returns their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    out = []
    prover = Prover("quantified")
    for scene in scenes(rules, events, None if only is None else frozenset(only)):
        path = folder / f"{re.sub('[^a-z0-9_]', '-', scene.rule)}.smt2"
        path.write_text(script(prover, scene))
        out.append(path)
    if only is None:
        out.append(folder / "any-probe.smt2")
        out[-1].write_text(about_time())
    return out


def about_time() -> str:
    """The theorems about deadlines as an SMT-LIB script."""
    declared: dict[str, None] = {}
    asked = []
    for name, (assumed, follows) in theorems().items():
        solver = z3.Solver()
        solver.add(*assumed, z3.Not(follows))
        header, asserted = _parts(solver.sexpr())
        declared.update(dict.fromkeys(header))
        asked += ["(push 1)", f"; {P1}: {name}", *asserted, "(check-sat)", "(pop 1)"]
    lines = ["(set-logic ALL)", "(set-option :incremental true)", *declared, *asked]
    return "\n".join(lines) + "\n"


def script(prover: Prover, scene: Scene) -> str:
    """A scene as an SMT-LIB script."""
    step = scene.step(prover)
    questions = [q for q in scene.questions if q.name != CAN_HAPPEN]
    known = list(prover.facts) if scene.assuming else []
    cells = [] if step is None else list(step.guard(prover.known).items())
    solver = z3.Solver()
    solver.add(*(fact for _, fact in known), *(cell for _, cell in cells))
    solver.add(*(Not(question.goal(prover, step)) for question in questions))
    header, asserted = _parts(solver.sexpr())
    names = [f"invariant: {name}" for name, _ in known] + [name for name, _ in cells]
    lines = ["(set-logic ALL)", "(set-option :incremental true)", *header]
    for name, text in zip(names, asserted, strict=False):
        lines += [f"; {name}", text]
    for question, text in zip(questions, asserted[len(names) :], strict=True):
        label = f"{question.contract}: {question.name}"
        lines += ["(push 1)", f"; {label}", text, "(check-sat)", "(pop 1)"]
    return "\n".join(lines) + "\n"


def _parts(text: str) -> tuple[list[str], list[str]]:
    """The declarations and the assertions of a script as z3 prints it."""
    header: list[str] = []
    asserted: list[str] = []
    for part in _expressions(text):
        (asserted if part.startswith("(assert") else header).append(part)
    return header, asserted


def _expressions(text: str) -> Iterator[str]:
    depth, began, quoted = 0, 0, False
    for i, sign in enumerate(text):
        if sign == "|":
            quoted = not quoted
        elif not quoted and sign == "(":
            began = i if depth == 0 else began
            depth += 1
        elif not quoted and sign == ")":
            depth -= 1
            if depth == 0:
                yield text[began : i + 1]


def reprove(paths: Iterable[Path], rlimit: int = CVC5_RLIMIT) -> Iterator[Reproof]:
    """Let cvc5 answer every question of these files."""
    for path in paths:
        began = time.perf_counter()
        text = path.read_text()
        labels = re.findall(r"\(push 1\)\n; (.*)", text)
        answers = list(_answers(text, rlimit))
        failed = [label for label, said in zip(labels, answers, strict=True) if said != "unsat"]
        seconds = time.perf_counter() - began
        yield Reproof(path.stem, len(labels) - len(failed), tuple(failed), seconds)


def _answers(text: str, rlimit: int) -> Iterator[str]:
    solver = cvc5.Solver(cvc5.TermManager())
    solver.setOption("incremental", "true")
    solver.setOption("rlimit-per", str(rlimit))
    parser = cvc5.InputParser(solver)
    parser.setStringInput(cvc5.InputLanguage.SMT_LIB_2_6, text, "obligations")
    symbols = parser.getSymbolManager()
    while not (command := parser.nextCommand()).isNull():
        said = command.invoke(solver, symbols).strip()
        if command.getCommandName() == "check-sat":
            yield said
