"""Histories that a manager did not pass: in words, as data, replayed, and as a pytest file.

The pytest file needs nothing but an installed `tierproof`, and fails as long as the manager it
names breaks the same contract.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING, Any

from ..impl.counted import counted
from ..model.operations import Operation, PrepareStore, Setting
from ..model.reference import Submitted
from ..model.vocabulary import ANSWERS
from .contracts import CONTRACTS
from .driver import Factory
from .lockstep import Divergence, Lockstep, every
from .managers import Chosen, resolve
from .raised import caught
from .wording import plain, say, say_setting, say_submitted, say_value, together

if TYPE_CHECKING:
    from .found import Found

ANSWERED = {*ANSWERS, "ContractViolation", "refused"}
"""Differences of these values are differences of what the caller was told."""
MANAGER_VARIABLE = "TIERPROOF_MANAGER"
LONG, FEW = 40, 5
"""A history of more than 40 operations is shown without its middle: the first 5, the last 35."""
SEARCH_SECONDS = 30.0
"""For shortening all counterexamples of one command together."""
AT_LEAST = 0.5
"""Seconds for leaving out of one counterexample what is around it and does not matter."""


@dataclass(frozen=True)
class Shown:
    """One operation as it went, and what it started: jobs and operations by number."""

    op: Operation
    expected: Any
    got: Any
    starts: tuple[str, ...] = ()
    wrong: bool = False
    """Is this where the contract is broken?"""
    jobs: tuple[Submitted, ...] = ()
    """The jobs among what it started."""

    @property
    def answer(self) -> str:
        """What was answered, and what was expected where that is another answer.

        A difference need not lie in the answer: tiers may have been asked in the wrong order, say.
        """
        given, expected = say_value(self.got), say_value(self.expected)
        if not self.wrong:
            return given
        if ANSWERED & {given, expected} or isinstance(self.op, PrepareStore):
            return f"{given or 'nothing'}   (expected: {expected or 'nothing'})"
        return "<- here"


@dataclass(frozen=True)
class Counterexample:
    """A history after which the manager `manager` breaks `contract`."""

    contract: str
    manager: str
    methods: tuple[str, ...]
    setting: Setting
    shown: tuple[Shown, ...]
    said: str
    """What the manager did, and what it should have done."""
    again: bool = True
    """Did it break the same contract when the history was replayed?"""
    raised: tuple[str, ...] = ()
    """Mistakes that the manager's own code raised on the way, whether or not it caught them."""
    file: Path | None = None

    @property
    def words(self) -> str:
        """The contract in words."""
        return CONTRACTS[self.contract].words

    def as_json(self) -> list[dict[str, Any]]:
        """One entry for each method that found it."""
        operations = [
            {
                "op": s.op.op,
                "args": plain(s.op.args()),
                "expected": plain(s.expected),
                "got": plain(s.got),
            }
            for s in self.shown
        ]
        return [
            {
                "contract": self.contract,
                "method": method,
                "words": self.words,
                "operations": operations,
                **({"raised": list(self.raised)} if self.raised else {}),
            }
            for method in self.methods
        ]

    def lines(self, width: int = 100) -> list[str]:
        """The history for a reader: numbered operations with what was answered."""
        count = len(self.shown)
        by = f", found by {together(self.methods)}" if self.methods else ""
        operations = "one operation" if count == 1 else counted(count, "operation")
        told = [f"{self.contract} is broken by {self.manager} after {operations}{by}"]
        told += [line for said in self.raised for line in _wrapped(f"On the way {said}.", width)]
        told += [""]
        told += _wrapped(f"The contract: {self.words}.", width)
        told += _wrapped(f"To begin with: {say_setting(self.setting)}.", width)
        told += [""]
        room = max(len(say(s.op)) for s in self.shown)
        for number, step in enumerate(self.shown, 1):
            if count > LONG and FEW < number <= count - LONG + FEW:
                if number == FEW + 1:
                    told.append(
                        f"       ... {counted(count - LONG, 'operation')}, all of them in the file"
                    )
                continue
            told.append(f"  {number:>3}. {say(step.op):<{room}}   {step.answer}".rstrip())
            told += [f"       -> {start}" for start in step.starts]
        told += ["", *_wrapped(f"What is wrong: {self.said}.", width)]
        if not self.again:
            told += _wrapped(
                "Replayed, the manager did not do it again: it does not answer the same history in "
                "the same way twice.",
                width,
            )
        if self.file is not None:
            told += [f"  As a test: {self.file}"]
        return told


def _wrapped(text: str, width: int) -> list[str]:
    return wrap(text, width, initial_indent="  ", subsequent_indent="    ")


# -- replaying -----------------------------------------------------------------------------------


def replay(
    factory: Factory,
    setting: Setting,
    history: Iterable[Operation],
    counts: Callable[[str], bool] = every,
) -> tuple[list[Shown], Divergence | None]:
    """Drive a new manager through a history, as far as it goes well."""
    lockstep = Lockstep(factory, setting, counts=counts)
    told: list[Shown] = []
    for op in history:
        known = set(lockstep.state.operations)
        try:
            outcome = lockstep.do(op)
        except Divergence as divergence:
            told.append(Shown(op, divergence.expected, divergence.got, wrong=True))
            return told, divergence
        starts = [say_submitted(job) for job in outcome.submitted]
        starts += [f"operation {n}" for n in outcome.state.operations if n not in known]
        told.append(
            Shown(op, outcome.answer, outcome.answer, tuple(starts), jobs=outcome.submitted)
        )
    return told, None


def of_found(chosen: Chosen, found: Found, methods: Sequence[str]) -> Counterexample:
    """What a search found, replayed on a new manager so that it is shown as it went."""
    first = found.divergence
    with watching(chosen) as raised:
        shown, second = replay(chosen.factory, found.setting, found.history, chosen.answers_for)
    again = second is not None and second.contract == first.contract
    if not again:
        shown = [Shown(op, expected, got) for op, expected, got in first.shown]
        shown[-1] = replace(shown[-1], wrong=True)
    return Counterexample(
        first.contract,
        chosen.spec,
        tuple(methods),
        found.setting,
        tuple(shown),
        (second or first).said if again else first.said,
        again,
        tuple(raised),
    )


def watching(chosen: Chosen) -> AbstractContextManager[list[str]]:
    """Notes what a foreign manager's code raises; ours is nobody else's to mend."""
    return nullcontext([]) if chosen.ours else caught()


def gather(
    chosen: Chosen,
    found: Mapping[str, Sequence[Found]],
    contracts: Iterable[str],
    *,
    progress: Callable[[int, int], None] | None = None,
    seconds: float = SEARCH_SECONDS,
) -> list[Counterexample]:
    """For each contract the shortest history that shows it broken, whichever method found it."""
    from .shortest import shortest
    from .surroundings import plainest

    wanted = list(contracts)
    deadline = time.monotonic() + seconds
    told = []
    for done, contract in enumerate(wanted):
        if progress is not None:
            progress(done, len(wanted))
        mine = {
            method: [f for f in several if f.contract == contract]
            for method, several in found.items()
        }
        every = [f for several in mine.values() for f in several]
        if not every:
            continue
        best = min(every, key=lambda f: len(f.history))
        if chosen.watched:
            from .watched import counterexample

            methods = [m for m, several in mine.items() if several]
            told.append(counterexample(chosen, best, methods))
            continue
        left = (deadline - time.monotonic()) / (len(wanted) - done)
        if left > 0:
            best = shortest(chosen.factory, best, limit_s=left, counts=chosen.answers_for)
        until = max(deadline, time.monotonic() + AT_LEAST)
        best = plainest(chosen.factory, best, until, chosen.answers_for)
        told.append(of_found(chosen, best, [m for m, several in mine.items() if several]))
    return told


# -- as a test -----------------------------------------------------------------------------------


def hold(
    manager: str,
    setting: Setting,
    history: Sequence[Operation],
    contract: str,
    *,
    beside: str | None = None,
) -> None:
    """Drive a manager through a history; what generated tests call.

    The environment variable TIERPROOF_MANAGER names another manager for all of them.

    Raises:
        AssertionError: the manager breaks a contract in it.
        UsageError: there is no such manager.
    """
    __tracebackhide__ = True
    spec = os.environ.get(MANAGER_VARIABLE) or manager
    chosen = resolve(spec, beside=Path(beside) if beside else None)
    if chosen.watched:
        from . import watched

        return watched.hold(chosen, setting, history, contract)
    shown, divergence = replay(chosen.factory, setting, history, chosen.answers_for)
    if divergence is None:
        return
    found = divergence.contract
    told = Counterexample(found, spec, (), setting, tuple(shown), divergence.said).lines()
    if found != contract:
        told.append(f"  (This history was written because {contract} was broken.)")
    raise AssertionError("\n".join(told)) from None
