"""The help says of every argument and option what it takes."""

import pytest

from tierproof.properties.workloads import Workload

from .support import PARAMETERS

INPUTS = {
    "scan workload": "docs/scan.md",
    "doctor --config": "docs/tiers.md",
    "demo --config": "docs/tiers.md",
    "bench manager --from": "--json",
}


@pytest.mark.parametrize("name", PARAMETERS)
def test_every_argument_and_option_has_help(name):
    assert PARAMETERS[name].help


@pytest.mark.parametrize(("name", "where"), INPUTS.items())
def test_a_file_that_is_read_is_described_or_it_is_said_where_it_is(name, where):
    assert where in PARAMETERS[name].help


def test_the_help_of_a_workload_names_every_field_of_it(run):
    for field in Workload.__struct_fields__:
        assert field in PARAMETERS["scan workload"].help
    done = run("scan", "--help")
    assert done.code == 0
    assert "docs/scan.md" in done.out


def test_every_file_that_is_read_is_among_them():
    files = [n for n, one in PARAMETERS.items() if (one.metavar or "").endswith((".json", ".toml"))]
    assert sorted(files) == sorted(INPUTS)
