"""Constructors of z3 terms, as fast as they can be from Python.

z3's own convert and compare the sorts of every argument in Python, which takes longer than the
proof. These leave the check to the library, which refuses terms of the wrong sort all the same."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

import z3
from z3 import z3core

# Ctrl-C is for Python to hear: z3 would end one question by it, of thousands, and tell nobody.
z3.set_param("ctrl_c", False)

Term: TypeAlias = Any
"""A z3 expression; z3 ships no types."""
Read: TypeAlias = Callable[..., Term]

_context = z3.main_ctx()
_ref = _context.ref()


class Thing(z3.ExprRef):  # type: ignore[misc]  # z3 ships no types
    """A term of any sort but Boolean."""

    __hash__ = z3.ExprRef.__hash__

    def __eq__(self, other: Term) -> Term:
        return Truth(z3core.Z3_mk_eq(_ref, self.ast, other.ast), _context)

    def __ne__(self, other: Term) -> Term:
        return Not(self == other)


class Truth(z3.BoolRef):  # type: ignore[misc]  # z3 ships no types
    """A formula."""

    __hash__ = z3.BoolRef.__hash__

    def __eq__(self, other: Term) -> Term:
        return Truth(z3core.Z3_mk_eq(_ref, self.ast, other.ast), _context)

    def __ne__(self, other: Term) -> Term:
        return Not(self == other)


def wrap(term: Term) -> Term:
    """A term of z3's own as one of ours."""
    return (Truth if z3.is_bool(term) else Thing)(term.ast, _context)


TRUE, FALSE = wrap(z3.BoolVal(True)), wrap(z3.BoolVal(False))


def _array(terms: list[Term]) -> Term:
    array = (z3.Ast * len(terms))()
    for i, term in enumerate(terms):
        array[i] = term.ast
    return array


def _list(terms: tuple[Term, ...]) -> list[Term]:
    if len(terms) == 1 and not isinstance(terms[0], z3.ExprRef):
        return list(terms[0])
    return list(terms)


def truth(holds: bool) -> Term:
    """A Boolean of Python's as a formula."""
    return TRUE if holds else FALSE


def And(*terms: Term | Iterable[Term]) -> Term:
    """All of them hold; where there is none, that is true."""
    several = _list(terms)
    if len(several) < 2:
        return several[0] if several else TRUE
    return Truth(z3core.Z3_mk_and(_ref, len(several), _array(several)), _context)


def Or(*terms: Term | Iterable[Term]) -> Term:
    """One of them holds.

    Raises:
        ValueError: there is none; that it is false is seldom what was meant.
    """
    several = _list(terms)
    if not several:
        raise ValueError("one of nothing")
    if len(several) == 1:
        return several[0]
    return Truth(z3core.Z3_mk_or(_ref, len(several), _array(several)), _context)


def Not(term: Term) -> Term:
    """It does not hold."""
    return Truth(z3core.Z3_mk_not(_ref, term.ast), _context)


def Implies(if_: Term, then: Term) -> Term:
    """If the first holds, so does the second."""
    return Truth(z3core.Z3_mk_implies(_ref, if_.ast, then.ast), _context)


def If(condition: Term, then: Term, otherwise: Term) -> Term:
    """One term or the other."""
    ast = z3core.Z3_mk_ite(_ref, condition.ast, then.ast, otherwise.ast)
    return (Truth if isinstance(then, z3.BoolRef) else Thing)(ast, _context)


def function(name: str, *sorts: z3.SortRef) -> Read:
    """An uninterpreted function; the last sort is that of its values."""
    declared = z3.Function(name, *sorts)
    decl, width = declared.ast, len(sorts) - 1
    kind = Truth if sorts[-1] == z3.BoolSort() else Thing

    def apply(*at: Term) -> Term:
        return kind(z3core.Z3_mk_app(_ref, decl, width, _array(list(at))), _context)

    apply.declared = declared  # type: ignore[attr-defined]  # for who wants the declaration itself
    return apply


def constant(name: str, sort: z3.SortRef) -> Term:
    """An uninterpreted constant."""
    return wrap(z3.Const(name, sort))
