"""Another process that stores and loads in a tier, until it is done or killed.

What it was told has landed it writes down at once, so that whoever kills it knows what must be
found afterwards. Processes come from a fork server that has imported everything before: fifty
kills take seconds.
"""

from __future__ import annotations

import multiprocessing
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from ..impl.tiers.base import Tier
from .tier_rig import TierBroken, TierRig

TierFactory = Callable[..., Tier]
"""`factory(*, block_bytes: int, root: Path, namespace: str) -> Tier`."""
KEYS = 40


def key_of(number: int) -> bytes:
    """The key that writers call by a number."""
    return b"key %d" % number


class Writer:
    """A process that stores keys 0 to 39, at random, in a tier of its own.

    Args:
        factory: builds the tier, in the new process, so it must be one that can be pickled.
        rounds: how often it stores and loads four keys; None: until it is killed.
    """

    def __init__(
        self,
        factory: TierFactory,
        *,
        block_bytes: int,
        root: Path,
        namespace: str,
        seed: int = 0,
        rounds: int | None = None,
    ) -> None:
        # A fork of this process would inherit its threads' locks and its files' locks.
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload([__name__])
        here, there = context.Pipe(duplex=False)
        self._told = here
        self.process = context.Process(
            target=_write,
            args=(there, factory, block_bytes, str(root), namespace, seed, rounds),
            daemon=True,
        )
        self.process.start()
        there.close()
        self.landed: list[int] = []
        """Numbers of the keys whose store was reported, as they came."""
        self.said: str | None = None
        """How it ended: "" well, else what was wrong; None when it was killed."""
        try:
            here.recv()
        except EOFError as error:
            self.process.join()
            raise RuntimeError("the writing process could not build its tier") from error

    def listen(self, until: int | None = None) -> None:
        """Hear what landed, until there are so many different ones or the process has ended."""
        while until is None or len(set(self.landed)) < until:
            try:
                said = self._told.recv()
            except (EOFError, OSError):
                return
            if isinstance(said, str):
                self.said = said
            else:
                self.landed += said

    def kill(self) -> None:
        """`kill -9`, in the middle of whatever it does; hear the rest of what it had said."""
        self.process.kill()
        self.listen()
        self.process.join()

    def __enter__(self) -> Writer:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.is_alive():
            self.process.kill()
        self.process.join()
        self._told.close()


def _write(
    told: Any,
    factory: TierFactory,
    block_bytes: int,
    root: str,
    namespace: str,
    seed: int,
    rounds: int | None,
) -> None:
    rng = random.Random(seed)
    tier = factory(block_bytes=block_bytes, root=Path(root), namespace=namespace)
    rig = TierRig(tier, slots=8, block_bytes=block_bytes)
    told.send([])
    try:
        while rounds is None or rounds > 0:
            rounds = None if rounds is None else rounds - 1
            chosen = rng.sample(range(KEYS), 4)
            told.send(_numbers(rig.store(*map(key_of, chosen)), chosen))
            rig.load(*map(key_of, rng.sample(range(KEYS), 4)))
        rig.close()
    except TierBroken as broken:
        told.send(str(broken))
    else:
        told.send("")


def _numbers(landed: frozenset[Any], chosen: Sequence[int]) -> list[int]:
    return [number for number in chosen if key_of(number) in landed]
