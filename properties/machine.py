"""Random runs: a Hypothesis state machine that drives model and manager in lockstep.

Where the tour is complete for one block at a time, the runs mix several keys, requests and tiers,
batches, faults and time, and shrink what they find. `machine(factory)` is an ordinary
`RuleBasedStateMachine`: its `TestCase` runs under pytest with the user's own profile, seed and
`--hypothesis-show-statistics`.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from hypothesis import HealthCheck, Phase, event, settings
from hypothesis import seed as with_seed
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test

from ..model.operations import (
    MINDS,
    MOODS,
    Operation,
    RequestSetting,
    Setting,
    TierSetting,
)
from .driver import Driver, Factory
from .found import Found
from .leading import Led
from .lockstep import Divergence, Lockstep, every
from .moves import Menu

Progress = Callable[[int, int], None]

KEYS = tuple(f"k{i}" for i in range(4))


@st.composite
def settings_of_histories(draw: st.DrawFn) -> Setting:
    """Where a random history starts. Small ones come first, so that findings shrink to them."""
    keys = KEYS[: draw(st.integers(1, 4))]
    tiers = tuple(
        TierSetting(
            f"t{i}",
            tuple(k for k in keys if draw(st.booleans())),
            whole_request=draw(st.booleans()),
        )
        for i in range(draw(st.integers(0, 3)))
    )
    names = tuple(t.name for t in tiers)
    some = st.lists(st.sampled_from(names), unique=True).map(tuple) if names else st.none()
    requests = [
        RequestSetting(f"r{i}", draw(st.none() | some)) for i in range(draw(st.integers(1, 3)))
    ]
    if draw(st.booleans()) and names:
        requests.append(RequestSetting("x0", external_of=draw(st.sampled_from(names))))
    return Setting(
        slots=draw(st.integers(1, 4) | st.just(8)),
        keys=keys,
        tiers=tiers,
        requests=tuple(requests),
    )


menus = st.builds(
    Menu,
    batches=st.booleans(),
    lookup_many=st.booleans(),
    plans=st.booleans(),
    minds=st.sampled_from(((), MINDS)),
    moods=st.sampled_from(((), MOODS)),
    resets=st.booleans(),
    ends=st.booleans(),
    time=st.booleans(),
    pauses=st.booleans(),
    mistakes=st.booleans(),
    verify=st.booleans(),
)
"""What a random history is made of: leaving kinds out makes deep histories of the rest likelier."""


class LockstepMachine(RuleBasedStateMachine):
    """Model and manager side by side; `factory` is set by `machine`."""

    factory: Factory
    on_divergence: Callable[[Found], None] | None = None
    on_example: Callable[[int], None] | None = None
    counts: Callable[[str], bool]
    """Does a contract count? Who does not claim one diverges where that is natural (`leading`)."""
    reached: set[str]
    """What came about on the way with the manager in step (`situations`), all examples together."""
    passed: list[Found]
    """The first findings that did not count."""

    def __init__(self) -> None:
        super().__init__()
        self.led: Led | None = None

    @property
    def lockstep(self) -> Lockstep | None:
        """Where the history is."""
        return None if self.led is None else self.led.lockstep

    @initialize(setting=settings_of_histories(), menu=menus)
    def start(self, setting: Setting, menu: Menu) -> None:
        """Build a manager and its surroundings."""
        factory = type(self).factory
        if not Driver(factory, Setting()).can("external"):  # it does not serve peers
            own = tuple(r for r in setting.requests if r.external_of is None)
            setting = replace(setting, requests=own)
        lockstep = Lockstep(factory, setting, counts=type(self).counts)
        lockstep.reached = type(self).reached
        self.led = Led(factory, lockstep)
        can = lockstep.driver.can
        self.menu = replace(
            menu,
            lookup_many=menu.lookup_many and can("lookup_many"),
            plans=menu.plans and can("exists") and can("plan_load"),
            withdraw=can("withdraw"),
            resets=menu.resets and can("reset_cache"),
        )

    @rule(data=st.data())
    def operation(self, data: st.DataObject) -> None:
        """Perform one of the operations that make sense now."""
        now = [] if self.led is None else self.led.now(self.menu)
        if not now:
            return
        # first the kind, then the operation: else the many lookups crowd the few others out
        kind = data.draw(st.sampled_from(sorted({op.op for op in now})), label="kind")
        op = data.draw(st.sampled_from([op for op in now if op.op == kind]), label="operation")
        event(kind)
        self.perform(op)

    def perform(self, op: Operation) -> None:
        """Perform an operation on both; a divergence fails the example in the contract's words."""
        assert self.led is not None
        try:
            self.led.do(op)
        except Divergence as divergence:
            report = type(self).on_divergence
            if report is not None:
                report(Found(self.led.lockstep.setting, divergence, "runs"))
            raise AssertionError(
                f"{divergence.contract}: {divergence.words}\n  here: {divergence.said}"
            ) from divergence

    def teardown(self) -> None:
        """Count what was done."""
        report = type(self).on_example
        if self.led is None:
            return
        known = {found.contract for found in type(self).passed}
        type(self).passed += [found for found in self.led.passed if found.contract not in known]
        if report is not None:
            report(len(self.led.lockstep.history))


def machine(
    factory: Factory,
    *,
    on_divergence: Callable[[Found], None] | None = None,
    on_example: Callable[[int], None] | None = None,
    counts: Callable[[str], bool] = every,
) -> type[LockstepMachine]:
    """A state machine that holds the managers of `factory` to the model."""
    return type(
        "Lockstep",
        (LockstepMachine,),
        {
            "factory": staticmethod(factory),
            "counts": staticmethod(counts),
            "reached": set(),
            "passed": [],
            "on_divergence": staticmethod(on_divergence) if on_divergence else None,
            "on_example": staticmethod(on_example) if on_example else None,
        },
    )


@dataclass
class FuzzResult:
    """What random runs saw; `divergences` holds the shrunk finding, if there is one."""

    examples: int = 0
    operations: int = 0
    seed: int = 0
    reached: set[str] = field(default_factory=set)
    """What came about with the manager in step (`situations`)."""
    divergences: list[Found] = field(default_factory=list)
    seconds: float = 0.0


def fuzz(
    factory: Factory,
    *,
    examples: int = 300,
    seed: int | None = None,
    steps: int = 50,
    progress: Progress | None = None,
    counts: Callable[[str], bool] = every,
) -> FuzzResult:
    """Run `examples` random histories of up to `steps` operations.

    A finding of a contract that does not count is kept, and the history goes on past it. The
    settings are local: neither a profile nor the example database of the user is touched.
    """
    result = FuzzResult(seed=random.randrange(2**32) if seed is None else seed)
    began = time.perf_counter()
    latest: list[Found] = []

    def count(operations: int) -> None:
        result.examples += 1
        result.operations += operations
        if progress is not None:
            progress(min(result.examples, examples), examples)

    built: Any = with_seed(result.seed)(
        machine(factory, on_divergence=latest.append, on_example=count, counts=counts)
    )
    try:
        run_state_machine_as_test(
            built,
            settings=settings(
                max_examples=examples,
                stateful_step_count=steps,
                database=None,
                deadline=None,
                print_blob=False,
                report_multiple_bugs=False,
                phases=(Phase.generate, Phase.shrink),
                suppress_health_check=list(HealthCheck),
            ),
        )
    except AssertionError:
        if not latest:
            raise
        # Hypothesis replays the smallest failing example last
        result.divergences.append(latest[-1])
    result.divergences += built.passed
    result.reached = built.reached
    result.seconds = time.perf_counter() - began
    return result
