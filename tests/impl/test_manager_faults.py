"""Tiers that raise, lie or fail: a failed call or job, and everything else goes on."""

from __future__ import annotations

import logging
from collections.abc import Callable
from types import SimpleNamespace

import pytest

from tierproof import ContractViolation, MissReason
from tierproof.impl.tiers.base import Claim, JobReport, Poll

from .support import HIT, HIT_PENDING, MISS, RETRY, Rig, ScriptedTier


def test_a_failed_load_is_not_started_again_from_the_same_tier():
    rig = Rig(tiers=2)
    request = rig.request()
    for tier in rig.tiers:
        tier.has("k")
    rig.lookup(request, "k")
    rig.step()
    rig.tiers[0].fail(rig.tiers[0].loads[0])
    assert rig.lookup(request, "k") == [HIT_PENDING], "the second tier has it as well"
    rig.step()
    rig.tiers[1].fail(rig.tiers[1].loads[0])
    for _ in range(5):
        assert rig.lookup(request, "k") == [MISS]
        rig.step()
    assert [len(tier.loads) for tier in rig.tiers] == [1, 1]
    assert rig.manager.explain("k", request).reason is MissReason.FAILED


def test_a_retracted_claim_counts_again_when_the_tier_has_verified_it():
    rig = Rig()
    request = rig.request()
    rig.tier.has("k")
    rig.lookup(request, "k")
    rig.step()
    rig.tier.fail(rig.tier.loads[0])
    assert rig.lookup(request, "k") == [MISS]
    rig.step()
    rig.tier.verify("k")
    assert rig.lookup(request, "k") == [HIT_PENDING]


def test_a_retracted_claim_counts_again_when_the_key_was_stored_there():
    rig = Rig()
    request = rig.request()
    rig.tier.has("k")
    rig.lookup(request, "k")
    rig.step()
    rig.tier.fail(rig.tier.loads[0])
    rig.notice()
    rig.store(request, "k")
    assert rig.probe.retracted() == {("tier0", "k")}
    rig.settle()
    assert rig.probe.retracted() == set()


def test_a_submit_that_raises_is_a_failed_job_and_the_other_jobs_of_the_step_go_on():
    rig = Rig(slots=12, tiers=2)
    rig.tiers[0].has("a", "b")
    rig.tiers[1].has("c")
    rig.tiers[0].raises["submit_load"] = OSError()
    one, other = rig.request("one"), rig.request("other")
    rig.lookup(one, "a", "c")
    rig.lookup(other, "b")
    rig.step()
    assert [len(tier.loads) for tier in rig.tiers] == [2, 1]
    assert rig.lookup(one, "a", "b", "c") == [MISS, MISS, HIT_PENDING]
    assert (rig.probe.free_slots(), rig.probe.permits_in_use()) == (11, 1)
    assert rig.manager.explain("a", one).reason is MissReason.FAILED


def test_a_tier_that_raises_when_asked_counts_as_a_miss_for_this_lookup():
    rig = Rig(tiers=2)
    rig.tiers[0].raises["lookup"] = OSError()
    request = rig.request()
    assert rig.lookup(request, "k") == [MISS]
    assert rig.manager.explain("k", request).reason is MissReason.TIER_ERROR
    rig.tiers[1].has("k")
    assert rig.lookup(request, "k") == [HIT_PENDING]


def test_an_undecided_tier_goes_before_one_that_raised():
    rig = Rig(tiers=2)
    rig.tiers[0].raises["lookup"] = OSError()
    rig.tiers[1].claims["k"] = Claim.UNDECIDED
    assert rig.lookup(rig.request(), "k") == [RETRY]


def test_a_poll_that_raises_says_nothing_this_time():
    rig = Rig(tiers=2)
    request = rig.request()
    for key, tier in zip("ab", rig.tiers, strict=True):
        tier.has(key)
    rig.lookup(request, "a", "b")
    rig.step()
    rig.tiers[0].raises["poll"] = OSError()
    for tier in rig.tiers:
        tier.done_all()
    assert rig.lookup(request, "a", "b") == [HIT_PENDING, HIT]
    rig.step()
    rig.tiers[0].raises.clear()
    assert rig.lookup(request, "a") == [HIT]


def test_answers_that_are_no_answers_count_as_failed_calls():
    class Nonsense(ScriptedTier):
        def lookup(self, key, request):
            return True

        def poll(self):
            return None

    rig = Rig(tiers=[Nonsense()])
    request = rig.request()
    assert rig.lookup(request, "k") == [MISS]
    assert rig.manager.explain("k", request).tiers == {"disk": "raised"}
    assert rig.manager.stats()['tierproof_errors_total{tier="disk"}'] == 3


def test_a_fault_is_logged_once_until_the_method_works_again(caplog):
    rig = Rig(slots=8)
    request = rig.request()
    error = OSError("/secret/key")
    with caplog.at_level(logging.WARNING, "tierproof"):
        for method in ("lookup", "poll", "submit_store"):
            for _ in range(2):
                rig.tier.raises[method] = error
                for _ in range(3):
                    rig.tier.done_all()
                    rig.lookup(request, "k")
                    rig.step()
                    rig.store(request, "s" + str(len(rig.tier.stores)) + method)
                rig.tier.raises.clear()
                rig.lookup(request, "k")
                rig.step()
                rig.step()
    lines = [record.getMessage() for record in caplog.records]
    assert [
        sum(f": {m} failed with OSError" in line for line in lines) for m in ("lookup", "poll")
    ] == [2, 2]
    assert len([line for line in lines if "submit_store" in line]) == 2
    assert not any("secret" in line for line in lines), "an error's text may carry a key"


@pytest.mark.parametrize(
    "report",
    [
        JobReport(99, frozenset()),
        JobReport(0, frozenset({"foreign"})),
        JobReport(0, frozenset({"a", "foreign"})),
    ],
    ids=["unknown job", "foreign key", "a foreign key among its own"],
)
def test_a_report_that_breaks_the_protocol_is_refused_as_a_whole_and_serving_goes_on(
    report, caplog
):
    rig = Rig()
    request = rig.request()
    rig.tier.has("a")
    rig.lookup(request, "a")
    rig.step()
    assert rig.tier.loads[0].job_id == 0
    rig.tier.report(report)
    with caplog.at_level(logging.ERROR, "tierproof"):
        assert rig.lookup(request, "a") == [HIT_PENDING]
    assert len(rig.manager.contract_violations) == 1
    assert rig.manager.stats()["tierproof_contract_violations_total"] == 1
    assert "'tier0' reported" in caplog.text
    rig.step()
    rig.tier.done_all()
    assert rig.lookup(request, "a") == [HIT]


def test_a_second_report_is_refused():
    rig = Rig(slots=8)
    request = rig.request()
    rig.promote(request, "a")
    rig.tier.report(JobReport(rig.tier.loads[0].job_id, frozenset()))
    rig.notice()
    assert rig.probe.resident_keys() == {"a"}
    rig.store(request, "b")
    job = rig.tier.stores[0]
    rig.tier.done(job)
    rig.tier.report(JobReport(job.job_id, frozenset({"b"})))
    rig.notice()
    assert (
        rig.manager.contract_violations
        == ["tier 'tier0' reported a job that is unknown or was reported before"] * 2
    )


def test_a_report_of_another_tiers_job_is_refused():
    rig = Rig(tiers=2)
    request = rig.request()
    rig.tiers[0].has("a")
    rig.lookup(request, "a")
    rig.step()
    rig.tiers[1].report(JobReport(rig.tiers[0].loads[0].job_id, frozenset({"a"})))
    assert rig.lookup(request, "a") == [HIT_PENDING]
    assert len(rig.manager.contract_violations) == 1


def test_only_the_first_hundred_violations_are_kept_but_all_are_counted():
    rig = Rig()
    for _ in range(150):
        rig.tier.report(JobReport(99, frozenset()))
    rig.notice()
    assert len(rig.manager.contract_violations) == 100
    assert rig.manager.stats()["tierproof_contract_violations_total"] == 150


@pytest.mark.parametrize("landed", [["b"], None, 7], ids=["list", "None", "number"])
def test_a_report_that_is_no_report_is_refused(landed):
    rig = Rig()
    request = rig.request()
    rig.tier.has("b")
    rig.lookup(request, "b")
    rig.step()
    rig.tier.report(JobReport(0, landed))
    rig.tier.report("done")  # type: ignore[arg-type]
    rig.notice()
    assert len(rig.manager.contract_violations) == 2
    rig.tier.done_all()
    assert rig.lookup(request, "b") == [HIT]


@pytest.mark.parametrize(
    "report",
    [
        SimpleNamespace(job_id=0, landed=frozenset("b"), seconds=1.0),
        SimpleNamespace(job_id="0", landed=frozenset("b"), seconds=1.0),
        SimpleNamespace(seconds=1.0),
        JobReport([0], frozenset("b")),  # type: ignore[arg-type]
        JobReport(0, frozenset("b"), seconds="soon"),  # type: ignore[arg-type]
        JobReport(0, frozenset("b"), seconds=None),  # type: ignore[arg-type]
    ],
    ids=lambda report: type(report).__name__,
)
def test_what_only_looks_like_a_report_is_refused(report):
    rig = Rig()
    request = rig.request()
    rig.tier.has("b")
    rig.lookup(request, "b")
    rig.step()
    rig.tier.report(report)
    rig.notice()
    assert len(rig.manager.contract_violations) == 1
    assert rig.probe.phase("b") == "LOADING"


def test_every_call_of_a_tier_may_raise_and_the_manager_serves_on():
    methods = ("lookup", "submit_load", "submit_store", "poll", "on_new_request")
    broken = ScriptedTier("broken")
    rig = Rig(slots=8, tiers=[broken, ScriptedTier("good")])
    for method in (*methods, "on_request_finished", "clear", "drain"):
        broken.raises[method] = RuntimeError()
    for number in range(3):
        request = rig.request()
        rig.tiers[1].has(f"k{number}")
        assert rig.lookup(request, f"k{number}") == [HIT_PENDING]
        rig.store(request, f"s{number}")
        rig.step()
        rig.tiers[1].done_all()
        assert rig.lookup(request, f"k{number}", f"s{number}") == [HIT, HIT]
        rig.load(request, f"k{number}")
        rig.manager.on_request_finished(request)
        rig.step()
    rig.manager.reset_cache("all")
    assert rig.manager.drain(0.0) == []
    rig.probe.check()


def test_an_exception_that_is_not_an_error_goes_through():
    rig = Rig()
    rig.tier.raises["lookup"] = KeyboardInterrupt()  # type: ignore[assignment]
    with pytest.raises(KeyboardInterrupt):
        rig.lookup(rig.request(), "k")


def test_an_error_changes_nothing():
    rig = Rig(slots=8)
    request = rig.request()
    rig.promote(request, "a")
    operation = rig.begin_store(request, "b")
    before = rig.probe.fingerprint()
    manager = rig.manager
    for call in (
        lambda: manager.prepare_load(["a", "b"], request),
        lambda: manager.prepare_load(["a", "a"], request),
        lambda: manager.prepare_store(["z", "z"], request),
        lambda: manager.complete_load(77),
        lambda: manager.complete_store(77),
        lambda: manager.complete_load(operation.operation_id),
        lambda: manager.reset_cache(["tape"]),
        lambda: manager.on_schedule_end([request, Rig().request()]),
        lambda: manager.on_new_request("S", tier_filter=["tape"]),
    ):
        with pytest.raises(ContractViolation):
            call()
        assert rig.probe.fingerprint() == before
    rig.probe.check()


def test_verified_keys_that_are_nonsense_do_not_cost_the_reports_beside_them():
    class Nonsense(ScriptedTier):
        def poll(self):
            poll = super().poll()
            return Poll(poll.reports, [[1]]) if poll.reports else poll  # type: ignore[list-item]

    rig = Rig(tiers=[Nonsense()])
    request = rig.request()
    rig.promote(request, "k")
    assert rig.lookup(request, "k") == [HIT], "the report beside the nonsense counts"


def test_a_peer_that_is_sent_nothing_costs_no_job():
    rig = Rig(slots=12)
    handle = rig.manager.external(rig.tier.name)
    assert handle.send([], handle.on_new_request("peer")) is None
    assert rig.tier.stores == []


def calls_that_may_fail(rig: Rig) -> dict[str, Callable[[int], object]]:
    """What makes the manager call a method of a tier, the n-th time."""
    request = rig.request()

    def load(number: int) -> None:
        rig.tier.has(f"k{number}")
        rig.lookup(request, f"k{number}")
        rig.step()
        rig.settle()

    return {
        "lookup": lambda number: rig.lookup(request, f"absent{number}"),
        "poll": lambda number: rig.notice(),
        "submit_load": load,
        "submit_store": lambda number: rig.store(request, f"s{number}"),
        "on_new_request": lambda number: rig.request(f"r{number}"),
    }


@pytest.mark.parametrize(
    "method", ["lookup", "poll", "submit_load", "submit_store", "on_new_request"]
)
def test_a_method_that_fails_is_complained_of_once_until_it_has_worked(method, caplog):
    rig = Rig(slots=16, reoffers=0)
    call = calls_that_may_fail(rig)[method]
    for number, broken in enumerate([True, True, False, False, True, True]):
        rig.tier.raises = {method: OSError()} if broken else {}
        call(number)
    assert caplog.text.count(f"{method} failed with OSError") == 2


def test_a_batch_of_questions_that_fails_is_complained_of_once_until_it_has_worked(caplog):
    class ManyAtOnce(ScriptedTier):
        def lookup_many(self, keys, request):
            self._maybe_raise("lookup_many")
            return [self.lookup(key, request) for key in keys]

    rig = Rig(tiers=[ManyAtOnce()])
    request = rig.request()
    for number, broken in enumerate([True, True, False, False, True, True]):
        rig.tier.raises = {"lookup_many": OSError()} if broken else {}
        rig.manager.exists([f"k{number}"], request)
    assert caplog.text.count("lookup_many failed with OSError") == 2


@pytest.mark.parametrize("nothing", [None, 0, False])
def test_a_poll_that_says_nothing_in_a_way_of_its_own_stops_nobody(nothing):
    rig = Rig()
    rig.tier.poll = lambda: Poll(nothing, ())  # type: ignore[method-assign]
    request = rig.request()
    assert rig.lookup(request, "k") == [MISS]
    assert rig.manager._secondaries[0].totals.errors == 1
