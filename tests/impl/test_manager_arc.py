"""Which block goes first under ARC."""

from __future__ import annotations

from .support import HIT, HIT_PENDING, Rig, arc, victims


def test_arc_prefers_blocks_that_were_used_again():
    rig = Rig(slots=4, tiers=0, eviction="arc")
    writer, reader = rig.request("writer"), rig.request("reader")
    rig.store(writer, "a", "b", "c", "d")
    rig.manager.touch(["a"], reader)
    assert victims(rig, writer, 3) == ["d", "c", "b"]
    rig.probe.check()


def test_arc_learns_from_what_it_evicted_too_early():
    rig = Rig(slots=2, tiers=0, eviction="arc")
    request = rig.request()
    policy = arc(rig)
    rig.store(request, "a", "b")
    rig.store(request, "c")  # b goes, and was used once
    rig.store(request, "b")  # c goes; b came back: blocks used once get more room
    assert policy._target == 1.0
    assert [block.key for block in policy.order()] == ["a", "b"]
    rig.manager.touch(["a"], rig.request())
    assert rig.store(request, "e").evicted == ("b",)
    assert rig.store(request, "b").evicted == ("a",)
    assert policy._target == 0.0
    rig.manager.reset_cache()
    assert list(policy.order()) == []


def test_arc_does_not_count_the_load_that_a_promotion_was_made_for_as_a_second_use():
    rig = Rig(slots=4, eviction="arc")
    request = rig.request()
    policy = arc(rig)
    rig.promote(request, "k")
    rig.lookup(request, "k")
    rig.load(request, "k")
    rig.manager.touch(["k"], request)
    assert policy._again.size == 0
    rig.manager.touch(["k"], rig.request("another"))
    assert policy._again.size == 1
    rig.manager.on_request_finished(request)
    assert [block.key for block in policy.order()] == ["k"]


def test_arc_steps_over_what_is_held_and_falls_back_to_the_other_list():
    rig = Rig(slots=2, eviction="arc", promotion_share=1.0)
    request, other = rig.request(), rig.request("other")
    rig.store(request, "a", "b")
    rig.settle()
    rig.manager.touch(["a"], other)
    assert rig.lookup(request, "b") == [HIT]
    rig.tier.has("k")
    assert rig.lookup(other, "k") == [HIT_PENDING]
    assert rig.probe.resident_keys() == {"b"}
    rig.step()
    operation = rig.manager.prepare_load(["b"], request)
    assert rig.manager.prepare_store(["x"], request) is None
    rig.manager.complete_load(operation)
    assert rig.begin_store(request, "x").evicted == ("b",)
    rig.probe.check()


def test_arc_remembers_at_most_as_many_keys_as_there_are_slots():
    rig = Rig(slots=2, tiers=0, eviction="arc")
    request = rig.request()
    for number in range(10):
        rig.store(request, f"k{number}")
    assert len(arc(rig)._evicted_once) == 2
