"""The contract of a tier, kept by files in ways of their own; `test_both_layouts` has the rest."""

from __future__ import annotations

import errno
import os
import time
from pathlib import Path

from tierproof.impl.tiers.base import Claim

from .support import (
    PATIENCE,
    Faults,
    Gate,
    block_files,
    eventually,
    failing,
    file_rig,
)

KEYS = [b"k%d" % number for number in range(1, 6)]


# --- T1 ---


def test_t1_a_lookup_is_answered_from_memory(tmp_path: Path) -> None:
    io = Faults()
    with file_rig(tmp_path, shared=False, io=io) as rig:
        rig.store(*KEYS)
        assert rig.decide(b"unknown") is Claim.ABSENT
        io.calls.clear()
        assert [rig.ask(key) for key in (*KEYS, b"none")] == [Claim.PRESENT] * 5 + [Claim.ABSENT]
        assert io.calls == []


# --- T4, T5: when a claim appears and disappears ---


def test_t4_a_store_is_found_after_its_report_and_never_before(tmp_path: Path) -> None:
    gate = Gate()
    io = Faults()
    with file_rig(tmp_path, io=io, absent_seconds=1000) as rig:
        assert rig.decide(KEYS[0]) is Claim.ABSENT, "an absent is cached for long"
        io.faults["utime"] = gate
        job = rig.begin_store(KEYS[:1])
        assert gate.reached.wait(PATIENCE)
        assert rig.ask(KEYS[0]) is Claim.ABSENT
        gate.open.set()
        eventually(lambda: block_files(tmp_path), "the file")
        for _ in range(200):
            assert rig.ask(KEYS[0]) is Claim.ABSENT, "claimed before the store was reported"
        rig.report(job)
        assert rig.ask(KEYS[0]) is Claim.PRESENT, "the cached absent outlived the own store"


def test_t5_an_answer_to_an_older_question_is_dropped(tmp_path: Path) -> None:
    gate = Gate(lambda path, flags: path.endswith(".block") and not flags & os.O_DIRECT)
    io = Faults()
    with file_rig(tmp_path, io=io, threads=2, absent_seconds=1000) as rig:
        rig.decide(b"warm up")
        io.faults["open"] = gate
        assert rig.ask(KEYS[0]) is Claim.UNDECIDED
        assert gate.reached.wait(PATIENCE)
        io.faults["open"] = lambda *_: None  # the question is stuck; the store passes
        assert rig.store(KEYS[0]) == {KEYS[0]}
        assert rig.ask(KEYS[0]) is Claim.PRESENT
        gate.open.set()
        time.sleep(0.02)
        assert rig.ask(KEYS[0]) is Claim.PRESENT, "an old answer undid a newer verdict"


def test_t5_verification_is_tried_a_few_times_and_a_new_store_ends_the_suspicion(
    tmp_path: Path,
) -> None:
    now = [0.0]
    io = Faults()
    with file_rig(tmp_path, io=io, clock=lambda: now[0]) as rig:
        rig.store(KEYS[0])
        io.faults["preadv"] = failing(errno.EIO)
        assert rig.load(KEYS[0]) == frozenset()
        for _ in range(10):
            now[0] += 100
            rig.poll()
            time.sleep(0.01)
        reads = io.calls.count("preadv")
        now[0] += 1000
        rig.poll()
        time.sleep(0.02)
        assert io.calls.count("preadv") == reads <= 5, "it reads a bad file for ever"
        del io.faults["preadv"]
        assert rig.decide(KEYS[0]) is Claim.ABSENT
        assert rig.store(KEYS[0]) == {KEYS[0]}
        assert rig.tier.counters["already_stored"] == 0, "a suspect file must be written anew"
        assert rig.decide(KEYS[0]) is Claim.PRESENT


def test_t5_a_failed_store_withdraws_an_older_claim_until_it_is_looked_at(tmp_path: Path) -> None:
    now = [0.0]
    gate = Gate()
    io = Faults()
    with file_rig(tmp_path, io=io, threads=1, io_deadline=5, clock=lambda: now[0]) as rig:
        rig.store(KEYS[0])
        io.faults["pwritev"] = gate
        rig.begin_store([KEYS[1]])
        assert gate.reached.wait(PATIENCE)
        again = rig.begin_store([KEYS[0]])
        assert rig.ask(KEYS[0]) is Claim.PRESENT
        now[0] += 6
        assert rig.report(again).landed == frozenset()
        assert rig.ask(KEYS[0]) is Claim.UNDECIDED
        gate.open.set()
        assert rig.decide(KEYS[0]) is Claim.PRESENT
