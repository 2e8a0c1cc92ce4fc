"""The executable reference model: calls of a manager as sequences of the table's events.

`apply` takes a state and an operation and says what must come of it. Choices that are not the
specification's (which victim, which slot, when to poll beyond what is required) come in as `Seen`,
and are refused with `Forbidden` where the specification does not allow them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from . import operations as ops
from .jobs import Submitted
from .planning import Planning
from .state import GpuOperation, State, admit, begin
from .vocabulary import CASCADES
from .working import Forbidden, Working

__all__ = ["Forbidden", "Outcome", "State", "Submitted", "apply", "begin", "has_pending_work"]


@dataclass(frozen=True)
class Outcome:
    """What must come of one operation."""

    state: State
    answer: Any = None
    """Of a lookup: the answer; of lookup_many: a tuple of them; else what the call returns."""
    reason: str | None = None
    """Why a single lookup answered MISS."""
    error: bool = False
    """The call must raise ContractViolation, and nothing has changed."""
    asked: tuple[tuple[str, str], ...] = ()
    """(tier, key) in the order in which tiers are asked."""
    submitted: tuple[Submitted, ...] = ()
    told: tuple[str, ...] = ()
    """Requests of whose end each tier hears."""
    rules: tuple[str, ...] = field(default=(), compare=False)
    """The rules that fired, in order."""


def has_pending_work(state: State) -> bool:
    """W1: is anything still to happen that only further steps will bring about?"""
    world = state.world
    return bool(
        world.fields["waits"]
        or world.fields["parked"]
        or state.queue
        or state.jobs
        or state.due
        or state.ending
        or any(first is not None for first in state.probes.values())
    )


def _lookup(w: Working, op: ops.Lookup) -> Any:
    w.require_live(op.request)
    w.begin_step()
    answer, reason = w.lookup(op.key, op.request)
    w.reason = reason
    return answer


def _lookup_many(w: Working, op: ops.LookupMany) -> Any:
    w.require_live(op.request)
    w.begin_step()
    return tuple(w.lookup(key, op.request)[0] for key in op.keys)


def _exists(w: Working, op: ops.Exists) -> Any:
    w.require_live(op.request)
    w.begin_step()
    there = {key: w.exists(key, op.request) for key in dict.fromkeys(op.keys)}
    return tuple(there[key] for key in op.keys)


def _plan_load(w: Working, op: ops.PlanLoad) -> Any:
    w.require_live(op.request)
    w.require(len(set(op.keys)) == len(op.keys))
    w.begin_step()
    return Planning(w, op.keys, op.request).decide()


def _prepare_load(w: Working, op: ops.PrepareLoad) -> Any:
    w.require_live(op.request)
    w.require(len(set(op.keys)) == len(op.keys))
    w.begin_step()
    w.require(all(w.world.phase(k) == "RESIDENT" for k in op.keys))
    number = w.number()
    w.state.operations[number] = GpuOperation(number, "READ", op.request, op.keys)
    for key in op.keys:
        w.fire("read", key=key, asker=op.request, transfer=(number, key))
    return op.keys


def _complete_load(w: Working, op: ops.CompleteLoad) -> Any:
    done = w.state.operations.get(op.number)
    w.require(done is not None and done.kind == "READ")
    assert done is not None
    del w.state.operations[op.number]
    for key in done.keys:
        stale = w.world.get("stale", (op.number, key)) == "YES"
        w.fire("unpin", transfer=(op.number, key))
        if not stale and w.world.get("waits", key, done.request) == "YES":
            w.let_go(key, done.request)
    return None


def _prepare_store(w: Working, op: ops.PrepareStore) -> Any:
    w.require_live(op.request)
    w.require(len(set(op.keys)) == len(op.keys))
    w.begin_step()
    w.world.broadcast("store_begin", w.state.setting.keys, {})
    absent = [k for k in op.keys if w.world.phase(k) == "ABSENT"]
    if len(absent) > len(w.world.free_slots()):
        w.absorb_before_evicting()
        absent = [k for k in op.keys if w.world.phase(k) == "ABSENT"]
    free = len(w.world.free_slots())
    accepted = absent[: free + len(w.world.evictable(spared=op.keys))]
    if absent and not accepted:
        return None
    w.evict(max(0, len(accepted) - free), spared=op.keys)
    number = w.number()
    w.state.operations[number] = GpuOperation(number, "STORE", op.request, tuple(accepted))
    present = [k for k in op.keys if k not in absent]
    for key in accepted:
        w.take_slot("accept", key, asker=op.request, transfer=(number, key))
        w.state.since[number, key] = w.state.now
    w.offer_present(present, op.request)
    return tuple(accepted), tuple(present), tuple(absent[len(accepted) :])


def _complete_store(w: Working, op: ops.CompleteStore) -> Any:
    done = w.state.operations.get(op.number)
    w.require(done is not None and done.kind == "STORE")
    assert done is not None
    w.date()
    del w.state.operations[op.number]
    fresh = [k for k in done.keys if w.world.get("stale", (op.number, k)) == "NO"]
    for key in done.keys:
        x = (op.number, key)
        w.state.since.pop(x, None)
        if op.ok and key in fresh:
            w.landed("store_landed", x)
        else:
            w.fire("store_landed" if op.ok else "store_failed", transfer=x)
    if op.ok:
        w.offer_new(fresh, w.under(done.request))
    return None


def _withdraw(w: Working, op: ops.Withdraw) -> Any:
    w.require_live(op.request)
    for key in op.keys:
        if w.world.get("waits", key, op.request) == "YES":
            w.let_go(key, op.request)
    return None


def _step_end(w: Working, op: ops.StepEnd) -> Any:
    for request in op.scheduled:
        w.require_live(request)
    w.begin_step()
    w.submit_queue()
    for request in op.scheduled:
        for key in w.waited_by(request):
            if not w.reading(key, request):
                w.let_go(key, request)
        w.settle(request)
    w.offer_due()
    w.world.broadcast("step_end", w.state.setting.keys, {})
    w.tell_ends()
    w.state.begun = False
    w.state.step += 1
    return None


def _new_request(w: Working, op: ops.NewRequest) -> Any:
    w.require(op.request not in w.state.requests)
    admit(w.state, ops.RequestSetting(op.request, op.only, op.external_of))
    return None


def _finish(w: Working, op: ops.Finish) -> Any:
    w.require_live(op.request)
    for key in w.waited_by(op.request):
        w.let_go(key, op.request)
    w.world.broadcast("finish", w.state.setting.keys, {"asker": op.request})
    w.state.probes = {p: t for p, t in w.state.probes.items() if p[0] != op.request}
    w.state.spent = {p: t for p, t in w.state.spent.items() if p[0] != op.request}
    w.state.claims = {c: t for c, t in w.state.claims.items() if c[0] != op.request}
    w.state.ending += (op.request,)
    return None


def _reset(w: Working, op: ops.Reset) -> Any:
    w.require(set(op.tiers) <= {t.name for t in w.state.setting.tiers})
    for (key,) in list(w.world.fields["phase"]):
        w.fire("forget", key=key)
    w.state.queue = ()
    for book in (w.state.due, w.state.attempts, w.state.landed, w.state.pressed, w.state.claims):
        book.clear()
    for x in w.world.running():
        tier = w.world.links["to"][x]
        if w.world.get("kind", x) in CASCADES and tier in op.tiers:
            w.state.barred |= {x}
            w.fire("unfounded", key=w.world.links["of"][x], tier=tier)
    for mind in [m for m in w.state.minds if m[0] in op.tiers]:
        del w.state.minds[mind]
    w.world.broadcast("reset_end", w.state.setting.keys, {})
    return op.tiers


def _flushed(w: Working, op: ops.Flushed) -> Any:
    w.fire("flushed")
    return None


def _send(w: Working, op: ops.Send) -> Any:
    w.require_live(op.request)
    tier = w.state.requests[op.request].external_of
    w.require(tier is not None and len(set(op.keys)) == len(op.keys))
    w.require(all(w.world.phase(k) == "RESIDENT" for k in op.keys))
    w.date()
    return w.export(op.keys, op.request, str(tier))


def _mind(w: Working, op: ops.Mind) -> Any:
    if op.mind == "ABSENT":
        w.state.minds.pop((op.tier, op.key), None)
    else:
        w.state.minds[op.tier, op.key] = op.mind
    return None


def _mood(w: Working, op: ops.Mood) -> Any:
    change = frozenset({(op.tier, op.mood)})
    w.state.moods = w.state.moods | change if op.on else w.state.moods - change
    return None


def _report(w: Working, op: ops.Report) -> Any:
    job = w.state.jobs[op.number]
    w.post(job.tier, ("report", op.number, frozenset(op.landed)))
    if job.kind != "LOAD":  # what a tier has stored, it has: also when a reset came between
        for key in op.landed:
            w.state.minds[job.tier, key] = "PRESENT"
    return None


def _misreport(w: Working, op: ops.Misreport) -> Any:
    w.post(op.tier, ("misreport", op.number, frozenset(op.landed)))
    return None


def _verify(w: Working, op: ops.Verify) -> Any:
    w.post(op.tier, ("verify", op.key, None))
    w.state.minds[op.tier, op.key] = "PRESENT"
    return None


def _advance(w: Working, op: ops.Advance) -> Any:
    w.state.clock += op.seconds
    return None


CALLS: dict[type[ops.Operation], Callable[[Working, Any], Any]] = {
    ops.Lookup: _lookup,
    ops.LookupMany: _lookup_many,
    ops.Exists: _exists,
    ops.PlanLoad: _plan_load,
    ops.PrepareLoad: _prepare_load,
    ops.CompleteLoad: _complete_load,
    ops.PrepareStore: _prepare_store,
    ops.CompleteStore: _complete_store,
    ops.Withdraw: _withdraw,
    ops.StepEnd: _step_end,
    ops.NewRequest: _new_request,
    ops.Finish: _finish,
    ops.Reset: _reset,
    ops.Flushed: _flushed,
    ops.Send: _send,
    ops.Mind: _mind,
    ops.Mood: _mood,
    ops.Report: _report,
    ops.Misreport: _misreport,
    ops.Verify: _verify,
    ops.Advance: _advance,
}


def apply(state: State, op: ops.Operation, seen: ops.Seen | None = None) -> Outcome:
    """What must come of `op` in `state`; `state` itself is not changed.

    Raises:
        Forbidden: the implementation chose what the specification does not allow.
    """
    w = Working(state.copy(), seen or ops.Seen())
    try:
        answer = CALLS[type(op)](w, op)
    except Working.Refused:
        # a refused call may have begun the step before it was refused: that much stands
        return Outcome(w.refused_state(state), error=True)
    w.finish()
    return Outcome(
        w.state,
        answer,
        w.reason,
        False,
        tuple(w.asked),
        tuple(w.submitted),
        tuple(w.told),
        tuple(w.world.fired),
    )
