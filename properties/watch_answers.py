"""What `watch` judges in the answers of lookups."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from ..model import operations as ops
from ..model.operations import Setting
from .driver import Driver, Got
from .seen import Facts, Writer
from .under_test import payload

Broken = tuple[str, str]
"""A contract, and what was seen."""


class Answers:
    """The part of a watch that judges lookups."""

    setting: Setting
    driver: Driver
    facts: Facts
    reached: Counter[str]

    def _lookup(self, op: ops.Lookup, got: Got, minds: dict[str, str]) -> Iterator[Broken]:
        facts, key, request, answer = self.facts, op.key, op.request, got.answer
        facts.looked.add(request)
        if facts.doubt:
            return
        claimers = facts.claimers(got, key, minds)
        writer = facts.writers.get(key)
        yield from self._asked(op, got, minds, decided=key in facts.resident or writer is not None)
        self.reached["L1-answer-true"] += 1
        if writer is not None and writer.kind == "promotion":
            self.reached["L2-until-landed"] += 1
        if (key, request) in facts.waits:
            self.reached["L3-until-read"] += 1
        if answer != "RETRY" and not facts.held:
            facts.undecided.pop((key, request), None)
        if answer == "HIT":
            yield from self._answered_hit(key, got)
        elif answer == "HIT_PENDING":
            yield from self._answered_pending(op, claimers)
        elif answer == "RETRY":
            yield from self._answered_retry(op, got, minds, claimers)
        elif answer == "MISS":
            yield from self._answered_miss(op, got, claimers)
        else:
            yield "L1-answer-true", f"lookup answered {answer!r}, which is none of the four answers"

    def _asked(
        self, op: ops.Lookup, got: Got, minds: dict[str, str], *, decided: bool
    ) -> Iterator[Broken]:
        allowed, contract = self.facts.live[op.request], "L5-tiers-asked"
        order = [t.name for t in self.setting.tiers]
        asked = [tier for tier, _ in got.asked]
        self.reached[contract] += bool(asked) or decided
        if decided and asked:
            yield (
                contract,
                f"{asked} were asked for {op.key}, which the primary tier decides",
            )
        for tier in asked:
            if tier not in allowed:
                yield (
                    contract,
                    f"{tier} was asked for {op.key}, and {op.request} forbids it",
                )
        if len(set(asked)) != len(asked):
            yield contract, f"a tier was asked twice in one lookup: {asked}"
        first = next((t for t in order if t in asked and minds[t] == "PRESENT"), None)
        if first is not None and any(order.index(t) > order.index(first) for t in asked):
            yield contract, f"tiers were asked after {first} had claimed {op.key}: {asked}"

    def _answered_hit(self, key: str, got: Got) -> Iterator[Broken]:
        facts = self.facts
        if key in facts.resident:
            facts.hit.add(key)
            yield from self._told_of(key, got)
            slot = got.slots.get(key)
            data = None if slot is None else self.driver.read_slot(slot)
            if data is not None:
                self.reached["D1-bytes"] += 1
                if data != payload(key, self.driver.block_bytes):
                    yield "D1-bytes", f"slot {slot} does not hold the bytes of {key}"
        elif key in facts.crossed and key in facts.writers:
            yield (
                "S4-operations",
                f"{key} is answered HIT while it is being written, since a store from before the "
                "reset has ended",
            )
        elif key in facts.forgotten:
            yield "R1-reset", f"{key} is from before the reset and is answered HIT"
        else:
            yield (
                "L1-answer-true",
                f"{key} is answered HIT, and its bytes were never written",
            )

    def _told_of(self, key: str, got: Got) -> Iterator[Broken]:
        """What can be read has been announced: seen without a probe."""
        if getattr(self.driver.manager, "prompt_events", True):
            self.reached["E1-events"] += 1
            if key not in self.facts.replayed and ("stored", key) not in got.events:
                yield "E1-events", f"{key} is answered HIT, and no event says that it can be read"

    def _answered_pending(self, op: ops.Lookup, claimers: list[str]) -> Iterator[Broken]:
        facts, key = self.facts, op.key
        writer = facts.writers.get(key)
        if writer is None:
            if not claimers or key in facts.resident:
                yield (
                    "L1-answer-true",
                    f"{key} is answered HIT_PENDING, and nobody writes it or claims it",
                )
                return
            yield from self._begin(op, claimers[0])
        elif writer.kind == "promotion":
            limit = self.setting.pending_deadline
            late = self.driver.time - writer.since
            if limit is not None and writer.job is not None:
                self.reached["P1-progress"] += 1
                if late > limit:
                    yield (
                        "P1-progress",
                        f"{key} is still answered HIT_PENDING {late:.0f} s after its load was "
                        "submitted: nothing bounds the wait",
                    )
        # a wait on what the GPU writes may be until it has landed only
        kind = facts.writers[key].kind
        (facts.waits if kind == "promotion" else facts.hopes).add((key, op.request))

    def _begin(self, op: ops.Lookup, tier: str) -> Iterator[Broken]:
        """A promotion begins."""
        facts = self.facts
        self.reached["F2-claim-retracted"] += bool(facts.retracted)
        if (tier, op.key) in facts.retracted:
            yield (
                "F2-claim-retracted",
                f"{op.key} is promoted from {tier} again, whose load of it failed and which has "
                "had no new evidence",
            )
        facts.writers[op.key] = Writer("promotion", tier, op.request, since=self.driver.time)

    def _answered_retry(
        self, op: ops.Lookup, got: Got, minds: dict[str, str], claimers: list[str]
    ) -> Iterator[Broken]:
        facts, key = self.facts, op.key
        writer = facts.writers.get(key)
        if claimers:
            yield "L1-answer-true", f"{key} is answered RETRY, and {claimers[0]} claims it"
            if writer is None and self._owned(key):
                yield from self._begin(op, claimers[0])
                facts.waits.add((key, op.request))
        elif writer is not None and writer.kind == "promotion":
            yield "L2-until-landed", f"{key} is answered RETRY while its promotion is under way"
        elif (key, op.request) in facts.waits:
            yield "L3-until-read", f"{op.request} was promised {key}, and is answered RETRY"
        elif not any(minds[t] == "UNDECIDED" for t, _ in got.asked):
            yield "L1-answer-true", f"{key} is answered RETRY, and no tier is undecided"
        else:
            since = facts.undecided.setdefault((key, op.request), self.driver.time)
            limit, late = self.setting.probe_deadline, self.driver.time - since
            bound = None if limit is None else limit * len(self.setting.tiers)
            self.reached["P1-progress"] += bool(late)
            if bound is not None and late > bound:
                yield (
                    "P1-progress",
                    f"{key} is still answered RETRY {late:.0f} s after it was first asked for: "
                    "nothing bounds the wait for a tier's verdict",
                )

    def _owned(self, key: str) -> bool:
        return self.driver.observes("slot_of") and self.driver.probe.slot_of(key) is not None

    def _answered_miss(self, op: ops.Lookup, got: Got, claimers: list[str]) -> Iterator[Broken]:
        facts, key, request = self.facts, op.key, op.request
        writer = facts.writers.get(key)
        if writer is not None and self.driver.time > writer.since:
            return  # overdue, by whatever deadline the manager has
        if writer is not None:
            contract = "L2-until-landed" if writer.kind == "promotion" else "L1-answer-true"
            yield contract, f"{key} is answered MISS while it is being written ({writer.kind})"
        elif (key, request) in facts.waits:
            yield (
                "L3-until-read",
                f"{request} was promised {key} and has not read it, and is answered MISS",
            )
            facts.release(key, request)
        elif key in facts.resident:
            yield "L1-answer-true", f"{key} is answered MISS, and its block is in the primary tier"
        elif claimers and not facts.held:
            if (claimers[0], key) in facts.retracted or not self.driver.observes("free_slots"):
                return
            # a manager may have a share for promotions, but not one of nothing
            busy = bool(facts.writers or facts.waits or facts.hopes)
            busy = busy or any(facts.untold()) or any(facts.running())
            alone = not (busy or self.driver.time)
            if alone and self.driver.probe.free_slots() > 0:
                yield (
                    "L1-answer-true",
                    f"{key} is answered MISS, {claimers[0]} claims it and a slot is free",
                )
        elif not facts.held and not claimers and not self.driver.time:
            asked = {tier for tier, _ in got.asked}
            left = [
                t
                for t in facts.live[request]
                if t not in asked and (t, key) not in facts.mistrusted
            ]
            if left:
                yield "L1-answer-true", f"{key} is answered MISS, and {left[0]} was not asked"
