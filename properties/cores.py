"""What proofs depend on, cell by cell: from the unsat cores of a run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from ..model.events import EVENTS, Event
from ..model.rules import RULES, Rule
from .proof import Verdict
from .questions import KEEPS

_INVARIANT = "invariant: "


def cells(rules: Sequence[Rule] = RULES, events: Mapping[str, Event] = EVENTS) -> list[str]:
    """The names that the cells of guards have in a core."""
    out = [f"{event.name}.given.{cell}" for event in events.values() for cell in event.given]
    return out + [f"{rule.name}.when.{cell}" for rule in rules for cell in rule.when]


def uses(verdicts: Iterable[Verdict]) -> Counter[str]:
    """How many proofs use each cell, and each invariant for something else than itself."""
    found: Counter[str] = Counter()
    for verdict in verdicts:
        own = verdict.obligation.removeprefix(KEEPS)
        found.update(name for name in verdict.core if name != _INVARIANT + own)
    return found


def unused_cells(
    verdicts: Iterable[Verdict],
    rules: Sequence[Rule] = RULES,
    events: Mapping[str, Event] = EVENTS,
) -> list[str]:
    """The guard cells that no proof about a single rule depends on.

    Such a cell decides between rules (totality and determinism need it), or it says twice what an
    invariant implies.
    """
    found = uses(verdicts)
    return [cell for cell in cells(rules, events) if not found[cell]]
