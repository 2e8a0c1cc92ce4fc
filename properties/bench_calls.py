"""How long a manager's calls take while many bytes move: through its tiers, or by a memcpy."""

from __future__ import annotations

import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..impl.manager import TieredOffloadingManager
from ..impl.tiers.slab import SlabTier
from ..impl.tiers.slab_file import file_length

SHARE = 0.999
"""The percentile that is compared."""
_KEYS = 256
SLAB_BLOCKS = _KEYS + 8
"""Slots of the tier beside the calls, all taken from the disk at once."""
_STEP = 16


def percentile(took: list[float], share: float) -> float:
    """The value below which `share` of them are."""
    return sorted(took)[min(len(took) - 1, int(share * len(took)))]


@dataclass(frozen=True)
class Beside:
    """What one round found: the percentile of the calls, and how many there were."""

    tiers: float
    memcpy: float
    calls: int
    """Beside the tiers and beside the memcpy together."""


def rounds_beside(
    folder: Path,
    *,
    block_bytes: int,
    total: int,
    rounds: int,
    progress: Callable[[int, int], None],
) -> list[Beside]:
    """As many rounds, in each the tiers and then a memcpy: what disturbs one disturbs both."""
    found = []
    for number in range(rounds):
        progress(number, rounds)
        with tempfile.TemporaryDirectory(prefix="tierproof-", dir=folder) as root:
            here = calls_beside_tiers(Path(root), block_bytes=block_bytes, total=total)
        there = calls_beside_memcpy(block_bytes=block_bytes, total=total, least=len(here))
        found.append(
            Beside(percentile(here, SHARE), percentile(there, SHARE), len(here) + len(there))
        )
    return found


def calls_beside_tiers(folder: Path, *, block_bytes: int, total: int) -> list[float]:
    """Seconds of every call while at least `total` bytes go through a slab tier."""
    tier = SlabTier(folder, capacity_bytes=file_length(SLAB_BLOCKS, block_bytes))
    manager = TieredOffloadingManager(slots=64, block_bytes=block_bytes, tiers=[tier])
    try:

        def moved() -> int:
            seen = tier.counters
            return (seen["stored"] + seen["loaded"] + seen["already_stored"]) * block_bytes

        return _drive(manager, lambda: moved() >= total)
    finally:
        manager.shutdown()


def calls_beside_memcpy(*, block_bytes: int, total: int, least: int = 5_000) -> list[float]:
    """Seconds of the same calls while a thread copies at least `total` bytes between two buffers.

    A memcpy is done sooner than a tier: it goes on until there are `least` calls, so that every one
    has it beside it.
    """
    manager = TieredOffloadingManager(slots=64, block_bytes=block_bytes)
    moved, stop = [0], threading.Event()
    source = np.ones(block_bytes, dtype=np.uint8)
    target = np.zeros(block_bytes, dtype=np.uint8)

    def copy() -> None:
        while not stop.is_set():
            np.copyto(target, source)
            moved[0] += block_bytes

    thread = threading.Thread(target=copy)
    thread.start()
    try:
        return _drive(manager, lambda: moved[0] >= total, least)
    finally:
        stop.set()
        thread.join()
        manager.shutdown()


def _drive(manager: Any, enough: Callable[[], bool], least: int = 0) -> list[float]:
    took: list[float] = []

    def timed(call: Any, *arguments: Any) -> Any:
        began = time.perf_counter()
        result = call(*arguments)
        took.append(time.perf_counter() - began)
        return result

    number = 0
    while not enough() or len(took) < least:
        with manager.lock:
            request = timed(manager.on_new_request, f"r{number}")
            first = number * _STEP % _KEYS
            keys = [b"key %d" % ((first + n) % _KEYS) for n in range(_STEP)]
            answers = [timed(manager.lookup, key, request) for key in keys]
            missing = [k for k, a in zip(keys, answers, strict=True) if a.name == "MISS"]
            stored = timed(manager.prepare_store, missing, request) if missing else None
            if stored is not None:
                timed(manager.complete_store, stored)
            timed(manager.on_schedule_end)
            timed(manager.on_request_finished, request)
            timed(manager.on_schedule_end)
        number += 1
        time.sleep(0.0005)  # as a scheduler that waits for the device
    return took
