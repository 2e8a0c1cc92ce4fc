"""Counterexamples of known length, found again by breadth-first search."""

import pytest

from tierproof import LookupResult, TieredOffloadingManager
from tierproof.model import operations as ops
from tierproof.model.operations import Operation, RequestSetting, Setting, TierSetting
from tierproof.properties.found import Found, first_of_each
from tierproof.properties.lockstep import Divergence, Lockstep
from tierproof.properties.managers import shipped
from tierproof.properties.moves import Menu
from tierproof.properties.shortest import menu_of, replay, shortest, without_detours

ROOMY = Setting(
    slots=4,
    keys=("k0", "k1", "k2"),
    tiers=(TierSetting("t0", has=("k0", "k1")), TierSetting("t1")),
    requests=(RequestSetting("r0"), RequestSetting("r1")),
)
ask, ask_too, step = ops.Lookup("k0", "r0"), ops.Lookup("k0", "r1"), ops.StepEnd()


class AnswersRetry(TieredOffloadingManager):
    """Answers RETRY where a promotion has been started before."""

    def lookup(self, key, request):
        begun = self.probe().phase(key) != "ABSENT"
        answer = super().lookup(key, request)
        return LookupResult.RETRY if begun and answer is LookupResult.HIT_PENDING else answer


class SubmitsTwice(TieredOffloadingManager):
    """Gives every load to its tier twice."""

    def __init__(self, *, tiers, **given):
        for tier in tiers:
            take = tier.submit_load
            tier.submit_load = lambda job, take=take: (take(job), take(job))
        super().__init__(tiers=tiers, **given)


class ForgetsHits(TieredOffloadingManager):
    """Says that a block that was answered HIT in this step cannot be loaded any more."""

    def prepare_load(self, keys, request):
        self.manager_said_no = super().prepare_load([], request)
        return super().prepare_load(["never resident"], request)


class Blind(AnswersRetry):
    """The first one without probes: nothing tells two of its states apart."""

    def lookup(self, key, request):
        begun = key in self.__dict__.setdefault("begun", set())
        answer = TieredOffloadingManager.lookup(self, key, request)
        if answer is LookupResult.HIT_PENDING:
            self.__dict__["begun"].add(key)
            return LookupResult.RETRY if begun else answer
        return answer

    probe = None  # type: ignore[assignment]  # as a manager that has none


def found(factory, *history: Operation, setting: Setting = ROOMY) -> Found:
    with pytest.raises(Divergence) as raised:
        Lockstep(factory, setting).run(history)
    return Found(setting, raised.value, "tour")


DETOUR = (
    ops.Lookup("k1", "r1"),
    ops.PrepareStore(("k2",), "r0"),
    step,
    ops.CompleteStore(1),
    ask,
    step,
    step,
)


@pytest.mark.parametrize(
    ("factory", "history", "contract", "shortest_one"),
    [
        (AnswersRetry, (*DETOUR, ask_too), "L2-until-landed", (ask, ask)),
        (Blind, (*DETOUR, ask_too), "L2-until-landed", (ask, ask)),
        (SubmitsTwice, (ops.Lookup("k1", "r1"), ask, step), "L4-submitted-once", (ask, step)),
        (
            ForgetsHits,
            (*DETOUR, ops.Lookup("k2", "r1"), ops.PrepareLoad(("k2",), "r1")),
            "L6-hit-holds",
            (ops.PrepareStore(("k0",), "r0"), ops.CompleteStore(1), ops.PrepareLoad(("k0",), "r0")),
        ),
    ],
)
def test_the_shortest_history_has_the_length_that_is_known(
    factory, history, contract, shortest_one
):
    long = found(factory, *history)
    assert long.contract == contract
    short = shortest(factory, long)
    assert short.contract == contract
    assert len(short.history) == len(shortest_one), [str(op) for op in short.history]
    assert [op.op for op in short.history] == [op.op for op in shortest_one]
    assert (short.method, long.method) == ("tour", "tour")
    divergence = replay(factory, short.setting, short.history)
    assert divergence is not None
    assert divergence.contract == contract


class Tires(TieredOffloadingManager):
    """Answers RETRY from the second lookup, or the third step, on."""

    steps = lookups = 0

    def on_schedule_end(self, newly_scheduled=()):
        self.steps += 1
        super().on_schedule_end(newly_scheduled)

    def lookup(self, key, request):
        self.lookups += 1
        answer = super().lookup(key, request)
        return LookupResult.RETRY if self.steps > 2 or self.lookups > 1 else answer


def test_a_search_finds_a_shorter_story_than_can_be_had_by_leaving_out():
    long = found(Tires, step, step, step, ops.Lookup("k2", "r1"))
    assert without_detours(Tires, long).history == long.history
    short = shortest(Tires, long)
    assert short.history == (ops.Lookup("k2", "r1"), ops.Lookup("k2", "r1"))
    assert short.contract == long.contract
    assert short.setting.keys == ("k2",), "what the history does not name is not there"
    assert [r.name for r in short.setting.requests] == ["r1"]
    assert (short.setting.slots, len(short.setting.tiers)) == (1, 1)


def test_a_search_without_time_still_leaves_out_what_does_not_matter():
    short = shortest(AnswersRetry, found(AnswersRetry, *DETOUR, ask_too), limit_s=0.0)
    assert short.history == (ask, ask_too)
    assert short.setting == ROOMY


def test_detours_are_left_out_and_the_contract_stays_the_same():
    long = found(SubmitsTwice, ops.Lookup("k1", "r0"), ask, ask, step)
    short = without_detours(SubmitsTwice, long)
    assert len(short.history) == 2
    assert short.contract == long.contract


def test_a_search_among_requests_of_peers_keeps_the_tier_that_announced_them():
    peers = Setting(
        slots=2,
        tiers=(TierSetting("t0"), TierSetting("t1", has=("k0",))),
        requests=(RequestSetting("r0", only=("t1",)), RequestSetting("x0", external_of="t0")),
    )

    class Deaf(TieredOffloadingManager):
        def has_pending_work(self):
            return False

    short = shortest(Deaf, found(Deaf, step, ops.Lookup("k0", "x0"), setting=peers))
    assert [op.op for op in short.history] == ["lookup"]
    assert {r.external_of for r in short.setting.requests} >= {"t0"}


def test_a_good_manager_replays_a_history_without_a_divergence():
    assert replay(shipped, ROOMY, (ask, step, ask_too)) is None


def test_a_history_that_names_a_job_that_was_never_started_shows_nothing():
    assert replay(shipped, ROOMY, (ops.Report(1, ("k0",)),)) is None


def test_the_menu_of_a_history_offers_just_what_it_is_made_of():
    menu = menu_of((ask, step))
    assert menu == Menu(
        stores=False,
        loads=False,
        resets=False,
        ends=False,
        withdraw=False,
        scheduled=False,
        time=False,
    )
    menu = menu_of(
        (
            ops.LookupMany(("k0", "k1"), "r0"),
            ops.Mood("t0", "refuse stores"),
            ops.Mind("t0", "k0", "ABSENT"),
            ops.StepEnd(("r0",)),
            ops.Reset(),
            ops.Advance(1.0),
            ops.Misreport("t0", 1),
            ops.Verify("t0", "k0"),
        )
    )
    assert menu.lookup_many
    assert menu.batches
    assert menu.moods == ("refuse stores",)
    assert menu.minds
    assert menu.scheduled
    assert menu.resets
    assert menu.time
    assert menu.mistakes
    assert menu.verify
    assert not menu.loads


def test_the_shortest_finding_of_each_contract_is_kept_in_the_order_of_their_discovery():
    retry = found(AnswersRetry, *DETOUR, ask_too)
    twice = found(SubmitsTwice, ask, step)
    shorter = found(AnswersRetry, ask, ask)
    assert first_of_each([retry, twice, shorter]) == [shorter, twice]
    assert first_of_each([]) == []
