"""Telling of trouble once: one warning when it begins, one remark when it is over."""

from __future__ import annotations

import logging
import threading

SAID_ONCE = "; this is said once until it works again"
_log = logging.getLogger("tierproof.tiers")


class Trouble:
    """What is failing in a tier at the moment, by kind of operation ("read", "write", ...).

    What fails for a reason that has been told is not told again before everything that failed has
    succeeded. Messages name the tier, the operation and the reason; no path, key or payload.
    """

    def __init__(self, tier: str) -> None:
        self._tier = tier
        self._lock = threading.Lock()
        self._failing: dict[str, str] = {}

    def failed(self, kind: str, reason: str) -> bool:
        """An operation failed; True when that was not known yet."""
        with self._lock:
            known = kind in self._failing or reason in self._failing.values()
            self._failing.setdefault(kind, reason)
        if not known:
            _log.warning(
                f"tier %r cannot %s: %s{SAID_ONCE}",
                self._tier,
                kind,
                reason,
            )
        return not known

    def worked(self, kind: str) -> None:
        """An operation succeeded."""
        if not self._failing:  # the usual case, without the lock
            return
        with self._lock:
            over = self._failing.pop(kind, None) is not None and not self._failing
        if over:
            _log.info("tier %r works again", self._tier)

    @property
    def failing(self) -> frozenset[str]:
        """The kinds of operation that failed last time."""
        return frozenset(self._failing)
