"""The public workload and the shapes of the specification, figure by figure."""

import pytest

from .support import SHIPPED, figures

BPC = (1, 2, 4, 8)
HOLES = {
    "holes-last-window": (7936, 53, 74),
    "holes-full-from-16": (4096, 38, 60),
    "holes-leftmost-8": (6144, 46, 180),
    "holes-leftmost-all": (0, 0, 512),
    "holes-whole-group": (0, 0, 52),
}


@pytest.mark.parametrize(
    ("bpc", "stored", "read", "asked"),
    list(zip(BPC, (736, 192, 64, 24), (54, 27, 15, 9), (3360, 1680, 840, 420), strict=True)),
)
@pytest.mark.parametrize("delay", [0, 1])
def test_one_phase_promotes_everything_that_is_stored_and_two_phases_what_is_read(
    bpc, stored, read, asked, delay
):
    two = figures(f"public-bpc{bpc}", "two-phase", delay)
    assert (two["stored"], two["promoted"], two["read"], two["hit_tokens"]) == (
        (stored, read, read, 8191)
    )
    assert two["checks"] == (stored if delay else read)
    assert two["lower_bound"] == {"promotions": read, "checks": read}
    assert two["bytes_promoted"] == read * 4_008_960 * bpc
    retry = figures(f"public-bpc{bpc}", "retry", delay)
    assert (retry["promoted"], retry["read"], retry["checks"]) == (stored, read, asked)
    pending = figures(f"public-bpc{bpc}", "pending", delay)
    assert (pending["promoted"], pending["read"]) == (read, read)
    assert pending["checks"] == (asked if delay else read)
    assert two["steps"] == pending["steps"] == retry["steps"] == 1 + delay


@pytest.mark.parametrize("name", HOLES)
def test_with_holes_two_phases_promote_what_is_read_and_one_phase_more(name):
    hit, read, one_phase = HOLES[name]
    pending = figures(name, "pending", 1)
    assert (pending["hit_tokens"], pending["promoted"], pending["read"]) == (hit, one_phase, read)
    for delay in (0, 1):
        two = figures(name, "two-phase", delay)
        assert (two["hit_tokens"], two["promoted"], two["read"]) == (hit, read, read)
        assert two["checks"] <= 736
    assert two["steps"] <= pending["steps"]


@pytest.mark.parametrize(
    ("name", "stored", "read", "hit"),
    [
        ("recurrent-16-chunks-and-1", 64, 19, 256),
        ("recurrent-16-chunks", 64, 18, 240),
        ("window-131072", 16384, 8200, 131071),
        ("unaligned-3904", 64 + 16, 61 + 2, 3904),
        ("unaligned-8191", 32 + 64, 32 + 2, 8191),
        ("on-gpu-7-of-10", 10, 3, 160),
        ("retained", 3 + 9, 3 + 3, 144),
    ],
)
def test_shapes_read_what_the_specification_says(name, stored, read, hit):
    two = figures(name)
    assert (two["stored"], two["read"], two["hit_tokens"]) == (stored, read, hit)
    assert two["promoted"] == two["read"] == two["lower_bound"]["promotions"]


def test_a_prompt_of_whole_recurrent_chunks_hits_one_chunk_less():
    each = {one["id"]: one["hit_tokens"] for one in figures("recurrent-multiple")["requests"]}
    assert each == {"eight": 4, "nine": 8, "four": 0}


@pytest.mark.parametrize("consumer", ["two-phase", "pending", "retry"])
def test_every_workload_that_ships_is_served(consumer):
    # a single slot, or fewer than the hit, is more than one phase can do with
    names = [path.stem for path in SHIPPED.glob("*.json") if "131072" not in path.stem]
    assert len(names) >= 20
    for name in names:
        if consumer == "two-phase" or not name.startswith(("waves", "shared")):
            assert figures(name, consumer)["served"]
