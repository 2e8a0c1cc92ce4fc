"""A second opinion on the proof: Spacer, which invents its own invariants, and cvc5.

Spacer is given a contract and nothing that strengthens it, over a machine of one key
(`projection`). What it invents is not believed but checked again by the plain solver. cvc5 is
given every obligation as SMT-LIB text, quantified, over sorts of any size, and proves it with no
help from z3.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import z3

from ..model.events import EVENTS, Event
from ..model.rules import RULES, Rule
from .invariants import INVARIANTS, Invariant
from .logic import TRUE, And, Implies, Not, Term
from .projection import Machine

SPACER_RLIMIT = 100_000_000

CONTRACTS = (
    "a free slot is touched by no transfer",
    "a fresh transfer does what the phase of its block says",
    "a block that is being written has its writer",
    "a promotion holds a permit",
    "a promise is about a block that is there or on its way",
    "only the living wait",
    "a block answered HIT is resident",
    "no promotion is submitted twice",
    "a resident block's slot holds its bytes",
    "whoever reads a slot reads the bytes of its key",
    "a cascade said to run is in flight",
    "an offer is parked only while its block is stored, and its request lives",
)
"""Invariants that say what a contract says, of one key; Spacer has to find what they rest on."""


@dataclass(frozen=True)
class Opinion:
    """What Spacer says of a contract: `holds`, `broken` or `unknown`.

    `invented` is the number of clauses of its invariant; `checked` whether the plain solver
    agrees that the invariant holds at the start, is kept by every rule, and implies the contract.
    """

    contract: str
    name: str
    verdict: str
    invented: int
    checked: bool
    seconds: float


def ask_spacer(
    names: Iterable[str] = CONTRACTS,
    rules: Sequence[Rule] = RULES,
    events: Mapping[str, Event] = EVENTS,
    rlimit: int = SPACER_RLIMIT,
) -> list[Opinion]:
    """Ask Spacer about each of these invariants on its own."""
    known = {inv.name: inv for inv in INVARIANTS}
    asked = [known[name] for name in names]
    machine = Machine(rules, events)
    contracts = [machine.holds(invariant) for invariant in asked]
    engine, broken = _horn(machine, contracts, rlimit)
    return [
        _opinion(machine, engine, broken(z3.IntVal(number)), invariant, contract)
        for number, (invariant, contract) in enumerate(zip(asked, contracts, strict=True))
    ]


def _opinion(
    machine: Machine, engine: z3.Fixedpoint, broken: Term, invariant: Invariant, contract: Term
) -> Opinion:
    began = time.perf_counter()
    try:
        result = engine.query(broken)
    except z3.Z3Exception:  # how the engine says that its limit is reached
        result = z3.unknown
    verdict = "holds" if result == z3.unsat else "broken" if result == z3.sat else "unknown"
    invented, checked = 0, False
    if verdict == "holds":
        clauses = _invented(engine.get_answer(), machine)
        invented = len(clauses)
        checked = _inductive(machine, And([TRUE, *clauses]), contract)
    seconds = time.perf_counter() - began
    return Opinion(invariant.contract, invariant.name, verdict, invented, checked, seconds)


def _horn(
    machine: Machine, contracts: Sequence[Term], rlimit: int
) -> tuple[z3.Fixedpoint, Callable[..., Term]]:
    engine = z3.Fixedpoint()
    engine.set(engine="spacer", rlimit=rlimit)
    state = z3.Function("state", *(v.sort() for v in machine.variables), z3.BoolSort())
    broken = z3.Function("broken", z3.IntSort(), z3.BoolSort())
    engine.register_relation(state, broken)
    engine.declare_var(*machine.variables, *machine.inputs)
    now = state(*machine.variables)
    engine.rule(now, machine.start)
    for move in machine.moves:
        engine.rule(state(*move.after), [now, move.guard])
    for number, contract in enumerate(contracts):
        engine.rule(broken(z3.IntVal(number)), [now, Not(contract)])
    return engine, broken


def _invented(answer: Term, machine: Machine) -> list[Term]:
    """The clauses of the invariant in an answer, about the machine's variables."""
    parts = answer.children() if z3.is_and(answer) else [answer]
    for part in parts:
        relation, formula = part.body().children()
        if relation.decl().name() != "state":
            continue
        # de Bruijn: the relation's arguments say which variable has which number
        numbers = [z3.get_var_index(argument) for argument in relation.children()]
        terms = dict(zip(numbers, machine.variables, strict=True))
        shown = z3.substitute_vars(formula, *(terms[i] for i in sorted(terms)))
        return list(shown.children()) if z3.is_and(shown) else [shown]
    return []


def _inductive(machine: Machine, invariant: Term, contract: Term) -> bool:
    """Does the plain solver agree with every step of the argument?"""
    steps = [Implies(machine.start, invariant), Implies(invariant, contract)]
    for move in machine.moves:
        after = z3.substitute(invariant, *zip(machine.variables, move.after, strict=True))
        steps.append(Implies(And(invariant, move.guard), after))
    solver = z3.SimpleSolver()
    for step in steps:
        solver.push()
        solver.add(Not(step))
        result = solver.check()
        solver.pop()
        if result != z3.unsat:
            return False
    return True
