"""What the backends without a GPU share: a stream is a queue of operations run somewhere else."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from .library import torch_library

if TYPE_CHECKING:
    import torch

    from ..arena import Arena
    from .backend import Event

Operation = Callable[[], None]


class QueuedEvent:
    """Happens when its stream reaches it."""

    def __init__(self) -> None:
        self.error: BaseException | None = None
        self._happened = False

    def query(self) -> bool:
        """Whether its stream has reached it."""
        return self._happened

    def happen(self, error: BaseException | None) -> None:
        """The stream has reached it; `error` is the first failure since the event before it."""
        self.error = error  # first: another thread that sees the event sees its error
        self._happened = True


class QueuedStream:
    """Turns calls into operations; a subclass says where they queue, who runs them, who waits."""

    def __init__(self) -> None:
        self._error: BaseException | None = None
        self.closed = False
        """Copies that have not run yet fail; events still happen, so that nobody sleeps on."""

    def put(self, operation: Operation) -> None:
        """Queue an operation behind what is there."""
        raise NotImplementedError

    def wait(self, event: Event) -> None:
        """As `Stream.wait`."""
        raise NotImplementedError

    def new_event(self) -> QueuedEvent:
        """An event of this backend."""
        return QueuedEvent()

    def record(self) -> QueuedEvent:
        """As `Stream.record`."""
        event = self.new_event()
        self.put(partial(self._reach, event))
        return event

    def copy(self, target: torch.Tensor, source: torch.Tensor) -> None:
        """As `Stream.copy`."""
        self.put(partial(self._attempt, lambda: target.copy_(source)))

    def gather(self, target: torch.Tensor, pool: torch.Tensor, ids: Sequence[int]) -> None:
        """As `Stream.gather`."""
        chosen = torch_library().tensor(ids)  # now: the caller may change its list afterwards
        self.put(partial(self._attempt, lambda: target.copy_(pool.index_select(0, chosen))))

    def scatter(self, pool: torch.Tensor, ids: Sequence[int], source: torch.Tensor) -> None:
        """As `Stream.scatter`."""
        chosen = torch_library().tensor(ids)
        self.put(partial(self._attempt, lambda: pool.index_copy_(0, chosen, source)))

    def _attempt(self, operation: Callable[[], object]) -> None:
        try:
            if self.closed:
                raise RuntimeError("the device backend was closed before this copy ran")
            operation()
        except Exception as error:
            self._error = self._error or error

    def _reach(self, event: QueuedEvent) -> None:
        error, self._error = self._error, None
        event.happen(error)


class QueuedBackend:
    """Memory without a device: buffers and pools lie beside the arena."""

    def buffer(self, rows: int, row_bytes: int) -> torch.Tensor:
        """As `DeviceBackend.buffer`."""
        library = torch_library()
        made: torch.Tensor = library.zeros(rows, row_bytes, dtype=library.uint8)
        return made

    def register(self, arena: Arena) -> torch.Tensor:
        """As `DeviceBackend.register`; there is nothing to pin."""
        return arena.as_tensor()
