"""What the reference model says of existence and of load plans."""

from tierproof.model import operations as ops

from .support import MISS, PENDING, History, R, T


def exists(h, *keys, request="r0"):
    return h.do(ops.Exists(keys, request)).answer


def plan(h, *keys, request="r0"):
    return h.do(ops.PlanLoad(keys, request)).answer


def phases(h, *keys):
    return [h.state.world.phase(key) for key in keys]


def test_existence_reserves_nothing():
    h = History(keys=("k0", "k1", "k2"), tiers=(T("t0", "k0", undecided=("k1",)),))
    assert exists(h, "k0", "k1", "k2") == ("PRESENT", "UNDECIDED", "ABSENT")
    assert phases(h, "k0", "k1", "k2") == ["ABSENT"] * 3
    h.end()
    assert h.last.submitted == ()


def test_a_plan_promotes_what_exists_has_found_and_nothing_else():
    h = History()
    assert plan(h, "k0") == ("LOST", ("k0",)), "nobody has asked who has it"
    exists(h, "k0")
    assert plan(h, "k0") == ("PLANNED", ("k0",))
    assert plan(h, "k0") == ("PLANNED", ()), "it is on its way"
    assert h.lookup() == PENDING
    h.end()
    assert [s.keys for s in h.last.submitted] == [("k0",)]


def test_a_plan_is_all_or_none():
    h = History(slots=2, keys=("k0", "k1"))
    exists(h, "k0", "k1")
    assert plan(h, "k0", "k1") == ("NO_ROOM", ()), "one permit only"
    assert phases(h, "k0", "k1") == ["ABSENT", "ABSENT"]
    assert plan(h, "k0") == ("PLANNED", ("k0",))


def test_a_plan_holds_what_is_resident_until_it_is_read():
    h = History(slots=2, keys=("k0", "k1"), tiers=(), requests=(R("r0"), R("r1")))
    h.store("k0")
    assert plan(h, "k0") == ("PLANNED", ())
    h.end()
    assert h.offer("k1", request="r1") == (("k1",), (), ())
    assert phases(h, "k0") == ["RESIDENT"]
    h.do(ops.CompleteLoad(h.read("k0")))
    assert h.state.world.get("waits", "k0", "r0") == "NO"
    assert h.state.world.fields["permit"] == {}


def test_what_one_request_has_found_is_no_other_ones():
    h = History(requests=(R("r0"), R("r1")))
    exists(h, "k0")
    assert plan(h, "k0", request="r1") == ("LOST", ("k0",))


def test_a_claim_that_is_retracted_meanwhile_is_no_longer_acted_on():
    h = History(requests=(R("r0"), R("r1")))
    exists(h, "k0")
    h.lookup(request="r1")
    h.end()
    h.report(h.job())
    h.end()
    assert plan(h, "k0") == ("LOST", ("k0",))
    assert exists(h, "k0") == ("ABSENT",)


def test_a_reset_forgets_what_was_found():
    h = History()
    exists(h, "k0")
    h.do(ops.Reset())
    h.do(ops.Flushed())
    assert plan(h, "k0") == ("LOST", ("k0",))


def test_between_reset_and_flush_nothing_exists():
    h = History()
    h.do(ops.Reset())
    assert exists(h, "k0") == ("ABSENT",)
    assert h.lookup() == MISS


def test_a_lease_begins_anew_with_each_plan():
    h = History(slots=4)
    h.promote("k0")
    h.pass_time(20)
    assert plan(h, "k0") == ("PLANNED", ())
    h.pass_time(15)
    h.notice()
    assert h.state.world.get("waits", "k0", "r0") == "YES", "35 s after it landed"
    h.pass_time(15)
    h.notice()
    assert h.state.world.get("waits", "k0", "r0") == "NO", "30 s after the plan"


def test_an_empty_plan_ends_the_open_questions():
    h = History(tiers=(T("t0", undecided=("k0",)),))
    exists(h, "k0")
    assert h.state.probes
    assert plan(h) == ("PLANNED", ())
    assert not h.state.probes


def test_a_plan_that_names_a_key_twice_is_refused():
    h = History()
    assert h.do(ops.PlanLoad(("k0", "k0"), "r0")).error
