"""A2: the two-phase consumer on random models, holes and capacities, held to what it may ask.

The oracle is the geometry by definition (`model.geometry`). What is checked as well, since it shows
here: the hit is the longest that there is, and the blocks promoted for it are those that it reads.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from ..impl.counted import counted
from ..impl.geometry import Group
from ..impl.two_phase import TwoPhase
from ..model import geometry as by_definition
from ..model.geometry import GroupOf, PromptOf
from .driver import Factory
from .simulation import Run, Simulation
from .workloads import Missing, RequestOf, TierOf, Workload

NEEDED = ("exists", "plan_load", "plan_head", "landed", "withdraw")
"""The calls of a manager that the consumer makes."""


@dataclass
class Askings:
    """How many workloads were run, how many keys were asked for, and what was wrong, in words."""

    workloads: int = 0
    checks: int = 0
    broken: list[str] = field(default_factory=list)
    """What was wrong with the asking: A2."""
    others: list[str] = field(default_factory=list)
    """What was wrong with the hit or its promotions, which is for other contracts to say."""


class _Run(Simulation):
    """A foreign manager may show nothing of what it holds."""

    def _measure(self, waiting: Any) -> None:
        pass


def ask_no_more(factory: Factory, *, examples: int, seed: int) -> Askings:
    """Run random workloads until one breaks the bound."""
    draw, found = random.Random(seed), Askings()
    for _ in range(examples):
        work, delay = _workload(draw), draw.choice((0, 0, 1, 2))
        run = _Run(work, TwoPhase, delay=delay, factory=factory).go()
        found.workloads += 1
        found.checks += run.requests[0].checks
        where = f"{work}, a tier that answers {counted(delay, 'step')} later"
        found.others += [f"{wrong}: {where}" for wrong in _beside(run)]
        if not found.others:  # what is asked for a hit is told by the right hit
            found.broken += [f"{wrong}: {where}" for wrong in _asked(run, delay)]
        if found.broken or found.others:
            break
    return found


def _workload(draw: random.Random) -> Workload:
    groups = [_group(draw, 0, "full")]
    for i in range(1, draw.randint(1, 4)):
        groups.append(_group(draw, i, draw.choice(("full", "window", "recurrent"))))
    tokens = draw.randint(1, 48)
    holes = [
        Missing(group=draw.choice(groups).name, chunks=(draw.randint(0, 47),))
        for _ in range(draw.randint(0, 5))
    ]
    return Workload(
        version=1,
        blocks_per_chunk=draw.choice((1, 1, 2)),
        groups=tuple(groups),
        primary_slots=draw.choice((1, 2, 5, 256)),
        tiers=(TierOf(name="t", missing=tuple(holes)),),
        requests=(
            RequestOf(id="r", prompt_tokens=tokens, gpu_tokens=draw.randint(0, tokens // 2)),
        ),
    )


def _group(draw: random.Random, number: int, kind: Any) -> Group:
    return Group(
        name=f"g{number}",
        kind=kind,
        tokens_per_block=draw.choice((1, 2, 4, 8)),
        window=draw.randint(1, 12) if kind == "window" else None,
        draft=draw.random() < 0.2,
        retained_tokens=draw.choice((0, 0, 3)),
    )


def _oracle(run: Run) -> tuple[tuple[GroupOf, ...], PromptOf, set[by_definition.Chunk], int]:
    """Model, prompt, what the tier has, and the longest hit."""
    (seen,), work = run.requests, run.workload
    groups = tuple(
        GroupOf(group.kind, lane.chunk, group.window or 0, group.draft, group.retained_tokens)
        for lane in run.geometry.lanes
        for group in (lane.group,)
    )
    prompt = PromptOf(seen.request.prompt_tokens, seen.request.gpu_tokens)
    names = [group.name for group in work.groups]
    holes = {(names.index(m.group), c) for m in work.tiers[0].missing for c in m.chunks}
    there = by_definition.stored(groups, prompt) - holes
    return groups, prompt, there, by_definition.longest_hit(groups, prompt, there.__contains__)


def _beside(run: Run) -> Iterator[str]:
    """What is wrong with the hit or with what was promoted for it."""
    (seen,), (groups, prompt, _, hit) = run.requests, _oracle(run)
    if not seen.served:
        yield "the request was never served"
    elif seen.hit_tokens != max(hit, prompt.on_gpu):
        yield f"hit {seen.hit_tokens}, the longest is {hit}"
    elif seen.promoted != by_definition.read_by(groups, prompt, hit):
        yield "other blocks were promoted than the hit reads"
    elif seen.promotions > len(seen.promoted):
        yield "a block was promoted twice"


def _asked(run: Run, delay: int) -> Iterator[str]:
    """What is wrong with the questions."""
    (seen,), (groups, prompt, there, hit) = run.requests, _oracle(run)
    needed = by_definition.asked_for(groups, prompt, hit)
    given_up = {
        chunk
        for end in by_definition.boundaries(groups, prompt)
        if end > hit
        for chunk in by_definition.asked_for(groups, prompt, end)
    }
    if not seen.asked <= by_definition.reachable(groups, prompt):
        yield "a key was asked for that no boundary needs"
    if delay:
        return
    if run.lookups > seen.checks:
        yield "a key was asked for twice"
    if not seen.asked <= needed | given_up:
        yield "a key was asked for beyond those of the hit and of what was given up"
    if given_up <= there and seen.asked != needed:
        yield "nothing is missing, and more was asked for than the hit needs"
