"""Telling of trouble once: one warning when it begins, one remark when it is over."""

from __future__ import annotations

import errno
import logging
import threading

_log = logging.getLogger("tierproof.tiers")


class Trouble:
    """What is failing in a tier at the moment, by kind of operation ("read", "write", ...).

    An episode begins with a first failure and ends when every kind that failed has succeeded
    again. Messages name the tier, the kind and the system's reason; no path, key or payload.
    """

    def __init__(self, tier: str) -> None:
        self._tier = tier
        self._lock = threading.Lock()
        self._failing: set[str] = set()

    def failed(self, kind: str, error: OSError) -> bool:
        """An operation failed; True when that begins an episode."""
        with self._lock:
            begins = not self._failing
            self._failing.add(kind)
        if begins:
            name = errno.errorcode.get(error.errno or 0, type(error).__name__)
            _log.warning(
                "tier %r cannot %s: %s (%s); it goes on trying and this is said once",
                self._tier, kind, error.strerror, name,
            )  # fmt: skip
        return begins

    def worked(self, kind: str) -> None:
        """An operation succeeded."""
        if not self._failing:  # the usual case, without the lock
            return
        with self._lock:
            if kind not in self._failing:
                return
            self._failing.discard(kind)
            over = not self._failing
        if over:
            _log.info("tier %r works again", self._tier)

    @property
    def failing(self) -> frozenset[str]:
        """The kinds of operation that failed last time."""
        return frozenset(self._failing)
