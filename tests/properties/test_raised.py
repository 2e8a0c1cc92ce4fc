"""A mistake in a manager's own code is named, whichever contract is broken by it."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from tierproof.model.operations import Lookup, Setting, TierSetting
from tierproof.properties.counterexamples import of_found
from tierproof.properties.found import Found
from tierproof.properties.lockstep import Divergence, Lockstep
from tierproof.properties.managers import resolve
from tierproof.properties.raised import caught
from tierproof.properties.watch_tour import Result, Seen, broken_by
from tierproof.properties.watched import as_found, counterexample

FOLDER = Path(__file__).parents[1] / "sample_repository"
SAMPLE = (FOLDER / "small_manager.py").read_text()
SETTING = Setting(tiers=(TierSetting("t0", has=("k0",)),))
HISTORY = (Lookup("k0", "r0"),)
ASKS = "claim = tier.lookup(key, request.info)"
SMALL = "class SmallManager:"


def changed(tmp_path, right, wrong, *, watched=False):
    """The sample's manager with one thing written wrongly."""
    assert right in SAMPLE
    text = SAMPLE.replace(right, wrong)
    if watched:
        text = text.replace(SMALL, f"{SMALL}\n    judged_by_what_is_seen = True")
    (tmp_path / "mine.py").write_text(text)
    shutil.copy(FOLDER / "small_blocks.py", tmp_path)
    line = next(n for n, said in enumerate(text.splitlines(), 1) if wrong in said)
    return resolve(f"{tmp_path / 'mine.py'}:SmallManager"), f"(mine.py, line {line})"


def by_lockstep(chosen):
    with pytest.raises(Divergence) as diverged:
        Lockstep(chosen.factory, SETTING).run(HISTORY)
    return of_found(chosen, Found(SETTING, diverged.value, "tour"), ["tour"])


def by_what_is_seen(chosen):
    ((contract, (_, said)),) = broken_by(chosen.factory, SETTING, HISTORY).items()
    seen = Seen(contract, said, SETTING, HISTORY, "tour")
    (found,) = as_found(Result(found={contract: seen}))
    return counterexample(chosen, found, ["tour"])


WAYS = pytest.mark.parametrize(
    ("watched", "find"), [(False, by_lockstep), (True, by_what_is_seen)], ids=["lockstep", "seen"]
)


@WAYS
def test_what_the_manager_catches_itself_is_named_before_the_contract(tmp_path, watched, find):
    chosen, place = changed(
        tmp_path, ASKS, "claim = tier.lookup(key, request.inf)", watched=watched
    )
    found = find(chosen)
    said = f"_ask raised AttributeError: 'Request' object has no attribute 'inf' {place}"
    assert found.raised == (said,)
    assert " ".join(" ".join(found.lines()[1:3]).split()).startswith(f"On the way {said}.")
    assert found.as_json()[0]["raised"] == [said]


@WAYS
def test_what_leaves_a_call_is_said_with_its_place(tmp_path, watched, find):
    wrong = "claim = request.inf"
    _, place = changed(tmp_path, ASKS, wrong, watched=watched)
    text = (
        (tmp_path / "mine.py")
        .read_text()
        .replace(
            "except Exception:\n                claim", ("except KeyError:\n                claim")
        )
    )
    (tmp_path / "mine.py").write_text(text)
    shutil.copy(FOLDER / "small_blocks.py", tmp_path)
    found = find(resolve(f"{tmp_path / 'mine.py'}:SmallManager"))
    said = f"raised AttributeError: 'Request' object has no attribute 'inf' {place}"
    assert found.said.startswith(f"lookup {said}")
    assert found.raised == (f"_ask {said}",)


def test_our_own_manager_is_not_traced():
    chosen = resolve("retry_on_promotion")
    assert by_lockstep(chosen).raised == ()


def test_exceptions_that_programs_live_by_are_not_named():
    namespace: dict[str, Any] = {"__name__": "somebody"}
    exec("def get(d):\n try:\n  return d['k']\n except KeyError:\n  return None\n", namespace)
    with caught() as found:
        assert namespace["get"]({}) is None
    assert found == []
