"""fio as the measure of a disk: how it is asked, and what is taken from its answer.

Its buffers come from malloc, which the C library (glibc 2.35 and newer) puts on huge pages when its
tunable says so; of itself fio has huge pages only where an administrator has reserved some. Whether
it really got them is looked up while it runs: with small pages it would show half of the truth.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from pathlib import Path

DEPTH = 16
ENGINE = "io_uring"
_TUNABLES = "GLIBC_TUNABLES"
_HUGE = "glibc.malloc.hugetlb=1"
_LOOK_SECONDS = 5.0
_PATIENCE = 300.0


class FioError(Exception):
    """fio cannot be the measure here; the message says why."""


class Fio:
    """fio on one file, which it never makes or resizes.

    Args:
        path: the file, written before.
        block_bytes: a whole number of pages.
        blocks: how many the file holds.

    Raises:
        FioError: it is not installed, does not work on this machine, or gets no huge pages.
    """

    def __init__(self, path: Path, *, block_bytes: int, blocks: int) -> None:
        program = shutil.which("fio")
        if program is None:
            raise FioError("fio is not installed")
        self._command = [
            *(program, "--name=limit", f"--filename={path}", f"--bs={block_bytes}"),
            *(f"--size={blocks * block_bytes}", "--direct=1", f"--ioengine={ENGINE}"),
            *(f"--iodepth={DEPTH}", "--thread", "--mem=malloc", "--end_fsync=0"),
            "--output-format=json",
        ]
        others = [t for t in os.environ.get(_TUNABLES, "").split(":") if t]
        self._environment = {**os.environ, _TUNABLES: ":".join([*others, _HUGE])}
        self.version = self._version(program)
        self._look_for_huge_pages(DEPTH * block_bytes)

    def speed(self, what: str) -> float:
        """GB/s of one pass over the file; `what` is `read` or `write`.

        Raises:
            FioError: it failed.
        """
        try:
            told = subprocess.run(
                [*self._command, f"--rw={what}"],
                capture_output=True,
                text=True,
                env=self._environment,
                timeout=_PATIENCE,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise FioError(f"fio did not run: {error}") from error
        if told.returncode:
            raise FioError(f"fio failed: {_last_line(told.stderr) or _last_line(told.stdout)}")
        return speed_of(told.stdout, what)

    @staticmethod
    def _version(program: str) -> str:
        try:
            told = subprocess.run([program, "--version"], capture_output=True, text=True)
        except OSError as error:
            raise FioError(f"fio did not run: {error}") from error
        return told.stdout.strip() or "fio"

    def _look_for_huge_pages(self, buffers: int) -> None:
        """Let it read for some seconds, until half of its buffers are seen on huge pages."""
        command = [*self._command, "--rw=read", "--time_based", f"--runtime={_LOOK_SECONDS:.0f}s"]
        with subprocess.Popen(
            command,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            env=self._environment,
        ) as running:
            most = 0
            ends = time.monotonic() + _LOOK_SECONDS
            while running.poll() is None and time.monotonic() < ends:
                most = max(most, huge_bytes(running.pid))
                if most * 2 >= buffers:
                    running.kill()
                    return
                time.sleep(0.005)
            running.kill()
            _, said = running.communicate()
        if running.returncode > 0:
            raise FioError(f"fio failed: {_last_line(said)}")
        raise FioError(
            f"fio had {most >> 20} of {buffers >> 20} MiB on huge pages, which makes a false limit"
        )


def speed_of(said: str, what: str) -> float:
    """GB/s in what fio wrote with `--output-format=json`, notes before the JSON and all.

    Raises:
        FioError: it is not what fio writes, a job failed, or nothing was moved.
    """
    try:
        told = json.loads(said[said.index("{") :])
        (job,) = told["jobs"]
        error, bytes_in_a_second = int(job["error"]), float(job[what]["bw_bytes"])
    except (ValueError, KeyError, TypeError) as problem:
        raise FioError(
            f"what fio wrote could not be read ({type(problem).__name__}: {problem}); it began "
            f"with {said[:80]!r}"
        ) from problem
    if error:
        raise FioError(f"fio failed: {os.strerror(error)}")
    if not bytes_in_a_second > 0:
        raise FioError(f"fio moved nothing in a {what}")
    return bytes_in_a_second / 1e9


def huge_bytes(pid: int) -> int:
    """Bytes that a process has on transparent huge pages; 0 when the system does not say."""
    try:
        said = Path(f"/proc/{pid}/smaps_rollup").read_text()
    except OSError:
        return 0
    for line in said.splitlines():
        if line.startswith("AnonHugePages:"):
            return int(line.split()[1]) << 10
    return 0


def _last_line(said: str) -> str:
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    return lines[-1][:200] if lines else "it said nothing"
