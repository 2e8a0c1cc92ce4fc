"""What a tier does for a peer: it looks up, promotes, sends, and its sends share the berths."""

import pytest

from tierproof.model import operations as ops

from .support import PENDING, History, R, T, cascades


def peer(**setting: object) -> History:
    """Tier t0 serves a peer; r0 is an ordinary request; t1 has k0."""
    setting.setdefault("tiers", (T("t0"), T("t1", "k0")))
    return History(requests=(R("r0"), R("x0", external_of="t0")), keys=("k0", "k1"), **setting)


def send(h: History, *keys: str) -> int | None:
    """The number of the job; None when the send has to wait."""
    outcome = h.do(ops.Send(keys, "x0"))
    assert not outcome.error, f"a send of {keys} was refused"
    number: int | None = outcome.answer
    return number


def test_a_peers_lookup_may_start_a_promotion_and_its_send_pins_the_blocks():
    h = peer()
    assert h.lookup(request="x0") == PENDING
    h.end()
    h.land("LOAD", "t1")
    h.end()
    assert send(h, "k0") is not None
    assert (h.berths, len(h.state.world.pins("k0"))) == (1, 1)
    h.land("EXPORT")
    h.notice()
    assert h.berths == 0
    assert h.cascade() == "NONE", "what is sent to a peer says nothing of what the tier keeps"


def test_sends_and_copies_share_the_berths():
    h = peer(slots=7, tiers=(T("t0"),))
    h.store("k0")
    h.land("CASCADE")
    h.notice()
    assert send(h, "k0") is not None
    h.store("k1")
    assert cascades(h) == [], "the send of k0 has the only berth"
    assert send(h, "k1") is None
    h.land("EXPORT")
    h.notice()
    assert cascades(h) == [("t0", ("k1",))]


@pytest.mark.parametrize("mood", ["refuse stores", "raise on submit"])
def test_a_send_that_the_tier_does_not_take_pins_nothing(mood):
    h = peer(slots=8)
    h.store("k0")
    h.land("CASCADE")
    h.land("CASCADE", "t1")
    h.notice()
    h.do(ops.Mood("t0", mood))
    assert send(h, "k0") is None
    assert h.berths == 0
    assert ("t0" in h.state.pressed) == (mood == "refuse stores")


def test_a_send_to_a_tier_with_an_overdue_copy_has_to_wait():
    h = peer(slots=16)
    h.store("k0")
    h.pass_time()
    h.end()
    assert send(h, "k0") is None


def test_only_a_peer_sends_and_only_what_is_resident():
    h = peer()
    assert h.do(ops.Send(("k0",), "x0")).error
    h.store("k0")
    assert h.do(ops.Send(("k0",), "r0")).error


def test_a_peers_promotion_is_not_inherited_by_a_request_that_may_not_ask_its_tier():
    h = History(requests=(R("r0"), R("x0", external_of="t0")))
    h.lookup()
    h.lookup(request="x0")
    h.do(ops.Finish("r0"))
    assert h.phase() == "ABSENT"


def test_the_end_of_a_peer_is_told_while_its_blocks_are_still_sent():
    h = peer(slots=8)
    h.store("k0")
    send(h, "k0")
    h.do(ops.Finish("x0"))
    assert h.end().told == ("x0",)
    assert h.pending()
