"""The command `bench manager`: every call beside the stock manager's, and beside the least it can
cost."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from tierproof import __version__

from ..impl.counted import counted
from .managers import SHIPPED, Chosen, UsageError
from .places import write
from .report import Report
from .speed import growth as growing
from .speed import results, showing
from .speed.ours import OurSide
from .speed.rounds import LEAST_ROUNDS, MakeSide, measure
from .speed.side import WrongAnswerError
from .terminal import Terminal
from .vllm_cache import checked, is_cached

STOCK = "0.33.0"
"""The release of vLLM to compare with when none is named."""
RESIDENT = (10_000, 1_000_000)
MEMORY_AT = (10_000, 100_000, 1_000_000)
GROWTH_ROUNDS = 5
MOST_RESIDENT = 10_000_000


def bench_manager(
    terminal: Terminal,
    chosen: Chosen,
    *,
    stock: str | None,
    rounds: int,
    resident: Sequence[int],
    growth: int | None,
    again: Path | None,
    plot: Path | None,
    pages: Path | None,
) -> Report:
    """Measure, or show an earlier run again; the report knows which goals are missed.

    Raises:
        UsageError: something that was given cannot be.
    """
    report = Report("bench manager", chosen.spec)
    if again is not None:
        result = results.read(again)
    else:
        _check(rounds, resident, growth)
        try:
            result = _measured(
                terminal, report, chosen, stock, rounds, resident=resident, growth=growth
            )
        except WrongAnswerError as error:
            report.failures.append(f"{chosen.spec} or the stock manager is not measured: {error}")
            return report
    report.result = msgspec.to_builtins(result)
    for table in result.tables:
        terminal.print(showing.terminal_table(result, table))
    goals = results.goals(result)
    report.lines += [showing.goal_line(goal) for goal in goals]
    report.missed += [goal.what for goal in goals if not goal.reached]
    if plot is not None:
        write(plot, showing.chart(result), "--plot")
    if pages is not None:
        report.lines += _write_pages(result, pages)
    return report


def _check(rounds: int, resident: Sequence[int], growth: int | None) -> None:
    if rounds < LEAST_ROUNDS:
        raise UsageError(
            f"--rounds {rounds}: a median of fewer than {LEAST_ROUNDS} rounds says little; write "
            f"{LEAST_ROUNDS} or more"
        )
    for option, number in (*(("--resident", n) for n in resident), ("--growth", growth)):
        if number is not None and not 1_000 <= number <= MOST_RESIDENT:
            raise UsageError(
                f"{option} {number}: write a number of resident blocks from 1000 to {MOST_RESIDENT}"
            )


def _measured(
    terminal: Terminal,
    report: Report,
    chosen: Chosen,
    stock: str | None,
    rounds: int,
    *,
    resident: Sequence[int],
    growth: int | None,
) -> results.Result:
    make_ours: MakeSide = (
        OurSide if chosen.spec == SHIPPED else partial(OurSide, factory=chosen.factory)
    )
    make_stock = _stock(report, stock)
    stock = stock or STOCK
    load = [os.getloadavg()[0]]
    tables = []
    for number in resident:
        with terminal.patiently(f"{counted(number, 'resident block')}") as step:
            tables.append(
                results.table(number, measure(number, rounds, make_ours, make_stock, step))
            )
    with terminal.patiently("memory"):
        memory = [growing.memory(number, make_ours, make_stock) for number in MEMORY_AT]
    grown = None
    if growth is not None:
        with terminal.patiently("growth") as step:
            grown = growing.grow(make_ours, growth, GROWTH_ROUNDS, step)
    load.append(os.getloadavg()[0])
    return results.Result(
        command=_command(chosen, stock if make_stock else None, rounds, resident, growth),
        manager=chosen.spec,
        stock=None if make_stock is None else f"vLLM {stock}",
        tierproof=__version__,
        machine=results.machine(load),
        rounds=rounds,
        tables=tables,
        memory=memory,
        growth=grown,
    )


def _stock(report: Report, named: str | None) -> MakeSide | None:
    """The stock side, if its release is at hand; else the report says how to get it.

    Raises:
        UsageError: the release was asked for by name, and is not at hand.
    """
    version = checked(named or STOCK)
    if not is_cached(version):
        if named is not None:
            raise UsageError(
                f"--stock {named}: it is not in the cache; fetch it once with "
                f"`tierproof fetch-vllm {named}`"
            )
        report.lines.append(
            f"vLLM {version} is not in the cache, so there are no ratios to it: fetch it once with "
            f"`tierproof fetch-vllm {version}`"
        )
        return None
    from .speed.stock import StockSide
    from .vllm_loader import load

    return partial(StockSide, load(version))


def _command(
    chosen: Chosen, stock: str | None, rounds: int, resident: Sequence[int], growth: int | None
) -> str:
    words: list[Any] = ["tierproof", "bench", "manager", "--rounds", rounds]
    words += [] if stock is None else ["--stock", stock]
    words += [word for number in resident for word in ("--resident", number)]
    words += [] if growth is None else ["--growth", growth]
    words += [] if chosen.spec == SHIPPED else ["--manager", chosen.spec]
    return shlex.join(map(str, words))


def _write_pages(result: results.Result, folder: Path) -> list[str]:
    texts = {
        "speed.md": showing.page(result),
        showing.CHART: showing.chart(result),
        "speed.json": msgspec.json.format(msgspec.json.encode(result), indent=1).decode() + "\n",
    }
    if result.growth is not None:
        texts[showing.GROWTH_CHART] = showing.growth_chart(result)
    for name, text in texts.items():
        write(folder / name, text, "--pages")
    return [f"{folder / name} written" for name in texts]
