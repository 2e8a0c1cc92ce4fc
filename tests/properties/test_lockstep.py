"""Every way to differ from the model is seen, and blamed on the contract that it breaks."""

import pickle
from contextlib import suppress
from dataclasses import replace
from typing import ClassVar

import pytest

from tierproof import ContractViolation, LookupResult, TieredOffloadingManager
from tierproof.impl.tiers.base import NOTHING, RequestInfo
from tierproof.model import operations as ops
from tierproof.model.operations import Operation, RequestSetting, Setting, TierSetting
from tierproof.properties.contracts import CONTRACTS, RUNS
from tierproof.properties.faults import HARMLESS
from tierproof.properties.lockstep import Divergence, Lockstep
from tierproof.properties.managers import shipped

K0 = ("k0",)
HAS = Setting(slots=4, keys=("k0", "k1"), tiers=(TierSetting("t0", has=("k0",)),))
EMPTY = Setting(slots=4, keys=("k0", "k1"), tiers=(TierSetting("t0"),))
TWO = Setting(slots=4, tiers=(TierSetting("t0", has=K0), TierSetting("t1")))

ask, step = ops.Lookup("k0", "r0"), ops.StepEnd()
offer, stored, read = ops.PrepareStore(K0, "r0"), ops.CompleteStore(1), ops.PrepareLoad(K0, "r0")
lands = ops.Report(1, K0)
Manager = TieredOffloadingManager


class Answers(Manager):
    """Answers the n-th lookup as it is told."""

    instead: ClassVar[dict[int, LookupResult]] = {}

    def __init__(self, **given):
        super().__init__(**given)
        self.lookups = 0

    def lookup(self, key, request):
        answer = super().lookup(key, request)
        self.lookups += 1
        return self.instead.get(self.lookups, answer)


def answers(**instead: str) -> type[Answers]:
    told = {int(n[1:]): LookupResult[name] for n, name in instead.items()}
    return type("AnswersOtherwise", (Answers,), {"instead": told})


class Wrapped(Manager):
    """Keeps its tiers at hand, so that it can do to them what it must not."""

    def __init__(self, *, tiers, **given):
        self.given = tiers
        for tier in tiers:
            self.wrap(tier)
        super().__init__(tiers=tiers, **given)

    def wrap(self, tier):
        """Change what the manager sees of a tier."""


class LoadsTwice(Wrapped):
    def wrap(self, tier):
        take = tier.submit_load
        tier.submit_load = lambda job: (take(job), take(job))


class LoadsNever(Wrapped):
    def wrap(self, tier):
        tier.submit_load = lambda job: None


class StoresTwice(Wrapped):
    def wrap(self, tier):
        take = tier.submit_store
        tier.submit_store = lambda job: (take(job), take(job))[0]


class StoresNever(Wrapped):
    def wrap(self, tier):
        tier.submit_store = lambda job: ()


class OffersOnce(Wrapped):
    """What was refused is not offered again, though it is kept in mind."""

    def wrap(self, tier):
        take = tier.submit_store
        offered: list[object] = []

        def submit_store(job):
            again = bool(offered)
            offered.append(job)
            return job.keys if again else take(job)

        tier.submit_store = submit_store


class PlansNothing(Manager):
    def plan_load(self, keys, request):
        return super().plan_load((), request)


class AsksTooMany(Wrapped):
    def lookup(self, key, request):
        self.given[-1].lookup(key, RequestInfo("r0", 1))
        return super().lookup(key, request)


class NeverPolls(Wrapped):
    def wrap(self, tier):
        tier.poll = lambda: NOTHING


class LetsTiersRaise(Wrapped):
    def lookup(self, key, request):
        for tier in self.given:
            tier.lookup(key, RequestInfo("r0", 1))
        return super().lookup(key, request)


class TellsTwice(Wrapped):
    def on_request_finished(self, request):
        super().on_request_finished(request)
        for tier in self.given:
            tier.on_request_finished(RequestInfo("r0", request.handle))


class RefusesReads(Manager):
    def prepare_load(self, keys, request):
        raise ContractViolation("not now")


class AllowsReads(Manager):
    def prepare_load(self, keys, request):
        try:
            return super().prepare_load(keys, request)
        except ContractViolation:
            return type("Nothing", (), {"keys": (), "slots": ()})()


class CompletesTwice(Manager):
    def complete_store(self, operation, ok=True):
        with suppress(ContractViolation):
            super().complete_store(operation, ok)


class RefusesStores(Manager):
    def complete_store(self, operation, ok=True):
        raise ContractViolation("not now")


class Crashes(Manager):
    def on_schedule_end(self, newly_scheduled=()):
        raise ZeroDivisionError("step 0")


class HasNoRoom(Manager):
    def prepare_store(self, keys, request):
        super().prepare_store(keys, request)
        return None


class StingyPeer(Manager):
    def external(self, tier_name):
        peer = super().external(tier_name)
        return type(
            "Peer", (), {"on_new_request": peer.on_new_request, "send": lambda self, *_: None}
        )()


class NeverBusy(Manager):
    def has_pending_work(self):
        return False


class Silent(Manager):
    def take_events(self):
        super().take_events()
        return []


class Forgetful(Manager):
    """Says that k0 was removed whenever it was stored."""

    def take_events(self):
        events = list(super().take_events())
        return events + [type(e)("removed", e.key) for e in events if e.kind == "stored"]


class Announces(Manager):
    """Says that k1 was stored, which nobody did."""

    def take_events(self):
        stored = type("Stored", (), {"kind": "stored", "key": "k1"})
        return [*super().take_events(), stored()]


class AnnouncesFailures(Manager):
    """Says that a block was stored although its store has failed."""

    late: tuple[str, ...] = ()

    def complete_store(self, operation, ok=True):
        super().complete_store(operation, ok)
        self.late = () if ok else tuple(operation.keys)

    def take_events(self):
        late, self.late = self.late, ()
        stored = [type("Stored", (), {"kind": "stored", "key": key})() for key in late]
        return [*super().take_events(), *stored]


class TornSlots(Manager):
    def prepare_store(self, keys, request):
        operation = super().prepare_store(keys, request)
        assert operation is not None
        return type("Torn", (), {"keys": operation.keys, "slots": ()})()


class Corrupts(Manager):
    def lookup(self, key, request):
        slot = self.probe().slot_of(key)
        if slot is not None:
            self.arena.row(slot)[:] = bytes(self.arena.block_bytes)
        return super().lookup(key, request)


class ReadsElsewhere(Manager):
    """Has no probes, and lets the GPU read from the wrong slot."""

    probe = None  # type: ignore[assignment]  # as a manager that has none

    def prepare_load(self, keys, request):
        operation = super().prepare_load(keys, request)
        slots = tuple((s + 1) % 4 for s in operation.slots)
        return type("Elsewhere", (), {"keys": operation.keys, "slots": slots})()


def lying(**lies: object) -> type[Manager]:
    """A manager whose probe lies in the methods named: constants, or functions of the truth."""

    class Liar(Manager):
        def probe(self):
            truth = super().probe()
            made = {}
            for name in ("resident_keys", "slot_of", "pins", "free_slots"):
                tell, lie = getattr(truth, name), lies.get(name)
                if lie is not None:
                    made[name] = lambda *a, tell=tell, lie=lie: lie(tell(*a))
                else:
                    made[name] = tell
            return type("Probe", (), {n: staticmethod(m) for n, m in made.items()})()

    return Liar


FAILS = ops.Report(1, ())
PEER = replace(HAS, requests=(RequestSetting("r0"), RequestSetting("x0", external_of="t0")))
raises = ops.Mood("t0", "raise on lookup")
refuses = ops.Mood("t0", "refuse stores")
calm = ops.Mood("t0", "refuse stores", on=False)

BLAMED: dict[str, tuple[str, type[Manager], Setting, tuple[Operation, ...], str]] = {
    "a wrong answer": (
        "L1-answer-true",
        answers(n1="RETRY"),
        EMPTY,
        (ask,),
        "lookup of k0 by r0 answered RETRY, to be answered: MISS",
    ),
    "a plan that forgets to promote": (
        "A1-promote-what-is-read",
        PlansNothing,
        HAS,
        (ops.Exists(K0, "r0"), ops.PlanLoad(K0, "r0")),
        "a plan of ('k0',) came to ('PLANNED', ()), to come to: ('PLANNED', ('k0',))",
    ),
    "a wrong answer in a batch": (
        "L1-answer-true",
        answers(n2="HIT"),
        EMPTY,
        (ops.LookupMany(("k0", "k1"), "r0"),),
        "lookup of k1 by r0 answered HIT",
    ),
    "a read of what is not there": (
        "L1-answer-true",
        AllowsReads,
        EMPTY,
        (read,),
        "prepare_load must raise ContractViolation",
    ),
    "an exception out of nowhere": (
        "L1-answer-true",
        Crashes,
        EMPTY,
        (step,),
        "on_schedule_end raised ZeroDivisionError: step 0",
    ),
    "a started promotion that is answered RETRY": (
        "L2-until-landed",
        answers(n2="RETRY"),
        HAS,
        (ask, ask),
        "answered RETRY, to be answered: HIT_PENDING",
    ),
    "a promised block that is answered MISS": (
        "L3-until-read",
        answers(n3="MISS"),
        HAS,
        (ask, step, lands, ask, ask),
        "answered MISS, to be answered: HIT",
    ),
    "a block that has just landed and is answered MISS": (
        "F1-partial-failure",
        answers(n2="MISS"),
        HAS,
        (ask, step, lands, ask),
        "answered MISS, to be answered: HIT",
    ),
    "a load that is submitted twice": (
        "L4-submitted-once",
        LoadsTwice,
        HAS,
        (ask, step),
        "submitted a LOAD of ('k0',) to t0 under r0",
    ),
    "a load that is not submitted": (
        "L4-submitted-once",
        LoadsNever,
        HAS,
        (ask, step),
        "did not submit a LOAD of ('k0',) to t0",
    ),
    "a tier that is asked needlessly": (
        "L5-tiers-asked",
        AsksTooMany,
        TWO,
        (ask,),
        "asked [('t0', 'k0'), ('t1', 'k0')], to be asked: [('t0', 'k0')]",
    ),
    "a hit that cannot be loaded": (
        "L6-hit-holds",
        RefusesReads,
        EMPTY,
        (offer, stored, ask, read),
        "prepare_load was refused: not now",
    ),
    "a key in another slot than it was given": (
        "S1-slot-exclusive",
        lying(slot_of=lambda slot: None if slot is None else (slot + 1) % 4),
        HAS,
        (ask, step),
        "job of ('k0',) names slots (0,), right: (1,)",
    ),
    "a slot of another key": (
        "S1-slot-exclusive",
        lying(slot_of=lambda slot: None if slot is None else 0),
        replace(EMPTY, tiers=()),
        (offer, stored, ops.PrepareStore(("k1",), "r0")),
        "gave k1 slot 0, which is not free",
    ),
    "a key that owns a slot that it must not": (
        "S1-slot-exclusive",
        lying(slot_of=lambda slot: 2),
        EMPTY,
        (step,),
        "k0 owns slot 2, right: None",
    ),
    "a store with more keys than slots": (
        "S1-slot-exclusive",
        TornSlots,
        EMPTY,
        (offer,),
        "to be an object with keys and slots: slots[i] is the arena row of keys[i]",
    ),
    "a slot that is lost": (
        "S1-slot-exclusive",
        lying(free_slots=lambda free: free - 1),
        EMPTY,
        (step,),
        "3 slots are free, right: 4",
    ),
    "a slot that a transfer may still touch": (
        "S2-no-reuse-under-transfer",
        lying(slot_of=lambda slot: None if slot is None else 0),
        EMPTY,
        (offer, ops.Reset(), ops.PrepareStore(("k1",), "r0")),
        "gave k1 slot 0, which is not free",
    ),
    "pins that are miscounted": (
        "S3-pins",
        lying(pins=lambda pins: pins + 1),
        EMPTY,
        (step,),
        "k0 has 1 pins, right: 0",
    ),
    "a block that is evicted for nothing": (
        "S3-pins",
        Forgetful,
        EMPTY,
        (offer, stored),
        "evicted k0, for which nothing needed room",
    ),
    "an operation that completes twice": (
        "S4-operations",
        CompletesTwice,
        EMPTY,
        (offer, stored, stored),
        "complete_store must raise ContractViolation",
    ),
    "a completion that is refused": (
        "S4-operations",
        RefusesStores,
        EMPTY,
        (offer, stored),
        "complete_store was refused: not now",
    ),
    "a landing that is not announced": (
        "E1-events",
        Silent,
        HAS,
        (ask, step, lands, ask),
        "events say resident: [], right: ['k0']",
    ),
    "a failed load that is started again": (
        "F2-claim-retracted",
        answers(n2="HIT_PENDING"),
        HAS,
        (ask, step, FAILS, ask),
        "answered HIT_PENDING, to be answered: MISS",
    ),
    "a tier's exception that comes through": (
        "F3-tier-raises",
        LetsTiersRaise,
        HAS,
        (raises, ask),
        "lookup raised TierError: tier t0 was told to raise on lookup",
    ),
    "a block that is stored twice": (
        "C1-cascade-once",
        StoresTwice,
        EMPTY,
        (offer, stored),
        "submitted a STORE of ('k0',) to t0 under r0",
    ),
    "a block that is not stored": (
        "C1-cascade-once",
        StoresNever,
        EMPTY,
        (offer, stored),
        "did not submit a STORE of ('k0',)",
    ),
    "a refused block that is not offered again": (
        "C2-cascade-reoffered",
        OffersOnce,
        EMPTY,
        (offer, refuses, stored, calm, step, ops.Advance(1.0), step),
        "did not submit a STORE of ('k0',)",
    ),
    "a promotion between a reset and its flush": (
        "R1-reset",
        answers(n1="HIT_PENDING"),
        HAS,
        (ops.Reset(), ask),
        "answered HIT_PENDING, to be answered: MISS",
    ),
    "a store after a reset that is not announced": (
        "E1-events",
        Silent,
        EMPTY,
        (ops.Reset(), offer, stored),
        "events say resident: [], right: ['k0']",
    ),
    "an end that is told twice": (
        "Q1-finish",
        TellsTwice,
        EMPTY,
        (ops.Finish("r0"),),
        "told [('t0', 'r0')] of ends, to be told: []",
    ),
    "a completion that is not absorbed": (
        "P1-progress",
        NeverPolls,
        HAS,
        (ask, step, lands, ask),
        "did not poll t0 at the first call of the step",
    ),
    "a store that gets no room": (
        "P2-room-for-stores",
        HasNoRoom,
        EMPTY,
        (offer,),
        "gave slots to nothing, to be given: k0 (4 slots are free; evicted: nothing)",
    ),
    "a send that gets no room": (
        "P2-room-for-stores",
        StingyPeer,
        PEER,
        (ask, step, lands, step, ops.Send(K0, "x0")),
        "send of k0 answered None, although there is room for it",
    ),
    "work that is not told": (
        "W1-pending-work",
        NeverBusy,
        HAS,
        (ask,),
        "has_pending_work() is False, although r0 waits on k0 and a promotion of k0 is queued",
    ),
    "a store that lands and is not announced": (
        "E1-events",
        Silent,
        EMPTY,
        (offer, stored),
        "events say resident: [], right: ['k0']",
    ),
    "a store that fails and is announced": (
        "E1-events",
        AnnouncesFailures,
        EMPTY,
        (offer, ops.CompleteStore(1, ok=False)),
        "events say resident: ['k0'], right: []",
    ),
    "an event of what did not happen": (
        "E1-events",
        Announces,
        EMPTY,
        (step,),
        "events say resident: ['k1'], right: []",
    ),
    "residents that are not": (
        "E1-events",
        lying(resident_keys=lambda keys: {*keys, "k1"}),
        EMPTY,
        (step,),
        "resident: ['k1'], right: []",
    ),
    "bytes that change in a slot": (
        "D1-bytes",
        Corrupts,
        EMPTY,
        (offer, stored, ask),
        "slot 0 does not hold the bytes of k0",
    ),
    "bytes of another slot": (
        "D1-bytes",
        ReadsElsewhere,
        EMPTY,
        (offer, stored, read),
        "the GPU read other bytes under k0",
    ),
}


@pytest.mark.parametrize("what", BLAMED)
def test_a_fault_is_seen_at_its_operation_and_blamed_on_its_contract(what):
    contract, factory, setting, history, said = BLAMED[what]
    lockstep = Lockstep(factory, setting)
    with pytest.raises(Divergence) as raised:
        lockstep.run(history)
    found = raised.value
    assert found.contract == contract, f"{what} was blamed on {found}"
    assert said in found.said
    assert found.history == history, f"{what} was seen after {len(found.history)} operations"
    assert len(found.shown) == len(history)
    assert found.words == CONTRACTS[contract].words


def test_each_contract_that_runs_are_held_to_can_be_blamed():
    # A2 is about a consumer, which `askings` drives on workloads of its own
    held = {c.id for c in CONTRACTS.values() if RUNS in c.methods} - {"A2-ask-no-more"}
    assert {contract for contract, *_ in BLAMED.values()} == held


@pytest.mark.parametrize("what", BLAMED)
def test_the_shipped_manager_goes_through_the_histories_of_the_faulty_ones(what):
    _, _, setting, history, _ = BLAMED[what]
    Lockstep(shipped, setting).run(history)


# -- a divergence as a value -----------------------------------------------------------------------


def divergence(what: str) -> Divergence:
    _, factory, setting, history, _ = BLAMED[what]
    with pytest.raises(Divergence) as raised:
        Lockstep(factory, setting).run(history)
    return raised.value


@pytest.mark.parametrize("what", BLAMED)
def test_a_divergence_travels_between_processes(what):
    found = divergence(what)
    again = pickle.loads(pickle.dumps(found))
    assert (again.contract, again.said, again.words) == (found.contract, found.said, found.words)
    assert again.history == found.history
    assert [op for op, _, _ in again.shown] == [op for op, _, _ in found.shown]
    assert str(again) == str(found)


def test_what_a_foreign_manager_answered_travels_as_it_is_printed():
    class Odd:
        def __str__(self):
            return "an odd thing"

    found = Divergence("L1-answer-true", "said", expected=("HIT", [1, None]), got=Odd())
    again = pickle.loads(pickle.dumps(found))
    assert (again.expected, again.got) == (("HIT", (1, None)), "an odd thing")


# -- coming back -----------------------------------------------------------------------------------

LONG = (
    ask,
    ops.PrepareStore(("k1",), "r0"),
    ops.CompleteStore(1),
    step,
    ops.Report(3, K0),
    ask,
    read,
)
THEN = (ops.CompleteLoad(4), ops.Report(2, ("k1",)), ops.Finish("r0"), step, step)


def test_a_saved_place_is_come_back_to_and_gone_on_from():
    setting = replace(HAS, slots=8)
    first = Lockstep(shipped, setting)
    first.run(LONG)
    saved = first.save()
    again = Lockstep.resume(shipped, setting, saved)
    assert again.state is first.state
    assert (again.history, again.shown, again.numbers) == (
        first.history,
        first.shown,
        first.numbers,
    )
    assert again.driver.probe.fingerprint() == first.driver.probe.fingerprint()
    for op in THEN:
        assert again.do(op).answer == first.do(op).answer
    assert again.state.canonical() == first.state.canonical()
    assert again.driver.probe.fingerprint() == first.driver.probe.fingerprint()
    assert again.replayed == first.replayed == {"k0", "k1"}


def test_a_place_does_not_move_when_somebody_goes_on_from_it():
    first = Lockstep(shipped, HAS)
    first.run((ask, step))
    saved = first.save()
    first.run((lands, ask))
    for _ in range(2):
        again = Lockstep.resume(shipped, HAS, saved)
        assert again.history == [ask, step]
        again.run((FAILS, ask))


def test_a_divergence_after_coming_back_tells_the_whole_history():
    faulty = answers(n2="MISS")
    first = Lockstep(faulty, HAS)
    first.run((ask, step))
    again = Lockstep.resume(faulty, HAS, first.save())
    with pytest.raises(Divergence) as raised:
        again.run((lands, ask))
    assert raised.value.history == (ask, step, lands, ask)
    assert [op for op, _, _ in raised.value.shown] == [ask, step, lands, ask]


def test_what_has_come_about_is_noted_only_while_both_agree():
    lockstep = Lockstep(shipped, HAS)
    lockstep.run((ask, ask, step))
    assert {"promote", "promised", "submitted", "a tier was asked"} <= lockstep.reached
    wrong = Lockstep(answers(n1="RETRY"), HAS)
    with pytest.raises(Divergence):
        wrong.do(ask)
    assert wrong.reached == set()


def test_a_poll_in_a_call_that_is_refused_is_allowed():
    factory = HARMLESS["polls_early"].factory
    setting = Setting(1, ("k0", "k1"), (TierSetting("t0", ("k0",)),))
    history = (
        ops.Lookup("k0", "r0"),
        ops.StepEnd(),
        ops.Lookup("k0", "r0"),
        ops.Report(1, ("k0",)),
        ops.PrepareLoad(("k1",), "r0"),  # refused, and k0 has landed in it
        ops.Lookup("k0", "r0"),
    )
    Lockstep(factory, setting).run(history)
