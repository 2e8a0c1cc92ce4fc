"""What a manager did otherwise than the specification says, and which contract that breaks.

Each kind of difference is blamed on the contract that it breaks, so that a failure names a promise
and not a line of our code. What anybody can see is compared first, then what probes show.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ..impl.counted import counted
from ..model import operations as ops
from ..model.operations import Seen
from ..model.reference import Forbidden, Outcome, State, has_pending_work
from .driver import Driver, Got, NotAnOperation
from .telling import told
from .under_test import payload
from .wording import count, plain, still_to_happen, together

Difference = tuple[str, str, object, object]
"""The contract that is broken, what was said or done, what was expected, what came instead."""

FAILURES = frozenset({"failed", "store_failed"})
LATE = frozenset(
    {"landed_late", "failed_late", "stored_late", "store_failed_late", "last_one_out"}
    | {"late_read_leaves", "late_cascade_leaves_readers", "late_cascade_leaves"}
)
"""Rules about what began before a reset."""


def blame_forbidden(
    forbidden: Forbidden, before: State, op: ops.Operation, seen: Seen, got: Got
) -> str:
    """The contract that a choice breaks which the specification does not leave to the manager."""
    if forbidden.contract == "S1-slot-exclusive" and seen.victims:
        return "S3-pins"  # one block too many was evicted, and its slot was taken
    if forbidden.contract != "S3-pins":
        return forbidden.contract
    if not seen.victims:  # there was room to be made, and none was seen to be made
        if isinstance(op, ops.PrepareStore) and got.answer is None:
            return "P2-room-for-stores"
        if isinstance(op, ops.Lookup) and got.answer != "HIT_PENDING":
            return "L1-answer-true"
        return "E1-events"
    world = before.world
    promised = [
        key for key in seen.victims if world.holders("hit", key) and not world.holders("waits", key)
    ]
    return "L6-hit-holds" if promised and not isinstance(op, ops.PrepareStore) else "S3-pins"


@dataclass
class Comparison:
    """One operation as it went on a manager, beside what the specification says of it."""

    before: State
    op: ops.Operation
    expected: Outcome
    got: Got
    driver: Driver
    replayed: set[str]
    """The resident keys according to the events so far; brought up to date here."""

    @property
    def after(self) -> State:
        """The state that the specification leads to."""
        return self.expected.state

    def differences(self) -> Iterator[Difference]:
        """Every difference, the most telling first."""
        yield from self._errors()
        if self.got.bytes_wrong is not None:
            yield "D1-bytes", self.got.bytes_wrong, None, self.got.answer
        yield from self._questions()
        yield from self._answers()
        yield from self._submissions()
        yield from self._ends()
        yield from self._events()
        yield from self._promises()
        for key in self.driver.setting.keys:
            yield from self._block(key)
        yield from self._slots()
        yield from self._shares()
        yield from self._due()
        yield from self._pending()

    def _raised_when_asked(self) -> bool:
        """Was a tier asked, or to be asked, that raises when it is?"""
        asked = {tier for tier, _ in (*self.expected.asked, *self.got.asked)}
        return any((tier, "raise on lookup") in self.before.moods for tier in asked)

    def _raising(self, *moods: str) -> bool:
        return any(mood in moods for _, mood in self.before.moods)

    # -- what anybody can see ----------------------------------------------------------------------

    def _errors(self) -> Iterator[Difference]:
        op, expected, error = self.op, self.expected, self.got.error
        refused = error is not None and type(error).__name__ == "ContractViolation"
        raising = self._raising("raise on lookup", "raise on submit", "raise on poll")
        loads = isinstance(op, ops.PrepareLoad)
        if isinstance(error, NotAnOperation):
            yield "S1-slot-exclusive", f"{op.op} {error}", expected.answer, None
        elif error is not None and not refused:
            lied = any(m[0] == "misreport" for mail in self.before.mail.values() for m in mail)
            contract = "S4-operations" if lied else "L1-answer-true"
            said = f"{op.op} raised {told(error)}"
            name = type(error).__name__
            yield "F3-tier-raises" if raising else contract, said, expected.answer, name
        elif refused and not expected.error:
            contract = "L6-hit-holds" if loads else "S4-operations"
            yield contract, f"{op.op} was refused: {error}", expected.answer, "refused"
        elif expected.error and not refused:
            contract = "L1-answer-true" if loads else "S4-operations"
            said = f"{op.op} must raise ContractViolation"
            yield contract, said, "ContractViolation", self.got.answer

    def _questions(self) -> Iterator[Difference]:
        # the driver sees each tier's questions in order, and the tiers' questions one by one
        want = sorted(self.expected.asked, key=lambda a: a[0])
        have = sorted(self.got.asked, key=lambda a: a[0])
        if want == have:
            return
        world, request = self.before.world, getattr(self.op, "request", "")
        allowed = world.limits.allowed.get(request, ())
        contract = "L5-tiers-asked"
        if self._raised_when_asked():
            contract = "F3-tier-raises"
        if have and not want and world.get("held") == "YES":
            contract = "R1-reset"
        for tier, key in Counter(have) - Counter(want):
            if tier in allowed and self.after.world.get("retracted", key, tier) == "YES":
                contract = "F2-claim-retracted"
        yield contract, f"asked {have}, to be asked: {want}", want, have

    def _answers(self) -> Iterator[Difference]:
        op, expected, got = self.op, self.expected, self.got
        if isinstance(op, ops.Lookup) and expected.answer != got.answer:
            yield self._wrong_answer(op.key, op.request, expected.answer, got.answer)
        elif isinstance(op, ops.LookupMany) and not expected.error:
            if len(got.answer or ()) != len(op.keys):
                said = f"lookup_many of {op.keys} answered {got.answer}"
                yield "L1-answer-true", f"{said}: one answer for each key", expected.answer, None
                return
            for key, want, have in zip(op.keys, expected.answer, got.answer, strict=True):
                if want != have:
                    yield self._wrong_answer(key, op.request, want, have)
        elif isinstance(op, ops.Exists) and expected.answer != got.answer and not expected.error:
            said = f"exists {op.keys} answered {got.answer}, to be answered: {expected.answer}"
            yield "L1-answer-true", said, expected.answer, got.answer
        elif isinstance(op, ops.PlanLoad) and expected.answer != got.answer and not expected.error:
            said = f"a plan of {op.keys} came to {got.answer}, to come to: {expected.answer}"
            yield "A1-promote-what-is-read", said, expected.answer, got.answer
        elif isinstance(op, ops.PrepareStore) and not expected.error:
            want = expected.answer and expected.answer[0]
            have = None if got.answer is None else tuple(got.answer.keys)
            if want != have:
                said = self._store_in_words(op, want, have)
                twice = [k for k in have or () if self.before.world.phase(k) != "ABSENT"]
                contract = "S1-slot-exclusive" if twice else "P2-room-for-stores"
                yield contract, said, want, have
        elif isinstance(op, ops.Send) and (expected.answer is None) != (got.answer is None):
            room = "there is room for it" if got.answer is None else "no berth is free for it"
            said = f"send of {together(op.keys)} answered {plain(got.answer)}, although {room}"
            yield "P2-room-for-stores", said, expected.answer, got.answer

    def _store_in_words(self, op: ops.PrepareStore, want: Any, have: Any) -> str:
        free = len(self.before.world.free_slots())
        return (
            f"offered {together(op.keys)}, it gave slots to {together(have or ())}, to be given: "
            f"{together(want or ())} ({count(free, 'slot')} free; evicted: "
            f"{together(self.got.evicted)})"
        )

    def _wrong_answer(self, key: str, request: str, want: object, have: object) -> Difference:
        said = f"lookup of {key} by {request} answered {have}, to be answered: {want}"
        return self._blame_answer(key, request, want, have), said, want, have

    def _blame_answer(self, key: str, request: str, want: object, have: object) -> str:
        before, world = self.before.world, self.after.world
        if want == "HIT" and before.phase(key).endswith("LOADING"):  # landed in this very call
            return "F1-partial-failure"
        if have in ("MISS", "RETRY"):
            if before.phase(key) in ("QUEUED", "LOADING") and want == "HIT_PENDING":
                return "L2-until-landed"
            if before.get("waits", key, request) == "YES":
                return "L3-until-read"
        if have in ("HIT", "HIT_PENDING") and world.get("held") == "YES":
            return "R1-reset"
        if want == "MISS" and have == "HIT_PENDING" and world.holders("retracted", key):
            return "F2-claim-retracted"
        # RETRY where a claim was found is untrue whether or not another tier raised as well
        if self._raised_when_asked() and (want, have) != ("HIT_PENDING", "RETRY"):
            return "F3-tier-raises"
        reason = self.expected.reason
        endless = {"OVERDUE": "HIT_PENDING", "PROBE_TIMEOUT": "RETRY", "FAILED": "RETRY"}
        if reason is not None and endless.get(reason) == have:
            return "P1-progress"
        full = world.word("permits", {}, {}) == "NO" or world.word("room", {}, {}) == "NO"
        if (want, have) == ("MISS", "HIT_PENDING") and full:
            return "P2-room-for-stores"
        return "L1-answer-true"

    def _submissions(self) -> Iterator[Difference]:
        def shape(kind: str, tier: str, request: str, keys: tuple[str, ...]) -> tuple[Any, ...]:
            return ("LOAD" if kind == "LOAD" else "STORE", tier, request, keys)

        want = Counter(shape(s.kind, s.tier, s.request, s.keys) for s in self.expected.submitted)
        have = Counter(shape(j.kind, j.tier, j.request, j.keys) for j in self.got.jobs)
        if want == have:
            return
        kind, tier, request, keys = next(iter((have - want) or (want - have)))
        extra = bool(have - want)
        said = (
            f"{'submitted' if extra else 'did not submit'} a {kind} of {keys} to {tier} under "
            f"{request or 'no request'}; to be submitted: {sorted(want) or 'nothing'}"
        )
        yield self._blame_job(kind, tier, request, keys, extra), said, sorted(want), sorted(have)

    def _blame_job(
        self, kind: str, tier: str, request: str, keys: tuple[str, ...], extra: bool
    ) -> str:
        before, after = self.before.world, self.after.world
        if kind == "LOAD":
            retracted = any(before.get("retracted", k, tier) == "YES" for k in keys)
            return "F2-claim-retracted" if extra and retracted else "L4-submitted-once"
        offered = any((k, tier) in self.before.due for k in keys)
        if not extra:
            return "C2-cascade-reoffered" if offered else "C1-cascade-once"
        if request and before.get("life", request) == "ENDED":
            return "Q1-finish"
        if any(before.copies(k, tier) for k in keys):
            return "C1-cascade-once"
        if tier in self.before.pressed:
            return "C2-cascade-reoffered"
        dues = [self.before.due[k, tier] for k in keys if (k, tier) in self.before.due]
        if any(due.after > self.after.now for due in dues):  # it failed a moment ago
            return "C2-cascade-reoffered"
        if all((k, tier) in self.after.due for k in keys):  # withheld, and not for its own sake
            return "P2-room-for-stores"
        given_up = any(after.get("cascade", k, tier) == "NONE" for k in keys)
        return "C2-cascade-reoffered" if offered and given_up else "C1-cascade-once"

    def _ends(self) -> Iterator[Difference]:
        tiers = self.driver.setting.tiers
        want = Counter((t.name, r) for r in self.expected.told for t in tiers)
        have = Counter(self.got.told)
        if want != have:
            said = f"told {sorted(have)} of ends, to be told: {sorted(want)}"
            yield "Q1-finish", said, sorted(want), sorted(have)

    def _events(self) -> Iterator[Difference]:
        for kind, key in self.got.events:
            (self.replayed.add if kind == "stored" else self.replayed.discard)(key)
        fields = self.after.world.fields
        resident = {k for (k,), phase in fields["phase"].items() if phase == "RESIDENT"}
        right = sorted(resident)
        shown = None
        if self.driver.observes("resident_keys"):
            shown = sorted(self.driver.probe.resident_keys())
        if self.replayed != resident:
            seen = sorted(self.replayed)
            silent = shown == right  # the blocks are as they should be, only nobody was told
            contract = "E1-events" if silent else self._blame_residents(self.replayed - resident)
            yield contract, f"events say resident: {seen}, right: {right}", right, seen
        if shown is not None and shown != right:
            yield "E1-events", f"resident: {shown}, right: {right}", right, shown

    def _blame_residents(self, extra: set[str]) -> str:
        op, rules = self.op, set(self.expected.rules)
        late = rules & LATE or self.after.world.get("held") == "YES"
        if isinstance(op, ops.Reset) or late:
            return "R1-reset"
        if isinstance(op, ops.CompleteStore):
            return "S4-operations" if op.ok else "F1-partial-failure"
        reported = any("landed" in rule or "failed" in rule for rule in rules)
        return "F1-partial-failure" if reported or not extra else "E1-events"

    def _pending(self) -> Iterator[Difference]:
        pending = has_pending_work(self.after)
        if bool(self.driver.manager.has_pending_work()) != pending:
            said = f"has_pending_work() is {not pending}, although {still_to_happen(self.after)}"
            contract = "W1-pending-work"
            if isinstance(self.op, ops.Reset):  # something from before it, or the end of a request
                contract = "Q1-finish" if pending else "R1-reset"
            yield contract, said, pending, not pending

    # -- what probes show --------------------------------------------------------------------------

    def _block(self, key: str) -> Iterator[Difference]:
        world, driver, probe = self.after.world, self.driver, self.driver.probe
        want = world.links["slot_of"].get(key)
        if driver.observes("slot_of"):
            have = probe.slot_of(key)
            if have != want:
                dropped = want is None and self.before.world.phase(key) == "QUEUED"
                contract = "L4-submitted-once" if dropped else "S1-slot-exclusive"
                yield contract, f"{key} owns slot {have}, right: {want}", want, have
        if driver.observes("pins"):
            pins, told = len(world.pins(key)), probe.pins(key)
            if told != pins:
                lied = any(m[0] == "misreport" for mail in self.before.mail.values() for m in mail)
                contract = "S4-operations" if lied else "S3-pins"
                yield contract, f"{key} has {counted(told, 'pin')}, right: {pins}", pins, told
        if want is not None and world.phase(key) == "RESIDENT" and driver.observes("slot_of"):
            data = driver.read_slot(want)
            if data is not None and data != payload(key, driver.block_bytes):
                yield "D1-bytes", f"slot {want} does not hold the bytes of {key}", key, None

    def _slots(self) -> Iterator[Difference]:
        world, driver = self.after.world, self.driver
        if driver.observes("free_slots"):
            free, have = len(world.free_slots()), driver.probe.free_slots()
            if have != free:
                yield (
                    self._blame_slots(have > free),
                    f"{count(have, 'slot')} free, right: {free}",
                    free,
                    have,
                )
        for job in self.got.jobs:
            want = tuple(
                world.links["slot_of"].get(k, self.before.world.links["slot_of"].get(k))
                for k in job.keys
            )
            owned = any(k in world.links["slot_of"] for k in job.keys)
            if driver.observes("slot_of") and owned and job.slots != want:
                said = f"job of {job.keys} names slots {job.slots}, right: {want}"
                yield "S1-slot-exclusive", said, want, job.slots

    def _blame_slots(self, too_many: bool) -> str:
        rules = set(self.expected.rules)
        if too_many:
            under = [x for x in self.after.world.running() if x]
            return "S2-no-reuse-under-transfer" if under else "S1-slot-exclusive"
        if rules & LATE:
            return "R1-reset"
        return "F1-partial-failure" if rules & FAILURES else "S1-slot-exclusive"

    def _promises(self) -> Iterator[Difference]:
        driver, probe = self.driver, self.driver.probe
        if not driver.observes("waiters"):
            return
        names = {getattr(request, "handle", None): n for n, request in driver.handles.items()}
        for key in driver.setting.keys:
            want = set(self.after.world.holders("waits", key))
            have = {names.get(handle, str(handle)) for handle in probe.waiters(key)}
            if have != want:
                before, after = self.before.world.phase(key), self.after.world.phase(key)
                contract = "P1-progress" if have - want else "L3-until-read"
                if have - want and (before, after) == ("QUEUED", "ABSENT"):
                    contract = "L4-submitted-once"  # it was to be dropped, and lives on
                if have - want and isinstance(self.op, ops.Exists):
                    contract = "A1-promote-what-is-read"  # it was only asked for
                said = f"{key} is promised to {sorted(have)}, right: {sorted(want)}"
                yield contract, said, sorted(want), sorted(have)

    def _shares(self) -> Iterator[Difference]:
        world, driver, probe = self.after.world, self.driver, self.driver.probe
        for name, token in (("permits_in_use", "permit"), ("cascading_slots", "berth")):
            if driver.observes(name):
                want, have = len(world.fields[token]), getattr(probe, name)()
                if have != want:
                    owners = [world.links["owner"].get(slot) for (slot,) in world.fields[token]]
                    whose = f": for {together(map(str, owners))}" if owners else ""
                    said = f"{count(have, token)} in use, right: {want}{whose}"
                    unkept = token == "permit" and have < want and world.fields["waits"]
                    yield "L3-until-read" if unkept else "P2-room-for-stores", said, want, have
        if driver.observes("retracted"):
            claims = {(tier, key) for key, tier in world.fields["retracted"]}
            have_claims = set(probe.retracted())
            if claims != have_claims:
                said = f"retracted are {sorted(have_claims)}, right: {sorted(claims)}"
                yield "F2-claim-retracted", said, sorted(claims), sorted(have_claims)

    def _due(self) -> Iterator[Difference]:
        if not self.driver.observes("due"):
            return
        want = {(tier, key) for key, tier in self.after.due}
        have = set(self.driver.probe.due())
        if have != want:
            again = any((key, tier) in self.after.attempts for tier, key in want - have)
            contract = "C2-cascade-reoffered" if again or have - want else "C1-cascade-once"
            said = f"to be copied are {sorted(have)}, right: {sorted(want)}"
            yield contract, said, sorted(want), sorted(have)
