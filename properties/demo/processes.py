"""A phase in a process of its own, which has ended before the next one begins.

Processes come from a fork server that has imported torch and computed nothing: none of them begins
with the memory of another.
"""

from __future__ import annotations

import importlib
import multiprocessing
import traceback
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import Any

from ...impl.errors import TierProofError
from ..processes import deaf_workers
from .settings import Settings

Progress = Callable[[str, int, int], None]
"""Called with what is being done, how much of it is done, and how much there is."""
_PHASES = f"{__package__}.phases"


def in_new_process(name: str, settings: Settings, progress: Progress) -> Any:
    """Run the function `name` of `phases`; what it returned, once its process has ended.

    Raises:
        TierProofError: it raised that.
        RuntimeError: it raised something else, or its process was killed.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([_PHASES])
    here, there = context.Pipe(duplex=False)
    process = context.Process(target=_run, args=(there, name, settings), daemon=True)
    with deaf_workers():
        process.start()
    there.close()
    try:
        while (said := here.recv())[0] == "progress":
            progress(*said[1:])
    except EOFError:
        process.join()
        raise RuntimeError(f"the process of {name!r} ended with code {process.exitcode}") from None
    finally:
        here.close()
    process.join()
    kind, result = said
    if kind == "raised":
        raise result
    if kind == "failed":
        raise RuntimeError(f"the process of {name!r} failed\n{result}")
    return result


def _run(told: Connection, name: str, settings: Settings) -> None:
    with suppress(BrokenPipeError, KeyboardInterrupt):  # nobody listens any more
        try:
            phase = getattr(importlib.import_module(_PHASES), name)
            told.send(("result", phase(settings, lambda *said: told.send(("progress", *said)))))
        except TierProofError as error:
            told.send(("raised", error))
        except Exception:
            told.send(("failed", traceback.format_exc()))
