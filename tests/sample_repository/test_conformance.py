"""The gate: three lines each."""

from small_manager import SmallManager
from small_tier import SmallTier

from tierproof.kit import ManagerConformance, TierConformance


class TestSmallManager(ManagerConformance):
    factory = SmallManager


class TestSmallTier(TierConformance):
    factory = SmallTier
