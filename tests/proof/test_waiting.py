"""The bound on waiting for tiers that do not make up their minds."""

from __future__ import annotations

import random

import pytest
import z3

from tierproof.model import operations as ops
from tierproof.model.operations import Setting, TierSetting
from tierproof.model.reference import apply, begin
from tierproof.properties import waiting_proof
from tierproof.properties.proof import about_time
from tierproof.properties.waiting_proof import Probe, ask


def test_every_theorem_about_probes_is_proved():
    verdicts = waiting_proof.prove()
    assert set(verdicts.values()) == {"proved"}, verdicts
    assert len(verdicts) == 5
    assert {v.contract for v in about_time()} == {"P1-progress"}


def test_no_theorem_about_probes_is_vacuous():
    for name, (assumed, _) in waiting_proof.theorems().items():
        solver = z3.Solver()
        solver.add(*assumed)
        assert solver.check() == z3.sat, name


def test_a_tier_that_gets_its_time_back_is_refuted(monkeypatch):
    def forgetful(before: Probe, gap: object, undecided: object, deadline: object) -> Probe:
        after = ask(before, gap, undecided, deadline)
        return Probe(after.waiting, z3.If(undecided, after.used, 0), after.over)

    monkeypatch.setattr(waiting_proof, "ask", forgetful)
    assert waiting_proof.prove()["no answer gives a tier its time back"] == "refuted"


@pytest.mark.parametrize("seed", range(20))
def test_the_arithmetic_is_what_the_model_does(seed):
    draw = random.Random(seed)
    state = begin(Setting(tiers=(TierSetting("t0"),), probe_deadline=5.0))
    probe = Probe(z3.BoolVal(False), z3.RealVal(0), z3.BoolVal(False))
    for _ in range(25):
        gap, undecided = draw.choice((0, 1, 2)), draw.random() < 0.6
        state = apply(state, ops.StepEnd()).state
        state = apply(state, ops.Advance(gap)).state
        mind = "UNDECIDED" if undecided else "ABSENT"
        state = apply(state, ops.Mind("t0", "k0", mind)).state
        out = apply(state, ops.Lookup("k0", "r0"))
        state = out.state
        after = ask(probe, z3.RealVal(gap), z3.BoolVal(undecided), z3.RealVal(5))
        probe = Probe(*(z3.simplify(term) for term in vars(after).values()))
        assert (out.answer == "RETRY") == z3.is_true(probe.waiting)
        assert (out.reason == "PROBE_TIMEOUT") == z3.is_true(probe.over)
