"""Telling an exception of the user's code: its words, and the place in that code.

What is neither ours, nor the kit's, nor Python's is the user's.
"""

from __future__ import annotations

import sys
import traceback
from collections.abc import Iterator
from pathlib import Path


def told(error: BaseException) -> str:
    """An exception in one line, with the place in the user's code where it was raised."""
    said = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    if isinstance(error, SyntaxError):
        return f"{said}" if "line" in said else f"{said} (line {error.lineno})"
    return f"{said}{raised_in(error)}"


def raised_in(error: BaseException) -> str:
    """Where in the user's code it was raised, in parentheses; empty where it was not."""
    last = next(iter(reversed(list(_foreign(error)))), None)
    return "" if last is None else f" ({Path(last.filename).name}, line {last.lineno})"


_KIT = frozenset({"click", "hypothesis", "pluggy", "pytest", "rich", "tierproof", "typer", "z3"})


def _foreign(error: BaseException) -> Iterator[traceback.FrameSummary]:
    """The frames of code that is neither ours, nor the kit's, nor Python's."""
    for (frame, line), summary in zip(
        traceback.walk_tb(error.__traceback__),
        traceback.extract_tb(error.__traceback__),
        strict=True,
    ):
        del line
        if is_foreign(str(frame.f_globals.get("__name__", ""))):
            yield summary


def is_foreign(module: str) -> bool:
    """Is a module neither ours, nor the kit's, nor Python's?"""
    top = module.partition(".")[0]
    return top not in _KIT and top not in sys.stdlib_module_names and top != "importlib"
