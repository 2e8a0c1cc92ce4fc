"""What every tier that moves blocks on worker threads has in common.

The scheduler's side lives here: names, claims, jobs, reports, suspects. Where the bytes go is the
business of a `Mover`, whose methods run on the workers of the `IoPool`.
"""

from __future__ import annotations

import math
import threading
from collections import Counter, deque
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Protocol

from ..arena import Arena
from ..errors import ConfigError, TierError, TierProofError
from ..keys import Namespace, fingerprint, key_digester, namespace_digest
from .base import NOTHING, Claim, Key, LoadJob, Poll, RequestInfo, StoreJob, StorePolicy
from .file_index import FileIndex
from .io_pool import IoPool
from .trouble import Trouble

MOST_THREADS = 1024
"""More do not help any disk or server, and making them takes the machine away from others."""
_DIGESTS = 65_536
_SUSPECTS = 4_096
_VERIFICATIONS = 3
_VERIFY_SECONDS = 2.0
_CLEAR_SECONDS = 1.0
_JOIN_SECONDS = 1.0


class Mover(Protocol):
    """Moves blocks of one namespace; every method runs on a worker and may take its time.

    `generation` is raised by every clear: what was begun before no longer counts.
    """

    generation: int

    def store(self, digest: bytes, slot: int, generation: int) -> bool:
        """Keep row `slot` under `digest`; True when it is there to be read."""

    def load(self, digest: bytes, slot: int, generation: int) -> bool:
        """Fill row `slot` with the block's bytes; False leaves anything in the row."""

    def look(self) -> bool:
        """Answer some of the index's questions; True when there are more."""

    def verify(self, digest: bytes) -> bool:
        """Read all of a suspect block without a slot; True when it is good again."""

    def list_blocks(self) -> None:
        """Tell the index what is there."""

    def clear(self) -> bool:
        """Remove every block of the namespace; False when that must be tried again."""

    def close(self, stopped: bool) -> None:
        """Let go of everything; not `stopped` when a thread is still in a call."""


class BlockTier:
    """A tier with workers: the scheduler's side of it.

    A subclass opens its store in `_open` (called by `attach`).

    Raises:
        ConfigError: an argument is out of range.
    """

    def __init__(
        self,
        name: str,
        *,
        namespace: str | bytes | Namespace,
        threads: int,
        io_deadline: float | None,
        queued_stores: int,
        clock: Callable[[], float],
    ) -> None:
        at_least("threads", threads, 1)
        if threads > MOST_THREADS:
            raise ConfigError(f"threads must be at most {MOST_THREADS:,}, not {threads!r}")
        at_least("queued_stores", queued_stores, 1)
        if io_deadline is not None and not io_deadline > 0:
            raise ConfigError(
                'io_deadline must be above 0 seconds, or None ("none" in a configuration), not '
                f"{io_deadline!r}"
            )
        self.name = name
        self._namespace = namespace_digest(namespace)
        self._clock = clock
        self._pool = IoPool(
            name, threads=threads, io_deadline=io_deadline, queued_stores=queued_stores, clock=clock
        )
        self._trouble = Trouble(name)
        self._tally_lock = threading.Lock()
        self._tally: Counter[str] = Counter()
        self._jobs: dict[int, tuple[bool, tuple[tuple[Key, bytes], ...]]] = {}
        self._digests: dict[Key, bytes] = {}
        self._suspects: dict[bytes, _Suspect] = {}
        self._verified: deque[Key] = deque()
        self._clear_again: deque[float] = deque()
        self._alive = True
        self._attached = False
        self._index: FileIndex
        self._mover: Mover

    def _open(self, arena: Arena, mark: bytes) -> tuple[FileIndex, Mover]:
        """Open the store for the namespace and size of blocks that `mark` stands for."""
        raise NotImplementedError

    def attach(self, arena: Arena) -> None:
        """Take the arena, start the workers, and begin to list what is there.

        Raises:
            ConfigError: the settings do not fit the size of a block.
            TierError: attached before, or no threads to be had.
        """
        if self._attached:
            raise TierError(f"tier {self.name!r} is attached already; make one for each manager")
        mark = fingerprint(self._namespace, arena.block_bytes)
        self._index, self._mover = self._open(arena, mark)
        self._digest = key_digester(mark)
        self._attached = True
        self._pool.hold_stores()  # until it is known how much room there is
        self._pool.start()
        self._pool.chore(self._list_blocks)

    def lookup(self, key: Key, request: RequestInfo) -> Claim:
        """From memory; UNDECIDED sends a worker to look.

        Raises:
            ConfigError: the key is no `BlockKey`, bytes or str.
        """
        digest = self._name(key)
        claim, send_worker = self._index.claim(digest)
        if send_worker:
            self._pool.ask(self._look)
        return claim

    def submit_load(self, job: LoadJob) -> None:
        """Queue the reads.

        Raises:
            TierError: after `shutdown`.
            ConfigError: a key is no `BlockKey`, bytes or str.
        """
        named = tuple((key, self._name(key)) for key in job.keys)
        generation = self._mover.generation
        units = [
            (key, partial(self._mover.load, digest, slot, generation))
            for (key, digest), slot in zip(named, job.slots, strict=True)
        ]
        self._pool.submit_load(job.job_id, units)
        self._index.begin_load(digest for _, digest in named)
        self._jobs[job.job_id] = (True, named)

    def submit_store(self, job: StoreJob) -> Collection[Key]:
        """Queue as many writes as there is room for; returns the keys beyond.

        Raises:
            TierError: after `shutdown`.
            ConfigError: a key is no `BlockKey`, bytes or str.
        """
        generation = self._mover.generation
        room = self._pool.store_room()
        named = tuple((key, self._name(key)) for key in job.keys)[:room]
        units = [
            (key, partial(self._mover.store, digest, slot, generation))
            for (key, digest), slot in zip(named, job.slots[:room], strict=True)
        ]
        refused = job.keys[room:]
        if named or not job.keys:
            self._index.begin_store(digest for _, digest in named)
            try:
                self._pool.submit_store(job.job_id, units)
            except TierProofError:
                for _, digest in named:
                    self._index.end_store(digest, False)
                raise
            self._jobs[job.job_id] = (False, named)
        if refused:
            self._count("refused", len(refused))
        return refused

    def poll(self) -> Poll:
        """Finished jobs; verdicts change here, on the scheduler's thread, with their report."""
        reports = self._pool.poll()
        for report in reports:
            is_load, named = self._jobs.pop(report.job_id)
            end = self._end_load if is_load else self._end_store
            for key, digest in named:
                end(key, digest, key in report.landed)
        if self._suspects:
            self._verify_due()
        if self._clear_again and self._clock() >= self._clear_again[0]:
            self._clear_again.popleft()
            self._pool.chore(self._clear_blocks)
        verified = []
        while self._verified:
            verified.append(self._verified.popleft())
        return Poll(reports, verified) if reports or verified else NOTHING

    def on_new_request(self, request: RequestInfo) -> StorePolicy:
        """Asks for newly stored blocks only."""
        return StorePolicy.NEW_BLOCKS

    def on_request_finished(self, request: RequestInfo) -> None:
        """Keeps nothing for each request."""

    def clear(self) -> None:
        """Forget this namespace's blocks now and delete them in the background.

        Jobs submitted before are reported failed, as are loads until the blocks are gone; stores
        wait for that.
        """
        self._check_attached()
        self._mover.generation += 1
        self._index.begin_clear()
        self._suspects.clear()
        self._pool.hold_stores()
        self._pool.chore(self._clear_blocks)

    def drain(self, timeout: float) -> Sequence[int]:
        """Wait `timeout` seconds, then cancel what has not begun; ids of jobs still running."""
        return self._pool.drain(timeout)

    def shutdown(self) -> None:
        """Stop within about a second. A thread stuck in a call keeps what it holds."""
        if not self._alive:
            return
        self._alive = False
        stopped = self._pool.shutdown(_JOIN_SECONDS)
        if self._attached:
            if stopped and self._index.clearing:
                self._mover.clear()  # what was asked to be forgotten must not come back
            self._mover.close(stopped)

    # --- numbers ---

    @property
    def used_bytes(self) -> int:
        """Bytes of the blocks that this process knows of, headers included."""
        return self._index.used if self._attached else 0

    @property
    def counters(self) -> Mapping[str, int]:
        """How often since the start: stored, already_stored, loaded, evicted, refused, expired,
        corrupt (blocks removed), vanished, io_errors.
        """
        with self._tally_lock:
            return Counter({**self._tally, "expired": self._pool.expired})

    # --- parts ---

    def _name(self, key: Key) -> bytes:
        digest = self._digests.get(key)
        if digest is None:
            self._check_attached()
            digest = self._digest(key)
            if len(self._digests) >= _DIGESTS:
                self._digests.clear()
            self._digests[key] = digest
        return digest

    def _check_attached(self) -> None:
        if not self._attached:
            raise TierError(f"tier {self.name!r} has no arena yet; call attach first")

    def _end_load(self, key: Key, digest: bytes, landed: bool) -> None:
        if self._index.end_load(digest, landed):
            suspect = self._suspects.get(digest)
            if suspect is None and len(self._suspects) < _SUSPECTS:
                suspect = self._suspects[digest] = _Suspect(key)
            if suspect is not None:
                suspect.wait(self._clock())

    def _end_store(self, key: Key, digest: bytes, landed: bool) -> None:
        self._index.end_store(digest, landed)
        if landed:
            self._suspects.pop(digest, None)

    def _verify_due(self) -> None:
        now = self._clock()
        for digest, suspect in self._suspects.items():
            if suspect.due <= now:
                suspect.wait(now)
                self._pool.chore(partial(self._verify, digest, suspect))

    def _verify(self, digest: bytes, suspect: _Suspect) -> None:
        if self._mover.verify(digest):
            suspect.due = math.inf  # until a load fails again
            self._verified.append(suspect.key)

    def _look(self) -> None:
        if self._mover.look():
            self._pool.ask(self._look)

    def _list_blocks(self) -> None:
        try:
            self._mover.list_blocks()
        finally:
            self._pool.release_stores()

    def _clear_blocks(self) -> None:
        cleared = False
        try:
            cleared = self._mover.clear()
        finally:
            if cleared:
                self._index.end_clear()
                self._pool.release_stores()
            else:
                self._clear_again.append(self._clock() + _CLEAR_SECONDS)

    def _count(self, what: str, number: int = 1) -> None:
        with self._tally_lock:
            self._tally[what] += number


class _Suspect:
    """A key whose load failed while it stayed where it is: verified after a while, a few times."""

    __slots__ = ("attempts", "due", "key")

    def __init__(self, key: Key) -> None:
        self.key = key
        self.attempts = 0
        self.due = math.inf

    def wait(self, now: float) -> None:
        """Set the time of the next attempt, in seconds of the tier's clock; at last, never."""
        self.due = now + _VERIFY_SECONDS * 2**self.attempts
        self.attempts += 1
        if self.attempts > _VERIFICATIONS:
            self.due = math.inf


def at_least(name: str, value: float, least: float) -> None:
    """Refuse a setting that is no number or too small.

    Raises:
        ConfigError: it is; the message names the setting.
    """
    if isinstance(value, bool) or not isinstance(value, int | float) or value < least:
        raise ConfigError(f"{name} must be a number of at least {least}, not {value!r}")
