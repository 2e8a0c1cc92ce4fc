"""A picture of a scan: each group's keys as a strip, coloured by what became of them."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

from .simulation import Run, Seen

WIDTH, HEIGHT, LEFT, GAP = 1000, 18, 190, 6
COLOURS = {
    "unreachable": "#e4e4e4",
    "kept, not asked": "#b8c4d6",
    "asked": "#f2c14e",
    "promoted": "#d1495b",
    "promoted and read": "#2e8b57",
    "read, was there": "#7fc8a9",
}
"""What may become of a key, weakest first: where several share a column the strongest shows."""
_ORDER = list(COLOURS)
MOST_REQUESTS = 20


def svg(run: Run, title: str) -> str:
    """The first requests of a run, one strip for each group."""
    shown = run.requests[:MOST_REQUESTS]
    rows = sum(len(run.geometry.lanes) + 1 for _ in shown)
    height = 60 + rows * (HEIGHT + GAP)
    body = "\n".join(_body(run, shown))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{LEFT + WIDTH + 20}" height="{height}" '
        f'font-family="sans-serif" font-size="12">\n'
        f'<rect width="100%" height="100%" fill="white"/>\n'
        f'<text x="10" y="18" font-size="14">{escape(title)}</text>\n{body}\n</svg>\n'
    )


def _body(run: Run, shown: list[Seen]) -> Iterator[str]:
    for i, (word, colour) in enumerate(COLOURS.items()):
        x = 10 + i * 165
        yield f'<rect x="{x}" y="28" width="12" height="12" fill="{colour}"/>'
        yield f'<text x="{x + 18}" y="38">{word}</text>'
    y = 56
    for seen in shown:
        told = (
            f"{seen.request.id}: hit {seen.hit_tokens:,}, read {len(seen.read):,}, promoted "
            f"{seen.promotions:,}, checked {seen.checks:,}"
        )
        yield f'<text x="10" y="{y + 13}">{escape(told)}</text>'
        y += HEIGHT + GAP
        for g, lane in enumerate(run.geometry.lanes):
            chunks = lane.complete(seen.request.prompt_tokens)
            label = escape(f"{lane.group.name} ({chunks:,})")
            yield f'<text x="10" y="{y + 13}">{label}</text>'
            yield from _strip(_states(seen, g, chunks), y)
            y += HEIGHT + GAP


def _states(seen: Seen, group: int, chunks: int) -> list[int]:
    """What became of each chunk of a group, as a place in the order of colours."""
    read = set(seen.read)
    states = []
    for chunk in range(chunks):
        at = group, chunk
        if at in read:
            word = "promoted and read" if at in seen.promoted else "read, was there"
        elif at in seen.promoted:
            word = "promoted"
        elif at in seen.asked:
            word = "asked"
        else:
            word = "kept, not asked" if at in seen.stored else "unreachable"
        states.append(_ORDER.index(word))
    return states


def _strip(states: list[int], y: int) -> Iterator[str]:
    """Neighbouring columns of one colour as one rectangle."""
    columns = min(len(states), WIDTH)
    strongest = [
        max(states[x * len(states) // columns : (x + 1) * len(states) // columns])
        for x in range(columns)
    ]
    begin = 0
    for x in range(1, columns + 1):
        if x == columns or strongest[x] != strongest[begin]:
            left, right = (LEFT + at * WIDTH / columns for at in (begin, x))
            colour = COLOURS[_ORDER[strongest[begin]]]
            yield (
                f'<rect x="{left:.1f}" y="{y}" width="{right - left:.1f}" height="{HEIGHT}" '
                f'fill="{colour}"/>'
            )
            begin = x
