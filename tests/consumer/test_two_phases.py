"""Two phases on random models, holes and capacities; waves; requests that share a prefix."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tierproof.model import geometry as by_definition
from tierproof.model.geometry import GroupOf, PromptOf
from tierproof.properties.consumers import CONSUMERS
from tierproof.properties.simulation import Simulation
from tierproof.properties.workloads import parse

from .support import FULL, figures, run, workload


@st.composite
def workloads(draw):
    """One request on a random model, some chunks missing, any capacity."""
    kinds = draw(st.lists(st.sampled_from(("full", "window", "recurrent")), min_size=1, max_size=4))
    if "window" in kinds and "full" not in kinds:
        kinds.append("full")
    groups = []
    for i, kind in enumerate(kinds):
        group = {
            "name": f"g{i}",
            "kind": kind,
            "tokens_per_block": draw(st.sampled_from((1, 2, 4, 8))),
            "draft": draw(st.sampled_from((False, False, False, True))),
            "retained_tokens": draw(st.sampled_from((0, 0, 0, 3))),
        }
        if kind == "window":
            group["window"] = draw(st.integers(1, 12))
        groups.append(group)
    tokens = draw(st.integers(1, 48))
    holes = draw(st.lists(st.tuples(st.sampled_from(groups), st.integers(0, 47)), max_size=6))
    request = {"id": "r", "prompt_tokens": tokens, "gpu_tokens": draw(st.integers(0, tokens // 2))}
    if draw(st.booleans()):
        request["max_load_tokens"] = draw(st.integers(0, 48))
    text = {
        "version": 1,
        "blocks_per_chunk": draw(st.sampled_from((1, 1, 2))),
        "groups": groups,
        "primary_slots": draw(st.sampled_from((1, 2, 5, 256))),
        "tiers": [
            {
                "name": "t",
                "missing": [{"group": group["name"], "chunks": [i]} for group, i in holes],
            }
        ],
        "requests": [request],
    }
    return parse(json.dumps(text).encode())


@settings(max_examples=150, deadline=None)
@given(workloads(), st.integers(0, 2))
def test_two_phases_promote_exactly_what_the_longest_hit_reads(work, delay):
    done = run(work, delay=delay)
    (seen,) = done.requests
    bpc, asked = work.blocks_per_chunk, work.requests[0]
    groups = tuple(
        GroupOf(g.kind, g.tokens_per_block * bpc, g.window or 0, g.draft, g.retained_tokens)
        for g in work.groups
    )
    prompt = PromptOf(asked.prompt_tokens, asked.gpu_tokens, asked.max_load_tokens)
    kept = by_definition.stored(groups, prompt)
    names = [g.name for g in work.groups]
    holes = {(names.index(m.group), c) for m in work.tiers[0].missing for c in m.chunks}
    there = kept - holes
    hit = by_definition.longest_hit(groups, prompt, there.__contains__)
    assert seen.hit_tokens == max(hit, asked.gpu_tokens)
    read = by_definition.read_by(groups, prompt, hit)
    assert sorted(seen.read) == sorted(read), "each block is read once, and nothing else"
    assert seen.promoted == read, "nothing was there, so all that is read was promoted"
    assert seen.promotions == len(read), "and each block once"
    assert read <= there <= kept
    # A2: never an unreachable key, each at most once, and nothing beyond what was given up
    reachable = by_definition.reachable(groups, prompt)
    assert seen.asked <= reachable
    assert seen.checks == len(seen.asked)
    given_up = {
        chunk
        for end in by_definition.boundaries(groups, prompt)
        if end >= hit
        for chunk in by_definition.asked_for(groups, prompt, end)
    }
    full = {chunk for chunk in reachable if groups[chunk[0]].kind == "full"}
    if not delay:
        assert seen.asked <= by_definition.asked_for(groups, prompt, hit) | full | given_up
        if not holes:
            assert seen.asked == by_definition.asked_for(groups, prompt, hit)


@settings(max_examples=60, deadline=None)
@given(workloads(), st.integers(0, 1))
def test_two_phases_take_no_more_passes_than_one(work, delay):
    if work.primary_slots < 256:
        return
    pending = CONSUMERS["pending"]
    one = Simulation(work, pending.make, delay=delay, share=pending.share).go()
    assert run(work, delay=delay).steps <= one.steps


# -- waves -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("slots", "steps"), [(11, 3), (8, 3), (1, 12)])
def test_a_prefix_of_twelve_chunks_is_served_by_fewer_slots(slots, steps):
    two = figures(f"waves-12-on-{slots}", delay=0)
    assert (two["hit_tokens"], two["promoted"], two["read"]) == (192, 12, 12)
    assert two["steps"] == steps
    assert two["peak_slots"] <= slots


def test_twelve_requests_of_six_chunks_on_ten_slots_promote_each_block_once():
    two = figures("waves-12-requests-on-10")
    assert (two["promoted"], two["read"], two["already_present"]) == (72, 72, 0)
    assert all(one["hit_tokens"] == 96 for one in two["requests"])
    assert two["peak_slots"] == 5, "no more than the share of promotions"


def test_fifty_requests_that_share_a_prefix_promote_each_block_once():
    two = figures("shared-50")
    assert two["promoted"] == two["stored"] == 625 + sum(range(50))
    assert two["requests"][0]["promoted"] == 625
    for i, one in enumerate(two["requests"]):
        assert one["hit_tokens"] == 10_000 + 16 * i
        assert one["already_present"] == (625 if i else 0)
        assert one["promoted"] == i or not i
        assert one["steps"] == 2, "nobody waits for blocks that it does not need"


def test_a_shared_prefix_larger_than_the_free_share_is_promoted_once_by_all_together():
    requests = [{"id": "r0", "prompt_tokens": 320}] + [
        {"id": f"r{i}", "prompt_tokens": 320, "prefix_of": "r0", "prefix_tokens": 320}
        for i in range(1, 5)
    ]
    two = figures(workload(primary_slots=12, requests=requests))
    assert two["read"] == 5 * 20
    assert two["promoted"] == 20


def test_a_request_that_cannot_be_admitted_yet_promotes_nothing():
    requests = [{"id": f"r{i}", "prompt_tokens": 64} for i in range(3)]
    two = run(workload(primary_slots=8, requests=requests), delay=0)
    assert [one.promotions for one in two.requests] == [4, 4, 4]
    assert [one.steps for one in two.requests] == [1, 2, 3], "one after the other, each whole"


def test_a_late_request_joins_what_is_on_its_way():
    requests = [
        {"id": "r0", "prompt_tokens": 64},
        {
            "id": "r1",
            "prompt_tokens": 64,
            "arrival_step": 1,
            "prefix_of": "r0",
            "prefix_tokens": 64,
        },
    ]
    two = figures(workload(requests=requests), delay=0)
    assert two["promoted"] == 4
    assert two["requests"][1]["already_present"] == 4


def test_a_load_limit_ends_the_hit_where_it_says():
    two = figures(workload(requests=[{"id": "r", "prompt_tokens": 192, "max_load_tokens": 40}]))
    assert (two["hit_tokens"], two["read"]) == (40, 3)


def test_tiers_that_share_the_blocks_are_asked_in_order():
    tiers = [
        {"name": "near", "missing": [{"group": "full", "chunks": [1, 3, 5]}]},
        {"name": "far", "missing": [{"group": "full", "chunks": [7]}]},
    ]
    two = figures(workload(tiers=tiers), delay=0)
    assert (two["hit_tokens"], two["promoted"]) == (192, 12)
    assert two["checks"] == 12 + 3, "the far tier only about what the near one has not"


def test_one_phase_cannot_serve_what_two_phases_do():
    two = figures("waves-12-on-11")
    assert two["hit_tokens"] == 192
    pending = figures("waves-12-on-11", "pending")
    assert pending["hit_tokens"] < 192, "shortened to what fits"
    assert FULL["tokens_per_block"] == 16
