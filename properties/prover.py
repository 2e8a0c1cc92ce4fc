"""A z3 solver that knows the invariants, over sorts of any size or of a given one."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import z3

from ..model.vocabulary import FIELDS
from .invariants import INVARIANTS, Invariant, Known
from .pool import pool_of, subject
from .quantifiers import Choices, Finite, Instances, Quantified, Quantifiers
from .symbolic import ROLE_SORTS
from .terms import BERTHS, PERMITS, Signature, State, Term, decode

HOW = ("quantified", "instantiated")
RLIMIT = 20_000_000
"""Steps of the solver for one question: unlike seconds, the same on every machine."""
SMALL = {"key": 2, "request": 2, "tier": 2, "slot": 3, "transfer": 4, PERMITS: 2, BERTHS: 2}
"""Sizes of the worlds in which counterexamples are looked for."""

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
    """Invariants are asserted once, guards and goals are pushed and popped.

    `how` is quantified, instantiated, or finite, which needs no more than `SMALL` worlds.
    """

    def __init__(
        self,
        how: str = "quantified",
        seed: int = 0,
        rlimit: int = RLIMIT,
        invariants: Sequence[Invariant] = INVARIANTS,
    ) -> None:
        self.signature = sig = Signature(SMALL if how == "finite" else None)
        self.solver = _solver(seed, rlimit)
        self.known: Quantifiers
        self.goal: Quantifiers
        if how == "finite":
            self.known = self.goal = Finite(sig)
        elif how == "quantified":
            self.known = self.goal = Quantified(sig)
        elif how == "instantiated":
            pool = pool_of(sig)
            self.known, self.goal = Instances(sig, pool), Choices(sig, pool)
        else:
            raise ValueError(f"how is one of {HOW}, not {how!r}")
        self.assumed: list[Term] = []
        known = Known(sig.now, sig, self.known)
        for inv in invariants:
            self.assumed.append(z3.Bool(f"invariant: {inv.name}"))
            holds = self.known.all(inv.sorts, lambda *at, inv=inv: inv.holds(known, *at))
            self.solver.add(z3.Implies(self.assumed[-1], holds))

    def subjects(self, sorts: Iterable[str]) -> list[Term]:
        """Arbitrary elements that a goal is about, all different names."""
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

    def open(self, cells: Mapping[str, Term]) -> list[Term]:
        """Push a guard, cell by cell; returns the names to assume."""
        self.solver.push()
        names = [z3.Bool(label) for label in cells]
        for name, cell in zip(names, cells.values(), strict=True):
            self.solver.add(z3.Implies(name, cell))
        return names

    def close(self) -> None:
        """Pop the guard."""
        self.solver.pop()

    def decide(self, goal: Term, names: Sequence[Term] = ()) -> Decision:
        """Does the goal follow from the invariants and the guard?"""
        self.solver.push()
        try:
            self.solver.add(z3.Not(goal))
            result = self.solver.check(*self.assumed, *names)
            if result == z3.unsat:
                core = sorted(str(name) for name in self.solver.unsat_core())
                return Decision("proved", tuple(core))
            return Decision(str(result), (), self.solver.model() if result == z3.sat else None)
        finally:
            self.solver.pop()


def describe(
    model: z3.ModelRef, signature: Signature, roles: Mapping[str, Term], state: State
) -> dict[str, str]:
    """What a model of a finite world says of the roles: cell -> value."""
    named: dict[str, list[tuple[str, Term]]] = {sort: [] for sort in ROLE_SORTS.values()}
    for role, sort in ROLE_SORTS.items():
        named[sort].append((role, roles[role]))
    for sort in FIELDS["waits"].of:
        named[sort].append((f"other {sort}", subject(signature, sort, 1)))
    out = {}
    for name, field in FIELDS.items():
        for at in itertools.product(*(named[sort] for sort in field.of)):
            term = state.raw(name)(*(t for _, t in at))
            shown = model.eval(term, model_completion=True)
            where = f"[{', '.join(n for n, _ in at)}]" if at else ""
            value = {"True": field.values[-1], "False": field.values[0]}.get(str(shown))
            out[name + where] = value or decode(name, shown)
    return out
