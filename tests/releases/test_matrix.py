"""The matrix: what is committed is what it says, and what the pinned release is found to do."""

import json
import re
import runpy
from dataclasses import replace
from pathlib import Path

import pytest

from tierproof.properties.cli import main
from tierproof.properties.contracts import CONTRACTS
from tierproof.properties.report import VERDICTS
from tierproof.properties.vllm_matrix import RELEASES, SCHEMA, Settings, check_all
from tierproof.properties.vllm_page import page

from .conftest import PINNED, needed

DOCS = Path(__file__).parents[2] / "docs"
QUICK = Settings(cases=150, examples=10, seed=1)
HOLDS = {
    *("L1-answer-true", "L2-until-landed", "L5-tiers-asked", "S1-slot-exclusive"),
    *("S2-no-reuse-under-transfer", "S3-pins", "F1-partial-failure", "R1-reset", "Q1-finish"),
    "D1-bytes",
}
"""What was checked by hand to hold in 0.33.0 (docs/vllm.md)."""
UNSEEN = {"S4-operations", "A1-promote-what-is-read", "A2-ask-no-more"}


def committed():
    return json.loads((DOCS / "vllm-matrix.json").read_text())


def test_the_committed_page_is_that_of_the_committed_data():
    assert page(committed()) == (DOCS / "vllm-matrix.md").read_text()


def test_the_committed_matrix_has_a_cell_for_every_contract_method_and_release():
    matrix = committed()
    assert matrix["schema"] == SCHEMA
    cells = {(c["version"], c["contract"], c["method"]): c for c in matrix["cells"]}
    wanted = {
        (version, contract.id, method)
        for version in RELEASES
        for contract in CONTRACTS.values()
        for method in ("tour", "runs")
        if method in contract.methods
    }
    assert set(cells) == wanted
    for cell in cells.values():
        keys = ("version", "contract", "method", "verdict", "operations", "reproducer")
        assert tuple(cell) == keys
        assert cell["verdict"] in VERDICTS
        assert (cell["verdict"] == "violated") == (cell["operations"] is not None)
        assert (cell["verdict"] == "violated") == (cell["reproducer"] is not None)


def test_every_broken_cell_has_its_reproducer_in_the_repository():
    for cell in committed()["cells"]:
        if cell["verdict"] == "violated":
            text = (DOCS.parent / cell["reproducer"]).read_text()
            assert f'MANAGER = "vllm:{cell["version"]}"' in text
            assert f'CONTRACT = "{cell["contract"]}"' in text
    named = {cell["reproducer"] for cell in committed()["cells"]} - {None}
    assert {f"docs/{p.relative_to(DOCS)}" for p in DOCS.glob("vllm-reproducers/*")} == named
    assert sum((DOCS.parent / name).stat().st_size for name in named) < 300_000


def test_a_committed_reproducer_fails_on_its_release(pinned):
    files = {c["reproducer"] for c in committed()["cells"] if c["version"] == pinned} - {None}
    assert len(files) > 5
    for file in files:
        test = runpy.run_path(str(DOCS.parent / file))
        (name,) = [n for n in test if n.startswith("test_")]
        with pytest.raises(AssertionError, match=f"{test['CONTRACT']} is broken by vllm:{pinned}"):
            test[name]()


def test_every_broken_contract_of_the_matrix_is_told_on_the_page_that_was_checked_by_hand():
    told = (DOCS / "vllm.md").read_text().partition("## What holds")[0]
    broken = {c["contract"] for c in committed()["cells"] if c["verdict"] == "violated"}
    assert broken
    for contract in broken:
        assert f"`{contract}`" in told, f"{contract} is accused and was not checked by hand"


def test_retry_for_a_started_promotion_is_in_the_matrix_where_it_was_and_nowhere_else():
    found = {
        c["version"]: c["operations"]
        for c in committed()["cells"]
        if c["contract"] == "L1-answer-true"
        and c["verdict"] == "violated"
        and c["method"] == "tour"
    }
    assert found == {"0.25.1": 1, "0.27.1": 1}


@pytest.fixture(scope="module")
def checked():
    needed(PINNED)
    return check_all([PINNED], QUICK, processes=1)[0]


def test_the_pinned_release_is_found_to_break_only_what_was_checked_by_hand(pinned, checked):
    verdicts = {c.contract: c.verdict for c in checked.cells if c.method == "tour"}
    broken = {c for c, verdict in verdicts.items() if verdict == "violated"}
    assert broken >= {"F2-claim-retracted", "F3-tier-raises", "L4-submitted-once", "P1-progress"}
    assert broken.isdisjoint(HOLDS | UNSEEN)
    for contract in HOLDS:
        assert verdicts[contract] == "holds", contract
    assert {c for c, verdict in verdicts.items() if verdict == "not_observable"} <= UNSEEN


def test_another_seed_changes_nothing_in_the_tour(pinned, checked):
    other = check_all([PINNED], replace(QUICK, seed=2), processes=1)[0]

    def of_the_tour(one):
        return [
            (c.contract, c.verdict, c.operations, c.says) for c in one.cells if c.method == "tour"
        ]

    assert of_the_tour(other) == of_the_tour(checked)


def test_a_reproducer_fails_on_its_release_in_the_words_of_the_contract(pinned, tmp_path, capsys):
    command = ["matrix", "--versions", pinned, "--cases", "40", "--examples", "1"]
    command += ["--json", str(tmp_path / "m.json"), "--page", str(tmp_path / "m.md")]
    assert main([*command, "--reproducers", str(tmp_path / "found")]) == 0
    told = capsys.readouterr().out
    assert "broken contracts in 1 release;" in told
    matrix = json.loads((tmp_path / "m.json").read_text())
    files = {c["contract"]: c["reproducer"] for c in matrix["cells"] if c["reproducer"]}
    assert "F3-tier-raises" in files
    test = runpy.run_path(files["F3-tier-raises"])
    (name,) = [n for n in test if n.startswith("test_")]
    with pytest.raises(AssertionError, match="an exception from any tier call is a failed call"):
        test[name]()
    assert page(matrix) == (tmp_path / "m.md").read_text()


def test_reproducers_that_cannot_be_written_are_told_with_the_option_of_the_command(
    pinned, tmp_path, capsys
):
    (tmp_path / "file").write_text("")
    command = ["matrix", "--versions", pinned, "--cases", "40", "--examples", "1"]
    assert main([*command, "--reproducers", str(tmp_path / "file")]) == 2
    assert "name another folder with --reproducers" in capsys.readouterr().err


def test_a_release_that_is_not_in_the_cache_is_told_with_the_command(monkeypatch, tmp_path, capsys):
    monkeypatch.setenv("TIERPROOF_CACHE", str(tmp_path))
    assert main(["matrix", "--versions", "0.24.0,0.28.0"]) == 2
    assert "tierproof fetch-vllm 0.24.0 0.28.0" in capsys.readouterr().err
    assert main(["matrix", "--versions", ""]) == 2
    assert "--versions '' names no release" in capsys.readouterr().err
    assert main(["matrix"]) == 2
    assert re.search(r"fetch-vllm 0\.22\.1 .* 0\.33\.0", capsys.readouterr().err)


def test_each_release_is_found_to_do_what_the_committed_matrix_says(release):
    if release == PINNED:
        pytest.skip("the pinned release has tests of its own")
    one = check_all([release], Settings(examples=1), processes=1)[0]
    now = {c.contract: (c.verdict, c.operations) for c in one.cells if c.method == "tour"}
    then = {
        c["contract"]: (c["verdict"], c["operations"])
        for c in committed()["cells"]
        if c["version"] == release and c["method"] == "tour"
    }
    assert now == then
    if release in ("0.25.1", "0.27.1"):
        retry = next(c for c in one.cells if c.contract == "L1-answer-true" and c.method == "tour")
        assert retry.seconds < 10
