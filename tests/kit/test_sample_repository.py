"""A repository with a manager and a tier of its own: its gate passes, and fails when either breaks.

`tests/sample_repository` is what a maintainer would copy. What its workflow and its commit hook run
is run here as it is written there.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
import yaml

from .support import INSTALLED

ROOT = Path(__file__).parents[2]
SAMPLE = ROOT / "tests" / "sample_repository"
SOURCES = ("pyproject.toml", "README.md", "LICENSE", "model", "impl", "properties", "src")
PROMOTED = "tier, request, [request], True\n        return Answer."
BREAKS = {
    "L1-answer-true": ("small_manager.py", f"{PROMOTED}HIT_PENDING", f"{PROMOTED}RETRY"),
    "D1-bytes": ("small_tier.py", "[:] = block", "[:] = bytes(len(block))"),
}


@pytest.fixture
def sample(tmp_path):
    """A copy of the repository."""
    return Path(shutil.copytree(SAMPLE, tmp_path / "sample"))


def shell(command, folder, **variables):
    """Run one line as a build server would, with this interpreter's programs."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    here = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST_")}
    on_path = {"PYTEST_PLUGINS": "tierproof.properties.plugin", "PYTHONPATH": str(ROOT / "src")}
    plugin = {} if INSTALLED else on_path
    done = subprocess.run(
        ["bash", "-ec", command],
        cwd=folder,
        env={**here, **plugin, "PATH": path, **variables},
        capture_output=True,
        text=True,
        timeout=300,
    )
    return done.returncode, done.stdout + done.stderr


def spoil(sample, contract):
    """Break the sample where the contract says."""
    name, right, wrong = BREAKS[contract]
    text = (sample / name).read_text()
    assert right in text, f"the sample is not broken: {name} does not read so any more"
    (sample / name).write_text(text.replace(right, wrong))


def test_the_test_file_is_three_lines_for_each():
    text = (SAMPLE / "test_conformance.py").read_text()
    assert text.count("factory = ") == 2
    assert len([line for line in text.splitlines() if line.strip()]) <= 8


def test_every_line_of_the_workflow_does_its_job_and_the_sample_passes(sample, tmp_path):
    workflow = yaml.safe_load((sample / ".github/workflows/conformance.yml").read_text())
    steps = workflow["jobs"]["conformance"]["steps"]
    (clone,) = (s["with"]["path"] for s in steps if "repository" in s.get("with", {}))
    install, gate = (step["run"] for step in steps if "run" in step)
    (sample / clone).mkdir()
    for name in SOURCES:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, sample / clone / name, symlinks=True)
        else:
            shutil.copy(ROOT / name, sample / clone)
    # what it depends on is here already, and nothing is fetched
    alone = {"PIP_NO_DEPS": "1", "PIP_NO_INDEX": "1", "PIP_NO_BUILD_ISOLATION": "0"}
    code, told = shell(install, sample, PIP_TARGET=str(tmp_path / "site"), **alone)
    assert code == 0, told
    assert (tmp_path / "site/tierproof/properties/plugin.py").is_file()

    code, told = shell(gate, sample)
    assert code == 0, told
    suites = ET.parse(sample / "contracts.xml").getroot().findall("testsuite")
    assert [s.get("failures") for s in suites] == ["0", "0"]
    assert "small_manager.py:SmallManager" in (sample / "contracts.html").read_text()


def test_the_commit_hook_fails_in_the_contracts_words_when_the_manager_breaks(sample):
    config = yaml.safe_load((sample / ".pre-commit-config.yaml").read_text())
    (repository,) = config["repos"]
    (hook,) = repository["hooks"]
    assert repository["repo"] == "local"
    assert {"id", "name", "entry", "language"} <= hook.keys(), "a local hook needs these"
    assert (hook["language"], hook["pass_filenames"]) == ("system", False)
    spoil(sample, "L1-answer-true")
    code, told = shell(f"{hook['entry']} -k 'SmallManager and tour'", sample)
    assert code == 1, told
    assert "L1-answer-true is broken by small_manager.py:SmallManager after" in told
    assert "each answer means what the semantics say" in told
    assert "RETRY   (expected: HIT_PENDING)" in told


def test_the_gate_fails_in_the_contracts_words_when_the_tier_breaks(sample):
    spoil(sample, "D1-bytes")
    code, told = shell("pytest test_conformance.py -k SmallTier", sample)
    assert code == 1, told
    assert "D1-bytes is broken by" in told
    assert "bytes read under a key are the bytes stored under it" in told
