"""Streams in which an operation runs only when a schedule picks its stream: for tests.

`torch.cpu.Stream` is a stub that does nothing, and threads show a fault once in a thousand runs;
here the schedule is an argument, so that a search can look for the bad one and repeat it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from .queued import Operation, QueuedBackend, QueuedStream

if TYPE_CHECKING:
    from .backend import Event


class SteppedStream(QueuedStream):
    """Operations and waits in order; `step` does the first operation, if it is its turn."""

    def __init__(self) -> None:
        super().__init__()
        self._queue: deque[tuple[Operation | None, Event | None]] = deque()

    def put(self, operation: Operation) -> None:
        """Queue it until a step picks this stream."""
        self._queue.append((operation, None))

    def wait(self, event: Event) -> None:
        """As `Stream.wait`."""
        self._queue.append((None, event))

    @property
    def ready(self) -> bool:
        """Whether the first operation needs no event of another stream any more."""
        while self._queue:
            _, event = self._queue[0]
            if event is None:
                return True
            if not event.query():
                return False
            self._queue.popleft()
        return False

    def step(self) -> None:
        """Do the first operation. Only where `ready`."""
        operation, _ = self._queue.popleft()
        assert operation is not None
        operation()

    def close(self) -> None:
        """Drop what was not run."""
        self.closed = True
        self._queue.clear()


class SteppedBackend(QueuedBackend):
    """A device under a schedule.

    Args:
        choose: given how many streams are ready (at least 1), the index of the one that steps.
    """

    def __init__(self, choose: Callable[[int], int]) -> None:
        self._choose = choose
        self._streams: list[SteppedStream] = []
        self._current: SteppedStream | None = None

    def stream(self) -> SteppedStream:
        """A new stream."""
        self._streams.append(SteppedStream())
        return self._streams[-1]

    def current(self) -> SteppedStream:
        """One stream that stands for the caller's kernels."""
        if self._current is None:
            self._current = self.stream()
        return self._current

    def step(self) -> bool:
        """Let one ready stream do one thing; False when none is ready."""
        ready = [stream for stream in self._streams if stream.ready]
        if ready:
            ready[self._choose(len(ready))].step()
        return bool(ready)

    def close(self) -> None:
        """Drop what was not run."""
        for stream in self._streams:
            stream.close()
        self._streams.clear()
        self._current = None
