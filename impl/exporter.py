"""The totals under names: for Prometheus, for `stats()`, and under the names of vLLM's graphs.

Nothing is counted here. Prometheus asks from a thread of its own, so what is shown is plain numbers
that can be read without the manager's lock, and a fault here is Prometheus's, never the server's.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector, CollectorRegistry

from .jobs import Load, Send
from .metrics import SECONDS, Histogram, TierTotals, Totals
from .primary import PrimaryTier
from .secondary import Secondary, logger
from .vocabulary import MissReason

PREFIX = "tierproof_"
VLLM_PREFIX = "vllm:kv_offload_tiering_"

TIER_COUNTERS = (
    ("load_jobs", "load_jobs", "Promotion jobs submitted"),
    ("load_job_failures", "load_job_failures", "Promotion jobs of which a block failed"),
    ("loaded_blocks", "loaded", "Blocks promoted"),
    ("load_block_failures", "failed_loads", "Blocks whose promotion failed"),
    ("load_seconds", "load_seconds", "Time of promotions, as the tier measured it"),
    ("store_jobs", "store_jobs", "Store jobs submitted"),
    ("store_job_failures", "store_job_failures", "Store jobs of which a block failed"),
    ("stored_blocks", "stored", "Blocks stored"),
    ("store_block_failures", "failed_stores", "Blocks whose store failed"),
    ("store_refusals", "refused", "Blocks refused by the tier (back-pressure)"),
    ("store_seconds", "store_seconds", "Time of stores, as the tier measured it"),
    ("errors", "errors", "Calls of the tier that raised"),
)
COUNTERS = (
    ("gpu_stored_blocks", "gpu_stored", "Blocks stored by the GPU"),
    ("gpu_store_block_failures", "gpu_failed", "Blocks that the GPU failed to store"),
    ("gpu_loaded_blocks", "gpu_loaded", "Blocks loaded by the GPU"),
    ("evicted_blocks", "evicted", "Blocks evicted from the primary tier"),
    ("overdue_blocks", "overdue", "Blocks whose writer passed the deadline"),
    ("cascades_given_up", "cascades_given_up", "Cascades that no tier was offered again"),
    ("contract_violations", "contract_violations", "Reports of tiers that were refused"),
    ("resets", "resets", "Resets of the cache"),
)
LOOKUP_COUNTERS = (
    ("lookup_queries", "lookup_queries", "Blocks asked for, once for each request"),
    ("lookup_hits", "lookup_hits", "Blocks answered HIT or HIT_PENDING, once for each request"),
    ("lookup_undecided", "lookup_undecided", "Blocks that no tier had decided about at the end"),
)
TIER_LOOKUP_COUNTERS = (
    ("tier_queries", "queries", "Blocks that the tier decided about, once for each request"),
    ("tier_hits", "hits", "Blocks that the tier claimed, once for each request"),
)
LOOKUP_DELAYS = (
    ("lookup_sync_delay_seconds", "lookup_sync", "Time to ask the tiers, decided at once"),
    ("lookup_async_delay_seconds", "lookup_async", "Time until a deferred lookup resolved"),
)


class Exporter(Collector):
    """Collects the totals of one manager whenever a registry asks."""

    def __init__(
        self,
        totals: Totals,
        primary: PrimaryTier,
        secondaries: tuple[Secondary, ...],
        *,
        block_bytes: int,
        counted: bool,
        vllm_names: bool,
    ) -> None:
        self._totals = totals
        self._primary = primary
        self._secondaries = secondaries
        self._block_bytes = block_bytes
        self._counted = counted
        self._vllm_names = vllm_names

    def collect(self) -> Iterable[Metric]:
        """Every family with its samples as of now."""
        yield from self._families()
        if self._vllm_names:
            yield from self._vllm_families()

    def _families(self) -> Iterator[Metric]:
        for name, field, says in COUNTERS:
            yield CounterMetricFamily(PREFIX + name, says, getattr(self._totals, field))
        for name, field, says in TIER_COUNTERS:
            values = [getattr(secondary.totals, field) for secondary in self._secondaries]
            yield self._labelled(CounterMetricFamily, PREFIX + name, values, says)
        yield self._promotions(PREFIX + "promotion_seconds")
        primary = self._primary
        for name, value, says in (
            ("slots", primary.slots, "Rows of the primary tier"),
            ("free_slots", primary.free, "Rows that belong to nobody"),
            ("evictable_blocks", primary.evictable, "Blocks that a store may evict"),
            ("quarantined_slots", len(primary.quarantine), "Rows that only a transfer still holds"),
            ("permits_in_use", len(primary.permitted), "Blocks promised until read"),
            ("cascading_slots", len(primary.sending), "Rows under a store to a secondary tier"),
        ):
            yield GaugeMetricFamily(PREFIX + name, says, value)
        if self._counted:
            yield from self._lookup_families()

    def _lookup_families(self) -> Iterator[Metric]:
        for name, field, says in LOOKUP_COUNTERS:
            yield CounterMetricFamily(PREFIX + name, says, getattr(self._totals, field))
        for name, field, says in TIER_LOOKUP_COUNTERS:
            values = [getattr(secondary.totals, field) for secondary in self._secondaries]
            yield self._labelled(CounterMetricFamily, PREFIX + name, values, says)
        family = CounterMetricFamily(
            PREFIX + "lookup_misses", "Blocks answered MISS, once a request", labels=["reason"]
        )
        for reason, number in self._totals.lookup_misses.items():
            family.add_metric([reason.name], number)
        yield family
        yield from self._delays(PREFIX)

    def _vllm_families(self) -> Iterator[Metric]:
        slots, block_bytes = self._primary.slots, self._block_bytes
        totals = [secondary.totals for secondary in self._secondaries]
        loading = [_blocks(secondary.loads) for secondary in self._secondaries]
        sending = [_blocks(secondary.sends) for secondary in self._secondaries]
        for name, values in (
            ("promotion_job_failures", [tier.load_job_failures for tier in totals]),
            ("cascade_job_failures", [tier.store_job_failures for tier in totals]),
            ("read_bytes", [tier.loaded * block_bytes for tier in totals]),
            ("read_time", [tier.load_seconds for tier in totals]),
            ("write_bytes", [tier.stored * block_bytes for tier in totals]),
            ("write_time", [tier.store_seconds for tier in totals]),
        ):
            yield self._labelled(CounterMetricFamily, VLLM_PREFIX + name, values)
        for name, gauges in (
            ("active_promotion_jobs", [len(one.loads) for one in self._secondaries]),
            ("active_cascade_jobs", [len(one.sends) for one in self._secondaries]),
            ("primary_write_usage_perc", [number / slots for number in loading]),
            ("primary_read_usage_perc", [number / slots for number in sending]),
        ):
            yield self._labelled(GaugeMetricFamily, VLLM_PREFIX + name, gauges)
        yield self._promotions(VLLM_PREFIX + "promotion_latency_seconds")
        if self._counted:
            yield from self._vllm_lookups(totals)

    def _vllm_lookups(self, tiers: list[TierTotals]) -> Iterator[Metric]:
        queries, hits = [tier.queries for tier in tiers], [tier.hits for tier in tiers]
        yield self._labelled(CounterMetricFamily, VLLM_PREFIX + "chunk_queries", queries)
        yield self._labelled(CounterMetricFamily, VLLM_PREFIX + "chunk_hits", hits)
        full = self._totals.lookup_misses[MissReason.FULL]
        yield CounterMetricFamily(VLLM_PREFIX + "promotion_allocation_failures", "As vLLM's", full)
        yield from self._delays(VLLM_PREFIX)

    def _labelled(
        self,
        kind: type[CounterMetricFamily] | type[GaugeMetricFamily],
        name: str,
        values: Sequence[float],
        says: str = "As vLLM's",
    ) -> Metric:
        family = kind(name, says, labels=["tier"])
        for secondary, value in zip(self._secondaries, values, strict=True):
            family.add_metric([secondary.name], value)
        return family

    def _promotions(self, name: str) -> Metric:
        family = HistogramMetricFamily(name, "Time from submit to report", labels=["tier"])
        for secondary in self._secondaries:
            _add(family, [secondary.name], secondary.totals.promotion_seconds)
        return family

    def _delays(self, prefix: str) -> Iterator[Metric]:
        for name, field, says in LOOKUP_DELAYS:
            family = HistogramMetricFamily(prefix + name, says)
            _add(family, [], getattr(self._totals, field))
            yield family


def _blocks(jobs: Mapping[int, Load] | Mapping[int, Send]) -> int:
    # A copy first: the manager goes on while Prometheus asks.
    running: list[Load | Send] = list(jobs.values())
    return sum(len(job.blocks) for job in running)


def _add(family: HistogramMetricFamily, labels: list[str], histogram: Histogram) -> None:
    below, buckets = 0, []
    for bound, number in zip((*map(str, SECONDS), "+Inf"), histogram.counts, strict=True):
        below += number
        buckets.append((bound, float(below)))
    family.add_metric(labels, buckets, histogram.total)


def stats(exporter: Exporter) -> dict[str, float]:
    """Every sample by its Prometheus name and labels."""
    return {
        sample.name
        + (
            "{" + ",".join(f'{name}="{value}"' for name, value in sample.labels.items()) + "}"
            if sample.labels
            else ""
        ): sample.value
        for family in exporter.collect()
        for sample in family.samples
    }


def register(exporter: Exporter, registry: CollectorRegistry | None) -> None:
    """Show the totals in a registry. One that will not have them is told of, and no more."""
    if registry is None:
        return
    try:
        registry.register(exporter)
    except Exception as error:
        logger.warning("metrics are not exported: %s; serving goes on", type(error).__name__)
