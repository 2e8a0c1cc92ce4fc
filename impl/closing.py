"""Draining and stopping: bounded, every tier gets its try, and what still runs is named."""

from __future__ import annotations

from collections.abc import Callable

from .arena import Arena
from .secondary import Secondary, logger
from .transfers import Transfers


def drain(
    secondaries: tuple[Secondary, ...], clock: Callable[[], float], timeout: float
) -> list[Exception]:
    """Let every tier finish, all together for at most `timeout` seconds; their errors in order."""
    errors: list[Exception] = []
    end = clock() + timeout
    for secondary in secondaries:
        try:
            secondary.tier.drain(max(0.0, end - clock()))
        except Exception as error:
            secondary.failed("drain", error)
            errors.append(error)
    return errors


def stop(secondaries: tuple[Secondary, ...]) -> list[Exception]:
    """Stop every tier, even if one raises; their errors in order."""
    errors: list[Exception] = []
    for secondary in secondaries:
        try:
            secondary.tier.shutdown()
        except Exception as error:
            secondary.failed("shutdown", error)
            errors.append(error)
    return errors


def still_running(secondaries: tuple[Secondary, ...], transfers: Transfers) -> list[str]:
    """What has not reported and may still touch a slot, in words."""
    words = [
        f"tier {secondary.name!r}: {kind} job {job_id}"
        for secondary in secondaries
        for kind, jobs in (("load", secondary.loads), ("store", secondary.sends))
        for job_id in jobs
    ]
    words += [f"GPU load operation {number}" for number in transfers.reads]
    words += [
        f"GPU store operation {number}"
        for number, write in transfers.writes.items()
        if write.blocks
    ]
    return words


def shut_down(
    secondaries: tuple[Secondary, ...],
    transfers: Transfers,
    arena: Arena,
    clock: Callable[[], float],
    timeout: float,
) -> None:
    """Drain and stop every tier, then release the arena, unless something may still touch it.

    Raises:
        Exception: the first error of a tier, after all had their try.
    """
    errors = drain(secondaries, clock, timeout) + stop(secondaries)
    transfers.absorb()
    running = still_running(secondaries, transfers)
    if running or errors:
        logger.warning(
            "shutdown keeps the primary memory, something may still touch it: %s",
            ", ".join(running) or "a tier did not stop",
        )
    else:
        arena.release()
    if errors:
        raise errors[0]
