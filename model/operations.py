"""What can be done to a manager and its surroundings: the operations that histories are made of.

An operation is plain data, so a history can be drawn at random, searched breadth-first, printed,
kept as JSON and replayed. Keys, requests and tiers are named by strings. GPU operations and jobs
are named by number: 1 for the first that a history starts, 2 for the next.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any, ClassVar

MINDS = ("ABSENT", "UNDECIDED", "PRESENT")
MOODS = ("raise on lookup", "raise on submit", "raise on poll", "refuse stores")


@dataclass(frozen=True)
class TierSetting:
    """A tier at the start of a history: its name, what it has, how it is disposed."""

    name: str
    has: tuple[str, ...] = ()
    undecided: tuple[str, ...] = ()
    whole_request: bool = False


@dataclass(frozen=True)
class RequestSetting:
    """A request that lives at the start of a history; `only` names the tiers it may load from.

    `external_of` names the tier that announced it for a peer; that tier is excluded.
    """

    name: str
    only: tuple[str, ...] | None = None
    external_of: str | None = None


@dataclass(frozen=True)
class Setting:
    """Where a history starts: sizes, shares, deadlines (seconds of the injected clock), names."""

    slots: int = 2
    keys: tuple[str, ...] = ("k0",)
    tiers: tuple[TierSetting, ...] = (TierSetting("t0"),)
    requests: tuple[RequestSetting, ...] = (RequestSetting("r0"),)
    promotion_share: float = 0.5
    cascade_share: float = 0.25
    lease: float | None = 30.0
    pending_deadline: float | None = 30.0
    probe_deadline: float | None = 5.0
    reoffers: int = 3
    reoffer_pause: float = 1.0

    @property
    def permits(self) -> int:
        """How many slots promises may withhold: a share, but never the last slot of several."""
        share = max(1, part(self.promotion_share, self.slots))
        return min(share, self.slots - 1) if self.slots >= 2 else share

    @property
    def berths(self) -> int:
        """How many slots cascades may pin."""
        return max(1, part(self.cascade_share, self.slots))


def part(share: float, slots: int) -> int:
    """A share of the slots, rounded down; a share is the decimal that it is written as."""
    return int(round(share * slots, 6))


@dataclass(frozen=True)
class Operation:
    """One operation of a history; subclasses name their arguments."""

    op: ClassVar[str] = ""

    def args(self) -> dict[str, Any]:
        """The arguments by name, ready for JSON."""
        return asdict(self)

    def __str__(self) -> str:
        said = []
        for f in fields(self):
            value = getattr(self, f.name)
            if value not in ((), None):
                said.append(f"{value}" if isinstance(value, str) else f"{f.name}={value!r}")
        return f"{self.op}({', '.join(said)})"


@dataclass(frozen=True)
class Lookup(Operation):
    """A request asks for one key."""

    op: ClassVar[str] = "lookup"
    key: str
    request: str


@dataclass(frozen=True)
class LookupMany(Operation):
    """A request asks for several keys in one call."""

    op: ClassVar[str] = "lookup_many"
    keys: tuple[str, ...]
    request: str


@dataclass(frozen=True)
class Exists(Operation):
    """A request asks where blocks are, and reserves none."""

    op: ClassVar[str] = "exists"
    keys: tuple[str, ...]
    request: str


@dataclass(frozen=True)
class PlanLoad(Operation):
    """A request plans to load blocks: all of them are promised to it until it has read, or none."""

    op: ClassVar[str] = "plan_load"
    keys: tuple[str, ...]
    request: str


@dataclass(frozen=True)
class PrepareLoad(Operation):
    """A request pins resident blocks for the GPU to read."""

    op: ClassVar[str] = "prepare_load"
    keys: tuple[str, ...]
    request: str


@dataclass(frozen=True)
class CompleteLoad(Operation):
    """The GPU has read."""

    op: ClassVar[str] = "complete_load"
    number: int


@dataclass(frozen=True)
class PrepareStore(Operation):
    """A request offers keys that the GPU will write."""

    op: ClassVar[str] = "prepare_store"
    keys: tuple[str, ...]
    request: str


@dataclass(frozen=True)
class CompleteStore(Operation):
    """The GPU has written, or has not."""

    op: ClassVar[str] = "complete_store"
    number: int
    ok: bool = True


@dataclass(frozen=True)
class Withdraw(Operation):
    """A request names keys that its hit does not read."""

    op: ClassVar[str] = "withdraw"
    keys: tuple[str, ...]
    request: str


@dataclass(frozen=True)
class StepEnd(Operation):
    """The scheduler's step ends; `scheduled` are the requests newly scheduled in it."""

    op: ClassVar[str] = "on_schedule_end"
    scheduled: tuple[str, ...] = ()


@dataclass(frozen=True)
class NewRequest(Operation):
    """A request begins, under a name that no other request of the history has."""

    op: ClassVar[str] = "on_new_request"
    request: str
    only: tuple[str, ...] | None = None
    external_of: str | None = None
    id: str | None = None


@dataclass(frozen=True)
class Finish(Operation):
    """A request has finished or was aborted."""

    op: ClassVar[str] = "on_request_finished"
    request: str


@dataclass(frozen=True)
class Reset(Operation):
    """The cache is reset; `tiers` are those cleared with it."""

    op: ClassVar[str] = "reset_cache"
    tiers: tuple[str, ...] = ()


@dataclass(frozen=True)
class Flushed(Operation):
    """What the resets before it had to flush has been flushed."""

    op: ClassVar[str] = "on_reset_flushed"


@dataclass(frozen=True)
class Send(Operation):
    """A tier that serves a peer pins blocks that it will send."""

    op: ClassVar[str] = "send"
    keys: tuple[str, ...]
    request: str


@dataclass(frozen=True)
class Mind(Operation):
    """A tier makes up, or changes, its mind about a key."""

    op: ClassVar[str] = "tier_says"
    tier: str
    key: str
    mind: str


@dataclass(frozen=True)
class Mood(Operation):
    """A tier begins, or ceases, to fail in one way."""

    op: ClassVar[str] = "tier_fails"
    tier: str
    mood: str
    on: bool = True


@dataclass(frozen=True)
class Report(Operation):
    """A job's tier is done: the next poll reports `landed`, and every other key as failed."""

    op: ClassVar[str] = "job_ends"
    number: int
    landed: tuple[str, ...] = ()


@dataclass(frozen=True)
class Misreport(Operation):
    """A tier reports what it must not: a job again, an unknown one, or a foreign key."""

    op: ClassVar[str] = "misreport"
    tier: str
    number: int
    landed: tuple[str, ...] = ()


@dataclass(frozen=True)
class Verify(Operation):
    """A tier will say, when next polled, that it has verified a key anew."""

    op: ClassVar[str] = "tier_verifies"
    tier: str
    key: str


@dataclass(frozen=True)
class Advance(Operation):
    """Time passes."""

    op: ClassVar[str] = "time_passes"
    seconds: float


OPERATIONS: Mapping[str, type[Operation]] = {cls.op: cls for cls in Operation.__subclasses__()}


def from_json(op: str, args: Mapping[str, Any]) -> Operation:
    """The operation that `args()` was made from.

    Raises:
        ValueError: the name or an argument is unknown.
    """
    if op not in OPERATIONS:
        raise ValueError(f"unknown operation {op!r}; known: {', '.join(sorted(OPERATIONS))}")
    fixed = {name: tuple(v) if isinstance(v, list) else v for name, v in args.items()}
    try:
        return OPERATIONS[op](**fixed)
    except TypeError as error:
        raise ValueError(f"{op}: {error}") from error


@dataclass(frozen=True)
class Seen:
    """What an implementation chose where the specification leaves the choice, in one call.

    `polled`: tiers that were polled; `victims`: blocks evicted, in order; `slots`: the slot that
    each key got. What is None, or missing in `slots`, was not observed: the model chooses itself.
    """

    polled: tuple[str, ...] | None = None
    victims: tuple[str, ...] | None = None
    slots: Mapping[str, int] = field(default_factory=dict)
