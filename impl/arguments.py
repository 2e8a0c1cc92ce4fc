"""What callers name blocks by: any iterable of keys, looked at once and before anything changes."""

from __future__ import annotations

from collections.abc import Iterable

from .errors import ContractViolation
from .tiers.base import Key


def listed(keys: Iterable[Key]) -> tuple[Key, ...]:
    """The keys, in order.

    Raises:
        ContractViolation: it is one key and not a collection of them.
        TypeError: something in it cannot be hashed, and so is no key.
    """
    if isinstance(keys, str | bytes):
        raise ContractViolation(
            f"keys are given as a list or another iterable of keys, not as one key; write "
            f"[key] for the key of {len(keys)} {'characters' if isinstance(keys, str) else 'bytes'}"
        )
    keys = tuple(keys)
    hash(keys)
    return keys


def distinct(keys: Iterable[Key]) -> tuple[Key, ...]:
    """As `listed`, each key once.

    Raises:
        ContractViolation: it is one key, or a key is named twice.
        TypeError: something in it cannot be hashed, and so is no key.
    """
    keys = listed(keys)
    if len(set(keys)) < len(keys):
        raise ContractViolation("a block is named twice in one call; name each once")
    return keys
