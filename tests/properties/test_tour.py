"""The tour drives every case on the manager, the same way each time, and its size is pinned."""

import logging
from collections import Counter

import pytest

from tierproof import LookupResult, TieredOffloadingManager
from tierproof.model.operations import Lookup
from tierproof.model.rules import RULES
from tierproof.properties.managers import shipped
from tierproof.properties.rooms import ROOMS
from tierproof.properties.situations import SITUATIONS, not_reached
from tierproof.properties.tour import ENOUGH, TourResult, tour

ROOM = {room.name: room for room in ROOMS}
SMALL = [ROOM[name] for name in ("answers", "probes", "deadlines of loads", "ends of peers")]

# States of the block in focus, and the operations tried in them. A room that shrinks is a check
# that got weaker; a room that grows costs time. Both should be meant.
PINNED: dict[str, tuple[int, int]] = {
    "answers": (54, 394),
    "probes": (70, 453),
    "failures": (306, 2370),
    "batches": (80, 690),
    "jobs of four": (400, 3887),
    "copies of four": (346, 4602),
    "promises": (658, 3610),
    "heirs": (236, 1360),
    "plans": (188, 1328),
    "plans of two blocks": (61, 481),
    "plans and stores": (95, 710),
    "plans and time": (452, 3170),
    "room": (72, 437),
    "stores": (181, 2194),
    "stores between steps": (8, 20),
    "mistakes": (78, 508),
    "cascades": (331, 2342),
    "berths": (126, 492),
    "whole requests": (134, 462),
    "deadlines of loads": (58, 187),
    "deadlines of stores": (132, 472),
    "resets of loads": (66, 327),
    "resets of stores": (369, 2463),
    "resets of plain stores": (78, 523),
    "resets of copies": (87, 331),
    "peers": (336, 2764),
    "sends beside copies": (33, 108),
    "ends of peers": (40, 91),
    "victims": (70, 606),
    "first to go": (6, 26),
    "hits": (187, 1267),
    "claims": (92, 392),
    "after the end": (22, 114),
    "batches of stores": (17, 146),
    "jobs": (70, 398),
    "hung tier": (148, 630),
    "ends of copies": (261, 1340),
    "ends and resets": (85, 290),
    "shared hits": (88, 512),
    "hold of a reset": (11, 37),
    "clearing twice": (67, 315),
    "copies across a reset": (47, 124),
    "operations across a reset": (14, 42),
    "parked copies": (46, 115),
}


@pytest.fixture(autouse=True)
def _quiet(caplog):
    """Tiers are made to fail on purpose; what the manager logs of it would only cost time."""
    caplog.set_level(logging.CRITICAL, logger="tierproof")


@pytest.fixture(scope="module")
def whole():
    """The full tour of the shipped manager, walked once."""
    quiet = logging.getLogger("tierproof")
    level = quiet.level
    quiet.setLevel(logging.CRITICAL)
    try:
        return tour(shipped)
    finally:
        quiet.setLevel(level)


class AnswersRetry(TieredOffloadingManager):
    """Answers RETRY where a promotion has been started."""

    def lookup(self, key, request):
        answer = super().lookup(key, request)
        return LookupResult.RETRY if answer is LookupResult.HIT_PENDING else answer


def facts(result: TourResult) -> tuple[object, ...]:
    """What must not depend on when, or by how many processes, a tour is walked."""
    return (
        result.cases,
        result.states,
        result.operations,
        Counter(result.rules),
        result.reached,
        result.rooms,
        result.unreached,
        [(f.contract, f.history, f.setting, str(f.divergence)) for f in result.divergences],
    )


def test_the_shipped_manager_keeps_in_step_through_the_whole_tour(whole):
    assert whole.divergences == [], f"first: {whole.divergences[0].divergence}"
    assert whole.unreached == 0


def test_every_rule_of_the_table_fires_on_the_way(whole):
    assert whole.missing_rules == ()
    assert set(whole.rules) == {r.name for r in RULES}


def test_every_contract_is_put_to_the_test_on_the_way(whole):
    assert [c for c in SITUATIONS if not_reached(c, whole.reached)] == []


def test_every_room_is_as_large_as_it_is_meant_to_be(whole):
    assert whole.rooms == PINNED, f"rooms have changed; if it is meant, pin {whole.rooms}"
    assert whole.states == sum(states for states, _ in PINNED.values())
    assert whole.cases == sum(cases for _, cases in PINNED.values())


def test_every_state_is_gone_on_from_in_every_way(whole):
    for name, (states, cases) in whole.rooms.items():
        assert cases >= states, f"{name}: some state was not left by any operation"


def test_names_of_rooms_are_unique_and_say_something():
    assert len(ROOM) == len(ROOMS)
    assert all(room.says for room in ROOMS)


def test_a_tour_is_the_same_each_time_and_by_any_number_of_processes():
    first = facts(tour(shipped, rooms=SMALL, processes=1))
    assert facts(tour(shipped, rooms=SMALL, processes=1)) == first, "two walks differ"
    assert facts(tour(shipped, rooms=SMALL, processes=2)) == first, "the processes matter"


def test_rooms_are_told_in_their_order_and_progress_room_by_room():
    told: list[tuple[int, int]] = []
    backwards = SMALL[::-1]
    result = tour(shipped, rooms=backwards, processes=1, progress=lambda *now: told.append(now))
    assert list(result.rooms) == [room.name for room in backwards]
    assert told == [(n, len(SMALL)) for n in range(1, len(SMALL) + 1)]


def test_a_tour_of_few_rooms_tells_which_rules_it_missed():
    result = tour(shipped, rooms=[ROOM["ends of peers"]], processes=1)
    assert "store_failed" in result.missing_rules
    assert "promote" not in result.missing_rules
    assert list(result.missing_rules) == [r.name for r in RULES if r.name not in result.rules]


def test_a_broken_manager_is_caught_in_the_same_places_each_time():
    rooms = SMALL[:1]
    first, second = (tour(AnswersRetry, rooms=rooms, processes=1) for _ in range(2))
    assert first.divergences
    assert facts(first) == facts(second)
    assert facts(tour(AnswersRetry, rooms=rooms, processes=2)) == facts(first)
    earliest = first.divergences[0]
    assert earliest.method == "tour"
    assert isinstance(earliest.history[-1], Lookup)
    assert earliest.divergence.got == "RETRY"


def test_a_tour_that_is_to_stop_at_the_first_divergence_leaves_the_other_rooms():
    told: list[int] = []
    result = tour(
        AnswersRetry,
        rooms=SMALL,
        processes=1,
        stop_at_first=True,
        progress=lambda done, rooms: told.append(done),
    )
    assert result.divergences
    assert len(told) < len(SMALL)


def test_a_manager_that_diverges_everywhere_is_left_in_the_middle_of_a_room():
    class Idle(TieredOffloadingManager):
        def has_pending_work(self):
            return not super().has_pending_work()

    result = tour(Idle, rooms=[ROOM["answers"]], processes=1)
    assert 0 < len(result.divergences) <= ENOUGH
    assert result.cases == len(result.divergences)
    assert result.states == 1


def test_no_factory_stays_behind_when_a_tour_fails():
    def broken(**_):
        raise RuntimeError("no manager today")

    with pytest.raises(RuntimeError, match="no manager today"):
        tour(broken, rooms=SMALL[:1], processes=1)
    assert tour(shipped, rooms=SMALL[:1], processes=1).divergences == []


class WithoutPlans:
    """A manager that lacks what it may lack."""

    def __init__(self, **given):
        self._manager = shipped(**given)

    def __getattr__(self, name):
        if name in ("exists", "plan_load", "lookup_many", "withdraw"):
            raise AttributeError(name)
        return getattr(self._manager, name)


def test_calls_that_a_manager_may_lack_are_left_out_of_its_tour():
    rooms = [ROOM["plans"], ROOM["batches"]]
    result = tour(WithoutPlans, rooms=rooms, processes=1)
    assert result.divergences == []
    assert "plan_promotes" in result.missing_rules
