"""A z3 solver that knows the invariants, over sorts of any size or of a given one."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import z3

from ..model.vocabulary import FIELDS
from .invariants import INVARIANTS, Invariant, Known
from .logic import Implies, Not, Term
from .pool import pool_of, subject, tuples
from .quantifiers import Choices, Finite, Instances, Quantified, Quantifiers
from .symbolic import ROLE_SORTS, Transition
from .terms import BERTHS, PERMITS, Signature, State, decode

HOW = ("quantified", "instantiated")
RLIMIT = 20_000_000
"""Steps of the solver for one question: unlike seconds, the same on every machine."""
SMALL = {"key": 2, "request": 2, "tier": 2, "slot": 3, "transfer": 4, PERMITS: 2, BERTHS: 2}
"""Sizes of the worlds in which counterexamples are looked for."""
TINY = {"key": 1, "request": 2, "tier": 2, "slot": 2, "transfer": 3, PERMITS: 1, BERTHS: 1}
"""Sizes of a world in which every rule can fire, and most counterexamples live."""

# Instances far from the goal are made only when nearer ones do not suffice: the links of the table
# run in circles (slot, owner, slot), and eager instantiation follows them without end. Without
# models the solver says so at once where no instance helps. Both are read when a solver is made.
_SEARCH = {"smt.qi.eager_threshold": (1.0, 10.0), "smt.mbqi": (False, True)}


def _solver(seed: int, rlimit: int) -> z3.Solver:
    for name, (ours, _) in _SEARCH.items():
        z3.set_param(name, ours)
    try:
        solver = z3.SimpleSolver()
        solver.set("random_seed", seed, "rlimit", rlimit)
        solver.check()  # only now are the settings read
    finally:
        for name, (_, usual) in _SEARCH.items():
            z3.set_param(name, usual)
    return solver


@dataclass(frozen=True)
class Decision:
    """`proved` with the names that the proof used, or the solver's own word, with its model."""

    word: str
    core: tuple[str, ...] = ()
    model: z3.ModelRef | None = None


class Prover:
    """Knows the invariants; `open` and `close` a transition, `decide` goals about it.

    `how` is quantified, instantiated, or finite: over sorts of the given sizes only.
    """

    def __init__(
        self,
        how: str = "quantified",
        seed: int = 0,
        rlimit: int = RLIMIT,
        invariants: Sequence[Invariant] = INVARIANTS,
        sizes: Mapping[str, int] = SMALL,
    ) -> None:
        if how not in (*HOW, "finite"):
            raise ValueError(f"how is one of {HOW}, not {how!r}")
        self.how, self.invariants = how, invariants
        self.signature = Signature(sizes if how == "finite" else None)
        self.solver = _solver(seed, rlimit)
        self.names = {inv.name: z3.Bool(f"invariant: {inv.name}") for inv in invariants}
        self.facts: list[tuple[str, Term]] = []
        """The invariants as formulas, by name, where they are not taken at terms only."""
        self._cells: list[Term] = []
        self._instances: dict[tuple[object, ...], Term] = {}
        self.known: Quantifiers
        self.goal: Quantifiers
        if how == "finite":
            self.known = self.goal = Finite(self.signature)
        else:
            self.known = Quantified(self.signature)
            self.goal = Quantified(self.signature, ("asker", "request"))
        if how != "instantiated":
            known = Known(self.signature.now, self.signature, self.known)
            for inv in invariants:
                holds = self.known.all(inv.sorts, partial(inv.holds, known))
                self.facts.append((inv.name, holds))
                self.solver.add(Implies(self.names[inv.name], holds))

    def open(self, step: Transition | None, assuming: bool = True) -> None:
        """Push a transition's guard, cell by cell, or nothing; what is known, if `assuming`."""
        self.solver.push()
        if self.how == "instantiated":
            self._instantiate(step, assuming)
        cells = {} if step is None else step.guard(self.known)
        self._cells = [z3.Bool(label) for label in cells]
        for name, cell in zip(self._cells, cells.values(), strict=True):
            self.solver.add(Implies(name, cell))

    def close(self) -> None:
        """Pop what was opened."""
        self.solver.pop()

    def _instantiate(self, step: Transition | None, assuming: bool) -> None:
        sig = self.signature
        pool = pool_of(sig, step)
        self.known, self.goal = Instances(sig, pool), Choices(sig, pool)
        known = Known(sig.now, sig, self.known)
        for inv in self.invariants if assuming else ():
            for at in tuples(pool, inv.sorts):
                which = (inv.name, *(term.get_id() for term in at))
                if which not in self._instances:
                    # with its terms, whose numbers stay theirs as long as somebody holds them
                    self._instances[which] = (inv.holds(known, *at), at)
                # as a fact: that cores name no invariants here is what makes this way fast
                self.solver.add(self._instances[which][0])

    def subjects(self, sorts: Iterable[str]) -> list[Term]:
        """Arbitrary elements that a goal is about."""
        seen: Counter[str] = Counter()
        out = []
        for sort in sorts:
            seen[sort] += 1
            out.append(subject(self.signature, sort, seen[sort]))
        return out

    def holds(self, invariant: Invariant, state: State) -> Term:
        """The invariant as a goal about arbitrary elements of a state."""
        at = self.subjects(invariant.sorts)
        return invariant.holds(Known(state, self.signature, self.goal), *at)

    def model(self) -> z3.ModelRef | None:
        """A state in which the invariants and what is open hold."""
        result = self.solver.check(*self.names.values(), *self._cells)
        return self.solver.model() if result == z3.sat else None

    def decide(self, goal: Term, assuming: bool = True) -> Decision:
        """Does the goal follow from what is open, and from the invariants if `assuming`?"""
        if z3.is_true(z3.simplify(goal)):
            return Decision("proved")
        self.solver.push()
        try:
            self.solver.add(Not(goal))
            invariants = self.names.values() if assuming and self.how != "instantiated" else ()
            result = self.solver.check(*invariants, *self._cells)
            if result == z3.unsat:
                core = sorted(str(name) for name in self.solver.unsat_core())
                return Decision("proved", tuple(core))
            return Decision(str(result), (), self.solver.model() if result == z3.sat else None)
        finally:
            self.solver.pop()


def describe(
    model: z3.ModelRef, signature: Signature, roles: Mapping[str, Term] | None, state: State
) -> dict[str, str]:
    """What a model of a finite world says of the roles: cell -> value."""
    if roles is None:
        roles = {role: signature.constant(role, sort) for role, sort in ROLE_SORTS.items()}
    named: dict[str, list[tuple[str, Term]]] = {sort: [] for sort in ROLE_SORTS.values()}
    for role, sort in ROLE_SORTS.items():
        named[sort].append((role, roles[role]))
    for sort in FIELDS["waits"].of:
        named[sort].append((f"other {sort}", subject(signature, sort, 1)))
    out = {}
    for name, field in FIELDS.items():
        for at in itertools.product(*(named[sort] for sort in field.of)):
            term = state.raw(name)(*(t for _, t in at))
            where = f"[{', '.join(n for n, _ in at)}]" if at else ""
            out[name + where] = decode(name, model.eval(term, model_completion=True))
    return out
