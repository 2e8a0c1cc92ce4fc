"""Which chunks a hit reads: one module for the store filter, the lookup and the load.

A model has KV-cache *groups*. `blocks_per_chunk` blocks of a group are one *chunk*: one key, one
slot. A hit can end only at a *boundary*: a multiple of a full-attention chunk, or the request's
limit, and with recurrent groups only where each of them has a state. What no boundary reads is
never stored, asked or loaded; since all three are answered here, they cannot disagree.

All sizes are in tokens, all chunks are numbered from the start of the prompt.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Literal

import msgspec

from .errors import ConfigError

Kind = Literal["full", "window", "recurrent"]
MOST_TOKENS = 2**31
"""No prompt, window or block is longer: a number above is a mistake, and would take for ever."""


class Group(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A KV-cache group as a model's configuration describes it."""

    name: str
    kind: Kind
    tokens_per_block: int
    window: int | None = None
    """Tokens that attention reaches back to, the next one included; of kind "window" only."""
    draft: bool = False
    """A speculative-draft (EAGLE-style) group must also find the chunk after the boundary."""
    retained_tokens: int = 0
    """Tokens that are kept beyond the window: they widen store, lookup and load alike."""


class Prompt(msgspec.Struct, frozen=True, kw_only=True):
    """What is asked for: `tokens` long, of which the first `on_gpu` are there already."""

    tokens: int
    on_gpu: int = 0
    most: int | None = None
    """The request's own limit: a hit ends there at the latest, counted from the start."""


class Lane:
    """One group in chunks."""

    __slots__ = ("chunk", "draft", "full", "group", "reach", "recurrent")

    def __init__(self, group: Group, blocks_per_chunk: int) -> None:
        self.group = group
        self.chunk = group.tokens_per_block * blocks_per_chunk
        self.full = group.kind == "full"
        self.recurrent = group.kind == "recurrent"
        self.draft = int(group.draft)
        window = self.chunk if self.recurrent else group.window or 0
        self.reach = window + group.retained_tokens
        """Tokens before the boundary that the next token needs, and itself."""

    def reads(self, hit: int, on_gpu: int = 0) -> range:
        """The chunks that loading a hit of so many tokens reads."""
        if hit <= on_gpu:
            return range(0)
        end = -(-hit // self.chunk)
        first = on_gpu // self.chunk
        if not self.full:
            back = max(0, hit - self.reach + 1) // self.chunk
            if self.recurrent:  # the state itself, also where a chunk is a single token
                back = min(back, end - 1)
            elif self.reach == 1:  # nothing before the next token is read
                return range(0)
            first = max(first, back)
        return range(first, end)

    def asks(self, hit: int, on_gpu: int = 0) -> range:
        """The chunks that must be found for it: a draft group's go one beyond what is read."""
        reads = self.reads(hit, on_gpu)
        if hit <= on_gpu or not self.draft:
            return reads
        end = -(-hit // self.chunk)
        return range(reads.start if reads else end, end + 1)

    def complete(self, tokens: int) -> int:
        """How many chunks have keys: the whole ones."""
        return tokens // self.chunk


class Geometry:
    """The groups of a model, and which chunks which hit needs.

    Args:
        groups: in the order in which they are named by number.
        blocks_per_chunk: GPU blocks that are stored under one key.

    Raises:
        ConfigError: a size is out of range, or a window has no full group beside it; the message
            begins with the field.
    """

    def __init__(self, groups: Sequence[Group], blocks_per_chunk: int = 1) -> None:
        check_groups(groups, blocks_per_chunk)
        self.lanes = tuple(Lane(group, blocks_per_chunk) for group in groups)
        self.shortened = any(not lane.full for lane in self.lanes)
        """The last token is computed anew wherever a group keeps less than everything."""
        states = math.lcm(*(lane.chunk for lane in self.lanes if lane.recurrent))
        self._states = states
        full = {lane.chunk for lane in self.lanes if lane.full}
        self._steps = tuple(sorted({math.lcm(chunk, states) for chunk in full})) or (states,)
        """A boundary is a multiple of one of these, or the limit."""

    # -- boundaries -------------------------------------------------------------------------------

    def limit(self, prompt: Prompt) -> int:
        """Where a hit must end at the latest, rounded down to where there is a state."""
        most = prompt.tokens - self.shortened
        if prompt.most is not None:
            most = min(most, prompt.most)
        return max(0, most) // self._states * self._states

    def whole(self, tokens: int, *, drafts: bool = True) -> int:
        """The longest hit whose chunks all have keys; with `drafts`, those after it as well."""
        return max(0, min((x.complete(tokens) - x.draft * drafts) * x.chunk for x in self.lanes))

    def boundary(self, prompt: Prompt, most: int) -> int:
        """The last boundary up to `most`; 0 when there is none beyond the GPU's tokens."""
        limit = self.limit(prompt)
        top = min(most, limit, self.whole(prompt.tokens))
        last = limit if top == limit else max(top // step * step for step in self._steps)
        return last if last > prompt.on_gpu else 0

    def below(self, group: int, chunk: int) -> int:
        """The longest hit that does without this chunk and all that come after it."""
        lane = self.lanes[group]
        return max(0, (chunk - lane.draft) * lane.chunk)

    # -- what is stored, asked and read -----------------------------------------------------------

    def reads(self, prompt: Prompt, hit: int) -> list[tuple[int, int]]:
        """(group, chunk) for all that loading this hit reads: full groups first, heads first."""
        return [
            (g, chunk) for g in self.in_order() for chunk in self.lanes[g].reads(hit, prompt.on_gpu)
        ]

    def in_order(self) -> list[int]:
        """The groups as they are scanned: full ones first, then the longest windows in chunks."""

        def rank(g: int) -> tuple[bool, int]:
            lane = self.lanes[g]
            return (not lane.full, 0 if lane.full else lane.reach // -lane.chunk)

        return sorted(range(len(self.lanes)), key=rank)

    def reachable(self, prompt: Prompt) -> Iterator[tuple[int, int]]:
        """(group, chunk) for all that some boundary of the prompt needs found."""
        top = min(self.limit(prompt), self.whole(prompt.tokens))
        for g in self.in_order():
            spans = [
                self.lanes[g].asks(h, prompt.on_gpu)
                for h in self._boundaries(g, top, self.limit(prompt))
            ]
            yield from ((g, chunk) for chunk in _union(spans))

    def stored(self, prompt: Prompt) -> Iterator[tuple[int, int]]:
        """(group, chunk) for all that the store filter keeps of a prompt.

        What this prompt's own boundaries need, and what a longer one's need that begins with it.
        """
        whole = self.whole(prompt.tokens, drafts=False)
        limits = {self.limit(prompt), self.limit(Prompt(tokens=prompt.tokens))}
        for g, lane in enumerate(self.lanes):
            spans = [lane.asks(h) for h in self._boundaries(g, whole, 0)]
            spans += [lane.asks(h) for h in limits if h <= whole]
            keys = lane.complete(prompt.tokens)
            yield from ((g, chunk) for chunk in _union(spans) if chunk < keys)

    def is_stored(self, prompt: Prompt, group: int, chunk: int) -> bool:
        """Does the store filter keep this chunk?"""
        lane = self.lanes[group]
        if chunk >= lane.complete(prompt.tokens):
            return False
        whole = self.whole(prompt.tokens, drafts=False)
        limits = {self.limit(prompt), self.limit(Prompt(tokens=prompt.tokens))}
        if any(h <= whole and chunk in lane.asks(h) for h in limits):
            return True
        # the first boundary that reaches the chunk is the one that reaches back the furthest
        past = max(0, (chunk - lane.draft) * lane.chunk)
        firsts = (first_beyond(past, step) for step in self._steps)
        return any(h <= whole and chunk in lane.asks(h) for h in firsts)

    def _boundaries(self, group: int, top: int, limit: int) -> Iterator[int]:
        """Boundaries up to `top` that together need all that any needs of the group."""
        if self.lanes[group].full:  # the longest hit reads what all others read
            yield max((top // step * step for step in self._steps), default=0)
        else:
            for step in self._steps:
                yield from range(step, top + 1, step)
        if 0 < limit <= top:
            yield limit


def first_beyond(tokens: int, step: int) -> int:
    """The first multiple of `step` that is more than `tokens`."""
    return (tokens // step + 1) * step


def _union(spans: list[range]) -> Iterator[int]:
    """The numbers of all ranges, each once, rising."""
    done = 0
    for span in sorted(spans, key=lambda one: one.start):
        yield from range(max(span.start, done), span.stop)
        done = max(done, span.stop)


def check_groups(groups: Sequence[Group], blocks_per_chunk: int) -> None:
    """Refuse what is no model.

    Raises:
        ConfigError: the message begins with the field.
    """
    _whole("blocks_per_chunk", blocks_per_chunk)
    if not groups:
        raise ConfigError("groups: there must be at least one")
    for i, group in enumerate(groups):
        at = f"groups[{i}]."
        _whole(at + "tokens_per_block", group.tokens_per_block)
        _whole(at + "retained_tokens", group.retained_tokens, least=0)
        if group.kind == "window":
            if group.window is None:
                raise ConfigError(f"{at}window: a group of kind 'window' needs its tokens")
            _whole(at + "window", group.window)
        elif group.window is not None:
            raise ConfigError(f"{at}window: a group of kind {group.kind!r} has none")
        if group.name in [other.name for other in groups[:i]]:
            raise ConfigError(f"{at}name: {group.name!r} is used twice")
    kinds = {group.kind for group in groups}
    if "window" in kinds and "full" not in kinds:
        raise ConfigError("groups: a window group needs a full group beside it")


def _whole(field: str, value: int, least: int = 1) -> None:
    if type(value) is not int or not least <= value <= MOST_TOKENS:
        raise ConfigError(f"{field}: must be a whole number from {least} to {MOST_TOKENS:,}")
