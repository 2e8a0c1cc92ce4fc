"""The command `scan`: one workload, one consumer, the production manager, and what it did."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ..impl.counted import counted
from . import strips
from .consumers import CONSUMERS
from .managers import UsageError
from .places import write
from .report import Report
from .simulation import Run, Seen, Simulation
from .workloads import read


def scan(workload: Path, *, consumer: str, delay: int, plot: Path | None) -> Report:
    """Run the workload; the report's `result` has the figures.

    Raises:
        UsageError: the workload is none, or there is no such consumer.
    """
    run = _run(workload, consumer, delay)
    report = Report("scan")
    report.result = result(run)
    report.lines += _lines(run, consumer, delay)
    if run.stuck:
        unserved = sum(not seen.served for seen in run.requests)
        report.conclusion = f"{unserved} of {len(run.requests)} requests were never served"
    if plot is not None:
        write(plot, strips.svg(run, f"{workload.name}, {consumer}, delay {delay}"), "--plot")
        report.lines.append(f"{plot} written")
    return report


def _run(workload: Path, consumer: str, delay: int) -> Run:
    if consumer.startswith("vllm:"):
        from .vllm_consumer import scan as scan_vllm

        return scan_vllm(consumer.removeprefix("vllm:"), read(workload), delay=delay)
    if consumer not in CONSUMERS:
        names = ", ".join(CONSUMERS)
        raise UsageError(f"--consumer {consumer}: choose one of {names}, vllm:VERSION")
    choice = CONSUMERS[consumer]
    return Simulation(read(workload), choice.make, delay=delay, share=choice.share).go()


def result(run: Run) -> dict[str, Any]:
    """The figures of all requests together, and of each."""
    requests = [_figures(run, seen) for seen in run.requests]
    added = ("checks", "promoted", "read", "already_present", "hit_tokens")
    total: dict[str, Any] = {name: sum(one[name] for one in requests) for name in added}
    slot = run.workload.slot_bytes
    return {
        "stored": run.stored,
        **total,
        "bytes_promoted": None if slot is None else total["promoted"] * slot,
        "steps": max((one["steps"] for one in requests), default=0),
        "peak_slots": run.peak_slots,
        "lower_bound": {
            name: sum(one["lower_bound"][name] for one in requests)
            for name in ("promotions", "checks")
        },
        "served": not run.stuck,
        "requests": requests,
    }


def _figures(run: Run, seen: Seen) -> dict[str, Any]:
    """What was seen of one request; `lower_bound` is what its hit could not do without."""
    present = len(set(seen.read) - seen.promoted)
    needed = len(seen.read) - present
    slot = run.workload.slot_bytes
    return {
        "id": seen.request.id,
        "stored": len(seen.stored),
        "checks": seen.checks,
        "promoted": seen.promotions,
        "read": len(seen.read),
        "already_present": present,
        "hit_tokens": seen.hit_tokens,
        "bytes_promoted": None if slot is None else seen.promotions * slot,
        "steps": seen.steps,
        "peak_slots": seen.peak_slots,
        "lower_bound": {"promotions": needed, "checks": needed},
    }


def _lines(run: Run, consumer: str, delay: int) -> list[str]:
    figures = result(run)
    slot = run.workload.slot_bytes
    gib = "" if slot is None else f" ({figures['bytes_promoted'] / 2**30:.3f} GiB)"
    read, promoted = figures["read"], figures["promoted"]
    promised = (
        f", at most {figures['peak_slots']:,} of {run.workload.primary_slots:,} slots promised"
    )
    if not figures["peak_slots"]:  # nothing is promised until read
        promised = ""
    tokens = counted(figures["hit_tokens"], "token")
    ratio = f"{promoted / read:.2f} promoted for each block read" if read else "nothing is read"
    return [
        f"consumer {consumer}, a tier that answers {counted(delay, 'step')} later",
        f"stored {figures['stored']:,}, checked {figures['checks']:,}, promoted {promoted:,}{gib}, "
        f"read {read:,}, already present {figures['already_present']:,}: {ratio}",
        f"hit {tokens} in {counted(figures['steps'], 'step')}{promised}",
    ]
