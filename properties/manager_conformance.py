"""The contracts of a manager as a pytest class: subclass it, give it your factory.

from tierproof.kit import ManagerConformance

class TestMyManager(ManagerConformance):
    factory = MyManager
"""

from __future__ import annotations

import inspect
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import pytest

from .conformance import Kit, pairs, settle, trial_of
from .contracts import CONTRACTS
from .managers import of_factory
from .rooms import ROOMS
from .tour import ENOUGH
from .trial import HISTORIES, ManagerTrial
from .under_test import Clock, ManagerUnderTest


class ManagerConformance:
    """One test for each contract and each method that drives a manager.

    The tests of a class share one tour and one series of random histories. A contract that is not
    claimed, or that cannot be observed, is skipped with that reason; one in `known_gaps` is an
    expected failure, and fails in the tour when it starts to hold.
    """

    claims: ClassVar[Collection[str] | None] = None
    """Ids of the contracts that the manager claims; None: what its attribute `claims` says, else
    all of them."""
    known_gaps: ClassVar[Mapping[str, str] | None] = None
    """Contracts that it claims and is known not to keep yet, each with the reason; None: what its
    attribute `known_gaps` says, else none."""
    contracts: ClassVar[Collection[str]] = tuple(CONTRACTS)
    """Ids of the contracts that there are tests for."""
    rooms: ClassVar[Collection[str] | None] = None
    """Names of the tour's rooms; None: all of them. Fewer are quicker and show less. A manager
    that is judged by what is seen alone has rooms of its own, all of which are walked through."""
    histories: ClassVar[int] = HISTORIES
    """How many random histories, if there is time."""
    enough: ClassVar[int] = ENOUGH
    """Findings after which a room of the tour is left: one is quicker and shows fewer contracts."""
    budget: ClassVar[float | None] = None
    """Seconds for all tests of the class; `--tierproof-budget` overrides it; None: 60."""

    @staticmethod
    def factory(
        *, slots: int, tiers: Sequence[Any], clock: Clock, block_bytes: int
    ) -> ManagerUnderTest:
        """Build a manager: a class, a function or a method may stand here."""
        raise NotImplementedError(
            "override factory(*, slots, tiers, clock, block_bytes) in the class of the tests"
        )

    @classmethod
    def pytest_generate_tests(cls, metafunc: pytest.Metafunc) -> None:
        """A test for each contract and method."""
        if metafunc.function.__name__ == "test_contract" and "method" in metafunc.fixturenames:
            metafunc.parametrize(
                ("contract", "method"),
                [
                    pytest.param(c, m, marks=pytest.mark.tierproof(contract=c, method=m))
                    for c, m in pairs()
                    if c in cls.contracts
                ],
            )

    def test_contract(self, contract: str, method: str, request: pytest.FixtureRequest) -> None:
        """Hold the manager to one contract by one method."""
        settle(trial_of(request, self._trial), contract, method)

    def _trial(self, kit: Kit) -> ManagerTrial:
        factory = factory_of(self)
        name = name_of(factory)
        chosen = of_factory(factory, name, claims=self.claims, known_gaps=self.known_gaps)
        rooms = ROOMS if self.rooms is None else [r for r in ROOMS if r.name in self.rooms]
        return ManagerTrial(
            chosen,
            budget=kit.budget(self.budget),
            seed=kit.seed,
            histories=self.histories,
            rooms=rooms,
            enough=self.enough,
            wanted=[c for c in self.contracts if kit.only is None or c in kit.only],
            folder=kit.folder if ":" in name else None,  # a test must be able to name it
        )


def factory_of(tests: Any) -> Any:
    """The factory of a class of tests; a function that takes no `self` is not made a method."""
    written = inspect.getattr_static(tests, "factory")
    if inspect.isfunction(written) and "self" not in inspect.signature(written).parameters:
        return written
    return tests.factory


def name_of(factory: Any) -> str:
    """What `--manager` would call it: file.py:factory where that can be said, else its name."""
    name = getattr(factory, "__qualname__", type(factory).__qualname__)
    if inspect.ismethod(factory):  # of an instance of the class of tests: nobody else has that
        return str(name)
    try:
        path = Path(inspect.getsourcefile(factory) or "")
    except TypeError:  # not written in Python
        return str(name)
    if "<" in name or not path.name:
        return str(name)
    inside = path.is_relative_to(Path.cwd())
    return f"{path.relative_to(Path.cwd())}:{name}" if inside else f"{factory.__module__}:{name}"
