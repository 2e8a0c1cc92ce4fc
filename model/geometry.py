"""Which chunks a hit reads, by definition: token by token, hit by hit.

The oracle of the production geometry, which has formulas. Nothing here is fast, and nothing here
is a formula: what the next token needs is written down, and everything else is counted from it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import count

Chunk = tuple[int, int]
"""(number of the group, number of the chunk)"""


@dataclass(frozen=True)
class GroupOf:
    """A KV-cache group: `kind` is full, window or recurrent; `chunk` and `window` in tokens."""

    kind: str
    chunk: int
    window: int = 0
    draft: bool = False
    retained: int = 0


@dataclass(frozen=True)
class PromptOf:
    """A prompt of a request: its tokens, those on the GPU, and where a hit must end."""

    tokens: int
    on_gpu: int = 0
    most: int | None = None


def needed(group: GroupOf, hit: int, on_gpu: int) -> set[int]:
    """The chunks that hold what the token after the hit needs and the GPU has not."""
    if group.kind == "full":
        positions = set(range(hit))
    elif group.kind == "window":
        positions = {t for t in range(hit) if t > hit - group.window - group.retained}
    else:  # the state at the boundary is in the chunk that ends there
        behind = hit - group.chunk - group.retained
        positions = {t for t in range(hit) if t > behind or t == hit - 1}
    return {t // group.chunk for t in positions if t >= on_gpu}


def found(group: GroupOf, hit: int, on_gpu: int) -> set[int]:
    """The chunks that a lookup must find: a draft group's first one after the hit as well."""
    chunks = needed(group, hit, on_gpu)
    if group.draft and hit > on_gpu:
        chunks.add(next(i for i in count() if i * group.chunk >= hit))
    return chunks


def latest(groups: tuple[GroupOf, ...], prompt: PromptOf) -> int:
    """Where a hit must end at the latest: the last token is computed, and a state must exist."""
    last = prompt.tokens
    if any(group.kind != "full" for group in groups):
        last -= 1
    if prompt.most is not None:
        last = min(last, prompt.most)
    while last > 0 and not _has_states(groups, last):
        last -= 1
    return max(0, last)


def _has_states(groups: tuple[GroupOf, ...], hit: int) -> bool:
    return all(hit % group.chunk == 0 for group in groups if group.kind == "recurrent")


def allowed(groups: tuple[GroupOf, ...], prompt: PromptOf, hit: int) -> bool:
    """May a hit end here, as far as the groups go: at the end of a chunk that all agree on?"""
    full = [group for group in groups if group.kind == "full"]
    if not _has_states(groups, hit):
        return False
    ends = any(hit % group.chunk == 0 for group in full) if full else True
    return ends or hit == latest(groups, prompt)


def _has_keys(groups: tuple[GroupOf, ...], tokens: int, chunks: set[Chunk]) -> bool:
    return all((i + 1) * groups[g].chunk <= tokens for g, i in chunks)


def asked_for(groups: tuple[GroupOf, ...], prompt: PromptOf, hit: int) -> set[Chunk]:
    """Everything that a lookup must find for a hit."""
    return {(g, i) for g, group in enumerate(groups) for i in found(group, hit, prompt.on_gpu)}


def read_by(groups: tuple[GroupOf, ...], prompt: PromptOf, hit: int) -> set[Chunk]:
    """Everything that loading a hit reads."""
    return {(g, i) for g, group in enumerate(groups) for i in needed(group, hit, prompt.on_gpu)}


def boundaries(groups: tuple[GroupOf, ...], prompt: PromptOf) -> list[int]:
    """Where a hit can end, all that it needs having keys."""
    return [
        hit
        for hit in range(prompt.on_gpu + 1, latest(groups, prompt) + 1)
        if allowed(groups, prompt, hit) and _whole(groups, prompt.tokens, hit, drafts=True)
    ]


def _whole(groups: tuple[GroupOf, ...], tokens: int, hit: int, *, drafts: bool) -> bool:
    """Are the chunks up to the hit whole ones, with `drafts` those right after it too?"""
    ends = set()
    for g, group in enumerate(groups):
        ends.add((g, (hit - 1) // group.chunk))
        if drafts and group.draft:
            ends.add((g, (hit - 1) // group.chunk + 1))
    return _has_keys(groups, tokens, ends)


def reachable(groups: tuple[GroupOf, ...], prompt: PromptOf) -> set[Chunk]:
    """The union of what the boundaries need found."""
    return {c for hit in boundaries(groups, prompt) for c in asked_for(groups, prompt, hit)}


def stored(groups: tuple[GroupOf, ...], prompt: PromptOf) -> set[Chunk]:
    """What is worth storing of a prompt: what its boundaries need, or those of a longer one."""
    own = PromptOf(prompt.tokens)
    ends = {
        hit
        for hit in range(1, prompt.tokens + 1)
        if (allowed(groups, own, hit) or hit == latest(groups, prompt))
        and _whole(groups, prompt.tokens, hit, drafts=False)
    }
    chunks = {c for hit in ends if _has_states(groups, hit) for c in asked_for(groups, own, hit)}
    return {c for c in chunks if _has_keys(groups, prompt.tokens, {c})}


def longest_hit(
    groups: tuple[GroupOf, ...], prompt: PromptOf, there: Callable[[Chunk], bool]
) -> int:
    """The longest hit of which everything is there; 0 when there is none."""
    hits = [
        hit
        for hit in boundaries(groups, prompt)
        if all(there(chunk) for chunk in asked_for(groups, prompt, hit))
    ]
    return max(hits, default=0)
