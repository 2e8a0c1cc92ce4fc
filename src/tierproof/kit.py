"""What a test file of yours imports: classes that hold a manager or a tier to its contracts.

It needs the extra `kit`. The pages `kit` and `tiers` of the documentation say how it is used.
"""

from tierproof.properties.manager_conformance import ManagerConformance
from tierproof.properties.tier_conformance import TierConformance
from tierproof.properties.tier_surroundings import Surroundings
from tierproof.properties.under_test import HandDrivenTier

__all__ = ["HandDrivenTier", "ManagerConformance", "Surroundings", "TierConformance"]
