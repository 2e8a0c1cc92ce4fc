"""The pytest plugin: options, a marker, and what they bring about.

It is loaded in every pytest run where `tierproof` is installed, so it imports nothing but pytest
until an option or a class of the kit is used, and then changes nothing of other tests.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from .conformance import Kit

MARKER = "tierproof(contract, method): a contract that a manager or a tier is held to"
KIT = pytest.StashKey["Kit"]()
COUNTEREXAMPLES = "tierproof-counterexamples"
"""Where the command line writes tests that fail as long as a manager is broken."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """The options of the kit."""
    group = parser.getgroup("tierproof", "tierproof: hold a manager or a tier to its contracts")
    group.addoption(
        "--tierproof-manager",
        metavar="NAME",
        help="also hold this manager to the contracts: module:factory or file.py:factory, "
        "tierproof, or fault:NAME",
    )
    group.addoption(
        "--tierproof-tier",
        metavar="NAME",
        help="also hold this tier: module:factory or file.py:factory, memory, files, slab, s3, "
        "redis",
    )
    group.addoption(
        "--tierproof-contracts",
        metavar="IDS",
        help="only these contracts, separated by commas: L1-answer-true, or L1 for short",
    )
    group.addoption(
        "--tierproof-budget",
        metavar="SECONDS",
        type=float,
        help="what each manager and each tier may take (default: 60)",
    )
    group.addoption(
        "--tierproof-seed",
        metavar="S",
        type=int,
        help="the first random history (default: 0, so that every run is the same)",
    )
    group.addoption(
        "--tierproof-counterexamples",
        metavar="DIR",
        type=Path,
        help="write each counterexample there as a pytest file of its own; made if need be",
    )
    for form, what in (("json", "JSON"), ("junit", "JUnit XML"), ("html", "one HTML page")):
        group.addoption(
            f"--tierproof-{form}",
            metavar="FILE",
            type=Path,
            help=f"write what was found as {what}, in a folder that is there",
        )


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker, and load the kit where an option asks for it."""
    config.addinivalue_line("markers", MARKER)
    named = [name for name, value in vars(config.option).items() if name.startswith("tierproof_")]
    if any(getattr(config.option, name) is not None for name in named):
        kit_of(config)


def kit_of(config: pytest.Config) -> Kit:
    """The kit of this run, made when it is first needed."""
    kit = config.stash.get(KIT, None)
    if kit is None:
        try:
            from .conformance import Kit
        except ModuleNotFoundError as missing:
            if missing.name is None or missing.name.partition(".")[0] == "tierproof":
                raise
            raise pytest.UsageError(
                f"tierproof: the kit needs {missing.name}, which is not installed; install "
                "tierproof with its extra kit: pip install '.[kit]' in a clone of it"
            ) from None
        kit = config.stash[KIT] = Kit(config)
    return kit


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Counterexamples are found by who names them, and not by a run of all of a user's tests."""
    if collection_path.name != COUNTEREXAMPLES or not collection_path.is_dir():
        return None
    here = config.invocation_params.dir
    named = [(here / arg.partition("::")[0]).resolve() for arg in config.args]
    within = any(path.is_relative_to(collection_path.resolve()) for path in named)
    return None if within else True


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(
    session: pytest.Session, config: pytest.Config, items: list[pytest.Item]
) -> None:
    """Add what the options name, and leave out the contracts that they do not."""
    kit = config.stash.get(KIT, None)
    if kit is not None:
        kit.collect(session, items)


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Say in pytest's own JUnit file what was checked, and by what."""
    mark = item.get_closest_marker("tierproof")
    if mark is not None:
        kit_of(item.config).describe(item, mark)


def pytest_report_header(config: pytest.Config) -> str | None:
    """The versions on which every verdict depends."""
    kit = config.stash.get(KIT, None)
    return None if kit is None else kit.header()


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """How much was tried, and where the reports are."""
    kit = config.stash.get(KIT, None)
    if kit is not None:
        for line in kit.summary():
            terminalreporter.write_line(line)


@pytest.hookimpl(wrapper=True)
def pytest_sessionfinish(session: pytest.Session) -> Iterator[None]:
    """Stop the servers of tiers, and write the reports."""
    kit = session.config.stash.get(KIT, None)
    try:
        return (yield)
    finally:
        if kit is not None:
            kit.finish()
