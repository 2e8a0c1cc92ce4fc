"""States are values: never changed, and equal when histories differ only in their numbering."""

import json

import pytest

from tierproof.model import operations as ops
from tierproof.model.operations import OPERATIONS, Setting, from_json
from tierproof.model.reference import CALLS, apply, begin

from .support import History, R, T, contents

EVERY = {
    "lookup": ops.Lookup("k0", "r0"),
    "lookup_many": ops.LookupMany(("k0", "k1"), "r0"),
    "exists": ops.Exists(("k0", "k3"), "r0"),
    "plan_load": ops.PlanLoad(("k0", "k1"), "r0"),
    "prepare_load": ops.PrepareLoad(("k0",), "r0"),
    "complete_load": ops.CompleteLoad(1),
    "prepare_store": ops.PrepareStore(("k0",), "r0"),
    "complete_store": ops.CompleteStore(1, ok=False),
    "withdraw": ops.Withdraw(("k0",), "r0"),
    "on_schedule_end": ops.StepEnd(("r0",)),
    "on_new_request": ops.NewRequest("r1", only=("t0",), external_of="t1", id="again"),
    "on_request_finished": ops.Finish("r0"),
    "reset_cache": ops.Reset(("t0",)),
    "on_reset_flushed": ops.Flushed(),
    "send": ops.Send(("k0",), "x0"),
    "tier_says": ops.Mind("t0", "k0", "UNDECIDED"),
    "tier_fails": ops.Mood("t0", "refuse stores", on=False),
    "job_ends": ops.Report(1, ("k0",)),
    "misreport": ops.Misreport("t0", 1, ("k9",)),
    "tier_verifies": ops.Verify("t0", "k0"),
    "time_passes": ops.Advance(30.0),
}
SAID = {
    "lookup": "lookup(k0, r0)",
    "lookup_many": "lookup_many(keys=('k0', 'k1'), r0)",
    "complete_store": "complete_store(number=1, ok=False)",
    "on_new_request": "on_new_request(r1, only=('t0',), t1, again)",
    "on_reset_flushed": "on_reset_flushed()",
    "time_passes": "time_passes(seconds=30.0)",
}


def test_every_operation_has_a_meaning():
    assert list(EVERY) == list(OPERATIONS)
    assert set(CALLS) == set(OPERATIONS.values())


@pytest.mark.parametrize("name", EVERY)
def test_an_operation_can_be_kept_as_data_and_read_again(name):
    op = EVERY[name]
    again = from_json(op.op, json.loads(json.dumps(op.args())))
    assert again == op
    assert hash(again) == hash(op), "lists must have become tuples again"


@pytest.mark.parametrize("name", SAID)
def test_an_operation_is_printed_as_a_call(name):
    assert str(EVERY[name]) == SAID[name]


def test_what_an_operation_does_not_say_is_not_printed():
    assert str(ops.StepEnd()) == "on_schedule_end()"
    assert str(ops.NewRequest("r1")) == "on_new_request(r1)"


def test_an_unknown_operation_is_refused_with_the_known_ones():
    with pytest.raises(ValueError, match=r"unknown operation 'evict'; known: complete_load, "):
        from_json("evict", {})


@pytest.mark.parametrize("args", [{}, {"key": "k0", "request": "r0", "tier": "t0"}])
def test_missing_and_unknown_arguments_are_refused_with_the_operations_name(args):
    with pytest.raises(ValueError, match=r"^lookup: "):
        from_json("lookup", args)


# -- immutable states ------------------------------------------------------------------------------


def busy() -> History:
    """Something of everything is under way."""
    h = History(
        slots=8,
        keys=("k0", "k1", "k2", "k3"),
        tiers=(T("t0", "k0", "k1", whole_request=True), T("t1", undecided=("k3",))),
        requests=(R("r0"), R("r1"), R("x0", external_of="t1")),
        reoffers=1,
    )
    h.lookup("k0")
    h.lookup("k1", "r1")
    h.lookup("k3", "r1")
    h.end()
    h.report(1, "k0")
    h.do(ops.Mood("t1", "refuse stores"))
    h.store("k2")
    h.offer("k2", "k3")
    h.offer("k3", request="r1")
    h.lookup("k2")
    h.read("k0")
    h.do(ops.Finish("r1"))
    return h


ON_BUSY = [
    *(op for op in EVERY.values() if op.op != "job_ends"),
    ops.Reset(),
    ops.StepEnd(),
    ops.CompleteLoad(8),
    ops.Report(2, ("k1",)),
    ops.Report(4, ()),
    ops.Send(("k0", "k2"), "x0"),
    ops.Lookup("k9", "r9"),
]


@pytest.mark.parametrize("op", ON_BUSY, ids=str)
def test_an_operation_leaves_the_state_that_it_is_applied_to_as_it_was(op):
    h = busy()
    before = contents(h.state)
    for _ in range(2):
        after = apply(h.state, op).state
        assert contents(h.state) == before, f"{op} changed its input"
        for then in (ops.StepEnd(), ops.StepEnd(), ops.Reset(("t0", "t1"))):
            after = apply(after, then).state
            assert contents(h.state) == before, f"{then} reached back to the state before {op}"


def test_one_state_may_be_the_past_of_two_histories():
    past = busy().state
    one = apply(past, ops.Reset()).state
    other = apply(past, ops.StepEnd()).state
    assert one.world.get("held") == "YES"
    assert other.world.get("held") == "NO"


# -- canonical states ------------------------------------------------------------------------------


def test_histories_that_differ_only_in_what_is_over_have_the_same_canonical_state():
    short, long = History(tiers=()), History(tiers=())
    long.offer("k0")
    long.do(ops.CompleteStore(1, ok=False))
    long.end()
    long.pass_time(7)
    long.end()
    for h in (short, long):
        h.offer("k0")
        h.lookup()
    assert short.state.count != long.state.count
    assert short.state.canonical() == long.state.canonical()


def test_numbers_of_jobs_in_the_mail_become_ranks():
    short, long = History(), History()
    long.offer("k0")
    long.do(ops.CompleteStore(1, ok=False))
    for h in (short, long):
        h.lookup()
        h.end()
        h.land()
        h.do(ops.Misreport("t0", h.job()))
    assert short.state.canonical() == long.state.canonical()


DIFFERENT = {
    "another phase": lambda h: h.end(),
    "another waiter": lambda h: h.lookup("k0", "r1"),
    "another time": lambda h: h.do(ops.Advance(1)),
    "another mind": lambda h: h.do(ops.Mind("t0", "k1", "PRESENT")),
    "another mood": lambda h: h.do(ops.Mood("t0", "refuse stores")),
    "something in the mail": lambda h: h.do(ops.Verify("t0", "k1")),
    "a GPU store": lambda h: h.offer("k1"),
    "a claim verified anew": lambda h: h.do(ops.Verify("t0", "k0")),
    "a request": lambda h: h.do(ops.NewRequest("r2")),
    "an end to tell": lambda h: h.do(ops.Finish("r1")),
    "a reset": lambda h: h.do(ops.Reset()),
}


@pytest.mark.parametrize("what", DIFFERENT)
def test_states_that_may_behave_differently_are_not_the_same(what):
    def some() -> History:
        h = History(keys=("k0", "k1"), tiers=(T("t0", "k0"),), requests=(R("r0"), R("r1")))
        h.lookup("k0")
        return h

    h = some()
    DIFFERENT[what](h)
    assert h.state.canonical() != some().state.canonical(), f"{what} makes no difference"


def test_states_can_be_remembered_in_a_set():
    assert len({begin(Setting()).canonical(), begin(Setting()).canonical()}) == 1


def test_the_order_in_which_promises_were_given_is_part_of_the_state():
    def both(first: str, second: str) -> History:
        h = History(requests=(R("r0"), R("r1"), R("r2")))
        for request in ("r2", first, second):
            h.lookup(request=request)
        return h

    assert both("r0", "r1").state.canonical() != both("r1", "r0").state.canonical()


def test_messages_about_different_keys_are_different():
    def verified(key: str) -> History:
        h = History(keys=("k0", "k1"))
        h.do(ops.Verify("t0", key))
        return h

    assert verified("k0").state.canonical() != verified("k1").state.canonical()


def test_requests_with_different_filters_are_different():
    def begun(*only: str) -> History:
        h = History(tiers=(T("t0", "k0"), T("t1")))
        h.do(ops.NewRequest("r1", only=only))
        return h

    assert begun("t0").state.canonical() != begun("t1").state.canonical()
