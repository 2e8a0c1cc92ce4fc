"""A message says `1 block` and `2 blocks`; what it counts with, it counts with one helper."""

import ast
import re
from pathlib import Path

import pytest

from tierproof.impl.counted import counted

ROOT = Path(__file__).parents[2]
THINGS = (
    "operation|transfer|block|job|key|release|fault|request|token|state|case|historie|row|slot|"
    "contract|question|tier|wave|comparison|obligation|thing|round|boundarie|mutant|workload|"
    "statement|file|step|reading|call|hit|group|seed|check|permit|promotion|copie|room|rule|"
    "reproducer|writer|load|core"
)
PLURAL = re.compile(rf" (?:\w+ )?(?:{THINGS})s\b|[^{{}}]*\(s\)")


def fixed_plurals(path):
    """Formatted values of a module that a plural follows, whatever their number is."""
    for node in ast.walk(ast.parse(path.read_text())):
        if not isinstance(node, ast.JoinedStr):
            continue
        before = ""
        for value, follows in zip(node.values, [*node.values[1:], None], strict=True):
            if isinstance(value, ast.FormattedValue) and isinstance(follows, ast.Constant):
                constant = ast.unparse(value.value).rpartition(".")[2].isupper()
                told = ast.unparse(value.value).startswith("counted(")  # and what follows is other
                if PLURAL.match(str(follows.value)) and not (
                    told or constant or before.endswith(" of ")
                ):
                    yield f"{path.relative_to(ROOT)}:{node.lineno}: {ast.unparse(node)}"
            before = str(value.value) if isinstance(value, ast.Constant) else ""


@pytest.mark.parametrize(
    ("told", "right"),
    [
        (counted(0, "slot"), "0 slots"),
        (counted(1, "slot"), "1 slot"),
        (counted(2_000, "slot"), "2,000 slots"),
        (counted(1, "history", "histories"), "1 history"),
        (counted(2, "history", "histories"), "2 histories"),
    ],
)
def test_a_number_of_things_is_told_with_their_singular_or_plural(told, right):
    assert told == right


def test_no_message_has_a_plural_whatever_the_number():
    found = [
        line
        for room in ("impl", "properties")
        for path in sorted((ROOT / room).rglob("*.py"))
        for line in fixed_plurals(path)
    ]
    assert not found, "write counted(number, thing):\n" + "\n".join(found)
