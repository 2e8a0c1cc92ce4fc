"""Faults of the production manager: what the checks must catch, each by name.

Each is a few lines and modelled on something that went wrong in public.
"""

from . import (  # noqa: F401  # each enters its own
    answers,
    cascades,
    deadlines,
    ends,
    failures,
    harmless,
    pins,
    plans,
    promotions,
    resets,
    stores,
)
from .making import FAULTS, HARMLESS, Fault

__all__ = ["FAULTS", "HARMLESS", "Fault"]
