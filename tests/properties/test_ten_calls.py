"""A manager with exactly the calls of the protocol, and none of the optional ones, is driven."""

from __future__ import annotations

import pytest

from tierproof.properties.machine import fuzz
from tierproof.properties.managers import REQUIRED_CALLS, shipped
from tierproof.properties.real_tiers import with_files
from tierproof.properties.rooms import ROOMS
from tierproof.properties.tour import tour
from tierproof.properties.under_test import OPTIONAL_CALLS

REACHED = {"answers", "promises", "peers"}


class TenCalls:
    """Passes the calls of the protocol on to the shipped manager, and has no other."""

    def __init__(self, **arguments):
        self._manager = shipped(**arguments)

    def __getattr__(self, name):
        if name not in REQUIRED_CALLS:
            raise AttributeError(name)
        return getattr(self._manager, name)


def test_the_tour_leaves_out_the_rooms_of_calls_that_are_lacking():
    result = tour(TenCalls, rooms=[r for r in ROOMS if r.name in REACHED], processes=1)
    assert result.divergences == []
    assert set(result.rooms) == REACHED - {"peers"}, "nobody serves peers here"


def test_no_room_begins_with_a_call_that_is_lacking():
    begun = [r for r in ROOMS if {op.op for op in r.start} & set(OPTIONAL_CALLS)]
    assert begun, "no room begins so: this test shows nothing any more"
    result = tour(TenCalls, rooms=begun, processes=1)
    assert (result.divergences, result.rooms) == ([], {})


@pytest.mark.parametrize("seed", [1, 2])
def test_random_runs_and_real_files_need_no_optional_call(seed):
    assert fuzz(TenCalls, examples=10, seed=seed).divergences == []
    assert with_files(TenCalls, operations=300, seed=seed).divergences == []
