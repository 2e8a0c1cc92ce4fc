"""One run from its beginning to its end: both processes, what happens between them, the comparison.

Needs neither typer nor rich, and of torch only that the two processes find it.
"""

from __future__ import annotations

import time

from .outcome import Outcome
from .processes import Progress, in_new_process
from .secondary import flip as flip_byte
from .settings import Settings


def run(settings: Settings, progress: Progress, *, flip: bool = False) -> Outcome:
    """Write in one process, flip a byte if wanted, resume in another, compare.

    Raises:
        ConfigError: the device or the tier cannot be had.
        TierError: the tier does not keep, or does not give, what it should.
    """
    begun = time.perf_counter()
    written = in_new_process("write", settings, progress)
    flipped = flip_byte(settings) if flip else None
    resumed = in_new_process("resume", settings, progress)
    return Outcome(settings, written, resumed, flipped, time.perf_counter() - begun)
