"""Charts as plain SVG text: dots with whiskers on a logarithmic axis, and small panels of lines.

No library: a picture that is committed must be the same wherever it is drawn anew.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape

COLOURS = ("#1f6f8b", "#d1495b", "#2e8b57", "#8c6bb1")
GREY, BLACK = "#c8c8c8", "#333333"
_ROW, _LABELS, _AXIS, _MARGIN = 26, 270, 560, 30
_PANEL, _PANEL_HEIGHT, _PANELS_IN_A_ROW = 230, 150, 4


@dataclass(frozen=True)
class Dot:
    """A value with its spread: one dot of a row."""

    value: float
    least: float
    greatest: float


@dataclass(frozen=True)
class DotRow:
    """A label, a dot for each series that has one, and the goal."""

    label: str
    dots: Sequence[Dot | None]
    goal: float | None = None


@dataclass(frozen=True)
class Panel:
    """A small chart: points by series, both axes logarithmic."""

    title: str
    lines: Mapping[str, Sequence[tuple[float, float]]]


def dots(title: str, axis: str, series: Sequence[str], rows: Sequence[DotRow]) -> str:
    """Rows of dots with whiskers on one logarithmic axis, with a line at 1 and marks for goals."""
    spread = [x for row in rows for dot in row.dots if dot for x in (dot.least, dot.greatest)]
    scale = _Scale([*spread, 1.0], _LABELS, _LABELS + _AXIS)
    top, height = 70, 70 + len(rows) * _ROW + 40
    width = _LABELS + _AXIS + _MARGIN
    body: list[str] = [_text(10, 20, title, size=15)]
    for place, name in enumerate(series):
        x = 14.0 + place * 220
        body += [_circle(x, 40, place), _text(x + 10, 44, name)]
    x = 14.0 + len(series) * 220
    body += [_line(x, 33, x, 47, BLACK, 2), _text(x + 8, 44, "goal")]
    for tick in scale.ticks():
        x = scale.at(tick)
        body.append(_line(x, top - 10, x, height - 34, BLACK if tick == 1 else GREY))
        body.append(_text(x, height - 18, f"{tick:g}", anchor="middle"))
    body.append(_text(_LABELS + _AXIS / 2, height - 3, axis, anchor="middle"))
    for place, row in enumerate(rows):
        y = top + place * _ROW
        body.append(_text(_LABELS - 10, y + 4, row.label, anchor="end"))
        if row.goal is not None:
            x = scale.at(row.goal)
            body.append(_line(x, y - 9, x, y + 9, BLACK, 2))
        for which, dot in enumerate(row.dots):
            if dot is not None:
                at = y - 4 + 8 * which
                ends = scale.at(dot.least), scale.at(dot.greatest)
                body.append(_line(ends[0], at, ends[1], at, COLOURS[which], 1.5))
                body.append(_circle(scale.at(dot.value), at, which))
    return _svg(width, height, body)


def panels(title: str, x_axis: str, y_axis: str, shown: Sequence[Panel]) -> str:
    """Small charts side by side; the series have the same colour in all of them."""
    names = list(dict.fromkeys(name for panel in shown for name in panel.lines))
    body = [_text(10, 20, title, size=15), _text(10, 40, f"{y_axis}, against {x_axis}")]
    for place, name in enumerate(names):
        x = 320 + place * 160
        body.append(_line(x, 36, x + 24, 36, COLOURS[place], 2, dashed=place > 0))
        body.append(_text(x + 30, 40, name))
    for place, panel in enumerate(shown):
        left = 60 + (place % _PANELS_IN_A_ROW) * (_PANEL + 50)
        top = 80 + (place // _PANELS_IN_A_ROW) * (_PANEL_HEIGHT + 60)
        body += _panel(panel, names, left, top)
    rows = -(-len(shown) // _PANELS_IN_A_ROW)
    columns = min(len(shown), _PANELS_IN_A_ROW)
    return _svg(40 + columns * (_PANEL + 50), 80 + rows * (_PANEL_HEIGHT + 60), body)


def _panel(panel: Panel, names: Sequence[str], left: float, top: float) -> Iterator[str]:
    points = [point for line in panel.lines.values() for point in line]
    across = _Scale([x for x, _ in points], left, left + _PANEL)
    up = _Scale([y for _, y in points], top + _PANEL_HEIGHT, top)
    yield _text(left, top - 8, panel.title)
    for tick in up.ticks():
        yield _line(left, up.at(tick), left + _PANEL, up.at(tick), GREY)
        yield _text(left - 6, up.at(tick) + 4, _short(tick), anchor="end", size=10)
    for tick in across.ticks():
        yield _line(across.at(tick), top, across.at(tick), top + _PANEL_HEIGHT, GREY)
        yield _text(
            across.at(tick), top + _PANEL_HEIGHT + 14, _short(tick), anchor="middle", size=10
        )
    for name, line in panel.lines.items():
        which = names.index(name)
        path = " ".join(f"{across.at(x):.1f},{up.at(y):.1f}" for x, y in line)
        dashes = ' stroke-dasharray="5 4"' if which else ""
        yield (
            f'<polyline points="{path}" fill="none" stroke="{COLOURS[which]}" '
            f'stroke-width="2"{dashes}/>'
        )
        for x, y in line:
            yield _circle(across.at(x), up.at(y), which, 2.5)


class _Scale:
    """A logarithmic axis from pixel `begin` to `end`, over whole powers of ten or parts of one."""

    def __init__(self, values: Sequence[float], begin: float, end: float) -> None:
        low, high = min(values), max(values)
        ticks = [t for t in _TICKS if low / 10 < t < high * 10]
        below = [t for t in ticks if t <= low]
        above = [t for t in ticks if t >= high]
        self._low = max(below, default=low)
        self._high = min(above, default=high)
        if self._high <= self._low:
            self._high = self._low * 10
        self._begin, self._end = begin, end

    def at(self, value: float) -> float:
        """Where a value lies, in pixels."""
        share = math.log(value / self._low) / math.log(self._high / self._low)
        return self._begin + share * (self._end - self._begin)

    def ticks(self) -> list[float]:
        """Powers of ten, and with few of those also their halves and fifths."""
        wide = self._high / self._low > 100
        return [
            t
            for t in _TICKS
            if self._low <= t <= self._high and not (wide and not _is_power_of_ten(t))
        ]


_TICKS = [float(f"{digit}e{power}") for power in range(-6, 12) for digit in (1, 2, 5)]


def _is_power_of_ten(value: float) -> bool:
    return math.isclose(math.log10(value), round(math.log10(value)), abs_tol=1e-9)


def _short(value: float) -> str:
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{value / size:g}{letter}"
    return f"{value:g}"


def _text(x: float, y: float, words: str, *, anchor: str = "start", size: int = 12) -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}" '
        f'fill="{BLACK}">{escape(words)}</text>'
    )


def _line(
    x: float,
    y: float,
    to_x: float,
    to_y: float,
    colour: str,
    width: float = 1,
    *,
    dashed: bool = False,
) -> str:
    dashes = ' stroke-dasharray="5 4"' if dashed else ""
    return (
        f'<line x1="{x:.1f}" y1="{y:.1f}" x2="{to_x:.1f}" y2="{to_y:.1f}" stroke="{colour}" '
        f'stroke-width="{width:g}"{dashes}/>'
    )


def _circle(x: float, y: float, which: int, radius: float = 4) -> str:
    return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius:g}" fill="{COLOURS[which]}"/>'


def _svg(width: float, height: float, body: Sequence[str]) -> str:
    inside = "\n".join(body)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
        f'font-family="sans-serif">\n<rect width="100%" height="100%" fill="white"/>\n'
        f"{inside}\n</svg>\n"
    )
