"""The production manager, its arena and its tiers."""
