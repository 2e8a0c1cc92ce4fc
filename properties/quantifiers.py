"""Three ways to say "for every" and "there is one": quantified, over ground terms, over finite
sorts.

What is said about a state is written once, with `q.all` and `q.some`, and without negating
either.
* `Quantified` leaves them to the solver: the theorem of record.
* `Instances` replaces a hypothesis by its instances at chosen terms, a goal's "there is one" by a
  choice among them. Both only weaken what is known, so whatever is proved that way is a theorem
  for sorts of any size as well; it is decidable and fast: the daily run.
* `Finite` enumerates sorts of a given size: its models are real, so it is the one that refutes.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

import z3

from .logic import And, Or, Term, function, wrap
from .terms import Signature

Body = Callable[..., Term]


class Quantifiers(Protocol):
    """How to read a statement about all, or about some, elements of a sort."""

    def all(self, sorts: Sequence[str], body: Body) -> Term:
        """`body` holds of all elements."""

    def some(self, sort: str, body: Body, witness: str, *over: Term) -> Term:
        """`body` holds of an element, which depends on `over` and may be called `witness`."""


class Quantified:
    """Quantifiers as the solver knows them.

    `named` are elements that a goal's "there is one" is tried with as well. That adds nothing to
    what is said, and spares the solver a guess: a rule's own asker is a term it may not think of.
    """

    def __init__(self, signature: Signature, *named: tuple[str, str]) -> None:
        self._signature, self._named = signature, named

    def all(self, sorts: Sequence[str], body: Body) -> Term:
        """A universally quantified formula."""
        variables = [self._signature.fresh(s) for s in sorts]
        return wrap(z3.ForAll(variables, body(*variables))) if variables else body()

    def some(self, sort: str, body: Body, witness: str, *over: Term) -> Term:
        """An existentially quantified formula."""
        variable = self._signature.fresh(sort)
        there_is = wrap(z3.Exists([variable], body(variable)))
        tried = [self._signature.constant(name, s) for name, s in self._named if s == sort]
        return Or([there_is, *map(body, tried)]) if tried else there_is


class Finite:
    """Conjunctions and disjunctions over the elements of enumerated sorts."""

    def __init__(self, signature: Signature) -> None:
        self._elements = signature.elements

    def all(self, sorts: Sequence[str], body: Body) -> Term:
        """A conjunction over all tuples of elements."""
        return And([body(*e) for e in itertools.product(*(self._elements[s] for s in sorts))])

    def some(self, sort: str, body: Body, witness: str, *over: Term) -> Term:
        """A disjunction over all elements."""
        return Or([body(e) for e in self._elements[sort]])


class Instances:
    """Hypotheses at the terms of `pool`; a witness is a Skolem function of what it depends on."""

    def __init__(self, signature: Signature, pool: Mapping[str, Sequence[Term]]) -> None:
        self._signature, self._pool = signature, pool

    def all(self, sorts: Sequence[str], body: Body) -> Term:
        """A conjunction over all tuples of terms of the pool."""
        return And([body(*e) for e in itertools.product(*(self._pool[s] for s in sorts))])

    def some(self, sort: str, body: Body, witness: str, *over: Term) -> Term:
        """`body` holds of the witness."""
        return body(skolem(self._signature, witness, sort, *over))


class Choices(Instances):
    """The same for a goal, which is negated: some term of the pool will do.

    A goal names its arbitrary elements itself; a further "for every" would be weakened here.
    """

    def all(self, sorts: Sequence[str], body: Body) -> Term:
        """Refused: instances of a goal would prove less than it says."""
        raise NotImplementedError("state what is arbitrary in a goal as one of its sorts")

    def some(self, sort: str, body: Body, witness: str, *over: Term) -> Term:
        """A disjunction over the terms of the pool."""
        return Or([body(e) for e in self._pool[sort]])


class Guarding:
    """A guard's "there is one" is the constant that the rule's effects may speak of."""

    def __init__(self, signature: Signature, others: Quantifiers) -> None:
        self._signature, self.all = signature, others.all

    def some(self, sort: str, body: Body, witness: str, *over: Term) -> Term:
        """`body` holds of the constant called `witness`."""
        return body(self._signature.constant(witness, sort))


def skolem(signature: Signature, witness: str, sort: str, *over: Term) -> Term:
    """The element called `witness` that depends on `over`."""
    domain = [term.sort() for term in over]
    return function(f"{witness}!", *domain, signature.sorts[sort])(*over)
