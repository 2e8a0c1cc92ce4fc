"""What a consumer of the manager says of a waiting request in one pass of the scheduler."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import msgspec

from .geometry import Geometry, Prompt
from .operations import LoadOperation
from .requests import Request
from .tiers.base import Key

KeyOf = Callable[[int, int], Key]
"""The key of (group, chunk) of the request's own prompt."""


class Answer(msgspec.Struct, frozen=True):
    """`hit` is final once it is not None; until then the request is asked again in the next step.

    A load that comes with it is copied to the GPU and completed before the request is asked again.
    """

    hit: int | None = None
    """Tokens from the start of the prompt, those on the GPU included; None: not known yet."""
    load: LoadOperation | None = None


WAIT = Answer()


class Asked(msgspec.Struct, frozen=True):
    """A waiting request as a consumer is given it."""

    request: Request
    prompt: Prompt
    geometry: Geometry
    key_of: KeyOf

    def keys(self, chunks: Sequence[tuple[int, int]]) -> list[Key]:
        """The keys of (group, chunk) pairs."""
        key_of = self.key_of
        return [key_of(g, chunk) for g, chunk in chunks]


class Consumer(Protocol):
    """Finds out how much of a waiting request can be loaded, and has it loaded."""

    def ask(self) -> Answer:
        """One pass of the scheduler for this request; lookups and loads, before any store."""
