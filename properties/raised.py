"""Which exception of a manager under test stands behind what it did wrong.

An exception that leaves a call is seen by whoever called. One that the manager catches itself, in a
`try` that was meant for its tiers, say, is not: what is seen is a tier that was never asked, and
the contract that this breaks is a long way from the misspelt name that caused it. So a history that
was found to break a contract is watched once more for exceptions that are mistakes of a program.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

from .telling import is_foreign

MISTAKES = (AssertionError, AttributeError, ImportError, NameError, RecursionError, TypeError)
"""Exceptions that no program means to raise; others, such as KeyError, many use for their ways."""
FEW = 3


@contextmanager
def caught() -> Iterator[list[str]]:
    """Notes mistakes that foreign code raises within, caught or not: each once, and a few of all.

    For short histories: foreign code is traced meanwhile, which is slow.
    """
    found: list[str] = []

    def local(frame: FrameType, event: str, arg: Any) -> Any:
        if event == "exception" and len(found) < FEW:
            kind, error, trace = arg
            # only where it was raised, and not in all that it passes through
            if trace.tb_next is None and issubclass(kind, MISTAKES):
                where = f"{Path(frame.f_code.co_filename).name}, line {frame.f_lineno}"
                said = f"{frame.f_code.co_name} raised {kind.__name__}: {error} ({where})"
                if said not in found:
                    found.append(said)
        return local

    def enter(frame: FrameType, event: str, arg: Any) -> Any:
        frame.f_trace_lines = False
        return local if is_foreign(str(frame.f_globals.get("__name__", ""))) else None

    before = sys.gettrace()
    sys.settrace(enter)
    try:
        yield found
    finally:
        sys.settrace(before)
