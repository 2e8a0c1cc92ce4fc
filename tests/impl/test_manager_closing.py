"""Construction, drain and shutdown: clear errors, bounded, and no memory pulled from a transfer."""

from __future__ import annotations

import threading

import pytest

from tierproof import Arena, ConfigError, ContractViolation, TieredOffloadingManager, TierProofError
from tierproof.impl.config import ManagerConfig

from .support import HIT, HIT_PENDING, Rig, ScriptedTier


def test_shutdown_stops_every_tier_and_releases_the_memory():
    rig = Rig(tiers=3)
    rig.manager.shutdown()
    assert [tier.stopped for tier in rig.tiers] == [1, 1, 1]
    assert rig.manager.arena.released


def test_shutdown_is_idempotent():
    rig = Rig()
    rig.tier.raises["shutdown"] = OSError("stuck")
    with pytest.raises(OSError, match="stuck"):
        rig.manager.shutdown()
    rig.manager.shutdown()
    assert rig.tier.stopped == 1


def test_every_tier_gets_its_try_and_the_first_error_is_raised_at_the_end():
    rig = Rig(tiers=3)
    rig.tiers[0].raises["drain"] = OSError("first")
    rig.tiers[1].raises["shutdown"] = OSError("second")
    with pytest.raises(OSError, match="first"):
        rig.manager.shutdown()
    assert [tier.stopped for tier in rig.tiers] == [1, 1, 1]
    assert not rig.manager.arena.released, "a tier that did not stop may still touch it"


@pytest.mark.parametrize("transfer", ["load", "cascade", "gpu load", "gpu store"])
def test_memory_that_a_transfer_can_still_touch_is_not_released(transfer, caplog):
    rig = Rig()
    request = rig.request()
    if transfer == "load":
        rig.tier.has("k")
        rig.lookup(request, "k")
        rig.step()
    elif transfer == "cascade":
        rig.store(request, "k")
    else:
        operation = rig.begin_store(request, "k")
        if transfer == "gpu load":
            rig.manager.complete_store(operation)
            rig.settle()
            rig.manager.prepare_load(["k"], request)
    running = rig.manager.drain(0.0)
    assert len(running) == 1
    rig.manager.shutdown()
    assert not rig.manager.arena.released
    assert running[0] in caplog.text


def test_drain_names_what_could_not_be_stopped_and_hears_what_has_ended():
    rig = Rig(slots=8)
    request = rig.request()
    rig.tier.has("a", "b")
    rig.lookup(request, "a")
    rig.step()
    rig.lookup(request, "b")
    rig.step()
    rig.begin_store(request, "x")
    rig.begin_store(request, "x")
    rig.tier.done(rig.tier.loads[0])
    assert rig.manager.drain(1.0) == [
        "tier 'tier0': load job 1",
        "GPU store operation 0",
    ]
    assert rig.lookup(request, "a") == [HIT]


def test_all_tiers_together_get_the_timeout():
    given = []

    class Slow(ScriptedTier):
        def drain(self, timeout):
            given.append(timeout)
            rig.now += 3.0
            return ()

    rig = Rig(tiers=[Slow("a"), Slow("b"), Slow("c")])
    rig.manager.drain(6.0)
    assert given == [6.0, 3.0, 0.0]
    given.clear()
    rig.manager.shutdown()
    assert given == [5.0, 2.0, 0.0], "five seconds, unless it is said otherwise"


def test_a_manager_that_is_shut_down_begins_nothing_and_touches_no_tier():
    rig = Rig(slots=8)
    request = rig.request()
    external = rig.manager.external("tier0")
    peer = external.on_new_request("peer")
    rig.store(request, "r")
    rig.settle()
    rig.lookup(request, "r", "k")
    rig.manager.shutdown()
    touched = (rig.tier.polls, len(rig.tier.asked), len(rig.tier.log), len(rig.tier.begun))
    manager = rig.manager
    for call in (
        lambda: manager.lookup("r", request),
        lambda: manager.lookup_many(["r"], request),
        lambda: manager.explain("r", request),
        lambda: manager.exists(["r"], request),
        lambda: manager.plan_load(["r"], request),
        lambda: manager.plan_head(["r"], request),
        lambda: manager.landed(["r"], request),
        lambda: manager.prepare_load(["r"], request),
        lambda: manager.prepare_store(["k"], request),
        lambda: manager.touch(["r"], request),
        lambda: manager.withdraw(["r"], request),
        lambda: manager.on_schedule_end(),
        lambda: manager.on_schedule_end([request]),
        lambda: manager.on_new_request("late"),
        lambda: manager.reset_cache(),
        lambda: manager.on_reset_flushed(),
        lambda: external.on_new_request("late"),
        lambda: external.lookup("r", peer),
        lambda: external.send(["r"], peer),
    ):
        with pytest.raises(ContractViolation, match="shut down"):
            call()
    assert manager.drain(1.0) == []
    manager.on_request_finished(request)  # it is over already: whoever tears down need not know
    now = (rig.tier.polls, len(rig.tier.asked), len(rig.tier.log), len(rig.tier.begun))
    assert now == touched


def test_shutdown_drops_what_is_queued_and_due_and_tells_every_end_before_the_tiers_stop():
    told: list[str] = []

    class Witness(ScriptedTier):
        def on_request_finished(self, request):
            told.append(f"end {request.request_id}")
            super().on_request_finished(request)

        def shutdown(self):
            told.append("stop")
            super().shutdown()

    rig = Rig(slots=16, tiers=[Witness()])
    finished, live, storing = (rig.request(name) for name in ("finished", "live", "storing"))
    rig.tier.refuses_all = True
    rig.store(finished, "due")
    rig.begin_store(storing, "s")
    rig.tier.has("queued")
    assert rig.lookup(live, "queued") == [HIT_PENDING]
    rig.manager.on_request_finished(finished)
    rig.manager.on_request_finished(storing)
    rig.manager.shutdown()
    assert told == ["end finished", "end storing", "end live", "stop"]
    assert not rig.tier.loads
    assert not rig.manager.has_pending_work()
    assert rig.probe.phase("queued") == "ABSENT"
    rig.probe.check()


def test_memory_that_a_gpu_operation_touches_goes_when_the_last_one_ends():
    rig = Rig(slots=8)
    request = rig.request()
    rig.store(request, "r")
    rig.settle()
    stored = rig.begin_store(request, "s")
    loaded = rig.manager.prepare_load(["r"], request)
    rig.manager.shutdown()
    assert not rig.manager.arena.released
    rig.manager.complete_store(stored)
    assert not rig.manager.arena.released
    jobs = len(rig.tier.stores)
    rig.manager.complete_load(loaded)
    assert rig.manager.arena.released
    assert len(rig.tier.stores) == jobs, "what is stored after the shutdown is copied nowhere"


def test_an_interrupt_while_tiers_drain_leaves_none_of_them_running():
    rig = Rig(tiers=2)

    def interrupted(timeout: float) -> list[int]:
        raise KeyboardInterrupt

    rig.tier.drain = interrupted  # type: ignore[method-assign]
    with pytest.raises(KeyboardInterrupt):
        rig.manager.shutdown()
    assert [tier.stopped for tier in rig.tiers] == [1, 1]


def test_a_drain_that_took_long_dates_what_landed_when_it_landed():
    rig = Rig(slots=4, lease=30.0, pending_deadline=None)
    rig.tier.has("k")
    request = rig.request()
    rig.lookup(request, "k")
    rig.step()
    rig.lookup(rig.request(), "other")

    def slow(timeout: float) -> list[int]:
        rig.now += 29.0
        rig.tier.done_all()
        return []

    rig.tier.drain = slow  # type: ignore[method-assign]
    rig.manager.drain(60.0)
    rig.step()
    rig.now += 2.0
    rig.step()
    assert rig.probe.waiters("k") == {request.handle}, "it landed two seconds ago"


def test_memory_stays_when_a_tier_did_not_stop_whatever_ends_later():
    rig = Rig(slots=8)
    request = rig.request()
    rig.tier.raises["shutdown"] = OSError("stuck")
    stored = rig.begin_store(request, "s")
    with pytest.raises(OSError, match="stuck"):
        rig.manager.shutdown()
    rig.manager.complete_store(stored)
    assert not rig.manager.arena.released


def test_a_tier_that_calls_the_manager_when_it_hears_of_an_end_begins_the_next_step():
    class Curious(ScriptedTier):
        def on_request_finished(self, request):
            super().on_request_finished(request)
            rig.manager.lookup("k", other)

    rig = Rig(tiers=[Curious()])
    request, other = rig.request(), rig.request("other")
    rig.lookup(other, "k")
    rig.manager.on_request_finished(request)
    rig.now = 7.0
    polls = rig.tier.polls
    rig.step()
    assert rig.tier.polls == polls + 1, "the lookup came in a new step, which began as steps do"
    assert rig.manager._step.now == 7.0
    rig.tier.has("k")
    assert rig.lookup(other, "k") == [HIT_PENDING]
    rig.step()
    assert [job.keys for job in rig.tier.loads] == [("k",)]


def test_shutdown_waits_for_the_lock_no_longer_than_its_timeout():
    rig = Rig()
    held, done = threading.Event(), threading.Event()

    def hold() -> None:
        with rig.manager.lock:
            held.set()
            done.wait(10.0)

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait(10.0)
    with pytest.raises(TierProofError, match=r"the lock was not free for 0.01 s"):
        rig.manager.shutdown(0.01)
    done.set()
    thread.join()
    rig.manager.shutdown()
    assert rig.manager.arena.released


def test_an_arena_of_another_size_is_refused():
    with pytest.raises(ConfigError, match="2 rows of 8 bytes"):
        TieredOffloadingManager(slots=4, block_bytes=8, arena=Arena(slots=2, block_bytes=8))
    arena = Arena(slots=4, block_bytes=8)
    assert TieredOffloadingManager(slots=4, block_bytes=8, arena=arena).arena is arena


def test_things_that_are_no_tiers_or_have_one_name_are_refused_before_any_is_attached():
    good = ScriptedTier("a")
    for tiers, words in (
        ([good, ScriptedTier("a")], "'a' is used twice"),
        ([good, object()], "object has not"),
        ([good, ScriptedTier(7)], "ScriptedTier has not"),  # type: ignore[arg-type]
    ):
        with pytest.raises(ConfigError, match=words):
            TieredOffloadingManager(slots=1, block_bytes=8, tiers=tiers)  # type: ignore[arg-type]
    assert good._arena is None


def test_a_name_alone_makes_no_tier_however_often_it_is_tried():
    class Named:
        name = "disk"

    for _ in range(2):
        with pytest.raises(ConfigError, match="Named has not"):
            TieredOffloadingManager(slots=2, block_bytes=8, tiers=[Named()])  # type: ignore[list-item]


@pytest.mark.parametrize(
    ("setting", "value", "words"),
    [
        ("promotion_share", 1.5, "promotion_share must be a number from 0 to 1"),
        ("cascade_share", "half", "cascade_share must be a number from 0 to 1"),
        ("promotion_share", float("nan"), "from 0 to 1, not nan"),
        ("lease", 0, "lease must be a positive number of seconds, or None"),
        ("pending_deadline", -1.0, "pending_deadline must be a positive"),
        ("probe_deadline", True, "probe_deadline must be a positive"),
        ("backpressure_seconds", "1", "backpressure_seconds must be a positive"),
        ("reoffers", -1, "reoffers must be a whole number of at least 0"),
        ("reoffer_pause", -0.1, "reoffer_pause must be a number of seconds, 0 for none"),
        ("reoffer_pause", None, "reoffer_pause must be a number of seconds"),
        ("reoffers", 1.5, "reoffers must be a whole number"),
        ("eviction", "fifo", "eviction must be 'lru' or 'arc', not 'fifo'"),
        ("events", 1, "events must be true or false"),
        ("count_lookups", None, "count_lookups must be true or false"),
        ("vllm_metric_names", "no", "vllm_metric_names must be true or false"),
        ("lru", True, "unknown setting 'lru'; the manager's settings are promotion_share"),
    ],
)
def test_a_setting_out_of_range_is_refused_by_name(setting, value, words):
    with pytest.raises(ConfigError, match=words):
        ManagerConfig.from_mapping({setting: value})


def test_the_default_settings_are_those_of_the_semantics():
    config = ManagerConfig()
    assert config.from_mapping({"lease": None}).lease is None
    assert (config.promotion_share, config.cascade_share, config.reoffers) == (0.5, 0.25, 3)
    assert config.reoffer_pause == 1.0
    assert (config.lease, config.pending_deadline, config.probe_deadline) == (30.0, 30.0, 5.0)
    assert [config.permits(slots) for slots in (1, 2, 3, 10)] == [1, 1, 1, 5]
    assert [config.berths(slots) for slots in (1, 3, 4, 8)] == [1, 1, 1, 2]


def test_with_the_defaults_a_slot_is_left_to_stores_when_every_tier_hangs_in_both_directions():
    for slots in (3, 4, 5, 8, 13):
        rig = Rig(slots=slots, tiers=2)
        request = rig.request()
        for number in range(3 * slots):
            rig.tiers[1].has(f"p{number}")
            rig.lookup(request, f"p{number}")
            operation = rig.manager.prepare_store([f"s{number}"], request)
            assert operation is not None, f"{slots} slots: store {number} starved"
            rig.manager.complete_store(operation)
            rig.step()
