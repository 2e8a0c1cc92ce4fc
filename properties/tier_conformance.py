"""The contracts of a secondary tier as a pytest class: subclass it, give it your factory.

from tierproof.kit import TierConformance

class TestMyTier(TierConformance):
    @staticmethod
    def factory(*, block_bytes, root, namespace):
        return MyTier(root, namespace)
"""

from __future__ import annotations

import tempfile
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import ClassVar

import pytest

from ..impl.tiers.base import Tier
from .conformance import Kit, settle, trial_of
from .contracts import RUNS
from .manager_conformance import factory_of, name_of
from .tier_surroundings import Surroundings
from .tiers_under_test import CHECKS, ChosenTier, built, known, surroundings_of
from .trial import TierTrial


class TierConformance:
    """One test for each contract; those that the tier does not claim are skipped with that reason.

    A tier claims them all unless it has an attribute `claims`. A contract in `known_gaps` is an
    expected failure, and fails when it starts to pass.
    """

    claims: ClassVar[Collection[str] | None] = None
    """Ids of the contracts that the tier claims; None: what its attribute `claims` says, else all
    of them."""
    known_gaps: ClassVar[Mapping[str, str] | None] = None
    """Contracts that the tier claims and is known not to keep yet, each with the reason; None: what
    its attribute `known_gaps` says, else none."""
    operations: ClassVar[int] = 1000
    """How many operations `D1-bytes` makes."""
    budget: ClassVar[float | None] = None
    """Seconds for all tests of the class; `--tierproof-budget` overrides it; None: 60."""

    @staticmethod
    def factory(*, block_bytes: int, root: Path, namespace: str) -> Tier:
        """Build a tier; the arena comes by `attach`."""
        raise NotImplementedError(
            "override factory(*, block_bytes, root, namespace) in the class of the tests"
        )

    def surround(self, root: Path) -> Surroundings:
        """What the kit may damage and stop; by default what the factory's attributes `media` and
        `outage` say, and without them the files below the root."""
        return surroundings_of(factory_of(self), root)

    @pytest.mark.parametrize(
        "contract",
        [
            pytest.param(c, marks=pytest.mark.tierproof(contract=c, method=RUNS), id=c)
            for c in CHECKS
        ],
    )
    def test_contract(self, contract: str, request: pytest.FixtureRequest) -> None:
        """Hold the tier to one contract."""
        settle(trial_of(request, self._trial), contract, RUNS)

    def _trial(self, kit: Kit) -> TierTrial:
        factory = factory_of(self)
        name = name_of(factory)
        with tempfile.TemporaryDirectory(prefix="tierproof-", ignore_cleanup_errors=True) as root:
            claims, gaps = built(factory, name, Path(root))
        if self.claims is not None:
            claims = known(name, "claims", self.claims)
        if self.known_gaps is not None:
            gaps = known(name, "known_gaps", self.known_gaps)
        chosen = ChosenTier(name, factory, claims, gaps, self.surround)
        return TierTrial(chosen, budget=kit.budget(self.budget), operations=self.operations)
