"""The state of the whole system: the world of the table, and what is only counted or ordered.

The table says what happens to one block. Around it stand things that are no block's: which jobs and
operations run, in which order keys were queued, when a writer began, what each tier has in mind.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from .operations import RequestSetting, Setting
from .reading import Limits, World
from .rules import RULES, Rule

NO_REQUEST = ""
"""Cascades that outlived their request belong to the manager: they run under no request."""


@dataclass(frozen=True)
class Job:
    """Work given to a tier: `kind` is LOAD, CASCADE or EXPORT; `keys` in the order submitted."""

    number: int
    kind: str
    tier: str
    request: str
    keys: tuple[str, ...]


@dataclass(frozen=True)
class GpuOperation:
    """A load or a store of the GPU: `kind` is READ or STORE."""

    number: int
    kind: str
    request: str
    keys: tuple[str, ...]


@dataclass(frozen=True)
class Due:
    """An offer of a cascade that is to be made, under `request`, not before the end of `step`."""

    request: str
    step: int
    after: float = 0.0
    """A cascade that failed is not offered again before this time."""


@dataclass(frozen=True)
class Refusal:
    """When a tier last refused to take a store: the step, and the time."""

    step: int
    at: float


@dataclass
class State:
    """Everything that can influence what happens next. Immutable by custom: `copy`, then change."""

    setting: Setting
    world: World
    requests: dict[str, RequestSetting] = field(default_factory=dict)
    clock: float = 0.0
    now: float = 0.0
    """The clock as the current step read it, once; between steps, as the last call that dated
    something read it."""
    begun: bool = False
    step: int = 0
    count: int = 0
    """Jobs and operations started so far; their numbers are never used again."""
    jobs: dict[int, Job] = field(default_factory=dict)
    operations: dict[int, GpuOperation] = field(default_factory=dict)
    queue: tuple[str, ...] = ()
    since: dict[Any, float] = field(default_factory=dict)
    """When a transfer began, for those that have a deadline."""
    landed: dict[str, float] = field(default_factory=dict)
    """When a block landed that was waited for: the lease runs from here."""
    due: dict[tuple[str, str], Due] = field(default_factory=dict)
    attempts: dict[tuple[str, str], int] = field(default_factory=dict)
    pressed: dict[str, Refusal] = field(default_factory=dict)
    """Tiers that have refused, with the last time that they did."""
    probes: dict[tuple[str, str, str], float | None] = field(default_factory=dict)
    """(request, key, tier) -> since when undecided; None when it has timed out."""
    spent: dict[tuple[str, str, str], float] = field(default_factory=dict)
    """(request, key, tier) -> seconds that the tier was undecided before."""
    claims: dict[tuple[str, str], str] = field(default_factory=dict)
    """(request, key) -> the tier that was found to have it, for a plan to come."""
    barred: frozenset[Any] = frozenset()
    """Cascades from before a reset that cleared their tier: they cannot bring a key back."""
    ending: tuple[str, ...] = ()
    minds: dict[tuple[str, str], str] = field(default_factory=dict)
    moods: frozenset[tuple[str, str]] = frozenset()
    mail: dict[str, tuple[Any, ...]] = field(default_factory=dict)
    """What each tier will say when it is polled."""
    violations: int = 0
    """Reports of tiers that had to be refused."""

    def copy(self) -> State:
        """An independent state with the same values."""
        twin = object.__new__(State)
        twin.__dict__.update(self.__dict__)
        for name in _CHANGING:
            setattr(twin, name, getattr(self, name).copy())
        return twin

    def canonical(self) -> tuple[Any, ...]:
        """Equal for states that differ only in clock, numbers of the past and order of bookkeeping.

        Numbers of jobs and operations become ranks, times become ages, steps become distances.
        """
        live = sorted({*self.jobs, *self.operations})
        rank = {number: i for i, number in enumerate(live)}

        def plain(x: Any) -> Any:
            return (rank[x[0]], x[1]) if isinstance(x, tuple) and x and x[0] in rank else x

        fields = tuple(
            frozenset((tuple(map(plain, index)), value) for index, value in values.items())
            for values in self.world.fields.values()
        )
        links = tuple(
            frozenset((plain(a), plain(b)) for a, b in values.items())
            for values in self.world.links.values()
        )
        return (
            fields,
            links,
            tuple(self.world.fields["waits"]),
            frozenset((rank[n], j.kind, j.tier, j.request, j.keys) for n, j in self.jobs.items()),
            frozenset((rank[n], o.kind, o.request, o.keys) for n, o in self.operations.items()),
            tuple(self.requests.values()),
            self.clock - self.now,
            self.begun,
            self.queue,
            frozenset((plain(x), self.now - t) for x, t in self.since.items()),
            frozenset((k, self.now - t) for k, t in self.landed.items()),
            tuple(
                (k, d.request, max(0, d.step - self.step), max(0.0, d.after - self.now))
                for k, d in self.due.items()
            ),
            frozenset(self.attempts.items()),
            frozenset(
                (t, self.step == said.step, min(self.now - said.at, self.setting.reoffer_pause))
                for t, said in self.pressed.items()
            ),
            frozenset(
                (k, None if first is None else self.now - first) for k, first in self.probes.items()
            ),
            frozenset(self.spent.items()),
            frozenset(self.claims.items()),
            frozenset(map(plain, self.barred)),
            self.ending,
            frozenset(self.minds.items()),
            self.moods,
            tuple(
                # a message names a job by number, or, when a claim was verified, a key
                (t, tuple((w, n if w == "verify" else rank.get(n, -1), x) for w, n, x in mail))
                for t, mail in sorted(self.mail.items())
            ),
        )


_CHANGING = (
    "world",
    *("requests", "jobs", "operations", "since", "landed", "due", "attempts"),
    *("pressed", "probes", "spent", "claims", "minds", "mail"),
)
"""What a call may change in place, and a copy therefore needs of its own."""


def begin(setting: Setting, rules: Sequence[Rule] = RULES) -> State:
    """The state in which every history of `setting` begins, under the table or another one."""
    tiers = tuple(t.name for t in setting.tiers)
    limits = Limits(setting.slots, setting.permits, setting.berths, tiers, {})
    state = State(setting, World(limits, rules))
    for request in setting.requests:
        admit(state, request)
    for tier in setting.tiers:
        for key in tier.has:
            state.minds[tier.name, key] = "PRESENT"
        for key in tier.undecided:
            state.minds[tier.name, key] = "UNDECIDED"
    return state


def admit(state: State, request: RequestSetting) -> None:
    """A request begins: from here on it may load from the tiers that its filter allows."""
    state.requests[request.name] = request
    allowed = tuple(
        t.name
        for t in state.setting.tiers
        if (request.only is None or t.name in request.only) and t.name != request.external_of
    )
    old = state.world.limits
    state.world.limits = Limits(
        old.slots, old.permits, old.berths, old.tiers, {**old.allowed, request.name: allowed}
    )
