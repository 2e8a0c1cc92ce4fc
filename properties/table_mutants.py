"""Every break of one cell of the table, made from the data, and which of them the proof notices.

A break that the proof does not notice is shown equivalent, by the same solver and for worlds of
any size, or it survives: then a contract is missing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import z3

from ..model.events import EVENTS, Event, Guard
from ..model.rules import RULES, Rule
from ..model.vocabulary import ANSWERS, FIELDS, REASONS, VERBS, WORDS, split
from .logic import FALSE, TRUE, And, Term
from .proof import untouched
from .prover import SMALL, TINY, Prover
from .questions import CAN_HAPPEN, KEEPS, Question, event_scenes, rule_scene
from .symbolic import Transition, transition
from .terms import ALL_LINKS
from .totality import OFFERED

_EQUALLY = ("heir", "asker")
"""Roles that stand for requests, where a link may lead to the wrong one."""


@dataclass(frozen=True)
class TableMutant:
    """A table with one cell broken; `rules` are those that the break touches, `event` theirs."""

    name: str
    table: tuple[Rule, ...]
    events: Mapping[str, Event]
    rules: tuple[str, ...]
    event: str


def table_mutants(
    rules: Sequence[Rule] = RULES, events: Mapping[str, Event] = EVENTS
) -> list[TableMutant]:
    """All one-cell breaks of a table."""
    out = []
    for at, rule in enumerate(rules):
        table = (*rules[:at], *rules[at + 1 :])
        out.append(TableMutant(f"{rule.name} deleted", table, events, (), rule.event))
        for what, broken in _broken_rules(rule, events[rule.event]):
            table = (*rules[:at], broken, *rules[at + 1 :])
            out.append(TableMutant(f"{rule.name}: {what}", table, events, (rule.name,), rule.event))
    for event in events.values():
        mine = tuple(rule.name for rule in rules if rule.event == event.name)
        for what, given in _broken_guards(event.given):
            changed = {**events, event.name: replace(event, given=given)}
            name = f"{event.name}: given {what}"
            out.append(TableMutant(name, tuple(rules), changed, mine, event.name))
    return out


def _broken_rules(rule: Rule, event: Event) -> Iterator[tuple[str, Rule]]:
    for what, when in _broken_guards(rule.when):
        yield f"when {what}", replace(rule, when=when)
    for what, then in _broken_effects(rule.then, event):
        yield f"then {what}", replace(rule, then=then)
    if event.name == "lookup":
        for answer in (*ANSWERS, None):
            if answer != rule.answer:
                yield f"answers {answer}", replace(rule, answer=answer)
    if rule.reason is not None:
        for reason in (*REASONS, None):
            if reason != rule.reason:
                yield f"reason {reason}", replace(rule, reason=reason)


def _broken_guards(guard: Guard) -> Iterator[tuple[str, Guard]]:
    for cell, allowed in guard.items():
        rest = {c: a for c, a in guard.items() if c != cell}
        yield f"{cell} dropped", rest
        known = WORDS[split(cell)[0]]
        for value in known:
            if value in allowed and len(allowed) > 1:
                fewer = tuple(v for v in allowed if v != value)
                yield f"{cell} without {value}", {**guard, cell: fewer}
            # the last value that is missing would only drop the cell once more
            elif value not in allowed and len(allowed) + 1 < len(known):
                yield f"{cell} or {value}", {**guard, cell: (*allowed, value)}
            if allowed == (value,):
                for other in known:
                    if other != value:
                        yield f"{cell} is {other}", {**guard, cell: (other,)}


def _broken_effects(
    then: Mapping[str, Any], event: Event
) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for cell, effect in then.items():
        rest = {c: e for c, e in then.items() if c != cell}
        yield f"{cell} dropped", rest
        name, role = split(cell)
        if name in VERBS:
            others: tuple[str, ...] = tuple(v for v in VERBS[name] if v != effect)
        elif name in FIELDS:
            others = tuple(v for v in FIELDS[name].values if v != effect)
        else:
            others = tuple(r for r in _EQUALLY if effect in _EQUALLY and r != effect)
        for other in others:
            yield f"{cell} = {other}", {**then, cell: other}
        if role is not None:
            for wider in _other_scopes(name, role, event):
                yield f"{cell} of {wider}", {**rest, f"{name}[{wider}]": effect}


def _other_scopes(name: str, role: str, event: Event) -> tuple[str, ...]:
    # "all" where one is meant, and one where all are: a loop too many or too few
    if role != "all":
        return ("all",) if len(FIELDS[name].of) > 1 else ()
    about = {"request": "asker", "tier": "tier"}[FIELDS[name].of[-1]]
    known = event.roles == ("transfer",) or about in event.roles
    return (about,) if known else ()


def kill_by_proof(mutant: TableMutant) -> str | None:
    """The contract that the mutant provably breaks, in a small finite world; None if none is.

    Only what mentions the changed rules is asked: nothing else can have changed.
    """
    scenes = [rule_scene(_named(mutant.table, name), mutant.events) for name in mutant.rules]
    scenes += event_scenes(mutant.table, mutant.events, [mutant.event])
    for prover in (_worlds(tiny=True), _worlds(tiny=False)):
        for scene in scenes:
            found = _first_broken(prover, scene.step(prover), scene.questions)
            if found is not None:
                return found
    for name in mutant.rules:
        if not _can_fire(_named(mutant.table, name), mutant.events):
            return OFFERED[mutant.event][0]
    return None


def _named(rules: Sequence[Rule], name: str) -> Rule:
    return next(rule for rule in rules if rule.name == name)


@cache
def _worlds(*, tiny: bool) -> Prover:
    return Prover("finite", sizes=TINY if tiny else SMALL)


def _first_broken(prover: Prover, step: Any, questions: Sequence[Question]) -> str | None:
    """The contract of a question that one world answers with no."""
    prover.open(step)
    try:
        goals: list[tuple[Question, Term]] = []
        for question in questions:
            if question.name != CAN_HAPPEN and not untouched(question, step):
                goals.append((question, question.goal(prover, step)))
        decision = prover.decide(And([TRUE, *(goal for _, goal in goals)]))
        if decision.model is None:
            return None
        broken = [q for q, goal in goals if z3.is_false(decision.model.eval(goal, True))]
    finally:
        prover.close()
    # a contract's own words rather than an invariant that only serves it
    broken.sort(key=lambda question: question.name.startswith(KEEPS))
    return broken[0].contract


def _can_fire(rule: Rule, events: Mapping[str, Event]) -> bool:
    for prover in (_worlds(tiny=True), _worlds(tiny=False)):
        prover.open(transition(prover.signature, events[rule.event], rule))
        decision = prover.decide(FALSE)
        prover.close()
        if decision.word == "sat":
            return True
    return False


# ------------------------------------------------------------------------------------- equivalence


def is_equivalent(
    mutant: TableMutant, rules: Sequence[Rule] = RULES, events: Mapping[str, Event] = EVENTS
) -> bool:
    """Is the mutant, for worlds of any size, the same table?

    In every state that the invariants allow, the changed rules fire where they did, and lead
    where they led: what was added is impossible there, what was dropped is implied.
    """
    if not mutant.rules:
        return False
    return all(
        _same(_named(rules, name), events, _named(mutant.table, name), mutant.events)
        for name in mutant.rules
    )


@cache
def _any_world() -> Prover:
    return Prover("quantified")


def _same(
    old: Rule, old_events: Mapping[str, Event], new: Rule, new_events: Mapping[str, Event]
) -> bool:
    if (old.answer, old.reason) != (new.answer, new.reason):
        return False
    prover = _any_world()
    one = transition(prover.signature, old_events[old.event], old)
    other = transition(prover.signature, new_events[new.event], new)
    fires = [(one, other), (other, one)]
    return all(_implies(prover, a, b) for a, b in fires) and _agree(prover, one, other)


def _implies(prover: Prover, step: Transition, other: Transition) -> bool:
    """Wherever one can fire, so can the other."""
    own = step.guard(prover.known)
    # what is in both guards holds anyway, and may speak of witnesses that a goal cannot name
    cells = [c for name, c in other.guard(prover.known).items() if not _known(own, name, c)]
    prover.open(step)
    decision = prover.decide(And([TRUE, *cells]))
    prover.close()
    return decision.word == "proved"


def _known(cells: Mapping[str, Term], name: str, cell: Term) -> bool:
    return name in cells and z3.eq(cells[name], cell)


def _agree(prover: Prover, one: Transition, other: Transition) -> bool:
    """Wherever both fire, they lead to the same state."""
    same = [TRUE]
    for name in sorted(one.writes | other.writes):
        of = FIELDS[name].of if name in FIELDS else (ALL_LINKS[name][0],)
        at = prover.subjects(of)
        same.append(one.after.raw(name)(*at) == other.after.raw(name)(*at))
    prover.open(one)
    decision = prover.decide(And(same))
    prover.close()
    return decision.word == "proved"
