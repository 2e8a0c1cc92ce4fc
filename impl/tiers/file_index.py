"""What a file tier knows of its folder without looking: claims, their doubts, and recency.

Everything a lookup answers comes from here, in memory, so that a lookup never waits. What is not
known becomes a *question* for a worker: a block that is not listed may have been written by another
process, one listed before trouble must be looked at again. An answer counts only while its question
still stands; a store, a failure or a clear in between withdraws the question (`T5`).
"""

from __future__ import annotations

import threading
from collections import OrderedDict, deque
from collections.abc import Callable, Collection, Iterable
from itertools import count

from .base import Claim
from .block_folder import FoundBlock

_QUESTIONS = 65_536
_ABSENT = 262_144


class Entry:
    """A file believed to be there: its size in bytes, recency in nanoseconds, and folder.

    `checked` is when that was last seen, in seconds of the index's clock; None: a worker has just
    found out, for somebody who has not heard it yet.
    """

    __slots__ = ("checked", "size", "space", "stamp", "trust")

    def __init__(
        self, size: int, stamp: int, space: str, trust: int, checked: float | None
    ) -> None:
        self.size = size
        self.stamp = stamp
        self.space = space
        self.trust = trust
        self.checked = checked


class FileIndex:
    """Claims by digest, oldest first. Safe to use from several threads; never does I/O.

    `size` is what a block's file must have. With `shared` a block that is not listed is asked for,
    and an "absent" is believed for `absent_seconds` after it was first told. A "present" is
    believed for `present_seconds`: a server may evict what nobody here has deleted; None: until
    somebody finds it gone. Either answer is told to the first who asks for it, however late: a
    scheduler whose steps are longer than that would else never hear one.
    """

    def __init__(
        self,
        *,
        size: int,
        space: str,
        shared: bool,
        absent_seconds: float,
        clock: Callable[[], float],
        present_seconds: float | None = None,
    ) -> None:
        self._present_seconds = float("inf") if present_seconds is None else present_seconds
        self._size = size
        self._space = space
        self._shared = shared
        self._absent_seconds = absent_seconds
        self._clock = clock
        self._lock = threading.Lock()
        self._entries: OrderedDict[bytes, Entry] = OrderedDict()
        self._trust = 0
        self._listed = False
        self._clearing = 0
        self._used = 0
        self._tokens = count()
        self._asked: dict[bytes, int] = {}
        self._questions: deque[tuple[bytes, int]] = deque()
        self._absent: dict[bytes, float | None] = {}
        self._suspect: set[bytes] = set()
        self._storing: dict[bytes, int] = {}
        self._hidden: dict[bytes, int] = {}
        self._loading: dict[bytes, int] = {}
        self._journal: set[bytes] | None = None
        self._listing_trust = 0
        self._cleared = False

    # --- lookups ---

    def claim(self, digest: bytes) -> tuple[Claim, bool]:
        """The answer for a block, and whether a worker must be sent to `take_questions`."""
        with self._lock:
            entry = self._entries.get(digest)
            hidden = digest in self._hidden
            if entry is not None and self._believed_present(entry):
                if hidden:
                    return Claim.ABSENT, False
                self._entries.move_to_end(digest)
                return Claim.PRESENT, False
            if hidden or self._clearing or digest in self._suspect:
                return Claim.ABSENT, False
            if entry is None and self._listed and not self._shared:
                return Claim.ABSENT, False
            if digest in self._asked:
                return Claim.UNDECIDED, False
            if self._believed_absent(digest):
                return Claim.ABSENT, False
            if len(self._asked) >= _QUESTIONS:
                return Claim.UNDECIDED, False
            self._asked[digest] = token = next(self._tokens)
            self._questions.append((digest, token))
            return Claim.UNDECIDED, len(self._questions) == 1

    def take_questions(self, limit: int) -> tuple[list[tuple[bytes, int]], bool]:
        """Up to `limit` questions that still stand, and whether another worker must be sent."""
        with self._lock:
            taken: list[tuple[bytes, int]] = []
            while self._questions and len(taken) < limit:
                digest, token = self._questions.popleft()
                if self._asked.get(digest) == token:
                    taken.append((digest, token))
            return taken, bool(self._questions)

    def _believed_present(self, entry: Entry) -> bool:
        if entry.trust != self._trust or entry.size != self._size:
            return False
        now = self._clock()
        if entry.checked is None:
            entry.checked = now
            return True
        return now - entry.checked < self._present_seconds

    def _believed_absent(self, digest: bytes) -> bool:
        if digest not in self._absent:
            return False
        now = self._clock()
        told = self._absent[digest]
        if told is None:  # the first to hear it, however late
            self._absent[digest] = now
            return True
        if now - told < self._absent_seconds:
            return True
        del self._absent[digest]
        return False

    def answer(self, digest: bytes, token: int, found: FoundBlock | None) -> None:
        """A worker's answer; dropped when the question no longer stands."""
        with self._lock:
            if self._asked.get(digest) != token:
                return
            del self._asked[digest]
            if found is None:
                self._drop(digest)
                self._believe_absent(digest)
            else:
                self._put(digest, found.size, found.stamp, found.space)
                self._entries[digest].checked = None

    def unanswered(self, digest: bytes, token: int) -> None:
        """A worker could not tell: ABSENT for a while, but the file stays listed."""
        with self._lock:
            if self._asked.get(digest) == token:
                del self._asked[digest]
                self._believe_absent(digest)

    # --- jobs; all but `landed` and `vanished` are called by the scheduler's thread ---

    def begin_store(self, digests: Iterable[bytes]) -> None:
        """Stores have been submitted: what is not claimed now is not claimed before the report."""
        with self._lock:
            for digest in digests:
                entry = self._entries.get(digest)
                self._storing[digest] = self._storing.get(digest, 0) + 1
                if entry is None or entry.trust != self._trust or digest in self._hidden:
                    self._hidden[digest] = self._hidden.get(digest, 0) + 1
                self._asked.pop(digest, None)

    def end_store(self, digest: bytes, landed: bool) -> None:
        """A store has been reported: landed, it is claimed; failed, an older claim is doubted."""
        with self._lock:
            _decrement(self._storing, digest)
            self._absent.pop(digest, None)
            self._asked.pop(digest, None)
            if landed:
                self._hidden.pop(digest, None)
                self._suspect.discard(digest)
                return
            _decrement(self._hidden, digest)
            if (entry := self._entries.get(digest)) is not None:
                entry.trust = -1

    def begin_load(self, digests: Iterable[bytes]) -> None:
        """Loads have been submitted: their files are not evicted."""
        with self._lock:
            for digest in digests:
                self._loading[digest] = self._loading.get(digest, 0) + 1

    def end_load(self, digest: bytes, landed: bool) -> bool:
        """A load has been reported; True if its file is still there and under suspicion now."""
        with self._lock:
            _decrement(self._loading, digest)
            if landed:
                return False
            self._asked.pop(digest, None)
            if digest not in self._entries or digest in self._storing:
                return False
            self._entries[digest].trust = -1
            self._suspect.add(digest)
            return True

    def touch(self, digest: bytes, stamp: int) -> None:
        """A worker has read the file and set its time."""
        with self._lock:
            if (entry := self._entries.get(digest)) is not None:
                entry.stamp = stamp
                entry.checked = self._clock()
                self._entries.move_to_end(digest)

    def landed(self, digest: bytes, size: int, stamp: int) -> None:
        """A worker has written the file (it is claimed when the job is reported)."""
        with self._lock:
            self._put(digest, size, stamp, self._space)

    def entry(self, digest: bytes) -> Entry | None:
        """What is listed, for `vanished`."""
        return self._entries.get(digest)

    def vanished(self, digest: bytes, listed: Entry | None = None) -> bool:
        """A worker found no file, or removed it; True if it was listed.

        `listed` is what was so before the worker looked: a block that has landed since stays.
        """
        with self._lock:
            if listed is not None and self._entries.get(digest, listed) is not listed:
                return False
            self._asked.pop(digest, None)
            return self._drop(digest)

    def suspected(self, digest: bytes) -> bool:
        """Whether the file's last load failed and nobody has verified it since."""
        with self._lock:
            return digest in self._suspect

    def cleared_of_suspicion(self, digest: bytes) -> bool:
        """A worker has verified the whole file; False if that no longer matters."""
        with self._lock:
            if digest not in self._suspect or digest not in self._entries:
                return False
            self._suspect.discard(digest)
            self._entries[digest].trust = self._trust
            self._entries[digest].checked = self._clock()
            return True

    # --- the whole folder ---

    def distrust(self) -> None:
        """There was trouble: every claim is looked at again before it is repeated."""
        with self._lock:
            self._trust += 1
            self._asked.clear()
            self._absent.clear()

    def begin_clear(self) -> None:
        """Forget every block of this namespace and answer ABSENT until `end_clear`."""
        with self._lock:
            self._clearing += 1
            self._cleared = True
            for digest in [d for d, e in self._entries.items() if e.space == self._space]:
                self._drop(digest)
            self._asked.clear()
            self._absent.clear()
            self._suspect.clear()

    def end_clear(self) -> None:
        """The files are gone too."""
        with self._lock:
            self._clearing -= 1

    def begin_listing(self) -> None:
        """A scan begins; changes from now on win over what it finds."""
        with self._lock:
            self._journal = set()
            self._listing_trust = self._trust
            self._cleared = self._clearing > 0  # the files are there until that has ended

    def abandon_listing(self) -> None:
        """The scan came to nothing."""
        with self._lock:
            self._journal = None

    def end_listing(self, found: Collection[FoundBlock], *, complete: bool) -> None:
        """Take what a scan found; a `complete` one also drops what it did not find."""
        with self._lock:
            known = dict(self._entries)
            trust = self._listing_trust
        listed: OrderedDict[bytes, Entry] = OrderedDict()
        for block in sorted(found, key=lambda block: block.stamp):
            entry = known.get(block.digest)
            if entry is None:
                entry = Entry(block.size, block.stamp, block.space, trust, self._clock())
            listed[block.digest] = entry
        with self._lock:
            changed = self._journal or set()
            self._journal = None
            if not complete:
                changed.update(known.keys() - listed.keys())
            if self._cleared:
                changed.update(block.digest for block in found if block.space == self._space)
            for digest in changed:
                listed.pop(digest, None)
                if (entry := self._entries.get(digest)) is not None:
                    listed[digest] = entry
            self._entries = listed
            self._used = sum(entry.size for entry in listed.values())
            self._listed = True

    def victim(self) -> tuple[bytes, Entry] | None:
        """The least recent block whose file no job of ours needs, forgotten now; or None."""
        with self._lock:
            for digest, entry in self._entries.items():
                if digest not in self._loading and digest not in self._storing:
                    self._drop(digest)
                    self._asked.pop(digest, None)
                    return digest, entry
            return None

    def spare(self, digest: bytes, entry: Entry, stamp: int) -> None:
        """A victim that another process used at `stamp`: listed again, as most recent."""
        with self._lock:
            self._put(digest, entry.size, stamp, entry.space)
            self._entries[digest].trust = entry.trust

    @property
    def clearing(self) -> bool:
        """Whether a clear has begun and not ended."""
        return self._clearing > 0

    @property
    def used(self) -> int:
        """Bytes of all listed files."""
        return self._used

    def __len__(self) -> int:
        return len(self._entries)

    # --- with the lock held ---

    def _believe_absent(self, digest: bytes) -> None:
        if len(self._absent) >= _ABSENT:
            self._absent.clear()
        self._absent[digest] = None

    def _put(self, digest: bytes, size: int, stamp: int, space: str) -> None:
        self._drop(digest)
        self._entries[digest] = Entry(size, stamp, space, self._trust, self._clock())
        self._used += size

    def _drop(self, digest: bytes) -> bool:
        if self._journal is not None:
            self._journal.add(digest)
        self._suspect.discard(digest)
        entry = self._entries.pop(digest, None)
        if entry is None:
            return False
        self._used -= entry.size
        return True


def _decrement(counts: dict[bytes, int], digest: bytes) -> None:
    left = counts.get(digest, 0) - 1
    if left > 0:
        counts[digest] = left
    else:
        counts.pop(digest, None)
