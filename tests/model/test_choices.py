"""Choices that are not the specification's come in from outside, and bad ones are named."""

import pytest

from tierproof.model import operations as ops
from tierproof.model.operations import Seen
from tierproof.model.reference import Forbidden, apply

from .support import HIT, PENDING, History, T


def full() -> History:
    """Two slots, both resident, nothing pinned; tier t0 has k2."""
    h = History(slots=2, keys=("k0", "k1", "k2", "k3"), tiers=())
    h.store("k0", "k1")
    return h


@pytest.mark.parametrize("victim", ["k0", "k1"])
def test_any_evictable_block_may_be_the_victim(victim):
    h = full()
    h.do(ops.PrepareStore(("k2",), "r0"), Seen(victims=(victim,)))
    assert h.phase(victim) == "ABSENT"


@pytest.mark.parametrize(
    ("victims", "said"), [((), "evicted nothing"), (("k2",), "evicted k2, allowed"), (None, "")]
)
def test_a_victim_that_is_not_evictable_is_forbidden(victims, said):
    h = full()
    h.read("k0")
    if victims is None:
        victims, said = ("k0",), "evicted k0, allowed"
    with pytest.raises(Forbidden, match=said) as refused:
        apply(h.state, ops.PrepareStore(("k2",), "r0"), Seen(victims=victims))
    assert refused.value.contract == "S3-pins"


def test_a_victim_for_which_nothing_needed_room_is_forbidden():
    with pytest.raises(Forbidden, match="evicted k0, for which nothing needed room"):
        apply(full().state, ops.StepEnd(), Seen(victims=("k0",)))


def test_any_free_slot_may_be_given():
    h = History(slots=3)
    h.do(ops.Lookup("k0", "r0"), Seen(slots={"k0": 2}))
    assert h.state.world.links["slot_of"] == {"k0": 2}


def test_a_slot_that_another_key_owns_must_not_be_given():
    h = History(slots=3, keys=("k0", "k1"), tiers=(T("t0", "k0", "k1"),))
    h.store("k0")
    h.land("CASCADE")
    h.notice()
    with pytest.raises(Forbidden, match="gave k1 slot 0, which is not free") as refused:
        apply(h.state, ops.Lookup("k1", "r0"), Seen(slots={"k1": 0}))
    assert refused.value.contract == "S1-slot-exclusive"


def test_a_slot_under_a_transfer_must_not_be_given():
    h = History(slots=3, keys=("k0", "k1"), tiers=())
    h.offer("k0")
    h.do(ops.Reset())
    with pytest.raises(Forbidden) as refused:
        apply(h.state, ops.PrepareStore(("k1",), "r0"), Seen(slots={"k1": 0}))
    assert refused.value.contract == "S2-no-reuse-under-transfer"


def landed() -> History:
    h = History(tiers=(T("t0", "k0"), T("t1")))
    h.lookup()
    h.end()
    h.land()
    return h


def test_a_completion_that_waits_must_be_absorbed_when_a_step_begins():
    with pytest.raises(Forbidden, match="did not poll t0 at the first call") as refused:
        apply(landed().state, ops.Lookup("k0", "r0"), Seen(polled=("t1",)))
    assert refused.value.contract == "P1-progress"


def test_a_tier_with_nothing_to_say_need_not_be_polled():
    h = landed()
    h.do(ops.Lookup("k0", "r0"), Seen(polled=("t0",)))
    assert h.last.answer == HIT


def test_a_completion_that_waits_must_be_absorbed_before_an_eviction_is_decided():
    h = History(slots=1, keys=("k0", "k1"), tiers=(T("t0"),))
    h.store("k0")
    h.land("CASCADE")
    with pytest.raises(Forbidden, match="before deciding what to evict"):
        apply(h.state, ops.PrepareStore(("k1",), "r0"), Seen(polled=()))


def test_polling_more_often_than_required_is_allowed():
    h = History()
    h.lookup()
    h.end()
    h.lookup()
    h.land()
    h.do(ops.Lookup("k0", "r0"), Seen(polled=("t0",)))
    assert h.last.answer == HIT


def test_what_is_not_observed_the_model_chooses_itself():
    h = full()
    assert h.do(ops.PrepareStore(("k2", "k3"), "r0")).answer == (("k2", "k3"), (), ())
    h = landed()
    assert h.lookup() == HIT
    assert h.lookup() != PENDING
