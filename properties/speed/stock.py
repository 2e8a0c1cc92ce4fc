"""The stock manager of a vLLM release on the bench: its own files, driven through its interface.

Each request's context knows its keys' end-token positions, as the stock scheduler records them. The
bench's tier is a `SecondaryTierManager` of the release.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from ..vllm_loader import Release
from .clock import now, since
from .side import Keys, Side, WrongAnswerError

ROW_BYTES = 16
TOKENS_PER_BLOCK = 16
NAME = "instant"


def instant_tier(release: Release) -> type[Any]:
    """The class of the bench's tier, made from the release's own base class."""
    answers = release.base.LookupResult
    there, absent = answers.HIT, answers.MISS
    result = release.tier_base.JobResult
    parent: Any = release.tier_base.SecondaryTierManager

    class StockInstantTier(parent):  # type: ignore[misc]  # its base is known at run time only
        """Costs as good as nothing; jobs end when the bench says so."""

        def __init__(self, view: memoryview) -> None:
            super().__init__(offloading_spec=None, primary_kv_view=view, tier_type=NAME)
            self.keys: set[bytes] = set()
            self._jobs: list[Any] = []
            self._reports: list[Any] = []

        def report(self, ok: bool) -> int:
            """Every job ends."""
            blocks = 0
            for job in self._jobs:
                blocks += len(job.keys)
                self._reports.append(result(job.job_id, ok))
            self._jobs.clear()
            return blocks

        def lookup(self, key: bytes, req_context: Any) -> Any:
            """It knows at once."""
            return there if key in self.keys else absent

        def submit_load(self, job_metadata: Any) -> None:
            """Begun."""
            self._jobs.append(job_metadata)

        def submit_store(self, job_metadata: Any) -> None:
            """Begun."""
            self._jobs.append(job_metadata)

        def get_finished_jobs(self) -> Iterable[Any]:
            """What has ended."""
            if not self._reports:
                return ()
            reports, self._reports = self._reports, []
            return reports

        def on_new_request(self, req_context: Any) -> Any:
            """New blocks are all it wants."""
            return release.base.RequestOffloadingContext()

        def drain_jobs(self) -> None:
            """What was begun ends."""
            self.report(True)

    return StockInstantTier


class StockSide(Side):
    """A release's tiering manager, with the settings that vLLM gives it unless told otherwise."""

    def __init__(self, release: Release, *, resident: int, spare: int, tiers: int) -> None:
        self._release = release
        self.name = f"vLLM {release.version}"
        super().__init__(resident=resident, spare=spare, tiers=tiers)

    def build(self, slots: int, tiers: int) -> Sequence[Any]:
        """The manager over its CPU primary tier, whose rows are as small as can be."""
        kind = instant_tier(self._release)
        stock = self._release.build(
            slots=slots,
            block_bytes=ROW_BYTES,
            tiers=lambda view: [kind(view) for _ in range(tiers)],
            events=False,
        )
        self.manager = stock.manager
        self._nothing = self._release.base.ScheduleEndContext((), ())
        return stock.tiers

    def begin(self, name: str, keys: Keys) -> Any:
        """A context, with the end of each key's block in the request's tokens."""
        context = self._release.base.ReqContext(req_id=name)
        for place, key in enumerate(keys):
            context.set_offload_key_position(key, (place + 1) * TOKENS_PER_BLOCK)
        self.manager.on_new_request(context)
        return context

    def settle(self, *requests: Any, ok: bool = True) -> None:
        """And the statistics are taken, as vLLM does in every step: they are kept until then."""
        super().settle(*requests, ok=ok)
        self.manager.get_stats()

    def store(self, keys: Keys, request: Any, *, ok: bool) -> None:
        """One store."""
        output = self.manager.prepare_store(keys, request)
        if output is None or len(output.keys_to_store) < len(keys):
            raise WrongAnswerError(f"a store of {len(keys)} blocks did not get its chunks")
        self.manager.complete_store(output.keys_to_store, request, ok)

    def steps(self, number: int) -> float:
        """`on_schedule_end` of a step in which nothing was newly scheduled or preempted."""
        end, nothing = self.manager.on_schedule_end, self._nothing
        began = now()
        for _ in range(number):
            end(nothing)
        return since(began)

    def loads(self, batches: Sequence[Keys], request: Any) -> float:
        """The keys name the load at its end."""
        prepare, complete = self.manager.prepare_load, self.manager.complete_load
        began = now()
        for keys in batches:
            prepare(keys, request)
            complete(keys, request)
        return since(began)

    def stores(self, batches: Sequence[Keys], request: Any) -> float:
        """The keys to store name the store at its end."""
        prepare, complete = self.manager.prepare_store, self.manager.complete_store
        began = now()
        for keys in batches:
            complete(prepare(keys, request).keys_to_store, request)
        return since(began)

    def finishes(self, requests: Sequence[Any]) -> float:
        """The tiers are told at once; the step's end is timed as on the other side."""
        finish, end, nothing = (
            self.manager.on_request_finished,
            self.manager.on_schedule_end,
            self._nothing,
        )
        began = now()
        for request in requests:
            finish(request)
        end(nothing)
        return since(began)
