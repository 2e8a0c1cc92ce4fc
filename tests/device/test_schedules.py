"""Every order in which streams may run: the worker is right in all, each broken one in not all."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tierproof.impl.device.worker import DeviceWorker

from .broken import BROKEN
from .support import World

EXAMPLES = 500

BLOCKS = st.lists(st.integers(0, World.BLOCKS - 1), min_size=1, max_size=World.BLOCKS, unique=True)
ONE = BLOCKS.map(lambda blocks: blocks[:1])
ACTIONS = st.one_of(
    st.tuples(st.just("store"), BLOCKS),
    st.tuples(st.just("load"), BLOCKS),
    st.tuples(st.sampled_from(["write", "read"]), ONE),
    st.tuples(st.just("reuse"), ONE),
    st.tuples(st.just("steps"), st.sampled_from([1, 2, 4, 8, 16, 40])),
)


def play(
    worker: type[DeviceWorker], actions: list[tuple[str, object]], choose: Callable[[int], int]
) -> None:
    """One history under one schedule; raises AssertionError where a byte is not where it should."""
    world = World(worker, choose)
    for name, argument in actions:
        if isinstance(argument, int):
            for _ in range(argument):
                world.backend.step()
                world.poll()
        elif isinstance(argument, list):
            {
                "store": world.store,
                "load": world.load,
                "write": lambda blocks: world.write(blocks[0]),
                "read": lambda blocks: world.read(blocks[0]),
                "reuse": lambda blocks: world.write(blocks[0], guarded=False),
            }[name](argument)
    world.finish()


def search(worker: type[DeviceWorker], examples: int) -> None:
    """Look for a history and a schedule that show a fault."""

    @settings(
        max_examples=examples,
        phases=[Phase.generate],  # found is enough, the smallest is not asked for
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(st.lists(ACTIONS, min_size=3, max_size=10), st.randoms(use_true_random=True))
    def run(actions, random):
        # A stream is favoured for a while: uniform choices keep the streams abreast, and faults
        # show where one runs ahead.
        turn = [0, 0]

        def choose(ready: int) -> int:
            if not turn[1]:
                turn[:] = random.randrange(64), random.choice((1, 2, 8, 30))
            turn[1] -= 1
            return turn[0] % ready

        play(worker, actions, choose)

    run()


def test_no_schedule_makes_the_worker_wrong():
    search(DeviceWorker, EXAMPLES)


@pytest.mark.nightly
def test_no_schedule_of_ten_thousand_makes_the_worker_wrong():
    search(DeviceWorker, 10_000)


@pytest.mark.parametrize("fault", BROKEN)
def test_a_fault_of_order_is_found_within_500_examples(fault):
    with pytest.raises(AssertionError):
        search(BROKEN[fault], EXAMPLES)
