"""Counterexamples as pytest files that need nothing but an installed `tierproof`."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from textwrap import fill, wrap
from typing import Any

from ..model.operations import Setting
from .counterexamples import MANAGER_VARIABLE, Counterexample
from .managers import UsageError
from .wording import say

FOLDER = Path("tierproof-counterexamples")
"""Where counterexamples go; the pytest plugin, which imports nothing, knows the same name."""
ALWAYS_SAID = ("slots", "keys", "tiers", "requests")
"""What a reader of a setting wants to see even where it is as usual."""


def name_of_test(found: Counterexample) -> str:
    """`test_L2_until_landed_by_my_manager`; one for each manager and contract."""
    name = f"test_{found.contract}_by_{found.manager}".replace(".py:", "_")
    return re.sub(r"\W+", "_", name)


def source(found: Counterexample, command: str) -> str:
    """The counterexample as a pytest file."""
    used = {type(s.op).__name__ for s in found.shown} | {"Setting"}
    used |= {type(t).__name__ for t in found.setting.tiers}
    used |= {type(r).__name__ for r in found.setting.requests}
    name = name_of_test(found)
    steps = []
    for number, step in enumerate(found.shown, 1):
        told = f"{number}. {say(step.op)}" + (f": {step.answer}" if step.answer else "")
        steps += _comment(told)
        steps += [line for start in step.starts for line in _comment(f"   -> {start}")]
        steps.append(f"    {_code(step.op)},")
    header = fill(f"{found.contract}: {found.words}.", 96)
    return "\n".join(
        [
            f'"""{header}',
            "",
            f"Written by `{command}`. Run it with `pytest {name}.py`; to hold another",
            f"manager to it, name that one in the environment variable {MANAGER_VARIABLE}.",
            '"""',
            "",
            "from tierproof.model.operations import (",
            *(f"    {n}," for n in sorted(used)),
            ")",
            "from tierproof.properties.counterexamples import hold",
            "",
            f"MANAGER = {_code(found.manager)}",
            f"CONTRACT = {_code(found.contract)}",
            "",
            f"SETTING = {_code(found.setting)}",
            "",
            "HISTORY = [",
            *steps,
            "]",
            "",
            "",
            f"def {name}():",
            "    hold(MANAGER, SETTING, HISTORY, CONTRACT, beside=__file__)",
            "",
        ]
    )


def _comment(text: str) -> list[str]:
    return wrap(text, 96, initial_indent="    # ", subsequent_indent="    #    ")


def _code(value: Any) -> str:
    """Source of a value of the model, without what is as usual."""
    if isinstance(value, str):
        return repr(value) if "'" in value or '"' in value else f'"{repr(value)[1:-1]}"'
    if isinstance(value, tuple):
        inside = ", ".join(_code(v) for v in value)
        return f"({inside},)" if len(value) == 1 else f"({inside})"
    if not is_dataclass(value) or isinstance(value, type):
        return repr(value)
    told = [
        f"{f.name}={_code(getattr(value, f.name))}"
        for f in fields(value)
        if getattr(value, f.name) != f.default
        or (isinstance(value, Setting) and f.name in ALWAYS_SAID)
    ]
    name = type(value).__name__
    if isinstance(value, Setting):
        return "\n".join([f"{name}(", *(f"    {argument}," for argument in told), ")"])
    return f"{name}({', '.join(told)})"


def write_tests(
    found: Iterable[Counterexample],
    folder: Path,
    command: str,
    option: str = "--counterexamples",
) -> list[Counterexample]:
    """Write one pytest file for each; returns the counterexamples, each knowing its file.

    `option` is what names the folder where the command was given.

    Raises:
        UsageError: it cannot be written.
    """
    written = []
    for one in found:
        path = folder / f"{name_of_test(one)}.py"
        try:
            folder.mkdir(parents=True, exist_ok=True)
            path.write_text(source(one, command), encoding="utf-8")
        except OSError as error:
            raise UsageError(
                f"the counterexample could not be written to {path}: {error.strerror}; name "
                f"another folder with {option}"
            ) from error
        written.append(replace(one, file=path))
    return written
