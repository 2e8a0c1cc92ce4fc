"""Tests of the tests: under the plugin each built-in fault is caught, and no harmless variant."""

import pytest

from tierproof.properties import trial
from tierproof.properties.faults import FAULTS, HARMLESS
from tierproof.properties.tier_faults import FAULTS as TIER_FAULTS

from .support import run_kit

MANAGERS = """
from tierproof.kit import ManagerConformance
from tierproof.properties.faults import FAULTS

ALSO = ("plans of two blocks", "plans and stores")  # two faults of plans name another room

for name, fault in FAULTS.items():
    if fault.method == METHOD:
        rooms = (*fault.rooms, *(ALSO if fault.contract.startswith("A1") else ()))
        globals()[f"Test_{name}"] = type(
            f"Test_{name}",
            (ManagerConformance,),
            {
                "factory": staticmethod(fault.factory),
                "contracts": (fault.contract,),
                "rooms": rooms,
                "histories": 3000,
                "enough": 1,
                "budget": 600,
            },
        )
"""


@pytest.mark.parametrize("method", ["tour", "runs"])
def test_every_faulty_manager_is_caught_in_the_contract_that_it_breaks(
    method, pytester, monkeypatch
):
    monkeypatch.setattr(trial, "SEARCH_SECONDS", 0.0)  # tests/mutants has the shortest histories
    pytester.makepyfile(f"METHOD = {method!r}\n{MANAGERS}")
    told = run_kit(pytester, "-q", "-k", f"{method} and test_contract").reports
    faults = {name: fault for name, fault in FAULTS.items() if fault.method == method}
    assert len(told) == len(faults)
    for name, fault in faults.items():
        (found,) = (t for t in told if f"::Test_{name}::" in t.nodeid)
        assert found.outcome == "failed", f"{name} was not caught: {found.longrepr}"
        assert f"{fault.contract} is broken by" in str(found.longrepr)


HARMLESS_ONES = """
from tierproof.kit import ManagerConformance
from tierproof.properties.faults import HARMLESS



for name, variant in HARMLESS.items():
    globals()[f"Test_{name}"] = type(
        f"Test_{name}",
        (ManagerConformance,),
        {
            "factory": staticmethod(variant.factory),
            "rooms": SOME_ROOMS,
            "histories": SOME,
            "budget": 6000,
        },
    )
"""
SOME_ROOMS = ("answers", "jobs")


def accused(pytester, rooms, histories):
    pytester.makepyfile(f"SOME_ROOMS, SOME = {rooms!r}, {histories}\n{HARMLESS_ONES}")
    told = run_kit(pytester, "-q").reports
    assert {t.nodeid.split("::")[1] for t in told} == {f"Test_{name}" for name in HARMLESS}
    passed = [t for t in told if t.outcome == "passed"]
    assert len(passed) > 12 * len(HARMLESS)
    return [t.nodeid for t in told if t.outcome == "failed"]


def test_no_harmless_variant_is_accused(pytester):
    assert not accused(pytester, SOME_ROOMS, 30)


@pytest.mark.nightly
def test_no_harmless_variant_is_accused_on_the_whole_tour(pytester):
    assert not accused(pytester, None, 1000)


TIERS = """
from tierproof.kit import TierConformance
from tierproof.properties.tier_faults import FAULTS

for name, fault in FAULTS.items():
    globals()[f"Test_{name}"] = type(
        f"Test_{name}", (TierConformance,), {"factory": fault.factory, "budget": 600}
    )
"""


def test_every_faulty_tier_is_caught_in_the_contract_that_it_breaks(pytester):
    pytester.makepyfile(TIERS)
    wanted = [f"::Test_{name}::test_contract[{f.contract}]" for name, f in TIER_FAULTS.items()]
    (path,) = pytester.path.glob("test_*.py")
    told = run_kit(pytester, "-q", *(f"{path.name}{w}" for w in wanted)).reports
    assert len(told) == len(TIER_FAULTS) > 20
    for name, fault in TIER_FAULTS.items():
        (found,) = (t for t in told if f"::Test_{name}::" in t.nodeid)
        assert found.outcome == "failed", f"{name} was not caught: {found.longrepr}"
        assert f"{fault.contract} is broken by" in str(found.longrepr)
