"""No contract is said to hold on a manager that was never brought to what it speaks of."""

import logging

import pytest

from tierproof import LookupResult
from tierproof.impl.arena import Arena
from tierproof.impl.errors import ContractViolation
from tierproof.model.operations import (
    Lookup,
    PrepareLoad,
    PrepareStore,
    Report,
    Setting,
    StepEnd,
    TierSetting,
)
from tierproof.model.rules import RULES
from tierproof.properties.checks import by_runs, by_tour
from tierproof.properties.contracts import CONTRACTS
from tierproof.properties.lockstep import Lockstep
from tierproof.properties.machine import fuzz
from tierproof.properties.managers import Chosen, shipped
from tierproof.properties.report import Report as Found
from tierproof.properties.situations import FACTS, SITUATIONS, not_reached


@pytest.fixture(autouse=True)
def _quiet(caplog):
    caplog.set_level(logging.CRITICAL, logger="tierproof")


class KeepsNothing:
    """Answers MISS to everything and takes no store: nothing ever happens to a block."""

    def __init__(self, *, slots, tiers, clock, block_bytes):
        self.tiers, self.arena = tiers, Arena(slots=slots, block_bytes=block_bytes)
        for tier in tiers:
            tier.attach(self.arena)

    def on_new_request(self, request_id, *, tier_filter=None):
        return request_id

    def lookup(self, key, request):
        return LookupResult.MISS

    def prepare_load(self, keys, request):
        raise ContractViolation("nothing is here")

    def complete_load(self, operation):
        raise ContractViolation("nothing was begun")

    def prepare_store(self, keys, request):
        return None

    def complete_store(self, operation, ok=True):
        raise ContractViolation("nothing was begun")

    def on_schedule_end(self, newly_scheduled=()):
        for tier in self.tiers:
            tier.poll()

    def on_request_finished(self, request):
        pass

    def has_pending_work(self):
        return False

    def take_events(self):
        return []


def test_every_contract_of_a_manager_names_its_situations():
    assert set(SITUATIONS) == set(CONTRACTS) - {"A2-ask-no-more"}
    assert all(SITUATIONS.values())


def test_every_mark_is_a_rule_of_the_table_or_a_fact():
    known = {rule.name for rule in RULES} | set(FACTS)
    for contract, situations in SITUATIONS.items():
        for situation in situations:
            assert situation.marks <= known, (contract, situation.marks - known)


def test_every_fact_is_a_mark_of_some_situation():
    marks = {m for several in SITUATIONS.values() for one in several for m in one.marks}
    assert set(FACTS) <= marks


@pytest.mark.parametrize("check", ["tour", "runs"])
def test_a_manager_that_always_answers_miss_is_not_said_to_keep_what_nothing_came_to(check):
    report = Found("verify", "KeepsNothing")
    chosen = Chosen("KeepsNothing", KeepsNothing, ours=False, lacks=("lookup_many", "external"))
    if check == "tour":
        by_tour(chosen, report)
    else:
        by_runs(chosen, report, examples=20, seed=3)
    verdicts = {r.contract: r.verdict for r in report.results}
    for contract in (
        "D1-bytes",
        "L6-hit-holds",
        "S3-pins",
        "L2-until-landed",
        "F1-partial-failure",
    ):
        assert verdicts[contract] == "not_reached", contract
    assert "violated" in verdicts.values()


def test_random_histories_come_to_every_situation():
    reached = fuzz(shipped, examples=200, seed=1).reached
    assert [c for c in SITUATIONS if not_reached(c, reached)] == []


SETTING = Setting(slots=1, tiers=(TierSetting("t0", has=("k0",)),))


@pytest.mark.parametrize(
    ("history", "contract", "says"),
    [
        ((), "L5-tiers-asked", "no tier was asked"),
        ((Lookup("k0", "r0"),), "L5-tiers-asked", ""),
        ((Lookup("k0", "r0"),), "L4-submitted-once", "no promotion was submitted"),
        ((Lookup("k0", "r0"), StepEnd()), "L4-submitted-once", ""),
        ((Lookup("k0", "r0"),), "W1-pending-work", "there was never nothing to do"),
        ((PrepareStore(("k0",), "r0"),), "W1-pending-work", "no work was ever pending"),
        (
            (Lookup("k0", "r0"), StepEnd(), Report(1, ()), Lookup("k0", "r0")),
            "F2-claim-retracted",
            "",
        ),
        (
            (Lookup("k0", "r0"), StepEnd(), Report(1, ("k0",)), PrepareLoad(("k0",), "r0")),
            "D1-bytes",
            "",
        ),
        (
            (Lookup("k0", "r0"), StepEnd(), Report(1, ("k0",)), PrepareLoad(("k0",), "r0")),
            "L3-until-read",
            "no request looked again at what it was promised",
        ),
    ],
)
def test_a_history_reaches_what_it_comes_to(history, contract, says):
    lockstep = Lockstep(shipped, SETTING)
    lockstep.run(history)
    assert not_reached(contract, lockstep.reached) == says
