"""A release's manager behind the protocol of managers under test: every release, the same calls."""

import json
import subprocess
import sys

import pytest

from tierproof.model.operations import (
    CompleteLoad,
    CompleteStore,
    Finish,
    Lookup,
    PrepareLoad,
    PrepareStore,
    Report,
    Reset,
    Setting,
    StepEnd,
    TierSetting,
)
from tierproof.properties.cli import main
from tierproof.properties.managers import UsageError, resolve
from tierproof.properties.watch import Watch

TWO_TIERS = Setting(
    slots=2, keys=("k0", "k1"), tiers=(TierSetting("t0", has=("k0",)), TierSetting("t1"))
)
LIFE = (
    Lookup("k0", "r0"),
    StepEnd(),
    Report(1, ("k0",)),
    Lookup("k0", "r0"),
    PrepareLoad(("k0",), "r0"),
    PrepareStore(("k1",), "r0"),
    StepEnd(),
    CompleteLoad(1),
    CompleteStore(2),
    Report(2, ("k1",)),
    Report(3, ("k1",)),
    StepEnd(),
    Finish("r0"),
    StepEnd(),
)


def in_a_process(code):
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_block_is_promoted_read_stored_and_copied_in_every_release(release):
    told = in_a_process(f"""
import json
from tests.releases.test_manager import LIFE, TWO_TIERS
from tierproof.properties.vllm_manager import factory
from tierproof.properties.watch import Watch
watch = Watch(factory({release!r}), TWO_TIERS)
broken = watch.run(LIFE)
jobs = [(j.kind, j.tier, j.keys) for j in watch.facts.jobs.values()]
print(json.dumps([broken, [said for _, said in watch.shown], jobs, sorted(watch.facts.resident)]))
""")
    broken, shown, jobs, resident = json.loads(told)
    retries = release in ("0.25.1", "0.27.1")
    assert [contract for contract, _ in broken] == ["L1-answer-true"] * retries
    assert shown[0] == ("RETRY" if retries else "HIT_PENDING")
    assert shown[3] == "HIT"
    assert jobs == [["LOAD", "t0", ["k0"]], ["STORE", "t0", ["k1"]], ["STORE", "t1", ["k1"]]]
    assert resident == ["k0", "k1"]


def watched(version):
    return Watch(resolve(f"vllm:{version}").factory, TWO_TIERS)


def test_what_its_interface_cannot_say_is_not_observable(pinned):
    chosen = resolve(f"vllm:{pinned}")
    assert chosen.watched
    assert set(chosen.inexpressible) == {"S4-operations"}
    assert {"lookup_many", "exists", "plan_load", "withdraw"} <= set(chosen.lacks)
    assert {"slot_of", "pins", "free_slots", "fingerprint"} <= set(chosen.probes)


def test_a_completion_from_before_a_reset_is_not_passed_on(pinned):
    watch = watched(pinned)
    history = (PrepareStore(("k1",), "r0"), StepEnd(), Reset(), CompleteStore(1))
    assert watch.run(history) == []
    assert watch.driver.probe.resident_keys() == []


def test_the_arena_is_the_memory_that_its_tiers_see(pinned):
    watch = watched(pinned)
    watch.run(LIFE[:4])
    view = watch.driver.manager.primary.get_kv_memoryview()
    slot = watch.driver.probe.slot_of("k0")
    assert bytes(view)[slot * 64 : slot * 64 + 4] == b"<k0>"


def test_two_states_with_one_fingerprint_hold_the_same_blocks(pinned):
    one, other = watched(pinned), watched(pinned)
    one.run(LIFE[:4])
    other.run(LIFE[:3])
    assert one.driver.probe.fingerprint() != other.driver.probe.fingerprint()
    other.run(LIFE[3:4])
    assert one.driver.probe.fingerprint() == other.driver.probe.fingerprint()


def test_a_release_that_was_not_fetched_is_told_with_the_command(monkeypatch, tmp_path, capsys):
    monkeypatch.setenv("TIERPROOF_CACHE", str(tmp_path))
    with pytest.raises(UsageError, match=r"tierproof fetch-vllm 0\.1\.0"):
        resolve("vllm:0.1.0")
    assert main(["tour", "--manager", "vllm:latest"]) == 2
    assert "'latest' is not the version of a vLLM release" in capsys.readouterr().err
    assert main(["fetch-vllm", "0.33"]) == 2, "pip would fetch 0.33.0, and keep it as another"
    assert "'0.33' is not the version of a vLLM release" in capsys.readouterr().err
