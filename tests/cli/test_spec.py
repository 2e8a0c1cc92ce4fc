"""The generated pages: written once, checked for ever."""

import json

import pytest

from tierproof.model.rules import EVENTS, RULES
from tierproof.model.vocabulary import ANSWERS, FIELDS, LINKS, PHASES, REASONS
from tierproof.properties import phrases
from tierproof.properties.contracts import CONTRACTS
from tierproof.properties.pages import PAGES, specification


@pytest.fixture(autouse=True)
def _docs(tmp_path):
    (tmp_path / "docs").mkdir()


def test_a_page_that_was_just_written_is_current(run, tmp_path):
    assert run("spec").code == 0
    assert (tmp_path / "docs" / "specification.md").read_text() == specification()
    assert run("spec", "--check").code == 0
    assert "is current" in run("spec").out


def test_a_missing_page_is_stale(run):
    done = run("spec", "--check", "--json", "out.json")
    assert done.code == 1
    assert "specification.md is missing" in done.out


def test_a_page_that_was_edited_is_stale_and_is_not_touched_by_the_check(run, tmp_path):
    run("spec")
    page = tmp_path / "docs" / "specification.md"
    page.write_text(page.read_text() + "by hand\n")
    done = run("spec", "--check", "--json", "out.json", "--junit", "out.xml")
    assert done.code == 1
    assert "specification.md is stale" in done.out
    assert json.loads((tmp_path / "out.json").read_text())["exit"] == 1
    assert "<failure" in (tmp_path / "out.xml").read_text()
    assert page.read_text().endswith("by hand\n")


def test_a_folder_that_cannot_be_written_is_told(run, tmp_path):
    (tmp_path / "docs" / "promises.md").mkdir()
    done = run("spec")
    assert done.code == 2
    assert "could not be written" in done.err


@pytest.mark.parametrize(
    ("folder", "said"), [("nope", "there is no such folder"), ("file", "that is no folder")]
)
def test_a_folder_of_pages_that_there_is_not_is_refused_and_not_made(run, tmp_path, folder, said):
    (tmp_path / "file").touch()
    done = run("spec", "--folder", folder)
    assert done.code == 2
    assert done.err.count("\n") == 1
    assert f"--folder {folder}: {said}; make it first, or name the folder of the pages" in done.err
    assert not (tmp_path / "nope").exists()


def test_pages_are_the_same_every_time():
    for page in PAGES.values():
        assert page() == page()


def test_every_rule_event_contract_and_word_is_on_the_page():
    page = specification()
    for name in (*EVENTS, *(r.name for r in RULES), *CONTRACTS, *FIELDS, *LINKS):
        assert name in page, name


def test_every_cell_of_the_table_has_its_phrase():
    for event in EVENTS.values():
        phrases.when(event.given)
    for rule in RULES:
        assert "_" not in phrases.when(rule.when).replace("OVERDUE_", ""), rule.name
        assert phrases.then(rule.then) or not rule.then, rule.name


def test_every_answer_reason_and_phase_is_explained():
    assert tuple(phrases.ANSWERS) == ANSWERS
    assert tuple(phrases.REASONS) == REASONS
    assert tuple(phrases.PHASES) == PHASES


def test_two_rules_of_an_event_never_read_the_same():
    for event in EVENTS:
        read = [phrases.when(r.when) for r in RULES if r.event == event]
        assert len(set(read)) == len(read), event
