"""What a request uses: where it stands in the order, and how often it counts."""

from __future__ import annotations

import pytest

from .support import Rig, arc, victims


def test_blocks_that_are_read_together_stand_together_with_the_reader():
    rig = Rig(slots=4, tiers=0)
    writer, other, reader = rig.request("writer"), rig.request("other"), rig.request("reader")
    rig.store(writer, "a", "b", "c")
    rig.store(other, "x")
    rig.load(reader, "a", "b", "c")
    assert victims(rig, other, 4) == ["x", "c", "b", "a"]


def test_what_a_request_has_stored_is_used_when_it_is_touched():
    rig = Rig(slots=3, tiers=0)
    request, other = rig.request(), rig.request("other")
    rig.store(request, "a", "b")
    rig.store(other, "x")
    rig.manager.touch(["a", "b"], request)
    assert victims(rig, other, 3) == ["x", "b", "a"]


@pytest.mark.parametrize("end", [False, True])
def test_arc_counts_a_store_and_the_use_by_its_own_request_once(end):
    rig = Rig(slots=4, tiers=0, eviction="arc")
    request, other = rig.request(), rig.request("other")
    rig.store(request, "a")
    rig.manager.touch(["a"], request)
    if end:
        rig.manager.on_request_finished(request)
    assert arc(rig)._in_again == set()
    rig.manager.touch(["a"], other)
    assert {block.key for block in arc(rig)._in_again} == {"a"}


def test_arc_counts_a_read_once_however_often_it_is_repeated():
    rig = Rig(slots=4, tiers=0, eviction="arc")
    writer, reader = rig.request("writer"), rig.request("reader")
    rig.store(writer, "a")
    for _ in range(3):
        rig.load(reader, "a")
    assert arc(rig)._in_again == set(), "what it has read counts when it is touched or ends"
    rig.manager.on_request_finished(reader)
    assert {block.key for block in arc(rig)._in_again} == {"a"}


def test_a_promotion_that_nobody_has_read_stands_behind_what_its_request_has_named():
    rig = Rig(slots=3)
    request = rig.request()
    rig.store(request, "a", "b")
    rig.settle()
    rig.promote(request, "k")
    rig.manager.withdraw(["k"], request)
    assert victims(rig, rig.request("other"), 3) == ["k", "b", "a"]


@pytest.mark.parametrize("stepped_over", [False, True])
def test_of_promotions_that_nobody_has_read_the_tail_goes_first(stepped_over):
    rig = Rig(slots=6, promotion_share=1.0)
    request, other = rig.request(), rig.request("other")
    rig.promote(request, "k1", "k2", "k3")
    rig.store(other, "x")
    rig.settle()
    if stepped_over:  # a search for a victim has met them while they were awaited
        operation = rig.begin_store(other, "y", "z", "v")
        assert operation.evicted == ("x",)
        rig.manager.complete_store(operation, ok=False)
        rig.store(request, "s")
        rig.settle()
    rig.manager.withdraw(["k1", "k2", "k3"], request)
    gone = victims(rig, rig.request("another"), 6)
    assert [key for key in gone if str(key).startswith("k")] == ["k3", "k2", "k1"]
