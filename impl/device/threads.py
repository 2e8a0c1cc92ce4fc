"""A thread for each stream: real concurrency on a machine without a GPU."""

from __future__ import annotations

import queue
import threading
from typing import TYPE_CHECKING

from .queued import Operation, QueuedBackend, QueuedEvent, QueuedStream

if TYPE_CHECKING:
    from .backend import Event


class ThreadEvent(QueuedEvent):
    """An event that another stream's thread can sleep on."""

    def __init__(self) -> None:
        super().__init__()
        self._reached = threading.Event()

    def happen(self, error: BaseException | None) -> None:
        """Reached: wake the streams that wait."""
        super().happen(error)
        self._reached.set()

    def sleep(self) -> None:
        """Until reached. Only a stream's own thread may call this."""
        self._reached.wait()


class ThreadStream(QueuedStream):
    """A FIFO queue and the thread that empties it."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self._queue: queue.SimpleQueue[Operation | None] = queue.SimpleQueue()
        self._thread = threading.Thread(
            target=self._work, name=f"tierproof-stream-{number}", daemon=True
        )
        self._thread.start()

    def put(self, operation: Operation) -> None:
        """Queue it; the thread takes it in turn."""
        self._queue.put(operation)

    def wait(self, event: Event) -> None:
        """As `Stream.wait`: the stream's thread sleeps, not the caller."""
        if not isinstance(event, ThreadEvent):
            raise TypeError(f"an event of another backend: {event!r}")
        self.put(event.sleep)

    def new_event(self) -> ThreadEvent:
        """An event that threads can sleep on."""
        return ThreadEvent()

    def _work(self) -> None:
        while (operation := self._queue.get()) is not None:
            operation()
            del operation  # an idle thread must not keep the last copy's tensors alive

    def close(self, timeout: float) -> None:
        """End the thread behind what is queued; copies that have not run fail."""
        self.closed = True
        self._queue.put(None)
        self._thread.join(timeout)


class ThreadBackend(QueuedBackend):
    """Streams as threads; `torch` releases the GIL in its copies, so they overlap."""

    def __init__(self) -> None:
        self._streams: list[ThreadStream] = []
        self._current: ThreadStream | None = None

    def stream(self) -> ThreadStream:
        """A new stream with its thread."""
        self._streams.append(ThreadStream(len(self._streams)))
        return self._streams[-1]

    def current(self) -> ThreadStream:
        """One stream that stands for the caller's kernels."""
        if self._current is None:
            self._current = self.stream()
        return self._current

    def close(self, timeout: float = 5.0) -> None:
        """End the threads."""
        streams, self._streams, self._current = self._streams, [], None
        for stream in streams:
            stream.closed = True  # all first: one may wait for another
        for stream in streams:
            stream.close(timeout)
