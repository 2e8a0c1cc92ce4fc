"""The geometry's formulas for all sizes."""

import z3

from tierproof.properties import geometry_proof


def test_every_formula_of_the_geometry_is_proved_for_all_sizes():
    verdicts = geometry_proof.prove()
    assert set(verdicts.values()) == {"proved"}, verdicts
    assert len(verdicts) == 6


def test_no_theorem_is_vacuous():
    for theorem in geometry_proof.THEOREMS:
        solver = z3.Solver()
        solver.add(*theorem.negation()[:-1])
        assert solver.check() == z3.sat, theorem.name
