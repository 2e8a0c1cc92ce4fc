"""All obligations about rules, gathered from the modules that state them."""

from __future__ import annotations

from . import answers, custody, lifetimes, planned, progress
from .steps import OBLIGATIONS, Obligation, Step

SOURCES = (answers, custody, lifetimes, progress, planned)

__all__ = ["OBLIGATIONS", "SOURCES", "Obligation", "Step"]
