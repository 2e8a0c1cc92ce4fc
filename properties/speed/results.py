"""What a run of `bench manager` found out, as data: the JSON that table, charts and page show."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from pathlib import Path
from statistics import median

import msgspec

from ..managers import UsageError
from . import rows
from .rounds import Found
from .rows import IDLE_FEW, IDLE_GOAL, IDLE_MANY, ROWS

SCHEMA = "tierproof.bench-manager/1"
BYTES_GOAL = 200
"""Bytes of a resident block beyond its arena row and the caller's key."""


class Spread(msgspec.Struct, frozen=True):
    """The median of the rounds, the least and the greatest."""

    median: float
    min: float
    max: float

    @classmethod
    def of(cls, values: Sequence[float], *, factor: float = 1.0, digits: int = 1) -> Spread:
        """Of the rounds' values, times a factor."""
        found = (median(values), min(values), max(values))
        return cls(*(round(value * factor, digits) for value in found))


class RowResult(msgspec.Struct, frozen=True):
    """A row of the table; times are nanoseconds for one of `unit`."""

    row: str
    unit: str
    needs: str
    ours_ns: Spread
    floor_ns: Spread
    distance: Spread
    """Ours over the floor, round by round."""
    stock_ns: Spread | None = None
    ratio: Spread | None = None
    """Stock over ours, round by round: how many times as fast ours is."""
    goal: float | None = None


class Table(msgspec.Struct, frozen=True):
    """All rows at one number of resident blocks."""

    resident: int
    rows: list[RowResult]

    def of(self, row: str) -> RowResult:
        """The row of a name."""
        return next(one for one in self.rows if one.row == row)


class Memory(msgspec.Struct, frozen=True):
    """Bytes for each resident block, beyond its arena row and the caller's key."""

    resident: int
    ours: float
    stock: float | None = None


class Line(msgspec.Struct, frozen=True):
    """Nanoseconds of a row against what grows."""

    row: str
    unit: str
    at: list[int]
    ours_ns: list[float]
    floor_ns: list[float] | None = None


class Growth(msgspec.Struct, frozen=True):
    """What calls cost against the number of resident blocks, and of live requests."""

    resident: list[Line]
    live: list[Line]


class Machine(msgspec.Struct, frozen=True):
    """Where it was measured, as far as the figures depend on it."""

    cpus: int
    architecture: str
    python: str
    load: list[float]
    """Load averages of a minute, at the begin and at the end."""


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """A whole run."""

    schema: str = SCHEMA
    command: str
    manager: str
    stock: str | None
    """The stock release; None when there was none at hand."""
    tierproof: str
    machine: Machine
    rounds: int
    tables: list[Table]
    memory: list[Memory] = []
    growth: Growth | None = None


class Goal(msgspec.Struct, frozen=True):
    """A goal and what was measured for it."""

    what: str
    value: float
    goal: float
    at_least: bool
    most: float | None = None
    """What a manager would measure that does nothing but the dictionary lookups of the floor."""

    @property
    def reached(self) -> bool:
        """Whether it is."""
        return self.value >= self.goal if self.at_least else self.value <= self.goal


def machine(load: Sequence[float]) -> Machine:
    """This machine, in words that name nobody's."""
    import os

    return Machine(
        cpus=os.cpu_count() or 1,
        architecture=platform.machine(),
        python=platform.python_version(),
        load=[round(one, 2) for one in load],
    )


def table(resident: int, found: Found) -> Table:
    """The table of what the rounds found; a row without figures would be a mistake of ours."""
    made = []
    for row in ROWS:
        ours, floor = found.ours[row.name], found.floor[row.name]
        stock = found.stock[row.name] if found.stock else None
        made.append(
            RowResult(
                row=row.name,
                unit=row.unit,
                needs=row.needs,
                ours_ns=Spread.of(ours, factor=1e9),
                floor_ns=Spread.of(floor, factor=1e9),
                distance=Spread.of(quotients(ours, floor)),
                stock_ns=None if stock is None else Spread.of(stock, factor=1e9),
                ratio=None if stock is None else Spread.of(quotients(stock, ours), digits=2),
                goal=row.goal,
            )
        )
    return Table(resident, made)


def quotients(of: Sequence[float], to: Sequence[float]) -> list[float]:
    """Round by round."""
    return [a / b for a, b in zip(of, to, strict=True)]


def goals(result: Result) -> list[Goal]:
    """Every goal of which there is a figure."""
    told = []
    for one in result.tables:
        at = f"{one.resident:,} resident"
        for row in one.rows:
            if row.goal is not None and row.ratio is not None:
                assert row.stock_ns is not None
                most = round(row.stock_ns.median / row.floor_ns.median, 1)
                told.append(Goal(f"{row.row}, {at}", row.ratio.median, row.goal, True, most))
        few, many = one.of(IDLE_FEW).ours_ns, one.of(IDLE_MANY).ours_ns
        grown = round(many.median / few.median, 2)
        told.append(
            Goal(
                f"idle step with {rows.MANY_LIVE:,} live requests to one with 1, {at}",
                grown,
                IDLE_GOAL,
                False,
            )
        )
    told += [
        Goal(f"bytes for each of {m.resident:,} blocks", m.ours, BYTES_GOAL, False)
        for m in result.memory
    ]
    return told


def read(path: Path) -> Result:
    """An earlier run.

    Raises:
        UsageError: it cannot be read, or is no such result.
    """
    try:
        raw = msgspec.json.decode(path.read_bytes())
        # `--json` writes it within the report of the command
        inner = raw.get("result", raw) if isinstance(raw, dict) else raw
        result = msgspec.convert(inner, Result)
    except OSError as error:
        raise UsageError(f"--from {path}: cannot be read: {error.strerror}") from error
    except (msgspec.DecodeError, msgspec.ValidationError) as error:
        raise UsageError(
            f"--from {path}: this is no result of `tierproof bench manager`: {error}"
        ) from error
    if result.schema != SCHEMA:
        raise UsageError(f"--from {path}: its schema is {result.schema!r}, not {SCHEMA!r}")
    return result
