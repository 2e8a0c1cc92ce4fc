"""Random histories on the manager alone: whatever happens, everything adds up and ends.

The lockstep with the reference model says what is right; this says that nothing is lost, with every
setting, several tiers at once and faults of every kind.
"""

from __future__ import annotations

import random

import pytest

from tierproof import LookupResult
from tierproof.impl.external import ExternalRequests
from tierproof.impl.operations import LoadOperation, PlanVerdict, StoreOperation
from tierproof.impl.requests import Request
from tierproof.impl.tiers.base import Claim, StorePolicy

from .support import HIT, Rig, ScriptedTier, payload

KEYS = list("abcdefgh")
MAY_RAISE = ["lookup", "submit_load", "submit_store", "poll", "on_new_request"]


class Walk:
    """One random history; `draw` decides everything."""

    def __init__(self, seed: int) -> None:
        self.draw = draw = random.Random(seed)
        tiers = [
            ScriptedTier(f"t{number}", policy=draw.choice(list(StorePolicy)))
            for number in range(draw.choice([0, 1, 2, 2, 3]))
        ]
        self.rig = Rig(
            slots=draw.randint(1, 7),
            tiers=tiers,
            eviction=draw.choice(["lru", "arc"]),
            lease=draw.choice([None, 3.0, 10.0]),
            pending_deadline=draw.choice([None, 3.0, 10.0]),
            probe_deadline=draw.choice([None, 2.0, 6.0]),
            reoffers=draw.randint(0, 3),
            backpressure_seconds=draw.choice([None, 1.0]),
            promotion_share=draw.random(),
            cascade_share=draw.random(),
            count_lookups=draw.random() < 0.5,
        )
        for tier in tiers:
            tier.kept.update((key, payload(key, self.rig.manager.arena)) for key in KEYS)
            tier.claims.update((key, draw.choice(list(Claim))) for key in KEYS)
        self.peers = [self.rig.manager.external(tier.name) for tier in tiers]
        self.requests: dict[Request, ExternalRequests | None] = {}
        self.loads: list[LoadOperation] = []
        self.stores: list[StoreOperation] = []
        self.resident: set[object] = set()

    def some_keys(self) -> list[str]:
        return self.draw.sample(KEYS, self.draw.randint(1, 4))

    def announce(self) -> None:
        if self.peers and self.draw.random() < 0.2:
            peer = self.draw.choice(self.peers)
            self.requests[peer.on_new_request("peer")] = peer
        else:
            names = [tier.name for tier in self.rig.tiers if self.draw.random() < 0.6]
            only = self.draw.choice([None, names])
            request_id = self.draw.choice("RST")
            request = self.rig.manager.on_new_request(request_id, tier_filter=only)
            self.requests[request] = None

    def one(self) -> Request:
        if not self.requests:
            self.announce()
        return self.draw.choice(list(self.requests))

    def lookup(self) -> None:
        manager, primary = self.rig.manager, self.rig.manager._primary
        key, request = self.draw.choice(KEYS), self.one()
        roomy = primary.free and len(primary.permitted) < primary.permits
        explained = manager.explain(key, request) if manager._step.begun and roomy else None
        answer = manager.lookup(key, request)
        assert explained is None or explained.answer is answer
        if answer is HIT:
            slot = self.rig.probe.slot_of(key)
            assert slot is not None
            assert bytes(manager.arena.row(slot)) == payload(key, manager.arena)

    def lookup_many(self) -> None:
        keys, request = self.some_keys(), self.one()
        answers = self.rig.manager.lookup_many(keys, request)
        hits = [k for k, answer in zip(keys, answers, strict=True) if answer is LookupResult.HIT]
        if hits and self.draw.random() < 0.6:
            self.loads.append(self.rig.manager.prepare_load(hits, request))

    def plan(self) -> None:
        manager, probe = self.rig.manager, self.rig.probe
        keys, request = self.some_keys(), self.one()
        if self.draw.random() < 0.8:
            manager.exists(keys, request)
        phases = [probe.phase(key) for key in keys]
        verdict = manager.plan_load(keys, request).verdict
        if verdict is PlanVerdict.PLANNED:
            assert all(request.handle in probe.waiters(key) for key in keys)
            assert manager.landed(keys, request) in (HIT, LookupResult.HIT_PENDING)
            queued = [key for key in keys if probe.phase(key) == "QUEUED"]
            assert not set(phases) & {"OVERDUE_LOADING", "OVERDUE_STORING"}
            assert all(
                key in queued for key, was in zip(keys, phases, strict=True) if was == "ABSENT"
            )
        elif manager.landed(keys, request) is HIT and self.draw.random() < 0.5:
            self.loads.append(manager.prepare_load(keys, request))

    def store(self) -> None:
        operation = self.rig.manager.prepare_store(self.some_keys(), self.one())
        if operation is not None:
            for key, slot in zip(operation.keys, operation.slots, strict=True):
                self.rig.manager.arena.row(slot)[:] = payload(key, self.rig.manager.arena)
            self.stores.append(operation)

    def stored(self) -> None:
        if self.stores:
            operation = self.stores.pop(self.draw.randrange(len(self.stores)))
            self.rig.manager.complete_store(operation, ok=self.draw.random() < 0.8)

    def loaded(self) -> None:
        if self.loads:
            operation = self.loads.pop(self.draw.randrange(len(self.loads)))
            self.rig.manager.complete_load(operation)

    def touch(self) -> None:
        self.rig.manager.touch(self.some_keys(), self.one())

    def withdraw(self) -> None:
        self.rig.manager.withdraw(self.some_keys(), self.one())

    def step(self) -> None:
        number = self.draw.randint(0, min(2, len(self.requests)))
        self.rig.step(*self.draw.sample(list(self.requests), number))

    def finish(self) -> None:
        request = self.one()
        del self.requests[request]
        self.rig.manager.on_request_finished(request)

    def send(self) -> None:
        request = self.one()
        peer = self.requests[request]
        keys = [key for key in self.some_keys() if key in self.resident]
        if peer is not None and keys:
            peer.send(keys, request)

    def reset(self) -> None:
        names = [tier.name for tier in self.rig.tiers]
        self.rig.manager.reset_cache(self.draw.choice([None, "all", names[:1]]))

    def flush(self) -> None:
        self.rig.manager.on_reset_flushed()

    def disturb(self) -> None:
        for tier in self.rig.tiers[:1] and [self.draw.choice(self.rig.tiers)]:
            tier.claims[self.draw.choice(KEYS)] = self.draw.choice(list(Claim))
            tier.refuses = {key for key in KEYS if self.draw.random() < 0.2}
            faulty = self.draw.random() < 0.3
            tier.raises = {self.draw.choice(MAY_RAISE): OSError()} if faulty else {}
            if self.draw.random() < 0.2:
                tier.verify(self.draw.choice(KEYS))

    def time_passes(self) -> None:
        self.rig.now += self.draw.choice([0.5, 1.0, 3.0])
        for tier in self.rig.tiers:
            for job_id, job in list(tier.running.items()):
                if self.draw.random() < 0.5:
                    landed = [key for key in job.keys if self.draw.random() < 0.8]
                    tier.done(job_id, landed, seconds=self.draw.choice([0.0, 2.0]))

    def go(self, steps: int) -> None:
        weights = {
            self.announce: 6,
            self.lookup: 24,
            self.lookup_many: 8,
            self.plan: 10,
            self.store: 12,
            self.stored: 10,
            self.loaded: 6,
            self.touch: 4,
            self.withdraw: 2,
            self.step: 10,
            self.finish: 4,
            self.send: 2,
            self.reset: 1,
            self.flush: 2,
            self.disturb: 4,
            self.time_passes: 7,
        }
        for act in self.draw.choices(list(weights), list(weights.values()), k=steps):
            act()
            self.check()

    def check(self) -> None:
        for event in self.rig.manager.take_events():
            if event.kind == "stored":
                assert event.key not in self.resident
                self.resident.add(event.key)
            else:
                self.resident.remove(event.key)
        assert self.resident == self.rig.probe.resident_keys()
        self.rig.probe.check()

    def wind_down(self) -> None:
        for tier in self.rig.tiers:
            tier.raises = {}
            tier.refuses = set()
        for request in self.requests:
            self.rig.manager.on_request_finished(request)
        for stored in self.stores:
            self.rig.manager.complete_store(stored)
        for loaded in self.loads:
            self.rig.manager.complete_load(loaded)
        for _ in range(40):
            for tier in self.rig.tiers:
                tier.done_all()
            self.rig.now += 1.0  # what failed is not offered again at once
            self.rig.step()


@pytest.mark.parametrize("seed", range(40))
def test_a_random_history_adds_up_at_every_instant_and_ends(seed: int):
    walk = Walk(seed)
    walk.go(200)
    walk.wind_down()
    rig = walk.rig
    assert not rig.manager.contract_violations
    assert not rig.manager.has_pending_work()
    assert (rig.probe.work_in_flight(), rig.probe.permits_in_use()) == (0, 0)
    assert not rig.probe.quarantined()
    assert not rig.manager._requests.live
    begun = [info.handle for tier in rig.tiers[:1] for info in tier.begun]
    for tier in rig.tiers:
        assert sorted(info.handle for info in tier.ended) == begun, "each end is told once"
        assert not tier.late, "a submit under a request whose end was told"
    rig.manager.shutdown()
    assert rig.manager.arena.released


def test_equal_seeds_give_equal_histories():
    def fingerprint() -> object:
        walk = Walk(7)
        walk.go(150)
        return walk.rig.probe.fingerprint()

    assert fingerprint() == fingerprint()
