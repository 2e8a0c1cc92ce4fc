"""A result as people see it: a table in the terminal, two charts, a page."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich import box
from rich.table import Table as RichTable
from rich.text import Text

from ...impl.counted import counted
from . import charts
from .results import BYTES_GOAL, Goal, Line, Result, RowResult, Spread, Table, goals

CHART, GROWTH_CHART = "speed.svg", "speed-growth.svg"
NOTICE = "<!-- Written by `tierproof bench manager --pages`. Do not edit. -->"
_PLAIN = ("lookup", "call")
"""Units that need not be said in the terminal."""
_UNITS = ((1e9, "s"), (1e6, "ms"), (1e3, "µs"), (1.0, "ns"))


def time_of(ns: float) -> str:
    """Three digits and a unit."""
    for size, unit in _UNITS:
        if ns >= size or size == 1.0:
            value = ns / size
            digits = 0 if value >= 100 else 1 if value >= 10 else 2
            return f"{value:.{0 if unit == 'ns' else digits}f} {unit}"
    raise AssertionError("no unit fits")


def _ratio(spread: Spread | None) -> str:
    if spread is None:
        return ""
    return " ".join(
        (f"{spread.median:.2f}", f"({_short(spread.min)}-{_short(spread.max)})"),
    )


def _short(value: float) -> str:
    return f"{value:.1f}" if value < 10 else f"{value:.0f}"


def _distance(spread: Spread) -> str:
    return f"{spread.median:.1f}"


def _cells(row: RowResult) -> tuple[str, ...]:
    return (
        row.row,
        row.unit,
        time_of(row.ours_ns.median),
        "" if row.stock_ns is None else time_of(row.stock_ns.median),
        _ratio(row.ratio),
        "" if row.goal is None else f"{row.goal:g}",
        time_of(row.floor_ns.median),
        _distance(row.distance),
    )


def heads(result: Result) -> tuple[str, ...]:
    """What the columns of a table are called."""
    ratio = "ratio (least-greatest)"
    return ("call", "for one", "ours", result.stock or "stock", ratio, "goal", "floor", "x floor")


def terminal_table(result: Result, table: Table) -> RichTable:
    """All rows, in the terminal; without a stock manager its columns are left out."""
    left_out = (1,) if result.stock else (1, 3, 4, 5)
    title = counted(table.resident, "resident block")
    if result.stock:
        title += f"; the ratio is {result.stock} to ours"
    shown = RichTable(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0), title=title)
    names = ("call", "for one", "ours", "stock", "ratio", "goal", "floor", "x floor")
    for place, name in enumerate(names):
        if place not in left_out:
            shown.add_column(name, justify="left" if place < 2 else "right", no_wrap=True)
    for row in table.rows:
        missed = row.goal is not None and row.ratio is not None and row.ratio.median < row.goal
        first, unit, *others = _cells(row)
        cells = (first if unit in first or unit in _PLAIN else f"{first}, a {unit}", unit, *others)
        shown.add_row(
            *(
                Text(cell, style="bold red" if missed and place == 4 else "")
                for place, cell in enumerate(cells)
                if place not in left_out
            )
        )
    return shown


def _missed(goal: Goal) -> str:
    return "**missed**" + ("" if goal.most is None else f"; the floor alone would be {goal.most:g}")


def goal_line(goal: Goal) -> str:
    """A goal in words."""
    sign = ">=" if goal.at_least else "<="
    word = "reached" if goal.reached else "missed"
    return f"{goal.what}: {goal.value:g}, goal {sign} {goal.goal:g} {word}"


def chart(result: Result) -> str:
    """How many times as fast as the stock manager's each call is; without it, ours to the floor."""
    first = result.tables[0]
    names = [row.row for row in first.rows]
    rows = []
    for name in names:
        found = [table.of(name) for table in result.tables]
        spreads = [row.ratio if result.stock else row.distance for row in found]
        dots = [None if s is None else charts.Dot(s.median, s.min, s.max) for s in spreads]
        rows.append(charts.DotRow(name, dots, found[0].goal if result.stock else None))
    axis = (
        f"time of {result.stock} / ours, in the same run: more is better for ours"
        if result.stock
        else "time of ours / the dictionary lookups alone: less is better"
    )
    title = f"Calls of the manager: median of {counted(result.rounds, 'round')}, least and greatest"
    series = [counted(table.resident, "resident block") for table in result.tables]
    return charts.dots(title, axis, series, rows)


def growth_chart(result: Result) -> str:
    """Small panels: every call against what grows."""
    assert result.growth is not None
    shown = [_panel(line, "resident") for line in result.growth.resident]
    shown += [_panel(line, "live") for line in result.growth.live]
    return charts.panels(
        "What does not grow: calls against resident blocks and live requests",
        "resident blocks or live requests",
        "nanoseconds",
        shown,
    )


def _panel(line: Line, of: str) -> charts.Panel:
    lines = {"ours": list(zip(map(float, line.at), line.ours_ns, strict=True))}
    if line.floor_ns is not None:
        lines["dictionary lookups alone"] = list(
            zip(map(float, line.at), line.floor_ns, strict=True)
        )
    return charts.Panel(f"{line.row} ({of})", lines)


# -- the page ------------------------------------------------------------------------------------


def page(result: Result) -> str:
    """The page `speed.md`."""
    return "\n".join(_page(result)).rstrip() + "\n"


def _page(result: Result) -> Iterator[str]:
    machine = result.machine
    yield from (NOTICE, "", "# How fast the manager is", "")
    beside = f"stock {result.stock}, its own Python files unmodified" if result.stock else "nobody"
    yield (
        f"Every call of the manager, beside {beside}, and beside the *floor*: the same loop with "
        "nothing but the dictionary lookups that the work needs. What remains above the floor is "
        "the distance to the limit of Python, and it is printed in each row."
    )
    yield ""
    yield (
        f"Measured by `{result.command}` on a machine with {counted(machine.cpus, 'core')} "
        f"({machine.architecture}, Python {machine.python}), load "
        f"{' and '.join(f'{one:g}' for one in machine.load)} at the begin and at the end. Times "
        "are processor time of the thread: what it waits for on a busy machine is no manager's. "
        f"The sides alternate within {counted(result.rounds, 'round')}, so that a busy neighbour "
        "disturbs all "
        "alike; a figure is the median of the rounds, a ratio the median of the rounds' ratios, "
        "with the least and the greatest. The garbage collector is on. Ratios matter, times do "
        "not: another machine has other times."
    )
    yield from ("", f"![Ratios]({CHART})", "", "## Goals", "")
    yield from _markdown(
        ("goal", "measured", "wanted", ""),
        (
            (
                goal.what,
                f"{goal.value:g}",
                f"{'at least' if goal.at_least else 'at most'} {goal.goal:g}",
                "reached" if goal.reached else _missed(goal),
            )
            for goal in goals(result)
        ),
    )
    for table in result.tables:
        yield from (f"## {counted(table.resident, 'resident block')}", "")
        yield from _markdown(heads(result), map(_cells, table.rows))
    yield from _fairness()
    yield from _reasons()
    yield from ("## The floor", "")
    yield "What the loops of the floor do, once for each unit of the row:"
    yield ""
    yield from _markdown(("call", "floor"), ((r.row, r.needs) for r in result.tables[0].rows))
    if result.memory:
        yield from ("## Memory", "")
        yield (
            "Bytes for each resident block as Python allocates them (`tracemalloc`), beyond its "
            "row of the arena and the caller's key: 120 for its record, 28 for the number of its "
            "slot, the rest for its entry in the dictionary, which grows in leaps. To stay below "
            f"{BYTES_GOAL} right after such a leap, a record would have to do with fewer fields."
        )
        yield ""
        yield from _markdown(
            ("resident blocks", "ours", result.stock or "stock"),
            (
                (f"{m.resident:,}", f"{m.ours:.0f}", "" if m.stock is None else f"{m.stock:.0f}")
                for m in result.memory
            ),
        )
    if result.growth is not None:
        yield from ("## Growth", "")
        yield (
            "Calls against the number of resident blocks, beside the dictionary lookups alone at "
            "the same size (which cost more as the dictionary outgrows the processor's caches), "
            "and against the number of live requests. Nothing on the hot path visits either."
        )
        yield from ("", f"![Growth]({GROWTH_CHART})", "")


def _fairness() -> Iterator[str]:
    yield from ("## What is compared", "")
    yield from (
        "- Both managers are called through their own interfaces, in one process, with the same "
        "keys (a hash of 32 bytes and the number of the group), which are new objects for every "
        "request. No wrapper is in a timed loop.",
        "- Both have secondary tiers that cost as good as nothing: a set of keys to look in, lists "
        "of jobs to take and of reports to give. A job ends when the bench says so. Each is "
        "written against its manager's own tier interface.",
        "- Both keep no events and evict the least recently used block. The stock manager's "
        "contexts know their keys' positions, as its scheduler records them, and its statistics "
        "are taken between scenarios. Back-pressure detectors are off.",
        "- The stock manager always counts lookups for its metrics. Ours does so when it is told "
        "to; the rows that end in *counted* are ours with that switched on.",
        "- Its primary memory is a plain array here, since no byte is moved.",
        "- Answers are looked at when the clock has stopped: a manager that does less than it "
        "should fails the run.",
        "",
    )


def _reasons() -> Iterator[str]:
    yield from ("## What makes it fast, and what is left", "")
    yield from (
        "- A HIT is one dictionary lookup and two comparisons of references (`impl/manager.py`). "
        "The promise that it makes is a reference to an object that all hits of the request in "
        "this step share; a new epoch ends all of them at once (`impl/blocks.py`).",
        "- A block is one object, also in the order of eviction, which is a list that runs through "
        "the blocks (`impl/policies.py`). What is rare hangs on it only while it exists.",
        "- A step looks at what happens in it: empty queues are passed by, and an idle step visits "
        "neither blocks nor requests (`impl/requests.py`, `impl/cascades.py`).",
        "- What is handed to a tier is made by msgspec, in a tenth of the time that a frozen "
        "dataclass takes (`impl/tiers/base.py`).",
        "",
        "The distance that is left is Python's: for a HIT the call itself, for promotions and "
        "stores making a record for the block and for the job, for a step the calls of each tier's "
        "own methods. No row waits for a lock, for I/O or for a search. To come nearer to the "
        "floor, records and loops would have to leave Python (an extension in C or Rust); the "
        "scan of many keys is already within a small factor of it. Where keys were stored at "
        "different times (*scattered*), the dictionary itself misses the processor's caches, and "
        "with a million blocks that is most of the row, for the floor too.",
        "",
        "While no slot is free, a MISS asks the tiers what has ended before it asks them for the "
        "block, because an eviction may have to be decided; the row *no slot free* contains this.",
        "",
    )


def _markdown(heads: Sequence[str], rows: Iterator[tuple[str, ...]]) -> Iterator[str]:
    yield "| " + " | ".join(heads) + " |"
    yield "|" + "---|" * len(heads)
    for row in rows:
        yield "| " + " | ".join(row) + " |"
    yield ""
