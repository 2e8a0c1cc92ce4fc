"""The file tier of a vLLM release behind our protocol, so that one loop drives both and times both.

The release's files run as they are, from the cache of `fetch-vllm`: its thread pool with its own
numbers of threads, its names and folders, its O_DIRECT. Its C extension does the I/O where it can
be loaded. That file is linked against torch's CUDA libraries (none of whose functions it calls), so
without them the release falls back to its own Python loop, and is measured with it.
"""

from __future__ import annotations

import importlib
import shutil
from collections.abc import Collection, Sequence
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from ..impl.arena import Arena
from ..impl.tiers.base import (
    NOTHING,
    Claim,
    JobReport,
    Key,
    LoadJob,
    Poll,
    RequestInfo,
    StoreJob,
    StorePolicy,
)
from .managers import UsageError
from .vllm_cache import EXTENSION, folder_of
from .vllm_loader import Release, load

VERSION = "0.33.0"
"""The release that the file tiers are compared with."""
_MANAGER = "vllm.v1.kv_offload.tiering.fs.manager"
_EXTENSION = "vllm.fs_io_C"


def stock_release() -> tuple[Release, str]:
    """The release, and what moves its bytes: its C extension, or its Python loop and why.

    Raises:
        UsageError: it is not in the cache, or its file tier cannot be loaded.
    """
    folder = folder_of(VERSION)
    compiled = any(folder.glob(f"{EXTENSION}*"))
    if compiled:
        with suppress(ImportError, OSError):  # a CUDA build brings the libraries that it wants
            importlib.import_module("torch")
    release = load(VERSION)
    try:
        release.module(_MANAGER)
    except ImportError as error:
        raise UsageError(f"the file tier of vLLM {VERSION} could not be loaded: {error}") from error
    if not compiled:
        why = (
            f"its C extension is not in the cache; to have it, remove {folder} and run "
            f"tierproof fetch-vllm {VERSION}"
        )
        return release, f"its own Python loop ({why})"
    try:
        importlib.import_module(_EXTENSION)
    except ImportError as error:
        return release, f"its own Python loop (its C extension cannot be loaded here: {error})"
    return release, "its C extension"


class StockFileTier:
    """A secondary tier of ours whose work the release's FileSystemTierManager does.

    Only what a measurement needs: no lookups.

    Args:
        release: from `stock_release`.
        root: a folder for it alone.
    """

    name = f"vLLM {VERSION}"

    def __init__(self, release: Release, root: Path) -> None:
        self._release = release
        self._root = root
        self._open: dict[int, tuple[Key, ...]] = {}
        self._request = release.base.ReqContext(req_id="measured")
        self._tier: Any = None

    def attach(self, arena: Arena) -> None:
        """Build the release's tier over the arena's rows."""
        rows = np.frombuffer(arena.view, np.uint8).reshape(arena.slots, arena.block_bytes)
        kind = self._release.module(_MANAGER).FileSystemTierManager
        self._tier = kind(
            offloading_spec=_spec(),
            primary_kv_view=memoryview(rows),  # type: ignore[arg-type]
            tier_type="fs",
            root_dir=str(self._root),
        )

    @property
    def direct(self) -> bool:
        """Whether it uses O_DIRECT here."""
        return bool(self._tier._use_o_direct)

    def lookup(self, key: Key, request: RequestInfo) -> Claim:
        """Not measured."""
        raise NotImplementedError("the stock tier is only driven, never asked")

    def submit_load(self, job: LoadJob) -> None:
        """Queue the job as the release's own manager does."""
        self._tier.submit_load(self._job(job, is_promotion=True))

    def submit_store(self, job: StoreJob) -> Collection[Key]:
        """Queue the job; it refuses nothing."""
        self._tier.submit_store(self._job(job, is_promotion=False))
        return ()

    def _job(self, job: LoadJob | StoreJob, *, is_promotion: bool) -> Any:
        self._open[job.job_id] = job.keys
        make = self._release.base.make_offload_key
        return self._release.tier_base.TransferJob(
            job_id=job.job_id,
            keys=[
                make(blake2b(repr(key).encode(), digest_size=32).digest(), 0) for key in job.keys
            ],
            chunk_ids=np.array(job.slots, dtype=np.int64),
            is_promotion=is_promotion,
            req_context=self._request,
        )

    def poll(self) -> Poll:
        """The jobs that have ended."""
        finished = self._tier.get_finished_jobs()
        reports = []
        for result in finished:
            keys = self._open.pop(result.job_id)
            reports.append(JobReport(result.job_id, frozenset(keys if result.success else ())))
        return Poll(reports) if reports else NOTHING

    def on_new_request(self, request: RequestInfo) -> StorePolicy:
        """As our own file tiers."""
        return StorePolicy.NEW_BLOCKS

    def on_request_finished(self, request: RequestInfo) -> None:
        """Nothing is kept for a request."""

    def clear(self) -> None:
        """Delete every block's file; the release has no such call."""
        for entry in self._root.glob("*_r*"):
            shutil.rmtree(entry)

    def drain(self, timeout: float) -> Sequence[int]:
        """Wait for its pool, however long that takes."""
        self._tier.drain_jobs()
        return ()

    def shutdown(self) -> None:
        """End its threads."""
        self._tier.shutdown()


def _spec() -> Any:
    """What its tier reads of an engine's configuration: the parts of a folder's name."""
    return SimpleNamespace(
        config=SimpleNamespace(
            model=SimpleNamespace(name="measured", dtype="bfloat16"),
            cache=SimpleNamespace(tokens_per_hash=16),
            parallel=SimpleNamespace(
                tp_size=1, pp_size=1, pcp_size=1, dcp_size=1, rank=0, is_parallelism_agnostic=True
            ),
            groups=(),
            replicated_layout=False,
            canonical_layout=False,
            kv_cache_layout=None,
        ),
        blocks_per_chunk=1,
        kv_events_config=None,
    )
