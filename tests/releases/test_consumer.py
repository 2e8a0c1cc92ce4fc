"""A release's own connector scheduler on the public workloads: the figures that were published."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tierproof.properties.cli import main
from tierproof.properties.managers import UsageError
from tierproof.properties.vllm_consumer import scan
from tierproof.properties.workloads import read

WORKLOADS = Path(__file__).parents[2] / "docs/workloads"


def figures(version, name, delay=1):
    """(promoted, read, checks, hit, steps), or None where a request is never served."""
    run = scan(version, read(WORKLOADS / f"{name}.json"), delay=delay)
    (seen,) = run.requests
    told = (seen.promotions, len(seen.read), seen.checks, seen.hit_tokens, seen.steps)
    return None if run.stuck else told


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("public-bpc1", (54, 54, 3360, 8191, 2)),
        ("public-bpc4", (15, 15, 840, 8191, 2)),
        ("holes-last-window", (74, 53, 3360, 7936, 3)),
        ("holes-full-from-16", (60, 38, 3360, 4096, 3)),
        ("holes-leftmost-8", (180, 46, 3360, 6144, 3)),
        ("holes-leftmost-all", (512, 0, 3360, 0, 1)),
        ("holes-whole-group", (52, 0, 3360, 0, 1)),
        ("on-gpu-7-of-10", (3, 3, 3, 160, 2)),
    ],
)
def test_its_scheduler_promotes_what_was_published(pinned, name, wanted):
    assert figures(pinned, name) == wanted


@pytest.mark.parametrize("name", ["waves-12-on-11", "waves-12-on-1"])
def test_a_prefix_larger_than_the_primary_tier_is_never_scheduled(pinned, name):
    assert figures(pinned, name) is None


def test_requests_that_share_a_prefix_promote_it_once(pinned):
    run = scan(pinned, read(WORKLOADS / "shared-50.json"), delay=1)
    assert sum(seen.promotions for seen in run.requests) == run.stored == 1850
    assert all(seen.served for seen in run.requests)


def test_the_command_takes_a_release_as_consumer(pinned, capsys, tmp_path):
    told = tmp_path / "scan.json"
    workload = str(WORKLOADS / "public-bpc1.json")
    command = ["scan", workload, "--consumer", f"vllm:{pinned}", "--json", str(told)]
    assert main(command) == 0
    assert "promoted 54" in capsys.readouterr().out
    assert json.loads(told.read_text())["result"]["promoted"] == 54


def test_groups_that_cannot_be_driven_are_told():
    with pytest.raises(UsageError, match="recurrent or draft groups"):
        scan("0.33.0", read(WORKLOADS / "recurrent-multiple.json"), delay=1)


def test_a_release_whose_scheduler_is_too_old_is_told():
    with pytest.raises(UsageError, match=r"driven from 0\.27 on"):
        scan("0.24.0", read(WORKLOADS / "public-bpc1.json"), delay=1)


def test_retry_on_promotion_makes_its_scheduler_promote_everything(release):
    if tuple(map(int, release.split(".")[:2])) < (0, 27):
        pytest.skip("its scheduler is driven from 0.27 on")
    workload = str(WORKLOADS / "public-bpc1.json")
    done = subprocess.run(
        [sys.executable, "-m", "tierproof", "scan", workload, "--consumer", f"vllm:{release}"],
        capture_output=True,
        text=True,
        timeout=120,
    )
    promoted = 736 if release == "0.27.1" else 54
    assert f"promoted {promoted} " in done.stdout, done.stdout + done.stderr
