"""What a user types wrongly is told in one sentence; every command ends with its exit code."""

import ctypes
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tierproof.properties import commands_prove

from .support import assert_told

COMMANDS = ["verify", "prove", "tour", "fuzz", "mutants", "spec", "bench", "demo"]


def test_without_a_command_help_is_printed(run):
    done = run()
    assert done.code == 0
    assert all(command in done.out for command in COMMANDS)


def test_bench_alone_prints_its_help(run):
    assert run("bench").code == 0


@pytest.mark.parametrize("command", [*COMMANDS, "bench verify"])
def test_every_command_has_help(run, command):
    done = run(*command.split(), "--help")
    assert done.code == 0
    assert "--json" in done.out or command == "bench"


def test_the_version_is_printed(run):
    assert run("--version").out.startswith("tierproof 0.")


@pytest.mark.parametrize(
    "args",
    [("verfy",), ("verify", "--bogus"), ("fuzz", "--examples", "0"), ("fuzz", "--seed", "x")],
)
def test_a_wrong_command_or_option_is_refused(run, args):
    done = run(*args)
    assert done.code == 2
    assert "Traceback" not in done.err
    assert done.err


def test_an_unknown_manager_is_told_with_the_known_ones(run):
    assert_told(run("tour", "--manager", "mine"), "mine", "tierproof", "submits_twice", "fault:")


def test_a_misspelt_manager_is_told_with_the_close_one(run):
    assert_told(run("tour", "--manager", "retry_on_promotoin"), "retry_on_promotion")


def test_a_fault_without_its_prefix_is_told_with_it(run):
    assert_told(run("tour", "--manager", "keeps_claim"), "fault:keeps_claim")


def test_an_unknown_fault_is_told_with_the_close_one(run):
    assert_told(run("tour", "--manager", "fault:keeps_clam"), "fault:keeps_claim")


FACTORY = "def build(*, slots, tiers, clock, block_bytes):\n    {}\n"


@pytest.mark.parametrize(
    ("source", "spec", "words"),
    [
        (None, "mine.py:build", ["no file", "mine.py"]),
        (None, "my.module:build", ["no module", "my.module"]),
        ("", "mine.py", ["which factory", "mine.py:NAME"]),
        ("", "mine.py:", ["does not name a factory"]),
        ("", "mine.py:build", ["no 'build'"]),
        ("def build(*, slots): ...", "mine.py:biuld", ["did you mean mine.py:build"]),
        ("build = 3", "mine.py:build", ["int", "cannot be called"]),
        ("def build(size): ...", "mine.py:build", ["slots, tiers, clock, block_bytes", "(size)"]),
        (FACTORY.format("return None"), "mine.py:build", ["None", "no lookup"]),
        (FACTORY.format("return 'a manager'"), "mine.py:build", ["str", "no lookup"]),
        (FACTORY.format("raise OSError('no GPU')"), "mine.py:build", ["OSError: no GPU", "line 2"]),
        ("import no_such_thing", "mine.py:build", ["no_such_thing"]),
        ("def build(:", "mine.py:build", ["SyntaxError", "line 1"]),
        ("raise SystemExit(3)", "mine.py:build", ["SystemExit"]),
        (
            "from tierproof import TieredOffloadingManager\n"
            "class Mine(TieredOffloadingManager):\n"
            "    def lookup(self, key): ...",
            "mine.py:Mine",
            ["lookup(key, request)", "lookup(key)"],
        ),
        (
            "from tierproof import TieredOffloadingManager\n"
            "class Mine(TieredOffloadingManager):\n"
            "    def on_new_request(self, request_id): ...",
            "mine.py:Mine",
            ["on_new_request(request_id, *, tier_filter)", "(request_id)"],
        ),
        (
            "from tierproof import TieredOffloadingManager\n"
            "class Mine(TieredOffloadingManager):\n"
            "    def reset_cache(self): ...",
            "mine.py:Mine",
            ["reset_cache(*, tiers)"],
        ),
        (
            "from tierproof import TieredOffloadingManager\n"
            "class Mine(TieredOffloadingManager):\n"
            "    def prepare_store(self, keys, request): return 7",
            "mine.py:Mine",
            ["prepare_store returned an int", "keys and slots"],
        ),
        (
            "from tierproof import TieredOffloadingManager\n"
            "class Mine(TieredOffloadingManager):\n"
            "    def take_events(self): raise KeyError('events')",
            "mine.py:Mine",
            ["take_events", "KeyError", "line 3"],
        ),
        (
            "from tierproof import TieredOffloadingManager\n"
            "class Mine(TieredOffloadingManager):\n"
            "    claims = ('L2-until-read',)",
            "mine.py:Mine",
            ["claims", "L2-until-read", "did you mean L"],
        ),
        (
            "from tierproof import TieredOffloadingManager\n"
            "class Mine(TieredOffloadingManager):\n"
            "    known_gaps = ['L3-until-read']",
            "mine.py:Mine",
            ["known_gaps", "a dict"],
        ),
    ],
)
def test_a_manager_that_cannot_be_driven_is_told_in_a_sentence(run, tmp_path, source, spec, words):
    if source is not None:
        (tmp_path / "mine.py").write_text(source)
    assert_told(run("verify", "--manager", spec), *words)


def test_a_manager_that_goes_wrong_later_is_not_called_our_fault(run, tmp_path):
    (tmp_path / "mine.py").write_text(
        "from tierproof import TieredOffloadingManager\n"
        "class Mine(TieredOffloadingManager):\n"
        "    asked = 0\n"
        "    def has_pending_work(self):\n"
        "        Mine.asked += 1\n"
        "        return False if Mine.asked < 3 else 1 / 0\n"
    )
    assert_told(run("tour", "--manager", "mine.py:Mine"), "ZeroDivisionError", "mine.py, line 6")


def test_events_that_are_none_are_told_in_a_sentence(run, tmp_path):
    (tmp_path / "mine.py").write_text(
        "from tierproof import TieredOffloadingManager\n"
        "class Mine(TieredOffloadingManager):\n"
        "    def take_events(self): return [('stored', 'k0')]\n"
    )
    assert_told(run("tour", "--manager", "mine.py:Mine"), "take_events", "a kind", "a key")


def test_a_name_that_resembles_nothing_is_not_guessed_at(run):
    for name in ("mine", "fault:mine", "fault:x", "vllm"):
        done = run("tour", "--manager", name)
        assert_told(done, name)
        assert "did you mean" not in done.err


def test_an_interrupt_ends_with_130(run, stand):
    stand.raises = KeyboardInterrupt()
    done = run("tour")
    assert done.code == 130
    assert done.err == "tierproof: interrupted\n"


@pytest.mark.parametrize(
    ("args", "other"),
    [
        (("prove", "--seed", "3"), "--seeds"),
        (("verify", "--seeds", "3"), "--seed"),
        (("fuzz", "--seeds", "3"), "--seed"),
        (("soak", "--seeds", "3"), "--seed"),
        (("matrix", "--seeds", "3"), "--seed"),
    ],
)
def test_an_option_of_another_command_is_answered_with_the_one_that_there_is(run, args, other):
    done = run(*args)
    assert done.code == 2
    assert f"No such option: {args[1]}" in done.err
    assert other in done.err.partition(args[1])[2]


def test_a_manager_where_a_workload_belongs_is_told_what_to_write(run):
    assert_told(run("scan", "my_manager.py"), "verify --manager my_manager.py:FACTORY", "JSON")


class Interrupted:
    """What a Ctrl-C comes to that a library in C hears of first."""

    def __init__(self, *, tidying):
        self._tidying = tidying

    def __call__(self):
        if self._tidying:
            Tidied()
            time.sleep(5)
            return
        try:
            signal.raise_signal(signal.SIGINT)
        except KeyboardInterrupt:
            raise ctypes.ArgumentError("argument 1: KeyboardInterrupt") from None


class Tidied:
    def __del__(self):
        signal.raise_signal(signal.SIGINT)


@pytest.mark.parametrize("tidying", [False, True])
def test_an_interrupt_that_is_raised_as_something_else_ends_with_130(run, monkeypatch, tidying):
    came = Interrupted(tidying=tidying)
    monkeypatch.setattr(commands_prove, "prove", lambda *_, **__: came())
    done = run("prove")
    assert (done.code, done.err) == (130, "tierproof: interrupted\n")


@pytest.mark.parametrize("after", [0.3, 1.0, 2.0])
def test_ctrl_c_ends_a_proof_in_this_process(after):
    program = (
        "import sys\n"
        "from tierproof.properties import checks, cli\n"
        "checks.PROOF_WORKERS = 1\n"
        "import tierproof.properties.proof\n"
        "print('begun', flush=True)\n"
        "sys.exit(cli.main(['prove']))\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "begun\n"
    time.sleep(after)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=120)
    assert (process.returncode, errors) == (130, "tierproof: interrupted\n")


def test_a_fault_of_ours_ends_with_3_and_a_traceback(run_entry, stand):
    stand.raises = RuntimeError("a bug")
    done = run_entry("tour")
    assert done.code == 3
    assert "RuntimeError: a bug" in done.err


def test_a_missing_library_of_the_kit_is_named(run_entry, stand):
    stand.raises = ModuleNotFoundError("No module named 'z3'", name="z3")
    done = run_entry("tour")
    assert done.code == 2
    assert "pip install '.[kit]'" in done.err


def start(*args, **more):
    return subprocess.Popen(
        [sys.executable, "-m", "tierproof", *args],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **more,
    )


def test_ctrl_c_in_the_real_command_ends_with_130(tmp_path):
    (tmp_path / "slow.py").write_text(
        "import time, pathlib\n"
        "def build(*, slots, tiers, clock, block_bytes):\n"
        "    pathlib.Path('started').touch()\n"
        "    time.sleep(60)\n"
    )
    process = start("tour", "--manager", "slow.py:build", cwd=tmp_path)
    deadline = time.monotonic() + 30
    while not (tmp_path / "started").exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=120)
    assert process.returncode == 130, errors
    assert errors == "tierproof: interrupted\n"


def workers_of(process):
    """The processes that a command has started itself."""
    task = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    return task.read_text().split() if task.exists() else []


@pytest.mark.parametrize("command", ["tour", "prove", "mutants"])
def test_ctrl_c_at_a_terminal_reaches_the_workers_as_well_and_none_of_them_tells(command):
    # a terminal sends the signal to the whole group, the workers of the check among it
    process = start(command, start_new_session=True)
    deadline = time.monotonic() + 60
    while not workers_of(process) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert workers_of(process)
    os.killpg(process.pid, signal.SIGINT)
    _, errors = process.communicate(timeout=120)
    assert process.returncode == 130, errors
    assert errors == "tierproof: interrupted\n"


def test_a_reader_that_has_gone_away_changes_no_exit_code(tmp_path):
    process = start("spec", "--check", cwd=tmp_path)
    assert process.stdout is not None
    process.stdout.close()
    assert process.stderr is not None
    errors = process.stderr.read()
    process.wait(timeout=120)
    assert process.returncode == 1, errors
    assert errors == ""


def test_into_a_pipe_goes_plain_text(tmp_path):
    process = start("spec", "--check", cwd=tmp_path, env={**os.environ, "TERM": "xterm-256color"})
    out, errors = process.communicate(timeout=120)
    assert errors == ""
    assert "missing" in out
    assert "\x1b" not in out
