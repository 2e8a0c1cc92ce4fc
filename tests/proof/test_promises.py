"""The two promise contracts side by side: what the page says is what the solver and search say."""

from __future__ import annotations

import pytest

from tierproof.model.operations import Report
from tierproof.model.rules import RULES
from tierproof.properties.promises import (
    STATUS,
    UNTIL_LANDED,
    UNTIL_READ,
    shortest,
    until_landed,
    verdicts,
)


@pytest.mark.parametrize(("name", "rules"), [(UNTIL_LANDED, until_landed()), (UNTIL_READ, RULES)])
def test_the_page_says_of_each_table_what_the_solver_says(name, rules):
    assert verdicts(rules) == STATUS[name]


def test_until_landed_allows_a_landed_block_to_be_evicted_unread_and_until_read_does_not():
    steps = shortest()
    assert [s.operation.op for s in steps] == [
        "lookup",
        "on_schedule_end",
        "job_ends",
        "prepare_store",
        "lookup",
    ], "lookup, end of step, land, evict (for a store), lookup"
    assert isinstance(steps[2].operation, Report)
    assert [steps[0].until_landed, steps[-1].until_landed] == ["HIT_PENDING", "MISS"]
    assert [steps[0].until_read, steps[-1].until_read] == ["HIT_PENDING", "HIT"]
    assert steps[3].until_read is None, "the store finds no room: the block waits to be read"
