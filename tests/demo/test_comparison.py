"""What the comparison sees, and what it is that the two processes compute."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
import torch

from tierproof import Arena
from tierproof.impl.tiers.block_tier import BlockTier
from tierproof.properties.demo.cache import PagedCache
from tierproof.properties.demo.model import Model, settle
from tierproof.properties.demo.outcome import Outcome
from tierproof.properties.demo.prompt import (
    BLOCK_BYTES,
    CHUNK,
    DECODED,
    FULL,
    HEAD,
    KV_HEADS,
    SLIDING,
    TOKENS,
    VOCABULARY,
    WINDOW,
    Chunk,
    Prompt,
)
from tierproof.properties.demo.results import Resumed, Written
from tierproof.properties.demo.secondary import believe, build, flip, forget
from tierproof.properties.demo.settings import LAYOUTS, Layout, Settings

STORED: dict[Chunk, str] = {(FULL, 0): "a", (FULL, 1): "b", (SLIDING, 2): "c"}


def outcome(
    *, token: int | None = None, block: Chunk | None = None, short: bool = False
) -> Outcome:
    """A run in which the logits of one token, or the bytes of one block, differ."""
    logits = np.zeros((DECODED, VOCABULARY), np.float32)
    there = logits.copy()
    if token is not None:
        there[token - 1, 7] = -0.0  # equal as a number, and another pattern of bits
    loaded = {at: "?" if at == block else found for at, found in STORED.items()}
    given = Settings(0, "layer-first", "cpu", {"kind": "files"}, {}, "run")
    seconds = dict.fromkeys(["prefill", "decode", "prefill_and_offload", "load", "rest"], 1.0)
    return Outcome(
        given,
        Written(1, "2", logits.tobytes(), STORED, 3, 3, seconds),
        Resumed(2, there.tobytes()[: 99 if short else None], 64, loaded, [], 3, 0, 3, 1, seconds),
    )


def test_equal_bits_are_identical():
    assert outcome().identical
    assert outcome().exit == 0


@pytest.mark.parametrize("token", [1, 2, DECODED])
def test_a_single_bit_of_a_logit_is_a_difference_and_its_token_is_named(token: int):
    found = outcome(token=token)
    assert not found.identical
    assert found.exit == 1
    assert found.as_json()["first_differing_token"] == token
    assert f"logits differ from token {token} on" in found.conclusion()


def test_a_block_with_other_bytes_is_a_difference_even_where_no_logit_shows_it():
    found = outcome(block=(SLIDING, 2))
    assert not found.identical
    assert found.as_json()["differing_blocks"] == [
        {"group": "sliding", "block": 2, "tokens": [32, 48]}
    ]
    assert "no logit differs" in found.conclusion()
    assert "block 2 of group sliding (tokens 32 to 47)" in found.conclusion()


def test_a_run_that_decoded_less_is_not_identical():
    assert not outcome(short=True).identical


# -- the model ------------------------------------------------------------------------------------


@pytest.fixture(scope="module", autouse=True)
def _settled() -> Iterator[None]:
    threads = torch.get_num_threads()
    settle("cpu")
    yield
    torch.set_num_threads(threads)
    torch.set_grad_enabled(True)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_pieces_through_the_paged_cache_give_what_one_piece_gives(layout: Layout):
    tokens, model = Prompt(0).tokens[:72], Model(0, "cpu")
    whole = model.forward(tokens, 0, PagedCache(layout, "cpu", 1))
    cache = PagedCache(layout, "cpu", 2)
    for first in range(0, 72, 24):
        last = model.forward(tokens[first : first + 24], first, cache)
        cache.forget(first + 24)
    # Not the same bits: additions were made in another order.
    torch.testing.assert_close(last, whole, rtol=0.05, atol=0.05)


@pytest.mark.parametrize("group", [FULL, SLIDING])
def test_every_block_that_a_hit_reads_changes_the_logits_and_no_other_does(group: int):
    prompt, model = Prompt(0), Model(0, "cpu")
    tokens, end = prompt.tokens, 2 * CHUNK
    cache = PagedCache("block-first", "cpu", 1)
    for first in (0, CHUNK):
        model.forward(tokens[first : first + CHUNK], first, cache)
    kept = model.forward(tokens[end : end + 1], end, cache)
    lane = prompt.geometry.lanes[group]
    for chunk in range(lane.complete(end)):
        (tensor,) = cache.groups[group]
        page = tensor.tensor[cache.block((group, chunk))]
        before = page.clone()
        page.fill_(torch.nan)
        there = model.forward(tokens[end : end + 1], end, cache)
        page.copy_(before)
        assert torch.equal(there, kept) is (chunk not in lane.reads(end)), chunk


def test_blocks_behind_the_window_are_handed_on_unless_somebody_still_reads_them():
    cache = PagedCache("layer-first", "cpu", 1)
    cache.take_for(0, CHUNK)
    reading = cache.block((SLIDING, 1))
    cache.forget(CHUNK, lambda at: at == (SLIDING, 1))
    assert cache.block((SLIDING, 1)) == reading
    first_kept = (CHUNK - WINDOW + 1) // 16
    with pytest.raises(KeyError):
        cache.block((SLIDING, 0))
    cache.forget(CHUNK)
    with pytest.raises(KeyError):
        cache.block((SLIDING, 1))
    assert cache.block((SLIDING, first_kept)) >= 0
    assert cache.block((FULL, 0)) >= 0, "a full group forgets nothing"


def test_two_processes_hand_out_other_blocks():
    first, second = (PagedCache("layer-first", "cpu", name) for name in ("first", "second"))
    ours, theirs = ([cache.take((FULL, n)) for n in range(8)] for cache in (first, second))
    assert ours != theirs


def test_blocks_are_as_large_as_rows_in_both_groups():
    for layout in LAYOUTS:
        for parts in PagedCache(layout, "cpu", 1).groups:
            blocks = parts[0].tensor.shape[parts[0].block_dim]
            assert sum(part.tensor.nbytes for part in parts) == blocks * BLOCK_BYTES


def test_the_prompt_leaves_something_to_compute_behind_every_hit():
    prompt = Prompt(0)
    assert prompt.best_hit() % CHUNK == 0
    assert prompt.best_hit() < TOKENS
    assert set(prompt.wanted()) <= set(prompt.geometry.stored(prompt.asked))
    assert Prompt(1).key(FULL, 0) != prompt.key(FULL, 0)
    assert prompt.key(SLIDING, 3) != prompt.key(FULL, 0), "they end at one token"


# -- the tier -------------------------------------------------------------------------------------


def test_believing_concerns_the_payload_of_one_tier_and_nothing_else(tmp_path):
    given = Settings(0, "layer-first", "cpu", {"kind": "files", "root": str(tmp_path)}, {}, "run")
    prompt = Prompt(0)

    def tier() -> BlockTier:
        made = build(given)
        made.attach(Arena(slots=1, block_bytes=BLOCK_BYTES))
        return made

    writer = tier()
    for at in prompt.wanted():
        assert writer._mover.store(writer._name(prompt.key(*at)), 0, 0)
    damaged = flip(given)
    digest = writer._name(prompt.key(*damaged.at))
    believing = tier()
    believe(believing)
    assert believing._mover.load(digest, 0, 0)
    assert not believing._mover.load(writer._name(b"other"), 0, 0)
    assert not writer._mover.load(digest, 0, 0), "another tier checks as before"
    for one in (writer, believing):
        one.shutdown()
    forget(given)
    assert list(tmp_path.rglob("*.block")) == []


@pytest.mark.parametrize("seed", range(4))
def test_a_flip_hits_one_value_of_a_blocks_last_token_which_is_always_attended_to(
    tmp_path, monkeypatch: pytest.MonkeyPatch, seed: int
):
    first_of_window = (SLIDING, Prompt(seed).best_hit() // 16 - 2)
    monkeypatch.setattr(Prompt, "wanted", lambda self: [first_of_window])
    given = Settings(seed, "layer-first", "cpu", {"kind": "files", "root": str(tmp_path)}, {}, "")
    tier = build(given)
    tier.attach(Arena(slots=1, block_bytes=BLOCK_BYTES))
    assert tier._mover.store(tier._name(Prompt(seed).key(*first_of_window)), 0, 0)
    tier.shutdown()
    damaged = flip(given)
    assert damaged.at == first_of_window
    row = torch.zeros(BLOCK_BYTES, dtype=torch.uint8)
    row[damaged.byte] = 0x80
    # As it lies in a row: layers with keys and values, tokens, heads, a head's values.
    signs = row.view(torch.int16).view(-1, 16, KV_HEADS, HEAD).nonzero()
    assert signs[:, 1].tolist() == [15]
