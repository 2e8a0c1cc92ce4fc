"""Built-in faulty tiers, each with the contract that must catch it: tests of the tests."""

from __future__ import annotations

from . import tier_faults_bytes, tier_faults_jobs
from .tier_specimen import TierFault

FAULTS: dict[str, TierFault] = {**tier_faults_jobs.FAULTS, **tier_faults_bytes.FAULTS}
"""By name; a fault's class is its factory."""
