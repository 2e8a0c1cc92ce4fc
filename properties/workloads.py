"""A workload of `tierproof scan`: a JSON file, checked so that an error names the field."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from ..impl.errors import ConfigError
from ..impl.geometry import Geometry, Group, Prompt
from .managers import UsageError

MOST_TOKENS = 2**24
"""The longest prompt that is simulated: every key of it is looked at."""
MOST_SLOTS = 2**24


class Missing(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Chunks of a group that a tier does not have, of any request."""

    group: str
    chunks: tuple[int, ...]


class TierOf(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A tier: it has whatever the requests' store filter keeps, but for what is missing."""

    name: str
    missing: tuple[Missing, ...] = ()


class RequestOf(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A request: its prompt, and from which step on it waits."""

    id: str
    prompt_tokens: int
    gpu_tokens: int = 0
    arrival_step: int = 0
    max_load_tokens: int | None = None
    """Where a hit ends at the latest, counted from the start of the prompt."""
    prefix_of: str | None = None
    """The request whose first `prefix_tokens` tokens this one's prompt begins with."""
    prefix_tokens: int = 0

    @property
    def prompt(self) -> Prompt:
        """As the geometry takes it."""
        return Prompt(tokens=self.prompt_tokens, on_gpu=self.gpu_tokens, most=self.max_load_tokens)


class Workload(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The whole file."""

    version: int
    blocks_per_chunk: int
    groups: tuple[Group, ...]
    primary_slots: int
    tiers: tuple[TierOf, ...]
    requests: tuple[RequestOf, ...]
    bytes_per_block: int | None = None

    @property
    def slot_bytes(self) -> int | None:
        """Bytes of a slot; None when the file does not say."""
        return (
            None if self.bytes_per_block is None else self.bytes_per_block * self.blocks_per_chunk
        )

    def geometry(self) -> Geometry:
        """What the groups read.

        Raises:
            ConfigError: they are no model; the message begins with the field.
        """
        return Geometry(self.groups, self.blocks_per_chunk)


def read(path: Path) -> Workload:
    """The workload of a file.

    Raises:
        UsageError: it cannot be read, or a field is wrong; says which.
    """
    if path.suffix == ".py":
        raise UsageError(
            f"{path} is a Python file, and a workload is JSON, such as those in docs/workloads; to "
            f"hold a manager in it to the contracts: tierproof verify --manager {path}:FACTORY"
        )
    try:
        data = path.read_bytes()
    except OSError as error:
        raise UsageError(f"{path} could not be read: {error.strerror}") from error
    try:
        return parse(data)
    except ConfigError as error:
        raise UsageError(f"{path}: {error}") from error


def parse(data: bytes) -> Workload:
    """The workload of a JSON text.

    Raises:
        ConfigError: it is none; the message names the field.
    """
    try:
        workload = msgspec.json.decode(data, type=Workload)
    except msgspec.DecodeError as error:
        raise ConfigError(str(error).replace("`$.", "`")) from error
    _check(workload)
    return workload


def _check(workload: Workload) -> None:
    _within("version", workload.version, 1, 1)
    _within("primary_slots", workload.primary_slots, 1, MOST_SLOTS)
    if workload.bytes_per_block is not None:
        _within("bytes_per_block", workload.bytes_per_block, 1, 2**40)
    workload.geometry()
    _different("tiers", "name", workload.tiers)
    _different("requests", "id", workload.requests)
    names = [group.name for group in workload.groups]
    for i, tier in enumerate(workload.tiers):
        for j, missing in enumerate(tier.missing):
            at = f"tiers[{i}].missing[{j}]"
            if missing.group not in names:
                raise ConfigError(f"{at}.group: {missing.group!r} is not one of {names}")
            for n, chunk in enumerate(missing.chunks):
                _within(f"{at}.chunks[{n}]", chunk, 0, MOST_TOKENS)
    if not workload.requests:
        raise ConfigError("requests: there must be at least one")
    for i, request in enumerate(workload.requests):
        _check_request(f"requests[{i}]", request, workload.requests[:i])


def _check_request(at: str, request: RequestOf, before: Sequence[RequestOf]) -> None:
    _within(f"{at}.prompt_tokens", request.prompt_tokens, 1, MOST_TOKENS)
    _within(f"{at}.gpu_tokens", request.gpu_tokens, 0, request.prompt_tokens)
    _within(f"{at}.arrival_step", request.arrival_step, 0, 10**6)
    if request.max_load_tokens is not None:
        _within(f"{at}.max_load_tokens", request.max_load_tokens, 0, MOST_TOKENS)
    if request.prefix_of is None:
        _within(f"{at}.prefix_tokens (without prefix_of)", request.prefix_tokens, 0, 0)
        return
    other = next((one for one in before if one.id == request.prefix_of), None)
    if other is None:
        raise ConfigError(f"{at}.prefix_of: {request.prefix_of!r} is no request before this one")
    most = min(request.prompt_tokens, other.prompt_tokens)
    _within(f"{at}.prefix_tokens", request.prefix_tokens, 1, most)


def _within(field: str, value: int, least: int, most: int) -> None:
    if not least <= value <= most:
        span = str(least) if least == most else f"from {least:,} to {most:,}"
        raise ConfigError(f"{field}: must be {span}, not {value:,}")


def _different(field: str, by: str, things: Sequence[Any]) -> None:
    seen: set[str] = set()
    for i, thing in enumerate(things):
        name = getattr(thing, by)
        if not name or name in seen:
            raise ConfigError(f"{field}[{i}].{by}: {name!r} is empty or used twice")
        seen.add(name)
