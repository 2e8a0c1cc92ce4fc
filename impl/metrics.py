"""Counters: each fact is counted here once, where it happens, and nowhere else."""

from __future__ import annotations


class Counters:
    """Monotone totals since the manager was made."""

    def __init__(self) -> None:
        self.cascades_given_up = 0
        self.contract_violations = 0
        self.evicted_blocks = 0
        self.load_block_failures = 0
        self.load_job_failures = 0
        self.load_jobs = 0
        self.load_seconds = 0.0
        self.loaded_blocks = 0
        self.overdue_blocks = 0
        self.promotions_refused = 0
        self.store_block_failures = 0
        self.store_job_failures = 0
        self.store_jobs = 0
        self.store_refusals = 0
        self.store_seconds = 0.0
        self.stored_blocks = 0
        self.written_blocks = 0

    def loaded(self, landed: int, failed: int, seconds: float, latency: float) -> None:
        """A promotion job has reported."""
        self.loaded_blocks += landed
        self.load_block_failures += failed
        self.load_job_failures += failed > 0
        self.load_seconds += seconds

    def stored(self, landed: int, seconds: float) -> None:
        """A store job of a secondary tier has reported."""
        self.stored_blocks += landed
        self.store_seconds += seconds

    def gpu_stored(self, blocks: int, ok: bool) -> None:
        """A GPU store has ended."""
        if ok:
            self.written_blocks += blocks
