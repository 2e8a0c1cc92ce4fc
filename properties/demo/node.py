"""One process's half of a server: device blocks, the primary tier, the secondary one, a request.

The scheduler calls the manager under its lock and waits in no call; where it has nothing else to
do, it sleeps between two steps.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator
from contextlib import ExitStack, contextmanager

from ...impl.config import ManagerConfig
from ...impl.device.backend import DeviceBackend
from ...impl.device.cuda import CudaBackend
from ...impl.device.threads import ThreadBackend
from ...impl.device.worker import DeviceWorker, report
from ...impl.errors import TierError
from ...impl.manager import TieredOffloadingManager
from ...impl.operations import LoadOperation
from ...impl.tiers.base import Key
from ...impl.tiers.block_tier import BlockTier
from .cache import PagedCache
from .prompt import BLOCK_BYTES, Chunk, Prompt
from .secondary import believe, build
from .settings import Settings

SLOTS = 12
"""Rows of the primary tier: a quarter of what is stored, so that blocks leave it and come back."""
PATIENCE = 60.0
"""Seconds that copies and tiers get for what takes a moment."""
_NAP = 0.0002


class Node:
    """A manager between its two tiers and a device, and the request of the demo."""

    def __init__(
        self,
        prompt: Prompt,
        cache: PagedCache,
        tier: BlockTier,
        manager: TieredOffloadingManager,
        backend: DeviceBackend,
    ) -> None:
        self.cache = cache
        self.tier = tier
        self.manager = manager
        self.worker = DeviceWorker(arena=manager.arena, groups=cache.groups, backend=backend)
        with manager.lock:
            self.request = manager.on_new_request("demo")
        self.stored_bytes = self.loaded_bytes = 0
        """Between the device and the primary tier, each way."""
        self._offered: list[Chunk] = []
        chunks = list(prompt.geometry.stored(prompt.asked))
        self._keys = {at: prompt.key(*at) for at in chunks}
        self._places: dict[Key, Chunk] = {key: at for at, key in self._keys.items()}

    # -- out --------------------------------------------------------------------------------------

    def offer(self, chunks: Collection[Chunk]) -> None:
        """These blocks are computed: store them, from the next step on."""
        self._offered += chunks

    def is_busy(self, at: Chunk) -> bool:
        """Whether a store still reads the device's block, or is still to: not to be given away."""
        return at in self._offered or bool(self.worker.reading([self.cache.block(at)]))

    def step(self) -> bool:
        """One step of the scheduler without loads: whether something is still to happen."""
        manager = self.manager
        with manager.lock:
            self._hear()
            if self._offered:
                keys = [self._keys[at] for at in self._offered]
                stored = manager.prepare_store(keys, self.request)
                if stored is not None:
                    places = [self._places[key] for key in stored.keys]
                    blocks = [self.cache.block(at) for at in places]
                    self.worker.store(stored, blocks, groups=[group for group, _ in places])
                    self._offered = [self._places[key] for key in stored.refused]
            manager.on_schedule_end()
            return bool(self._offered or self.worker.in_flight or manager.has_pending_work())

    def settle(self) -> float:
        """Steps until everything that was offered is in the secondary tier; seconds it took.

        Raises:
            TierError: that does not end.
        """
        begun = time.monotonic()
        while self.step():
            self._nap(begun, "to be stored")
        return time.monotonic() - begun

    # -- back -------------------------------------------------------------------------------------

    def load(self, operation: LoadOperation) -> list[Chunk]:
        """Copy a wave to new blocks of the device. The lock is held; others would run meanwhile.

        Raises:
            TierError: a copy fails, or does not end.
        """
        places = [self._places[key] for key in operation.keys]
        blocks = [self.cache.take(at) for at in places]
        self.worker.load(operation, blocks, groups=[group for group, _ in places])
        begun = time.monotonic()
        while self.worker.in_flight:
            self._hear()
            self._nap(begun, "to be copied to the device")
        return places

    def refused(self, chunks: Collection[Chunk]) -> list[Chunk]:
        """Those whose load the tier has reported as failed."""
        with self.manager.lock:
            asked = {at: self.manager.explain(self._keys[at], self.request) for at in chunks}
        return [at for at, said in asked.items() if said.tiers[self.tier.name] == "retracted"]

    # -- parts ------------------------------------------------------------------------------------

    def _hear(self) -> None:
        ends = self.worker.poll()
        report(ends, self.manager)
        for end in ends:
            if not end.ok:
                raise TierError(f"a copy between device and primary tier failed: {end.error}")
            if end.store:
                self.stored_bytes += end.bytes
            else:
                self.loaded_bytes += end.bytes

    def _nap(self, begun: float, what: str) -> None:
        if time.monotonic() - begun > PATIENCE:
            raise TierError(f"blocks that were {what} were not within {PATIENCE:g} s")
        time.sleep(_NAP)


@contextmanager
def node(settings: Settings, prompt: Prompt, cache: PagedCache) -> Iterator[Node]:
    """A node, taken down at the end.

    Raises:
        ConfigError: there is no such device, or the tier cannot be built.
    """
    with ExitStack() as stack:
        backend = CudaBackend() if settings.device == "cuda" else ThreadBackend()
        stack.callback(backend.close)
        tier = build(settings)
        manager = TieredOffloadingManager(
            slots=SLOTS, block_bytes=BLOCK_BYTES, tiers=[tier], config=ManagerConfig(events=False)
        )
        stack.callback(manager.shutdown)
        if not settings.checksums:
            believe(tier)
        yield Node(prompt, cache, tier, manager, backend)
