"""Mutants of the core of the manager."""
