"""Real bytes: stored through the filter, cascaded, forgotten by the primary tier, loaded again."""

import time

import pytest

from tierproof import Asked, FileTier, Geometry, Group, MemoryTier, Prompt, TwoPhase
from tierproof import TieredOffloadingManager as Manager

SIZE = 64
PROMPT = Prompt(tokens=12 * 16)
MODELS = {
    "full": [Group(name="full", kind="full", tokens_per_block=16)],
    "window": [
        Group(name="full", kind="full", tokens_per_block=64),
        Group(name="window", kind="window", tokens_per_block=16, window=32),
    ],
    "draft": [
        Group(name="full", kind="full", tokens_per_block=16),
        Group(name="draft", kind="full", tokens_per_block=16, draft=True),
    ],
    "recurrent": [
        Group(name="full", kind="full", tokens_per_block=16),
        Group(name="state", kind="recurrent", tokens_per_block=16),
    ],
}


def key_of(group, chunk):
    return f"prompt/{group}/{chunk}".encode()


def payload(key):
    return (key + b"|").ljust(SIZE, b".")


def step(manager):
    manager.on_schedule_end()
    time.sleep(0.001)


def store(manager, geometry):
    """Everything that the filter keeps, as the GPU would; returns how many blocks."""
    request = manager.on_new_request("writer")
    left = [key_of(*at) for at in geometry.stored(PROMPT)]
    count = len(left)
    for _ in range(2_000):
        # a block that is evicted before it was copied is copied nowhere: copies go first
        idle = left and not manager.has_pending_work()
        operation = manager.prepare_store(left, request) if idle else None
        if operation is not None:
            for key, slot in zip(operation.keys, operation.slots, strict=True):
                manager.arena.row(slot)[:] = payload(key)
            manager.complete_store(operation)
            left = list(operation.refused)
        step(manager)
        if not left and not manager.has_pending_work():
            break
    assert not left
    manager.on_request_finished(request)
    return count


def load(manager, geometry):
    """What the two-phase consumer hits, and the keys that it read, byte for byte."""
    request = manager.on_new_request("reader")
    consumer, read = TwoPhase(manager, Asked(request, PROMPT, geometry, key_of)), []
    for _ in range(2_000):
        answer = consumer.ask()
        if answer.load is not None:
            for key, slot in zip(answer.load.keys, answer.load.slots, strict=True):
                assert bytes(manager.arena.row(slot)) == payload(key)
                read.append(key)
            manager.complete_load(answer.load)
        if answer.hit is not None:
            manager.on_request_finished(request)
            return answer.hit, read
        if answer.load is None:
            step(manager)
    raise AssertionError("never served")


@pytest.mark.parametrize("slots", [1, 3, 64])
@pytest.mark.parametrize("kind", ["memory", "files"])
@pytest.mark.parametrize("model", MODELS)
def test_what_is_stored_is_served_again_byte_for_byte(model, kind, slots, tmp_path):
    geometry = Geometry(MODELS[model])
    tier = MemoryTier() if kind == "memory" else FileTier(tmp_path, namespace="test")
    manager = Manager(slots=slots, block_bytes=SIZE, tiers=[tier])
    try:
        assert store(manager, geometry) > 0
        manager.reset_cache()
        manager.on_reset_flushed()
        hit, read = load(manager, geometry)
        longest = geometry.boundary(PROMPT, PROMPT.tokens)
        assert hit == longest > 0
        assert sorted(read) == sorted(key_of(*at) for at in geometry.reads(PROMPT, longest))
    finally:
        manager.shutdown()
