"""torch, imported when first needed: everything else works without it."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType

from ..errors import ConfigError


def torch_library() -> ModuleType:
    """The module torch, whichever build the user has.

    Raises:
        ConfigError: it is not installed.
    """
    try:
        return import_module("torch")
    except ModuleNotFoundError as error:
        raise ConfigError(
            "device copies need torch; in a clone of TierProof: pip install '.[torch]', or first "
            "the build of torch that fits your device"
        ) from error
