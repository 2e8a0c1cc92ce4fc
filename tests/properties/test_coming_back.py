"""A place in a history is come back to with a fresh manager; what was found there travels."""

import pickle
from dataclasses import replace

import pytest

from tierproof.model import operations as ops
from tierproof.model.operations import Setting, TierSetting
from tierproof.properties.faults import HARMLESS
from tierproof.properties.lockstep import Divergence, Lockstep
from tierproof.properties.managers import shipped

from .wrong_managers import (
    FAILS,
    HAS,
    K0,
    answers,
    ask,
    lands,
    read,
    step,
)

LONG = (
    ask,
    ops.PrepareStore(("k1",), "r0"),
    ops.CompleteStore(1),
    step,
    ops.Report(3, K0),
    ask,
    read,
)
THEN = (ops.CompleteLoad(4), ops.Report(2, ("k1",)), ops.Finish("r0"), step, step)


def test_a_saved_place_is_come_back_to_and_gone_on_from():
    setting = replace(HAS, slots=8)
    first = Lockstep(shipped, setting)
    first.run(LONG)
    saved = first.save()
    again = Lockstep.resume(shipped, setting, saved)
    assert again.state is first.state
    assert (again.history, again.shown, again.numbers) == (
        first.history,
        first.shown,
        first.numbers,
    )
    assert again.driver.probe.fingerprint() == first.driver.probe.fingerprint()
    for op in THEN:
        assert again.do(op).answer == first.do(op).answer
    assert again.state.canonical() == first.state.canonical()
    assert again.driver.probe.fingerprint() == first.driver.probe.fingerprint()
    assert again.replayed == first.replayed == {"k0", "k1"}


def test_a_place_does_not_move_when_somebody_goes_on_from_it():
    first = Lockstep(shipped, HAS)
    first.run((ask, step))
    saved = first.save()
    first.run((lands, ask))
    for _ in range(2):
        again = Lockstep.resume(shipped, HAS, saved)
        assert again.history == [ask, step]
        again.run((FAILS, ask))


def test_a_divergence_after_coming_back_tells_the_whole_history():
    faulty = answers(n2="MISS")
    first = Lockstep(faulty, HAS)
    first.run((ask, step))
    again = Lockstep.resume(faulty, HAS, first.save())
    with pytest.raises(Divergence) as raised:
        again.run((lands, ask))
    assert raised.value.history == (ask, step, lands, ask)
    assert [op for op, _, _ in raised.value.shown] == [ask, step, lands, ask]


def test_what_has_come_about_is_noted_only_while_both_agree():
    lockstep = Lockstep(shipped, HAS)
    lockstep.run((ask, ask, step))
    assert {"promote", "promised", "submitted", "a tier was asked"} <= lockstep.reached
    wrong = Lockstep(answers(n1="RETRY"), HAS)
    with pytest.raises(Divergence):
        wrong.do(ask)
    assert wrong.reached == set()


def test_a_poll_in_a_call_that_is_refused_is_allowed():
    factory = HARMLESS["polls_early"].factory
    setting = Setting(1, ("k0", "k1"), (TierSetting("t0", ("k0",)),))
    history = (
        ops.Lookup("k0", "r0"),
        ops.StepEnd(),
        ops.Lookup("k0", "r0"),
        ops.Report(1, ("k0",)),
        ops.PrepareLoad(("k1",), "r0"),  # refused, and k0 has landed in it
        ops.Lookup("k0", "r0"),
    )
    Lockstep(factory, setting).run(history)


def test_what_a_foreign_manager_answered_travels_as_it_is_printed():
    class Odd:
        def __str__(self):
            return "an odd thing"

    found = Divergence("L1-answer-true", "said", expected=("HIT", [1, None]), got=Odd())
    again = pickle.loads(pickle.dumps(found))
    assert (again.expected, again.got) == (("HIT", (1, None)), "an odd thing")
