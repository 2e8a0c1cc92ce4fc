"""vLLM's own consumer: a release's connector scheduler over that release's manager, on a workload.

The scheduler class runs as it is. What it is given of the engine (requests, groups, the output of a
step) are stand-ins with the fields that it reads. Nothing is copied to a GPU: a request is served
as soon as the scheduler knows its hit, which is what today's scheduler starts to load.
"""

from __future__ import annotations

import hashlib
import math
from collections import deque
from collections.abc import Collection, Sequence
from types import SimpleNamespace
from typing import Any

from .managers import UsageError
from .simulation import Run, Seen, prefixes
from .vllm_loader import Release, load
from .workloads import Workload

SCHEDULER = "vllm.distributed.kv_transfer.kv_connector.v1.offloading.scheduler"
SPECS = "vllm.v1.kv_cache_interface"
FIRST = (0, 27)
"""The first release whose scheduler is given the groups; before, it needs the engine's spec."""


def scan(version: str, workload: Workload, *, delay: int) -> Run:
    """Run a workload through a release's scheduler and manager.

    Args:
        version: of vLLM, in the cache.
        workload: groups of the kinds full and window only.
        delay: steps until a tier answers about a key.

    Raises:
        UsageError: the release is not in the cache or too old, or the workload has other groups.
    """
    if any(group.kind == "recurrent" or group.draft for group in workload.groups):
        raise UsageError(
            "vLLM's scheduler is driven on groups of the kinds full and window only; this workload "
            "has recurrent or draft groups"
        )
    if tuple(map(int, version.split(".")[:2])) < FIRST:
        least = ".".join(map(str, FIRST))
        raise UsageError(f"vLLM {version}: its scheduler is driven from {least} on")
    return _Driven(load(version), workload, delay).go()


class _Driven:
    """A workload, a release's scheduler and manager, and tiers that count."""

    def __init__(self, release: Release, workload: Workload, delay: int) -> None:
        self.release, self.workload = release, workload
        self.geometry = workload.geometry()
        self.run = Run(workload, self.geometry)
        self.grain = math.gcd(*(group.tokens_per_block for group in workload.groups))
        """Tokens of a block hash."""
        self.owners = prefixes(workload.requests)
        self.chunks: dict[bytes, tuple[int, int]] = {}
        """The release's keys -> group and chunk."""
        for i, request in enumerate(workload.requests):
            stored = frozenset(self.geometry.stored(request.prompt))
            self.run.requests.append(Seen(request, stored))
            self.chunks |= {self.key(i, group, chunk): (group, chunk) for group, chunk in stored}
        self.run.stored = len(self.chunks)
        self.tiers: list[Any] = []
        stock = release.build(
            slots=workload.primary_slots,
            block_bytes=1,
            tiers=lambda view: self._plug_in(view, delay),
            events=False,
        )
        self.scheduler = _scheduler(release, workload, self.grain, stock.manager)
        self.requests = [self._request(i) for i in range(len(workload.requests))]

    # -- what the engine would give ----------------------------------------------------------------

    def _hash(self, request: int, number: int) -> bytes:
        """A block hash of a request: within a shared prefix, that of the other."""
        owner, shared = self.owners[request]
        while (number + 1) * self.grain <= shared and owner != request:
            request = owner
            owner, shared = self.owners[request]
        return hashlib.blake2b(f"{request} {number}".encode(), digest_size=32).digest()

    def key(self, request: int, group: int, chunk: int) -> bytes:
        """The release's key of a chunk."""
        last = (chunk + 1) * self.geometry.lanes[group].chunk // self.grain - 1
        made: bytes = self.release.base.make_offload_key(self._hash(request, last), group)
        return made

    def _request(self, i: int) -> Any:
        of = self.workload.requests[i]
        most = of.max_load_tokens
        params = None if most is None else {"max_load_tokens": max(0, most - of.gpu_tokens)}
        return SimpleNamespace(
            request_id=of.id,
            num_tokens=of.prompt_tokens,
            num_prompt_tokens=of.prompt_tokens,
            block_hashes=[self._hash(i, n) for n in range(of.prompt_tokens // self.grain)],
            kv_transfer_params=params,
            kv_hints=None,
            skip_reading_prefix_cache=False,
            is_finished=lambda: False,
        )

    def _plug_in(self, view: memoryview, delay: int) -> list[Any]:
        names = [group.name for group in self.workload.groups]
        for tier in self.workload.tiers:
            holes = {(names.index(m.group), chunk) for m in tier.missing for chunk in m.chunks}
            has = {key for key, chunk in self.chunks.items() if chunk not in holes}
            self.tiers.append(_tier(self.release, tier.name, view, has, delay))
        return self.tiers

    # -- running -----------------------------------------------------------------------------------

    def go(self) -> Run:
        """Run until every request is served, or nothing more can come of it."""
        run, scheduler = self.run, self.scheduler
        arrivals = deque(sorted(range(len(self.requests)), key=self._arrival))
        waiting: list[int] = []
        most = (
            sum(len(seen.stored) for seen in run.requests) * 2 + 100 + self._arrival(arrivals[-1])
        )
        while (arrivals or waiting) and not run.stuck:
            while arrivals and self._arrival(arrivals[0]) <= run.steps:
                waiting.append(arrivals.popleft())
                scheduler.on_new_request(self.requests[waiting[-1]])
            for i in list(waiting):
                given = self.workload.requests[i].gpu_tokens
                found, _ = scheduler.get_num_new_matched_tokens(self.requests[i], given)
                if found is not None:
                    waiting.remove(i)
                    self._served(i, given + found if found else 0)
            scheduler.build_connector_meta(_step_output())
            run.steps += 1
            for tier in self.tiers:
                tier.step = run.steps
            for i in waiting:
                run.requests[i].steps += 1
            run.stuck = run.steps > most
        for i, seen in enumerate(run.requests):
            self._count(i, seen)
        run.lookups = sum(tier.lookups for tier in self.tiers)
        return run

    def _arrival(self, i: int) -> int:
        return self.workload.requests[i].arrival_step

    def _served(self, i: int, hit: int) -> None:
        seen = self.run.requests[i]
        seen.hit_tokens, seen.served = hit, True
        seen.read = list(self.geometry.reads(seen.request.prompt, hit))

    def _count(self, i: int, seen: Seen) -> None:
        of = self.workload.requests[i].id
        for tier in self.tiers:
            asked = tier.asked.get(of, set())
            promoted = tier.promoted.get(of, [])
            seen.checks += len(asked)
            seen.asked |= {self.chunks[key] for key in asked if key in self.chunks}
            seen.promotions += len(promoted)
            seen.promoted |= {self.chunks[key] for key in promoted}


def _step_output() -> Any:
    """The output of a step in which nothing is computed."""
    none_cached = SimpleNamespace(
        req_ids=[], new_block_ids=[], resumed_req_ids=set(), num_computed_tokens=[]
    )
    return SimpleNamespace(
        scheduled_new_reqs=[],
        scheduled_cached_reqs=none_cached,
        num_scheduled_tokens={},
        finished_req_ids=set(),
        preempted_req_ids=set(),
        kv_cache_block_copies=None,
        kv_connector_block_state={},
        partial_tail_offloads={},
    )


def _scheduler(release: Release, workload: Workload, grain: int, manager: Any) -> Any:
    """The release's scheduler, for a model with the workload's groups."""
    module, specs = release.module(SCHEDULER), release.module(SPECS)
    joined = workload.blocks_per_chunk
    groups, cached = [], []
    for number, group in enumerate(workload.groups):
        kind = specs.FullAttentionSpec if group.kind == "full" else specs.SlidingWindowSpec
        spec = object.__new__(kind)  # a stand-in cannot be called, and need not be
        spec.block_size, spec.page_size_bytes = group.tokens_per_block, group.tokens_per_block
        chunk, window = group.tokens_per_block * joined, None
        if group.kind == "window":
            assert group.window is not None
            spec.sliding_window = group.window
            spec.extra_retained_tokens = group.retained_tokens
            back = -(-(group.window - 1 + group.retained_tokens) // chunk)
            window = max(-(-group.window // chunk), back)
        groups.append(
            SimpleNamespace(
                group_id=number,
                tokens_per_block=group.tokens_per_block,
                sliding_window_size_in_chunks=window,
                layer_names=(group.name,),
            )
        )
        cached.append(
            SimpleNamespace(kv_cache_spec=spec, layer_names=[group.name], is_eagle_group=False)
        )
    offloading = SimpleNamespace(
        config=SimpleNamespace(groups=groups),
        tokens_per_block=tuple(group.tokens_per_block for group in workload.groups),
        blocks_per_chunk=joined,
        block_size_factor=joined,
        tokens_per_hash=grain,
        offload_prompt_only=False,
        extra_config={},
        kv_events_config=release.base.OffloadingKVEventsConfig(False, False),
        get_manager=lambda: manager,
    )
    engine = SimpleNamespace(
        cache_config=SimpleNamespace(
            prefix_cache_retention_interval=None, enable_prefix_caching=True
        ),
        speculative_config=None,
        parallel_config=SimpleNamespace(world_size=1, decode_context_parallel_size=1),
    )
    caches = SimpleNamespace(kv_cache_groups=cached, cache_hit_alignment_tokens=None)
    return module.OffloadingConnectorScheduler(offloading, engine, caches)


def _tier(release: Release, name: str, view: memoryview, has: Collection[bytes], delay: int) -> Any:
    """A tier of the release that answers `delay` steps after it is asked, and loads in one step."""
    base, tier_base = release.base, release.tier_base
    kind: Any = tier_base.SecondaryTierManager

    class Counting(kind):  # type: ignore[misc]  # a class of the release
        def __init__(self) -> None:
            super().__init__(offloading_spec=None, primary_kv_view=view, tier_type=name)
            self.step = self.lookups = 0
            self.asked: dict[str, set[bytes]] = {}
            self.promoted: dict[str, list[bytes]] = {}
            self.since: dict[tuple[str, bytes], int] = {}
            self.done: list[Any] = []

        def lookup(self, key: bytes, req_context: Any) -> Any:
            self.lookups += 1
            self.asked.setdefault(req_context.req_id, set()).add(key)
            if self.step - self.since.setdefault((req_context.req_id, key), self.step) < delay:
                return base.LookupResult.RETRY
            return base.LookupResult.HIT if key in has else base.LookupResult.MISS

        def submit_load(self, job_metadata: Any) -> None:
            keys = self.promoted.setdefault(job_metadata.req_context.req_id, [])
            keys.extend(job_metadata.keys)
            self.done.append(tier_base.JobResult(job_id=job_metadata.job_id, success=True))

        def submit_store(self, job_metadata: Any) -> None:
            self.done.append(tier_base.JobResult(job_id=job_metadata.job_id, success=True))

        def get_finished_jobs(self) -> Sequence[Any]:
            done, self.done = self.done, []
            return done

        def on_new_request(self, req_context: Any) -> Any:
            return base.RequestOffloadingContext()

        def drain_jobs(self) -> None:
            """Nothing runs between polls."""

    return Counting()
