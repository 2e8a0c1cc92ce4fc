"""Drives a real manager with the operations of a history and reports what could be seen.

The driver knows the manager's protocol and nothing of what is right: `lockstep` compares.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..impl.arena import Arena
from ..impl.tiers.base import LoadJob, StoreJob
from ..model import operations as ops
from ..model.operations import Setting
from .under_test import HandDrivenTier, garbage, payload

Factory = Callable[..., Any]
AN_OPERATION = "an object with keys and slots: slots[i] is the arena row of keys[i]"
BLOCK_BYTES = 64


class NotAManager(Exception):
    """What a factory returned cannot be driven: a user's mistake, told without a traceback."""


class NotAnOperation(Exception):
    """What `prepare_load` or `prepare_store` returned is no GpuOperation."""


@dataclass(frozen=True)
class JobSeen:
    """A job as a hand-driven tier saw it."""

    kind: str
    tier: str
    request: str
    keys: tuple[str, ...]
    slots: tuple[int, ...]
    job_id: int


@dataclass
class Got:
    """What one operation was seen to do."""

    answer: Any = None
    error: BaseException | None = None
    polled: tuple[str, ...] = ()
    asked: tuple[tuple[str, str], ...] = ()
    jobs: tuple[JobSeen, ...] = ()
    told: tuple[tuple[str, str], ...] = ()
    events: tuple[tuple[str, str], ...] = ()
    slots: Mapping[str, int] = field(default_factory=dict)
    bytes_wrong: str | None = None

    @property
    def evicted(self) -> tuple[str, ...]:
        """The blocks of which a removed event told."""
        return tuple(key for kind, key in self.events if kind == "removed")


def is_operation(thing: Any) -> bool:
    """Does it say which slots are whose, as a GpuOperation does?"""
    keys, slots = getattr(thing, "keys", None), getattr(thing, "slots", None)
    if not isinstance(keys, Collection) or not isinstance(slots, Collection):
        return False
    return len(keys) == len(slots)


def _shaped(operation: Any) -> Any:
    """The same operation, seen to be one.

    Raises:
        NotAnOperation: it is none.
    """
    if not is_operation(operation):
        raise NotAnOperation(f"returned {operation!r:.100}, to be {AN_OPERATION}")
    return operation


def by_hand(setting: Setting) -> dict[str, HandDrivenTier]:
    """Hand-driven tiers that have, and are undecided about, what the setting says."""
    tiers = {t.name: HandDrivenTier(t.name, whole_request=t.whole_request) for t in setting.tiers}
    for t in setting.tiers:
        tiers[t.name].minds.update(dict.fromkeys(t.has, "PRESENT"))
        tiers[t.name].minds.update(dict.fromkeys(t.undecided, "UNDECIDED"))
    return tiers


class Driver:
    """One manager, its hand-driven tiers, its clock, and the names of a history for all of them."""

    def __init__(
        self,
        factory: Factory,
        setting: Setting,
        *,
        tiers: Mapping[str, Any] | None = None,
        block_bytes: int = BLOCK_BYTES,
    ) -> None:
        self.setting = setting
        self.block_bytes = block_bytes
        self.time = 0.0
        self.tiers: Mapping[str, Any] = by_hand(setting) if tiers is None else tiers
        self.manager = factory(
            slots=setting.slots,
            tiers=tuple(self.tiers.values()),
            clock=lambda: self.time,
            block_bytes=block_bytes,
        )
        if not callable(getattr(self.manager, "lookup", None)):
            raise NotAManager(
                f"the factory returned {type(self.manager).__name__}, which has no lookup(key, "
                "request); return a manager with the calls of tierproof.properties.ManagerUnderTest"
            )
        self.probe = self._find_probe()
        self.handles: dict[str, Any] = {}
        self.names: dict[Any, str] = {-1: ""}
        self.jobs: dict[int, tuple[str, int]] = {}
        """Number of a job in the history -> (tier, the manager's id)."""
        self.operations: dict[int, Any] = {}
        """Number of a GPU operation, running or over -> what the manager returned."""
        self.running: set[int] = set()
        self.stale: set[int] = set()
        """Numbers of operations that began before a reset."""
        self.external: dict[str, Any] = {}
        for request in setting.requests:
            self._announce(request.name, request.only, request.external_of, None)
        self._drain_logs()

    def _find_probe(self) -> Any:
        find = getattr(self.manager, "probe", None)
        return find() if callable(find) else None

    def observes(self, probe: str) -> bool:
        """Does the manager under test offer this probe?"""
        return self.probe is not None and hasattr(self.probe, probe)

    def can(self, call: str) -> bool:
        """Does the manager under test have this optional call?"""
        return callable(getattr(self.manager, call, None))

    @property
    def arena(self) -> Arena | None:
        """The primary tier's memory, as the first tier got it."""
        for tier in self.tiers.values():
            first: Arena = tier.arena
            return first
        return getattr(self.manager, "arena", None)

    # -- one operation -----------------------------------------------------------------------------

    def do(self, op: ops.Operation) -> Got:
        """Perform an operation; an exception of the manager is part of what is seen."""
        got = Got()
        try:
            got.answer = getattr(self, f"_do_{op.op}")(op)
        except AssertionError as wrong:
            got.bytes_wrong = str(wrong)
        except Exception as error:
            got.error = error
        self._drain_logs(got)
        taken = [k for k in self._keys_of(op) if k not in got.slots]
        if self.observes("slot_of"):
            found = {k: self.probe.slot_of(k) for k in taken}
            got.slots = {**got.slots, **{k: s for k, s in found.items() if s is not None}}
        got.events = self._events()
        return got

    def _events(self) -> tuple[tuple[str, str], ...]:
        events = self.manager.take_events()
        try:
            return tuple((event.kind, event.key) for event in events)
        except (AttributeError, TypeError) as error:
            raise NotAManager(
                f"take_events() returned {events!r:.100}, to be a sequence of events, each with "
                f"a kind ('stored' or 'removed') and a key: {error}"
            ) from None

    @staticmethod
    def _keys_of(op: ops.Operation) -> Sequence[str]:
        if isinstance(op, ops.Lookup):
            return (op.key,)
        return getattr(op, "keys", ())

    def _drain_logs(self, got: Got | None = None) -> None:
        polled, asked, jobs, told = [], [], [], []
        for name, tier in self.tiers.items():
            for what, value in tier.log:
                if what == "polled":
                    polled.append(name)
                elif what == "asked":
                    asked.append((name, value))
                elif what in ("load", "store"):
                    jobs.append(self._job_seen(name, value))
                elif what == "told":
                    told.append((name, self.names.get(value.handle, f"unknown {value}")))
            tier.log.clear()
        if got is not None:
            got.polled, got.jobs, got.told = tuple(polled), tuple(jobs), tuple(told)
            got.asked = tuple(asked)

    def _job_seen(self, tier: str, job: LoadJob | StoreJob) -> JobSeen:
        return JobSeen(
            "LOAD" if isinstance(job, LoadJob) else "STORE",
            tier,
            self.names.get(job.request.handle, f"unknown {job.request}"),
            tuple(map(str, job.keys)),
            tuple(job.slots),
            job.job_id,
        )

    def number(self, number: int, tier: str, job_id: int) -> None:
        """The history calls this job by this number."""
        self.jobs[number] = (tier, job_id)

    def number_operation(self, number: int, operation: Any) -> None:
        """The history calls this GPU operation by this number."""
        self.operations[number] = operation
        self.running.add(number)

    # -- calls of the manager ----------------------------------------------------------------------

    def _announce(
        self, name: str, only: Any, external_of: str | None, request_id: str | None
    ) -> None:
        if external_of is None:
            handle = self.manager.on_new_request(request_id or name, tier_filter=only)
        else:
            handle = self.manager.external(external_of).on_new_request(request_id or name)
            self.external[name] = self.manager.external(external_of)
        self.handles[name] = handle
        for tier in self.tiers.values():
            for what, info in tier.log:
                if what == "begun" and info.handle not in self.names:
                    self.names[info.handle] = name

    def _do_on_new_request(self, op: ops.NewRequest) -> Any:
        self._announce(op.request, op.only, op.external_of, op.id)

    def _do_lookup(self, op: ops.Lookup) -> Any:
        through: Any = self.external.get(op.request, self.manager)
        answer = through.lookup(op.key, self.handles[op.request])
        return getattr(answer, "name", answer)

    def _do_lookup_many(self, op: ops.LookupMany) -> Any:
        answers = self.manager.lookup_many(list(op.keys), self.handles[op.request])
        return tuple(getattr(a, "name", a) for a in answers)

    def _do_exists(self, op: ops.Exists) -> Any:
        words = {True: "PRESENT", False: "ABSENT", None: "UNDECIDED"}
        answers = self.manager.exists(list(op.keys), self.handles[op.request])
        return tuple(words.get(a, a) for a in answers)

    def _do_plan_load(self, op: ops.PlanLoad) -> Any:
        plan = self.manager.plan_load(list(op.keys), self.handles[op.request])
        verdict = getattr(plan.verdict, "name", plan.verdict)
        return verdict, tuple(plan.lost if verdict == "LOST" else plan.promoted)

    def _do_prepare_load(self, op: ops.PrepareLoad) -> Any:
        operation = _shaped(self.manager.prepare_load(list(op.keys), self.handles[op.request]))
        self._check(operation, "read")
        return operation

    def _do_complete_load(self, op: ops.CompleteLoad) -> Any:
        operation = self._operation(op.number)
        try:
            if op.number in self.running:
                self._check(operation, "read until the end")
        finally:
            self.running.discard(op.number)
            self.manager.complete_load(operation)

    def _operation(self, number: int) -> Any:
        """What the manager returned; for a number that it never gave, an id that it never gave."""
        return self.operations.get(number, 10**9 + number)

    def _do_prepare_store(self, op: ops.PrepareStore) -> Any:
        operation = self.manager.prepare_store(list(op.keys), self.handles[op.request])
        return None if operation is None else _shaped(operation)

    def _do_complete_store(self, op: ops.CompleteStore) -> Any:
        operation = self._operation(op.number)
        if op.number in self.running:
            # a store from before a reset still writes, and not what anyone may read any more
            good = op.ok and op.number not in self.stale
            for key, slot in zip(operation.keys, operation.slots, strict=True):
                self._write(key, slot, good=good)
        self.running.discard(op.number)
        self.manager.complete_store(operation, op.ok)

    def _do_withdraw(self, op: ops.Withdraw) -> Any:
        self.manager.withdraw(list(op.keys), self.handles[op.request])

    def _do_on_schedule_end(self, op: ops.StepEnd) -> Any:
        self.manager.on_schedule_end([self.handles[r] for r in op.scheduled])

    def _do_on_request_finished(self, op: ops.Finish) -> Any:
        through: Any = self.external.get(op.request, self.manager)
        through.on_request_finished(self.handles[op.request])

    def _do_reset_cache(self, op: ops.Reset) -> Any:
        self.stale |= self.running
        self.manager.reset_cache(tiers=list(op.tiers) or None)

    def _do_on_reset_flushed(self, op: ops.Flushed) -> Any:
        self.manager.on_reset_flushed()

    def _do_send(self, op: ops.Send) -> Any:
        return self.external[op.request].send(list(op.keys), self.handles[op.request])

    # -- the surroundings --------------------------------------------------------------------------

    def _do_tier_says(self, op: ops.Mind) -> None:
        self.tiers[op.tier].minds[op.key] = op.mind

    def _do_tier_fails(self, op: ops.Mood) -> None:
        moods = self.tiers[op.tier].moods
        (moods.add if op.on else moods.discard)(op.mood)

    def _do_job_ends(self, op: ops.Report) -> None:
        tier, job_id = self.jobs[op.number]
        self.tiers[tier].end(job_id, op.landed)

    def _do_misreport(self, op: ops.Misreport) -> None:
        _, job_id = self.jobs.get(op.number, ("", 10**6 + op.number))
        self.tiers[op.tier].misreport(job_id, op.landed)

    def _do_tier_verifies(self, op: ops.Verify) -> None:
        self.tiers[op.tier].verify(op.key)

    def _do_time_passes(self, op: ops.Advance) -> None:
        self.time += op.seconds

    # -- bytes -------------------------------------------------------------------------------------

    def _write(self, key: str, slot: int, *, good: bool) -> None:
        if self.arena is not None:
            size = self.block_bytes
            data = payload(key, size) if good else garbage("store", size)
            row = self.arena.row(slot)
            row[:] = data
            row.release()

    def read_slot(self, slot: int) -> bytes | None:
        """The bytes of a slot, None when the arena is not at hand."""
        if self.arena is None:
            return None
        row = self.arena.row(slot)
        data = bytes(row)
        row.release()
        return data

    def _check(self, operation: Any, when: str) -> None:
        for key, slot in zip(operation.keys, operation.slots, strict=True):
            data = self.read_slot(slot)
            if data is not None and data != payload(key, self.block_bytes):
                # no `assert`: pytest would add to the words of a plugin's module
                raise AssertionError(
                    f"the GPU {when} other bytes under {key} than were stored under it"
                )
