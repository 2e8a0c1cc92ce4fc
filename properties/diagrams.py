"""A counterexample as a diagram: who spoke to whom in which order, time downwards, as inline SVG.

Each request, the GPU, the manager and each tier has a lane. Colours come from the page around it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from html import escape
from itertools import pairwise
from typing import Any

from ..impl.counted import counted
from ..model import operations as ops
from .counterexamples import ANSWERED, FEW, LONG, Counterexample, Shown
from .wording import MIND_WORDS, MOOD_WORDS, say_value, together

MANAGER, GPU = "manager", "GPU"
LINE, TOP, LEFT, RIGHT = 30, 62, 62, 24
"""Pixels: between two lines, above the first, beside the lanes."""
LANE = 96
"""The least distance of two lanes."""
LETTER = 6.7
"""Pixels of a letter of the labels, on the wide side."""


@dataclass(frozen=True)
class Mark:
    """One line of the diagram.

    `start` and `end` are lanes: an arrow from one to the other, a note where they are the same,
    and something that concerns everybody where they are None.
    """

    text: str
    start: str | None = None
    end: str | None = None
    reply: bool = False
    wrong: bool = False


Marks = Iterator[Mark]


def lanes(found: Counterexample) -> list[str]:
    """The lanes from left to right."""
    requests = [r.name for r in found.setting.requests]
    requests += [s.op.request for s in found.shown if isinstance(s.op, ops.NewRequest)]
    gpu = any(isinstance(s.op, ops.CompleteLoad | ops.CompleteStore) for s in found.shown)
    tiers = [t.name for t in found.setting.tiers]
    return [*dict.fromkeys(requests), *([GPU] if gpu else []), MANAGER, *tiers]


# -- what an operation looks like ----------------------------------------------------------------


def _asks(op: Any, what: str) -> Marks:
    yield Mark(what, op.request, MANAGER)


def _completion(op: Any, what: str) -> Marks:
    yield Mark(f"{what} (operation {op.number})", GPU, MANAGER)


def _tells(tier: str, what: str) -> Marks:
    yield Mark(what, tier, tier)


def _begins(op: ops.NewRequest) -> Marks:
    only = "" if op.only is None else f", only {together(op.only, 'no tier')}"
    yield Mark(f"begins{only}", op.request, op.request)


def _reported(landed: Sequence[str]) -> str:
    return f"{together(landed)} landed" if landed else "failed"


_DRAWN: dict[type[ops.Operation], Callable[[Any], Marks]] = {
    ops.Lookup: lambda op: _asks(op, f"lookup {op.key}"),
    ops.LookupMany: lambda op: _asks(op, f"lookup_many {', '.join(op.keys)}"),
    ops.Exists: lambda op: _asks(op, f"exists {', '.join(op.keys)}"),
    ops.PlanLoad: lambda op: _asks(op, f"plan_load {', '.join(op.keys)}"),
    ops.PrepareLoad: lambda op: _asks(op, f"prepare_load {', '.join(op.keys)}"),
    ops.PrepareStore: lambda op: _asks(op, f"prepare_store {', '.join(op.keys)}"),
    ops.Withdraw: lambda op: _asks(op, f"withdraw {', '.join(op.keys)}"),
    ops.Send: lambda op: _asks(op, f"send {', '.join(op.keys)}"),
    ops.Finish: lambda op: _asks(op, "ends"),
    ops.NewRequest: _begins,
    ops.CompleteLoad: lambda op: _completion(op, "has read"),
    ops.CompleteStore: lambda op: _completion(op, "has written" if op.ok else "failed to write"),
    ops.StepEnd: lambda op: iter(
        [Mark(f"the step ends{'; scheduled: ' if op.scheduled else ''}{', '.join(op.scheduled)}")]
    ),
    ops.Reset: lambda op: iter(
        [Mark(f"the cache is reset{', and ' if op.tiers else ''}{', '.join(op.tiers)}")]
    ),
    ops.Flushed: lambda op: iter([Mark("the reset has been flushed")]),
    ops.Advance: lambda op: iter([Mark(f"{op.seconds:g} s pass")]),
    ops.Mind: lambda op: _tells(op.tier, MIND_WORDS[op.mind].format(key=op.key)),
    ops.Mood: lambda op: _tells(op.tier, MOOD_WORDS[op.mood][0 if op.on else 1]),
    ops.Verify: lambda op: _tells(op.tier, f"verifies {op.key} anew"),
    ops.Misreport: lambda op: iter(
        [Mark(f"wrongly: job {op.number} {_reported(op.landed)}", op.tier, MANAGER)]
    ),
}


def _marks(step: Shown, sources: dict[int, str]) -> Marks:
    op = step.op
    if isinstance(op, ops.Report):
        tier = sources.get(op.number)
        yield Mark(f"job {op.number}: {_reported(op.landed)}", tier, MANAGER if tier else None)
    else:
        yield from _DRAWN[type(op)](op)
    for job in step.jobs:
        sources[job.number] = job.tier
        what = "load" if job.kind == "LOAD" else "store"
        yield Mark(f"job {job.number}: {what} {', '.join(job.keys)}", MANAGER, job.tier)
    caller = getattr(op, "request", None)
    given, expected = say_value(step.got), say_value(step.expected)
    if not step.wrong:
        numbers = [s for s in step.starts if s.startswith("operation")]
        told = ", ".join([*([given] if given else []), *numbers])
        if told and caller is not None:
            yield Mark(told, MANAGER, caller, reply=True)
    elif caller is not None and given != expected and told_apart(op, given, expected):
        yield Mark(given or "nothing", MANAGER, caller, reply=True, wrong=True)
        yield Mark(f"expected: {expected or 'nothing'}", wrong=True)
    else:
        yield Mark("here the contract is broken", wrong=True)


def told_apart(op: ops.Operation, given: str, expected: str) -> bool:
    """Does the difference lie in what the caller was told?"""
    return bool(ANSWERED & {given, expected}) or isinstance(op, ops.PrepareStore)


def rows(found: Counterexample) -> list[tuple[str, list[Mark]]]:
    """Every operation that is shown: its number, and its lines. A long history lacks its middle."""
    count, sources, drawn = len(found.shown), dict[int, str](), []
    for number, step in enumerate(found.shown, 1):
        marks = list(_marks(step, sources))
        if count > LONG and FEW < number <= count - LONG + FEW:
            if number == FEW + 1:
                drawn.append(("", [Mark(f"... {counted(count - LONG, 'operation')} not shown")]))
            continue
        drawn.append((f"{number}.", marks))
    return drawn


# -- drawing -------------------------------------------------------------------------------------


def _width(text: str) -> float:
    return len(text) * LETTER + 20


def _half(name: str, marks: Sequence[Mark]) -> float:
    """Half of the widest box on a lane."""
    notes = [_width(m.text) for m in marks if m.start == m.end == name]
    return max([_width(name), *notes]) / 2


def _places(names: Sequence[str], marks: Sequence[Mark]) -> dict[str, float]:
    """Where the lanes stand, so that every label has room between those that it joins."""
    gaps = [max(LANE, (_width(a) + _width(b)) / 2) for a, b in pairwise(names)]
    for mark in marks:
        if mark.start is None or mark.end is None:
            continue
        a, b = sorted((names.index(mark.start), names.index(mark.end)))
        if a == b:  # a note: half of it on either side
            for i in (a - 1, a):
                if 0 <= i < len(gaps):
                    gaps[i] = max(gaps[i], _width(mark.text) / 2 + 8)
            continue
        lack = _width(mark.text) - sum(gaps[a:b])
        if lack > 0:
            gaps[a:b] = [gap + lack / (b - a) for gap in gaps[a:b]]
    places, x = {}, LEFT + _half(names[0], marks)
    for name, gap in zip(names, [*gaps, 0.0], strict=True):
        places[name] = x
        x += gap
    return places


def svg(found: Counterexample) -> str:
    """The diagram as an `svg` element without any reference to the outside."""
    names, drawn = lanes(found), rows(found)
    marks = [mark for _, some in drawn for mark in some]
    places = _places(names, marks)
    widest = max((_width(m.text) for m in marks if m.start is None), default=0.0)
    width = max(places[names[-1]] + _half(names[-1], marks), LEFT + widest) + RIGHT
    height = TOP + LINE * len(marks) + 16
    behind, body = [], list(_lanes(places, height))
    y = float(TOP)
    for number, some in drawn:
        if any(mark.wrong for mark in some):
            tall = LINE * len(some)
            behind.append(_element("rect", "wrong", x=8, y=y - 20, width=width - 16, height=tall))
        body.append(_text(number, LEFT - 34, y + 2, "number", "start"))
        for mark in some:
            body += _mark(mark, places, y, width)
            y += LINE
    title = escape(f"{found.contract} is broken by {found.manager}")
    return (
        f'<svg class="diagram" role="img" viewBox="0 0 {width:.0f} {height:.0f}" '
        f'width="{width:.0f}" height="{height:.0f}" xmlns="http://www.w3.org/2000/svg">'
        f"<title>{title}</title>{''.join(behind + body)}</svg>"
    )


def _lanes(places: dict[str, float], height: float) -> Iterator[str]:
    for name, x in places.items():
        wide = _width(name)
        kind = "lane manager" if name == MANAGER else "lane"
        yield _element("line", kind, x1=x, y1=36, x2=x, y2=height - 8)
        yield _element("rect", kind, x=x - wide / 2, y=8, width=wide, height=24, rx=5)
        yield _text(name, x, 25, "name")


def _mark(mark: Mark, places: dict[str, float], y: float, width: float) -> Iterator[str]:
    kind = " wrong" if mark.wrong else ""
    if mark.start is None or mark.end is None:
        yield _element("line", f"rule{kind}", x1=LEFT - 8, y1=y + 4, x2=width - RIGHT, y2=y + 4)
        yield _text(mark.text, LEFT, y - 2, f"label{kind}", "start")
    elif mark.start == mark.end:
        x, wide = places[mark.start], _width(mark.text) - 6
        yield _element("rect", "note", x=x - wide / 2, y=y - 15, width=wide, height=22, rx=5)
        yield _text(mark.text, x, y, "label")
    else:
        a, b = places[mark.start], places[mark.end]
        back = 1 if b < a else -1
        dashed = " reply" if mark.reply else ""
        yield _element("line", f"arrow{dashed}{kind}", x1=a, y1=y + 4, x2=b + 6 * back, y2=y + 4)
        tip = f"{b:.1f},{y + 4:.1f} {b + 8 * back:.1f},{y:.1f} {b + 8 * back:.1f},{y + 8:.1f}"
        yield f'<polygon class="tip{kind}" points="{tip}"/>'
        yield _text(mark.text, (a + b) / 2, y - 1, f"label{kind}")


def _element(name: str, kind: str, **numbers: float) -> str:
    placed = " ".join(f'{n}="{value:.1f}"' for n, value in numbers.items())
    return f'<{name} class="{kind}" {placed}/>'


def _text(text: str, x: float, y: float, kind: str, anchor: str = "middle") -> str:
    return (
        f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'
    )
