"""A model that cannot tell that its KV cache was offloaded, and a comparison that can fail."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from .conftest import Demo, Run

pytestmark = pytest.mark.usefixtures("own_fork_server")
BLOCK = 32_768
README = Path(__file__).parents[2] / "README.md"


def on_server(done: Run) -> Run:
    """The run, or the end of the test where its server cannot be started."""
    if "none can be started here" in done.err:
        if os.environ.get("CI"):
            pytest.fail(done.err)
        pytest.skip(done.err.strip())
    return done


def assert_identical(done: Run) -> None:
    assert done.code == 0, done.out + done.err
    assert done.report["schema"] == "tierproof.demo/1"
    assert done.report["identical"] is True
    assert done.report["exit"] == 0
    assert done.report["first_differing_token"] is None
    assert done.report["differing_blocks"] == []
    assert "identical: all logits of 64 decoded tokens, bit by bit" in done.out
    first, second = done.report["processes"]
    assert len({first, second, os.getpid()}) == 3, "all of it was to happen in new processes"


def assert_only_what_the_plan_says(done: Run) -> None:
    assert done.report["tokens"] == {
        "prompt": 2069,
        "hit": 2048,
        "computed_again": 21,
        "decoded": 64,
    }
    # 32 full blocks and, of 129 sliding ones, the 2 of the window; 2 of 4 are stored.
    counts = done.report["blocks"]
    assert (counts["computed"], counts["stored"]) == (32 + 129, 32 + 64)
    assert counts["read"] == counts["promoted"] == 32 + 2
    assert counts["waves"] >= 34 / 6, "12 slots have 6 permits"
    assert done.report["bytes"] == {
        "block": BLOCK,
        "device_to_primary": 96 * BLOCK,
        "primary_to_secondary": 96 * BLOCK,
        "secondary_to_primary": 34 * BLOCK,
        "primary_to_device": 34 * BLOCK,
    }
    assert done.report["refused_blocks"] == []


@pytest.mark.parametrize("layout", ["layer-first", "block-first"])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_what_was_offloaded_to_files_decodes_identically(demo: Demo, seed: int, layout: str):
    done = demo("--seed", str(seed), "--kv-layout", layout)
    assert_identical(done)
    assert_only_what_the_plan_says(done)
    assert done.report["tier"] == "files"
    assert (done.report["seed"], done.report["kv_layout"]) == (seed, layout)


def test_readme_shows_what_the_demo_prints_but_for_its_times(demo: Demo):
    (shown,) = (
        block
        for block in README.read_text().split("```")
        if block.startswith("text\n what was done")
    )

    def without_times(text: str) -> list[str]:
        lines = [re.sub(r"\d+\.\d+", "*", line).split() for line in text.splitlines()]
        return [" ".join(words) for words in lines if words]

    assert without_times(shown)[1:] == without_times(demo().out)


@pytest.mark.parametrize("tier", ["slab", "redis", "s3"])
def test_what_was_offloaded_to_another_tier_decodes_identically(demo: Demo, tier: str):
    done = on_server(demo("--tier", tier))
    assert_identical(done)
    assert_only_what_the_plan_says(done)
    assert done.report["tier"] == tier


@pytest.mark.parametrize(("tier", "seed"), [("file", 3), ("slab", 2), ("redis", 4)])
def test_a_flipped_byte_is_refused_and_what_it_was_for_is_computed_again(
    demo: Demo, tier: str, seed: int
):
    done = on_server(demo("--tier", tier, "--flip-byte", "--seed", str(seed)))
    assert_identical(done)
    flipped = {name: done.report["flipped"][name] for name in ("group", "block", "tokens")}
    assert done.report["refused_blocks"] == [flipped]
    assert done.report["blocks"]["corrupt"] == 1
    tokens = done.report["tokens"]
    assert tokens["hit"] < 2048
    assert tokens["hit"] <= flipped["tokens"][0]
    assert tokens["computed_again"] == 2069 - tokens["hit"]
    assert f"refused by the tier: block {flipped['block']} of group {flipped['group']}" in done.out


# Seed 15 is of a window's first block, of which no more than one token is attended to.
@pytest.mark.parametrize(
    ("tier", "layout", "seed"),
    [("file", "layer-first", 15), ("slab", "block-first", 6), ("s3", "block-first", 5)],
)
def test_without_checksums_a_flipped_byte_is_seen_in_the_logits_and_its_block_is_named(
    demo: Demo, tier: str, layout: str, seed: int
):
    words = ("--no-checksums", "--flip-byte", "--kv-layout", layout, "--seed", str(seed))
    done = on_server(demo("--tier", tier, *words))
    assert done.code == done.report["exit"] == 1
    assert done.report["identical"] is False
    assert done.report["checksums"] is False
    flipped = {name: done.report["flipped"][name] for name in ("group", "block", "tokens")}
    assert done.report["differing_blocks"] == [flipped]
    assert 1 <= done.report["first_differing_token"] <= 64
    assert done.report["refused_blocks"] == []
    last = done.out.strip().splitlines()[-1]
    assert last.startswith("NOT identical: logits differ from token ")
    assert f"block {flipped['block']} of group {flipped['group']}" in last


def test_a_tier_of_the_users_own_is_left_without_the_runs_blocks(
    demo: Demo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    cache = tmp_path / "cache"
    config = tmp_path / "tiers.toml"
    config.write_text(f'[[tiers]]\nkind = "files"\nroot = "{cache}"\n')
    monkeypatch.setenv("TIERPROOF_CONFIG", str(config))
    done = demo()
    assert_identical(done)
    assert str(config) in done.out
    assert cache.is_dir(), "the run did not use the tier"
    assert list(cache.rglob("*.block")) == []


def test_a_slab_of_a_configuration_lends_its_disk_and_is_not_touched(demo: Demo, tmp_path: Path):
    root, config = tmp_path / "slab", tmp_path / "tiers.toml"
    config.write_text(f'[[tiers]]\nkind = "slab"\nroot = "{root}"\ncapacity = "900GiB"\n')
    refused = demo("--tier", "slab", "--config", str(config))
    assert refused.code == 2
    assert "make it first" in refused.err
    root.mkdir()
    done = demo("--tier", "slab", "--config", str(config))
    assert_identical(done)
    assert "below the root of the first one" in done.out
    assert list(root.iterdir()) == []
