"""Three rooms, one direction: whoever judges shares no code with whom it judges."""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
ROOMS = ("model", "impl", "properties")

# Modules of the facade say nothing about a room; all else under `tierproof` is named by its room.
HARMLESS = {"tierproof.__version__"}


def modules(room: str) -> list[Path]:
    return sorted((ROOT / room).rglob("*.py"))


def imports(path: Path, source: str) -> Iterator[tuple[int, str]]:
    """Yield line and absolute dotted name of everything that `source`, at `path`, imports."""
    package = ["tierproof", *path.relative_to(ROOT).parent.parts]
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            parts = [*base, *(node.module or "").split(".")]
            for alias in node.names:
                yield node.lineno, ".".join([part for part in parts if part] + [alias.name])
        elif isinstance(node, ast.Call) and node.args:
            # importlib.import_module("...") and __import__("...") reach as far as a statement.
            called = node.func.attr if isinstance(node.func, ast.Attribute) else node.func
            name = called if isinstance(called, str) else getattr(called, "id", "")
            target = node.args[0]
            if (
                name in {"import_module", "__import__"}
                and isinstance(target, ast.Constant)
                and isinstance(target.value, str)
            ):
                yield node.lineno, target.value


def is_under(name: str, package: str) -> bool:
    return name == package or name.startswith(package + ".")


def trespasses(room: str, path: Path, source: str) -> list[str]:
    found = []
    for line, name in imports(path, source):
        ours = is_under(name, "tierproof") or name.partition(".")[0] in ROOMS
        if ours:
            allowed = is_under(name, f"tierproof.{room}") or name in HARMLESS
        else:
            allowed = room != "model" or name.partition(".")[0] in sys.stdlib_module_names
        if not allowed:
            found.append(f"{path.relative_to(ROOT)}:{line} imports {name}")
    return found


@pytest.mark.parametrize("room", ROOMS)
def test_every_room_has_modules(room):
    assert modules(room), f"no module under {room}/: the checks below would check nothing"


@pytest.mark.parametrize("room", ["model", "impl"])
def test_a_room_imports_nothing_of_the_others(room):
    found = [line for path in modules(room) for line in trespasses(room, path, path.read_text())]
    assert not found, f"{room}/ must not know the other rooms" + "\n  ".join(["", *found])


@pytest.mark.parametrize(
    ("room", "source"),
    [
        ("model", "import numpy"),
        ("model", "from tierproof.impl import keys"),
        ("model", "from ..impl.keys import BlockKey"),
        ("model", "import tierproof"),
        ("model", "from tierproof import BlockKey"),
        ("model", "def f():\n    import z3"),
        ("impl", "from .. import model"),
        ("impl", "from ..properties.contracts import L1"),
        ("impl", "import tierproof.model.rules"),
        ("impl", "import model"),
        ("impl", "from tierproof import BlockKey"),
        ("impl", "from importlib import import_module\nimport_module('tierproof.model')"),
        ("impl", "import importlib\nimportlib.import_module('tierproof.properties.cli')"),
    ],
)
def test_a_forbidden_import_is_seen(room, source):
    assert trespasses(room, ROOT / room / "example.py", source)


@pytest.mark.parametrize(
    ("room", "source"),
    [
        ("model", "from collections.abc import Mapping\nimport itertools as it"),
        ("model", "from .vocabulary import Answer\nfrom . import rules"),
        ("model", "from tierproof.model.rules import TABLE"),
        ("impl", "import numpy as np\nfrom .keys import BlockKey"),
        ("impl", "from tierproof import __version__"),
    ],
)
def test_an_allowed_import_is_let_through(room, source):
    assert not trespasses(room, ROOT / room / "example.py", source)


def test_a_relative_import_in_a_subfolder_is_followed_to_its_room():
    path = ROOT / "impl" / "tiers" / "example.py"
    assert not trespasses("impl", path, "from ..keys import BlockKey\nfrom .base import Tier")
    assert trespasses("impl", path, "from ...model import rules")
