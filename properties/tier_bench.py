"""Where a tier's contracts are checked one after the other: a bench of rigs in fresh folders."""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from .tier_rig import TierRig
from .tier_surroundings import DiskOutage, Folder, Media, Outage, Surroundings
from .tier_writer import TierFactory, Writer

BLOCK_BYTES = 16384

__all__ = ["BLOCK_BYTES", "Bench", "Check"]


class Bench:
    """What one check works with: rigs on one root, and what is around them.

    Args:
        factory: `factory(*, block_bytes: int, root: Path, namespace: str) -> Tier`.
        root: an empty folder for this check alone.
        surroundings: what can be damaged and stopped.
        operations: how many operations the check of bytes makes.
    """

    def __init__(
        self,
        factory: TierFactory,
        root: Path,
        surroundings: Surroundings | None = None,
        *,
        operations: int = 1000,
    ) -> None:
        self.factory = factory
        self.root = root
        self.operations = operations
        self.counts: Counter[str] = Counter()
        around = surroundings or Surroundings()
        self.media: Media = around.media or Folder(root)
        self.outage: Outage | None = around.outage
        self.stops = around.stops
        self.left_out: list[str] = []
        """What was not tried, because there is nothing by which its I/O can be stopped."""
        if isinstance(self.outage, DiskOutage):
            self.outage = DiskOutage()
            self.factory = partial(factory, io=self.outage)
        self._plain = factory

    @contextmanager
    def rig(
        self, *, namespace: str = "bench", block_bytes: int = BLOCK_BYTES, slots: int = 16
    ) -> Iterator[TierRig]:
        """A tier on this root, ended with the block."""
        tier = self.factory(block_bytes=block_bytes, root=self.root, namespace=namespace)
        rig = TierRig(tier, slots=slots, block_bytes=block_bytes)
        try:
            yield rig
        finally:
            if self.outage is not None:
                self.outage.release()
            rig.close()
            self.counts["reports"] += len(rig.reports)

    def can_stop(self, what: str) -> bool:
        """Is there an outage? If not, what would have been tried with it is left out."""
        if self.outage is None and self.stops:
            self.left_out.append(what)
        return self.outage is not None

    @property
    def can_fork(self) -> bool:
        """Whether the factory can be sent to another process."""
        try:
            pickle.dumps(self._plain)
        except Exception:
            return False
        module = getattr(getattr(self._plain, "func", self._plain), "__module__", "")
        return module.startswith("tierproof.") or isinstance(self._plain, partial)

    def writer(self, *, seed: int, rounds: int | None = None, namespace: str = "bench") -> Writer:
        """Another process that uses a tier on this root."""
        return Writer(
            self._plain,
            block_bytes=BLOCK_BYTES,
            root=self.root,
            namespace=namespace,
            seed=seed,
            rounds=rounds,
        )


Check = Callable[[Bench], None]


def keys(number: int, name: str = "k") -> Sequence[bytes]:
    """As many different keys."""
    return [b"%b%d" % (name.encode(), n) for n in range(number)]
