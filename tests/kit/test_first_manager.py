"""The page for a first manager: its manager is built up as the page says, and does what it says."""

import re
from pathlib import Path

import pytest

from tierproof.properties.cli import main

from .support import run_kit

PAGE = (Path(__file__).parents[2] / "docs" / "first-manager.md").read_text()
WHOLE, CLAIMS, MENDED, PROBE, CONFORMANCE = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
(COMMAND,) = re.findall(r"^    tierproof (.*)$", PAGE, re.MULTILINE)
(PYTEST,) = re.findall(r"^    pytest (.*)$", PAGE, re.MULTILINE)
SEEN_ALONE = "    judged_by_what_is_seen = True\n"
SAYS = " ".join(PAGE.split())


def claimed(manager=WHOLE, *more):
    """The manager with the claims of the page, and more of them."""
    claims = CLAIMS.replace('"D1-bytes"', ", ".join(f'"{c}"' for c in ("D1-bytes", *more)))
    return manager.replace(SEEN_ALONE, SEEN_ALONE + claims)


def mended():
    (wrong,) = re.findall(r"^ +for key in \[key for key in self\.ready.*\n", WHOLE, re.MULTILINE)
    return WHOLE.replace(wrong, MENDED)


@pytest.fixture
def held(tmp_path, monkeypatch, capsys):
    """Write the manager into a file and hold it as the page does: exit code, and what is told."""
    monkeypatch.chdir(tmp_path)

    def hold(manager, command=COMMAND):
        Path("my_manager.py").write_text(manager)
        code = main(command.split())
        return code, capsys.readouterr().out

    return hold


def flat(told):
    return " ".join(told.split())


def test_the_page_is_short():
    assert len(PAGE.splitlines()) < 150


def test_the_manager_is_told_that_it_asks_no_tier(held):
    code, told = held(WHOLE)
    finding = "k0 is answered MISS, and t0 was not asked"
    assert code == 1
    assert f"What is wrong: {finding}" in told
    assert f"`{finding}`" in SAYS


def test_with_its_claims_the_mistake_is_found_in_the_history_that_is_shown(held):
    code, told = held(claimed())
    assert code == 1
    assert "breaks S2-no-reuse-under-transfer, S3-pins, D1-bytes" in flat(told)
    (shown,) = re.findall(r"```text\n(.*?)```", PAGE, re.DOTALL)
    assert shown in told
    files = Path("tierproof-counterexamples").glob("test_S3_pins_*.py")
    assert len(list(files)) == 1


def test_the_mended_manager_keeps_what_it_claims(held):
    code, told = held(claimed(mended()))
    assert code == 0, told
    says = "my_manager.py:MyManager keeps every contract that was checked"
    assert says in told
    assert f"`{says}`" in SAYS
    assert "observable" not in told


def test_a_claim_of_what_it_never_does_is_not_reached(held):
    code, told = held(claimed(mended(), "F2-claim-retracted"))
    says = "not reached, no promotion began after a load had failed"
    assert code == 2
    assert f"F2-claim-retracted, runs: {says}" in flat(told)
    assert f"`{says}`" in SAYS


def test_a_probe_makes_a_contract_observable(held):
    _, told = held(claimed(mended(), "S1-slot-exclusive"))
    assert "S1-slot-exclusive not observable" in flat(told)
    code, told = held(claimed(mended(), "S1-slot-exclusive") + "\n" + PROBE)
    assert code == 0, told
    assert "S1-slot-exclusive holds" in flat(told)


def test_a_probe_shows_a_wrong_count_at_once(held):
    forgets = mended().replace("self.reads.subtract(operation.keys)", "pass")
    assert forgets != mended()
    code, told = held(claimed(forgets) + "\n" + PROBE)
    assert code == 1
    assert re.search(r"k\d has 1 pin, read by 0 transfers", told), told


def test_verify_agrees_and_exits_with_0(held):
    code, told = held(claimed(mended()), COMMAND.replace("fuzz", "verify"))
    assert code == 0, told
    assert "keeps every contract that was checked" in told


def test_the_file_for_pytest_passes_with_two_tests_for_a_contract(pytester):
    pytester.makepyfile(my_manager=claimed(mended()))
    pytester.makepyfile(test_conformance=CONFORMANCE)
    pytester.syspathinsert()
    result = run_kit(pytester, *PYTEST.split(), "-k", "S3")
    assert result.ret == 0, result.stdout.str()
    result.assert_outcomes(passed=2, deselected=45)
