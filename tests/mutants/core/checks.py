"""What may notice a mutant: each unit test, each room of the tour, random histories.

They are collected once, by pytest, in a process that has imported everything; what tries a mutant
is forked from there (`trying`).
"""

from __future__ import annotations

import hashlib
import logging
import os
import sys
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from .making import ROOT

UNIT_TESTS = (
    *("tests/impl", "tests/cases", "tests/consumer/test_two_phases.py"),
    "--ignore=tests/impl/test_arena.py",
)
OPTIONS = ("-q", "-s", "-p", "no:cacheprovider", "--no-header", "--hypothesis-profile=mutants")
HISTORIES = 150
HISTORIES_NAME = "random histories"
KIT = (
    *("batches", "close_rooms", "differences", "driver", "histories", "lockstep", "moves"),
    *("room", "rooms", "scenes", "tour", "under_test"),
)
"""What decides, beside the model, what rooms and histories notice."""


@dataclass(frozen=True)
class Check:
    """Something that passes on the unbroken core; `fails` runs it."""

    name: str
    depends: str
    """A digest of the files that say what it does."""
    fails: Callable[[], bool]
    last: bool = False
    """Is it tried after all others, whatever it takes?"""

    @property
    def mark(self) -> str:
        """Another one when it checks something else."""
        return hashlib.sha256(f"{self.name} {self.depends}".encode()).hexdigest()[:8]


def collected(tests: Sequence[str], whole: bool, then: Callable[[list[Check]], None]) -> None:
    """Collect with pytest and call `then` with all checks, in this process, from within pytest.

    Args:
        tests: what pytest collects.
        whole: also the rooms of the tour and random histories.
        then: gets the checks; what it prints is lost.
    """
    from hypothesis import Phase, settings

    # Equal from run to run; and what fails need not be made smaller.
    settings.register_profile(
        "mutants",
        max_examples=20,
        derandomize=True,
        database=None,
        deadline=None,
        phases=(Phase.explicit, Phase.generate),
    )

    class Plugin:
        @pytest.hookimpl(tryfirst=True)
        def pytest_runtestloop(self, session: pytest.Session) -> bool:
            if session.testsfailed:  # a module of tests cannot be imported
                raise session.Interrupted("the tests cannot be collected")
            checks = [_of_item(item) for item in session.items]
            then(checks + (list(_of_the_kit()) if whole else []))
            return True

    os.chdir(ROOT)
    with open(os.devnull, "w") as nothing:  # the collection is told by pytest: keep it from view
        out, sys.stdout = sys.stdout, nothing
        try:
            code = pytest.main([*OPTIONS, *tests], plugins=[Plugin()])
        finally:
            sys.stdout = out
    if code not in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
        raise SystemExit(f"the tests cannot be collected: pytest ends with {code!r}")


def digest(*paths: Path) -> str:
    """Of the contents of files."""
    found = hashlib.sha256()
    for path in sorted(paths):
        found.update(path.read_bytes())
    return found.hexdigest()


def _of_item(item: pytest.Item) -> Check:
    from _pytest.runner import runtestprotocol

    def fails() -> bool:
        logging.getLogger("tierproof").setLevel(logging.NOTSET)
        return any(report.failed for report in runtestprotocol(item, log=False, nextitem=None))

    support = item.path.parent / "support.py"
    return Check(item.nodeid, digest(item.path, *([support] if support.exists() else [])), fails)


def _of_the_kit() -> Sequence[Check]:
    from tierproof.properties.histories import first_found
    from tierproof.properties.managers import shipped
    from tierproof.properties.rooms import ROOMS
    from tierproof.properties.tour import walk

    kit = digest(*(ROOT / "properties" / f"{n}.py" for n in KIT), *(ROOT / "model").glob("*.py"))

    def of_room(room: Any) -> Check:
        def fails() -> bool:
            logging.getLogger("tierproof").setLevel(logging.CRITICAL + 1)
            return bool(walk(shipped, room, enough=1).divergences)

        return Check(f"room {room.name}", kit, fails)

    def histories() -> bool:
        logging.getLogger("tierproof").setLevel(logging.CRITICAL + 1)
        return first_found(shipped, range(HISTORIES)) is not None

    return [*map(of_room, ROOMS), Check(HISTORIES_NAME, kit, histories, last=True)]


def noticed(check: Check) -> bool:
    """Run a check: does it fail? What it cannot handle counts as noticed."""
    try:
        return check.fails()
    except BaseException:
        traceback.print_exc()
        return True
