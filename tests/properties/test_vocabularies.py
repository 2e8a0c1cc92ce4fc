"""Model and production each have words of their own; here they are held to mean the same."""

import inspect

import pytest

from tierproof import LookupResult, MissReason, TieredOffloadingManager
from tierproof.impl.config import ManagerConfig
from tierproof.impl.tiers.base import NO_REQUEST, Claim, Tier
from tierproof.impl.vocabulary import Phase
from tierproof.model import operations, state, vocabulary
from tierproof.model.operations import Setting
from tierproof.properties.under_test import HandDrivenTier, ManagerUnderTest, Probes


def names(enum: type) -> set[str]:
    return set(enum.__members__)  # type: ignore[attr-defined]  # every Enum has them


def test_both_rooms_give_the_same_answers():
    assert names(LookupResult) == set(vocabulary.ANSWERS)


def test_both_rooms_give_the_same_reasons_to_miss():
    assert names(MissReason) == set(vocabulary.REASONS)


def test_both_rooms_know_the_same_phases():
    # production keeps no block that is ABSENT: an unknown key is
    assert names(Phase) | {"ABSENT"} == set(vocabulary.PHASES)


def test_a_hand_driven_tier_can_say_what_a_tier_can():
    assert names(Claim) == set(operations.MINDS)


def test_both_rooms_call_the_absence_of_a_request_the_same():
    assert NO_REQUEST.request_id == state.NO_REQUEST


@pytest.mark.parametrize(
    "name",
    [
        "promotion_share",
        "cascade_share",
        "lease",
        "pending_deadline",
        "probe_deadline",
        "reoffers",
        "reoffer_pause",
    ],
)
def test_both_rooms_have_the_same_defaults(name):
    assert getattr(ManagerConfig(), name) == getattr(Setting(), name)


@pytest.mark.parametrize("slots", [1, 2, 3, 4, 5, 7, 8, 10, 100])
def test_both_rooms_round_the_shares_alike(slots):
    manager = TieredOffloadingManager(slots=slots, block_bytes=8)
    setting = Setting(slots=slots)
    assert manager._primary.permits == setting.permits
    assert manager._primary.berths == setting.berths
    manager.shutdown()


def calls(protocol: type) -> dict[str, inspect.Signature]:
    return {
        name: inspect.signature(call)
        for name, call in vars(protocol).items()
        if inspect.isfunction(call) and not name.startswith("_")
    }


def accepts(have: inspect.Signature, want: inspect.Signature) -> bool:
    """Can `have` be called in every way in which `want` can?"""
    mine = list(have.parameters.values())

    def fits(place: int, theirs: inspect.Parameter) -> bool:
        if theirs.kind is theirs.KEYWORD_ONLY:
            return theirs.name in have.parameters
        if place >= len(mine) or mine[place].kind is not theirs.kind:
            return False
        return theirs.default is theirs.empty or mine[place].default is not theirs.empty

    return all(fits(place, theirs) for place, theirs in enumerate(want.parameters.values()))


@pytest.mark.parametrize("name", calls(ManagerUnderTest))
def test_the_shipped_manager_has_the_calls_of_a_manager_under_test(name):
    have = inspect.signature(getattr(TieredOffloadingManager, name))
    want = calls(ManagerUnderTest)[name]
    assert accepts(have, want), f"{name}{have} cannot be called as {name}{want}"


@pytest.mark.parametrize("name", calls(Probes))
def test_the_shipped_manager_offers_every_probe(name):
    probe = TieredOffloadingManager(slots=1, block_bytes=8).probe()
    assert accepts(inspect.signature(type(probe).__dict__[name]), calls(Probes)[name])


def test_a_hand_driven_tier_is_a_tier():
    assert isinstance(HandDrivenTier("t0"), Tier)
    for name, want in calls(Tier).items():
        have = inspect.signature(getattr(HandDrivenTier, name))
        assert accepts(have, want), f"{name}{have} cannot be called as {name}{want}"
