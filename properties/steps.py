"""What an obligation about a rule may speak of: the state before it, the state after, its roles."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ..model.rules import Rule
from ..model.vocabulary import ENVIRONMENT
from .logic import Term, constant
from .quantifiers import Quantifiers
from .symbolic import Transition
from .terms import Signature, State, among, sort_of
from .words import Roles


@dataclass(frozen=True)
class Step:
    """A transition as an obligation sees it: `s` is the state before, `n` the next one."""

    transition: Transition
    q: Quantifiers

    @property
    def s(self) -> State:
        """The state before the rule."""
        return self.transition.before

    @property
    def n(self) -> State:
        """The state after the rule."""
        return self.transition.after

    @property
    def sig(self) -> Signature:
        """What does not change."""
        return self.transition.signature

    @property
    def rule(self) -> Rule:
        """The rule as data."""
        return self.transition.rule

    @property
    def roles(self) -> Roles:
        """What the event is about."""
        return self.transition.roles

    @property
    def key(self) -> Term:
        """The key that the rule is about."""
        return self.roles["key"]

    @property
    def asker(self) -> Term:
        """The request that the rule is about."""
        return self.roles["asker"]

    @property
    def tier(self) -> Term:
        """The tier that the rule is about."""
        return self.roles["tier"]

    @property
    def x(self) -> Term:
        """The transfer that the rule is about."""
        return self.roles["transfer"]

    @property
    def slot(self) -> Term:
        """The slot that the rule is about."""
        return self.roles["slot"]

    def said(self, word: str, *values: str) -> Term:
        """Is a word of the environment one of these?"""
        assert word in ENVIRONMENT
        return among(word, constant(word, sort_of(word)), values)


Applies = Callable[[Rule], bool]


@dataclass(frozen=True)
class Obligation:
    """After (or at) every rule that it applies to, `goal` holds for all elements of `sorts`."""

    contract: str
    name: str
    sorts: tuple[str, ...]
    applies: Applies
    goal: Callable[..., Term]


OBLIGATIONS: list[Obligation] = []


def obligation(
    contract: str, name: str, *sorts: str, of: Applies = lambda _: True
) -> Callable[[Callable[..., Term]], None]:
    """Enter a function of a `Step` and of elements of `sorts` as an obligation of some rules."""

    def enter(goal: Callable[..., Term]) -> None:
        OBLIGATIONS.append(Obligation(contract, name, sorts, of, goal))

    return enter


def on(*events: str) -> Applies:
    """The rules of these events."""
    return lambda rule: rule.event in events


def named(*names: str) -> Applies:
    """The rules of these names."""
    return lambda rule: rule.name in names


def but(*names: str) -> Applies:
    """All rules but these."""
    return lambda rule: rule.name not in names


def answering(*answers: str) -> Applies:
    """The rules that give one of these answers."""
    return lambda rule: rule.answer in answers


def starting(*kinds: str) -> Applies:
    """The rules that start a transfer of one of these kinds."""
    wanted = {f"start {kind}" for kind in kinds}
    return lambda rule: rule.then.get("transfer") in wanted


def change(s: State, n: State, name: str, *at: Term) -> Term:
    """The value of a field or link is another one afterwards."""
    return s.raw(name)(*at) != n.raw(name)(*at)
