"""The production geometry against the one by definition, and the shapes that are published."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tierproof.impl.errors import ConfigError
from tierproof.impl.geometry import Geometry, Group, Prompt
from tierproof.model import geometry as by_definition
from tierproof.model.geometry import GroupOf, PromptOf

PUBLIC = (
    Group(name="full", kind="full", tokens_per_block=256),
    Group(name="swa0", kind="window", tokens_per_block=64, window=128),
    Group(name="swa1", kind="window", tokens_per_block=64, window=128),
    Group(name="c4state", kind="window", tokens_per_block=4, window=8),
    Group(name="c128state", kind="window", tokens_per_block=8, window=128),
)


def full(tokens, **more):
    return Group(name=f"full{tokens}", kind="full", tokens_per_block=tokens, **more)


def window(tokens, reach, **more):
    return Group(name=f"w{tokens}", kind="window", tokens_per_block=tokens, window=reach, **more)


def recurrent(tokens, name="state", **more):
    return Group(name=name, kind="recurrent", tokens_per_block=tokens, **more)


def longest(geometry, prompt):
    return geometry.boundary(prompt, prompt.tokens)


@st.composite
def models(draw):
    sizes = st.sampled_from((1, 2, 3, 4, 6, 8))
    kinds = draw(st.lists(st.sampled_from(("full", "window", "recurrent")), min_size=1, max_size=4))
    if "window" in kinds and "full" not in kinds:
        kinds.append("full")
    return tuple(
        Group(
            name=f"g{i}",
            kind=kind,
            tokens_per_block=draw(sizes),
            window=draw(st.integers(1, 20)) if kind == "window" else None,
            draft=draw(st.booleans()),
            retained_tokens=draw(st.sampled_from((0, 0, 1, 2, 5))),
        )
        for i, kind in enumerate(kinds)
    )


def twin(groups, blocks_per_chunk):
    return tuple(
        GroupOf(
            group.kind,
            group.tokens_per_block * blocks_per_chunk,
            group.window or 0,
            group.draft,
            group.retained_tokens,
        )
        for group in groups
    )


prompts = st.builds(
    lambda tokens, share, most: (tokens, tokens * share // 4, most),
    st.integers(1, 50),
    st.integers(0, 4),
    st.none() | st.integers(0, 50),
)


@given(models(), st.sampled_from((1, 1, 2)), prompts, st.integers(1, 50))
def test_formulas_say_what_the_definition_says(groups, blocks_per_chunk, sizes, hit):
    geometry = Geometry(groups, blocks_per_chunk)
    prompt, says = Prompt(tokens=sizes[0], on_gpu=sizes[1], most=sizes[2]), PromptOf(*sizes)
    defined = twin(groups, blocks_per_chunk)
    for lane, group in zip(geometry.lanes, defined, strict=True):
        assert set(lane.reads(hit, says.on_gpu)) == by_definition.needed(group, hit, says.on_gpu)
        assert set(lane.asks(hit, says.on_gpu)) >= by_definition.found(group, hit, says.on_gpu)
    assert geometry.limit(prompt) == by_definition.latest(defined, says)
    ends, here = [], geometry.boundary(prompt, prompt.tokens)
    while here:
        ends.append(here)
        here = geometry.boundary(prompt, here - 1)
    assert ends == by_definition.boundaries(defined, says)[::-1]
    asked = list(geometry.reachable(prompt))
    assert len(asked) == len(set(asked)), "an unreachable or repeated question"
    assert set(asked) == by_definition.reachable(defined, says)
    kept = list(geometry.stored(prompt))
    assert len(kept) == len(set(kept))
    assert set(kept) == by_definition.stored(defined, says)
    assert set(asked) <= set(kept), "a key is asked for that the store filter never keeps"
    for g, lane in enumerate(geometry.lanes):
        for chunk in range(lane.complete(prompt.tokens) + 2):
            assert geometry.is_stored(prompt, g, chunk) == ((g, chunk) in set(kept))
    for end in ends:
        read = geometry.reads(prompt, end)
        assert len(read) == len(set(read))
        assert set(read) == by_definition.read_by(defined, says, end)
        assert set(read) <= set(asked), "a load reads what no lookup asks for"


@pytest.mark.parametrize(
    ("blocks_per_chunk", "stored", "read"), [(1, 736, 54), (2, 192, 27), (4, 64, 15), (8, 24, 9)]
)
def test_the_public_model_stores_and_reads_what_was_published(blocks_per_chunk, stored, read):
    geometry, prompt = Geometry(PUBLIC, blocks_per_chunk), Prompt(tokens=8192)
    assert longest(geometry, prompt) == 8191
    assert len(list(geometry.stored(prompt))) == stored
    assert len(list(geometry.reachable(prompt))) == stored
    assert len(geometry.reads(prompt, 8191)) == read


@pytest.mark.parametrize(("hit", "read"), [(7936, 53), (4096, 38), (6144, 46), (0, 0)])
def test_shorter_hits_of_the_public_model_read_what_was_published(hit, read):
    assert len(Geometry(PUBLIC).reads(Prompt(tokens=8192), hit)) == read


@pytest.mark.parametrize(("chunks", "extra", "read"), [(16, 1, 19), (16, 0, 18)])
def test_three_recurrent_groups_read_one_state_each(chunks, extra, read):
    groups = (full(16), *(recurrent(16, f"r{i}") for i in range(3)))
    geometry, prompt = Geometry(groups), Prompt(tokens=chunks * 16 + extra)
    assert len(list(geometry.stored(prompt))) == 64
    assert len(geometry.reads(prompt, longest(geometry, prompt))) == read


def test_a_window_of_equal_chunks_reads_its_last_ones():
    geometry, prompt = Geometry((full(16), window(16, 128))), Prompt(tokens=131072)
    assert len(list(geometry.stored(prompt))) == 16384
    assert len(geometry.reads(prompt, longest(geometry, prompt))) == 8200


@pytest.mark.parametrize(("hit", "chunk", "reads"), [(3904, 256, 2), (8191, 64, 2)])
def test_an_unaligned_boundary_reads_as_many_chunks_as_it_touches(hit, chunk, reads):
    lane = Geometry((full(64), window(chunk, 128))).lanes[1]
    assert len(lane.reads(hit)) == reads


@pytest.mark.parametrize(("tokens", "hit"), [(8, 4), (9, 8), (4, 0)])
@pytest.mark.parametrize("beside", [(), (full(4),), (full(2),), (window(2, 4), full(1))])
def test_b72_a_recurrent_hit_is_a_whole_chunk_below_the_last_token(tokens, hit, beside):
    assert longest(Geometry((recurrent(4), *beside)), Prompt(tokens=tokens)) == hit


def test_ten_blocks_with_seven_on_the_gpu_read_three():
    geometry, prompt = Geometry((full(16),)), Prompt(tokens=160, on_gpu=112)
    assert geometry.reads(prompt, longest(geometry, prompt)) == [(0, 7), (0, 8), (0, 9)]


def test_retained_tokens_widen_store_lookup_and_load_alike():
    plain, kept = (Geometry((full(48), window(4, 8, retained_tokens=more))) for more in (0, 8))
    prompt = Prompt(tokens=97)
    counts = [
        (
            len(geometry.reads(prompt, 96)),
            len(list(geometry.stored(prompt))),
            len(list(geometry.reachable(prompt))),
        )
        for geometry in (plain, kept)
    ]
    assert counts == [(2 + 2, 2 + 4, 2 + 4), (2 + 4, 2 + 8, 2 + 8)]


@pytest.mark.parametrize("flags", [(False, False), (True, False), (False, True), (True, True)])
def test_b75_what_is_stored_in_both_groups_is_served_for_each_draft_flag(flags):
    groups = (full(4, draft=flags[0]), Group(name="b", kind="full", tokens_per_block=4,
                                             draft=flags[1]))  # fmt: skip
    geometry, prompt = Geometry(groups), Prompt(tokens=12)
    assert len(list(geometry.stored(prompt))) == 6
    assert longest(geometry, prompt) == (8 if any(flags) else 12)


@pytest.mark.parametrize(
    ("groups", "field"),
    [
        ((), "groups"),
        ((window(4, 8),), "groups"),
        ((window(4, 8), recurrent(4)), "groups"),
        ((full(0),), r"groups\[0\].tokens_per_block"),
        ((full(-4),), r"groups\[0\].tokens_per_block"),
        ((full(4), window(4, 0)), r"groups\[1\].window"),
        ((full(4), Group(name="w", kind="window", tokens_per_block=4)), r"groups\[1\].window"),
        ((full(4, retained_tokens=-1),), r"groups\[0\].retained_tokens"),
        ((full(4), full(4)), r"groups\[1\].name"),
        ((full(10**12),), r"groups\[0\].tokens_per_block"),
    ],
)
def test_what_is_no_model_is_refused_by_its_field(groups, field):
    with pytest.raises(ConfigError, match=f"^{field}"):
        Geometry(groups)
