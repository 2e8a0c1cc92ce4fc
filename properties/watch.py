"""Judges a manager by what was seen alone: each contract as a predicate over the history.

`lockstep` compares a manager with our model, and what the model decides (how many permits there
are, which deadline, that a promotion nobody waits for is dropped) would count against a manager
with policies of its own. Here only the words of the contracts count. In doubt nothing is held
against a manager: once it has raised out of a call, only what does not depend on what it made of
that call is still judged.

Three contracts are read as narrowly as others' interfaces allow: S3 speaks of pins (promises are
L3's), P2 of stores that were refused, and W1 of the ends of steps, which is when it is asked for.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from ..impl.counted import counted
from ..model import operations as ops
from ..model.operations import Setting
from .driver import Driver, Factory, Got
from .seen import PHASES, Facts, Job
from .telling import raised_in
from .watch_answers import Answers, Broken
from .watch_copies import Copies


class Watch(Answers, Copies):
    """A manager under test, driven through one history and judged after each operation."""

    def __init__(self, factory: Factory, setting: Setting) -> None:
        self.setting = setting
        self.driver = Driver(factory, setting)
        self.facts = Facts(setting, self.driver)
        self.history: list[ops.Operation] = []
        self.shown: list[tuple[ops.Operation, str]] = []
        """Each operation and what came of it, in words."""
        self.reached: Counter[str] = Counter()
        """How often each contract was put to the test."""
        self.prompt = bool(getattr(self.driver.manager, "prompt_events", True))
        """Are events to be had after every call, or only at the end of a step?"""

    def do(self, op: ops.Operation) -> list[Broken]:
        """Perform one operation: what it showed to be broken."""
        facts = self.facts
        facts.phase = max(facts.phase, PHASES.get(type(op), 0))
        moods = facts.moods()
        minds = facts.minds(op.key) if isinstance(op, ops.Lookup) else {}
        got = self.driver.do(op)
        self.history.append(op)
        self.shown.append((op, _outcome(got)))
        return list(self._judge(op, got, moods, minds))

    def quiet_steps(self) -> int:
        """How many steps, up to this one, ended with nothing done in them."""
        backwards = enumerate(reversed(self.history))
        return next((n for n, op in backwards if not isinstance(op, ops.StepEnd)), 0)

    def run(self, history: tuple[ops.Operation, ...]) -> list[Broken]:
        """Perform a whole history: all that it showed to be broken."""
        return [broken for op in history for broken in self.do(op)]

    def _judge(
        self, op: ops.Operation, got: Got, moods: frozenset[tuple[str, str]], minds: dict[str, str]
    ) -> Iterator[Broken]:
        facts = self.facts
        if got.bytes_wrong is not None:
            yield "D1-bytes", got.bytes_wrong
            facts.doubt = True  # the operation was not seen to the end
        if isinstance(op, ops.Report):
            facts.jobs[op.number].landed = frozenset(op.landed)
        elif isinstance(op, ops.Reset):
            facts.drained()
        told = facts.delivered(got, moods)
        yield from self._errors(op, got, moods)
        handler = getattr(self, f"_{op.op}", None)
        if handler is not None:
            if isinstance(op, ops.Lookup):
                yield from handler(op, got, minds)
            else:
                yield from handler(op, got)
        for job in [facts.add_job(j) for j in got.jobs]:
            yield from self._submitted(op, job)
        yield from self._ends_told(got)
        yield from self._events(op, got)
        if isinstance(op, ops.StepEnd):
            yield from self._step_ended(op, moods)
        if not facts.doubt:
            yield from self._probed(told)

    # -- errors ------------------------------------------------------------------------------------

    def _errors(
        self, op: ops.Operation, got: Got, moods: frozenset[tuple[str, str]]
    ) -> Iterator[Broken]:
        raising = sorted(mood for _, mood in moods if mood.startswith("raise"))
        called = {(tier, "raise on lookup") for tier, _ in got.asked}
        called |= {(job.tier, "raise on submit") for job in got.jobs}
        called |= {(tier, "raise on poll") for tier in got.polled}
        self.reached["F3-tier-raises"] += bool(called & moods)
        if got.error is None:
            return
        said = f"{op.op} raised {_short(got.error)}"
        if self.facts.doubt:
            return
        self.facts.doubt = True
        if raising:
            yield "F3-tier-raises", f"{said}, because a tier was told to {raising[0]}"
        elif isinstance(op, ops.PrepareLoad):
            yield "L6-hit-holds", f"{said}, for a block answered HIT in this step"
        else:
            yield ("L1-answer-true" if isinstance(op, ops.Lookup) else "S4-operations"), said

    # -- requests, steps, events -------------------------------------------------------------------

    def _on_request_finished(self, op: ops.Finish, got: Got) -> Iterator[Broken]:
        facts = self.facts
        facts.live.pop(op.request)
        facts.ended[op.request] = 0
        facts.let_go(op.request)
        for at in [at for at in facts.undecided if at[1] == op.request]:
            del facts.undecided[at]
        yield from ()

    def _ends_told(self, got: Got) -> Iterator[Broken]:
        for at in got.told:
            self.reached["Q1-finish"] += 1
            self.facts.told[at] = self.facts.told.get(at, 0) + 1
            if self.facts.told[at] > 1:
                yield "Q1-finish", f"{at[0]} was told of the end of {at[1]} a second time"

    def _reset_cache(self, op: ops.Reset, got: Got) -> Iterator[Broken]:
        self.reached["R1-reset"] += got.error is None
        self.facts.forget()
        if got.error is not None or not self.driver.observes("slot_of"):
            return
        probe = self.driver.probe
        left = {k: s for k in self.setting.keys if (s := probe.slot_of(k)) is not None}
        shows = self.driver.observes("resident_keys")  # else later lookups have to show it
        readable = sorted(left.keys() & set(probe.resident_keys() if shows else ()))
        if readable:
            yield "R1-reset", f"after the reset {readable} can still be read"
        # what follows would be held against it again and again
        self.facts.doubt = self.facts.doubt or bool(left)

    def _on_reset_flushed(self, op: ops.Flushed, got: Got) -> Iterator[Broken]:
        self.facts.held = False
        yield from ()

    def _time_passes(self, op: ops.Advance, got: Got) -> Iterator[Broken]:
        # leases and deadlines are named releases; the lease of a block that the manager has not
        # heard of yet begins later
        facts = self.facts
        facts.hopes |= {(key, request) for key, request in facts.waits if key in facts.writers}
        facts.waits.clear()
        yield from ()

    def _tier_says(self, op: ops.Mind, got: Got) -> Iterator[Broken]:
        if op.mind == "ABSENT":  # what it says afterwards is new evidence
            self.facts.retracted.discard((op.tier, op.key))
        yield from ()

    def _events(self, op: ops.Operation, got: Got) -> Iterator[Broken]:
        facts = self.facts
        for kind, key in got.events:
            early = kind == "stored" and key not in facts.resident and self.prompt
            if early and not facts.doubt:
                yield "E1-events", f"{key} is announced as stored, and cannot be read"
            (facts.replayed.add if kind == "stored" else facts.replayed.discard)(key)
        for key in self._gone(got):
            if key not in facts.resident:
                continue
            if facts.doubt:
                facts.removed(key)
                continue
            self.reached["S3-pins"] += 1
            if readers := facts.readers(key):
                yield (
                    "S3-pins",
                    f"{key} was evicted, read by {counted(readers, 'transfer')}",
                )
            if key in facts.hit:
                yield (
                    "L6-hit-holds",
                    f"{key} was answered HIT in this step, and {op.op} evicts it before it is read",
                )
            facts.removed(key)

    def _gone(self, got: Got) -> list[str]:
        """Blocks that this operation evicted; where events come late, probes have to tell."""
        if self.prompt:
            return [key for kind, key in got.events if kind == "removed"]
        return [key for key in sorted(self.facts.resident) if not self._owned(key)]

    def _step_ended(self, op: ops.StepEnd, moods: frozenset[tuple[str, str]]) -> Iterator[Broken]:
        from .watch_steps import step_ended

        yield from step_ended(self, op, moods)

    # -- probes ------------------------------------------------------------------------------------

    def _probed(self, told: list[Job]) -> Iterator[Broken]:
        from .watch_steps import probed

        yield from probed(self, told)


def _short(error: BaseException) -> str:
    kind, where = type(error).__name__, raised_in(error)
    text = str(error).splitlines()[0] if str(error) else "no message"
    return f"{kind}: {text if len(text) <= 80 else f'{text[:77]}...'}{where}"


def _outcome(got: Got) -> str:
    if got.error is not None:
        return f"raises {type(got.error).__name__}"
    keys = getattr(got.answer, "keys", None)
    if keys is not None and not callable(keys):
        return f"slots {list(got.answer.slots)} for {list(keys)}"
    return "" if got.answer is None else str(got.answer)
