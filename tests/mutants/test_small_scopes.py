"""Small scopes are tried exhaustively, and as much of them as ever."""

import logging
import os

import pytest

from tierproof import LookupResult, TieredOffloadingManager
from tierproof.properties import exhaustive as module
from tierproof.properties.commands_soak import NOT_DRIVEN
from tierproof.properties.exhaustive import KEYS, REQUESTS, SCOPES, exhaustive
from tierproof.properties.faults import FAULTS
from tierproof.properties.managers import shipped
from tierproof.properties.situations import SITUATIONS, not_reached


@pytest.fixture(autouse=True)
def quiet():
    logging.getLogger("tierproof").setLevel(logging.CRITICAL + 1)
    yield
    logging.getLogger("tierproof").setLevel(logging.NOTSET)


def test_as_many_histories_of_four_operations_as_ever_and_none_of_them_is_wrong():
    result = exhaustive(shipped, depth=4)
    assert (result.histories, result.scopes) == (5_051, {1: 153, 2: 255})
    assert not result.divergences


@pytest.mark.nightly
def test_as_many_histories_of_six_operations_as_ever_and_none_of_them_is_wrong():
    result = exhaustive(shipped, depth=6)
    assert result.scopes == {1: 3_521, 2: 11_949}
    assert result.histories == 218_753
    assert not result.divergences
    lacking = {c for c in SITUATIONS if not_reached(c, result.reached)}
    assert lacking == set(NOT_DRIVEN), "what small scopes speak of, they must come to"


def test_a_fault_is_found_in_small_scopes():
    found = exhaustive(FAULTS["claim_kept"].factory, depth=4).divergences
    assert found
    assert found[0].contract == "F2-claim-retracted"
    assert found[0].method == "exhaustive"


def test_the_counts_do_not_depend_on_how_many_processes_share_the_work(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0})
    assert exhaustive(shipped, depth=3).histories == 680


class Blind(TieredOffloadingManager):
    """A manager without probes: no two of its states may be taken for one."""

    def probe(self):
        return None


def test_without_a_fingerprint_every_history_is_tried():
    seeing = module.explore(shipped, SCOPES[0], depth=2)[0]
    blind = module.explore(Blind, SCOPES[0], depth=2)[0]
    assert blind.histories > seeing.histories


class OneRequestOnly(TieredOffloadingManager):
    """Wrong for the second request alone, whichever that is."""

    def lookup(self, key, request):
        answer = super().lookup(key, request)
        return LookupResult.RETRY if request.handle == 1 else answer


def test_only_first_names_are_exchanged():
    assert (KEYS, REQUESTS) == (("k0", "k1"), ("r0", "r1"))
    found = exhaustive(OneRequestOnly, depth=3).divergences
    assert found, "r1 is tried as soon as r0 has been named"
