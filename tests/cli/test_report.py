"""Verdicts, exit codes, and the report as JSON and as JUnit XML."""

import json
import time
from types import SimpleNamespace
from xml.etree import ElementTree as ET

import pytest

from tierproof.properties.contracts import CONTRACTS
from tierproof.properties.report import METHODS, SCHEMA, VERDICTS

KEYS = ["schema", "command", "exit", "versions", "manager", "results", "counterexamples", "mutants"]
CHECKS = ["verify", "tour", "fuzz", "prove"]
MINE = """
from tierproof import TieredOffloadingManager
from tierproof.impl.vocabulary import LookupResult

class Plain(TieredOffloadingManager):
    probe = None

class Modest(TieredOffloadingManager):
    claims = ("L1-answer-true", "S1-slot-exclusive")

class Retry(TieredOffloadingManager):
    def lookup(self, key, request):
        answer = super().lookup(key, request)
        return LookupResult.RETRY if answer is LookupResult.HIT_PENDING else answer

class KnownRetry(Retry):
    known_gaps = {"L1-answer-true": "promotions are answered RETRY so far"}

class ClosedGap(TieredOffloadingManager):
    known_gaps = {"L1-answer-true": "was answered RETRY once"}

class NoReset(TieredOffloadingManager):
    reset_cache = None
"""


@pytest.fixture
def report(run, tmp_path):
    """Run a command on a manager of `MINE`, and read its report."""
    (tmp_path / "mine.py").write_text(MINE)
    (tmp_path / "docs").mkdir()

    def report(command, *args, manager=None):
        spec = ("--manager", f"mine.py:{manager}") if manager else ()
        done = run(*command.split(), *spec, *args, "--json", "out.json", "--junit", "out.xml")
        data = json.loads((tmp_path / "out.json").read_text())
        assert done.code == data["exit"], done.out + done.err
        data["verdicts"] = {(r["contract"], r["method"]): r["verdict"] for r in data["results"]}
        data["xml"] = ET.parse(tmp_path / "out.xml").getroot()
        data["out"] = done.out
        return data

    return report


@pytest.mark.parametrize("command", [*CHECKS, "mutants", "spec"])
def test_a_report_has_the_keys_of_its_schema_and_no_others(report, command):
    data = report(command)
    assert list(data)[: len(KEYS)] == KEYS
    assert set(data) == {*KEYS, "verdicts", "xml", "out"}
    assert data["schema"] == SCHEMA == "tierproof.report/1"
    assert data["command"] == command
    assert set(data["versions"]) == {
        "python", "tierproof", "z3", "cvc5", "hypothesis", "contracts"
    }  # fmt: skip


def test_results_counterexamples_and_mutants_have_the_fields_of_the_schema(report, stand):
    stand.fates = [fate("table", "guard", "killed"), fate("production", "leak", "equivalent")]
    broken = report("verify", manager="Retry")
    assert broken["exit"] == 1
    for r in broken["results"]:
        assert list(r) == ["contract", "method", "verdict", "counts", "seconds"]
        assert r["contract"] in CONTRACTS
        assert r["method"] in METHODS
        assert r["verdict"] in VERDICTS
        assert all(isinstance(n, int) for n in r["counts"].values())
    assert {c["method"] for c in broken["counterexamples"]} == {"tour", "runs"}
    for c in broken["counterexamples"]:
        assert list(c) == ["contract", "method", "words", "operations"]
        assert c["words"] == CONTRACTS[c["contract"]].words
        assert all(list(o) == ["op", "args", "expected", "got"] for o in c["operations"])
        assert c["operations"][-1]["expected"] == "HIT_PENDING"
        assert c["operations"][-1]["got"] == "RETRY"
    for m in report("mutants")["mutants"]:
        assert list(m) == [
            "set", "name", "verdict", "killer", "contract", "operations", "seconds"
        ]  # fmt: skip


@pytest.mark.parametrize("command", CHECKS)
def test_no_contract_of_a_method_is_silently_absent(report, command):
    verdicts = report(command)["verdicts"]
    methods = {"verify": {"proof", "tour", "runs"}, "prove": {"proof"}, "tour": {"tour"}}
    for contract in CONTRACTS.values():
        for method in contract.methods:
            if method in methods.get(command, {"runs"}):
                assert (contract.id, method) in verdicts


def test_the_shipped_manager_is_good(report):
    data = report("verify")
    assert data["exit"] == 0
    assert data["manager"] == "tierproof"
    assert set(data["verdicts"].values()) == {"proved", "holds"}
    assert "tierproof keeps every contract that was checked" in data["out"]


def test_the_table_shows_every_contract_and_a_dash_where_a_method_does_not_apply(report):
    out = report("verify")["out"]
    row = next(line for line in out.splitlines() if "E1-events" in line)
    assert row.split() == ["E1-events", "–", "holds", "holds"]  # noqa: RUF001
    assert all(contract in out for contract in CONTRACTS)


def test_the_proof_is_labelled_as_speaking_of_the_table(report):
    assert "proof of the table" in report("verify", manager="Plain")["out"]


def test_a_built_in_faulty_manager_brings_its_break_of_the_table(report):
    data = report("verify", "--manager", "retry_on_promotion")
    assert data["verdicts"]["L2-until-landed", "proof"] == "violated"
    assert "proof of the broken table" in data["out"]
    assert "phase LOADING" in data["out"]
    assert "answer RETRY" in data["out"]


def test_a_proof_ends_with_its_verdict(report, stand):
    assert "contracts for any number of keys, tiers, requests" in report("prove")["out"]
    stand.undecided = ("S3-pins",)
    assert "not everything could be proved" in report("prove")["out"]
    stand.opinion = {"verdict": "broken"}
    assert "the table breaks S3-pins" in report("prove")["out"]


def test_every_refuted_obligation_is_named_and_no_line_is_longer_than_the_page(report):
    data = report("verify", "--manager", "retry_on_promotion")
    told = " ".join(data["out"].split())
    assert "also the rule promote breaks 'another obligation'" in told
    assert max(map(len, data["out"].splitlines())) <= 100


def test_the_seed_is_printed_and_can_be_given_again(report, stand):
    data = report("fuzz")
    seed = data["results"][0]["counts"]["seed"]
    assert f"seed {seed}" in data["out"]
    assert report("fuzz", "--seed", seed)["results"][0]["counts"]["seed"] == seed
    assert stand.seeds == [seed, seed]


def test_the_proof_runs_once_for_each_seed(report, stand):
    report("prove", "--seeds", "3")
    assert stand.seeds == [0, 1, 2]


def test_what_the_solver_cannot_decide_is_neither_good_nor_a_violation(report, stand):
    stand.undecided = ("S3-pins",)
    data = report("prove")
    assert data["exit"] == 2
    assert data["verdicts"]["S3-pins", "proof"] == "unknown"
    assert data["xml"].findall(".//error")


def test_readings_of_the_table_that_differ_leave_everything_in_doubt(report, stand):
    stand.differences = ("promote then phase: concrete QUEUED, symbolic LOADING",)
    data = report("prove")
    assert data["exit"] == 2
    assert "readings of the table differ: promote then phase" in data["out"]
    assert data["xml"].findall(".//error")


@pytest.mark.parametrize(
    ("opinion", "code", "words"),
    [
        ({"verdict": "broken"}, 1, "Spacer: broken: an invariant (S3-pins)"),
        ({"verdict": "unknown"}, 2, "Spacer: unknown"),
        ({"checked": False}, 2, "the plain solver does not accept its invariant"),
        ({}, 0, "of 1 statement of contracts Spacer proves 1"),
    ],
)
def test_the_second_opinion_counts(report, stand, opinion, code, words):
    stand.opinion = opinion
    data = report("prove")
    assert data["exit"] == code
    assert words in data["out"]


def test_what_is_exported_is_proved_again_by_cvc5(report, stand, tmp_path):
    assert "cvc5" in report("prove", "--export", "smt")["out"]
    assert [path.name for path in (tmp_path / "smt").iterdir()] == ["promote.smt2"]
    stand.unproved_by_cvc5 = ("S3-pins: an obligation",)
    data = report("prove", "--export", "smt")
    assert data["exit"] == 2
    assert "cvc5 does not prove of promote: S3-pins" in data["out"]


def test_a_contract_without_an_obligation_is_not_proved(report, stand):
    stand.unproved = ("Q1-finish",)
    data = report("prove")
    assert data["exit"] == 2
    assert data["verdicts"]["Q1-finish", "proof"] == "unknown"


def test_a_violation_outweighs_what_is_unknown(report, stand):
    stand.undecided = ("S3-pins",)
    assert report("verify", manager="Retry")["exit"] == 1


def test_a_tour_that_did_not_reach_every_rule_is_not_good(report, stand):
    stand.missing_rules = ("promote",)
    data = report("tour")
    assert data["exit"] == 2
    assert "never fired: promote" in data["out"]


def test_a_tour_of_a_manager_without_a_call_need_not_reach_every_rule(report, stand):
    stand.missing_rules = ("reset_ends",)
    data = report("tour", manager="NoReset")
    assert data["exit"] == 0
    assert data["verdicts"]["R1-reset", "tour"] == "not_observable"


def test_a_contract_that_needs_a_missing_probe_is_not_observable(report):
    data = report("verify", manager="Plain")
    assert data["exit"] == 0
    assert data["verdicts"]["S1-slot-exclusive", "tour"] == "not_observable"
    assert data["verdicts"]["S1-slot-exclusive", "proof"] == "proved"
    assert "no probe slot_of" in data["out"]


def test_a_contract_that_is_not_claimed_is_said_not_to_be(report):
    verdicts = report("tour", manager="Modest")["verdicts"]
    assert verdicts["L1-answer-true", "tour"] == "holds"
    assert verdicts["L3-until-read", "tour"] == "not_claimed"


def test_a_known_gap_is_an_expected_failure(report):
    data = report("verify", manager="KnownRetry")
    assert data["exit"] == 0
    assert data["verdicts"]["L1-answer-true", "tour"] == "expected_failure"
    assert "promotions are answered RETRY so far" in data["out"]
    assert data["counterexamples"] == []

    end = "mine.py:KnownRetry keeps every contract that was checked, but for its known gaps: L1"
    assert end in data["out"]


def test_a_known_gap_that_has_closed_turns_red_and_is_not_called_broken(report):
    data = report("tour", manager="ClosedGap")
    assert data["exit"] == 1
    assert data["verdicts"]["L1-answer-true", "tour"] == "gap_closed"
    assert "take it out of known_gaps" in data["out"]
    assert "mine.py:ClosedGap keeps L1-answer-true, now a known gap no more" in data["out"]
    assert "take it out" in data["xml"].find(".//failure").get("message")


def test_a_known_gap_that_was_not_reached_has_not_closed(report, stand):
    stand.unreached = ("L1-answer-true",)
    data = report("tour", manager="ClosedGap")
    assert data["exit"] == 2
    assert data["verdicts"]["L1-answer-true", "tour"] == "not_reached"


def test_a_contract_that_was_not_reached_does_not_hold(report, stand):
    stand.unreached = ("D1-bytes",)
    data = report("verify")
    assert data["exit"] == 2
    assert data["verdicts"]["D1-bytes", "tour"] == "not_reached"
    assert "D1-bytes, tour: not reached, no bytes were read" in data["out"]
    assert "was never brought to what D1-bytes speaks of" in data["out"]
    assert "no bytes were read" in data["xml"].find(".//error").get("message")


def test_a_contract_that_one_method_reached_need_not_be_reached_by_the_other(report, stand):
    stand.runs_reach = False
    data = report("verify")
    assert data["exit"] == 0
    assert data["verdicts"]["D1-bytes", "runs"] == "not_reached"
    assert data["xml"].findall(".//error") == []
    assert len(data["xml"].findall(".//skipped")) > 20


def test_what_random_histories_alone_did_not_reach_the_tour_may(report, stand):
    stand.runs_reach = False
    data = report("fuzz")
    assert data["exit"] == 2
    assert "speak of; more --examples, or the tour, may come to more" in data["out"]


def test_where_a_manager_breaks_a_contract_what_was_not_reached_is_only_listed(report, stand):
    stand.unreached = ("D1-bytes", "S3-pins")
    data = report("tour", manager="Retry")
    assert data["exit"] == 1
    assert "not reached, tour: L6-hit-holds, S3-pins, D1-bytes" in data["out"]
    assert "no bytes were read" not in data["out"]


def fate(group, name, verdict, killer="tour"):
    killer = killer if verdict == "killed" else None
    return SimpleNamespace(
        set=group,
        name=name,
        verdict=verdict,
        killer=killer,
        contract=None,
        operations=3,
        seconds=0.1,
        reason="it does the same",
        shortest=False,
    )


def test_a_mutant_that_survives_is_red(report, stand):
    stand.fates = [fate("table", "a", "killed"), fate("production", "b", "survived")]
    data = report("mutants")
    assert data["exit"] == 1
    assert "table: 1 mutant " in data["out"]
    assert [c.get("name") for c in data["xml"].findall(".//failure/..")] == ["b"]


def test_mutants_that_are_killed_or_equivalent_are_good(report, stand):
    stand.fates = [fate("table", "a", "killed"), fate("production", "b", "equivalent")]
    data = report("mutants")
    assert data["exit"] == 0
    assert "equivalent: 1, because it does the same" in data["out"]
    assert "<= 3" in data["out"]


def test_junit_counts_what_it_holds(report):
    for manager in (None, "Retry", "Plain", "KnownRetry"):
        root = report("verify", manager=manager)["xml"]
        suite = root.find("testsuite")
        cases = suite.findall("testcase")
        assert root.tag == "testsuites"
        assert suite.get("tests") == str(len(cases)) == root.get("tests")
        for tag, plural in (("failure", "failures"), ("error", "errors"), ("skipped", "skipped")):
            assert suite.get(plural) == str(len(suite.findall(f"testcase/{tag}"))), manager
        assert all(
            c.get("classname") and c.get("name") and float(c.get("time")) >= 0 for c in cases
        )
        assert len({(c.get("classname"), c.get("name")) for c in cases}) == len(cases)


def test_junit_shows_the_history_of_a_violation(report):
    root = report("verify", manager="Retry")["xml"]
    assert "1. r0 looks up k0" in root.find(".//failure").text


@pytest.mark.parametrize("command", ["verify", "tour", "fuzz"])
def test_a_page_can_be_written_with_every_violation_drawn(command, report, tmp_path):
    report(command, "--html", "out.html", manager="Retry")
    text = (tmp_path / "out.html").read_text()
    assert text.count("<svg ") == 1
    assert "mine.py:Retry breaks L1-answer-true" in text
    assert "lookup k0" in text
    assert ">expected: HIT_PENDING</text>" in text


def test_every_form_of_report_names_the_versions(report, tmp_path):
    data = report("verify", "--html", "out.html")
    told = {p.get("name"): p.get("value") for p in data["xml"].iter("property")}
    assert told == data["versions"]
    assert f"Contracts version {told['contracts']}; " in (tmp_path / "out.html").read_text()


def test_a_counterexample_is_printed_and_written(report, tmp_path):
    data = report("tour", manager="Retry")
    assert "1. r0 looks up k0   RETRY   (expected: HIT_PENDING)" in data["out"]
    (file,) = (tmp_path / "tierproof-counterexamples").iterdir()
    assert file.name in data["out"]


def test_bench_measures_time_memory_and_counts(run, tmp_path):
    done = run("bench", "verify", "--json", "out.json")
    assert done.code == 0
    measures = {m["what"]: m for m in json.loads((tmp_path / "out.json").read_text())["measures"]}
    assert measures["proof"]["goal"] == 5
    assert measures["memory at most"]["unit"] == "MiB"
    assert measures["cases (tour)"]["value"] == 3


def test_a_fault_of_ours_is_reported_to_programs_as_well(run_entry, stand, tmp_path):
    stand.raises = RuntimeError("a bug")
    done = run_entry("tour", "--json", "out.json", "--junit", "out.xml")
    data = json.loads((tmp_path / "out.json").read_text())
    assert done.code == data["exit"] == 3
    assert (data["command"], data["fault"]) == ("tour", "RuntimeError: a bug")
    assert data["results"] == []
    error = ET.parse(tmp_path / "out.xml").getroot().find(".//error")
    assert error is not None
    assert error.get("message") == "RuntimeError: a bug"


def test_whoever_reads_no_terminal_is_told_now_and_then_that_it_still_goes_on(capsys, monkeypatch):
    from tierproof.properties import terminal as module

    monkeypatch.setattr(module, "REMINDER", 0.01)
    with module.Terminal().patiently("contracts") as step:
        step(3, 13)
        deadline = time.monotonic() + 5
        told = ""
        while "3 of 13" not in told and time.monotonic() < deadline:
            time.sleep(0.01)
            told += capsys.readouterr().err
    assert "tierproof: contracts: 3 of 13, 0 s so far" in told
