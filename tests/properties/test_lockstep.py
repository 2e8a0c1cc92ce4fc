"""Every way to differ from the model is seen, and blamed on the contract that it breaks."""

import pickle
from dataclasses import replace

import pytest

from tierproof.model import operations as ops
from tierproof.model.operations import Operation, Setting
from tierproof.properties.contracts import CONTRACTS, RUNS
from tierproof.properties.lockstep import Divergence, Lockstep
from tierproof.properties.managers import shipped

from .wrong_managers import (
    EMPTY,
    FAILS,
    HAS,
    K0,
    PEER,
    TWO,
    AllowsReads,
    Announces,
    AnnouncesFailures,
    AsksTooMany,
    CompletesTwice,
    Corrupts,
    Crashes,
    Forgetful,
    HasNoRoom,
    LetsTiersRaise,
    LoadsNever,
    LoadsTwice,
    Manager,
    NeverBusy,
    NeverPolls,
    OffersOnce,
    PlansNothing,
    ReadsElsewhere,
    RefusesReads,
    RefusesStores,
    Silent,
    StingyPeer,
    StoresNever,
    StoresTwice,
    TellsTwice,
    TornSlots,
    answers,
    ask,
    calm,
    lands,
    lying,
    offer,
    raises,
    read,
    refuses,
    step,
    stored,
)

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
        "k0 has 1 pin, right: 0",
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
