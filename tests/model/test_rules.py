"""Each rule of the table fires, and the shortest history in which it does says what it is for."""

from dataclasses import replace

import pytest

from tierproof.model import operations as ops
from tierproof.model.operations import RequestSetting, Setting, TierSetting
from tierproof.model.reading import (
    Limits,
    NotOffered,
    TableError,
    World,
    matches,
    new_value,
    refuse_bad_rules,
)
from tierproof.model.reference import apply, begin
from tierproof.model.rules import EVENTS, RULES, Event, Rule
from tierproof.model.vocabulary import ANSWERS, FIELDS, REASONS, SORTS, VERBS, split

# One slot and one tier `t0` that has the block, if not said otherwise.
HAS = Setting(slots=1, tiers=(TierSetting("t0", has=("k0",)),))
EMPTY = Setting(slots=1)
ALONE = Setting(slots=1, tiers=())
UNDECIDED = Setting(slots=1, tiers=(TierSetting("t0", undecided=("k0",)),))
SHARED = replace(HAS, requests=(RequestSetting("r0"), RequestSetting("r1")))
CROWDED = Setting(slots=1, keys=("k0", "k1"), tiers=(TierSetting("t0", has=("k0", "k1")),))
PAIR = Setting(slots=2, keys=("k0", "k1"), tiers=(TierSetting("t0", has=("k1",)),))
COPIED = Setting(slots=1, tiers=(TierSetting("t0"), TierSetting("t1")))
NO_SECOND_TRY = replace(EMPTY, reoffers=0)
WHOLE = Setting(
    slots=1, tiers=(TierSetting("t0", whole_request=True), TierSetting("t1", has=("k0",)))
)
PEER = Setting(
    slots=1,
    tiers=(TierSetting("t0"), TierSetting("t1", has=("k0",))),
    requests=(RequestSetting("r0"), RequestSetting("x0", external_of="t0")),
)
# Tier t0, which serves the peer, has the block; what r0 offers is copied to t1 only.
BESIDE = replace(
    PEER, tiers=(TierSetting("t0", has=("k0",)), TierSetting("t1", whole_request=True))
)

K0 = ("k0",)
ask, ask_too = ops.Lookup("k0", "r0"), ops.Lookup("k0", "r1")
ask_other = ops.Lookup("k1", "r0")
step = ops.StepEnd()
step_with_r0 = ops.StepEnd(("r0",))
offer, stored, not_stored = (
    ops.PrepareStore(K0, "r0"),
    ops.CompleteStore(1),
    ops.CompleteStore(1, ok=False),
)
exists, plan = ops.Exists(K0, "r0"), ops.PlanLoad(K0, "r0")
read = ops.PrepareLoad(K0, "r0")
reset, flushed = ops.Reset(), ops.Flushed()
time = ops.Advance(30.0)
send = ops.Send(K0, "x0")
unable = ops.Mood("t0", "raise on submit")
refuses = ops.Mood("t0", "refuse stores")


def lands(number: int) -> ops.Operation:
    return ops.Report(number, K0)


def fails(number: int) -> ops.Operation:
    return ops.Report(number, ())


SHORTEST: dict[str, tuple[Setting, tuple[ops.Operation, ...]]] = {
    # lookup
    "hit": (ALONE, (offer, stored, ask)),
    "promised": (HAS, (ask, ask)),
    "stored_with_permit": (ALONE, (offer, ask, ask)),
    "stored_takes_permit": (ALONE, (offer, ask)),
    "stored_until_landed": (PAIR, (ask_other, offer, ask)),
    "overdue": (ALONE, (offer, step, time, ask)),
    "held": (HAS, (reset, ask)),
    "promote": (HAS, (ask,)),
    "no_permit": (CROWDED, (ask, ask_other)),
    "no_slot": (CROWDED, (offer, ask_other)),
    "undecided": (UNDECIDED, (ask,)),
    "raised": (HAS, (ops.Mood("t0", "raise on lookup"), ask)),
    "timed_out": (UNDECIDED, (ask, step, time, ask)),
    "retracted": (HAS, (ask, step, fails(1), ask)),
    "absent": (EMPTY, (ask,)),
    # load plans
    "plan_joins": (HAS, (ask, plan)),
    "plan_takes_permit": (ALONE, (offer, plan)),
    "plan_promotes": (HAS, (exists, plan)),
    # the end of a step
    "submitted": (HAS, (ask, step)),
    "step_ends": (EMPTY, (step,)),
    # letting go
    "leaves_queue": (SHARED, (ask, ask_too, ops.Withdraw(K0, "r1"))),
    "passed_on": (SHARED, (ask, ask_too, ops.Withdraw(K0, "r0"))),
    "dropped": (HAS, (ask, ops.Withdraw(K0, "r0"))),
    "leaves_writer": (HAS, (ask, step_with_r0)),
    "one_of_many": (SHARED, (ask, ask_too, step, lands(1), step_with_r0)),
    "last_waiter": (HAS, (ask, step, lands(1), step_with_r0)),
    # deadlines
    "load_overdue": (HAS, (ask, step, time, step)),
    "store_overdue": (ALONE, (offer, step, time, step)),
    # loads
    "landed_for_waiters": (HAS, (ask, step, lands(1), step)),
    "landed_unawaited": (HAS, (ask, step_with_r0, lands(1), step)),
    "landed_late": (HAS, (ask, step, reset, lands(1), step)),
    "failed": (HAS, (ask, step, fails(1), step)),
    "failed_late": (HAS, (ask, step, reset, fails(1), step)),
    "verified": (EMPTY, (ops.Verify("t0", "k0"), step)),
    "unfounded": (EMPTY, (offer, stored, ops.Reset(("t0",)))),
    # stores
    "store_begins": (ALONE, (offer,)),
    "accepted": (ALONE, (offer,)),
    "stored_for_waiters": (ALONE, (offer, ask, stored)),
    "stored_without_permit": (PAIR, (ask_other, offer, ask, stored)),
    "stored_unawaited": (ALONE, (offer, stored)),
    "stored_late": (ALONE, (offer, reset, stored)),
    "store_failed": (ALONE, (offer, not_stored)),
    "store_failed_late": (ALONE, (offer, reset, not_stored)),
    # reads and copies
    "pinned": (ALONE, (offer, stored, read)),
    "unpinned": (ALONE, (offer, stored, read, ops.CompleteLoad(2))),
    "cascade_leaves_last": (EMPTY, (offer, stored, step, lands(2), step)),
    "cascade_leaves": (COPIED, (offer, stored, step, lands(2), step)),
    "export_leaves_last": (
        PEER,
        (ask, step, lands(1), step, send, lands(2), step),
    ),
    "export_leaves": (BESIDE, (ask, step, lands(1), offer, send, step, lands(4), step)),
    "last_one_out": (EMPTY, (offer, stored, reset, step, lands(2), step)),
    "late_read_leaves": (EMPTY, (offer, stored, read, reset, ops.CompleteLoad(3))),
    "late_cascade_leaves_readers": (EMPTY, (offer, stored, read, reset, step, lands(2), step)),
    "late_cascade_leaves": (COPIED, (offer, stored, reset, step, lands(2), step)),
    "evicted": (CROWDED, (offer, stored, lands(2), ask_other)),
    # cascades
    "parked": (WHOLE, (offer, offer)),
    "offered": (WHOLE, (ask, step, lands(1), offer)),
    "copy_takes_berth": (EMPTY, (offer, stored)),
    "copy_shares_berth": (COPIED, (offer, stored)),
    "export_takes_berth": (PEER, (ask, step, lands(1), step, send)),
    "export_shares_berth": (BESIDE, (ask, step, lands(1), offer, send)),
    "copied": (EMPTY, (offer, stored, step, lands(2), step)),
    "copied_again_later": (EMPTY, (offer, stored, step, fails(2), step)),
    "copying_given_up": (NO_SECOND_TRY, (offer, unable, stored)),
    "refused": (EMPTY, (offer, refuses, stored)),
    "refused_for_good": (NO_SECOND_TRY, (offer, refuses, stored)),
    # resets
    "queue_forgotten": (HAS, (ask, reset)),
    "writer_quarantined": (ALONE, (offer, reset)),
    "readers_quarantined": (EMPTY, (offer, stored, reset)),
    "block_forgotten": (ALONE, (offer, stored, reset)),
    "reset_ends": (EMPTY, (reset,)),
    "flushed": (ALONE, (flushed,)),
    # ends
    "finished": (EMPTY, (ops.Finish("r0"),)),
    "told": (EMPTY, (ops.Finish("r0"), step)),
}


def fired(setting: Setting, history: tuple[ops.Operation, ...]) -> list[tuple[str, ...]]:
    """The rules that fired, for each operation."""
    state, rules = begin(setting), []
    for op in history:
        outcome = apply(state, op)
        state = outcome.state
        rules.append(outcome.rules)
    return rules


def test_every_rule_has_a_shortest_history():
    assert list(SHORTEST) == [r.name for r in RULES], "one history for each rule, in their order"


@pytest.mark.parametrize("rule", SHORTEST)
def test_a_rule_fires_at_the_end_of_its_shortest_history_and_not_before(rule):
    setting, history = SHORTEST[rule]
    rules = fired(setting, history)
    assert rule in rules[-1], f"{rule} did not fire; the last operation fired {rules[-1]}"
    assert not any(rule in before for before in rules[:-1]), f"{rule} fires before the end"


@pytest.mark.parametrize("rule", SHORTEST)
def test_nothing_can_be_left_out_of_a_shortest_history(rule):
    setting, history = SHORTEST[rule]
    for left_out, op in enumerate(history):
        rest = history[:left_out] + history[left_out + 1 :]
        try:
            rules = fired(setting, rest)
        except KeyError:  # a job is reported that was never started
            continue
        assert not any(rule in some for some in rules), f"{rule} fires without {op}"


# -- the table is well formed ----------------------------------------------------------------------


def test_names_of_rules_are_unique():
    names = [r.name for r in RULES]
    assert len(names) == len(set(names))


def test_only_lookups_answer_and_only_a_miss_has_a_reason():
    for rule in RULES:
        assert (rule.answer in ANSWERS) == (rule.event == "lookup"), rule.name
        assert (rule.reason in REASONS) == (rule.answer == "MISS"), rule.name
    assert {r.reason for r in RULES} - {None} == set(REASONS), "each reason is given by a rule"
    assert {r.answer for r in RULES} - {None} == set(ANSWERS), "each answer is given by a rule"


def test_every_event_has_a_rule_and_roles_that_are_sorts_or_the_asker():
    assert {r.event for r in RULES} == set(EVENTS)
    for event in EVENTS.values():
        assert set(event.roles) <= {*SORTS, "asker"}, event.name


def test_every_effect_writes_a_known_value():
    for rule in RULES:
        for cell, effect in rule.then.items():
            name, _ = split(cell)
            if name in VERBS:
                assert effect in VERBS[name], f"{rule.name}: {cell}: {effect}"
            elif name in FIELDS:
                values = [effect] if isinstance(effect, str) else [*effect, *effect.values()]
                assert set(values) <= set(FIELDS[name].values), f"{rule.name}: {cell}: {effect}"


def test_a_guard_with_a_word_that_is_not_in_the_vocabulary_is_refused():
    bad = Rule("bad", "evict", {"mood": ("GOOD",)})
    with pytest.raises(TableError, match="'mood' is not a word of the vocabulary"):
        refuse_bad_rules([bad])


@pytest.mark.parametrize("allowed", [(), ("ASLEEP",), ("ABSENT", "ASLEEP")])
def test_a_guard_that_allows_nothing_or_an_unknown_value_is_refused(allowed):
    with pytest.raises(TableError, match="bad: phase may be some of"):
        refuse_bad_rules([Rule("bad", "evict", {"phase": allowed})])


def test_what_an_event_presupposes_is_held_to_the_vocabulary_too():
    bad = Event("bad", ("key",), "nothing", {"phase": ()})
    with pytest.raises(TableError, match="bad: phase"):
        refuse_bad_rules([], {"bad": bad})


# -- the table is total and deterministic ----------------------------------------------------------

LIMITS = Limits(slots=1, permits=1, berths=1, tiers=("t",), allowed={"r": ("t",)})


def without(name: str) -> tuple[Rule, ...]:
    return tuple(r for r in RULES if r.name != name)


def rule(name: str) -> Rule:
    return next(r for r in RULES if r.name == name)


def test_an_event_that_no_rule_matches_is_a_fault_of_the_table():
    world = World(LIMITS, without("absent"))
    with pytest.raises(TableError, match=r"lookup .*: rules that match: none"):
        world.fire("lookup", {"key": "k", "asker": "r", "tier": None}, {"tiers": "UNCLAIMED"})


def test_an_event_that_two_rules_match_is_a_fault_of_the_table():
    world = World(LIMITS, (*RULES, replace(rule("absent"), name="again")))
    with pytest.raises(TableError, match="rules that match: absent, again"):
        world.fire("lookup", {"key": "k", "asker": "r", "tier": None}, {"tiers": "UNCLAIMED"})


def test_an_event_is_not_offered_where_what_it_presupposes_does_not_hold():
    world = World(LIMITS)
    with pytest.raises(NotOffered, match=r"let_go: waits\[asker\] is not YES"):
        world.fire("let_go", {"key": "k", "asker": "r"})
    assert not world.fired, "an event that is not offered changes nothing"


def test_a_broadcast_needs_a_rule_for_each_key_before_any_is_changed():
    world = World(LIMITS, without("step_ends"))
    with pytest.raises(TableError, match=r"step_end: 0 rules match k \(ABSENT\)"):
        world.broadcast("step_end", ["k"], {})
    assert not world.fired


def test_a_broadcast_is_not_offered_where_what_it_presupposes_does_not_hold():
    with pytest.raises(NotOffered, match=r"tell: life\[asker\] is not ENDING"):
        World(LIMITS).broadcast("tell", ["k"], {"asker": "r"})


def test_a_guard_holds_where_each_of_its_cells_has_an_allowed_value():
    guard = {"phase": ("QUEUED", "LOADING"), "waits[asker]": ("YES",)}
    assert matches(guard, {"phase": "LOADING", "waits[asker]": "YES", "held": "NO"})
    assert not matches(guard, {"phase": "LOADING", "waits[asker]": "NO"})
    assert matches({}, {}), "an empty guard always holds"


def test_an_effect_is_a_value_or_a_map_from_old_to_new():
    assert new_value("YES", "NO") == "YES"
    assert [new_value({"0": "1", "1": "2+"}, old) for old in "01"] == ["1", "2+"]


def test_a_copy_of_a_world_has_a_life_of_its_own():
    world = World(LIMITS)
    world.fire("flushed", {})
    twin = world.copy()
    twin.put("held", (), "YES")
    twin.links["owner"][0] = "k"
    assert world.get("held") == "NO"
    assert not world.links["owner"]
    assert twin.fired == [], "what fired before the copy is not counted twice"


def test_a_value_that_is_written_back_to_its_start_leaves_no_trace():
    world = World(LIMITS)
    world.put("held", (), "YES")
    world.put("held", (), "NO")
    assert world.fields == World(LIMITS).fields, "equal worlds must look equal"
