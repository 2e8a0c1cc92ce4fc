"""CUDA through torch: side streams, asynchronous copies, the arena pinned where it lies.

Every line of this module needs a GPU, and none outside it does: coverage leaves it out by name.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import ConfigError
from .library import torch_library

if TYPE_CHECKING:
    import torch

    from ..arena import Arena
    from .backend import Event


class CudaEvent:
    """A CUDA event, asked and never waited for on the host."""

    def __init__(self, event: Any) -> None:
        self.event = event
        self.error: BaseException | None = None

    def query(self) -> bool:
        """Whether it has happened; a broken device counts as happened, with its error."""
        try:
            return bool(self.event.query())
        except RuntimeError as error:
            self.error = error
            return True


class CudaStream:
    """A CUDA stream of torch."""

    def __init__(self, stream: Any) -> None:
        self._torch = torch_library()
        self._stream = stream

    def wait(self, event: Event) -> None:
        """As `Stream.wait`."""
        if not isinstance(event, CudaEvent):
            raise TypeError(f"an event of another backend: {event!r}")
        self._stream.wait_event(event.event)

    def record(self) -> CudaEvent:
        """As `Stream.record`."""
        event = self._torch.cuda.Event()
        event.record(self._stream)
        return CudaEvent(event)

    def copy(self, target: torch.Tensor, source: torch.Tensor) -> None:
        """As `Stream.copy`; asynchronous because the host's side is pinned."""
        with self._torch.cuda.stream(self._stream):
            target.copy_(source, non_blocking=True)
            self._hold(target, source)

    def gather(self, target: torch.Tensor, pool: torch.Tensor, ids: Sequence[int]) -> None:
        """As `Stream.gather`."""
        with self._torch.cuda.stream(self._stream):
            chosen = self._on_device(ids, pool)
            if target.is_contiguous():
                self._torch.index_select(pool, 0, chosen, out=target)
            else:
                target.copy_(pool.index_select(0, chosen))
            self._hold(target, pool)

    def scatter(self, pool: torch.Tensor, ids: Sequence[int], source: torch.Tensor) -> None:
        """As `Stream.scatter`."""
        with self._torch.cuda.stream(self._stream):
            pool.index_copy_(0, self._on_device(ids, pool), source)
            self._hold(source, pool)

    def _on_device(self, ids: Sequence[int], pool: torch.Tensor) -> torch.Tensor:
        # From pageable memory the copy would wait for the stream, and so would the caller.
        pinned = self._torch.tensor(ids, dtype=self._torch.int64).pin_memory()
        moved: torch.Tensor = pinned.to(pool.device, non_blocking=True)
        return moved

    def _hold(self, *tensors: torch.Tensor) -> None:
        # Their memory was allocated under another stream: it is not given to someone else before
        # this stream has passed here, even when the last Python reference goes.
        for tensor in tensors:
            if tensor.is_cuda:
                tensor.record_stream(self._stream)


class CudaBackend:
    """One CUDA device.

    Args:
        device: its index.

    Raises:
        ConfigError: torch is not installed or sees no such device.
    """

    def __init__(self, device: int = 0) -> None:
        self._torch = torch_library()
        count = self._torch.cuda.device_count() if self._torch.cuda.is_available() else 0
        if not 0 <= device < count:
            raise ConfigError(
                f"torch sees {count} CUDA devices, so there is no device {device}; install a build "
                "of torch for your GPU, or use the threads backend"
            )
        self.device = self._torch.device("cuda", device)

    def stream(self) -> CudaStream:
        """A side stream."""
        return CudaStream(self._torch.cuda.Stream(self.device))

    def current(self) -> CudaStream:
        """The stream in which the calling thread's kernels run now."""
        return CudaStream(self._torch.cuda.current_stream(self.device))

    def buffer(self, rows: int, row_bytes: int) -> torch.Tensor:
        """As `DeviceBackend.buffer`."""
        shape, dtype = (rows, row_bytes), self._torch.uint8
        made: torch.Tensor = self._torch.zeros(shape, dtype=dtype, device=self.device)
        # At start, once: the side streams must find the zeros.
        self._torch.cuda.current_stream(self.device).synchronize()
        return made

    def register(self, arena: Arena) -> torch.Tensor:
        """As `DeviceBackend.register`: page-locks the arena until it is released."""
        rows = arena.as_tensor()
        runtime, address = self._torch.cuda.cudart(), rows.data_ptr()
        with self._torch.cuda.device(self.device):
            code = int(runtime.cudaHostRegister(address, rows.numel(), 0))
        if code:
            raise ConfigError(
                f"cudaHostRegister could not pin {rows.numel():,} bytes (error {code}); raise "
                "`ulimit -l`, or choose fewer slots"
            )
        arena.before_release(lambda: runtime.cudaHostUnregister(address) and None)
        return rows

    def numa_node(self) -> int | None:
        """The NUMA node that the device is attached to, for `Arena(numa_node=...)`."""
        found = self._torch.cuda.get_device_properties(self.device)
        try:
            place = f"{found.pci_domain_id:04x}:{found.pci_bus_id:02x}:{found.pci_device_id:02x}.0"
            node = int(Path("/sys/bus/pci/devices", place, "numa_node").read_text())
        except (AttributeError, OSError, ValueError):
            return None
        return node if node >= 0 else None

    def close(self) -> None:
        """Nothing to end: torch owns the streams."""
