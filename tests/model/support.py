"""A history of the reference model, told in few words."""

from __future__ import annotations

from typing import Any

from tierproof.model import operations as ops
from tierproof.model.operations import RequestSetting, Seen, Setting, TierSetting
from tierproof.model.reference import Outcome, State, apply, begin, has_pending_work

HIT, PENDING, RETRY, MISS = "HIT", "HIT_PENDING", "RETRY", "MISS"


def T(name: str = "t0", *has: str, **more: Any) -> TierSetting:
    """A tier, and the keys that it has."""
    return TierSetting(name, has, **more)


def R(name: str, *only: str, **more: Any) -> RequestSetting:
    """A request, and the tiers that it may load from: all when none is named."""
    return RequestSetting(name, only or None, **more)


def contents(state: State) -> str:
    """Everything in a state, as text: nothing in it can change unseen."""
    rest = {name: value for name, value in vars(state).items() if name != "world"}
    world = state.world
    return repr((rest, world.fields, world.links, world.limits))


class History:
    """The model after the operations done so far.

    Without tiers named, one tier, `t0`, has every key. Each operation must leave the state that it
    was applied to as it was.
    """

    def __init__(self, **setting: Any) -> None:
        keys = setting.setdefault("keys", ("k0",))
        setting.setdefault("tiers", (T("t0", *keys),))
        setting.setdefault("slots", 4)
        # most tests count offers; those about the pause between them set it
        setting.setdefault("reoffer_pause", 0.0)
        self.state = begin(Setting(**setting))
        self.last = Outcome(self.state)

    def do(self, op: ops.Operation, seen: Seen | None = None) -> Outcome:
        """Apply one operation."""
        before = contents(self.state)
        self.last = apply(self.state, op, seen)
        assert contents(self.state) == before, f"{op} changed the state that it was applied to"
        self.state = self.last.state
        return self.last

    # -- calls -----------------------------------------------------------------------------------

    def lookup(self, key: str = "k0", request: str = "r0") -> Any:
        """The answer of a lookup."""
        return self.do(ops.Lookup(key, request)).answer

    def reason(self, key: str = "k0", request: str = "r0") -> str | None:
        """Why a lookup misses."""
        assert self.lookup(key, request) == MISS, f"{key} was answered {self.last.answer}"
        return self.last.reason

    def offer(self, *keys: str, request: str = "r0") -> Any:
        """A GPU store begins: keys accepted, present, refused; None when nothing fits."""
        return self.do(ops.PrepareStore(keys, request)).answer

    def store(self, *keys: str, request: str = "r0", ok: bool = True) -> Any:
        """A GPU store from beginning to end: what was accepted, present, refused."""
        offered = self.offer(*keys, request=request)
        self.do(ops.CompleteStore(self.state.count, ok))
        return offered

    def read(self, *keys: str, request: str = "r0") -> int:
        """The GPU begins to read; returns the number of the operation."""
        done = self.do(ops.PrepareLoad(keys, request))
        assert not done.error, f"a read of {keys} was refused"
        return max(self.state.operations)

    def end(self, *scheduled: str) -> Outcome:
        """The step ends."""
        return self.do(ops.StepEnd(scheduled))

    def notice(self) -> None:
        """A whole step in which nothing is asked: completions are absorbed, deadlines expire."""
        if self.state.begun:
            self.end()
        self.end()

    def pass_time(self, seconds: float = 30.0) -> None:
        """Time passes, and the next step notices."""
        if self.state.begun:
            self.end()
        self.do(ops.Advance(seconds))

    # -- the tiers -------------------------------------------------------------------------------

    def job(self, kind: str = "LOAD", tier: str = "t0") -> int:
        """The number of the latest such job that runs."""
        mine = [n for n, j in self.state.jobs.items() if (j.kind, j.tier) == (kind, tier)]
        assert mine, f"no {kind} runs at {tier}"
        return max(mine)

    def report(self, number: int, *landed: str) -> None:
        """A job ends; the next poll says so."""
        self.do(ops.Report(number, landed))

    def land(self, kind: str = "LOAD", tier: str = "t0") -> None:
        """The latest such job lands whole."""
        number = self.job(kind, tier)
        self.report(number, *self.state.jobs[number].keys)

    def promote(self, *keys: str, request: str = "r0") -> None:
        """Blocks come from the first tier and have landed at the beginning of a new step."""
        for key in keys or ("k0",):
            assert self.lookup(key, request) == PENDING, f"{key} was not promoted"
        self.end()
        self.land()
        self.end()

    # -- what is so ------------------------------------------------------------------------------

    def phase(self, key: str = "k0") -> str:
        """Where a block is in its life."""
        return self.state.world.phase(key)

    def waits(self, key: str = "k0", request: str = "r0") -> bool:
        """Was the request promised the block?"""
        return self.state.world.get("waits", key, request) == "YES"

    def cascade(self, key: str = "k0", tier: str = "t0") -> str:
        """How far the copy of a block to a tier is."""
        return self.state.world.get("cascade", key, tier)

    def retracted(self, key: str = "k0", tier: str = "t0") -> bool:
        """Did a load of the key from the tier fail?"""
        return self.state.world.get("retracted", key, tier) == "YES"

    def pending(self) -> bool:
        """Is something still to happen?"""
        return has_pending_work(self.state)

    @property
    def free(self) -> int:
        """How many slots are free."""
        return len(self.state.world.free_slots())

    @property
    def permits(self) -> int:
        """How many permits are taken."""
        return len(self.state.world.fields["permit"])

    @property
    def berths(self) -> int:
        """How many berths are taken."""
        return len(self.state.world.fields["berth"])


def cascades(h: History) -> list[tuple[str, tuple[str, ...]]]:
    """What the last operation gave to tiers to keep."""
    return [(j.tier, j.keys) for j in h.last.submitted if j.kind == "CASCADE"]
