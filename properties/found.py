"""What a check found: a history on which a manager broke a contract."""

from __future__ import annotations

from dataclasses import dataclass

from ..model.operations import Operation, Setting
from .lockstep import Divergence


@dataclass(frozen=True)
class Found:
    """A broken contract, where the history started, and which method came upon it."""

    setting: Setting
    divergence: Divergence
    method: str

    @property
    def contract(self) -> str:
        """The id of the broken contract."""
        return self.divergence.contract

    @property
    def history(self) -> tuple[Operation, ...]:
        """The operations, the last of which shows it."""
        return self.divergence.history


def first_of_each(found: list[Found]) -> list[Found]:
    """The shortest finding of each contract, in the order in which contracts were first broken."""
    best: dict[str, Found] = {}
    for f in found:
        if f.contract not in best or len(f.history) < len(best[f.contract].history):
            best[f.contract] = f
    return list(best.values())
