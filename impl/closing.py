"""Draining and stopping: bounded, every tier gets its try, and what still runs is named."""

from __future__ import annotations

import threading
from collections.abc import Callable

from .arena import Arena
from .cascades import Cascades
from .errors import TierProofError
from .requests import Request, Requests
from .secondary import Secondary, logger
from .step import Step
from .transfers import Transfers


class Closing:
    """The calls of a manager that end its work; `TieredOffloadingManager` inherits it."""

    lock: threading.RLock
    arena: Arena
    _clock: Callable[[], float]
    _secondaries: tuple[Secondary, ...]
    _requests: Requests
    _cascades: Cascades
    _transfers: Transfers
    _step: Step
    on_request_finished: Callable[[Request], None]

    _closed = False
    """Whether `shutdown` was called: nothing is begun any more."""
    _stopped = False
    """Whether every tier stopped without an error: no tier touches the arena any more."""

    def drain(self, timeout: float) -> list[str]:
        """Let the tiers finish, for at most `timeout` seconds; names what could not be stopped."""
        if not self._closed:
            self._drain(timeout)
            self._step.look()  # it may have taken long
            self._transfers.absorb()
        return self._still_running()

    def shutdown(self, timeout: float = 5.0) -> None:
        """Stop every tier, then release the arena unless a transfer can still touch it.

        Ends every request, drops what is queued or due, and tells the tiers of all ends before it
        stops them. Memory that a GPU operation still touches is released when the last one
        completes. Idempotent; takes the lock itself.

        Raises:
            Exception: the first error of a tier, after all had their try.
        """
        if not self.lock.acquire(timeout=timeout):
            raise TierProofError(f"the lock was not free for {timeout} s; nothing was stopped")
        try:
            if not self._closed:
                self._shut_down(timeout)
        finally:
            self.lock.release()

    def _shut_down(self, timeout: float) -> None:
        for request in list(self._requests.live.values()):
            self.on_request_finished(request)
        self._closed = True
        self._cascades.close()
        self._requests.close()
        self._step.begun = False
        errors: list[Exception] = []
        try:
            errors += self._drain(timeout)
        finally:  # whatever interrupts the wait, no tier is left running
            errors += self._stop()
        self._transfers.absorb()
        self._stopped = not errors
        running = self._still_running()
        if running or errors:
            logger.warning(
                "shutdown keeps the primary memory, something may still touch it: %s",
                ", ".join(running) or "a tier did not stop",
            )
        else:
            self.arena.release()
        if errors:
            raise errors[0]

    def _drain(self, timeout: float) -> list[Exception]:
        """Every tier finishes, all together for at most `timeout` seconds; their errors."""
        errors: list[Exception] = []
        end = self._clock() + timeout
        for secondary in self._secondaries:
            try:
                secondary.tier.drain(max(0.0, end - self._clock()))
            except Exception as error:
                secondary.failed("drain", error)
                errors.append(error)
        return errors

    def _stop(self) -> list[Exception]:
        """Every tier stops, even if one raises; their errors."""
        errors: list[Exception] = []
        for secondary in self._secondaries:
            try:
                secondary.tier.shutdown()
            except Exception as error:
                secondary.failed("shutdown", error)
                errors.append(error)
        return errors

    def _release(self) -> None:
        """A GPU operation has outlived the shutdown and ended: after the last the memory goes."""
        if not self._still_running():
            self.arena.release()

    def _still_running(self) -> list[str]:
        """What has not reported and may still touch a slot, in words."""
        words = [
            f"tier {secondary.name!r}: {kind} job {job_id}"
            for secondary in self._secondaries
            for kind, jobs in (("load", secondary.loads), ("store", secondary.sends))
            for job_id in jobs
        ]
        words += [f"GPU load operation {number}" for number in self._transfers.reads]
        words += [
            f"GPU store operation {number}"
            for number, write in self._transfers.writes.items()
            if write.blocks
        ]
        return words
