"""Model and manager side by side: after each operation both must say, and have done, the same.

What differs, and which contract that breaks, is said in `differences`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ..model import operations as ops
from ..model.operations import Seen, Setting
from ..model.reference import Forbidden, Outcome, State, apply, begin
from ..model.vocabulary import CASCADES
from .batches import outcomes
from .contracts import CONTRACTS
from .differences import Comparison, Difference, blame_forbidden
from .driver import Driver, Factory, Got
from .situations import Agreed, note

Step = tuple[ops.Operation, object, object]
"""An operation, what the specification expects of it, and what the manager answered."""


FEW = 3
"""How many findings that do not count are kept of one history."""
SAID_ONLY = "W1-pending-work"
"""A contract about what is said, and about nothing that is done: who breaks it can be led on."""


def every(contract: str) -> bool:
    """Every contract counts."""
    return True


class Divergence(Exception):
    """The manager did other than the specification says."""

    def __init__(
        self, contract: str, said: str, *, expected: object = None, got: object = None
    ) -> None:
        super().__init__(f"{contract}: {said}")
        self.contract, self.said = contract, said
        self.expected, self.got = expected, got
        self.history: tuple[ops.Operation, ...] = ()
        self.shown: tuple[Step, ...] = ()

    def __reduce__(self) -> tuple[Any, ...]:
        """As an exception with keyword arguments travels from a process to another.

        What a foreign manager answered may not travel: it goes as it is printed.
        """
        shown = tuple((op, _plain(want), _plain(have)) for op, want, have in self.shown)
        kept = (_plain(self.expected), _plain(self.got), self.history, shown)
        return _divergence, (self.contract, self.said, *kept)

    @property
    def words(self) -> str:
        """The contract in words."""
        return CONTRACTS[self.contract].words


def _plain(value: object) -> object:
    if value is None or isinstance(value, str | int | float):
        return value
    if isinstance(value, tuple | list):
        return tuple(map(_plain, value))
    return str(value)


def _divergence(
    contract: str,
    said: str,
    expected: object,
    got: object,
    history: tuple[ops.Operation, ...],
    shown: tuple[Step, ...],
) -> Divergence:
    divergence = Divergence(contract, said, expected=expected, got=got)
    divergence.history, divergence.shown = history, shown
    return divergence


@dataclass(frozen=True)
class Saved:
    """How far a history has been compared: what it takes to come back there without comparing.

    `numbers` says, for each operation, how the history calls the jobs that it started (number and
    place among them) and the GPU operation (its number, or None).
    """

    history: tuple[ops.Operation, ...]
    shown: tuple[Step, ...]
    numbers: tuple[tuple[tuple[tuple[int, int], ...], int | None], ...]
    state: State
    replayed: frozenset[str]


class Lockstep:
    """A manager under test and the reference model, driven through one history.

    `counts` says which contracts count. What does not count is a divergence all the same, except
    where only what the manager says of pending work differs: it would hide all that comes after.
    """

    def __init__(
        self,
        factory: Factory,
        setting: Setting,
        state: State | None = None,
        *,
        counts: Callable[[str], bool] = every,
        **driver: Any,
    ) -> None:
        self.setting = setting
        self.counts = counts
        self.passed: list[Divergence] = []
        """What did not count, and was passed over."""
        self._passing: list[Divergence] = []
        self.driver = Driver(factory, setting, **driver)
        self.state: State = begin(setting) if state is None else state
        self.history: list[ops.Operation] = []
        self.shown: list[Step] = []
        self.reached: set[str] = set()
        """What has come about with the manager in step (`situations`)."""
        self.replayed: set[str] = set()
        self.numbers: list[tuple[tuple[tuple[int, int], ...], int | None]] = []

    def save(self) -> Saved:
        """Remember where we are."""
        return Saved(
            tuple(self.history),
            tuple(self.shown),
            tuple(self.numbers),
            self.state,
            frozenset(self.replayed),
        )

    @classmethod
    def resume(
        cls,
        factory: Factory,
        setting: Setting,
        saved: Saved,
        counts: Callable[[str], bool] = every,
    ) -> Lockstep:
        """A fresh manager, driven to where we were. The model need not go there again."""
        self = cls(factory, setting, saved.state, counts=counts)
        for op, (jobs, operation) in zip(saved.history, saved.numbers, strict=True):
            got = self.driver.do(op)
            for number, place in jobs:
                job = got.jobs[place]
                self.driver.number(number, job.tier, job.job_id)
            if operation is not None:
                self.driver.number_operation(operation, got.answer)
        self.history, self.shown = list(saved.history), list(saved.shown)
        self.numbers = list(saved.numbers)
        self.replayed = set(saved.replayed)
        return self

    def do(self, op: ops.Operation) -> Outcome:
        """Perform one operation on both.

        Raises:
            Divergence: they differ, with the contract that this breaks.
        """
        got = self.driver.do(op)
        self.environment(op, got)
        self.history.append(op)
        before = self.state
        try:
            expected = self._agreed(before, op, self._seen(op, got), got)
            self.state = expected.state
            self._number(op, expected, got)
        except Divergence as divergence:
            self.shown.append((op, divergence.expected, divergence.got))
            divergence.history, divergence.shown = tuple(self.history), tuple(self.shown)
            raise
        self.shown.append((op, expected.answer, expected.answer))
        for passed in self._passing[: FEW - len(self.passed)]:
            passed.history, passed.shown = tuple(self.history), tuple(self.shown)
            self.passed.append(passed)
        note(self.reached, Agreed(before, op, expected, got, self.driver))
        return expected

    def _agreed(self, before: State, op: ops.Operation, seen: Seen, got: Got) -> Outcome:
        """The outcome that the specification allows and that came about; the first if none did."""
        first: Divergence | None = None
        try:
            several = outcomes(before, op, seen, got) if isinstance(op, ops.LookupMany) else None
            for expected in several or [apply(before, op, seen)]:
                replayed = set(self.replayed)
                now = Comparison(before, op, expected, got, self.driver, replayed)
                self._passing = []
                difference = next((d for d in now.differences() if not self._passes(d)), None)
                if difference is None:
                    self.replayed = replayed
                    return expected
                contract, said, want, have = difference
                first = first or Divergence(contract, said, expected=want, got=have)
        except Forbidden as forbidden:
            contract = blame_forbidden(forbidden, before, op, seen, got)
            raise Divergence(contract, str(forbidden), got=got.answer) from None
        assert first is not None, "there is always one outcome"
        raise first

    def _passes(self, difference: Difference) -> bool:
        """Is it passed over? Then it is kept."""
        contract, said, want, have = difference
        if contract != SAID_ONLY or self.counts(contract):
            return False
        self._passing.append(Divergence(contract, said, expected=want, got=have))
        return True

    def run(self, history: tuple[ops.Operation, ...]) -> None:
        """Perform a whole history; raises Divergence at the first difference."""
        for op in history:
            self.do(op)

    def environment(self, op: ops.Operation, got: Got) -> Sequence[ops.Operation]:
        """Operations of the surroundings that were seen to happen meanwhile: none by hand."""
        return ()

    # -- seeing ------------------------------------------------------------------------------------

    def _seen(self, op: ops.Operation, got: Got) -> Seen:
        return Seen(
            polled=got.polled,
            victims=None if isinstance(op, ops.Reset) else got.evicted,
            slots=got.slots,
        )

    # -- numbering ---------------------------------------------------------------------------------

    def _number(self, op: ops.Operation, expected: Outcome, got: Got) -> None:
        """Give the manager's jobs and operations the numbers by which histories call them."""
        jobs, operation = [], None
        left = dict(enumerate(got.jobs))
        for job in expected.submitted:
            kind = "STORE" if job.kind in CASCADES else "LOAD"
            for place, seen in left.items():
                same = (seen.kind, seen.tier, seen.request, seen.keys)
                if same == (kind, job.tier, job.request, job.keys):
                    self.driver.number(job.number, seen.tier, seen.job_id)
                    jobs.append((job.number, place))
                    del left[place]
                    break
        if isinstance(op, ops.PrepareLoad | ops.PrepareStore) and got.answer is not None:
            new = [n for n in self.state.operations if n not in self.driver.operations]
            if new:
                operation = max(new)
                self.driver.number_operation(operation, got.answer)
        self.numbers.append((tuple(jobs), operation))
