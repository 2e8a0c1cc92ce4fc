"""The formulas of the geometry, proved for all sizes: what the tests compare for small ones.

Sizes are integers without bound. Chunk `i` of `c` tokens holds the tokens from i*c up to i*c+c; a
quotient is introduced by what defines it, so that no division reaches the solver. Each theorem is
stated as its negation, which must be unsatisfiable; `unknown` is an error.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import z3

RLIMIT = 50_000_000


@dataclass(frozen=True)
class Theorem:
    """A formula and what it must be equal to."""

    name: str
    negation: Callable[[], list[z3.BoolRef]]


def _quotient(of: z3.ArithRef, chunk: z3.ArithRef, result: z3.ArithRef) -> z3.BoolRef:
    """`result` is `of` divided by `chunk`, rounded down."""
    return z3.And(result * chunk <= of, of < result * chunk + chunk)


def _rising(a: z3.ArithRef, b: z3.ArithRef, c: z3.ArithRef) -> z3.BoolRef:
    """What multiplication by a positive number keeps: an instance, since it is not linear."""
    return z3.And(z3.Implies(a <= b, a * c <= b * c), z3.Implies(a >= b + 1, a * c >= b * c + c))


def _reads() -> list[z3.BoolRef]:
    """A chunk is read exactly when it holds a token that is needed and not on the GPU."""
    c, h, p, reach, i, t = z3.Ints("chunk hit on_gpu reach i t")
    first, behind, last = z3.Ints("first behind last")
    back = z3.If(h - reach + 1 > 0, h - reach + 1, 0)
    sizes = [c >= 1, h >= 1, p >= 0, h > p, reach >= 2, i >= 0]
    formula = z3.And(_quotient(p, c, first), _quotient(back, c, behind), _quotient(h - 1, c, last))
    inside = z3.And(i >= first, i >= behind, i <= last)
    lowest = z3.If(p > back, p, back)
    # the only candidate that matters: the first token of the chunk that may be needed
    t_is = t == z3.If(i * c > lowest, i * c, lowest)
    holds = z3.And(lowest <= t, t < h, i * c <= t, t < i * c + c)
    rising = [_rising(i, x, c) for x in (first, behind, last)]
    rising += [_rising(x, i, c) for x in (first, behind, last)]
    return [*sizes, formula, t_is, *rising, inside != holds]


def _first_token() -> list[z3.BoolRef]:
    """If any token of a chunk is needed, so is the first one that may be: `reads` misses none."""
    c, i, t, lowest, h, first = z3.Ints("chunk i t lowest hit first")
    needed = z3.And(lowest <= t, t < h, i * c <= t, t < i * c + c)
    first_is = first == z3.If(i * c > lowest, i * c, lowest)
    holds = z3.And(lowest <= first, first < h, i * c <= first, first < i * c + c)
    return [c >= 1, needed, first_is, z3.Not(holds)]


def _ceiling() -> list[z3.BoolRef]:
    """Up to a hit there are as many chunks as its last token's chunk has before it, and itself."""
    c, h, up, last = z3.Ints("chunk hit up last")
    rounded_up = z3.And((up - 1) * c < h, h <= up * c)
    rising = [_rising(up, last + 1, c), _rising(last + 1, up, c)]
    return [c >= 1, h >= 1, rounded_up, _quotient(h - 1, c, last), *rising, up != last + 1]


def _first_boundary() -> list[z3.BoolRef]:
    """If any multiple of a step reads a chunk, so does the first that reaches it: the filter."""
    c, step, i, m, n, reach = z3.Ints("chunk step i m first reach")
    start = i * c
    reads_m = z3.And(m * step > start, m * step - reach + 1 < start + c)
    reads_n = z3.And(n * step > start, n * step - reach + 1 < start + c)
    first = z3.And((n - 1) * step <= start, start < n * step)
    rising = [_rising(n, m, step), _rising(m, n - 1, step)]
    return [c >= 1, step >= 1, i >= 0, m >= 1, reach >= 1, first, *rising, reads_m,
            z3.Not(z3.And(reads_n, n <= m))]  # fmt: skip


def _below() -> list[z3.BoolRef]:
    """Hits that do without a chunk and what follows are those up to where it begins."""
    c, h, i, d, up = z3.Ints("chunk hit i draft up")
    rounded_up = z3.And((up - 1) * c < h, h <= up * c)
    asks_it = up + d > i
    longer = h > (i - d) * c
    rising = [_rising(up, i - d, c), _rising(i - d, up - 1, c), _rising(up - 1, i - d, c)]
    return [c >= 1, h >= 1, i >= 0, d >= 0, d <= 1, i >= d, rounded_up, *rising, asks_it != longer]


def _more_is_more() -> list[z3.BoolRef]:
    """A longer hit of a full group reads whatever a shorter one reads."""
    c, h, g, a, b, i, p = z3.Ints("chunk hit longer a b i on_gpu")
    up = [z3.And((a - 1) * c < h, h <= a * c), z3.And((b - 1) * c < g, g <= b * c)]
    rising = [_rising(a, b, c), _rising(b, a - 1, c), _rising(b, a, c)]
    return [c >= 1, h >= 1, g >= h, *up, *rising, p >= 0, p <= i, i < a, z3.Not(i < b)]


THEOREMS = (
    Theorem("a chunk is read exactly when it holds a token that is needed", _reads),
    Theorem("the first token that may be needed stands for all", _first_token),
    Theorem("rounding up counts the chunks up to a hit", _ceiling),
    Theorem("the first boundary beyond a chunk decides whether it is stored", _first_boundary),
    Theorem("a missing chunk bounds the hit where it begins", _below),
    Theorem("a longer hit of a full group reads what a shorter one reads", _more_is_more),
)


def prove() -> dict[str, str]:
    """Each theorem with `proved`, `refuted` or `unknown`."""
    verdicts = {}
    for theorem in THEOREMS:
        solver = z3.Solver()
        solver.set("rlimit", RLIMIT)
        solver.add(*theorem.negation())
        said = solver.check()
        # the answers of z3 5 cannot be hashed, and `unknown` is neither
        verdicts[theorem.name] = (
            "proved" if said == z3.unsat else "refuted" if said == z3.sat else "unknown"
        )
    return verdicts
