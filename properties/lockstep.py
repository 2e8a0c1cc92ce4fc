"""Model and manager side by side: after each operation both must say, and have done, the same.

Each kind of difference is blamed on the contract that it breaks, so that a failure names a promise
and not a line of our code.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from ..model import operations as ops
from ..model.operations import Seen, Setting
from ..model.reference import Forbidden, Outcome, State, apply, begin, has_pending_work
from ..model.vocabulary import CASCADES
from .contracts import CONTRACTS
from .driver import Driver, Factory, Got
from .under_test import payload

Step = tuple[ops.Operation, object, object]
"""An operation, what the specification expects of it, and what the manager answered."""


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
    """A manager under test and the reference model, driven through one history."""

    def __init__(
        self, factory: Factory, setting: Setting, state: State | None = None, **driver: Any
    ) -> None:
        self.setting = setting
        self.driver = Driver(factory, setting, **driver)
        self.state: State = begin(setting) if state is None else state
        self.history: list[ops.Operation] = []
        self.shown: list[Step] = []
        self.rules: Counter[str] = Counter()
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
    def resume(cls, factory: Factory, setting: Setting, saved: Saved) -> Lockstep:
        """A fresh manager, driven to where we were. The model need not go there again."""
        self = cls(factory, setting, saved.state)
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
            seen = self._seen(op, got)
            try:
                expected = apply(before, op, seen)
            except Forbidden as forbidden:
                raise Divergence(forbidden.contract, str(forbidden), got=got.answer) from None
            self.rules.update(expected.rules)
            self.state = expected.state
            for contract, said, want, have in self._differences(before, op, expected, got):
                raise Divergence(contract, said, expected=want, got=have)
        except Divergence as divergence:
            self.shown.append((op, divergence.expected, divergence.got))
            divergence.history, divergence.shown = tuple(self.history), tuple(self.shown)
            raise
        self.shown.append((op, expected.answer, expected.answer))
        return expected

    def run(self, history: tuple[ops.Operation, ...]) -> None:
        """Perform a whole history; raises Divergence at the first difference."""
        for op in history:
            self.do(op)

    def environment(self, op: ops.Operation, got: Got) -> Sequence[ops.Operation]:
        """Operations of the surroundings that were seen to happen meanwhile: none by hand."""
        return ()

    # -- seeing ------------------------------------------------------------------------------------

    def _seen(self, op: ops.Operation, got: Got) -> Seen:
        removed = tuple(key for kind, key in got.events if kind == "removed")
        # within lookup_many it cannot be seen between which two keys the tiers were polled
        return Seen(
            polled=None if isinstance(op, ops.LookupMany) else got.polled,
            victims=None if isinstance(op, ops.Reset) else removed,
            slots=got.slots,
        )

    # -- comparing ---------------------------------------------------------------------------------

    def _differences(
        self, before: State, op: ops.Operation, expected: Outcome, got: Got
    ) -> Iterator[tuple[str, str, object, object]]:
        yield from self._errors(before, op, expected, got)
        if got.bytes_wrong is not None:
            yield "D1-bytes", got.bytes_wrong, None, got.answer
        yield from self._questions(expected, got)
        yield from self._answers(before, op, expected, got)
        yield from self._submissions(before, expected, got)
        yield from self._ends(expected, got)
        yield from self._visible(before, op, expected, got)
        self._number(op, expected, got)

    def _errors(
        self, before: State, op: ops.Operation, expected: Outcome, got: Got
    ) -> Iterator[tuple[str, str, object, object]]:
        refused = got.error is not None and type(got.error).__name__ == "ContractViolation"
        if got.error is not None and not refused:
            raising = [m for m in before.moods if m[1].startswith("raise")]
            contract = "F3-tier-raises" if raising else "L1-answer-true"
            said = f"{op.op} raised {type(got.error).__name__}: {got.error}"
            yield contract, said, expected.answer, type(got.error).__name__
        elif refused and not expected.error:
            contract = "L6-hit-holds" if isinstance(op, ops.PrepareLoad) else "S4-operations"
            yield contract, f"{op.op} was refused: {got.error}", expected.answer, "refused"
        elif expected.error and not refused:
            contract = "L1-answer-true" if isinstance(op, ops.PrepareLoad) else "S4-operations"
            yield contract, f"{op.op} must raise ContractViolation", "ContractViolation", got.answer

    def _questions(self, expected: Outcome, got: Got) -> Iterator[tuple[str, str, object, object]]:
        # the driver sees each tier's questions in order, and the tiers' questions one by one
        want = sorted(expected.asked, key=lambda a: a[0])
        have = sorted(got.asked, key=lambda a: a[0])
        if want != have:
            yield "L5-tiers-asked", f"asked {have}, to be asked: {want}", want, have

    def _answers(
        self, before: State, op: ops.Operation, expected: Outcome, got: Got
    ) -> Iterator[tuple[str, str, object, object]]:
        if isinstance(op, ops.Lookup) and expected.answer != got.answer:
            yield self._blame(before, op.key, op.request, expected.answer, got.answer)
        elif isinstance(op, ops.LookupMany) and not expected.error:
            for key, want, have in zip(op.keys, expected.answer, got.answer, strict=True):
                if want != have:
                    yield self._blame(before, key, op.request, want, have)
        elif isinstance(op, ops.PrepareStore) and not expected.error:
            want = expected.answer and expected.answer[0]
            have = None if got.answer is None else tuple(got.answer.keys)
            if want != have:
                said = f"a store of {op.keys} was given slots for {have}, to be given: {want}"
                yield "P2-room-for-stores", said, want, have
            if got.answer is not None and len(got.answer.slots) != len(got.answer.keys):
                yield "S1-slot-exclusive", "slots and keys differ in number", want, have
        elif isinstance(op, ops.Send) and (expected.answer is None) != (got.answer is None):
            yield "P2-room-for-stores", f"send answered {got.answer}", expected.answer, got.answer

    def _blame(
        self, before: State, key: str, request: str, want: object, have: object
    ) -> tuple[str, str, object, object]:
        world = self.state.world
        said = f"lookup of {key} by {request} answered {have}, to be answered: {want}"
        was = before.world.phase(key)
        if have in ("MISS", "RETRY"):
            if was in ("QUEUED", "LOADING") and want == "HIT_PENDING":
                return "L2-until-landed", said, want, have
            if before.world.get("waits", key, request) == "YES":
                return "L3-until-read", said, want, have
        if want == "MISS" and have == "HIT_PENDING" and self._any_retracted(key):
            return "F2-claim-retracted", said, want, have
        if have in ("HIT", "HIT_PENDING") and world.get("held") == "YES":
            return "R1-reset", said, want, have
        return "L1-answer-true", said, want, have

    def _any_retracted(self, key: str) -> bool:
        return bool(self.state.world.holders("retracted", key))

    def _submissions(
        self, before: State, expected: Outcome, got: Got
    ) -> Iterator[tuple[str, str, object, object]]:
        def shape(kind: str, tier: str, request: str, keys: tuple[str, ...]) -> tuple[Any, ...]:
            return ("LOAD" if kind == "LOAD" else "STORE", tier, request, keys)

        want = Counter(shape(s.kind, s.tier, s.request, s.keys) for s in expected.submitted)
        have = Counter(shape(j.kind, j.tier, j.request, j.keys) for j in got.jobs)
        if want == have:
            return
        wrong = next(iter((have - want) or (want - have)))
        kind, tier, request, keys = wrong
        extra = bool(have - want)
        said = (
            f"{'submitted' if extra else 'did not submit'} a {kind} of {keys} to {tier} under "
            f"{request or 'no request'}; to be submitted: {sorted(want) or 'nothing'}"
        )
        if kind == "LOAD":
            retracted = [k for k in keys if before.world.get("retracted", k, tier) == "YES"]
            contract = "F2-claim-retracted" if extra and retracted else "L4-submitted-once"
        elif extra and any(before.world.copies(k, tier) for k in keys):
            contract = "C1-cascade-once"
        else:
            offered = any((k, tier) in before.due for k in keys)
            contract = "C2-cascade-reoffered" if offered else "C1-cascade-once"
        yield contract, said, sorted(want), sorted(have)

    def _ends(self, expected: Outcome, got: Got) -> Iterator[tuple[str, str, object, object]]:
        want = Counter((t.name, r) for r in expected.told for t in self.setting.tiers)
        have = Counter(got.told)
        if want != have:
            said = f"told {sorted(have)} of ends, to be told: {sorted(want)}"
            yield "Q1-finish", said, sorted(want), sorted(have)

    def _visible(
        self, before: State, op: ops.Operation, expected: Outcome, got: Got
    ) -> Iterator[tuple[str, str, object, object]]:
        world, probe, driver = self.state.world, self.driver.probe, self.driver
        resident = {k for (k,), phase in world.fields["phase"].items() if phase == "RESIDENT"}
        for kind, key in got.events:
            (self.replayed.add if kind == "stored" else self.replayed.discard)(key)
        if self.replayed != resident:
            seen = sorted(self.replayed)
            contract = self._blame_residents(op, resident)
            yield (
                contract,
                f"events say resident: {seen}, right: {sorted(resident)}",
                sorted(resident),
                seen,
            )
        if driver.observes("resident_keys") and set(probe.resident_keys()) != resident:
            seen = sorted(probe.resident_keys())
            yield (
                "E1-events",
                f"resident: {seen}, right: {sorted(resident)}",
                sorted(resident),
                seen,
            )
        for key in self.setting.keys:
            want = world.links["slot_of"].get(key)
            if driver.observes("slot_of"):
                have = probe.slot_of(key)
                if have != want:
                    yield "S1-slot-exclusive", f"{key} owns slot {have}, right: {want}", want, have
            if driver.observes("pins"):
                pins = len(world.pins(key))
                if probe.pins(key) != pins:
                    said = f"{key} has {probe.pins(key)} pins, right: {pins}"
                    yield "S3-pins", said, pins, probe.pins(key)
            if want is not None and world.phase(key) == "RESIDENT":
                data = driver.read_slot(want) if driver.observes("slot_of") else None
                if data is not None and data != payload(key, driver.block_bytes):
                    yield "D1-bytes", f"slot {want} does not hold the bytes of {key}", key, None
        if driver.observes("free_slots"):
            free = len(world.free_slots())
            if probe.free_slots() != free:
                said = f"{probe.free_slots()} slots are free, right: {free}"
                lost = "F1-partial-failure" if isinstance(op, ops.Report) else "S1-slot-exclusive"
                yield lost, said, free, probe.free_slots()
        for job in got.jobs:
            want_slots = tuple(
                world.links["slot_of"].get(k, before.world.links["slot_of"].get(k))
                for k in job.keys
            )
            owned = any(k in world.links["slot_of"] for k in job.keys)
            if driver.observes("slot_of") and owned and job.slots != want_slots:
                said = f"job of {job.keys} names slots {job.slots}, right: {want_slots}"
                yield "S1-slot-exclusive", said, want_slots, job.slots
        pending = has_pending_work(self.state)
        if bool(self.driver.manager.has_pending_work()) != pending:
            said = f"has_pending_work() is {not pending}, right: {pending}"
            yield "W1-pending-work", said, pending, not pending

    def _blame_residents(self, op: ops.Operation, resident: set[str]) -> str:
        if isinstance(op, ops.Reset) or self.state.world.get("held") == "YES":
            return "R1-reset"
        extra = self.replayed - resident
        if isinstance(op, ops.CompleteStore):
            return "S4-operations" if extra else "E1-events"
        return "F1-partial-failure"

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
