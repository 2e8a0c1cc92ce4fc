"""Worker threads that move blocks and do nothing else: queues, priorities, deadlines, reports.

A job is a tuple of units, one for each block. Workers run units and count; when a job's last unit
has ended, its report waits for the next `poll`. Nothing here calls a manager, and the one lock is
never held while a unit runs.

Order: questions (short, about a name) before loads before stores; after `LOADS_PER_STORE` loads in
a row one waiting store is taken, so that stores progress. Chores (scans, sweeps, verification) have
a thread of their own. A unit that has waited for `io_deadline` seconds is cancelled and counts as
failed; one that is running is left alone, because only its own end says that its slot is free.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from ..errors import ContractViolation, TierError
from .base import JobReport, Key

_log = logging.getLogger("tierproof.tiers")

Work: TypeAlias = Callable[[], bool]
"""Moves one block; True when it landed. An exception counts as False."""

LOADS_PER_STORE = 8
_LEAST_JOIN = 0.05


class _Job:
    __slots__ = ("began", "job_id", "landed", "left", "running", "seconds")

    def __init__(self, job_id: int, units: int) -> None:
        self.job_id = job_id
        self.left = units
        self.running = 0
        self.landed: list[Key] = []
        self.began: float | None = None
        self.seconds = 0.0


@dataclass(slots=True)
class _Unit:
    job: _Job
    key: Key
    work: Work
    expires: float


class IoPool:
    """`threads` workers and one for chores.

    `io_deadline` is in seconds; None lets units wait for ever. `queued_stores` bounds the stores
    that wait (those that run are not counted).
    """

    def __init__(
        self,
        name: str,
        *,
        threads: int,
        io_deadline: float | None,
        queued_stores: int,
        clock: Callable[[], float],
    ) -> None:
        self.expired = 0
        self._name = name
        self._threads = threads
        self._deadline = float("inf") if io_deadline is None else io_deadline
        self._queued_stores = queued_stores
        self._clock = clock
        self._lock = threading.Lock()
        self._work_ready = threading.Condition(self._lock)
        self._chore_ready = threading.Condition(self._lock)
        self._idle = threading.Condition(self._lock)
        self._questions: deque[Callable[[], None]] = deque()
        self._loads: deque[_Unit] = deque()
        self._stores: deque[_Unit] = deque()
        self._chores: deque[Callable[[], None]] = deque()
        self._jobs: dict[int, _Job] = {}
        self._reports: list[JobReport] = []
        self._loads_in_row = 0
        self._store_holds = 0
        self._stopping = False
        self._workers: list[threading.Thread] = []

    def start(self) -> None:
        """Start the threads.

        Raises:
            TierError: the system gives no more threads.
        """
        roles = [self._work] * self._threads + [self._do_chores]
        for number, role in enumerate(roles):
            thread = threading.Thread(
                target=role, name=f"tierproof-{self._name}-{number}", daemon=True
            )
            try:
                thread.start()
            except RuntimeError as error:
                self.shutdown(0.0)
                raise TierError(f"tier {self._name!r}: {error}; lower its threads") from error
            self._workers.append(thread)

    # --- the scheduler's side: nothing here waits for I/O ---

    def submit_load(self, job_id: int, units: Sequence[tuple[Key, Work]]) -> None:
        """Queue a load job.

        Raises:
            ContractViolation: a job of this id is in flight.
            TierError: the pool has been shut down.
        """
        with self._lock:
            self._enqueue(job_id, units, self._loads)

    def submit_store(self, job_id: int, units: Sequence[tuple[Key, Work]]) -> None:
        """Queue a store job; the caller has looked at `store_room` first.

        Raises:
            ContractViolation: a job of this id is in flight.
            TierError: the pool has been shut down.
        """
        with self._lock:
            self._enqueue(job_id, units, self._stores)

    def store_room(self) -> int:
        """How many more stores may wait; only submits make it smaller."""
        return max(0, self._queued_stores - len(self._stores))

    def ask(self, question: Callable[[], None]) -> None:
        """Queue a short piece of I/O that touches no slot, before all loads."""
        with self._lock:
            if not self._stopping:
                self._questions.append(question)
                self._work_ready.notify()

    def chore(self, chore: Callable[[], None]) -> None:
        """Queue a long piece of I/O that touches no slot, beside everything else."""
        with self._lock:
            if not self._stopping:
                self._chores.append(chore)
                self._chore_ready.notify()

    def hold_stores(self) -> None:
        """Keep stores queued until as many `release_stores`."""
        with self._lock:
            self._store_holds += 1

    def release_stores(self) -> None:
        """End one hold."""
        with self._lock:
            self._store_holds -= 1
            self._work_ready.notify_all()

    def poll(self) -> list[JobReport]:
        """Reports since the last poll, each job's once."""
        with self._lock:
            now = self._clock()
            for queue in (self._loads, self._stores):
                while queue and queue[0].expires <= now:
                    self._cancel(queue.popleft())
                    self.expired += 1
            reports, self._reports = self._reports, []
            return reports

    @property
    def stopping(self) -> bool:
        """Whether chores should give up between two steps."""
        return self._stopping

    def drain(self, timeout: float) -> list[int]:
        """Wait for all jobs, at most `timeout` seconds; ids of jobs that still run.

        What has not begun after three quarters of the time is cancelled, so that what runs has the
        rest to end. The time is real time, whatever clock the pool was given.
        """
        with self._lock:
            self._idle.wait_for(lambda: not self._jobs, max(0.0, timeout * 0.75))
            self._cancel_queued()
            self._idle.wait_for(lambda: not self._jobs, max(0.0, timeout * 0.25))
            return list(self._jobs)

    def shutdown(self, timeout: float) -> bool:
        """Cancel what is queued and let the threads end; False if one is still in a call."""
        ends = time.monotonic() + max(timeout, _LEAST_JOIN)
        with self._lock:
            self._stopping = True
            self._cancel_queued()
            self._questions.clear()
            self._chores.clear()
            self._work_ready.notify_all()
            self._chore_ready.notify_all()
        for thread in self._workers:
            thread.join(max(0.0, ends - time.monotonic()))
        self._workers = [thread for thread in self._workers if thread.is_alive()]
        return not self._workers

    # --- with the lock held ---

    def _enqueue(self, job_id: int, units: Sequence[tuple[Key, Work]], queue: deque[_Unit]) -> None:
        if self._stopping:
            raise TierError(f"tier {self._name!r} has been shut down")
        if job_id in self._jobs:
            raise ContractViolation(f"tier {self._name!r}: job {job_id} is already in flight")
        job = _Job(job_id, len(units))
        self._jobs[job_id] = job
        if not units:
            self._report(job)
            return
        expires = self._clock() + self._deadline
        queue.extend(_Unit(job, key, work, expires) for key, work in units)
        self._work_ready.notify(len(units))

    def _cancel_queued(self) -> None:
        for queue in (self._loads, self._stores):
            while queue:
                self._cancel(queue.popleft())

    def _cancel(self, unit: _Unit) -> None:
        unit.job.left -= 1
        if not unit.job.left:
            self._report(unit.job)

    def _report(self, job: _Job) -> None:
        # The only place where a job ends.
        del self._jobs[job.job_id]
        self._reports.append(JobReport(job.job_id, frozenset(job.landed), job.seconds))
        if not self._jobs:
            self._idle.notify_all()

    def _next(self) -> _Unit | Callable[[], None] | None:
        """What a worker does next; None when there is nothing."""
        if self._questions:
            return self._questions.popleft()
        stores = self._stores if not self._store_holds else ()
        if self._loads and (not stores or self._loads_in_row < LOADS_PER_STORE):
            self._loads_in_row += 1
            return self._loads.popleft()
        if stores:
            self._loads_in_row = 0
            return self._stores.popleft()
        return None

    # --- the threads ---

    def _work(self) -> None:
        while True:
            with self._lock:
                task = self._next()
                while task is None:
                    if self._stopping:
                        return
                    self._work_ready.wait()
                    task = self._next()
                if isinstance(task, _Unit):
                    now = self._clock()
                    if task.expires <= now:
                        self._cancel(task)
                        self.expired += 1
                        continue
                    if task.job.began is None:
                        task.job.began = now
            if isinstance(task, _Unit):
                self._run(task)
            else:
                self._attempt(task)

    def _run(self, unit: _Unit) -> None:
        landed = self._attempt(unit.work) is True
        job = unit.job
        with self._lock:
            if landed:
                job.landed.append(unit.key)
            job.seconds = self._clock() - (job.began or 0.0)
            job.left -= 1
            if not job.left:
                self._report(job)

    def _do_chores(self) -> None:
        while True:
            with self._lock:
                self._chore_ready.wait_for(lambda: self._chores or self._stopping)
                if self._stopping:
                    return
                chore = self._chores.popleft()
            self._attempt(chore)

    def _attempt(self, work: Callable[[], bool | None]) -> bool | None:
        try:
            return work()
        except BaseException as error:  # nothing that one block does may end the thread
            # The traceback, but not the message: a message could quote a path with a salt.
            _log.error(
                "tier %r: unexpected %s in a worker",
                self._name,
                type(error).__name__,
                exc_info=_log.isEnabledFor(logging.DEBUG),
            )
            return None
