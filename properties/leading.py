"""Leads a manager through a random history, past what need not hold against it.

A manager that does not claim a contract diverges from the model where that is natural, and model
and manager then say different things for ever. The history goes on with a fresh manager that was
led to where they last agreed, and the operation at which they parted is not tried there again: else
a manager that makes no copies to tiers, say, would see no history that is longer than its first
store.
"""

from __future__ import annotations

from dataclasses import replace

from ..model import operations as ops
from ..model.operations import Operation
from .driver import Factory
from .found import Found
from .lockstep import FEW, Divergence, Lockstep
from .moves import Menu, moves

MOST = 20
"""How often one history is taken up again: a manager this different gets another one."""


class Led:
    """A lockstep that goes on where the manager breaks what does not count against it.

    Args:
        factory: builds the manager under test.
        lockstep: where the history starts; it knows which contracts count. Who does not claim one
            diverges where that is natural.
    """

    def __init__(self, factory: Factory, lockstep: Lockstep) -> None:
        self.lockstep = lockstep
        self._passed: list[Found] = []
        self._factory = factory
        self._barred: set[Operation] = set()
        self._again = 0
        self.over = False
        """It was taken up again too often."""

    @property
    def passed(self) -> list[Found]:
        """The first findings that did not count."""
        setting = self.lockstep.setting
        return self._passed + [Found(setting, p, "runs") for p in self.lockstep.passed]

    def now(self, menu: Menu) -> list[Operation]:
        """What may be tried now."""
        possible = [] if self.over else moves(self.lockstep.state, menu)
        return [op for op in possible if op not in self._barred]

    def do(self, op: Operation) -> None:
        """Perform one operation on both.

        Raises:
            Divergence: they differ, and it counts.
        """
        try:
            self.lockstep.do(op)
        except Divergence as divergence:
            if self.lockstep.counts(divergence.contract):
                raise
            if len(self._passed) < FEW:
                self._passed.append(Found(self.lockstep.setting, divergence, "runs"))
            self._step_back(op)
        else:
            # what completes a transfer goes wrong whenever it is tried; the rest may go well later
            self._barred = {o for o in self._barred if isinstance(o, _COMPLETIONS)}

    def _step_back(self, op: Operation) -> None:
        self._barred.add(op)
        self._again += 1
        if self._again > MOST:
            self.over = True
            return
        before = self.lockstep
        agreed = before.save()
        agreed = replace(agreed, history=agreed.history[:-1], shown=agreed.shown[:-1])
        try:
            self.lockstep = Lockstep.resume(self._factory, before.setting, agreed, before.counts)
        except (LookupError, ValueError):  # it does not do the same thing twice
            self.over = True
            return
        self.lockstep.reached, self.lockstep.passed = before.reached, before.passed


_COMPLETIONS = ops.CompleteLoad | ops.CompleteStore | ops.Report | ops.Misreport
