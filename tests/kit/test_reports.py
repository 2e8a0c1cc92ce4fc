"""The files that a run of the kit writes: JSON, JUnit XML, one HTML page with histories drawn."""

import json
import re
from dataclasses import replace
from html import escape
from html.parser import HTMLParser
from xml.etree import ElementTree as ET

import pytest

from tierproof import __version__
from tierproof.model import operations as ops
from tierproof.model.operations import OPERATIONS, RequestSetting, Setting, TierSetting
from tierproof.properties.contracts import CONTRACTS, RUNS, TIER_CONTRACTS, TOUR, VERSION
from tierproof.properties.counterexamples import LONG, Counterexample, Shown, replay
from tierproof.properties.diagrams import _DRAWN, MANAGER, lanes, rows, svg
from tierproof.properties.html_page import html_page
from tierproof.properties.managers import shipped
from tierproof.properties.report import Report, Result

from .support import run_kit

SETTING = Setting(
    2,
    ("k0",),
    (TierSetting("t0", ("k0",)), TierSetting("t1")),
    (RequestSetting("r0"), RequestSetting("r1")),
)
HISTORY = (
    ops.Lookup("k0", "r0"),
    ops.StepEnd(),
    ops.Report(1, ("k0",)),
    ops.Lookup("k0", "r0"),
    ops.PrepareLoad(("k0",), "r0"),
    ops.CompleteLoad(2),
    ops.PrepareStore(("k0",), "r1"),
)


def counterexample(history=HISTORY, said="something <else> & more", **wrong):
    shown, divergence = replay(shipped, SETTING, history)
    assert divergence is None
    shown[-1] = replace(shown[-1], wrong=True, **wrong)
    return Counterexample("L1-answer-true", "my.py:Mine", (TOUR,), SETTING, tuple(shown), said)


def number(element, name):
    return float(element.get(name))


def named(element):
    """The properties of a suite or a case."""
    return {p.get("name"): p.get("value") for p in element.iterfind("properties/property")}


class Page(HTMLParser):
    """What a page refers to, and which elements it has."""

    def __init__(self, text):
        super().__init__()
        self.elements, self.outside, self.open = [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.elements.append(tag)
        self.outside += [v for name, v in attrs if name in ("src", "href", "data", "action")]
        if tag not in ("meta", "br", "line", "rect", "polygon", "link", "img"):
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.elements.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


# -- diagrams ------------------------------------------------------------------------------------


def test_requests_the_gpu_the_manager_and_tiers_have_lanes_in_this_order():
    assert lanes(counterexample()) == ["r0", "r1", "GPU", MANAGER, "t0", "t1"]
    assert lanes(counterexample(HISTORY[:1])) == ["r0", "r1", MANAGER, "t0", "t1"]


def test_a_diagram_goes_down_with_time_from_call_to_answer_and_job_to_report():
    told = [(number, m.text, m.start, m.end) for number, ms in rows(counterexample()) for m in ms]
    assert told[:6] == [
        ("1.", "lookup k0", "r0", MANAGER),
        ("1.", "HIT_PENDING", MANAGER, "r0"),
        ("2.", "the step ends", None, None),
        ("2.", "job 1: load k0", MANAGER, "t0"),
        ("3.", "job 1: k0 landed", "t0", MANAGER),
        ("4.", "lookup k0", "r0", MANAGER),
    ]
    drawing = ET.fromstring(svg(counterexample()))
    texts = [e for e in drawing.iter() if e.tag.endswith("text") and e.get("class") == "label"]
    heights = [number(e, "y") for e in texts]
    assert heights == sorted(heights)


def test_a_wrong_answer_is_shown_beside_the_right_one():
    found = counterexample(HISTORY[:1], got="RETRY", expected="HIT_PENDING")
    marks = [m for _, ms in rows(found) for m in ms]
    assert [(m.text, m.wrong) for m in marks[1:]] == [
        ("RETRY", True),
        ("expected: HIT_PENDING", True),
    ]


def test_every_operation_can_be_drawn():
    assert {kind.op for kind in _DRAWN} | {ops.Report.op} == set(OPERATIONS)


def test_every_label_lies_within_the_drawing():
    found = counterexample()
    names = ("a request with a name that is long, and longer", "t0")
    setting = replace(SETTING, tiers=tuple(TierSetting(n) for n in names))
    mood = Shown(ops.Mood(names[0], "raise on submit"), None, None)
    drawing = ET.fromstring(svg(replace(found, setting=setting, shown=(mood, *found.shown[:1]))))
    width = number(drawing, "width")
    for text in (e for e in drawing.iter() if e.tag.endswith("text")):
        half = len(text.text or "") * 6.5 / 2 * (text.get("text-anchor") == "middle")
        assert number(text, "x") - half >= 0, text.text
        assert number(text, "x") + half <= width, text.text


def test_a_long_history_is_drawn_without_its_middle():
    steps = (ops.Lookup("k0", "r0"), *[ops.StepEnd()] * (LONG + 20))
    drawn = rows(counterexample(steps))
    assert len(drawn) == LONG + 1
    assert [m.text for m in drawn[5][1]] == ["... 21 operations not shown"]


# -- the page ------------------------------------------------------------------------------------


def a_report():
    report = Report("pytest", "my.py:<Mine>")
    report.results = [
        Result("L1-answer-true", TOUR, "violated"),
        Result("L1-answer-true", RUNS, "not_reached", says="no lookup"),
        Result("C1-cascade-once", TOUR, "not_claimed"),
        Result("T3-bytes", RUNS, "violated", says="a torn block was <loaded>"),
    ]
    report.counterexamples = [counterexample()]
    return report


def test_the_page_needs_nothing_but_itself_and_is_well_formed():
    text = html_page([a_report()])
    page = Page(text)
    assert page.outside == []
    assert page.open == []
    assert not {"script", "link", "img", "iframe"} & set(page.elements)
    assert "url(" not in text
    assert "@import" not in text
    assert {"svg", "table", "details"} <= set(page.elements)


def test_the_page_says_what_was_held_and_in_which_words():
    text = html_page([a_report()])
    assert f"Contracts version {VERSION}; " in text
    assert f"tierproof {__version__}" in text
    assert "my.py:&lt;Mine&gt;" in text
    assert "something &lt;else&gt; &amp; more" in text
    assert "a torn block was &lt;loaded&gt;" in text
    assert escape(TIER_CONTRACTS["T3-bytes"].words) in text
    assert "not reached" in text
    assert "not claimed" in text


def test_every_colour_has_a_value_in_light_and_in_dark():
    text = html_page([])
    light, dark = text.split("@media (prefers-color-scheme: dark)")
    used = set(re.findall(r"var\((--\w+)\)", text))
    assert used
    for name in used:
        assert f"{name}: #" in light
        assert f"{name}: #" in dark
    assert "color-scheme: light dark" in light


# -- as files ------------------------------------------------------------------------------------

TESTS = """
from tierproof import TieredOffloadingManager
from tierproof.kit import ManagerConformance, TierConformance
from tierproof.properties.faults import FAULTS
from tierproof.properties.tier_specimen import Specimen

class TestFaulty(ManagerConformance):
    factory = staticmethod(FAULTS["retry_on_promotion"].factory)
    contracts = ("L1-answer-true", "L5-tiers-asked")
    rooms, histories = ("answers",), 0

class TestTier(TierConformance):
    factory = Specimen
"""


@pytest.fixture
def written(pytester):
    pytester.makepyfile(TESTS)
    files = {form: pytester.path / f"report.{form}" for form in ("json", "junit", "html")}
    arguments = [f"--tierproof-{form}={path}" for form, path in files.items()]
    contracts = "--tierproof-contracts=L1,L5,T4"
    result = run_kit(pytester, *arguments, contracts, "-k", "not runs", "--junitxml=pytest.xml")
    result.assert_outcomes(failed=1, passed=2, deselected=14)
    return {form: path.read_text() for form, path in files.items()} | {
        "pytest": (pytester.path / "pytest.xml").read_text()
    }


def test_one_run_writes_a_report_of_each_subject_in_every_form_with_the_versions(written):
    data = json.loads(written["json"])
    assert data["schema"] == "tierproof.reports/1"
    assert data["versions"]["tierproof"] == __version__
    assert data["versions"]["contracts"] == VERSION
    manager, tier = data["reports"]
    assert manager["schema"] == tier["schema"] == "tierproof.report/1"
    assert {r["contract"] for r in tier["results"]} == {"T4-visible"}
    (found,) = manager["counterexamples"]
    assert (found["contract"], found["method"]) == ("L1-answer-true", "tour")
    assert found["words"] == CONTRACTS["L1-answer-true"].words

    suites = ET.fromstring(written["junit"].encode()).findall("testsuite")
    assert len(suites) == 2
    for suite in suites:
        told = named(suite)
        assert (told["tierproof"], told["contracts"]) == (__version__, VERSION)
    assert "L1-answer-true is broken by" in suites[0].findtext("testcase/failure", "")

    assert written["html"].count("<h2>") == 2
    assert written["html"].count("<svg ") == 1
    assert "breaks L1-answer-true.</p>" in written["html"]
    assert "keeps every contract that was checked.</p>" in written["html"]


def test_pytests_own_junit_file_says_what_was_checked_and_by_which_version(written):
    cases = ET.fromstring(written["pytest"].encode()).findall(".//testcase")
    told = [named(case) for case in cases]
    assert {
        "tierproof": __version__,
        "contracts": VERSION,
        "contract": "L1-answer-true",
        "method": "tour",
    } in told


def test_a_counterexample_is_written_as_a_test_that_fails_on_its_own(pytester, monkeypatch):
    pytester.makepyfile(mine=MINE)
    pytester.makepyfile(test_mine=MINE_TEST)
    folder = pytester.path / "found"
    run_kit(pytester, "-k", "tour", f"--tierproof-counterexamples={folder}").assert_outcomes(
        failed=1, deselected=1
    )
    (path,) = folder.iterdir()
    assert path.name == "test_L1_answer_true_by_mine_Mine.py"
    result = run_kit(pytester, str(path))
    result.assert_outcomes(failed=1)
    assert "L1-answer-true is broken by mine.py:Mine after" in result.stdout.str()
    monkeypatch.setenv("TIERPROOF_MANAGER", "tierproof")
    run_kit(pytester, str(path)).assert_outcomes(passed=1)


MINE = """
from tierproof import LookupResult, TieredOffloadingManager

class Mine(TieredOffloadingManager):
    def lookup(self, key, request):
        answer = super().lookup(key, request)
        return LookupResult.MISS if answer is LookupResult.RETRY else answer
"""
MINE_TEST = """
from mine import Mine
from tierproof.kit import ManagerConformance

class TestMine(ManagerConformance):
    factory = Mine
    contracts, rooms = ("L1-answer-true",), ("answers",)
"""
