"""What `watch` judges in loads, stores, and the jobs that tiers are given."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from ..model import operations as ops
from ..model.operations import Setting
from .driver import Driver, Got
from .seen import Cascade, Copy, Facts, Job, Writer
from .watch_answers import Broken


class Copies:
    """The part of a watch that judges copies."""

    setting: Setting
    driver: Driver
    facts: Facts
    history: list[ops.Operation]
    reached: Counter[str]

    def _prepare_load(self, op: ops.PrepareLoad, got: Got) -> Iterator[Broken]:
        self.reached["L6-hit-holds"] += 1
        if got.error is None and got.answer is not None:
            self.reached["D1-bytes"] += 1
            self.facts.add_copy("load", got.answer, op.request)
        yield from ()

    def _complete_load(self, op: ops.CompleteLoad, got: Got) -> Iterator[Broken]:
        copy = self._ended(op.number)
        for key in copy.keys:
            self.facts.release(key, copy.request)
        yield from ()

    def _ended(self, number: int) -> Copy:
        """A copy of the GPU has ended, and no other one that is named like it."""
        copy = self.facts.copies[number]
        copy.over = True
        later = {k for c in self.facts.running() if c.number > number for k in c.keys}
        crossed = later & set(copy.keys)
        self.reached["S4-operations"] += bool(crossed)
        self.facts.crossed |= crossed
        if copy.kind == "load" and copy.request in self.facts.ended:
            self.facts.outlived.add(number)
        return copy

    def _prepare_store(self, op: ops.PrepareStore, got: Got) -> Iterator[Broken]:
        facts = self.facts
        facts.hit.clear()
        if got.error is not None:
            return
        self.reached["P2-room-for-stores"] += 1
        self.reached["F1-partial-failure"] += facts.failures and self._at_rest()
        if got.answer is None:
            yield from self._refused(op)
            return
        facts.offered |= {(op.request, key) for key in op.keys}
        keys, slots = tuple(got.answer.keys), tuple(got.answer.slots)
        present = [k for k in keys if k in facts.resident or k in facts.writers]
        if present or len(set(slots)) != len(keys):
            yield "S1-slot-exclusive", f"a store of {op.keys} got slots {slots} for {keys}"
        yield from self._given_out(slots, f"a store of {keys}", stale=False)
        if not keys:
            return  # all of them are there or on their way
        facts.add_copy("store", got.answer, op.request)
        for key in keys:
            facts.writers[key] = Writer("store", request=op.request)
            facts.forgotten.discard(key)

    def _refused(self, op: ops.PrepareStore) -> Iterator[Broken]:
        facts, setting = self.facts, self.setting
        promoting = {k for k, w in facts.writers.items() if w.kind == "promotion"}
        promised = {k for k, _ in facts.waits if k in facts.resident}
        copying = {k for j in facts.untold() if j.kind == "STORE" for k in j.keys}
        gpu = {k for c in facts.running() for k in c.keys}
        for what, held, share in (
            ("promotions", promoting | promised, setting.permits),
            ("copies to tiers", copying, setting.berths),
        ):
            if len(op.keys) == 1 and len(held - gpu) > share and not facts.doubt:
                yield (
                    "P2-room-for-stores",
                    f"a store of {op.keys} gets no slot, and {what} hold {len(held - gpu)} of "
                    f"{setting.slots}; their share is {share}",
                )

        if len(op.keys) == 1 and self._at_rest():
            yield from self._withheld_by_nothing(op)

    def _at_rest(self) -> bool:
        """Has a step passed in which nothing withheld a slot, as far as could be seen?"""
        facts = self.facts
        under_way = facts.writers or facts.waits or facts.hopes or any(facts.running())
        due = any(c.state in ("owed", "failed", "refused") for c in facts.cascades.values())
        rested = len(self.history) > 1 and isinstance(self.history[-2], ops.StepEnd)
        quiet = rested and not (under_way or due or any(facts.untold()))
        return quiet and not (facts.doubt or facts.held or self.driver.time)

    def _withheld_by_nothing(self, op: ops.PrepareStore) -> Iterator[Broken]:
        """A slot that is neither free nor to be had: a pin was kept, or the slot was lost."""
        blocks, slots = len(self.facts.resident), self.setting.slots
        said = f"a store of {op.keys} gets no slot of {slots}, and nothing is under way: "
        if blocks >= slots:
            yield "S3-pins", f"{said}nobody reads, writes or was promised a block"
        else:
            contract = "F1-partial-failure" if self.facts.failures else "S1-slot-exclusive"
            yield contract, f"{said}blocks are in {blocks} of them"

    def _complete_store(self, op: ops.CompleteStore, got: Got) -> Iterator[Broken]:
        facts, copy = self.facts, self._ended(op.number)
        if copy.stale:
            return
        for key in copy.keys:
            facts.writers.pop(key, None)
            if not op.ok:
                facts.failures = True
                facts.release(key)
                continue
            facts.resident.add(key)
            for name, tier in self.driver.tiers.items():
                refuses = "refuse stores" in tier.moods
                state = "refused" if refuses else "owed"
                facts.cascades[name, key] = Cascade(state, since=self.driver.time)
                facts.retracted.discard((name, key))
        yield from ()

    def _given_out(
        self, slots: tuple[int, ...], to: str, *, stale: bool, but: Job | None = None
    ) -> Iterator[Broken]:
        """Slots that were given out: does any transfer still touch them?

        Copies from before a reset (`stale`) are the caller's to fence from its own stores.
        """
        facts, contract = self.facts, "S2-no-reuse-under-transfer"
        touching = [(f"job {j.number}", j.slots) for j in facts.flying() if j is not but]
        touching += [
            (f"operation {c.number}{' from before the reset' if c.stale else ''}", c.slots)
            for c in facts.running()
            if stale or not c.stale
        ]
        self.reached[contract] += bool(touching)
        for what, used in touching:
            if both := set(slots) & set(used):
                yield contract, f"{to} was given slot {min(both)}, which {what} still touches"

    # -- jobs --------------------------------------------------------------------------------------

    def _submitted(self, op: ops.Operation, job: Job) -> Iterator[Broken]:
        facts = self.facts
        if facts.told.get((job.tier, job.request)):
            yield (
                "Q1-finish",
                f"{job.tier} was given a job under {job.request} after it had been told of its end",
            )
        if job.kind == "LOAD":
            yield from self._load_submitted(job)
        else:
            yield from self._store_submitted(op, job)

    def _load_submitted(self, job: Job) -> Iterator[Broken]:
        facts, contract = self.facts, "L4-submitted-once"
        for key in job.keys:
            self.reached[contract] += 1
            writer = facts.writers.get(key)
            if writer is None or writer.kind != "promotion":
                if not facts.doubt:
                    yield contract, f"a load of {key} was submitted, and no promotion had begun"
            elif writer.job is not None:
                yield contract, f"the promotion of {key} was submitted a second time"
            elif job.lost and not facts.doubt:  # it has failed, and the manager knows
                facts.failed(job.tier, key)
            else:
                writer.job, writer.since = job.number, self.driver.time
        if not job.lost and not facts.doubt:
            yield from self._given_out(job.slots, f"the load of {job.keys}", stale=True, but=job)

    def _store_submitted(self, op: ops.Operation, job: Job) -> Iterator[Broken]:
        facts, contract = self.facts, "C1-cascade-once"
        tier = next(t for t in self.setting.tiers if t.name == job.tier)
        for key in job.keys:
            if facts.doubt:
                continue
            self.reached[contract] += 1
            if key not in facts.resident:
                yield contract, f"{key} was offered to {job.tier}, and its block cannot be read"
            others = [j for j in facts.untold() if j is not job and not j.stale]
            if any(j.kind == "STORE" and j.tier == job.tier and key in j.keys for j in others):
                yield contract, f"{key} is copied to {job.tier} twice at the same time"
            before = facts.cascades.get((job.tier, key))
            if before is not None and before.state == "done" and not tier.whole_request:
                yield contract, f"{key} is copied to {job.tier} again, for one store of it"
            refused = "refuse stores" in self.driver.tiers[job.tier].moods
            state = "flying" if not job.lost else "refused" if refused else "failed"
            offers = 1 if before is None else before.offers + 1
            now = self.driver.time
            facts.cascades[job.tier, key] = Cascade(state, offers=offers, since=now)
