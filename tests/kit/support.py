"""Runs of pytest within a test, with the kit's plugin and without."""

from importlib.metadata import entry_points

import tierproof.properties.faults
import tierproof.properties.html_page
import tierproof.properties.manager_conformance
import tierproof.properties.real_tiers
import tierproof.properties.tier_conformance  # noqa: F401  # a run within forgets what it imports
from tierproof.properties import plugin

INSTALLED = any(e.name == "tierproof" for e in entry_points(group="pytest11"))
"""Whether a pytest of its own finds the plugin, of whatever version, by its entry point."""
PLAIN = ("-p", "no:tierproof", "-p", "no:cacheprovider", "-o", "addopts=")
"""The plugin is given as it is imported here: its entry point may be another's, or be missing."""


class Outcomes:
    """A plugin that keeps what became of each test."""

    def __init__(self):
        self.reports = []

    def pytest_runtest_logreport(self, report):
        if report.when == "call" or report.outcome != "passed":
            self.reports.append(report)


def run_kit(pytester, *args):
    """Run pytest in the folder of `pytester`, in this process; the result, with the outcomes."""
    kept = Outcomes()
    result = pytester.runpytest_inprocess(*PLAIN, *args, plugins=[kept, plugin])
    result.reports = kept.reports
    return result
