"""Which boundary is the hit? Found out by existence alone, before anything is promoted.

Boundaries are tried from the longest down; a chunk that is missing bounds the hit where the chunk
begins, so each key is asked about at most once. On a tier that answers at once nothing is asked
that the next boundary would not read. Once a tier has not answered at once, everything that any
boundary may need is asked together, so that the next round can decide.
"""

from __future__ import annotations

from collections.abc import Iterator

from .answers import Asked
from .manager import TieredOffloadingManager

Chunk = tuple[int, int]
FIRST_BATCH = 32
"""Chunks of a full group that are asked about together; each batch is twice the one before it."""


class Resolution:
    """One request's search for its hit, over as many steps as the tiers take."""

    def __init__(self, manager: TieredOffloadingManager, asked: Asked) -> None:
        self._manager = manager
        self._asked = asked
        self._there: dict[Chunk, bool] = {}
        self._top = asked.geometry.limit(asked.prompt)
        self._done: dict[int, int] = {}
        """Full group -> the first chunk that is not known to be there."""
        order = asked.geometry.in_order()
        full = [g for g in order if asked.geometry.lanes[g].full]
        # the shortest runs first: a boundary that is given up should have cost little
        self._order = full + [g for g in reversed(order) if g not in full]
        self._together = False
        """A tier has not answered at once: everything has been asked."""

    def forget(self, keys: frozenset[object]) -> None:
        """Blocks have been lost since: ask again about them, and go on from where we are."""
        lost = [at for at in self._there if self._asked.key_of(*at) in keys]
        for at in lost:
            del self._there[at]
            if at[0] in self._done:
                self._done[at[0]] = min(self._done[at[0]], at[1])

    def step(self) -> int | None:
        """Tokens of the hit, 0 when there is none; None while a tier has not decided."""
        geometry, prompt = self._asked.geometry, self._asked.prompt
        while hit := geometry.boundary(prompt, self._top):
            for group in self._order:
                chunks = geometry.lanes[group].asks(hit, prompt.on_gpu)
                missing = self._first_missing(group, chunks)
                if missing is None:
                    return None
                if missing >= 0:
                    self._top = min(hit - 1, geometry.below(group, missing))
                    break
            else:
                return hit
        return 0

    def _first_missing(self, group: int, chunks: range) -> int | None:
        """The first chunk that is not there, -1 when all are; None while it is not decided."""
        full = self._asked.geometry.lanes[group].full
        if full:
            chunks = range(max(chunks.start, self._done.get(group, 0)), chunks.stop)
        for batch in _batches(chunks) if full else (chunks,):
            if not self._ask([(group, chunk) for chunk in batch]):
                return None
            for chunk in batch:
                if not self._there[group, chunk]:
                    return chunk
            if full:
                self._done[group] = batch.stop
        return -1

    def _ask(self, chunks: list[Chunk]) -> bool:
        """Is it known of all of them whether they are there?"""
        asked, there = self._asked, self._there
        new = [at for at in chunks if at not in there]
        if not new:
            return True
        undecided = self._hear(new)
        if undecided and not self._together:
            self._together = True
            more = asked.geometry.reachable(asked.prompt)
            self._hear([at for at in more if at not in there and at not in undecided])
        return not undecided

    def _hear(self, chunks: list[Chunk]) -> set[Chunk]:
        """Ask, note what is decided, and return what is not."""
        answers = self._manager.exists(self._asked.keys(chunks), self._asked.request)
        undecided = set()
        for at, answer in zip(chunks, answers, strict=True):
            if answer is None:
                undecided.add(at)
            else:
                self._there[at] = answer
        return undecided


def _batches(chunks: range) -> Iterator[range]:
    start, size = chunks.start, FIRST_BATCH
    while start < chunks.stop:
        yield range(start, min(chunks.stop, start + size))
        start, size = start + size, size * 2
