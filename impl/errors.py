"""The errors that TierProof raises; every one names its input and says what to write instead."""

from __future__ import annotations


class TierProofError(Exception):
    """Base of every error raised on purpose by TierProof."""


class ConfigError(TierProofError):
    """A configuration value is missing, unknown or out of range; the message names the field."""


class ContractViolation(TierProofError):
    """The caller broke the protocol (an unknown operation, a second report, a key not resident).

    Raised before anything changes: state, pins and slots are as they were before the call.
    """


class TierError(TierProofError):
    """A secondary tier could not do what it was asked (server gone, disk full, no permission)."""


class CorruptBlockError(TierError):
    """Stored bytes are not the bytes that were stored: torn, truncated, flipped or foreign."""
