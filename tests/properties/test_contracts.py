"""What the contracts say of how they are checked is what is done."""

from tierproof.model.events import EVENTS
from tierproof.model.rules import RULES
from tierproof.properties.contracts import CONTRACTS, PROOF, RUNS, TOUR
from tierproof.properties.questions import scenes
from tierproof.properties.situations import SITUATIONS
from tierproof.properties.waiting_proof import P1
from tierproof.properties.watched import PUT_TO_THE_TEST, UNDRIVEN


def test_a_contract_says_proof_where_there_are_obligations_and_nowhere_else():
    asked = {question.contract for scene in scenes(RULES, EVENTS) for question in scene.questions}
    assert asked | {P1} == {c.id for c in CONTRACTS.values() if PROOF in c.methods}


def test_each_contract_that_the_tour_checks_says_what_would_put_it_to_the_test():
    toured = {c.id for c in CONTRACTS.values() if TOUR in c.methods}
    assert set(SITUATIONS) == toured
    assert set(PUT_TO_THE_TEST) | set(UNDRIVEN) == toured
    assert all(RUNS in CONTRACTS[c].methods for c in toured)
