"""Secondary tiers: one contract, several places to keep blocks."""
