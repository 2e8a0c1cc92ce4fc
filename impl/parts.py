"""The manager's parts, each made from those below it: nothing calls back up."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import count

from prometheus_client.registry import CollectorRegistry

from .adaptive import AdaptiveReplacement
from .arena import Arena
from .cascades import Cascades
from .claims import Claims
from .config import ManagerConfig
from .counted import counted
from .errors import ConfigError
from .events import EventLog
from .exporter import Exporter, register
from .ledger import CountedLookups
from .lookups import Lookups
from .metrics import Totals
from .plans import Plans
from .policies import EvictionPolicy, LeastRecentlyUsed
from .primary import PrimaryTier
from .requests import Requests
from .secondary import attach
from .step import Step
from .stores import Stores
from .tiers.base import Tier
from .transfers import Transfers
from .undecided import Undecided
from .usage import Usage


class Parts:
    """Everything behind one manager.

    Raises:
        ConfigError: the arena does not fit the sizes, or something is not a tier.
    """

    def __init__(
        self,
        slots: int,
        block_bytes: int,
        tiers: Sequence[Tier],
        clock: Callable[[], float],
        arena: Arena | None,
        config: ManagerConfig,
        registry: CollectorRegistry | None,
    ) -> None:
        self.arena = _fitting(arena, slots, block_bytes)
        self.secondaries = secondaries = attach(tiers, self.arena)
        self.totals = totals = Totals()
        self.step = step = Step(clock)
        self.events = EventLog(enabled=config.events)
        policy: EvictionPolicy = (
            AdaptiveReplacement(slots) if config.eviction == "arc" else LeastRecentlyUsed()
        )
        self.primary = primary = PrimaryTier(
            slots=slots,
            permits=config.permits(slots),
            berths=config.berths(slots),
            policy=policy,
            events=self.events,
            totals=totals,
        )
        counted = config.count_lookups or registry is not None
        self.usage = usage = Usage(primary)
        self.undecided = undecided = Undecided(step, config, counted=counted)
        self.requests = requests = Requests(
            secondaries, primary, undecided, usage, config, counted=counted
        )
        job_ids = count()
        self.cascades = cascades = Cascades(secondaries, primary, step, config, totals, job_ids)
        self.transfers = transfers = Transfers(
            secondaries, primary, requests, usage, cascades, step, config, totals, job_ids
        )
        self.stores = Stores(primary, transfers, cascades)
        claims = Claims(undecided, config)
        self.lookups = lookups = Lookups(
            primary, requests, transfers, cascades, claims, undecided, step
        )
        self.plans = Plans(primary, requests, transfers, cascades, claims, undecided, lookups, step)
        self.counted = (
            CountedLookups(self.lookups, claims, totals, step, clock) if counted else None
        )
        self.exporter = Exporter(
            totals,
            primary,
            secondaries,
            block_bytes=block_bytes,
            counted=counted,
            vllm_names=config.vllm_metric_names,
        )
        register(self.exporter, registry)


def _fitting(arena: Arena | None, slots: int, block_bytes: int) -> Arena:
    if arena is None:
        return Arena(slots=slots, block_bytes=block_bytes)
    if (arena.slots, arena.block_bytes) != (slots, block_bytes):
        raise ConfigError(
            f"the arena has {counted(arena.slots, 'row')} of {arena.block_bytes} bytes, the "
            "manager was asked "
            f"for {counted(slots, 'slot')} of {block_bytes}; make them equal"
        )
    return arena
