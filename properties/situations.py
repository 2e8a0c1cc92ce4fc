"""What a manager must have been brought to before "holds" can be said of a contract.

A manager that answers MISS to everything breaks no word of "bytes read under a key are the bytes
stored under it", and does not keep it either: nothing was ever read. So each contract names the
situations that it speaks of, and a check that brought a manager to only some of them says *not
reached*. What counts is what happened with the manager in step: where it has gone wrong, nothing
has been reached.

A situation is known by marks: names of rules of the table that fired, or one of the facts below,
which no single rule shows.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass

from ..model import operations as ops
from ..model.reference import Outcome, has_pending_work
from ..model.rules import RULES, Rule
from ..model.state import State
from ..model.vocabulary import CASCADES
from .driver import Driver, Got

LOOKUPS = (ops.Lookup, ops.LookupMany)


@dataclass(frozen=True)
class Agreed:
    """One operation on which model and manager agreed."""

    before: State
    op: ops.Operation
    outcome: Outcome
    got: Got
    driver: Driver

    @property
    def keys(self) -> Sequence[str]:
        """The keys that it names."""
        op = self.op
        return (op.key,) if isinstance(op, ops.Lookup) else getattr(op, "keys", ())

    def fired(self, rules: frozenset[str]) -> bool:
        """Did one of these rules fire?"""
        return not rules.isdisjoint(self.outcome.rules)


def rules_that(holds: Callable[[Rule], bool]) -> frozenset[str]:
    """The names of the rules of the table of which something holds."""
    return frozenset(rule.name for rule in RULES if holds(rule))


TAKING_A_SLOT = rules_that(lambda rule: rule.then.get("slot") == "take")


def _tier_raised(seen: Agreed) -> bool:
    moods, got = seen.before.moods, seen.got
    return bool(moods) and (
        any((tier, "raise on lookup") in moods for tier, _ in got.asked)
        or any((job.tier, "raise on submit") in moods for job in got.jobs)
        or any((tier, "raise on poll") in moods for tier in got.polled)
    )


def _waiter_looked_again(seen: Agreed) -> bool:
    if not isinstance(seen.op, LOOKUPS):
        return False
    waits = seen.before.world.fields["waits"]
    return any((key, seen.op.request) in waits for key in seen.keys)


def _asked_after_a_failure(seen: Agreed) -> bool:
    if not isinstance(seen.op, LOOKUPS):
        return False
    return any(key in seen.keys for key, _ in seen.outcome.state.world.fields["retracted"])


def _offered_again(seen: Agreed) -> bool:
    attempts = seen.before.attempts
    return any(
        (key, job.tier) in attempts
        for job in seen.outcome.submitted
        if job.kind in CASCADES
        for key in job.keys
    )


def _store_had_too_little_room(seen: Agreed) -> bool:
    answer = seen.outcome.answer
    if not isinstance(seen.op, ops.PrepareStore) or seen.outcome.error:
        return False
    return answer is None or bool(answer[2])


FACTS: dict[str, Callable[[Agreed], bool]] = {
    "a tier was asked": lambda seen: bool(seen.got.asked),
    "a tier raised": _tier_raised,
    "a waiter looked again": _waiter_looked_again,
    "asked after a failure": _asked_after_a_failure,
    "a slot was given out beside a transfer": lambda seen: (
        seen.fired(TAKING_A_SLOT) and bool(seen.before.world.running())
    ),
    "a copy was offered again": _offered_again,
    "a store had too little room": _store_had_too_little_room,
    "work was pending": lambda seen: has_pending_work(seen.outcome.state),
    "no work was pending": lambda seen: not has_pending_work(seen.outcome.state),
    "bytes were read": lambda seen: (
        isinstance(seen.op, ops.PrepareLoad)
        and not seen.outcome.error
        and seen.driver.arena is not None
    ),
}


def note(reached: set[str], seen: Agreed) -> None:
    """Add to `reached` the marks of one operation."""
    reached.update(seen.outcome.rules)
    for fact, holds in FACTS.items():
        if fact not in reached and holds(seen):
            reached.add(fact)


@dataclass(frozen=True)
class Situation:
    """Something that must have come about, in words, and the marks by which it is known.

    `without` is how it is told that it never did: "no promotion was submitted".
    """

    without: str
    marks: frozenset[str]


def _of(without: str, *marks: str | frozenset[str]) -> Situation:
    every = [mark for some in marks for mark in ([some] if isinstance(some, str) else some)]
    return Situation(without, frozenset(every))


def _answering(answer: str) -> frozenset[str]:
    return rules_that(lambda rule: rule.answer == answer)


def _on(*events: str) -> frozenset[str]:
    return rules_that(lambda rule: rule.event in events)


PROMOTING = rules_that(lambda rule: rule.then.get("phase") == "QUEUED")
LANDED = rules_that(lambda rule: rule.then.get("phase") == "RESIDENT")
FORGOTTEN = _on("forget")
LATE = rules_that(lambda rule: rule.when.get("stale") == ("YES",))
OVER = rules_that(lambda rule: rule.then.get("transfer") == "end")

SITUATIONS: dict[str, tuple[Situation, ...]] = {
    "L1-answer-true": (
        _of("no lookup was answered HIT", _answering("HIT")),
        _of("no lookup was answered HIT_PENDING", _answering("HIT_PENDING")),
        _of("no lookup was answered MISS", _answering("MISS")),
    ),
    "L2-until-landed": (
        _of("no promotion began", PROMOTING),
        _of("no block on its way from a tier was looked up again", "promised"),
    ),
    "L3-until-read": (
        _of(
            "no block landed for a request that waited on it",
            *("landed_for_waiters", "stored_for_waiters"),
        ),
        _of("no request looked again at what it was promised", "a waiter looked again"),
    ),
    "L4-submitted-once": (_of("no promotion was submitted", _on("submit")),),
    "L5-tiers-asked": (_of("no tier was asked", "a tier was asked"),),
    "L6-hit-holds": (
        _of("no lookup was answered HIT", _answering("HIT")),
        _of("the GPU read no block", _on("read")),
    ),
    "S1-slot-exclusive": (_of("no block was given a slot", TAKING_A_SLOT),),
    "S2-no-reuse-under-transfer": (
        _of(
            "no slot was given out while a transfer was under way",
            "a slot was given out beside a transfer",
        ),
    ),
    "S3-pins": (
        _of("the GPU read no block", _on("read")),
        _of("no block was evicted", _on("evict")),
    ),
    "S4-operations": (_of("nothing that was begun was completed", OVER),),
    "F1-partial-failure": (_of("no load and no store failed", "failed", "store_failed"),),
    "F2-claim-retracted": (
        _of("no load failed", _on("load_failed")),
        _of("no block was looked up after its load had failed", "asked after a failure"),
    ),
    "F3-tier-raises": (_of("no tier was called that raises", "a tier raised"),),
    "C1-cascade-once": (
        _of("no block was copied to a tier", _on("copy")),
        _of("no copy to a tier succeeded", "copied"),
    ),
    "C2-cascade-reoffered": (
        _of("no copy to a tier was refused or failed", "refused", "copied_again_later"),
        _of("no copy was offered a second time", "a copy was offered again"),
    ),
    "R1-reset": (
        _of("a reset found no block", FORGOTTEN),
        _of("nothing from before a reset reported after it", LATE),
    ),
    "Q1-finish": (_of("no tier was to be told of an end", _on("tell")),),
    "P1-progress": (
        _of("no request let go of a promise", _on("let_go")),
        _of("no deadline passed", "timed_out", _on("overdue")),
    ),
    "P2-room-for-stores": (
        _of(
            "no promotion and no store met a full primary tier",
            *("no_permit", "no_slot", "a store had too little room"),
        ),
    ),
    "W1-pending-work": (
        _of("no work was ever pending", "work was pending"),
        _of("there was never nothing to do", "no work was pending"),
    ),
    "A1-promote-what-is-read": (_of("no plan promoted a block", "plan_promotes"),),
    "E1-events": (
        _of("no block became resident", LANDED),
        _of("no resident block left", _on("evict"), FORGOTTEN),
    ),
    "D1-bytes": (_of("no bytes were read", "bytes were read"),),
}
"""What each contract of a manager speaks of. A2 is not here: it is the consumer that asks."""


def not_reached(contract: str, reached: Collection[str]) -> str:
    """What never came about although the contract speaks of it; empty when everything did."""
    return " and ".join(_lacking(contract, reached))


def _lacking(contract: str, reached: Collection[str]) -> Iterator[str]:
    for situation in SITUATIONS.get(contract, ()):
        if situation.marks.isdisjoint(reached):
            yield situation.without
