"""What README and ARCHITECTURE say can be done is done here, and what they name exists."""

import contextlib
import io
import re
from pathlib import Path

import pytest

from tierproof.properties.cli import main
from tierproof.properties.contracts import CONTRACTS
from tierproof.properties.managers import REQUIRED_CALLS, resolve
from tierproof.properties.rooms import ROOMS
from tierproof.properties.tour import tour

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()
ARCHITECTURE = (ROOT / "ARCHITECTURE.md").read_text()
PYTHON = re.findall(r"```python\n(.*?)```", README, re.DOTALL)


def test_the_example_of_the_manager_prints_what_its_comments_say():
    (example,) = (code for code in PYTHON if "MemoryTier" in code)
    told = io.StringIO()
    with contextlib.redirect_stdout(told):
        exec(compile(example, "README.md", "exec"), {})
    promised = re.findall(r"print\(.*# (LookupResult\.\w+)", example)
    assert told.getvalue().split() == promised
    assert len(promised) == 4


def test_the_example_of_a_manager_of_ones_own_can_be_held_to_the_contracts(tmp_path, monkeypatch):
    (example,) = (code for code in PYTHON if "class MyManager" in code)
    (tmp_path / "my_manager.py").write_text(example)
    monkeypatch.chdir(tmp_path)
    chosen = resolve("my_manager.py:MyManager")
    assert set(chosen.claims) == set(CONTRACTS)
    rooms = [room for room in ROOMS if room.name in ("answers", "failures")]
    broken = {f.contract for f in tour(chosen.factory, rooms=rooms, processes=1).divergences}
    assert broken == {"L1-answer-true", "F3-tier-raises"}
    told = README[README.index("This one is wrong") :].partition("\n\n")[0]
    assert set(re.findall(r"`([A-Z]\d-\S+?)`", told)) == broken


def test_the_number_of_calls_in_the_text_is_right():
    words = ["eight", "nine", "ten", "eleven", "twelve"]
    assert f"the {words[len(REQUIRED_CALLS) - 8]}\ncalls" in README


def test_the_contracts_in_the_table_that_is_shown_exist():
    shown = README.partition("```text\n")[2].partition("```")[0]
    ids = re.findall(r"^[A-Z]\d-\S+", shown, re.MULTILINE)
    assert len(ids) > 20
    assert set(ids) <= set(CONTRACTS)


@pytest.mark.parametrize("page", ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md"])
def test_every_link_leads_somewhere(page):
    for target in re.findall(r"\]\(([^)#]+)", (ROOT / page).read_text()):
        assert target.startswith("https://") or (ROOT / target).exists(), target


@pytest.mark.parametrize(
    "command", sorted(set(re.findall(r"tierproof (\w+)(?= --| run|`)", README)))
)
def test_every_command_that_is_named_exists(command, capsys):
    assert main([command, "--help"]) == 0, capsys.readouterr().err


def test_every_file_that_architecture_names_exists():
    room = ""
    for line in ARCHITECTURE.splitlines():
        if heading := re.match(r"## `(\w+)/`", line):
            room = heading[1]
        for name in re.findall(r"`([\w/]+\.py)`", line):
            assert (ROOT / name).exists() or (ROOT / room / name).exists(), f"{room}: {name}"


def test_architecture_names_every_module_of_the_model():
    section = ARCHITECTURE.partition("## `model/`")[2].partition("\n## ")[0]
    for path in (ROOT / "model").glob("*.py"):
        assert path.name == "__init__.py" or f"`{path.name}`" in section, path.name


def test_architecture_names_every_module_and_folder_that_binds_the_two():
    section = ARCHITECTURE.partition("## `properties/`")[2].partition("\n## ")[0]
    named = set(re.findall(r"`([\w/]+(?:\.py|/))`", section))
    for path in (ROOT / "properties").iterdir():
        name = f"{path.name}/" if path.is_dir() else path.name
        assert name in named or name.startswith("__"), name
