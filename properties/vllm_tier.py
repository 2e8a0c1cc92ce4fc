"""The hand-driven tier, plugged into a vLLM release through the release's own tier interface.

The instrument stays `HandDrivenTier`; this only translates calls. Two things are answered as the
interface demands: `drain_jobs` leaves no job in flight (they end as failed, which it allows for
transfers that have not begun), and a job of a release without `successful_keys` fails as a whole
unless every key landed.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence
from dataclasses import fields
from functools import cache
from typing import Any

from ..impl.tiers.base import Claim, JobReport, LoadJob, RequestInfo, StoreJob, StorePolicy
from .under_test import HandDrivenTier
from .vllm_loader import Release


class Names:
    """Keys and requests: as histories name them, and as the release does."""

    def __init__(self, release: Release) -> None:
        self._make = release.base.make_offload_key
        self._by_name: dict[str, bytes] = {}
        self.keys: dict[bytes, str] = {}
        self.requests: dict[int, RequestInfo] = {}
        """By the identity of the release's ReqContext, of which there is one for each request."""
        self._contexts: list[Any] = []

    def key(self, name: str) -> bytes:
        """The release's key for a name."""
        if name not in self._by_name:
            made: bytes = self._make(str(name).encode().ljust(32, b"\0"), 0)
            self._by_name[name], self.keys[made] = made, name
        return self._by_name[name]

    def name(self, key: bytes) -> str:
        """The name of a key."""
        return self.keys[bytes(key)]

    def names(self, keys: Iterable[bytes]) -> tuple[str, ...]:
        """The names of keys."""
        return tuple(self.name(key) for key in keys)

    def begin(self, context: Any, request_id: str) -> RequestInfo:
        """A request begins: what the tiers are told of it."""
        info = RequestInfo(request_id, len(self._contexts))
        self._contexts.append(context)  # so that its identity is not used again
        self.requests[id(context)] = info
        return info

    def request(self, context: Any) -> RequestInfo:
        """What the tiers are told of a request."""
        return self.requests[id(context)]


def answer_words(release: Release) -> dict[Claim, Any]:
    """How the release's tiers say present, absent and undecided."""
    kind = getattr(release.base, "LookupResult", None)
    if kind is None:
        return {Claim.PRESENT: True, Claim.ABSENT: False, Claim.UNDECIDED: None}
    return {Claim.PRESENT: kind.HIT, Claim.ABSENT: kind.MISS, Claim.UNDECIDED: kind.RETRY}


def slots_of(job: Any) -> tuple[int, ...]:
    """The slots that a job or a load/store specification names; blocks became chunks in 0.30."""
    ids = job.chunk_ids if hasattr(job, "chunk_ids") else job.block_ids
    return tuple(int(i) for i in ids)


@cache
def tier_class(release: Release) -> type:
    """A subclass of the release's `SecondaryTierManager` that a `HandDrivenTier` stands behind."""
    base, tier_base = release.base, release.tier_base
    words = answer_words(release)
    partly = can_fail_in_part(release)
    policies: Any = getattr(base, "OffloadPolicy", None)

    kind: Any = tier_base.SecondaryTierManager

    class Hand(kind):  # type: ignore[misc]  # a class of the release
        def __init__(self, hand: HandDrivenTier, names: Names, **given: Any) -> None:
            super().__init__(**given)
            self.hand, self.names = hand, names
            self.sizes: dict[int, int] = {}
            """How many keys each job has: asked for when the tier has forgotten the job."""

        def lookup(self, key: bytes, req_context: Any) -> Any:
            claim = self.hand.lookup(self.names.name(key), self.names.request(req_context))
            return words[claim]

        def submit_load(self, job_metadata: Any) -> None:
            self.hand.submit_load(self._job(LoadJob, job_metadata))

        def submit_store(self, job_metadata: Any) -> None:
            self.hand.submit_store(self._job(StoreJob, job_metadata))

        def _job(self, kind: Callable[..., Any], job: Any) -> Any:
            keys, request = self.names.names(job.keys), self.names.request(job.req_context)
            self.sizes[job.job_id] = len(keys)
            return kind(job.job_id, keys, slots_of(job), request)

        def get_finished_jobs(self) -> Sequence[Any]:
            return [self._result(report) for report in self.hand.poll().reports]

        get_finished = get_finished_jobs  # its name in 0.22

        def _result(self, report: JobReport) -> Any:
            whole = len(report.landed) == self.sizes.pop(report.job_id)
            also: dict[str, Any] = {}
            if partly and not whole:
                also["successful_keys"] = [self.names.key(str(k)) for k in report.landed]
            return tier_base.JobResult(job_id=report.job_id, success=whole, **also)

        def on_new_request(self, req_context: Any) -> Any:
            wanted = self.hand.on_new_request(self.names.request(req_context))
            whole = policies is not None and wanted is StorePolicy.WHOLE_REQUEST
            if not whole:
                return base.RequestOffloadingContext()
            return base.RequestOffloadingContext(policy=policies.REQUEST_LEVEL)

        def on_request_finished(self, req_context: Any) -> None:
            self.hand.on_request_finished(self.names.request(req_context))

        def has_pending_work(self) -> bool:
            return False  # jobs are counted by the manager, and this tier has nothing else

        def drain_jobs(self) -> None:
            for job_id in list(self.hand.jobs):
                self.hand.end(job_id, ())

        def shutdown(self) -> None:
            self.hand.shutdown()

    return Hand


def detector(release: Release, hand: HandDrivenTier) -> Any:
    """Back-pressure by hand, for releases with a detector for each tier (0.31 and later)."""
    kind = detector_class(release)
    return None if kind is None else kind(hand)


def can_refuse(release: Release) -> bool:
    """Can a tier refuse stores? (0.31 and later)"""
    return (
        "backpressure_detector"
        in inspect.signature(release.tier_base.SecondaryTierManager.__init__).parameters
    )


@cache
def detector_class(release: Release) -> Any:
    """The detector's class; None where a release has no back-pressure."""
    if not can_refuse(release):
        return None
    module = release.module("vllm.v1.kv_offload.tiering.backpressure")

    class ByHand(module.BackpressureDetector):  # type: ignore[name-defined,misc]
        """Under pressure as long as the tier is told to refuse stores."""

        def __init__(self, hand: HandDrivenTier) -> None:
            super().__init__(policy=module.DropStorePolicy())
            self.hand = hand

        def on_store_completed(self, elapsed_s: float, num_bytes: int) -> None:
            """Nothing is learnt from transfers."""

        def is_under_pressure(self) -> bool:
            return "refuse stores" in self.hand.moods

        def reset(self) -> None:
            """Nothing was learnt."""

    return ByHand


def plug_in(
    release: Release, hands: Sequence[HandDrivenTier], names: Names, view: memoryview
) -> list[Any]:
    """The hand-driven tiers as tiers of the release, each of a medium and place of its own."""
    kind = tier_class(release)
    made = []
    for hand, (medium, locality) in zip(hands, places(release), strict=False):
        named = kind if medium is None else _of_medium(kind, medium)
        also: dict[str, Any] = {}
        if (found := detector(release, hand)) is not None:
            also["backpressure_detector"] = found
        tier = named(
            hand, names, offloading_spec=None, primary_kv_view=view, tier_type=hand.name, **also
        )
        if locality is not None:
            tier.locality = locality
        made.append(tier)
    return made


@cache
def _of_medium(kind: type, medium: Any) -> type:
    return type(kind.__name__, (kind,), {"medium": medium})


def can_fail_in_part(release: Release) -> bool:
    """Can a tier say which keys of a failed load have landed? (0.28 and later)"""
    return "successful_keys" in {f.name for f in fields(release.tier_base.JobResult)}


def places(release: Release) -> list[tuple[Any, Any]]:
    """(medium, locality) for each tier, all different, so that a filter can name one tier."""
    media, localities = (getattr(release.base, n, None) for n in ("Medium", "Locality"))
    if not can_filter(release) or media is None or localities is None:
        return [(None, None)] * 4
    return [(medium, locality) for medium in reversed(media) for locality in localities]


def can_filter(release: Release) -> bool:
    """Can a request say which tiers it may load from? (0.27 and later)"""
    return hasattr(release.base, "TierFilter")
