"""Within one lookup of several keys a tier may be polled earlier than it must be."""

import logging

import pytest

from tierproof import LookupResult, TieredOffloadingManager
from tierproof.model.operations import (
    CompleteStore,
    Lookup,
    LookupMany,
    PrepareStore,
    Report,
    Setting,
    StepEnd,
    TierSetting,
)
from tierproof.properties.faults import HARMLESS
from tierproof.properties.lockstep import Divergence, Lockstep
from tierproof.properties.managers import shipped

HAS = Setting(slots=4, keys=("k0", "k1"), tiers=(TierSetting("t0", has=("k0", "k1")),))
BOTH = LookupMany(("k0", "k1"), "r0")
FOUND = (BOTH, StepEnd(), Lookup("k0", "r0"))
"""Both blocks are on their way, in one job, and the step has begun: no poll is required in it."""


@pytest.fixture(autouse=True)
def _quiet(caplog):
    caplog.set_level(logging.CRITICAL, logger="tierproof")


def answers_of(factory, *history):
    lockstep = Lockstep(factory, HAS)
    lockstep.run(history)
    return lockstep.shown[-1][2]


def test_a_poll_that_is_not_required_comes_before_any_of_the_keys():
    late = (*FOUND, Report(1, ("k0", "k1")), BOTH)
    assert answers_of(shipped, *late) == ("HIT_PENDING", "HIT_PENDING")
    early = HARMLESS["polls_early"].factory
    assert answers_of(early, *late) == ("HIT", "HIT")
    between = HARMLESS["polls_between_keys"].factory
    assert answers_of(between, *late) == ("HIT_PENDING", "HIT")


@pytest.mark.parametrize("landed", [(), ("k0",), ("k1",)])
def test_what_was_absorbed_between_the_keys_may_also_have_failed(landed):
    for name in ("polls_early", "polls_between_keys"):
        lockstep = Lockstep(HARMLESS[name].factory, HAS)
        lockstep.run((*FOUND, Report(1, landed), BOTH, StepEnd(), BOTH))


def test_a_poll_between_the_keys_may_make_room_that_there_was_not():
    # the load that holds the only slot fails, and the slot goes to the other key
    setting = Setting(slots=1, keys=("k0", "k1"), tiers=(TierSetting("t0", has=("k0", "k1")),))
    for name in ("polls_early", "polls_between_keys"):
        lockstep = Lockstep(HARMLESS[name].factory, setting)
        lockstep.run((Lookup("k0", "r0"), StepEnd(), Lookup("k0", "r0"), Report(1, ()), BOTH))


def test_two_polled_tiers_may_be_polled_at_different_keys():
    setting = Setting(
        slots=4,
        keys=("k0", "k1"),
        tiers=(TierSetting("t0", has=("k0",)), TierSetting("t1", has=("k1",))),
    )

    class OneByOne(TieredOffloadingManager):
        def lookup_many(self, keys, request):
            answers = []
            for key, tier in zip(keys, reversed(self._secondaries), strict=True):
                for report in tier.poll().reports:
                    self._transfers._absorb(tier, report)
                answers.append(self.lookup(key, request))
            return answers

    lockstep = Lockstep(OneByOne, setting)
    lockstep.run((*FOUND, Report(1, ("k0",)), Report(2, ("k1",)), BOTH))
    assert lockstep.shown[-1][2] == ("HIT_PENDING", "HIT")


class Says(TieredOffloadingManager):
    """Polls early in a lookup of several keys, and then says what it likes."""

    says: tuple[LookupResult, ...] = ()

    def lookup_many(self, keys, request):
        self._transfers.absorb()
        for key in keys:
            self.lookup(key, request)
        return list(self.says)


@pytest.mark.parametrize(
    "says",
    [
        (LookupResult.HIT_PENDING, LookupResult.HIT_PENDING),
        (LookupResult.HIT, LookupResult.HIT_PENDING),
        (LookupResult.HIT, LookupResult.MISS),
        (LookupResult.HIT,),
        (),
    ],
)
def test_answers_that_no_place_of_a_poll_explains_are_wrong(says):
    wrong = type("Wrong", (Says,), {"says": says})
    lockstep = Lockstep(wrong, HAS)
    lockstep.run((Lookup("k0", "r0"), Lookup("k1", "r0"), StepEnd(), Lookup("k0", "r0")))
    with pytest.raises(Divergence) as raised:
        lockstep.run((Report(1, ("k0", "k1")), BOTH))
    assert raised.value.history[-1] == BOTH


def test_a_lookup_of_several_keys_evicts_what_it_may_wherever_it_polls():
    setting = Setting(
        slots=4,
        keys=("k0", "k1", "k2", "k3", "k4"),
        tiers=(TierSetting("t0", has=("k1", "k3")),),
    )
    lockstep = Lockstep(HARMLESS["polls_between_keys"].factory, setting)
    lockstep.run((PrepareStore(("k0", "k2", "k4"), "r0"), CompleteStore(1), Report(2, ("k0",))))
    lockstep.run((Lookup("k3", "r0"), StepEnd(), Lookup("k2", "r0"), Report(3, ("k3",))))
    lockstep.do(LookupMany(("k2", "k3", "k1"), "r0"))
    assert lockstep.shown[-1][2] == ("HIT", "HIT", "HIT_PENDING")
    assert "evicted" in lockstep.reached
