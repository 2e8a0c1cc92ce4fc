"""What a fault is, and how one is made: a part of the manager, with one method that is wrong.

A fault is a subclass of the manager or of one of its parts. Its docstring says what goes wrong, its
name is the class's. Only the one manager that the factory builds is broken: the class of its part
is exchanged after it has been built, so nothing leaks into another manager.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from ...impl.cascades import Cascades
from ...impl.claims import Claims
from ...impl.lookups import Lookups
from ...impl.manager import TieredOffloadingManager
from ...impl.plans import Plans
from ...impl.policies import LeastRecentlyUsed
from ...impl.primary import PrimaryTier
from ...impl.requests import Requests
from ...impl.secondary import Secondary
from ...impl.step import Step
from ...impl.stores import Stores
from ...impl.transfers import Transfers
from ...impl.undecided import Undecided
from ...model.rules import RULES, Rule
from ..contracts import CONTRACTS, TOUR
from ..driver import Factory

Broken = TypeVar("Broken", bound=type)

PARTS: dict[type, Callable[[Any], Iterable[Any]]] = {
    Cascades: lambda m: [m._cascades],
    Claims: lambda m: [m._lookups._claims],
    LeastRecentlyUsed: lambda m: [m._primary.policy],
    Lookups: lambda m: [m._lookups],
    Plans: lambda m: [m._plans],
    PrimaryTier: lambda m: [m._primary],
    Requests: lambda m: [m._requests],
    Secondary: lambda m: m._secondaries,
    Step: lambda m: [m._step],
    Stores: lambda m: [m._stores],
    Transfers: lambda m: [m._transfers],
    Undecided: lambda m: [m._undecided],
}
"""Where the parts of a manager are found."""


@dataclass(frozen=True)
class Fault:
    """A manager with one thing wrong, and what must notice it."""

    name: str
    says: str
    kind: str
    """The kind of public failure that it stands for."""
    contract: str
    """The contract that it breaks."""
    method: str
    """The method that must catch it."""
    factory: Factory
    rules: tuple[Rule, ...] | None = None
    """The break of the table that goes with it."""
    case: str | None = None
    """The public failure that it is modelled on (`public-cases.md`)."""
    rooms: tuple[str, ...] = ()
    """Rooms of the tour that are about it: walked through first, to save time."""


FAULTS: dict[str, Fault] = {}
HARMLESS: dict[str, Fault] = {}
"""Variants that differ from the shipped manager where the specification leaves the choice."""


def fault(
    contract: str,
    kind: str,
    *rooms: str,
    case: str | None = None,
    method: str = TOUR,
    rules: tuple[Rule, ...] | None = None,
) -> Callable[[Broken], Broken]:
    """Enter a broken subclass of the manager, or of a part, as a fault."""
    assert contract in CONTRACTS, contract

    def enter(broken: Broken) -> Broken:
        name, says = _name(broken), _says(broken)
        assert name not in FAULTS, name
        assert not _invented(broken), f"{name} overrides nothing with {_invented(broken)}"
        FAULTS[name] = Fault(
            name, says, kind, contract, method, _factory(broken), rules, case, rooms
        )
        return broken

    return enter


def harmless(variant: Broken) -> Broken:
    """Enter a variant that must not be accused."""
    name = _name(variant)
    HARMLESS[name] = Fault(name, _says(variant), "harmless", "", "", _factory(variant))
    return variant


def _name(broken: type) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", broken.__name__).lower()


def _invented(broken: type) -> list[str]:
    """Methods that override none: the manager's has another name now, and nothing is broken."""
    own = [name for name, value in vars(broken).items() if inspect.isfunction(value)]
    return [name for name in own if not hasattr(broken.__mro__[1], name)]


def _says(broken: type) -> str:
    return " ".join((broken.__doc__ or "").split()).rstrip(".")


def _factory(broken: type) -> Factory:
    if issubclass(broken, TieredOffloadingManager):
        return broken

    def build(**settings: Any) -> TieredOffloadingManager:
        manager = TieredOffloadingManager(**settings)
        for part in PARTS[broken.__mro__[1]](manager):
            part.__class__ = broken
        # the manager keeps these two at hand, as they were before the exchange
        manager._decide, manager._share = manager._lookups.decide, manager._lookups.share
        return manager

    return build


def without(name: str, *cells: str, table: tuple[Rule, ...] = RULES) -> tuple[Rule, ...]:
    """A table in which one rule lacks some cells of its guard or effects."""
    assert any(rule.name == name for rule in table), name
    return tuple(
        replace(
            rule,
            when={cell: allowed for cell, allowed in rule.when.items() if cell not in cells},
            then={cell: effect for cell, effect in rule.then.items() if cell not in cells},
        )
        if rule.name == name
        else rule
        for rule in table
    )
