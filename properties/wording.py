"""Histories in words: what a reader sees who has never seen our code."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from ..impl.counted import counted
from ..model import operations as ops
from ..model.operations import Setting
from ..model.reference import Submitted
from ..model.state import State

MOOD_WORDS = {
    "raise on lookup": ("raises when it is asked", "no longer raises when it is asked"),
    "raise on submit": ("raises when it is given a job", "no longer raises when given a job"),
    "raise on poll": ("raises when it is polled", "no longer raises when it is polled"),
    "refuse stores": ("refuses stores", "takes stores again"),
}
MIND_WORDS = {
    "PRESENT": "has {key}",
    "ABSENT": "does not have {key}",
    "UNDECIDED": "is undecided about {key}",
}


def together(names: Iterable[str], nothing: str = "nothing") -> str:
    """`k0`, `k0 and k1`, `k0, k1 and k2`."""
    *head, last = list(names) or [nothing]
    return f"{', '.join(head)} and {last}" if head else last


def count(number: int, thing: str) -> str:
    """`1 slot is`, `2 slots are`."""
    return f"{counted(number, thing)} {'is' if number == 1 else 'are'}"


def still_to_happen(state: State) -> str:
    """Why `has_pending_work` must be true, by the first two reasons; or that there is none."""
    reasons = [f"{request} waits on {key}" for key, request in state.world.fields["waits"]]
    reasons += [f"a copy of {key} waits for its write" for key, _ in state.world.fields["parked"]]
    reasons += [f"a promotion of {key} is queued" for key in state.queue]
    reasons += [f"job {number} has not reported" for number in state.jobs]
    reasons += [f"a copy of {key} to {tier} is due" for key, tier in state.due]
    reasons += [f"the tiers have not been told of the end of {r}" for r in state.ending]
    reasons += [
        f"{tier} is undecided about {key} for {request}"
        for (request, key, tier), since in state.probes.items()
        if since is not None
    ]
    return together(reasons[:2], "nothing is still to happen")


def _step_end(op: ops.StepEnd) -> str:
    scheduled = f"; newly scheduled in it: {together(op.scheduled)}" if op.scheduled else ""
    return f"the step ends{scheduled}"


def _new_request(op: ops.NewRequest) -> str:
    said = f"request {op.request} begins"
    if op.id is not None:
        said += f", with the id {op.id!r}"
    if op.only is not None:
        said += f", allowed to load from {together(op.only, 'no tier')} only"
    if op.external_of is not None:
        said += f", announced for a peer by tier {op.external_of}"
    return said


def _mood(op: ops.Mood) -> str:
    return f"tier {op.tier} from now on {MOOD_WORDS[op.mood][0 if op.on else 1]}"


def _report(op: ops.Report) -> str:
    how = f"{together(op.landed)} landed" if op.landed else "it failed"
    return f"job {op.number} ends: {how}"


def _misreport(op: ops.Misreport) -> str:
    return f"tier {op.tier} wrongly reports job {op.number} ({together(op.landed)} landed)"


def _reset(op: ops.Reset) -> str:
    also = f" together with tier {together(op.tiers)}" if op.tiers else ""
    return f"the cache is reset{also}"


_SAY: dict[type[ops.Operation], Callable[[Any], str]] = {
    ops.Lookup: lambda op: f"{op.request} looks up {op.key}",
    ops.LookupMany: lambda op: f"{op.request} looks up {together(op.keys)} in one call",
    ops.Exists: lambda op: f"{op.request} asks where {together(op.keys)} are",
    ops.PlanLoad: lambda op: f"{op.request} plans to load {together(op.keys) or 'nothing'}",
    ops.PrepareLoad: lambda op: f"{op.request} pins {together(op.keys)} for the GPU to read",
    ops.CompleteLoad: lambda op: f"the GPU has read (operation {op.number})",
    ops.PrepareStore: lambda op: f"{op.request} offers {together(op.keys)} to be stored",
    ops.CompleteStore: lambda op: (
        f"the GPU has {'written' if op.ok else 'failed to write'} (operation {op.number})"
    ),
    ops.Withdraw: lambda op: f"{op.request} withdraws {together(op.keys)}",
    ops.StepEnd: _step_end,
    ops.NewRequest: _new_request,
    ops.Finish: lambda op: f"request {op.request} ends",
    ops.Reset: _reset,
    ops.Flushed: lambda op: "what the reset had to flush has been flushed",
    ops.Send: lambda op: f"{op.request} pins {together(op.keys)} to be sent to a peer",
    ops.Mind: lambda op: f"tier {op.tier} now {MIND_WORDS[op.mind].format(key=op.key)}",
    ops.Mood: _mood,
    ops.Report: _report,
    ops.Misreport: _misreport,
    ops.Verify: lambda op: f"tier {op.tier} verifies {op.key} anew",
    ops.Advance: lambda op: f"{op.seconds:g} s pass",
}


def say(op: ops.Operation) -> str:
    """One operation as a clause."""
    return _SAY[type(op)](op)


def say_submitted(job: Submitted) -> str:
    """A job that a tier was given."""
    under = f"for {job.request}" if job.request else "under no request"
    what = "load {} from" if job.kind == "LOAD" else "store {} to"
    return f"job {job.number}: {what.format(together(job.keys))} {job.tier}, {under}"


def say_setting(setting: Setting) -> str:
    """Where a history begins, as sentences."""
    told = [counted(setting.slots, "slot")]
    for tier in setting.tiers:
        said = f"tier {tier.name} has {together(tier.has)}"
        if tier.undecided:
            said += f" and is undecided about {together(tier.undecided)}"
        if tier.whole_request:
            said += " and wants whole requests"
        told.append(said)
    if not setting.tiers:
        told.append("no secondary tier")
    for request in setting.requests:
        said = f"request {request.name} is live"
        if request.only is not None:
            said += f" (it may load from {together(request.only, 'no tier')} only)"
        if request.external_of is not None:
            said += f" (tier {request.external_of} announced it for a peer)"
        told.append(said)
    plain = Setting()
    changed = [
        f"{name.replace('_', ' ')} {getattr(setting, name)}"
        for name in (
            "promotion_share",
            "cascade_share",
            "lease",
            "pending_deadline",
            "probe_deadline",
            "reoffers",
            "reoffer_pause",
        )
        if getattr(setting, name) != getattr(plain, name)
    ]
    return "; ".join(told + changed)


def plain(value: object) -> Any:
    """A value as JSON knows it: what a manager returns may be anything."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, dict):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, set | frozenset):
        return sorted((plain(v) for v in value), key=str)
    if isinstance(value, Sequence) and not isinstance(value, bytes):
        return [plain(v) for v in value]
    keys = getattr(value, "keys", None)  # a GPU operation of the manager under test
    if isinstance(keys, Sequence):
        return plain(list(keys))
    return str(getattr(value, "name", value))


def say_value(value: object) -> str:
    """An answer in words; empty for calls that return nothing."""
    value = plain(value)
    if value is None:
        return ""
    if isinstance(value, list):
        if value and all(isinstance(v, list) for v in value) and len(value) == 3:
            accepted, present, refused = value  # what an offer of a store is told
            told = [f"slots for {together(accepted)}"]
            told += [f"{together(present)} present already"] if present else []
            told += [f"{together(refused)} refused"] if refused else []
            return ", ".join(told)
        return ", ".join(str(v) if not isinstance(v, list) else say_value(v) for v in value)
    return str(value)
