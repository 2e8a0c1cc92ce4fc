"""What `watch` judges at the end of a step, and what it judges with the help of probes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ..impl.counted import counted
from ..model import operations as ops

if TYPE_CHECKING:
    from .seen import Job
    from .watch import Watch
    from .watch_answers import Broken

PATIENCE = 3
"""Steps after which what has not happened, with nothing left to wait for, will not happen."""


def step_ended(
    watch: Watch, op: ops.StepEnd, moods: frozenset[tuple[str, str]]
) -> Iterator[Broken]:
    """Judge what has to have happened by now, and go on to the next step."""
    facts = watch.facts
    for request in op.scheduled:
        # it runs without what was undecided: if it asks again, that is a new question
        for at in [at for at in facts.undecided if at[1] == request]:
            del facts.undecided[at]
        facts.let_go(request)
    facts.next_step()
    if not facts.doubt:
        yield from _promotions(watch)
        yield from _cascades(watch, moods)
        yield from _ends(watch)
    yield from _pending(watch)


def _promotions(watch: Watch) -> Iterator[Broken]:
    facts = watch.facts
    for key, writer in list(facts.writers.items()):
        if writer.kind != "promotion" or writer.job is not None:
            continue
        if not any(w[0] == key for w in facts.waits):
            if not watch._owned(key):  # nobody waits for it: it may be dropped
                del facts.writers[key]
            continue
        yield "L4-submitted-once", f"the promotion of {key} was in no submit_load of its step"


def _cascades(watch: Watch, moods: frozenset[tuple[str, str]]) -> Iterator[Broken]:
    facts, says = watch.facts, getattr(watch.driver.manager, "says_pending", True)
    pending = bool(watch.driver.manager.has_pending_work())
    for (tier, key), cascade in facts.cascades.items():
        willing = not any(at == tier and mood != "raise on poll" for at, mood in moods)
        if cascade.state not in ("owed", "failed", "refused") or cascade.offers > 1:
            continue  # one that was offered again may be given up some time
        watch.reached["C2-cascade-reoffered"] += cascade.state != "owed"
        cascade.quiet += willing
        if cascade.quiet < PATIENCE or (says and pending):
            continue
        if cascade.state == "owed":
            yield "C1-cascade-once", f"{key} was stored, and {tier} was not offered it"
        else:
            yield (
                "C2-cascade-reoffered",
                f"the copy of {key} to {tier} was {cascade.state} and is not offered again: "
                f"{PATIENCE} steps have passed and nothing is pending",
            )
        cascade.state = "done"


def _ends(watch: Watch) -> Iterator[Broken]:
    facts = watch.facts
    if not getattr(watch.driver.manager, "tells_ends", True):
        return
    for request, steps in facts.ended.items():
        busy = any(c.request == request for c in facts.running())
        if busy or steps < PATIENCE:
            continue
        for tier in watch.driver.tiers:
            if not facts.told.get((tier, request)):
                facts.told[tier, request] = 1  # said once
                yield "Q1-finish", f"{tier} was not told of the end of {request}"


def _pending(watch: Watch) -> Iterator[Broken]:
    """Asked for at the end of a step: may whoever drives the steps stop?"""
    facts, manager = watch.facts, watch.driver.manager
    if not getattr(manager, "says_pending", True):
        return
    says = bool(manager.has_pending_work())
    watch.reached["W1-pending-work"] += 1
    jobs = [j for j in facts.untold()]
    if jobs and not says and not facts.doubt:
        yield "W1-pending-work", f"has_pending_work() is False, and job {jobs[0].number} goes on"
    awaited = facts.undecided or facts.writers or facts.waits or facts.hopes
    idle = not (jobs or any(facts.running()) or awaited)
    # a copy that failed may be offered again; what a deadline has ended is not seen
    due = any(c.state in ("failed", "refused", "owed") for c in facts.cascades.values())
    idle = idle and not due and not watch.driver.time
    idle = idle and all(steps >= PATIENCE for steps in facts.ended.values())
    if idle and says and not facts.doubt:
        yield "W1-pending-work", "has_pending_work() is True, and nothing is left to happen"
    quiet = watch.quiet_steps()
    # what failed may rest for a while before it is offered again, and no time has passed for it
    resting = any(
        c.state in ("failed", "refused", "owed") and c.since == watch.driver.time
        for c in facts.cascades.values()
    )
    if says and quiet >= PATIENCE and not resting and _nothing_runs(watch):
        yield (
            "W1-pending-work",
            f"has_pending_work() is True after {counted(quiet, 'step')} in which no tier had a job "
            "and "
            "nothing was asked for",
        )


def _nothing_runs(watch: Watch) -> bool:
    """Neither a tier nor the GPU has anything to do, and every tier works: seen from outside."""
    tiers = watch.driver.tiers.values()
    mute = all(not t.jobs and not t.moods and "UNDECIDED" not in t.minds.values() for t in tiers)
    facts = watch.facts
    # what was undecided stays so for a manager that nobody has made ask again
    return mute and not (any(facts.running()) or facts.waits or facts.hopes or facts.undecided)


def probed(watch: Watch, told: list[Job]) -> Iterator[Broken]:
    """Judge what only probes show: slots, pins, which blocks are there."""
    facts, driver = watch.facts, watch.driver
    keys = watch.setting.keys
    if driver.observes("slot_of"):
        slots = {k: s for k in keys if (s := driver.probe.slot_of(k)) is not None}
        watch.reached["S1-slot-exclusive"] += bool(slots)
        if len(set(slots.values())) != len(slots):
            yield "S1-slot-exclusive", f"two blocks own one slot: {slots}"
        elif driver.observes("free_slots"):
            free, total = driver.probe.free_slots(), watch.setting.slots
            # slots in quarantine: a transfer touches them, and their block is gone
            touched = {s for j in facts.untold() for s in j.slots}
            touched |= {s for c in facts.running() for s in c.slots}
            apart = len(touched - set(slots.values()))
            if not total - apart <= free + len(slots) <= total:
                contract = "F1-partial-failure" if facts.failures else "S1-slot-exclusive"
                said = f"of {counted(total, 'slot')} {free} free and {len(slots)} with a block"
                yield contract, said
        for job in told:
            yield from _as_reported(watch, job, slots)
    if driver.observes("pins"):
        for key in facts.resident & set(keys):
            readers, pins = facts.readers(key), driver.probe.pins(key)
            watch.reached["S3-pins"] += bool(readers)
            if readers != pins:
                yield (
                    "S3-pins",
                    f"{key} has {counted(pins, 'pin')}, read by {counted(readers, 'transfer')}",
                )
    if driver.observes("resident_keys") and (watch.prompt or facts.phase == 0):
        shown = set(driver.probe.resident_keys())
        settled = watch.prompt or isinstance(watch.history[-1], ops.StepEnd)
        watch.reached["E1-events"] += settled and bool(shown)
        if settled and shown != facts.replayed:
            yield (
                "E1-events",
                f"the events say that {sorted(facts.replayed)} can be read, and "
                f"{sorted(shown)} can be",
            )
            facts.replayed = shown


def _as_reported(watch: Watch, job: Job, slots: dict[str, int]) -> Iterator[Broken]:
    """A load was reported: what landed is there, what did not has given its slot back."""
    facts, contract = watch.facts, "F1-partial-failure"
    assert job.landed is not None
    if job.kind != "LOAD" or job.stale or len(job.landed) == len(job.keys):
        return
    watch.reached[contract] += 1
    shows = watch.driver.observes("resident_keys")  # else it owns a slot at least
    readable = set(watch.driver.probe.resident_keys() if shows else slots)
    for key in job.keys:
        if key in job.landed and key in facts.resident and key not in readable:
            yield (
                contract,
                f"{key} landed in job {job.number}, which failed in part, and is gone",
            )
        if key not in job.landed and key in slots and not facts.expects(key):
            yield contract, f"{key} did not land in job {job.number}, and still owns a slot"
