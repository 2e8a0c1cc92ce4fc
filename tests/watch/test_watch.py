"""What is seen alone convicts faulty managers, and never the shipped one."""

from types import SimpleNamespace

import pytest

from tierproof import TieredOffloadingManager
from tierproof.model.operations import (
    CompleteStore,
    Lookup,
    PrepareStore,
    Report,
    Reset,
    Setting,
    StepEnd,
    TierSetting,
)
from tierproof.properties.managers import resolve
from tierproof.properties.watch import Watch
from tierproof.properties.watch_moves import moves, place
from tierproof.properties.watch_rooms import ROOMS
from tierproof.properties.watch_runs import LARGE
from tierproof.properties.watch_tour import broken_by, runs, shortened, tour

HAS_K0 = Setting(slots=1, tiers=(TierSetting("t0", has=("k0",)),))


@pytest.fixture(scope="module")
def ours():
    return resolve().factory


def rooms(*names):
    found = [room for room in ROOMS if room.name in names]
    assert len(found) == len(names)
    return found


@pytest.mark.parametrize("room", ROOMS, ids=lambda room: room.name)
def test_the_shipped_manager_breaks_nothing_in_any_room(ours, room):
    result = tour(ours, rooms=[room], cases=400)
    assert {c: (s.said, s.history) for c, s in result.found.items()} == {}
    assert result.cases > 50


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_the_shipped_manager_breaks_nothing_at_random(ours, seed):
    result = runs(ours, examples=100, seed=seed)
    assert {c: (s.said, s.history) for c, s in result.found.items()} == {}
    assert result.cases == 100


@pytest.mark.parametrize(
    ("fault", "contract", "room"),
    [
        ("retry_on_promotion", "L1-answer-true", "answers"),
        ("hit_before_landed", "L1-answer-true", "promises"),
        ("miss_for_the_second_asker", "L2-until-landed", "promises"),
        ("landed_is_enough", "L3-until-read", "promises"),
        ("submits_twice", "L4-submitted-once", "promises"),
        ("asks_all_tiers", "L5-tiers-asked", "filters"),
        ("no_short_promise", "L6-hit-holds", "hits"),
        ("copies_another_slot", "D1-bytes", "ends"),
        ("reads_another_slot", "D1-bytes", "ends"),
        ("overdue_slot_reused", "S1-slot-exclusive", "waits"),
        ("copies_another_slot", "S2-no-reuse-under-transfer", "ends"),
        ("pinned_twice", "S3-pins", "copies"),
        ("slot_lost", "F1-partial-failure", "failures"),
        ("claim_kept", "F2-claim-retracted", "failures"),
        ("lookup_raises", "F3-tier-raises", "exceptions"),
        ("submit_raises", "F3-tier-raises", "after an exception"),
        ("first_tier_only", "C1-cascade-once", "copies"),
        ("failed_for_good", "C2-cascade-reoffered", "copies"),
        ("refused_for_good", "C2-cascade-reoffered", "refusals"),
        ("told_twice", "Q1-finish", "ends"),
        ("no_pending_deadline", "P1-progress", "waits"),
        ("waiter_not_told", "W1-pending-work", "after an exception"),
        ("evicted_silently", "E1-events", "hits"),
    ],
)
def test_a_fault_is_found_by_its_contract(fault, contract, room):
    spec = fault if fault in ("retry_on_promotion", "submits_twice") else f"fault:{fault}"
    result = tour(resolve(spec).factory, rooms=rooms(room), cases=1500)
    assert contract in result.found, sorted(result.found)


def test_the_tour_is_the_same_every_time(ours):
    faulty = resolve("fault:claim_kept").factory
    twice = [tour(faulty, rooms=rooms("failures"), cases=300) for _ in range(2)]
    assert twice[0].found == twice[1].found
    assert twice[0].cases == twice[1].cases


def test_random_histories_repeat_with_their_seed(ours):
    faulty = resolve("fault:claim_kept").factory
    assert runs(faulty, examples=20, seed=7).found == runs(faulty, examples=20, seed=7).found


def test_a_shortened_history_breaks_the_same_contract_and_needs_all_it_has():
    faulty = resolve("fault:claim_kept").factory
    found = runs(faulty, examples=30, seed=1).found["F2-claim-retracted"]
    assert "F2-claim-retracted" in broken_by(faulty, found.setting, found.history)
    for left_out in range(len(found.history)):
        less = found.history[:left_out] + found.history[left_out + 1 :]
        assert "F2-claim-retracted" not in broken_by(faulty, found.setting, less)
    assert shortened(faulty, found).history == found.history


def test_what_a_caller_would_not_do_convicts_nobody():
    faulty = resolve("retry_on_promotion").factory
    after_stores = (PrepareStore(("k1",), "r0"), Lookup("k0", "r0"))
    assert broken_by(faulty, HAS_K0, (Lookup("k0", "r0"),)) != {}
    assert broken_by(faulty, HAS_K0, after_stores) == {}, "no lookup follows stores in a step"


def test_a_step_is_completions_then_lookups_then_stores(ours):
    room = LARGE[2]
    watch = Watch(ours, room.setting)
    watch.run((PrepareStore(("k0",), "r0"),))
    assert not [op for op in moves(watch, room) if isinstance(op, Lookup | CompleteStore | Reset)]
    watch.run((StepEnd(),))
    kinds = {type(op) for op in moves(watch, room)}
    assert {Lookup, CompleteStore, Reset} <= kinds


def test_a_deadline_ends_the_tour_and_says_what_was_left(ours):
    import time

    result = tour(ours, deadline=time.perf_counter() - 1)
    assert result.cases == 0
    assert result.cut == [room.name for room in ROOMS]


def test_nothing_is_held_against_a_manager_after_it_has_raised():
    class Raises(TieredOffloadingManager):
        def lookup(self, key, request):
            raise ValueError("broken")

    watch = Watch(Raises, HAS_K0)
    first = watch.run((Lookup("k0", "r0"),))
    assert [contract for contract, _ in first] == ["L1-answer-true"]
    assert watch.run((Lookup("k0", "r0"), StepEnd(), Lookup("k0", "r0"))) == []


def test_a_landed_load_is_known_only_when_the_manager_has_been_told(ours):
    watch = Watch(ours, HAS_K0)
    watch.run((Lookup("k0", "r0"), StepEnd(), Report(1, ("k0",))))
    assert watch.facts.resident == set()
    watch.run((Lookup("k0", "r0"),))
    assert watch.facts.resident == {"k0"}
    assert watch.shown[-1][1] == "HIT"


class Blind:
    """A faulty manager as a stranger's: without the probes that ours has."""

    def __init__(self, **arguments):
        self._manager = self.broken(**arguments)

    def __getattr__(self, name):
        if name == "probe":
            raise AttributeError(name)
        return getattr(self._manager, name)


def blind(spec):
    return type("Blind", (Blind,), {"broken": staticmethod(resolve(spec).factory)})


@pytest.mark.parametrize(
    ("fault", "contract", "room"),
    [
        ("unpinned_at_once", "S3-pins", "readers"),
        ("end_takes_pins", "S3-pins", "readers"),
        ("pinned_twice", "S3-pins", "readers"),
        ("pin_kept", "S3-pins", "readers"),
        ("evicts_pinned", "S3-pins", "first to go"),
        ("slot_lost", "F1-partial-failure", "slots after failures"),
        ("one_reader_ends_all_waits", "L3-until-read", "promised to two"),
        ("ignores_the_filter", "L5-tiers-asked", "filters"),
        ("old_stores_forgotten", "S4-operations", "stores across a reset"),
        ("stored_too_early", "E1-events", "answers"),
    ],
)
def test_what_a_manager_without_probes_does_wrong_is_seen(fault, contract, room):
    result = tour(blind(f"fault:{fault}"), rooms=rooms(room))
    assert contract in result.found, sorted(result.found)
    found = result.found[contract]
    assert contract in broken_by(blind(f"fault:{fault}"), found.setting, found.history)


NEW = (
    *("readers", "first to go", "slots after failures", "promised to two", "filters"),
    *("ends beside stores", "stores across a reset"),
)


def test_the_shipped_manager_breaks_nothing_when_nobody_can_look_into_it():
    few = tour(blind("tierproof"), rooms=rooms(*NEW))
    assert {c: (s.said, s.history) for c, s in few.found.items()} == {}
    drawn = runs(blind("tierproof"), examples=60, seed=1)
    assert {c: (s.said, s.history) for c, s in drawn.found.items()} == {}


class EventsLate(TieredOffloadingManager):
    """Hands over its events at the end of a step only."""

    prompt_events = False

    def __init__(self, **arguments):
        super().__init__(**arguments)
        self.due = []

    def on_schedule_end(self, newly_scheduled=()):
        super().on_schedule_end(newly_scheduled)
        self.due = list(super().take_events())

    def take_events(self):
        due, self.due = self.due, []
        return due


def test_events_that_come_at_the_end_of_a_step_are_not_early():
    result = tour(EventsLate, rooms=rooms("promises"), cases=1500)
    assert {c: s.said for c, s in result.found.items()} == {}


def test_states_in_which_a_load_has_left_other_bytes_are_told_apart(ours):
    watch = Watch(ours, HAS_K0)
    watch.run((Lookup("k0", "r0"), StepEnd(), Report(1, ("k0",))))
    before = place(watch)
    assert place(watch) == before
    assert watch.driver.arena is not None
    row = watch.driver.arena.row(0)
    row[:] = b"\xff" * len(row)  # as a copy from before a reset would
    assert place(watch) != before


class Shy:
    """A manager that shows some of its probes and lacks the others."""

    def __init__(self, **arguments):
        self._manager = self.whole(**arguments)

    def __getattr__(self, name):
        return getattr(self._manager, name)

    def probe(self):
        shown = self._manager.probe()
        return SimpleNamespace(**{name: getattr(shown, name) for name in self.shows})


def shy(spec, *shows):
    return type("Shy", (Shy,), {"whole": staticmethod(resolve(spec).factory), "shows": shows})


@pytest.mark.parametrize("probe", ["slot_of", "pins", "free_slots", "resident_keys"])
def test_each_probe_may_be_all_that_a_manager_has(probe):
    some = rooms("failures", "resets")
    few = tour(shy("tierproof", probe), rooms=some, cases=400)
    assert {c: (s.said, s.history) for c, s in few.found.items()} == {}
    assert few.reached["R1-reset"]
    assert few.reached["F1-partial-failure"] or probe != "slot_of"


def test_where_slots_are_all_that_is_shown_a_lost_slot_is_still_seen():
    result = tour(shy("fault:slot_lost", "slot_of"), rooms=rooms("slots after failures"))
    assert "F1-partial-failure" in result.found, sorted(result.found)


def test_two_requests_may_read_one_block_at_the_same_time(ours):
    (room,) = rooms("readers")
    watch = Watch(ours, room.setting)
    assert watch.run(room.start) == []
    assert watch.facts.readers("k0") == 3, "two loads, and a copy to the tier"


def test_a_room_is_not_entered_by_a_manager_that_does_not_come_through_its_start():
    class StoresNothing(TieredOffloadingManager):
        def prepare_store(self, keys, request):
            return None

    result = tour(StoresNothing, rooms=rooms("readers"))
    assert (result.cases, sorted(result.found)) == (0, [])
