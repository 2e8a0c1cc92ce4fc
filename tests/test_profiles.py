"""Hypothesis's own options work here as its users know them."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import settings

CONFTEST = Path(__file__).parent / "conftest.py"

EXAMPLE = """
from hypothesis import given, settings, strategies as st
import pytest

@given(st.integers())
def test_profile(_):
    now = settings.default
    print("PROFILE", now.max_examples, now.derandomize, now.stateful_step_count)

@pytest.mark.nightly
def test_long():
    print("LONG RAN")

@pytest.mark.gpu
def test_device():
    print("DEVICE RAN")
"""


@pytest.fixture
def pytest_run(tmp_path):
    (tmp_path / "conftest.py").write_text(CONFTEST.read_text())
    (tmp_path / "test_example.py").write_text(EXAMPLE)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")

    def run(*options: str, ci: bool = False, only: str = "not device") -> str:
        environment = {name: value for name, value in os.environ.items() if name != "CI"}
        if ci:
            environment["CI"] = "true"
        done = subprocess.run(
            [
                sys.executable,
                "-m",
                "pytest",
                "-s",
                "-rs",
                "-p",
                "no:cacheprovider",
                "-k",
                only,
                *options,
            ],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    return run


@pytest.mark.parametrize("name", ["tierproof-dev", "tierproof-ci", "tierproof-nightly"])
def test_no_profile_derandomizes_or_has_a_deadline(name):
    profile = settings.get_profile(name)
    assert not profile.derandomize, "derandomize silently disables --hypothesis-seed"
    assert profile.deadline is None
    assert profile.print_blob
    assert profile.database is not None


def test_the_ci_profile_is_the_default_where_ci_is_set_and_the_seed_still_counts(pytest_run):
    assert "PROFILE 300 False 50" in pytest_run("--hypothesis-seed=7", ci=True)


def test_the_dev_profile_is_the_default_elsewhere(pytest_run):
    assert "PROFILE 60 False 30" in pytest_run()


def test_a_profile_that_the_user_names_wins_over_ci(pytest_run):
    output = pytest_run("--hypothesis-profile=tierproof-dev", ci=True)
    assert "PROFILE 60 False 30" in output


def test_nightly_tests_run_only_when_asked_for(pytest_run):
    output = pytest_run()
    assert "LONG RAN" not in output
    assert "LONG RAN" in pytest_run("--run-nightly")


def test_a_gpu_test_is_skipped_with_its_reason(pytest_run):
    torch = pytest.importorskip("torch")
    output = pytest_run(only="device")
    if torch.cuda.is_available():
        assert "DEVICE RAN" in output
    else:
        assert "torch sees no CUDA device" in output
