"""The two promise contracts side by side: *until landed*, which others keep, and *until read*.

The weaker table is ours with two effects added: a block that lands releases everybody who waits
on it. What it allows is found by breadth-first search, and the same history is then performed under
the table as it is.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, replace

from ..model.operations import Lookup, Operation, Setting, TierSetting
from ..model.reference import Outcome, apply, begin
from ..model.rules import RULES, Rule
from .moves import Menu, moves
from .proof import prove

SETTING = Setting(slots=1, keys=("k0", "k1"), tiers=(TierSetting("t0", has=("k0",)),))
MENU = Menu(loads=False, resets=False, ends=False, withdraw=False, scheduled=False, time=False)
PAIR = ("L2-until-landed", "L3-until-read")
UNTIL_LANDED, UNTIL_READ = "until landed", "until read"
STATUS = {
    UNTIL_LANDED: {"L2-until-landed": "proved", "L3-until-read": "refuted"},
    UNTIL_READ: {"L2-until-landed": "proved", "L3-until-read": "proved"},
}
"""What the solver says of each table; kept as data because a page should not take a minute to
write. A test compares it with `verdicts`."""
LANDINGS = ("landed_for_waiters", "stored_for_waiters")


def until_landed(rules: tuple[Rule, ...] = RULES) -> tuple[Rule, ...]:
    """The table of a manager that keeps a promise until the block lands, and no longer."""
    released = {"waits[all]": "NO", "permit": "free"}
    return tuple(
        replace(r, then={**r.then, **released}) if r.name in LANDINGS else r for r in rules
    )


@dataclass(frozen=True)
class Step:
    """One operation and what each of the two tables answers."""

    operation: Operation
    until_landed: object
    until_read: object


def shortest() -> tuple[Step, ...]:
    """The shortest history in which who was promised a block is told MISS without having let go.

    Nothing in it is a named release: nobody finishes, withdraws, resets or fails; no time passes.
    """
    weak = until_landed()
    queue: deque[tuple[Operation, ...]] = deque([()])
    seen = set()
    while queue:
        history = queue.popleft()
        state, promised = begin(SETTING, weak), False
        for op in history:
            out = apply(state, op)
            state, promised = out.state, promised or _promises(op, out)
        for op in moves(state, MENU):
            if getattr(op, "landed", ("k0",)) == () or getattr(op, "ok", True) is False:
                continue
            out = apply(state, op)
            if promised and out.answer == "MISS" and op == Lookup("k0", "r0"):
                return _beside((*history, op), weak)
            mark = (out.state.canonical(), promised or _promises(op, out))
            if mark not in seen:
                seen.add(mark)
                queue.append((*history, op))
    raise AssertionError("the weaker table allows nothing more than the table: it is the same")


def _promises(op: Operation, out: Outcome) -> bool:
    return op == Lookup("k0", "r0") and out.answer == "HIT_PENDING"


def _beside(history: tuple[Operation, ...], weak: tuple[Rule, ...]) -> tuple[Step, ...]:
    left, right = begin(SETTING, weak), begin(SETTING)
    steps = []
    for op in history:
        a, b = apply(left, op), apply(right, op)
        steps.append(Step(op, a.answer, b.answer))
        left, right = a.state, b.state
    return tuple(steps)


def verdicts(rules: tuple[Rule, ...]) -> dict[str, str]:
    """What the solver says of each of the two contracts: proved only if every obligation is.

    Asked of the rules in which the two tables differ: an obligation speaks of one rule, and those
    of the other rules are the same in both tables and proved of ours.
    """
    found: dict[str, set[str]] = {contract: set() for contract in PAIR}
    for v in prove(rules, how="instantiated", only=LANDINGS):
        found.setdefault(v.contract, set()).add(v.verdict)
    return {
        contract: next(w for w in ("refuted", "unknown", "proved") if w in found[contract])
        for contract in PAIR
    }


def said(answer: object) -> str:
    """An answer as the page prints it."""
    if isinstance(answer, tuple):  # of a store: what was accepted
        return f"slots for {', '.join(answer[0])}" if answer[0] else "nothing to store"
    return "" if answer is None else str(answer)


def page(notice: str) -> str:
    """The page `promises.md`."""
    return "\n".join(_page(notice)) + "\n"


def _page(notice: str) -> Iterator[str]:
    yield from (notice, "", "# Two promises", "")
    yield (
        "A lookup that answers HIT_PENDING makes a promise: the block is coming, count on it. How "
        "long the promise holds is where managers differ."
    )
    yield ""
    yield "* **Until landed** (`L2-until-landed`): no MISS and no RETRY from the promise until the"
    yield "  block has landed. Then it may be evicted before anybody has read it."
    yield "* **Until read** (`L3-until-read`): no MISS and no RETRY for who was promised the block"
    yield "  until they have read it, or until a release that has a name."
    yield ""
    yield (
        "TierProof keeps both. A third-party manager is held to the one that it claims. The table "
        "of a manager that keeps only the first is ours with these rules releasing everybody who "
        f"waits: {', '.join(f'`{name}`' for name in LANDINGS)}."
    )
    yield from ("", "## What the weaker promise allows", "")
    yield (
        "The shortest history in which who was promised a block is told MISS, found by "
        "breadth-first search; one slot, and a tier that has `k0`. Beside it what the table as it "
        "is answers to the same operations."
    )
    yield from ("", "| | operation | until landed | until read |", "|---|---|---|---|")
    for i, step in enumerate(shortest(), 1):
        store = step.operation.op == "prepare_store"
        answers = [
            "no room" if store and a is None else said(a)
            for a in (step.until_landed, step.until_read)
        ]
        yield f"| {i} | `{step.operation}` | {answers[0]} | {answers[1]} |"
    yield from ("", "## What is proved of each", "")
    yield "For any number of keys, requests, tiers, slots and transfers, by z3:"
    yield from ("", "| contract | until landed | until read |", "|---|---|---|")
    for contract in PAIR:
        weak, strong = STATUS[UNTIL_LANDED][contract], STATUS[UNTIL_READ][contract]
        yield f"| `{contract}` | {weak} | {strong} |"
