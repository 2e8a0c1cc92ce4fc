"""Totals: each fact is counted here once, where it happens, and everything else reads it here.

Plain numbers, so that counting cannot fail and costs an addition; `exporter` shows them to
Prometheus when it asks.
"""

from __future__ import annotations

from bisect import bisect_left

from .vocabulary import MissReason

SECONDS = (0.0001, 0.0005, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0, 30.0)
"""Upper bounds of the histograms' buckets."""


class Histogram:
    """How often a duration fell into which bucket; the last bucket has no bound."""

    __slots__ = ("counts", "total")

    def __init__(self) -> None:
        self.counts = [0] * (len(SECONDS) + 1)
        self.total = 0.0

    def observe(self, seconds: float) -> None:
        """Count one duration. A clock that steps back counts as no time."""
        self.counts[bisect_left(SECONDS, seconds)] += 1
        if seconds > 0:
            self.total += seconds


class TierTotals:
    """What one secondary tier has done since the manager was made."""

    __slots__ = (
        "errors",
        "failed_loads",
        "failed_stores",
        "hits",
        "load_job_failures",
        "load_jobs",
        "load_seconds",
        "loaded",
        "promotion_seconds",
        "queries",
        "refused",
        "store_job_failures",
        "store_jobs",
        "store_seconds",
        "stored",
    )

    def __init__(self) -> None:
        self.load_jobs = 0
        self.load_job_failures = 0
        """Jobs of which a key failed."""
        self.loaded = 0
        """Blocks."""
        self.failed_loads = 0
        """Blocks."""
        self.load_seconds = 0.0
        """As the tier measured."""
        self.promotion_seconds = Histogram()
        """From submit to report, as the manager saw it."""
        self.store_jobs = 0
        self.store_job_failures = 0
        self.stored = 0
        self.failed_stores = 0
        self.refused = 0
        self.store_seconds = 0.0
        self.errors = 0
        """Calls that raised."""
        # The following only when lookups are counted, once for each request and key.
        self.queries = 0
        """Blocks that it decided about."""
        self.hits = 0

    def load_ended(self, landed: int, failed: int, seconds: float, latency: float) -> None:
        """A promotion job has reported."""
        self.loaded += landed
        if failed:
            self.failed_loads += failed
            self.load_job_failures += 1
        if seconds > 0:
            self.load_seconds += seconds
        seen = self.promotion_seconds  # written out: a thousand jobs may land in a step
        seen.counts[bisect_left(SECONDS, latency)] += 1
        if latency > 0:
            seen.total += latency

    def store_ended(self, landed: int, failed: int, seconds: float) -> None:
        """A store job has reported."""
        self.stored += landed
        if failed:
            self.failed_stores += failed
            self.store_job_failures += 1
        if seconds > 0:
            self.store_seconds += seconds


class Totals:
    """What the manager itself has done since it was made."""

    __slots__ = (
        "cascades_given_up",
        "contract_violations",
        "evicted",
        "gpu_failed",
        "gpu_loaded",
        "gpu_stored",
        "lookup_async",
        "lookup_hits",
        "lookup_misses",
        "lookup_queries",
        "lookup_sync",
        "lookup_undecided",
        "overdue",
        "resets",
    )

    def __init__(self) -> None:
        self.gpu_stored = 0
        self.gpu_failed = 0
        self.gpu_loaded = 0
        self.evicted = 0
        self.overdue = 0
        self.cascades_given_up = 0
        self.contract_violations = 0
        self.resets = 0
        # The following only when lookups are counted, once for each request and key.
        self.lookup_queries = 0
        self.lookup_hits = 0
        self.lookup_misses = dict.fromkeys(MissReason, 0)
        self.lookup_undecided = 0
        self.lookup_sync = Histogram()
        self.lookup_async = Histogram()
