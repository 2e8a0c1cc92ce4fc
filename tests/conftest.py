"""Hypothesis profiles and markers of this repository; the installed package has none of this."""

import os
from collections.abc import Iterator
from functools import cache
from multiprocessing import forkserver

import pytest
from hypothesis import settings

# The parent is named because Hypothesis makes its own `ci` profile the default where CI is set,
# and that one derandomizes: every run would repeat the same examples and ignore the seed.
_PARENT = settings.get_profile("default")
for _name, _examples, _steps in (
    ("tierproof-dev", 60, 30),
    ("tierproof-ci", 300, 50),
    # Hypothesis keeps what it has tried: four times as many take 4 GiB. Where it is numbers that
    # count, `tierproof soak` serves better.
    ("tierproof-nightly", 5_000, 100),
):
    settings.register_profile(
        _name,
        parent=_PARENT,
        max_examples=_examples,
        stateful_step_count=_steps,
        deadline=None,
        print_blob=True,
    )


pytest_plugins = ["pytester"]
collect_ignore = ["sample_repository"]  # a repository of its own; tests/kit runs its tests


def pytest_addoption(parser: pytest.Parser, pluginmanager: pytest.PytestPluginManager) -> None:
    if not pluginmanager.hasplugin("tierproof"):  # on the path, but not installed
        from tierproof.properties import plugin

        pluginmanager.register(plugin, "tierproof")
    parser.addoption(
        "--run-nightly", action="store_true", help="also run the tests marked `nightly`"
    )


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "gpu: needs torch and a CUDA device")
    config.addinivalue_line("markers", "nightly: takes minutes; run with --run-nightly")
    if not config.getoption("--hypothesis-profile"):
        settings.load_profile("tierproof-ci" if os.environ.get("CI") else "tierproof-dev")


@cache
def _why_no_gpu() -> str | None:
    # Asked only when a test needs it: importing torch takes seconds.
    try:
        import torch
    except ModuleNotFoundError:
        return "torch is not installed"
    return None if torch.cuda.is_available() else "torch sees no CUDA device"


@pytest.fixture(scope="module")
def own_fork_server() -> Iterator[None]:
    """Processes come from a server that has imported what this module's tests need, and no more.

    Else the first test to start one decides: without torch imported every process of the demo takes
    seconds longer, with it every process of the others is slow to fork.
    """
    stop = getattr(forkserver._forkserver, "_stop")  # noqa: B009  # there for tests, and untyped
    stop()
    yield
    stop()


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("gpu") and (reason := _why_no_gpu()):
        pytest.skip(reason)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--run-nightly"):
        return
    nightly = [item for item in items if item.get_closest_marker("nightly")]
    if nightly:
        config.hook.pytest_deselected(items=nightly)
        items[:] = [item for item in items if item not in nightly]
