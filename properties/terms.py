"""States of the table as z3 terms: sorts, values, and functions from indices to values.

A field is a function of its indices, a link a function to another sort; a state is one such
function for each of them. A state after a rule is built from the state before it
(`symbolic.after`), so there are no primed symbols, hence no frame axioms and no forgotten
"modifies".

Sorts are uninterpreted, that is, of any size, for the proof (`Signature()`), and enumerated for
counterexamples (`Signature({"key": 2, ...})`): what is said about a state is written once for
both.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from functools import cache

import z3

from ..model.vocabulary import FIELDS, LINKS, SORTS, WORDS
from .logic import FALSE, TRUE, Not, Or, Read, Term, constant, function, wrap

PERMITS, BERTHS = "permit token", "berth token"
ALL_SORTS = (*SORTS, PERMITS, BERTHS)
# The share is bounded without counting: each withheld slot holds a token, and no two hold the same.
# There are as many tokens as the share allows, whatever that number is.
TOKENS = {
    "permit_of": ("slot", PERMITS),
    "permit_holder": (PERMITS, "slot"),
    "berth_of": ("slot", BERTHS),
    "berth_holder": (BERTHS, "slot"),
}
ALL_LINKS = {**{name: (link.of, link.to) for name, link in LINKS.items()}, **TOKENS}
CLAIMS = ("CLAIMS", "UNDECIDED", "RAISED", "TIMED_OUT", "UNCLAIMED")
"""What one tier says to one asker about one key, were it asked now."""

_TWO_VALUED = (("NO", "YES"), ("NONE", "SOME"))
_serial = itertools.count()


@cache
def _values(values: tuple[str, ...]) -> tuple[z3.SortRef, Mapping[str, Term]]:
    # Two-valued words are Booleans, which the solver decides without its theory of datatypes. The
    # name of an enumeration may exist only once in a z3 context, hence the cache and the number.
    if values in _TWO_VALUED:
        return z3.BoolSort(), {values[0]: FALSE, values[1]: TRUE}
    sort, constants = z3.EnumSort(f"v{next(_serial)}", [f"v{next(_serial)}_{v}" for v in values])
    return sort, dict(zip(values, map(wrap, constants), strict=True))


def values_of(word: str) -> tuple[str, ...]:
    """The values of a word; `says` is what one tier says."""
    return CLAIMS if word == "says" else WORDS[word]


def sort_of(word: str) -> z3.SortRef:
    """The z3 sort of a word's values."""
    return _values(values_of(word))[0]


def value(word: str, name: str) -> Term:
    """The constant for one value of a word."""
    return _values(values_of(word))[1][name]


def among(word: str, term: Term, allowed: tuple[str, ...]) -> Term:
    """Is `term`, a value of `word`, one of `allowed`?

    Raises:
        ValueError: no value is allowed (`Or([])` would be silently false), or one is unknown.
    """
    known = values_of(word)
    if not allowed or not set(allowed) <= set(known):
        raise ValueError(f"{word} may be some of {known}, not {allowed!r}")
    if known in _TWO_VALUED:
        wanted = {a == known[1] for a in allowed}
        if len(wanted) == 2:
            return TRUE
        return term if wanted == {True} else Not(term)
    return Or([term == value(word, a) for a in allowed])


def decode(word: str, term: Term) -> str:
    """The name of a constant that a model gave for a word."""
    return _names(values_of(word))[term.get_id()]


@cache
def _names(values: tuple[str, ...]) -> Mapping[int, str]:
    # equal terms are one term in z3, with one number as long as somebody holds it
    return {constant.get_id(): name for name, constant in _values(values)[1].items()}


class State:
    """One function for each field and link.

    `state.phase(k, "QUEUED", "LOADING")` asks whether the phase of k is one of these,
    `state.waits(k, r)` whether a two-valued field is set, `state.slot_of(k)` is the slot. `reads`
    collects what was looked at, so that a rule which writes none of it need not be examined.
    """

    def __init__(self, functions: Mapping[str, Read]) -> None:
        self._functions = dict(functions)
        self.reads: set[str] = set()

    def raw(self, name: str) -> Read:
        """The function itself."""
        self.reads.add(name)
        return self._functions[name]

    def __getattr__(self, name: str) -> Read:
        if name.startswith("_"):
            raise AttributeError(name)
        function = self.raw(name)
        if name in ALL_LINKS:
            return function
        width = len(FIELDS[name].of)

        def ask(*args: Term) -> Term:
            allowed = args[width:] or FIELDS[name].values[1:]
            if len(args) == width and FIELDS[name].values not in _TWO_VALUED:
                raise ValueError(f"{name} has {FIELDS[name].values}: say which are meant")
            return among(name, function(*args[:width]), allowed)

        return ask

    def with_functions(self, changed: Mapping[str, Read]) -> State:
        """The same state but for some functions."""
        return State({**self._functions, **changed})


class Signature:
    """The sorts, the functions of the state before a rule, and what never changes."""

    def __init__(self, sizes: Mapping[str, int] | None = None) -> None:
        self.sizes = sizes
        tag = "" if sizes is None else f"!{next(_serial)}"
        self.elements: dict[str, list[Term]] = {}
        self.sorts: dict[str, z3.SortRef] = {}
        for name in ALL_SORTS:
            plain = name.replace(" ", "_")
            if sizes is None:
                self.sorts[name] = z3.DeclareSort(plain.capitalize())
                continue
            names = [f"{plain}{i}{tag}" for i in range(sizes[name])]
            self.sorts[name], elements = z3.EnumSort(f"{plain}{tag}", names)
            self.elements[name] = [wrap(e) for e in elements]
        sort = self.sorts
        functions: dict[str, Read] = {}
        for name, field in FIELDS.items():
            domain = [sort[s] for s in field.of]
            functions[name] = function(f"{name}{tag}", *domain, sort_of(name))
        for name, (of, to) in ALL_LINKS.items():
            functions[name] = function(f"{name}{tag}", sort[of], sort[to])
        self.now = State(functions)
        self.allowed: Read = function(f"allowed{tag}", sort["request"], sort["tier"], z3.BoolSort())
        self.says: Read = function(f"says{tag}", sort["tier"], sort_of("says"))
        self._tag = tag
        self._constants: dict[str, Term] = {}

    def constant(self, name: str, sort: str) -> Term:
        """The constant of that name, the same at every call."""
        full = f"the_{name}{self._tag}"  # a permit is not the field `permit`
        if full not in self._constants:
            self._constants[full] = constant(full, self.sorts[sort])
        return self._constants[full]

    @property
    def constants(self) -> list[Term]:
        """Every constant that was asked for so far."""
        return list(self._constants.values())

    def fresh(self, sort: str) -> Term:
        """A constant that occurs nowhere else."""
        return wrap(z3.FreshConst(self.sorts[sort], "any"))

    def start(self) -> State:
        """The state in which everything begins: each field at its first value, links anyhow."""

        def always(term: Term) -> Read:
            return lambda *_: term

        first = {name: always(value(name, field.values[0])) for name, field in FIELDS.items()}
        return self.now.with_functions(first)
