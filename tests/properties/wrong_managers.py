"""Managers with one thing wrong each, and the operations of which their histories are made."""

from contextlib import suppress
from dataclasses import replace
from typing import ClassVar

from tierproof import ContractViolation, LookupResult, TieredOffloadingManager
from tierproof.impl.tiers.base import NOTHING, RequestInfo
from tierproof.model import operations as ops
from tierproof.model.operations import RequestSetting, Setting, TierSetting

K0 = ("k0",)
HAS = Setting(slots=4, keys=("k0", "k1"), tiers=(TierSetting("t0", has=("k0",)),))
EMPTY = Setting(slots=4, keys=("k0", "k1"), tiers=(TierSetting("t0"),))
TWO = Setting(slots=4, tiers=(TierSetting("t0", has=K0), TierSetting("t1")))

ask, step = ops.Lookup("k0", "r0"), ops.StepEnd()
offer, stored, read = ops.PrepareStore(K0, "r0"), ops.CompleteStore(1), ops.PrepareLoad(K0, "r0")
lands = ops.Report(1, K0)
Manager = TieredOffloadingManager


class Answers(Manager):
    """Answers the n-th lookup as it is told."""

    instead: ClassVar[dict[int, LookupResult]] = {}

    def __init__(self, **given):
        super().__init__(**given)
        self.lookups = 0

    def lookup(self, key, request):
        answer = super().lookup(key, request)
        self.lookups += 1
        return self.instead.get(self.lookups, answer)


def answers(**instead: str) -> type[Answers]:
    told = {int(n[1:]): LookupResult[name] for n, name in instead.items()}
    return type("AnswersOtherwise", (Answers,), {"instead": told})


class Wrapped(Manager):
    """Keeps its tiers at hand, so that it can do to them what it must not."""

    def __init__(self, *, tiers, **given):
        self.given = tiers
        for tier in tiers:
            self.wrap(tier)
        super().__init__(tiers=tiers, **given)

    def wrap(self, tier):
        """Change what the manager sees of a tier."""


class LoadsTwice(Wrapped):
    def wrap(self, tier):
        take = tier.submit_load
        tier.submit_load = lambda job: (take(job), take(job))


class LoadsNever(Wrapped):
    def wrap(self, tier):
        tier.submit_load = lambda job: None


class StoresTwice(Wrapped):
    def wrap(self, tier):
        take = tier.submit_store
        tier.submit_store = lambda job: (take(job), take(job))[0]


class StoresNever(Wrapped):
    def wrap(self, tier):
        tier.submit_store = lambda job: ()


class OffersOnce(Wrapped):
    """What was refused is not offered again, though it is kept in mind."""

    def wrap(self, tier):
        take = tier.submit_store
        offered: list[object] = []

        def submit_store(job):
            again = bool(offered)
            offered.append(job)
            return job.keys if again else take(job)

        tier.submit_store = submit_store


class PlansNothing(Manager):
    def plan_load(self, keys, request):
        return super().plan_load((), request)


class AsksTooMany(Wrapped):
    def lookup(self, key, request):
        self.given[-1].lookup(key, RequestInfo("r0", 1))
        return super().lookup(key, request)


class NeverPolls(Wrapped):
    def wrap(self, tier):
        tier.poll = lambda: NOTHING


class LetsTiersRaise(Wrapped):
    def lookup(self, key, request):
        for tier in self.given:
            tier.lookup(key, RequestInfo("r0", 1))
        return super().lookup(key, request)


class TellsTwice(Wrapped):
    def on_request_finished(self, request):
        super().on_request_finished(request)
        for tier in self.given:
            tier.on_request_finished(RequestInfo("r0", request.handle))


class RefusesReads(Manager):
    def prepare_load(self, keys, request):
        raise ContractViolation("not now")


class AllowsReads(Manager):
    def prepare_load(self, keys, request):
        try:
            return super().prepare_load(keys, request)
        except ContractViolation:
            return type("Nothing", (), {"keys": (), "slots": ()})()


class CompletesTwice(Manager):
    def complete_store(self, operation, ok=True):
        with suppress(ContractViolation):
            super().complete_store(operation, ok)


class RefusesStores(Manager):
    def complete_store(self, operation, ok=True):
        raise ContractViolation("not now")


class Crashes(Manager):
    def on_schedule_end(self, newly_scheduled=()):
        raise ZeroDivisionError("step 0")


class HasNoRoom(Manager):
    def prepare_store(self, keys, request):
        super().prepare_store(keys, request)
        return None


class StingyPeer(Manager):
    def external(self, tier_name):
        peer = super().external(tier_name)
        return type(
            "Peer", (), {"on_new_request": peer.on_new_request, "send": lambda self, *_: None}
        )()


class NeverBusy(Manager):
    def has_pending_work(self):
        return False


class Silent(Manager):
    def take_events(self):
        super().take_events()
        return []


class Forgetful(Manager):
    """Says that k0 was removed whenever it was stored."""

    def take_events(self):
        events = list(super().take_events())
        return events + [type(e)("removed", e.key) for e in events if e.kind == "stored"]


class Announces(Manager):
    """Says that k1 was stored, which nobody did."""

    def take_events(self):
        stored = type("Stored", (), {"kind": "stored", "key": "k1"})
        return [*super().take_events(), stored()]


class AnnouncesFailures(Manager):
    """Says that a block was stored although its store has failed."""

    late: tuple[str, ...] = ()

    def complete_store(self, operation, ok=True):
        super().complete_store(operation, ok)
        self.late = () if ok else tuple(operation.keys)

    def take_events(self):
        late, self.late = self.late, ()
        stored = [type("Stored", (), {"kind": "stored", "key": key})() for key in late]
        return [*super().take_events(), *stored]


class TornSlots(Manager):
    def prepare_store(self, keys, request):
        operation = super().prepare_store(keys, request)
        assert operation is not None
        return type("Torn", (), {"keys": operation.keys, "slots": ()})()


class Corrupts(Manager):
    def lookup(self, key, request):
        slot = self.probe().slot_of(key)
        if slot is not None:
            self.arena.row(slot)[:] = bytes(self.arena.block_bytes)
        return super().lookup(key, request)


class ReadsElsewhere(Manager):
    """Has no probes, and lets the GPU read from the wrong slot."""

    probe = None  # type: ignore[assignment]  # as a manager that has none

    def prepare_load(self, keys, request):
        operation = super().prepare_load(keys, request)
        slots = tuple((s + 1) % 4 for s in operation.slots)
        return type("Elsewhere", (), {"keys": operation.keys, "slots": slots})()


def lying(**lies: object) -> type[Manager]:
    """A manager whose probe lies in the methods named: constants, or functions of the truth."""

    class Liar(Manager):
        def probe(self):
            truth = super().probe()
            made = {}
            for name in ("resident_keys", "slot_of", "pins", "free_slots"):
                tell, lie = getattr(truth, name), lies.get(name)
                if lie is not None:
                    made[name] = lambda *a, tell=tell, lie=lie: lie(tell(*a))
                else:
                    made[name] = tell
            return type("Probe", (), {n: staticmethod(m) for n, m in made.items()})()

    return Liar


FAILS = ops.Report(1, ())
PEER = replace(HAS, requests=(RequestSetting("r0"), RequestSetting("x0", external_of="t0")))
raises = ops.Mood("t0", "raise on lookup")
refuses = ops.Mood("t0", "refuse stores")
calm = ops.Mood("t0", "refuse stores", on=False)
