"""What one run of the demo is told; the same for all of its processes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

Layout = Literal["layer-first", "block-first"]
LAYOUTS: tuple[Layout, ...] = ("layer-first", "block-first")
DEVICES = ("cpu", "cuda")


@dataclass(frozen=True)
class Settings:
    """One run; it goes to other processes as it is."""

    seed: int
    layout: Layout
    device: str
    """"cpu" or "cuda"."""
    tier: Mapping[str, Any]
    """The secondary tier's table, as in a configuration of tiers."""
    environment: Mapping[str, str]
    """Where the secrets are that the table names."""
    run: str
    """Unlike that of any other run: blocks of different runs never meet."""
    checksums: bool = True
    """Whether the tier that loads checks what it reads."""
