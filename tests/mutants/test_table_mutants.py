"""Every one-cell break of the table is killed by the proof or proved equivalent."""

from collections import Counter

import pytest

from tierproof.properties.mutants import EQUIVALENT, KILLED, SURVIVED, table_fates
from tierproof.properties.table_mutants import is_equivalent, kill_by_proof, table_mutants


def test_there_are_as_many_breaks_as_there_were():
    assert len(table_mutants()) >= 1_800


@pytest.mark.parametrize("name", ["promote answers RETRY", "failed then retracted[tier] dropped"])
def test_a_break_is_killed_by_the_proof(name):
    mutant = next(m for m in table_mutants() if m.name.replace(":", "") == name)
    assert kill_by_proof(mutant) is not None
    assert not is_equivalent(mutant)


@pytest.mark.nightly
def test_no_break_of_the_table_survives():
    verdicts = Counter(fate.verdict for fate in table_fates())
    assert verdicts[SURVIVED] == 0
    assert set(verdicts) <= {KILLED, EQUIVALENT}
