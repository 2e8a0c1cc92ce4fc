"""Which block goes first: LRU in prefix order; ARC has tests of its own."""

from __future__ import annotations

import random
from collections.abc import Iterable

import pytest

from tierproof.impl.operations import LoadOperation, StoreOperation
from tierproof.impl.requests import Request

from .support import Rig, victims


def test_the_tail_of_a_prefix_goes_before_its_head():
    rig = Rig(slots=4, tiers=0)
    request = rig.request()
    operations = {key: rig.begin_store(request, key) for key in ("a", "b", "c", "d")}
    for key in ("c", "a", "d", "b"):  # stores may end in any order
        rig.manager.complete_store(operations[key])
    rig.manager.touch(["a", "b", "c", "d"], request)
    rig.manager.on_request_finished(request)
    assert victims(rig, rig.request(), 3) == ["d", "c", "b"]


def test_a_request_counts_once_however_often_it_is_touched():
    rig = Rig(slots=3, tiers=0)
    request, other = rig.request(), rig.request("other")
    rig.store(other, "x")
    rig.store(request, "a", "b")
    rig.manager.touch(["a", "b"], request)
    rig.manager.touch(["x"], other)
    for _ in range(100):
        rig.manager.touch(["a", "b", "absent"], request)
    assert victims(rig, request, 3) == ["b", "a", "x"]


def test_what_a_request_loads_or_stores_counts_when_it_ends():
    rig = Rig(slots=3, tiers=0)
    writer, reader = rig.request("writer"), rig.request("reader")
    rig.store(writer, "a", "b", "c")
    rig.lookup(reader, "a")
    rig.load(reader, "a")
    rig.manager.on_request_finished(reader)
    assert victims(rig, writer, 2) == ["c", "b"]


def test_the_tail_goes_before_the_head_while_the_request_still_runs():
    rig = Rig(slots=6, tiers=0)
    request, other = rig.request(), rig.request("other")
    rig.store(request, "a", "b")
    rig.store(other, "x")
    rig.store(request, "c")
    rig.store(other, "y", "z")
    assert victims(rig, rig.request(), 6) == ["c", "b", "a", "z", "y", "x"]


def test_what_a_request_has_read_stands_before_what_it_stores():
    rig = Rig(slots=5, tiers=0)
    first, second, other = rig.request("first"), rig.request("second"), rig.request("other")
    rig.store(first, "a", "b")
    rig.store(other, "x")
    rig.load(second, "a")
    rig.load(second, "b")
    rig.store(second, "c", "d")
    assert victims(rig, rig.request(), 5) == ["x", "d", "c", "b", "a"]


def test_a_block_that_was_held_while_a_victim_was_sought_stands_with_its_reader_after_the_read():
    rig = Rig(slots=3, tiers=0)
    writer, reader = rig.request("writer"), rig.request("reader")
    rig.store(writer, "a", "b", "c")
    read = rig.manager.prepare_load(["a", "b"], reader)
    assert victims(rig, writer, 1) == ["c"]
    rig.manager.complete_load(read)
    assert victims(rig, writer, 2) == ["b", "a"]


def test_a_store_that_ends_after_its_request_still_stands_with_what_the_request_used():
    rig = Rig(slots=3, tiers=0)
    request, other = rig.request(), rig.request("other")
    rig.store(request, "a")
    late = rig.begin_store(request, "b")
    rig.manager.on_request_finished(request)
    rig.store(other, "x")
    rig.step()
    rig.manager.complete_store(late)
    rig.step()
    assert request.told
    assert victims(rig, other, 3) == ["x", "b", "a"]


def test_a_read_from_before_a_reset_moves_nothing():
    rig = Rig(slots=3, tiers=0)
    request = rig.request()
    rig.store(rig.request(), "a")
    read = rig.manager.prepare_load(["a"], request)
    rig.manager.reset_cache()
    rig.store(request, "a", "b")
    rig.manager.complete_load(read)
    rig.probe.check()
    assert victims(rig, request, 2) == ["b"]


def test_what_ended_requests_leave_in_the_order_does_not_grow():
    rig = Rig(slots=2, tiers=0)
    policy = rig.manager._primary.policy
    for number in range(50):
        request = rig.request()
        rig.store(request, f"a{number}", f"b{number}")
        assert len(list(policy.runs())) <= 3, "what a live request lost is forgotten when it is met"
    for request in list(rig.manager._requests.live.values()):
        rig.manager.on_request_finished(request)
    rig.step()
    assert list(policy.runs()) == []


def test_a_prefix_that_grows_is_touched_in_its_own_order():
    rig = Rig(slots=3, tiers=0)
    request = rig.request()
    rig.store(request, "k0", "k1")
    rig.manager.touch(["k0", "k1"], request)
    rig.store(request, "k2")
    rig.manager.touch(["k0", "k1", "k2"], request)
    assert victims(rig, rig.request(), 3) == ["k2", "k1", "k0"]


def test_reads_that_end_in_any_order_leave_the_prefix_as_it_is():
    rig = Rig(slots=4, tiers=0)
    request = rig.request()
    for key in ("k3", "k1", "k0", "k2"):
        rig.store(rig.request(), key)
    reads = {key: rig.manager.prepare_load([key], request) for key in ("k0", "k1", "k2", "k3")}
    for key in ("k1", "k3", "k0", "k2"):
        rig.manager.complete_load(reads[key])
    assert victims(rig, rig.request(), 4) == ["k3", "k2", "k1", "k0"]


def test_a_reset_forgets_what_live_requests_had_used():
    rig = Rig(slots=2, tiers=0)
    request = rig.request()
    rig.store(request, "k")
    rig.manager.touch(["k"], request)
    rig.manager.reset_cache()
    rig.manager.on_reset_flushed()
    rig.store(request, "k")
    rig.store(rig.request(), "n")
    rig.manager.touch(["k"], request)
    assert victims(rig, request, 2) == ["n", "k"], "as in a new manager"


def test_cascades_do_not_count_as_use():
    rig = Rig(slots=3, cascade_share=1.0)
    request = rig.request()
    rig.store(request, "a", "b", "c")
    (job,) = rig.tier.stores
    rig.tier.done(job)
    rig.notice()
    assert victims(rig, request, 1) == ["c"]


@pytest.mark.parametrize("held", range(6))
def test_the_order_is_exact_however_blocks_were_held_when_a_victim_was_sought(held):
    rig = Rig(slots=6, tiers=0)
    request = rig.request()
    keys = ["a", "b", "c", "d", "e", "f"]
    rig.store(request, *reversed(keys))
    operations = [rig.manager.prepare_load([key], request) for key in keys[:held]]
    random.Random(held).shuffle(operations)
    if held < 6:
        assert victims(rig, request, 1) == [keys[held]]
    for operation in operations:
        rig.manager.complete_load(operation)
    order = keys[:held] + keys[held + 1 :]
    rig.manager.touch(["c"], rig.request())
    if held != 2:
        order.remove("c")
        order.append("c")
    assert victims(rig, request, len(order)) == order


def test_a_block_that_was_stepped_over_and_held_again_keeps_its_rank():
    rig = Rig(slots=3, tiers=0)
    request = rig.request()
    rig.store(request, "a", "b", "c")
    first = rig.manager.prepare_load(["a", "b"], request)
    assert rig.begin_store(request, "x").evicted == ("c",)
    rig.manager.complete_load(first)
    second = rig.manager.prepare_load(["a"], request)
    assert rig.begin_store(request, "y").evicted == ("b",)
    rig.manager.complete_load(second)
    assert rig.begin_store(request, "z").evicted == ("a",)


def test_a_block_that_was_stepped_over_and_touched_is_the_most_recent():
    rig = Rig(slots=3, tiers=0)
    request = rig.request()
    rig.store(request, "a", "b", "c")
    operation = rig.manager.prepare_load(["a"], request)
    written = rig.begin_store(request, "x")
    assert written.evicted == ("c",)
    rig.manager.complete_store(written)
    rig.manager.touch(["a"], request)
    rig.manager.complete_load(operation)
    assert victims(rig, request, 3) == ["x", "b", "a"]


def test_the_order_is_that_of_a_list_kept_by_hand():
    for seed in range(20):
        draw = random.Random(seed)
        rig = Rig(slots=8, tiers=0)
        keys = [f"k{number}" for number in range(12)]
        order: list[object] = []
        pinned = {}
        for _ in range(120):
            request = rig.request()
            key = draw.choice(keys)
            if key in order and draw.random() < 0.5 and key not in pinned:
                pinned[key] = rig.manager.prepare_load([key], rig.request())
            elif key in pinned:
                rig.manager.complete_load(pinned.pop(key))
                order.remove(key)
                order.append(key)
            elif key in order:
                rig.manager.touch([key], request)
                order.remove(key)
                order.append(key)
            elif len(pinned) < 8:
                operation = rig.store(request, key)
                free = [one for one in order if one not in pinned]
                expected = free[:1] if len(order) == 8 else []
                assert list(operation.evicted) == expected
                order = [one for one in order if one not in expected] + [key]
            assert [block.key for block in rig.manager._primary.policy.order()] == order
            rig.probe.check()


class ByHand:
    """The order of eviction, kept as slowly and as plainly as can be."""

    def __init__(self) -> None:
        self.runs: list[tuple[object, dict[object, int]]] = []
        """Who uses which keys, the most recent user last; each key with its place."""
        self.named: dict[object, dict[object, int]] = {}
        self.counted: set[tuple[object, ...]] = set()

    def name(self, owner: object, keys: Iterable[object]) -> None:
        places = self.named.setdefault(owner, {})
        for key in keys:
            places.setdefault(key, len(places))

    def use(self, owner: object, keys: Iterable[object]) -> None:
        mine = next((run for run in self.runs if run[0] is owner), (owner, {}))
        self.runs = [run for run in self.runs if run is not mine] + [mine]
        for key in keys:
            self.forget(key)
            mine[1][key] = self.named[owner][key]

    def forget(self, key: object) -> None:
        for _, places in self.runs:
            places.pop(key, None)

    def order(self) -> list[object]:
        return [
            key for _, places in self.runs for key in sorted(places, key=lambda key: -places[key])
        ]


@pytest.mark.parametrize("seed", range(60))
def test_the_order_is_that_of_one_kept_by_hand_whatever_is_held_meanwhile(seed):
    draw = random.Random(seed)
    rig = Rig(slots=8, tiers=0)
    hand = ByHand()
    requests = [rig.request(f"r{number}") for number in range(4)]
    writes: list[tuple[Request, StoreOperation]] = []
    reads: list[tuple[Request, object, LoadOperation]] = []
    for number in range(150):
        request, order, act = draw.choice(requests), hand.order(), draw.random()
        if act < 0.35:
            new = [f"{number}.{i}" for i in range(draw.randint(1, 3))]
            pinned = {key for _, key, _ in reads}
            free, loose = rig.probe.free_slots(), [key for key in order if key not in pinned]
            operation = rig.manager.prepare_store(new, request)
            assert (operation is None) == (not free and not loose)
            hand.name(request, new if operation else ())
            if operation is not None:
                missing = max(0, len(operation.keys) - free)
                assert list(operation.evicted) == loose[:missing]
                for key in operation.evicted:
                    hand.forget(key)
                writes.append((request, operation))
        elif act < 0.6 and writes:
            owner, operation = writes.pop(draw.randrange(len(writes)))
            rig.manager.complete_store(operation)
            hand.use(owner, operation.keys)
            hand.counted.update((owner, key) for key in operation.keys)
        elif act < 0.75 and order:
            key = draw.choice(order)
            reads.append((request, key, rig.manager.prepare_load([key], request)))
            hand.name(request, [key])
        elif act < 0.9 and reads:
            owner, key, load = reads.pop(draw.randrange(len(reads)))
            rig.manager.complete_load(load)
            if (owner, key) not in hand.counted:
                hand.counted.add((owner, key))
                hand.use(owner, [key])
        elif act < 0.95:
            keys = draw.sample(order, min(len(order), 3))
            touched = [key for key in keys if (request, key, "touched") not in hand.counted]
            rig.manager.touch(keys, request)
            hand.name(request, keys)
            if touched:
                hand.use(request, touched)
            hand.counted.update((request, key) for key in keys)
            hand.counted.update((request, key, "touched") for key in keys)
        else:
            rig.manager.on_request_finished(request)
            used = [key for key in hand.named.get(request, {}) if key in order]
            if used:
                hand.use(request, used)
            hand.counted.update((request, key) for key in used)
            requests[requests.index(request)] = rig.request(f"n{number}")
            rig.step()
        held = {key for _, key, _ in reads}
        kept = [block.key for block in rig.manager._primary.policy.order()]
        assert [k for k in kept if k not in held] == [k for k in hand.order() if k not in held]
        rig.probe.check()
