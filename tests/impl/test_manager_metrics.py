"""Numbers: derived from one place, counted once, and never in the way of serving."""

from __future__ import annotations

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from tierproof import TieredOffloadingManager
from tierproof.impl.config import ManagerConfig
from tierproof.impl.tiers.base import Claim

from .support import HIT, HIT_PENDING, MISS, RETRY, Rig, ScriptedTier


def asynchronous(rig: Rig) -> tuple[float, float]:
    """How many asynchronous delays were counted, and their sum."""
    stats = rig.manager.stats()
    name = "tierproof_lookup_async_delay_seconds"
    return stats[f"{name}_count"], stats[f"{name}_sum"]


def synchronous(rig: Rig) -> float:
    """How many synchronous delays were counted."""
    return rig.manager.stats()["tierproof_lookup_sync_delay_seconds_count"]


def test_a_lookup_that_starts_a_promotion_is_not_counted_as_an_asynchronous_delay():
    rig = Rig(count_lookups=True)
    rig.tier.has("k")
    request = rig.request()
    for _ in range(5):
        assert rig.lookup(request, "k") == [HIT_PENDING]
        rig.step()
        rig.now += 1.0
    rig.tier.done_all()
    assert rig.lookup(request, "k") == [HIT]
    assert (asynchronous(rig), synchronous(rig)) == ((0.0, 0.0), 1.0)


def test_a_deferred_lookup_that_resolves_is_counted_as_an_asynchronous_delay_once():
    rig = Rig(count_lookups=True)
    rig.tier.claims["k"] = Claim.UNDECIDED
    request = rig.request()
    for _ in range(3):
        assert rig.lookup(request, "k") == [RETRY]
        rig.step()
        rig.now += 1.0
    rig.tier.has("k")
    for _ in range(3):
        assert rig.lookup(request, "k") == [HIT_PENDING]
        rig.step()
        rig.now += 1.0
    assert (asynchronous(rig), synchronous(rig)) == ((1.0, 3.0), 0.0)


def test_answers_are_counted_once_for_each_request_and_key():
    rig = Rig(slots=8, count_lookups=True)
    one, other = rig.request("one"), rig.request("other")
    rig.store(one, "stored")
    rig.tier.has("promoted")
    for _ in range(4):
        assert rig.lookup(one, "stored", "promoted", "absent") == [HIT, HIT_PENDING, MISS]
        assert rig.manager.lookup_many(["stored", "stored"], other) == [HIT, HIT]
        rig.step()
    stats = rig.manager.stats()
    assert stats["tierproof_lookup_queries_total"] == 4
    assert stats["tierproof_lookup_hits_total"] == 3
    assert stats['tierproof_lookup_misses_total{reason="ABSENT"}'] == 1
    assert stats['tierproof_tier_queries_total{tier="tier0"}'] == 2
    assert stats['tierproof_tier_hits_total{tier="tier0"}'] == 1


def test_nothing_is_counted_after_the_request_was_scheduled():
    rig = Rig(slots=8, count_lookups=True)
    request = rig.request()
    rig.tier.claims["deferred"] = Claim.UNDECIDED
    rig.lookup(request, "a", "deferred")
    rig.step(request)
    rig.lookup(request, "a", "b", "deferred")
    stats = rig.manager.stats()
    assert stats["tierproof_lookup_queries_total"] == 2
    assert stats["tierproof_lookup_undecided_total"] == 1
    assert stats['tierproof_tier_queries_total{tier="tier0"}'] == 1
    rig.manager.on_request_finished(request)
    assert rig.manager.stats()["tierproof_lookup_undecided_total"] == 1


def test_a_request_that_ends_while_a_tier_is_undecided_is_counted_as_what_it_was():
    rig = Rig(count_lookups=True)
    rig.tier.claims["k"] = Claim.UNDECIDED
    request = rig.request()
    rig.lookup(request, "k")
    rig.manager.on_request_finished(request)
    stats = rig.manager.stats()
    assert (stats["tierproof_lookup_queries_total"], stats["tierproof_lookup_hits_total"]) == (1, 0)
    assert stats["tierproof_lookup_undecided_total"] == 1


def test_lookups_are_not_counted_unless_somebody_wants_the_numbers():
    rig = Rig()
    request = rig.request()
    rig.lookup(request, "k")
    assert request.seen is None
    assert "tierproof_lookup_queries_total" not in rig.manager.stats()


def test_jobs_blocks_and_failures_are_counted_for_each_tier():
    rig = Rig(slots=8, tiers=2)
    rig.now = 1000.0
    rig.notice()
    request = rig.request()
    rig.tier.has("a", "b")
    rig.lookup(request, "a", "b")
    rig.step()
    rig.now = 1002.0
    rig.tier.done(rig.tier.loads[0], ["a"], seconds=0.25)
    rig.lookup(request, "a")
    rig.load(request, "a")
    rig.store(request, "x")
    rig.manager.complete_store(rig.begin_store(request, "y"), ok=False)
    rig.tiers[1].fail(rig.tiers[1].stores[0])
    rig.tier.done(rig.tier.stores[0], seconds=-1.0)
    rig.notice()
    stats = rig.manager.stats()
    expected = {
        'load_jobs_total{tier="tier0"}': 1,
        'load_job_failures_total{tier="tier0"}': 1,
        'loaded_blocks_total{tier="tier0"}': 1,
        'load_block_failures_total{tier="tier0"}': 1,
        'load_seconds_total{tier="tier0"}': 0.25,
        'promotion_seconds_count{tier="tier0"}': 1,
        'promotion_seconds_sum{tier="tier0"}': 2.0,
        'promotion_seconds_bucket{tier="tier0",le="1.0"}': 0,
        'promotion_seconds_bucket{tier="tier0",le="5.0"}': 1,
        'store_jobs_total{tier="tier0"}': 1,
        'stored_blocks_total{tier="tier0"}': 1,
        'store_seconds_total{tier="tier0"}': 0.0,
        'store_jobs_total{tier="tier1"}': 2,
        'store_job_failures_total{tier="tier1"}': 1,
        'store_block_failures_total{tier="tier1"}': 1,
        "gpu_stored_blocks_total": 1,
        "gpu_store_block_failures_total": 1,
        "gpu_loaded_blocks_total": 1,
        "slots": 8,
        "free_slots": 6,
    }
    assert {name: stats[f"tierproof_{name}"] for name in expected} == expected


def test_a_registry_finds_every_metric_and_turns_the_counting_of_lookups_on():
    registry = CollectorRegistry()
    manager = TieredOffloadingManager(
        slots=2, block_bytes=8, tiers=[ScriptedTier()], registry=registry
    )
    request = manager.on_new_request("R")
    manager.lookup("k", request)
    text = generate_latest(registry).decode()
    assert 'tierproof_tier_queries_total{tier="disk"} 1.0' in text
    assert "tierproof_lookup_queries_total 1.0" in text
    assert "vllm" not in text


def test_the_names_that_vllm_users_graph_can_be_switched_on():
    rig = Rig(slots=8, vllm_metric_names=True, count_lookups=True)
    request = rig.request()
    rig.promote(request, "a", "b")
    rig.tier.has("c")
    rig.lookup(request, "a", "c")
    rig.store(request, "x")
    rig.step()
    stats = rig.manager.stats()
    prefix = "vllm:kv_offload_tiering_"
    tier = '{tier="tier0"}'
    expected = {
        f"chunk_queries_total{tier}": 3,
        f"chunk_hits_total{tier}": 3,
        f"promotion_job_failures_total{tier}": 0,
        f"cascade_job_failures_total{tier}": 0,
        "promotion_allocation_failures_total": 0,
        f"active_promotion_jobs{tier}": 1,
        f"active_cascade_jobs{tier}": 1,
        f"promotion_latency_seconds_count{tier}": 1,
        "lookup_sync_delay_seconds_count": 3,
        "lookup_async_delay_seconds_count": 0,
        f"read_bytes_total{tier}": 64,
        f"read_time_total{tier}": 0,
        f"write_bytes_total{tier}": 0,
        f"write_time_total{tier}": 0,
        f"primary_write_usage_perc{tier}": 1 / 8,
        f"primary_read_usage_perc{tier}": 1 / 8,
    }
    assert {name: stats[prefix + name] for name in expected} == expected
    rig = Rig(vllm_metric_names=True)
    assert prefix + f"chunk_queries_total{tier}" not in rig.manager.stats()


def test_a_promotion_that_finds_no_room_is_counted_once():
    rig = Rig(slots=2, vllm_metric_names=True, count_lookups=True)
    request = rig.request()
    rig.begin_store(request, "x", "y")
    rig.tier.has("k")
    for _ in range(3):
        assert rig.lookup(request, "k") == [MISS]
        rig.step()
    name = "vllm:kv_offload_tiering_promotion_allocation_failures_total"
    assert rig.manager.stats()[name] == 1


def test_a_registry_that_will_not_have_the_metrics_does_not_stop_serving(caplog):
    class Refusing(CollectorRegistry):
        def register(self, collector):
            raise ValueError("Duplicated timeseries")

    manager = TieredOffloadingManager(slots=2, block_bytes=8, registry=Refusing())
    assert manager.lookup("k", manager.on_new_request("R")) is MISS
    assert "metrics are not exported: ValueError" in caplog.text


def test_a_fault_in_counting_does_not_change_an_answer_and_is_told_once(caplog, monkeypatch):
    rig = Rig(count_lookups=True)
    counted = rig.manager._counted
    assert counted is not None

    def broken(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(counted, "record", broken)
    request = rig.request()
    rig.tier.has("k")
    assert rig.lookup(request, "k", "absent", "absent") == [HIT_PENDING, MISS, MISS]
    rig.store(request, "x")
    assert rig.lookup(request, "x") == [HIT]
    assert caplog.text.count("lookups are not counted: ZeroDivisionError") == 1


@pytest.mark.parametrize("counted", [True, False])
def test_counting_changes_no_answer(counted):
    rig = Rig(slots=6, count_lookups=counted)
    request, other = rig.request(), rig.request("other")
    rig.tier.has("p")
    rig.tier.claims["u"] = Claim.UNDECIDED
    rig.store(request, "s")
    for asker in (request, other, request):
        assert rig.manager.lookup_many(["s", "p", "u", "a"], asker) == [
            HIT,
            HIT_PENDING,
            RETRY,
            MISS,
        ]
        assert rig.lookup(asker, "s", "p", "u", "a") == [HIT, HIT_PENDING, RETRY, MISS]
    rig.probe.check()


def test_counters_never_fall():
    rig = Rig(slots=4, count_lookups=True)
    before: dict[str, float] = {}
    for number in range(30):
        request = rig.request()
        rig.tier.has(f"k{number}")
        rig.lookup(request, f"k{number}", "x")
        operation = rig.manager.prepare_store([f"s{number}"], request)
        if operation is not None:
            rig.manager.complete_store(operation, ok=number % 3 != 0)
        rig.tier.done_all()
        rig.step()
        if number % 10 == 9:
            rig.manager.reset_cache()
            rig.manager.on_reset_flushed()
        rig.manager.on_request_finished(request)
        stats = rig.manager.stats()
        assert all(
            stats[name] >= value
            for name, value in before.items()
            if name.split("{")[0].endswith(("_total", "_count", "_sum", "_bucket"))
        )
        before = stats


def test_a_manager_without_metrics_needs_no_registry():
    config = ManagerConfig(events=False)
    manager = TieredOffloadingManager(slots=2, block_bytes=8, config=config)
    assert manager.stats()["tierproof_slots"] == 2


def test_a_miss_is_counted_under_its_reason():
    rig = Rig(count_lookups=True, probe_deadline=5.0)
    first, second = rig.request("first"), rig.request("second")
    rig.tier.has("lost")
    rig.lookup(first, "lost")
    rig.step()
    rig.tier.fail(rig.tier.loads[0])
    rig.notice()
    assert rig.lookup(second, "lost", "nowhere") == [MISS, MISS]
    rig.tier.claims["slow"] = Claim.UNDECIDED
    rig.lookup(second, "slow")
    rig.step()
    rig.now = 5.0
    assert rig.lookup(second, "slow") == [MISS]
    rig.tier.raises["lookup"] = OSError()
    assert rig.lookup(second, "raised") == [MISS]
    told = rig.manager.stats()
    misses = {name: n for name, n in told.items() if name.startswith("tierproof_lookup_misses")}
    assert {name.split('"')[1]: n for name, n in misses.items() if n} == {
        "FAILED": 1,
        "ABSENT": 1,
        "PROBE_TIMEOUT": 1,
        "TIER_ERROR": 1,
    }


@pytest.mark.parametrize("how", ["decided", "stored meanwhile"])
def test_what_a_request_is_answered_after_a_question_is_settled_is_still_counted(how):
    rig = Rig(count_lookups=True)
    request, other = rig.request(), rig.request("other")
    rig.store(other, "stored")
    rig.tier.claims["k"] = Claim.UNDECIDED
    assert rig.lookup(request, "k") == [RETRY]
    if how == "decided":
        rig.tier.claims["k"] = Claim.ABSENT
    else:
        rig.store(other, "k")
    rig.lookup(request, "k")
    assert not request.probes
    before = rig.manager.stats()["tierproof_lookup_hits_total"]
    assert rig.lookup(request, "stored") == [HIT]
    assert rig.manager.stats()["tierproof_lookup_hits_total"] == before + 1


def test_how_long_a_lookup_and_a_deferred_one_took_is_measured_wherever_the_clock_stands():
    class Busy(ScriptedTier):
        def lookup(self, key, request):
            rig.now += 0.25
            return super().lookup(key, request)

    rig = Rig(tiers=[Busy()], count_lookups=True)
    rig.now = 1000.0
    rig.notice()
    request = rig.request()
    rig.lookup(request, "k")
    assert rig.manager.stats()["tierproof_lookup_sync_delay_seconds_sum"] == 0.25
    rig.step()
    rig.now = 2000.0
    rig.tier.claims["slow"] = Claim.UNDECIDED
    rig.lookup(request, "slow")
    rig.step()
    rig.now = 2003.0
    rig.tier.claims["slow"] = Claim.ABSENT
    rig.lookup(request, "slow")
    assert asynchronous(rig) == (1, 3.0)


def test_each_tier_that_is_asked_for_a_key_counts_it():
    rig = Rig(tiers=3, count_lookups=True)
    rig.lookup(rig.request(), "k", "l")
    stats = rig.manager.stats()
    for tier in rig.tiers:
        assert stats[f'tierproof_tier_queries_total{{tier="{tier.name}"}}'] == 2


def test_a_copy_that_a_tier_would_not_begin_is_a_failed_job_that_took_no_time():
    rig = Rig(slots=8, reoffers=0)
    rig.tier.raises["submit_store"] = OSError()
    rig.store(rig.request(), "a", "b")
    stats = rig.manager.stats()
    expected = {"store_jobs": 1, "store_job_failures": 1, "store_block_failures": 2}
    expected |= {"stored_blocks": 0, "store_seconds": 0}
    for name, number in expected.items():
        assert stats[f'tierproof_{name}_total{{tier="tier0"}}'] == number, name


def test_resets_are_counted():
    rig = Rig()
    for number in range(3):
        assert rig.manager.stats()["tierproof_resets_total"] == number
        rig.manager.reset_cache()


def test_lookups_of_many_keys_count_the_hits_after_a_shared_one_too():
    rig = Rig(slots=8, count_lookups=True)
    writer, request = rig.request("writer"), rig.request()
    rig.store(writer, "a", "b", "c")
    rig.tier.claims["u"] = Claim.UNDECIDED
    rig.manager.lookup_many(["a", "u", "b", "c"], request)
    stats = rig.manager.stats()
    assert stats["tierproof_lookup_hits_total"] == 3
    assert stats["tierproof_lookup_queries_total"] == 4
