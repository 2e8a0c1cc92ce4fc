"""The driver does what a history says to any manager, and reports what could be seen."""

from types import SimpleNamespace

import pytest

from tierproof import TieredOffloadingManager, TierError
from tierproof.model import operations as ops
from tierproof.model.operations import RequestSetting, Setting, TierSetting
from tierproof.properties.driver import BLOCK_BYTES, Driver, NotAManager
from tierproof.properties.lockstep import Lockstep
from tierproof.properties.managers import shipped
from tierproof.properties.under_test import payload

SETTING = Setting(
    slots=3,
    keys=("k0", "k1"),
    tiers=(TierSetting("t0", has=("k0",)), TierSetting("t1", undecided=("k1",))),
    requests=(RequestSetting("r0"), RequestSetting("x0", external_of="t1")),
)


def driven(factory=shipped, setting=SETTING):
    return Driver(factory, setting)


def test_what_the_surroundings_have_is_there_before_anything_is_asked():
    got = driven().do(ops.LookupMany(("k0", "k1"), "r0"))
    assert got.answer == ("HIT_PENDING", "RETRY")
    assert got.asked == (("t0", "k0"), ("t0", "k1"), ("t1", "k1"))
    assert set(got.polled) == {"t0", "t1"}
    assert got.slots.keys() == {"k0"}


def test_jobs_ends_and_events_are_seen_under_the_names_of_the_history():
    driver = driven()
    driver.do(ops.Lookup("k0", "x0"))
    got = driver.do(ops.StepEnd())
    (job,) = got.jobs
    assert (job.kind, job.tier, job.request, job.keys) == ("LOAD", "t0", "x0", ("k0",))
    driver.number(1, job.tier, job.job_id)
    driver.do(ops.Report(1, ("k0",)))
    assert driver.do(ops.Lookup("k0", "r0")).events == (("stored", "k0"),)
    assert driver.read_slot(job.slots[0]) == payload("k0", BLOCK_BYTES)
    driver.do(ops.Finish("x0"))
    assert driver.do(ops.StepEnd()).told == (("t0", "x0"), ("t1", "x0"))


def test_an_exception_of_the_manager_is_part_of_what_is_seen():
    got = driven().do(ops.PrepareLoad(("k0",), "r0"))
    assert type(got.error).__name__ == "ContractViolation"
    assert got.answer is None


def test_a_number_that_no_operation_had_is_completed_under_an_id_that_was_never_given():
    got = driven().do(ops.CompleteStore(99))
    assert type(got.error).__name__ == "ContractViolation"


def test_time_is_the_drivers():
    driver = driven()
    driver.do(ops.Lookup("k1", "r0"))
    driver.do(ops.StepEnd())
    driver.do(ops.Advance(5.0))
    assert driver.do(ops.Lookup("k1", "r0")).answer == "MISS"


def test_a_request_may_begin_later_under_an_id_that_was_used_before():
    driver = driven()
    driver.do(ops.Finish("r0"))
    driver.do(ops.NewRequest("r1", id="r0"))
    driver.do(ops.Lookup("k0", "r1"))
    assert [j.request for j in driver.do(ops.StepEnd()).jobs] == ["r1"]


def test_bytes_that_are_not_those_of_the_key_are_seen_at_the_read():
    driver = driven(setting=Setting(tiers=()))
    store = driver.do(ops.PrepareStore(("k0",), "r0"))
    driver.number_operation(1, store.answer)
    driver.do(ops.CompleteStore(1))
    driver.manager.arena.row(store.slots["k0"])[:] = bytes(BLOCK_BYTES)
    got = driver.do(ops.PrepareLoad(("k0",), "r0"))
    assert got.bytes_wrong == "the GPU read other bytes under k0 than were stored under it"


def test_a_store_that_fails_or_comes_after_a_reset_writes_no_good_bytes():
    for op in (ops.CompleteStore(1, ok=False), ops.CompleteStore(1)):
        driver = driven(setting=Setting(tiers=()))
        store = driver.do(ops.PrepareStore(("k0",), "r0"))
        driver.number_operation(1, store.answer)
        driver.do(ops.Reset())
        driver.do(op)
        assert driver.read_slot(store.answer.slots[0]) != payload("k0", BLOCK_BYTES)


# -- whatever a factory returns --------------------------------------------------------------------


@pytest.mark.parametrize("thing", [None, object(), SimpleNamespace(lookup="not callable")])
def test_a_factory_that_returns_the_wrong_thing_is_told_what_to_return(thing):
    with pytest.raises(NotAManager, match=rf"returned {type(thing).__name__}, which has no lookup"):
        driven(lambda **_: thing)


class Stranger:
    """A manager of somebody else's: no probe, no optional call, no arena of ours to look at.

    It has the required calls only, and hands them to ours.
    """

    def __init__(self, **given):
        self._ours = TieredOffloadingManager(**given)

    def on_new_request(self, request_id, *, tier_filter=None):
        return self._ours.on_new_request(request_id, tier_filter=tier_filter)

    def lookup(self, key, request):
        return self._ours.lookup(key, request).name

    def prepare_load(self, keys, request):
        return self._ours.prepare_load(keys, request)

    def complete_load(self, operation):
        self._ours.complete_load(operation)

    def prepare_store(self, keys, request):
        return self._ours.prepare_store(keys, request)

    def complete_store(self, operation, ok=True):
        self._ours.complete_store(operation, ok)

    def on_schedule_end(self, newly_scheduled=()):
        self._ours.on_schedule_end(newly_scheduled)

    def on_request_finished(self, request):
        self._ours.on_request_finished(request)

    def has_pending_work(self):
        return self._ours.has_pending_work()

    def take_events(self):
        return self._ours.take_events()


HISTORY = (
    ops.Lookup("k0", "r0"),
    ops.PrepareStore(("k1",), "r0"),
    ops.CompleteStore(1),
    ops.StepEnd(),
    ops.Report(4, ("k0",)),
    ops.Lookup("k0", "r0"),
    ops.PrepareLoad(("k0",), "r0"),
    ops.CompleteLoad(5),
    ops.Finish("r0"),
    ops.StepEnd(),
)
PLAIN = Setting(
    slots=8,
    keys=("k0", "k1"),
    tiers=(TierSetting("t0", has=("k0",)), TierSetting("t1")),
)


@pytest.mark.parametrize("factory", [shipped, TieredOffloadingManager, Stranger])
def test_managers_with_probes_and_without_are_driven_through_the_same_history(factory):
    lockstep = Lockstep(factory, PLAIN)
    lockstep.run(HISTORY)
    assert lockstep.history == list(HISTORY)


def test_what_a_manager_lacks_is_known():
    driver = driven(Stranger, PLAIN)
    assert not driver.observes("slot_of")
    assert not driver.can("reset_cache")
    ours = driven(shipped, PLAIN)
    assert ours.observes("slot_of")
    assert ours.can("reset_cache")


def test_a_manager_without_tiers_or_an_arena_to_look_at_is_driven_without_looking_at_bytes():
    driver = driven(Stranger, Setting(tiers=()))
    assert driver.arena is None
    assert driver.read_slot(0) is None
    store = driver.do(ops.PrepareStore(("k0",), "r0"))
    driver.number_operation(1, store.answer)
    driver.do(ops.CompleteStore(1))
    assert driver.do(ops.PrepareLoad(("k0",), "r0")).bytes_wrong is None


def test_one_method_of_the_shipped_manager_may_be_overridden_and_the_class_passed_as_factory():
    class Counting(TieredOffloadingManager):
        asked = 0

        def lookup(self, key, request):
            Counting.asked += 1
            return super().lookup(key, request)

    lockstep = Lockstep(Counting, PLAIN)
    lockstep.run((ops.Lookup("k0", "r0"), ops.LookupMany(("k0", "k1"), "r0")))
    assert Counting.asked == 3, "lookup_many asks through the method that was overridden"


def test_an_exception_of_a_factory_is_the_factorys():
    def broken(**_):
        raise TierError("no memory")

    with pytest.raises(TierError, match="no memory"):
        driven(broken)
