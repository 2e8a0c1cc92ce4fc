"""What callers may name blocks by: any iterable, refused before anything changes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tierproof import ContractViolation
from tierproof.impl.arguments import listed

from .support import HIT, HIT_PENDING, MISS, Rig

CALLS: dict[str, Callable[[Rig, Any, Any], Any]] = {
    "lookup_many": lambda rig, keys, request: rig.manager.lookup_many(keys, request),
    "exists": lambda rig, keys, request: rig.manager.exists(keys, request),
    "plan_load": lambda rig, keys, request: rig.manager.plan_load(keys, request),
    "plan_head": lambda rig, keys, request: rig.manager.plan_head(keys, request),
    "landed": lambda rig, keys, request: rig.manager.landed(keys, request),
    "prepare_load": lambda rig, keys, request: rig.manager.prepare_load(keys, request),
    "prepare_store": lambda rig, keys, request: rig.manager.prepare_store(keys, request),
    "touch": lambda rig, keys, request: rig.manager.touch(keys, request),
    "withdraw": lambda rig, keys, request: rig.manager.withdraw(keys, request),
}
EACH = pytest.mark.parametrize("call", CALLS)


def prepared() -> tuple[Rig, Any]:
    rig = Rig(slots=8)
    request = rig.request()
    rig.store(request, "a", "b")
    rig.settle()
    return rig, request


@EACH
def test_a_generator_serves_as_well_as_a_list(call):
    answers = []
    for keys in (["a", "b"], (key for key in ["a", "b"])):
        rig, request = prepared()
        rig.manager.exists(["a", "b"], request)
        answers.append((CALLS[call](rig, keys, request), rig.probe.fingerprint()))
    assert answers[0] == answers[1]


@EACH
@pytest.mark.parametrize("key", ["abc", b"abc"])
def test_one_key_in_the_place_of_several_is_refused_and_says_what_to_write(call, key):
    rig, request = prepared()
    before = rig.probe.fingerprint()
    with pytest.raises(ContractViolation, match=r"write \[key\] for the key of 3"):
        CALLS[call](rig, key, request)
    assert rig.probe.fingerprint() == before


@EACH
def test_what_cannot_be_a_key_is_refused_before_anything_changes(call):
    rig, request = prepared()
    rig.tier.has("k")
    before = rig.probe.fingerprint()
    with pytest.raises(TypeError, match="unhashable"):
        CALLS[call](rig, ["k", ["no key"]], request)
    assert rig.probe.fingerprint() == before


def test_names_of_tiers_may_come_from_a_generator():
    rig = Rig(tiers=2)
    rig.tiers[1].has("k")
    request = rig.manager.on_new_request("R", tier_filter=(name for name in ["tier1"]))
    assert rig.lookup(request, "k") == [HIT_PENDING]
    assert rig.manager.reset_cache(name for name in ["tier1"]).tiers == ("tier1",)


@pytest.mark.parametrize("what", [None, "x", 1.5])
def test_what_names_no_operation_is_refused(what):
    rig = Rig()
    for complete in (rig.manager.complete_load, rig.manager.complete_store):
        with pytest.raises(ContractViolation, match="names no operation"):
            complete(what)


def test_scheduled_requests_may_come_from_a_generator():
    rig = Rig()
    rig.tier.has("k")
    request = rig.request()
    assert rig.lookup(request, "k") == [HIT_PENDING]
    rig.manager.on_schedule_end(one for one in [request])
    assert not rig.probe.waiters("k")


def test_a_key_that_is_named_twice_is_asked_for_once():
    rig = Rig()
    request = rig.request()
    rig.tier.has("k")
    assert rig.manager.exists(["k", "n", "k"], request) == [True, False, True]
    assert rig.tier.asked == ["k", "n"]


def test_a_peers_handle_serves_no_request_but_its_own():
    rig = Rig(tiers=2)
    mine, ordinary = rig.manager.external("tier0"), rig.request()
    rig.tier.has("k")
    for call in (
        lambda: mine.lookup("k", ordinary),
        lambda: mine.send(["k"], ordinary),
        lambda: mine.on_request_finished(ordinary),
        lambda: rig.manager.external("tier1").lookup("k", mine.on_new_request("peer")),
    ):
        with pytest.raises(ContractViolation, match="was not announced by tier"):
            call()
    assert rig.tier.asked == [], "the serving tier would have been asked for what it serves"
    assert rig.lookup(ordinary, "n") == [MISS]
    rig.manager.on_request_finished(ordinary)


def test_a_hit_is_a_hit_however_the_keys_are_given():
    rig, request = prepared()
    assert rig.manager.lookup_many(iter(["a", "b"]), request) == [HIT, HIT]


@pytest.mark.parametrize(("key", "words"), [("abc", "3 characters"), (b"ab", "2 bytes")])
def test_one_key_instead_of_many_is_told_as_what_it_is(key, words):
    with pytest.raises(ContractViolation, match=words):
        listed(key)
