"""Makes the mutants of a module with cosmic-ray's operators, and leaves out what proves nothing.

Left out are, each for a reason that holds for every test there could be:

- what is only written for a type checker or a reader (annotations; the `*` from which on arguments
  are named, which forbids calls and makes none), and what compiles to the very code of the original
  or of a mutant before it;
- `==` for `is` and the like: members of enumerations, None and single objects are the same exactly
  when they are equal;
- comparisons by order of what has none (`is` becoming `<`): it raises when it is evaluated;
- of the other replacements of an operator all but those of `KEPT`. What notices that `<` became
  `<=`, `!=` and `>=` has seen both sides and the boundary, and so notices `>` and `==` as well; of
  an arithmetic or a set operation it is enough to see that it is not its opposite.
"""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType
from typing import Any

ROOT = Path(__file__).parent.parent.parent.parent
COMPARISONS = {
    "Lt": {"LtE", "NotEq", "GtE"},
    "Gt": {"GtE", "NotEq", "LtE"},
    "LtE": {"Lt", "Gt"},
    "GtE": {"Gt", "Lt"},
    "Eq": {"NotEq", "LtE", "GtE"},
    "NotEq": {"Eq", "Lt", "Gt"},
    "Is": {"IsNot"},
    "IsNot": {"Is"},
}
OPERATIONS = {
    "Add": {"Sub"},
    "Sub": {"Add", "BitAnd", "BitOr"},  # of numbers, and of sets
    "Mul": {"Add", "Div"},
    "Div": {"Mul"},
    "FloorDiv": {"Mul"},
    "Mod": {"FloorDiv"},
    "Pow": {"Mul"},
    "BitAnd": {"BitOr", "Sub"},
    "BitOr": {"BitAnd", "Sub"},
    "BitXor": {"BitAnd"},
    "LShift": {"RShift"},
    "RShift": {"LShift"},
}
KEPT = {
    *(f"ReplaceComparisonOperator_{a}_{b}" for a in COMPARISONS for b in COMPARISONS[a]),
    *(f"ReplaceBinaryOperator_{a}_{b}" for a in OPERATIONS for b in OPERATIONS[a]),
    *("ReplaceUnaryOperator_Delete_Not", "ReplaceUnaryOperator_Delete_USub"),
    "ReplaceUnaryOperator_Delete_Invert",
}


@dataclass(frozen=True)
class Mutant:
    """One change: what was done (cosmic-ray's operator) at which place."""

    module: str
    operator: str
    line: int
    column: int
    lines: tuple[int, ...]
    """Where the statement that is changed is executed; empty: when the module is imported."""
    text: str
    """The line that is changed, as it is in the unbroken source."""
    place: str
    """The function, or the class, that it is in."""
    key: str
    """The same as long as neither the function nor the operators before it in there change."""
    source: str = field(repr=False)
    """Of the whole module, with the change."""

    def __str__(self) -> str:
        return f"{self.line}:{self.column} {self.operator}: {self.text}"


@dataclass
class Made:
    """The mutants of a module that are worth trying, and how many are not."""

    mutants: list[Mutant]
    left_out: int = 0


def source_of(module: str) -> str:
    """The unbroken source of a module of the core."""
    return (ROOT / "impl" / f"{module}.py").read_text()


def make(module: str, source: str | None = None) -> Made:
    """All mutants of a module (of its unbroken `source`), but for the pointless ones."""
    source = source_of(module) if source is None else source
    tree = ast.parse(source)
    skipped = list(for_type_checkers(tree))
    seen = [_code(source)]
    made, places = Made([]), Places(source, tree)
    counts: dict[str, int] = {}
    for operator, start, mutated in _changes(source):
        worth = operator in KEPT or "Operator_" not in operator
        if source.splitlines()[start[0] - 1].startswith("*,", start[1]):
            worth = False
        if not worth or any(_within(start, node) for node in skipped):
            made.left_out += 1
            continue
        changed = mutated()
        code = _code(changed)
        if code in seen:
            made.left_out += 1
            continue
        seen.append(code)
        line, column = start
        place, text, lines = places.find(line, column)
        digest = hashlib.sha256(f"{module} {place} {text} {operator}".encode()).hexdigest()[:20]
        counts[digest] = counts.get(digest, 0) + 1
        made.mutants.append(
            Mutant(
                *(module, operator, line, column, lines, source.splitlines()[line - 1].strip()),
                *(place, f"{digest}.{counts[digest]}", changed),
            )
        )
    made.mutants.sort(key=lambda m: (m.line, m.column, m.operator))
    return made


def _changes(source: str) -> Iterator[tuple[str, tuple[int, int], Callable[[], str]]]:
    """Operator, where it changes something, and how to make the change: that takes a while."""
    from cosmic_ray.ast import ast_nodes, get_ast
    from cosmic_ray.mutating import MutationVisitor
    from cosmic_ray.plugins import get_operator, operator_names

    tree = get_ast(source)
    for name in operator_names():
        kind = get_operator(name)
        if kind.arguments() or name.endswith("/NoOp"):
            continue
        positions = (p for node in ast_nodes(tree) for p in kind().mutation_positions(node))
        for occurrence, (start, _) in enumerate(positions):

            def change(kind: Any = kind, occurrence: int = occurrence) -> str:
                changed = MutationVisitor(occurrence, kind()).walk(get_ast(source))
                return str(changed.get_code())

            yield name.rpartition("/")[2], start, change


def for_type_checkers(tree: ast.AST) -> Iterator[ast.expr]:
    """What only a type checker evaluates."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and node.returns is not None:
            yield node.returns
        elif isinstance(node, ast.arg | ast.AnnAssign) and node.annotation is not None:
            yield node.annotation
            is_alias = getattr(node.annotation, "id", "") == "TypeAlias"
            if isinstance(node, ast.AnnAssign) and is_alias and node.value is not None:
                yield node.value


def _within(start: tuple[int, int], node: ast.expr) -> bool:
    end = (node.end_lineno or 0, node.end_col_offset or 0)
    return (node.lineno, node.col_offset) <= start < end


def _code(source: str) -> object:
    try:
        return plain(compile(source, "mutant", "exec", dont_inherit=True))
    except (SyntaxError, ValueError):
        return source


def plain(code: CodeType) -> tuple[object, ...]:
    """What a code object does, without where it stands."""
    consts = tuple(
        plain(c) if isinstance(c, CodeType) else (type(c), repr(c)) for c in code.co_consts
    )
    counts = code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags
    names = code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars
    return code.co_qualname, code.co_code, code.co_exceptiontable, consts, counts, names


Span = tuple[int, int, int, str, bool, ast.stmt | ast.ExceptHandler]
"""First and last line, how many come before it, the name around it, whether it is in a function."""


class Places:
    """Where in a module a change is."""

    def __init__(self, source: str, tree: ast.Module) -> None:
        self._source = source.splitlines()
        self._spans: list[Span] = []
        self._gather(tree, "", False)

    def _gather(self, node: ast.AST, name: str, inside: bool) -> None:
        for child in ast.iter_child_nodes(node):
            here, within = name, inside
            if isinstance(child, ast.stmt | ast.ExceptHandler):
                decorators = getattr(child, "decorator_list", [])
                first = min([child.lineno, *(d.lineno for d in decorators)])
                last = child.end_lineno or child.lineno
                self._spans.append((first, last, len(self._spans), name, inside, child))
            if isinstance(child, ast.FunctionDef | ast.ClassDef):
                here = f"{name}.{child.name}" if name else child.name
                within = inside or isinstance(child, ast.FunctionDef)
            self._gather(child, here, within)

    def find(self, line: int, column: int) -> tuple[str, str, tuple[int, ...]]:
        """The name of the place, the text that its key depends on, and the lines of execution."""
        around = [s for s in self._spans if s[0] <= line <= s[1]]
        first, last, _, name, inside, node = max(around, key=lambda s: s[2])
        if not inside or (isinstance(node, ast.FunctionDef) and not self._nested(around)):
            return name, "\n".join(self._source[first - 1 : last]), ()
        function = next(s for s in around if isinstance(s[5], ast.FunctionDef))
        text = "\n".join(self._source[function[0] - 1 : function[1]])
        body = getattr(node, "body", None)
        if isinstance(body, list) and not isinstance(node, ast.FunctionDef):
            head = max(first, body[0].lineno - 1)
            if isinstance(node, ast.Match) or line > head:
                first = head = line
            last = head
        return name, text, tuple(range(first, last + 1))

    @staticmethod
    def _nested(
        around: list[Span],
    ) -> bool:
        return sum(isinstance(s[5], ast.FunctionDef) for s in around) > 1
