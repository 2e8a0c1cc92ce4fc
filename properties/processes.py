"""Worker processes and Ctrl-C, which a terminal sends to every process of a command at once."""

from __future__ import annotations

import multiprocessing
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import resource_tracker

SOON = 0.01
"""Seconds after which a Ctrl-C that was not heard comes again."""


@contextmanager
def deaf_workers() -> Iterator[None]:
    """Processes that are started within never hear Ctrl-C: who started them ends them.

    They would each print where they were interrupted. The signal is blocked for those that are
    spawned, and those that are forked inherit a handler that does nothing. One that arrives in this
    process meanwhile is put off, or it would leave workers that are half begun and that nobody
    knows of.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    heard: list[object] = []
    resource_tracker.ensure_running()  # which would else be started within, and end the blocking
    handler = signal.signal(signal.SIGINT, lambda number, frame: heard.append(frame))
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        signal.signal(signal.SIGINT, handler)
        if heard:
            signal.raise_signal(signal.SIGINT)


@contextmanager
def interruptible() -> Iterator[None]:
    """Ctrl-C ends the worker processes of a check too, which would else finish what they do."""

    def interrupt(number: int, frame: object) -> None:
        _heard.set()
        # the threads that wait for the workers have nothing to tell about the end of these
        threading.excepthook = lambda _: None
        for worker in multiprocessing.active_children():
            worker.terminate()
        raise KeyboardInterrupt

    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def unheard(told: sys.UnraisableHookArgs) -> None:
        if told.exc_type is not KeyboardInterrupt:
            shown(told)
        else:  # it came while something was tidied away, which nothing can end: once more, later
            # a real signal, which ends a wait as well
            later.append(threading.Timer(SOON, signal.pthread_kill, (here, signal.SIGINT)))
            later[-1].daemon = True
            later[-1].start()

    _heard.clear()
    later: list[threading.Timer] = []
    here = threading.get_ident()
    before, shown = signal.signal(signal.SIGINT, interrupt), sys.unraisablehook
    sys.unraisablehook = unheard
    try:
        yield
    finally:
        for again in later:
            again.cancel()
        sys.unraisablehook = shown
        signal.signal(signal.SIGINT, before)


_heard = threading.Event()


def interrupted() -> bool:
    """Has there been a Ctrl-C in the command that runs?

    Where it comes while arguments are made ready for a library in C, what is raised is an error of
    these arguments.
    """
    return _heard.is_set()
