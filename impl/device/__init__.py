"""Copies between the arena and a device's KV blocks: the only part of `impl` that needs torch.

Importing it does not import torch; building a backend or a worker does.
"""

from .backend import DeviceBackend, Event, Stream
from .cuda import CudaBackend
from .layout import KvTensor
from .stepped import SteppedBackend
from .threads import ThreadBackend
from .worker import DeviceWorker, JobEnd, report

__all__ = [
    "CudaBackend",
    "DeviceBackend",
    "DeviceWorker",
    "Event",
    "JobEnd",
    "KvTensor",
    "SteppedBackend",
    "Stream",
    "ThreadBackend",
    "report",
]
