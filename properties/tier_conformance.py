"""The contracts of a secondary tier as a pytest class: subclass it, give it your factory.

from tierproof.properties.tier_conformance import TierConformance

class TestMyTier(TierConformance):
    @staticmethod
    def factory(*, block_bytes, root, namespace):
        return MyTier(root, namespace)
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

import pytest

from ..impl.tiers.base import Tier
from .contracts import TIER_CONTRACTS
from .tier_rig import TierBroken
from .tier_surroundings import Surroundings
from .tiers_under_test import CHECKS, ChosenTier, check_contract


class TierConformance:
    """One test for each contract; those that the tier does not claim are skipped with that reason.

    A tier claims them all unless it has an attribute `claims`. A contract in `known_gaps` is an
    expected failure, and fails when it starts to pass.
    """

    known_gaps: ClassVar[Mapping[str, str]] = {}
    """Contracts that the tier claims and is known not to keep yet, each with the reason."""
    operations: ClassVar[int] = 1000
    """How many operations `D1-bytes` makes."""

    @staticmethod
    def factory(*, block_bytes: int, root: Path, namespace: str) -> Tier:
        """Build a tier; the arena comes by `attach`."""
        raise NotImplementedError("override factory(*, block_bytes, root, namespace)")

    def surround(self, root: Path) -> Surroundings:
        """What the kit may damage and stop; by default the files below the root."""
        return Surroundings()

    @pytest.mark.parametrize("contract", list(CHECKS))
    def test_contract(self, contract: str, tmp_path: Path) -> None:
        """Hold the tier to one contract."""
        trial = self.factory(block_bytes=4096, root=tmp_path / "trial", namespace="trial")
        claims = getattr(trial, "claims", TIER_CONTRACTS)
        trial.shutdown()
        if contract not in claims:
            pytest.skip(f"the tier does not claim {contract}")
        root = tmp_path / "in" / "root"
        root.mkdir(parents=True)
        chosen = ChosenTier(type(self).__name__, self.factory, claims, {}, self.surround)
        gap = self.known_gaps.get(contract)
        try:
            check_contract(chosen, contract, root, operations=self.operations)
        except TierBroken as broken:
            if gap:
                pytest.xfail(gap)
            pytest.fail(f"{broken}\nThe contract: {TIER_CONTRACTS[broken.contract].words}.")
        if gap:
            pytest.fail(f"{contract} is kept now: take it out of known_gaps ({gap})")
