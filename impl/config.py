"""The manager's settings, checked when they are made."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from .errors import ConfigError

_SHARES = ("promotion_share", "cascade_share")
_SECONDS = ("lease", "pending_deadline", "probe_deadline", "backpressure_seconds")


class ManagerConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings of a `TieredOffloadingManager`. `None` switches a deadline off.

    Raises:
        ConfigError: a value is of the wrong type or out of range; the message names the field and
            what it may be.
    """

    promotion_share: float = 0.5
    """Share of the slots that promotions may withhold from stores, 0 to 1."""
    cascade_share: float = 0.25
    """Share of the slots that stores to secondary tiers may pin, 0 to 1."""
    lease: float | None = 30.0
    """Seconds that a landed block waits to be read by those it was promised to."""
    pending_deadline: float | None = 30.0
    """Seconds after which a transfer into a slot is OVERDUE and its block answers MISS."""
    probe_deadline: float | None = 5.0
    """Seconds that a tier may stay undecided about a key for a request."""
    reoffers: int = 3
    """How often a refused or failed cascade is offered again."""
    reoffer_pause: float = 1.0
    """Seconds until a cascade that failed is offered again, and until an idle tier that refused one
    is offered anything due: one bad moment must not use up all offers."""
    eviction: Literal["lru", "arc"] = "lru"
    """How a victim is chosen among the evictable blocks."""
    events: bool = True
    """Whether stored and removed events are kept for `take_events`."""
    backpressure_seconds: float | None = None
    """A tier whose store took longer than this (the transfer itself) gets no new ones until one
    is quicker or all have ended; `None`: only its own refusals count."""
    count_lookups: bool = False
    """Whether each request's lookups are counted, once for each key; needs memory for each key of
    a live request and a little time for each lookup."""
    vllm_metric_names: bool = False
    """Whether metrics are also exported under the names that vLLM users graph."""

    def __post_init__(self) -> None:
        """Check every field."""
        for name in _SHARES:
            value = getattr(self, name)
            if not _is_number(value) or not 0 <= value <= 1:
                raise ConfigError(f"{name} must be a number from 0 to 1, not {value!r}")
        for name in _SECONDS:
            value = getattr(self, name)
            if value is not None and (not _is_number(value) or value <= 0):
                raise ConfigError(
                    f"{name} must be a positive number of seconds, or None for none, not {value!r}"
                )
        if type(self.reoffers) is not int or self.reoffers < 0:
            raise ConfigError(
                f"reoffers must be a whole number of at least 0, not {self.reoffers!r}"
            )
        if not _is_number(self.reoffer_pause) or self.reoffer_pause < 0:
            raise ConfigError(
                f"reoffer_pause must be a number of seconds, 0 for none, not {self.reoffer_pause!r}"
            )
        if self.eviction not in ("lru", "arc"):
            raise ConfigError(f"eviction must be 'lru' or 'arc', not {self.eviction!r}")
        for name in ("events", "count_lookups", "vllm_metric_names"):
            if not isinstance(getattr(self, name), bool):
                raise ConfigError(f"{name} must be true or false, not {getattr(self, name)!r}")

    @classmethod
    def from_mapping(cls, settings: Mapping[str, Any]) -> ManagerConfig:
        """Settings from a parsed file or a command line.

        Raises:
            ConfigError: a name is unknown or a value is not allowed.
        """
        unknown = sorted(set(settings) - set(cls.__struct_fields__))
        if unknown:
            raise ConfigError(
                f"unknown setting {unknown[0]!r}; the manager's settings are "
                + ", ".join(cls.__struct_fields__)
            )
        return cls(**settings)

    def permits(self, slots: int) -> int:
        """How many blocks may be promised until read, of `slots`."""
        wanted = max(1, _part(self.promotion_share, slots))
        return min(wanted, slots - 1) if slots >= 2 else wanted

    def berths(self, slots: int) -> int:
        """How many slots cascades may pin, of `slots`."""
        return max(1, _part(self.cascade_share, slots))


def _part(share: float, slots: int) -> int:
    """A share of the slots, rounded down; a share is the decimal that it is written as."""
    return math.floor(round(share * slots, 6))


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
