"""Each fault of the manager is noticed, by the method and in the contract that it names."""

import logging
import os
import subprocess
import sys
import tomllib
from collections import Counter
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from tierproof.model.rules import RULES
from tierproof.properties.contracts import CONTRACTS, RUNS
from tierproof.properties.counterexamples import of_found
from tierproof.properties.faults import FAULTS, HARMLESS
from tierproof.properties.generated_tests import write_tests
from tierproof.properties.histories import first_found
from tierproof.properties.managers import BARE_FAULTS, resolve, shipped
from tierproof.properties.mutants import KILLED, notice, production_fates
from tierproof.properties.rooms import ROOMS
from tierproof.properties.shortest import search
from tierproof.properties.tour import tour, walk

WITH_TABLE = [name for name, fault in FAULTS.items() if fault.rules]


@pytest.fixture(autouse=True, scope="module")
def quiet():
    logger = logging.getLogger("tierproof")
    level = logger.level
    logger.setLevel(logging.CRITICAL + 1)
    yield
    logger.setLevel(level)


@pytest.fixture(scope="module")
def fates():
    return {fate.name: fate for fate in production_fates()}


def test_there_are_as_many_faults_as_there_were():
    assert len(FAULTS) == 142
    assert len(HARMLESS) == 4
    kinds = Counter(fault.kind for fault in FAULTS.values())
    assert min(kinds.values()) >= 3, "several of each kind"


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_noticed_by_the_method_and_in_the_contract_that_it_names(name, fates):
    fault, fate = FAULTS[name], fates[name]
    assert fate.verdict == KILLED, f"nothing noticed {name}: {fault.says}"
    assert (fate.contract, fate.killer) == (fault.contract, fault.method)
    assert fate.operations is not None
    assert 1 <= fate.operations <= 12


def test_a_fault_that_takes_more_than_the_tour_is_noticed_in_random_histories():
    found = notice(replace(FAULTS["claim_kept"], method=RUNS))
    assert found is not None
    assert (found.method, found.contract) == (RUNS, "F2-claim-retracted")


def test_a_fault_names_what_there_is():
    rooms = {room.name for room in ROOMS}
    for fault in FAULTS.values():
        assert fault.contract in CONTRACTS
        assert fault.says, f"{fault.name} does not say what goes wrong"
        assert set(fault.rooms) <= rooms, fault.name


def test_the_shortest_history_of_each_fault_is_as_long_as_ever(fates):
    told = tomllib.loads((Path(__file__).parent / "shortest.toml").read_text())
    known = {name: int(length) for length, names in told.items() for name in names}
    assert set(known) == set(FAULTS), "`tierproof mutants --search 300` says how long it is"
    for name, fate in fates.items():
        # where trying all shorter ones takes longer than a test may, a longer one is well enough
        assert fate.operations == known[name] or not fate.shortest, name
        assert fate.operations >= known[name], name
    assert sum(fate.shortest for fate in fates.values()) > len(FAULTS) - 15


def test_some_faults_show_only_after_six_operations_and_more(fates):
    late = [fate.name for fate in fates.values() if (fate.operations or 0) >= 6]
    assert len(late) >= 10


def test_every_contract_of_the_manager_has_a_fault_that_breaks_it():
    # what the consumer asks is its own doing, not the manager's: its faults are in tests/consumer
    managers = set(CONTRACTS) - {"A2-ask-no-more"}
    assert {fault.contract for fault in FAULTS.values()} == managers


@pytest.mark.parametrize(("name", "most"), [("retry_on_promotion", 3), ("submits_twice", 4)])
def test_the_two_well_known_faults_show_in_a_short_history(name, most, fates):
    assert name in BARE_FAULTS
    assert fates[name].operations <= most
    assert fates[name].shortest


@pytest.mark.parametrize("name", ["claim_kept", "no_short_promise", "stores_starved"])
def test_the_shortest_history_of_a_fault_is_found_by_trying_all_shorter_ones(name):
    fault = FAULTS[name]
    found = notice(fault)
    assert found is not None
    best, complete = search(fault.factory, found, limit_s=60)
    assert complete
    assert best.contract == fault.contract
    assert len(best.history) <= 6


def broken_by_proof(name):
    from tierproof.properties.proof import prove

    rules = FAULTS[name].rules
    assert rules is not None
    changed = [new.name for new, old in zip(rules, RULES, strict=True) if new != old]
    verdicts = prove(rules, how="instantiated", only=changed)
    assert not [v for v in verdicts if v.verdict == "unknown"]
    return {v.contract for v in verdicts if v.verdict == "refuted"}


@pytest.mark.parametrize("name", WITH_TABLE)
def test_the_break_of_the_table_that_goes_with_a_fault_is_refuted_by_the_proof(name):
    assert FAULTS[name].contract in broken_by_proof(name)


def test_a_table_that_livelocks_is_safe_and_does_not_progress():
    # F2 says itself that the claim is to be retracted; nothing else but P1 notices
    assert broken_by_proof("claim_kept") == {"F2-claim-retracted", "P1-progress"}


def test_a_table_without_the_short_promise_of_a_hit_breaks_only_that():
    assert broken_by_proof("no_short_promise") == {"L6-hit-holds"}


def test_a_table_whose_stores_are_starved_has_no_room_for_stores():
    assert "P2-room-for-stores" in broken_by_proof("stores_starved")


def test_breaking_one_manager_breaks_no_other():
    for fault in FAULTS.values():
        fault.factory(slots=2, tiers=(), clock=lambda: 0.0, block_bytes=64)
    assert first_found(shipped, range(20)) is None


# -- what must not be accused --------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(10))
def test_the_shipped_manager_is_not_accused(seed):
    assert first_found(shipped, range(10_000 + 40 * seed, 10_040 + 40 * seed)) is None


@pytest.mark.parametrize("name", HARMLESS)
def test_a_harmless_variant_is_not_accused(name):
    factory = HARMLESS[name].factory
    assert first_found(factory, range(20_000, 20_200)) is None
    for room in sorted(ROOMS, key=lambda room: room.weight)[: len(ROOMS) // 2]:
        assert not walk(factory, room, enough=1).divergences, room.name


@pytest.mark.nightly
@pytest.mark.parametrize("name", HARMLESS)
def test_a_harmless_variant_is_not_accused_on_the_whole_tour(name):
    assert not tour(HARMLESS[name].factory, stop_at_first=True).divergences


# -- as a test of its own ------------------------------------------------------------------------


@pytest.fixture(scope="module")
def folder(fates, tmp_path_factory):
    """The generated test of each fault, as the command would have written it."""
    folder = tmp_path_factory.mktemp("generated")
    for name, fate in fates.items():
        assert fate.found is not None, f"nothing noticed {name}"
        chosen = resolve(name if name in BARE_FAULTS else f"fault:{name}")
        written = of_found(chosen, fate.found, (fate.killer,))
        write_tests([written], folder, f"tierproof verify --manager {chosen.spec}")
    return folder


def told_of(folder, **variables):
    """What pytest, run in a folder of generated tests, says of each of them."""
    report = folder.parent / f"{folder.name}.xml"
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "."]
    done = subprocess.run(
        [*command, f"--junit-xml={report}"],
        cwd=folder,
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        timeout=300,
    )
    cases = {c.get("name"): c for c in ET.parse(report).iter("testcase")}
    assert len(cases) == len(FAULTS), done.stdout
    return cases


def test_the_generated_file_of_each_fault_fails_on_it(folder):
    cases = told_of(folder)
    failed = {
        case.find("failure").text for case in cases.values() if case.find("failure") is not None
    }
    assert len(failed) == len(FAULTS)
    for name, fault in FAULTS.items():
        spec = name if name in BARE_FAULTS else f"fault:{name}"
        words = f"{fault.contract} is broken by {spec} after"
        assert any(words in text for text in failed), words


def test_the_generated_file_of_each_fault_passes_on_the_shipped_manager(folder):
    cases = told_of(folder, TIERPROOF_MANAGER="tierproof")
    assert [name for name, case in cases.items() if len(case)] == []
