"""Tables with one thing changed."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from tierproof.model.rules import RULES, Rule
from tierproof.properties.proof import Verdict


def rule(name: str) -> Rule:
    return next(rule for rule in RULES if rule.name == name)


def table_with(name: str, **changes: Any) -> tuple[Rule, ...]:
    """The table, with one rule changed."""
    assert name in {r.name for r in RULES}
    return tuple(replace(r, **changes) if r.name == name else r for r in RULES)


def without(cells: Any, *dropped: str) -> dict[str, Any]:
    """A guard or effects without some cells, which must be there."""
    assert set(dropped) <= set(cells)
    return {cell: said for cell, said in cells.items() if cell not in dropped}


def refuted(verdicts: Iterable[Verdict]) -> set[str]:
    """The contracts that are refuted; nothing may be unknown."""
    verdicts = list(verdicts)
    assert not [v for v in verdicts if v.verdict == "unknown"]
    return {v.contract for v in verdicts if v.verdict == "refuted"}
