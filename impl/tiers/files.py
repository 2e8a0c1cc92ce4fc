"""The file tier, layout *files*: one file a block, in a folder that processes may share."""

from __future__ import annotations

import math
import os
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial

from ..arena import Arena
from ..errors import ConfigError, TierError, TierProofError
from ..keys import Namespace, fingerprint, key_digester, namespace_digest
from .base import NOTHING, Claim, Key, LoadJob, Poll, RequestInfo, StoreJob, StorePolicy
from .block_file import file_bytes
from .block_folder import BlockFolder
from .file_capacity import FileCapacity
from .file_index import FileIndex
from .file_io import PAGE, FileIO, probe_direct
from .file_mover import FileMover
from .io_pool import IoPool
from .trouble import Trouble

_DIGESTS = 65_536
_SUSPECTS = 4_096
_VERIFICATIONS = 3
_VERIFY_SECONDS = 2.0
_CLEAR_SECONDS = 1.0
_JOIN_SECONDS = 1.0


class FileTier:
    """Keeps blocks as files below `root`; claims `T1` to `T11`.

    Nothing is synced to the platter: what was reported stored survives the death of the process,
    and after a power failure a block is either whole or a failed key.

    Args:
        root: Folder to keep blocks in; made when missing. Several processes and namespaces may
            share one.
        namespace: What changes the bytes or keeps users apart and is not in the keys. Tiers with
            different namespaces, or different sizes of blocks, never see each other's blocks.
        name: The tier's name within its manager.
        capacity_bytes: Bound on all block files below `root`, temporaries and other namespaces
            included (`file_bytes` says what a block takes); the least recently used make room.
            Processes that share a folder should agree on it. None: no bound.
        threads: Blocks that are moved at once.
        io_deadline: Seconds after which I/O that has not begun is cancelled and reported failed;
            None: never.
        queued_stores: Blocks that may wait to be stored; stores beyond are refused.
        direct: O_DIRECT: True insists, False declines, None uses it where it works and a block is
            a whole number of pages of 4096 bytes.
        shared: Whether other processes may add blocks. If so, a block that is not listed is looked
            for: the first lookup answers UNDECIDED, a later one the truth. If not, ABSENT at once.
        absent_seconds: How long, after it was first told, such an ABSENT is not looked for again.
        clock: Monotonic time in seconds.
        io: The system calls; tests pass their own.

    Raises:
        ConfigError: an argument is out of range, or the folder cannot be made or written.
    """

    def __init__(
        self,
        root: str | os.PathLike[str],
        *,
        namespace: str | bytes | Namespace = "",
        name: str = "files",
        capacity_bytes: int | None = None,
        threads: int = 4,
        io_deadline: float | None = 30.0,
        queued_stores: int = 256,
        direct: bool | None = None,
        shared: bool = True,
        absent_seconds: float = 1.0,
        clock: Callable[[], float] = time.monotonic,
        io: FileIO | None = None,
    ) -> None:
        _at_least("threads", threads, 1)
        _at_least("queued_stores", queued_stores, 1)
        _at_least("absent_seconds", absent_seconds, 0)
        if io_deadline is not None and not io_deadline > 0:
            raise ConfigError(f"io_deadline must be above 0 seconds or None, not {io_deadline!r}")
        if capacity_bytes is not None:
            _at_least("capacity_bytes", capacity_bytes, 1)
        self.name = name
        self._namespace = namespace_digest(namespace)
        self._limit = capacity_bytes
        self._shared = shared
        self._absent_seconds = absent_seconds
        self._clock = clock
        self._io = io or FileIO()
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
        self._open = True
        self._attached = False
        try:
            self._folder = BlockFolder(os.path.abspath(os.fspath(root)), self._io)
            try:
                self._direct = probe_direct(self._io, self._folder.temporary(), direct)
            except BaseException:
                self._folder.close()
                raise
        except OSError as error:
            raise ConfigError(
                f"tier {name!r}: cannot write to folder {os.fspath(root)!r} ({error.strerror}); "
                "give the process the right to, or name another root"
            ) from error

    def attach(self, arena: Arena) -> None:
        """Take the arena, start the workers, and begin to list the folder.

        Raises:
            ConfigError: the capacity is less than one block.
            TierError: attached before, or no threads to be had.
        """
        if self._attached:
            raise TierError(f"tier {self.name!r} is attached already; make one for each manager")
        size = file_bytes(arena.block_bytes)
        if self._limit is not None and self._limit < size:
            raise ConfigError(
                f"tier {self.name!r}: capacity_bytes={self._limit} is less than the {size} bytes "
                "that one block's file takes"
            )
        self._attached = True
        mark = fingerprint(self._namespace, arena.block_bytes)
        space = mark.hex()[:32]
        self._digest = key_digester(mark)
        self._index = FileIndex(
            size=size,
            space=space,
            shared=self._shared,
            absent_seconds=self._absent_seconds,
            clock=self._clock,
        )
        capacity = FileCapacity(
            self._folder,
            self._index,
            self._io,
            limit=self._limit,
            stop=lambda: self._pool.stopping,
            evicted=partial(self._count, "evicted"),
        )
        self._mover = FileMover(
            arena=arena,
            space=space,
            fingerprint=mark,
            direct=self._direct and arena.block_bytes % PAGE == 0,
            io=self._io,
            folder=self._folder,
            index=self._index,
            capacity=capacity,
            trouble=self._trouble,
            tell=self._count,
        )
        self._pool.hold_stores()  # until it is known how much room there is
        self._pool.start()
        self._pool.chore(self._list_folder)

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
            self._pool.chore(self._clear_folder)
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
        """Forget this namespace's blocks now and delete their files in the background.

        Jobs submitted before are reported failed, as are loads until the files are gone; stores
        wait for that.
        """
        self._check_attached()
        self._mover.generation += 1
        self._index.begin_clear()
        self._suspects.clear()
        self._pool.hold_stores()
        self._pool.chore(self._clear_folder)

    def drain(self, timeout: float) -> Sequence[int]:
        """Wait `timeout` seconds, then cancel what has not begun; ids of jobs still running."""
        return self._pool.drain(timeout)

    def shutdown(self) -> None:
        """Stop within about a second. A thread stuck in a call keeps the folder's lock."""
        if not self._open:
            return
        self._open = False
        if self._pool.shutdown(_JOIN_SECONDS):
            if self._attached and self._index.clearing:
                self._mover.clear()  # what was asked to be forgotten must not come back
            self._folder.close()

    # --- numbers ---

    @property
    def used_bytes(self) -> int:
        """Bytes of the block files that this process knows of."""
        return self._index.used if self._attached else 0

    @property
    def counters(self) -> Mapping[str, int]:
        """How often since the start: stored, already_stored, loaded, evicted, refused, expired,
        corrupt (files removed), vanished, io_errors.
        """
        with self._tally_lock:
            return Counter({**self._tally, "expired": self._pool.expired})

    @property
    def direct(self) -> bool:
        """Whether O_DIRECT works in the folder."""
        return self._direct

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

    def _list_folder(self) -> None:
        try:
            self._mover.list_folder()
        finally:
            self._pool.release_stores()

    def _clear_folder(self) -> None:
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
    """A key whose load failed while its file stayed: verified after a while, a few times."""

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


def _at_least(name: str, value: float, least: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float) or value < least:
        raise ConfigError(f"{name} must be a number of at least {least}, not {value!r}")
