"""P1, the part about time: tiers that waver cannot make anybody wait for ever.

Each tier has one probe deadline for a request and key. Its time runs while it is undecided, what
has run is never given back, and a tier whose time is up is undecided no more. So between two RETRY
answers some tier's time has run all the while, and all RETRY answers of a request for a key lie
within one deadline for each tier that it may ask, but for the last gap between two questions of
each. How many tiers there are does not matter: each theorem is about any one of them.

`ask` is what the reference model does with a tier's answer, as arithmetic. A test performs it on
numbers beside the model.
"""

from __future__ import annotations

from dataclasses import dataclass

import z3

from .logic import Term

P1 = "P1-progress"
RLIMIT = 5_000_000


@dataclass(frozen=True)
class Probe:
    """What is known of one tier, for a request and key.

    `waiting`: it was undecided when it was last asked; `used`: the seconds that it had been
    undecided by then, over all; `over`: it has timed out, and is asked no more.
    """

    waiting: Term
    used: Term
    over: Term


def ask(before: Probe, gap: Term, undecided: Term, deadline: Term) -> Probe:
    """The tier answers, `gap` seconds after it was last asked."""
    ran = before.used + z3.If(before.waiting, gap, 0)
    late = z3.And(undecided, ran >= deadline)
    kept = z3.If(ran > deadline, deadline, ran)
    return Probe(
        waiting=z3.And(z3.Not(before.over), undecided, z3.Not(late)),
        used=z3.If(before.over, before.used, kept),
        over=z3.Or(before.over, late),
    )


def theorems() -> dict[str, tuple[list[Term], Term]]:
    """Each theorem as what is assumed and what follows."""
    waiting, over, undecided = z3.Bools("waiting over undecided")
    used, gap, deadline = z3.Reals("used gap deadline")
    before = Probe(waiting, used, over)
    after = ask(before, gap, undecided, deadline)
    possible = [deadline > 0, gap >= 0, used >= 0, used <= deadline, z3.Not(z3.And(waiting, over))]
    possible.append(z3.Implies(waiting, used < deadline))
    left = z3.If(gap < deadline - used, gap, deadline - used)
    return {
        "what is assumed of a probe stays so": (
            possible,
            z3.And(
                after.used >= 0,
                after.used <= deadline,
                z3.Not(z3.And(after.waiting, after.over)),
                z3.Implies(after.waiting, after.used < deadline),
            ),
        ),
        "no answer gives a tier its time back": (possible, after.used >= used),
        "while a tier makes its asker wait its time runs": (
            [*possible, waiting],
            after.used >= used + left,
        ),
        "a tier whose time is up makes nobody wait": (
            [*possible, used >= deadline],
            z3.Not(after.waiting),
        ),
        "a tier that has timed out makes nobody wait again": (
            [*possible, over],
            z3.And(after.over, z3.Not(after.waiting)),
        ),
    }


def prove(seed: int = 0) -> dict[str, str]:
    """Each theorem with `proved`, `refuted` or `unknown`."""
    verdicts = {}
    for name, (assumed, follows) in theorems().items():
        solver = z3.Solver()
        solver.set("rlimit", RLIMIT)
        solver.set("random_seed", seed)
        solver.add(*assumed, z3.Not(follows))
        said = solver.check()
        # the answers of z3 5 cannot be hashed
        verdicts[name] = (
            "proved" if said == z3.unsat else "refuted" if said == z3.sat else "unknown"
        )
    return verdicts
