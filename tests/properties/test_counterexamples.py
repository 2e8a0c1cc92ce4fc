"""A counterexample is read by a person, kept as data, and run as a test of its own."""

import os
import subprocess
import sys

import pytest

from tierproof.model import operations as ops
from tierproof.model.operations import RequestSetting, Setting, TierSetting
from tierproof.properties import wording
from tierproof.properties.counterexamples import LONG, Counterexample, Shown, hold, of_found, replay
from tierproof.properties.found import Found
from tierproof.properties.generated_tests import name_of_test, source, write_tests
from tierproof.properties.managers import UsageError, resolve
from tierproof.properties.surroundings import plainest

MINE = """
from tierproof import LookupResult, TieredOffloadingManager

class Retry(TieredOffloadingManager):
    def lookup(self, key, request):
        answer = super().lookup(key, request)
        return LookupResult.RETRY if answer is LookupResult.HIT_PENDING else answer

class Flaky(Retry):
    built = 0
    def __init__(self, **settings):
        super().__init__(**settings)
        Flaky.built += 1
        self.number = Flaky.built
    def lookup(self, key, request):
        better = super(Retry, self).lookup(key, request)
        return better if self.number > 2 else LookupResult.RETRY
"""
HISTORY = (
    ops.PrepareStore(("k1",), "r0"),
    ops.CompleteStore(1),
    ops.StepEnd(),
    ops.Report(2, ("k1",)),
    ops.Lookup("k0", "r0"),
)
SETTING = Setting(keys=("k0", "k1"), tiers=(TierSetting("t0", has=("k0",)),))


@pytest.fixture
def mine(tmp_path, monkeypatch):
    (tmp_path / "mine.py").write_text(MINE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    return lambda name: resolve(f"mine.py:{name}")


@pytest.fixture
def found(mine):
    chosen = mine("Retry")
    _, divergence = replay(chosen.factory, SETTING, HISTORY)
    assert divergence is not None
    return of_found(chosen, Found(SETTING, divergence, "tour"), ("tour", "runs"))


def test_a_history_is_shown_with_what_it_started_and_where_it_went_wrong(found):
    told = "\n".join(found.lines())
    assert "1. r0 offers k1 to be stored" in told
    assert "-> operation 1" in told
    assert "-> job 2: store k1 to t0, for r0" in told
    assert "5. r0 looks up k0" in told
    assert "RETRY   (expected: HIT_PENDING)" in told
    assert "To begin with: 2 slots; tier t0 has k0; request r0 is live." in told
    assert found.words[:40] in told


def test_data_of_a_history_can_be_made_into_the_history_again(found):
    (first, _) = found.as_json()
    again = tuple(ops.from_json(o["op"], o["args"]) for o in first["operations"])
    assert again == HISTORY


def test_a_long_history_is_shown_without_its_middle_and_written_in_full(found):
    many = (Shown(ops.StepEnd(), None, None),) * (2 * LONG) + found.shown
    long = Counterexample(found.contract, found.manager, ("runs",), SETTING, many, found.said)
    told = long.lines()
    assert len(told) < LONG + 20
    assert any(f"{2 * LONG + 5 - LONG} operations, all of them in the file" in t for t in told)
    assert source(long, "tierproof fuzz").count("StepEnd()") == 2 * LONG + 1


def test_a_manager_that_does_not_do_it_again_is_said_not_to(mine):
    chosen = mine("Flaky")
    _, divergence = replay(chosen.factory, SETTING, HISTORY)
    assert divergence is not None
    shown = of_found(chosen, Found(SETTING, divergence, "runs"), ("runs",))
    assert not shown.again
    assert "did not do it again" in "\n".join(shown.lines())
    assert shown.shown[-1].got == "RETRY"


def test_holding_a_good_manager_to_a_history_raises_nothing():
    hold("tierproof", SETTING, HISTORY, "L1-answer-true")


def test_holding_a_broken_manager_to_a_history_tells_all_of_it(mine, found):
    with pytest.raises(AssertionError) as raised:
        hold("mine.py:Retry", SETTING, HISTORY, found.contract)
    assert str(raised.value).startswith(f"{found.contract} is broken by mine.py:Retry")
    with pytest.raises(AssertionError, match="written because L4-submitted-once was broken"):
        hold("mine.py:Retry", SETTING, HISTORY, "L4-submitted-once")


def pytest_of(file, cwd, **variables):
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(file)],
        cwd=cwd,
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        timeout=60,
    )


def test_the_file_fails_for_the_same_contract_and_passes_on_the_shipped_manager(found, tmp_path):
    (written,) = write_tests([found], tmp_path / "a" / "folder", "tierproof tour")
    failed = pytest_of(written.file, tmp_path)
    assert failed.returncode == 1, failed.stdout + failed.stderr
    assert f"AssertionError: {found.contract} is broken by mine.py:Retry" in failed.stdout
    assert "5. r0 looks up k0" in failed.stdout
    # a path in the name of the manager is also looked for above the file
    assert pytest_of(written.file, "/").returncode == 1
    passed = pytest_of(written.file, tmp_path, TIERPROOF_MANAGER="tierproof")
    assert passed.returncode == 0, passed.stdout


def test_the_file_imports_only_tierproof(found):
    text = source(found, "tierproof tour")
    imports = [line for line in text.splitlines() if line.startswith(("import", "from"))]
    assert imports
    assert all(line.startswith("from tierproof.") for line in imports)
    compile(text, "generated", "exec")


def test_each_manager_and_contract_has_a_file_of_its_own(found):
    assert name_of_test(found) == f"test_{found.contract.replace('-', '_')}_by_mine_Retry"


def test_a_folder_that_cannot_be_made_is_told(found, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="--counterexamples"):
        write_tests([found], tmp_path / "file", "tierproof tour")


@pytest.mark.parametrize("kind", ops.Operation.__subclasses__(), ids=lambda kind: kind.op)
def test_every_operation_can_be_said(kind):
    made = {
        "key": "k0", "request": "r0", "keys": ("k0", "k1"), "number": 3, "tier": "t0",
        "mind": "PRESENT", "mood": "refuse stores", "seconds": 30.0,
    }  # fmt: skip
    needed = [f for f in kind.__dataclass_fields__.values() if f.name in made]
    said = wording.say(kind(**{f.name: made[f.name] for f in needed}))
    assert said
    assert "<" not in said


def test_every_mind_and_mood_has_words():
    assert set(wording.MIND_WORDS) == set(ops.MINDS)
    assert set(wording.MOOD_WORDS) == set(ops.MOODS)


def test_a_setting_is_said_with_what_is_unusual_in_it():
    said = wording.say_setting(
        Setting(
            slots=1,
            tiers=(TierSetting("t0", undecided=("k0",), whole_request=True),),
            requests=(RequestSetting("r0", only=()), RequestSetting("r1", external_of="t0")),
            lease=None,
        )
    )
    assert said == (
        "1 slot; tier t0 has nothing and is undecided about k0 and wants whole requests; request "
        "r0 is live (it may load from no tier only); request r1 is live (tier t0 announced it for "
        "a peer); lease None"
    )


def test_answers_are_said_as_names_and_keys():
    operation = type("StoreOperation", (), {"keys": ("k0",), "slots": (1,)})()
    assert wording.say_value(operation) == "k0"
    assert wording.say_value((("k0",), (), ("k1",))) == "slots for k0, k1 refused"
    assert wording.say_value(("HIT", "MISS")) == "HIT, MISS"
    assert wording.say_value(None) == ""
    assert wording.plain({"a": {1}, "b": b"x"}) == {"a": [1], "b": "b'x'"}


def test_surroundings_that_do_not_matter_are_left_out(mine):
    chosen = mine("Retry")
    crowded = Setting(
        slots=4,
        keys=("k0", "k1", "k2"),
        tiers=(
            TierSetting("t0", has=("k1",), undecided=("k2",), whole_request=True),
            TierSetting("t1", has=("k0", "k1")),
        ),
        requests=(RequestSetting("r0", only=("t1",)), RequestSetting("r1")),
    )
    history = (ops.StepEnd(("r0",)), ops.Lookup("k0", "r0"))
    _, divergence = replay(chosen.factory, crowded, history)
    assert divergence is not None
    found = plainest(chosen.factory, Found(crowded, divergence, "tour"))
    assert found.history == (ops.StepEnd(), ops.Lookup("k0", "r0"))
    assert found.divergence.expected == "HIT_PENDING"
    assert found.setting == Setting(slots=1, tiers=(TierSetting("t1", has=("k0",)),))
