"""The contracts, and every way of checking that they hold."""
