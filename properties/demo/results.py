"""What the processes of the demo hand back; not in `phases`, as whoever reads it needs no torch."""

from __future__ import annotations

from dataclasses import dataclass, field

from .prompt import Chunk


@dataclass
class Written:
    """What the first process has to say."""

    process: int
    torch: str
    logits: bytes
    """Of the run that never offloaded: float32, one row for each decoded token."""
    fingerprints: dict[Chunk, str]
    """Of each block that was stored, taken on the device before it was."""
    stored_bytes: int
    """From the device to the primary tier."""
    kept: int
    """Blocks that the secondary tier says it has stored."""
    seconds: dict[str, float] = field(default_factory=dict)


@dataclass
class Resumed:
    """What the second process has to say."""

    process: int
    logits: bytes
    hit: int
    """Tokens from the start of the prompt that were not computed again."""
    fingerprints: dict[Chunk, str]
    """Of each block that was loaded, taken on the device afterwards."""
    refused: list[Chunk]
    """Blocks whose load the secondary tier reported as failed."""
    promoted: int
    """Blocks that the secondary tier says it has loaded."""
    corrupt: int
    """Blocks that it says were not what was stored."""
    loaded_bytes: int
    """From the primary tier to the device."""
    waves: int
    seconds: dict[str, float] = field(default_factory=dict)
