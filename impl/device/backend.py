"""What the device worker needs of a device: streams that run operations in order, and events.

Nothing here waits on the host. A stream waits for an event on the device's side; the host only
asks an event whether it has happened. So no caller can be made to wait for a copy by mistake.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import torch

    from ..arena import Arena


class Event(Protocol):
    """A point in a stream: happened once everything submitted before it there has ended."""

    def query(self) -> bool:
        """Whether it has happened. Never waits and never raises."""
        ...

    @property
    def error(self) -> BaseException | None:
        """What went wrong in its stream since the event before it; None until it has happened."""
        ...


class Stream(Protocol):
    """Operations in order, beside those of other streams. Submitting never waits.

    An operation that fails spoils the next event recorded in its stream and nothing else, where
    the device can tell; an operation that cannot even be submitted raises.
    """

    def wait(self, event: Event) -> None:
        """What is submitted here from now on runs after `event`, however that event's work went."""
        ...

    def record(self) -> Event:
        """An event behind everything submitted here so far."""
        ...

    def copy(self, target: torch.Tensor, source: torch.Tensor) -> None:
        """Copy between two contiguous tensors of one shape and dtype, host or device."""
        ...

    def gather(self, target: torch.Tensor, pool: torch.Tensor, ids: Sequence[int]) -> None:
        """`target[i] = pool[ids[i]]`: `pool` is (blocks, units), `target` (len(ids), units)."""
        ...

    def scatter(self, pool: torch.Tensor, ids: Sequence[int], source: torch.Tensor) -> None:
        """`pool[ids[i]] = source[i]`; no id is named twice."""
        ...


class DeviceBackend(Protocol):
    """A device: CUDA, threads that play one, or a schedule that a test writes."""

    def stream(self) -> Stream:
        """A new stream."""
        ...

    def current(self) -> Stream:
        """The stream in which the caller's own kernels run."""
        ...

    def buffer(self, rows: int, row_bytes: int) -> torch.Tensor:
        """Zeroed device memory, uint8 of shape (rows, row_bytes)."""
        ...

    def register(self, arena: Arena) -> torch.Tensor:
        """The arena's rows, uint8 of shape (slots, block_bytes), made ready for fast copies.

        Raises:
            ConfigError: the system does not let this much memory be pinned.
        """
        ...

    def close(self) -> None:
        """End what the backend started; idempotent. What was not run is not run any more."""
        ...
