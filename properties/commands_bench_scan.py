"""The command `bench scan`: what a scheduling pass costs, with one phase and with two.

Everything is measured on the same manager; the ratio is what counts, not the figures. In each pass
only the consumer's own time is taken, not the simulation's around it.
"""

from __future__ import annotations

import time
from importlib.util import find_spec
from typing import Any

from ..impl.answers import Consumer
from ..impl.counted import counted
from ..impl.geometry import Group
from .consumers import CONSUMERS
from .report import Measure, Report
from .simulation import Simulation
from .terminal import Terminal
from .workloads import RequestOf, TierOf, Workload

PUBLIC = (
    Group(name="full", kind="full", tokens_per_block=256),
    Group(name="swa0", kind="window", tokens_per_block=64, window=128),
    Group(name="swa1", kind="window", tokens_per_block=64, window=128),
    Group(name="c4state", kind="window", tokens_per_block=4, window=8),
    Group(name="c128state", kind="window", tokens_per_block=8, window=128),
)
LENGTHS = (8_192, 65_536, 262_144, 1_048_576)
WAITING = (1, 50, 1_000)
WAITING_TOKENS = 1_024
PASSES = 4
"""Passes of a waiting request that are measured: the tier answers later than that."""
TWO, ONE = "two-phase", "pending"


class Timed(Simulation):
    """Takes the time of each pass of the scheduler, all requests together."""

    def __init__(self, *given: Any, **more: Any) -> None:
        super().__init__(*given, **more)
        self.seconds: list[float] = []

    def _pass(self, i: int, consumer: Consumer) -> bool:
        while len(self.seconds) <= self.run.steps:
            self.seconds.append(0.0)
        began = time.perf_counter()
        served = super()._pass(i, consumer)
        self.seconds[-1] += time.perf_counter() - began
        return served


def workload(tokens: int, requests: int = 1) -> Workload:
    """The public model, with prompts of that many tokens that share nothing."""
    return Workload(
        version=1,
        blocks_per_chunk=1,
        groups=PUBLIC,
        primary_slots=max(2_048, tokens // 4 * requests),
        tiers=(TierOf(name="files"),),
        requests=tuple(RequestOf(id=f"r{i}", prompt_tokens=tokens) for i in range(requests)),
    )


def timed(work: Workload, consumer: str, *, delay: int, passes: int | None = None) -> list[float]:
    """Seconds of each pass until all are served, or of so many passes."""
    choice = CONSUMERS[consumer]
    simulation = Timed(work, choice.make, delay=delay, share=choice.share)
    simulation.go(passes)
    return simulation.seconds


def _best(work: Workload, consumer: str) -> float:
    """Milliseconds of all passes; of short ones the best of three, as others disturb them."""
    times = 3 if work.requests[0].prompt_tokens <= LENGTHS[0] else 1
    return min(1e3 * sum(timed(work, consumer, delay=1)) for _ in range(times))


def bench_scan(terminal: Terminal, *, lengths: tuple[int, ...] = LENGTHS) -> Report:
    """Measure prompts of several lengths, and several numbers of waiting requests."""
    report = Report("bench scan", "tierproof")
    steps = len(lengths) + len(WAITING)
    with terminal.patiently("scan") as step:
        for done, tokens in enumerate(lengths):
            _compare(
                report,
                f"{counted(tokens, 'token')}, all passes",
                *(_best(workload(tokens), c) for c in (TWO, ONE)),
            )
            step(done + 1, steps)
        for done, requests in enumerate(WAITING):
            work = workload(WAITING_TOKENS, requests)
            each = []
            for consumer in (TWO, ONE):
                # the first pass asks; what waiting costs are the passes after it
                waits = timed(work, consumer, delay=PASSES + 1, passes=PASSES)[1:]
                each.append(1e3 * min(waits))
            what = "request waits" if requests == 1 else "requests wait"
            _compare(report, f"{requests:,} {what}, one pass", *each)
            step(len(lengths) + done + 1, steps)
    report.lines.append(_vllm())
    return report


def _compare(report: Report, what: str, two: float, one: float) -> None:
    report.measures += [
        Measure(f"{what}: two phases", two, "ms"),
        Measure(f"{what}: one phase", one, "ms"),
        Measure(f"{what}: ratio", two / one, "", 1.0),
    ]


def _vllm() -> str:
    where = "not at hand" if find_spec("vllm") is None else "installed, but not driven by this kit"
    return f"stock vLLM 0.33.0's manager: {where}"
