"""The bench's clock: processor time of this thread, less what reading it takes.

A scheduler's thread is busy all the time; what it waits for because other programs run on the
same machine says nothing of a manager, and would be most of what a busy machine shows.
"""

from __future__ import annotations

from statistics import median
from time import thread_time


def _cost() -> float:
    """Seconds between two readings with nothing between them."""
    taken = []
    for _ in range(1000):
        began = thread_time()
        taken.append(thread_time() - began)
    return median(taken)


_COST = _cost()
_LEAST = 1e-9

now = thread_time


def since(began: float) -> float:
    """Seconds of processor time since `began`, which `now` gave."""
    return max(_LEAST, thread_time() - began - _COST)
