"""What a history has shown so far: blocks, jobs, copies and requests, from what was seen alone.

Nothing here is a rule of ours for a manager: a block is resident because a store or a load of it
was seen to succeed, a promotion has begun because a tier claimed the block and the manager answered
that it is on its way.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field

from ..model import operations as ops
from ..model.operations import Setting
from .driver import Driver, Got, JobSeen


@dataclass
class Writer:
    """Who writes a block: a promotion from a tier, or the GPU."""

    kind: str
    tier: str = ""
    request: str = ""
    job: int | None = None
    """Number of the job that loads it, None until it was submitted."""
    since: float = 0.0


@dataclass
class Job:
    """A transfer between the primary tier and another."""

    number: int
    kind: str
    tier: str
    request: str
    keys: tuple[str, ...]
    slots: tuple[int, ...]
    job_id: int
    lost: bool = False
    """Its submit raised, or the tier refused it: the tier never took it."""
    landed: frozenset[str] | None = None
    """What the tier will report, None as long as its I/O goes on."""
    over: bool = False
    """The manager has been told."""
    drained: bool = False
    """It ended because of a reset."""
    stale: bool = False
    """It began before a reset."""


@dataclass
class Copy:
    """A transfer between the GPU and the primary tier."""

    number: int
    kind: str
    keys: tuple[str, ...]
    slots: tuple[int, ...]
    request: str
    stale: bool = False
    """It began before a reset."""
    over: bool = False


@dataclass
class Cascade:
    """What has become of the copy of a block to one tier, since the block was stored."""

    state: str
    """owed, flying, done, failed, refused."""
    quiet: int = 0
    """Steps since then in which the tier would have taken it."""
    offers: int = 0
    """How often it was offered since the block was stored."""
    since: float = 0.0
    """When it came to this state."""


@dataclass
class Facts:
    """What has been seen."""

    setting: Setting
    driver: Driver
    live: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Live requests, each with the tiers that it may load from."""
    ended: dict[str, int] = field(default_factory=dict)
    """Ended requests, each with how many steps ago."""
    told: dict[tuple[str, str], int] = field(default_factory=dict)
    """(tier, request) -> how often the tier has heard of its end."""
    resident: set[str] = field(default_factory=set)
    forgotten: set[str] = field(default_factory=set)
    """Blocks from before a reset that have not been stored or loaded since."""
    writers: dict[str, Writer] = field(default_factory=dict)
    waits: set[tuple[str, str]] = field(default_factory=set)
    """(key, request): the request was told that the block is on its way, and was not let go."""
    hopes: set[tuple[str, str]] = field(default_factory=set)
    """(key, request): told that the GPU's write is on its way, which may be no promise."""
    hit: set[str] = field(default_factory=set)
    """Blocks answered HIT in this step, before any store of it."""
    jobs: dict[int, Job] = field(default_factory=dict)
    copies: dict[int, Copy] = field(default_factory=dict)
    cascades: dict[tuple[str, str], Cascade] = field(default_factory=dict)
    offered: set[tuple[str, str]] = field(default_factory=set)
    """(request, key): offered for a store, and not turned away; nobody offers a block again."""
    retracted: set[tuple[str, str]] = field(default_factory=set)
    """(tier, key): a load failed, and the tier has had no new evidence."""
    mistrusted: set[tuple[str, str]] = field(default_factory=set)
    """(tier, key): a load failed, and no transfer with the tier has succeeded since. What is new
    evidence a manager may judge more strictly than `retracted` does, and need not ask."""
    undecided: dict[tuple[str, str], float] = field(default_factory=dict)
    """(key, request) -> when a tier was first undecided about it."""
    replayed: set[str] = field(default_factory=set)
    crossed: set[str] = field(default_factory=set)
    """Blocks of which an operation has ended while a later one went on."""
    outlived: set[int] = field(default_factory=set)
    """Numbers of the loads to the GPU that have ended, and whose request had ended before."""
    held: bool = False
    reset_steps: int = 0
    """How many steps have ended since the latest reset."""
    doubt: bool = False
    """The manager has raised out of a call: what it made of that call is not known."""
    failures: bool = False
    """Something has failed in part or wholly."""
    looked: set[str] = field(default_factory=set)
    """Requests that have looked something up in this step."""
    phase: int = 0
    """Within a step: 0 before it, 1 lookups and loads, 2 stores."""

    def __post_init__(self) -> None:
        """Take in how the history begins."""
        for request in self.setting.requests:
            self.begin(request.name, request.only)

    def begin(self, request: str, only: tuple[str, ...] | None) -> None:
        """A request begins."""
        self.live[request] = tuple(t.name for t in self.setting.tiers) if only is None else only

    # -- transfers ---------------------------------------------------------------------------------

    def running(self) -> Iterator[Copy]:
        """Copies of the GPU that go on, those from before a reset too."""
        return (c for c in self.copies.values() if not c.over)

    def flying(self) -> Iterator[Job]:
        """Jobs whose I/O goes on."""
        return (j for j in self.jobs.values() if not j.lost and j.landed is None)

    def untold(self) -> Iterator[Job]:
        """Jobs of which the manager has not heard yet."""
        return (j for j in self.jobs.values() if not j.lost and not j.over)

    def add_job(self, seen: JobSeen) -> Job:
        """A job was submitted; histories call it by the next number."""
        number = len(self.jobs) + 1
        lost = seen.job_id not in self.driver.tiers[seen.tier].jobs
        job = Job(number, *_shape(seen), seen.job_id, lost=lost)
        self.jobs[number] = job
        self.driver.number(number, seen.tier, seen.job_id)
        return job

    def add_copy(self, kind: str, operation: object, request: str) -> Copy:
        """A copy of the GPU began; histories call it by the next number."""
        number = len(self.copies) + 1
        keys, slots = (tuple(getattr(operation, n)) for n in ("keys", "slots"))
        copy = Copy(number, kind, keys, slots, request)
        self.copies[number] = copy
        self.driver.number_operation(number, operation)
        return copy

    def delivered(self, got: Got, moods: Collection[tuple[str, str]]) -> list[Job]:
        """Jobs that the manager was told of in this operation: their blocks are as they say."""
        heard = {tier for tier in got.polled if (tier, "raise on poll") not in moods}
        told = [j for j in self.untold() if j.landed is not None and j.tier in heard]
        for job in told:
            job.over = True
            if job.kind == "LOAD":
                self._loaded(job)
            else:
                self._copied(job)
        return told

    def drained(self) -> None:
        """Jobs that a tier ended of itself, because it was drained."""
        for job in self.flying():
            if job.job_id not in self.driver.tiers[job.tier].jobs:
                job.landed, job.drained = frozenset(), True

    def _loaded(self, job: Job) -> None:
        assert job.landed is not None
        for key in job.keys:
            writer = self.writers.get(key)
            if writer is None or writer.job != job.number:  # it was forgotten meanwhile
                if key not in job.landed and not job.drained:
                    self._retract(job.tier, key)
                continue
            del self.writers[key]
            if key in job.landed:
                self.resident.add(key)
                self.forgotten.discard(key)
                self._trust(job.tier, key)
            else:
                self.failed(job.tier, key, retract=not job.drained)

    def failed(self, tier: str, key: str, *, retract: bool = True) -> None:
        """The load of a block has failed."""
        self.failures = True
        self.writers.pop(key, None)
        self.release(key)
        if retract:
            self._retract(tier, key)

    def _retract(self, tier: str, key: str) -> None:
        self.retracted.add((tier, key))
        self.mistrusted.add((tier, key))

    def _trust(self, tier: str, key: str) -> None:
        self.retracted.discard((tier, key))
        self.mistrusted.discard((tier, key))

    def _copied(self, job: Job) -> None:
        assert job.landed is not None
        for key in job.keys:
            if (cascade := self.cascades.get((job.tier, key))) and cascade.state == "flying":
                cascade.state, cascade.quiet = ("done" if key in job.landed else "failed"), 0
                cascade.since = self.driver.time
            if key in job.landed:
                self._trust(job.tier, key)
            else:
                self.failures = True

    # -- blocks ------------------------------------------------------------------------------------

    def release(self, key: str, request: str | None = None) -> None:
        """A promise ends: that of one request, or everybody's."""
        for waits in (self.waits, self.hopes):
            waits -= {w for w in waits if w[0] == key and request in (None, w[1])}

    def let_go(self, request: str) -> None:
        """All promises to a request end."""
        for waits in (self.waits, self.hopes):
            waits -= {w for w in waits if w[1] == request}

    def removed(self, key: str) -> None:
        """A block is gone."""
        self.resident.discard(key)
        self.hit.discard(key)
        self.crossed.discard(key)
        for at in [at for at in self.cascades if at[1] == key]:
            del self.cascades[at]

    def expects(self, key: str) -> bool:
        """Is the block in the primary tier or on its way?"""
        return key in self.resident or key in self.writers

    def readers(self, key: str) -> int:
        """Copies and jobs that read a block."""
        loads = sum(c.kind == "load" and not c.stale and key in c.keys for c in self.running())
        # a job may name a block twice, and then it is pinned twice
        copies = (j for j in self.untold() if j.kind == "STORE" and not j.stale)
        return loads + sum(j.keys.count(key) for j in copies)

    def forget(self) -> None:
        """The cache was reset."""
        self.forgotten |= self.resident
        for blocks in (self.resident, self.hit, self.waits, self.hopes, self.replayed, self.looked):
            blocks.clear()
        for found in (self.writers, self.cascades, self.offered):
            found.clear()
        self.crossed.clear()
        for copy in self.running():
            copy.stale = True
        for job in self.untold():
            job.stale = True
        self.held = True
        self.reset_steps = 0

    def next_step(self) -> None:
        """A step has ended."""
        self.hit.clear()
        self.looked.clear()
        self.phase = 0
        self.reset_steps += 1
        for request in self.ended:
            self.ended[request] += 1

    # -- what is asked of tiers --------------------------------------------------------------------

    def claimers(self, got: Got, key: str, minds: dict[str, str]) -> list[str]:
        """Tiers that were asked for the key in this operation and claimed it."""
        return [t for t, k in got.asked if k == key and minds[t] == "PRESENT"]

    def minds(self, key: str) -> dict[str, str]:
        """What each tier says of a key now; one that raises says nothing."""
        return {
            name: "ABSENT" if "raise on lookup" in tier.moods else tier.minds.get(key, "ABSENT")
            for name, tier in self.driver.tiers.items()
        }

    def moods(self) -> frozenset[tuple[str, str]]:
        """How tiers fail now: (tier, mood)."""
        return frozenset((n, m) for n, tier in self.driver.tiers.items() for m in tier.moods)


def _shape(seen: JobSeen) -> tuple[str, str, str, tuple[str, ...], tuple[int, ...]]:
    return seen.kind, seen.tier, seen.request, seen.keys, seen.slots


PHASES: dict[type[ops.Operation], int] = {
    ops.Lookup: 1,
    ops.PrepareLoad: 1,
    ops.PrepareStore: 2,
}
"""The phase of a step that an operation belongs to; all others come before it."""
