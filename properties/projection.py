"""One key, and one of everything else: the table as a finite machine, for a second opinion.

Every value and link is a variable, so there are no functions left, and a solver that invents its
own invariants can be asked. A transfer that has ended may be started again here, or runs would be
short; the real table allows less. What tiers say and filters allow is chosen anew in every step.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import z3

from ..model.events import EVENTS, Event
from ..model.rules import RULES, Rule
from ..model.vocabulary import ENVIRONMENT, FIELDS
from .invariants import Invariant, Known
from .logic import And, If, Read, Term, constant
from .quantifiers import Finite
from .symbolic import Transition, transitions
from .terms import ALL_LINKS, ALL_SORTS, Signature, State, sort_of, value

ONE = dict.fromkeys(ALL_SORTS, 1)


@dataclass(frozen=True)
class Move:
    """A rule: when `guard` holds of the variables, `after` is what they become."""

    rule: str
    guard: Term
    after: Sequence[Term]


class Machine:
    """The table over worlds of a fixed size, as variables, a start and moves."""

    def __init__(
        self,
        rules: Sequence[Rule] = RULES,
        events: Mapping[str, Event] = EVENTS,
        sizes: Mapping[str, int] = ONE,
    ) -> None:
        self.signature = sig = Signature(sizes)
        self._cells: list[tuple[str, tuple[Term, ...], Term]] = []
        functions: dict[str, Read] = {}
        for name, field in FIELDS.items():
            functions[name] = self._table(name, field.of, sort_of(name))
        for name, (of, to) in ALL_LINKS.items():
            functions[name] = self._table(name, (of,), sig.sorts[to])
        kept = list(self._cells)
        sig.now = State(functions)
        sig.allowed = self._table("allowed", ("request", "tier"), z3.BoolSort())
        sig.says = self._table("says", ("tier",), sort_of("says"))
        # what never changes, or is chosen anew, is no part of the state
        chosen = [variable for _, _, variable in self._cells[len(kept) :]]
        self._cells = [
            c for c in kept if not (c[0] in ALL_LINKS and sizes[ALL_LINKS[c[0]][1]] == 1)
        ]
        self.variables = [variable for _, _, variable in self._cells]
        self.start = And([v == sig.start().raw(n)(*at) for n, at, v in self._cells if n in FIELDS])
        self.moves = [self._move(step) for step in transitions(sig, rules, events)]
        said = [constant(word, sort_of(word)) for word in ENVIRONMENT]
        unread = [variable for _, _, variable in set(kept) - set(self._cells)]
        self.inputs = [*chosen, *said, *unread, *sig.constants]
        """What is chosen anew in every move."""

    def _table(self, name: str, of: Sequence[str], sort: z3.SortRef) -> Read:
        """A function that looks its value up among variables."""
        columns = [self.signature.elements[s] for s in of]
        cells: dict[tuple[int, ...], Term] = {}
        for at in itertools.product(*columns):
            where = "_".join([name, *(str(element) for element in at)])
            cells[tuple(e.get_id() for e in at)] = variable = constant(where, sort)
            self._cells.append((name, at, variable))

        def look(*at: Term, found: tuple[int, ...] = ()) -> Term:
            if not at:
                return cells[found]
            *others, last = columns[len(found)]
            if any(at[0].get_id() == e.get_id() for e in (*others, last)):
                return look(*at[1:], found=(*found, at[0].get_id()))
            term = look(*at[1:], found=(*found, last.get_id()))
            for e in others:
                term = If(at[0] == e, look(*at[1:], found=(*found, e.get_id())), term)
            return term

        return look

    def _move(self, step: Transition) -> Move:
        guard = And([z3.simplify(c) for c in step.guard(Finite(self.signature)).values()])
        after = []
        for field, at, _ in self._cells:
            term = step.after.raw(field)(*at)
            if field == "state":  # ids are endless in the table, and few here
                term = If(term == value("state", "ENDED"), value("state", "UNUSED"), term)
            after.append(z3.simplify(term))
        return Move(step.rule.name, guard, after)

    def holds(self, invariant: Invariant) -> Term:
        """An invariant as a formula about the variables."""
        q = Finite(self.signature)
        known = Known(self.signature.now, self.signature, q)
        return z3.simplify(q.all(invariant.sorts, lambda *at: invariant.holds(known, *at)))
