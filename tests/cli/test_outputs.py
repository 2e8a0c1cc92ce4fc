"""Where commands write, by one rule: what an option names, in a folder that is there."""

import os
import re

import pytest

from tierproof.properties.places import writable

from .support import PARAMETERS, assert_told


@pytest.mark.parametrize("option", ["--json", "--junit", "--html"])
def test_an_output_that_cannot_be_written_is_told_before_any_work(run, stand, tmp_path, option):
    stand.raises = AssertionError("work was done")
    assert_told(run("tour", option, tmp_path / "nowhere" / "x"), option, "no folder")
    assert_told(run("tour", option, tmp_path), option, "folder")
    assert_told(run("tour", option, tmp_path / ("x" * 300)), option, "cannot be written")


def test_trying_whether_an_output_can_be_written_leaves_what_was_there(tmp_path):
    kept, new = tmp_path / "kept", tmp_path / "new"
    kept.write_text("an earlier report")
    assert writable(kept, "--json") == kept
    assert writable(new, "--json") == new
    assert kept.read_text() == "an earlier report"
    assert not new.exists()


def test_a_pipe_to_be_written_to_is_not_opened_beforehand(tmp_path):
    os.mkfifo(tmp_path / "pipe")  # without a reader, opening it would wait for ever
    assert writable(tmp_path / "pipe", "--json") == tmp_path / "pipe"


def test_a_counterexample_folder_that_is_a_file_is_told(run, tmp_path):
    (tmp_path / "file").write_text("")
    folder = tmp_path / "file"
    done = run("tour", "--manager", "retry_on_promotion", "--counterexamples", folder)
    assert_told(done, "--counterexamples")


def test_an_export_that_cannot_be_written_is_told_before_any_work(run, stand, tmp_path):
    (tmp_path / "file").write_text("")
    assert_told(run("prove", "--export", tmp_path / "file"), "--export")
    assert stand.seeds == []


@pytest.mark.parametrize(
    ("command", "option"),
    [
        ("verify", "--counterexamples"),
        ("tour", "--counterexamples"),
        ("fuzz", "--counterexamples"),
        ("matrix", "--reproducers"),
        ("prove", "--export"),
    ],
)
def test_a_folder_of_new_files_is_made_but_none_above_it(run, stand, tmp_path, command, option):
    stand.raises = AssertionError("work was done")
    told = run(command, option, tmp_path / "nowhere" / "found")
    assert_told(told, f"{option} {tmp_path}/nowhere/found", f"no folder {tmp_path}/nowhere")
    assert stand.seeds == []
    assert not (tmp_path / "nowhere").exists()


OUTPUTS = [
    name
    for name, one in PARAMETERS.items()
    if (one.metavar or "").startswith(("FILE", "DIR")) and one.opts[0] not in ("--config", "--from")
]


def test_there_are_as_many_outputs_as_there_were_when_their_rule_was_written():
    assert len(OUTPUTS) >= 35


@pytest.mark.parametrize("name", OUTPUTS)
def test_an_option_that_names_an_output_says_in_its_help_what_must_be_there(name):
    assert re.search("(is|must be) there|made if need be", PARAMETERS[name].help)
