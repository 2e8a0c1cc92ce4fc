"""Bytes and claims: `T3`, `T4`, `T5`, `T9`, `T10`, `T11`, `D1`, `D2`."""

from __future__ import annotations

import random
import time
from collections.abc import Hashable, Sequence

from ..impl.counted import counted
from ..impl.keys import BlockKey, Namespace
from ..impl.tiers.base import Claim
from .tier_bench import BLOCK_BYTES, Bench, keys
from .tier_rig import TierBroken, TierRig
from .tier_surroundings import DAMAGES, damage
from .tier_writer import KEYS, key_of

_KILLS = 3


def t3_bytes(bench: Bench) -> None:
    """Damage a block in every way, under a running tier and between two runs."""
    for running in (True, False):
        for how in DAMAGES:
            namespace = f"{how} {running}"
            some = keys(4, namespace)
            with bench.rig(namespace=namespace) as rig:
                stored = rig.store(*some)
                rig.load(*some)
                damaged = running and damage(bench.media, how, some[0], some[1], BLOCK_BYTES)
                if damaged:
                    _others_survive(rig, how, some, stored)
            if not running and damage(bench.media, how, some[0], some[1], BLOCK_BYTES):
                damaged = True
                with bench.rig(namespace=namespace) as rig:
                    rig.load(*some)
            bench.counts["faults"] += damaged


def _others_survive(
    rig: TierRig, how: str, some: Sequence[bytes], stored: frozenset[Hashable]
) -> None:
    lost = stored - rig.load(*some) - {some[0]}
    if lost:
        raise TierBroken("T3-bytes", f"one block is {how}, and {len(lost)} others fail with it")


def t4_visible(bench: Bench) -> None:
    """Ask before, while and after a block is stored, and after all are forgotten."""
    with bench.rig() as rig:
        for n in range(10):
            key = b"seen %d" % n
            if rig.decide(key) is Claim.PRESENT:
                raise TierBroken("T4-visible", "a key that was never stored is claimed")
            job = rig.begin_store([key], [n])
            for _ in range(30):
                if rig.ask(key) is Claim.PRESENT:
                    raise TierBroken("T4-visible", "a store is claimed before it is reported")
                time.sleep(0.0005)
            if job is None or key not in rig.report(job).landed:
                continue
            if rig.decide(key) is not Claim.PRESENT:
                raise TierBroken("T4-visible", "a reported store is not found")
            bench.counts["stores"] += 1
        _forgets(rig, [b"seen %d" % n for n in range(10)])


def _forgets(rig: TierRig, some: Sequence[bytes]) -> None:
    """A clear may take its time, but after it nothing that was stored before is there."""
    rig.tier.clear()
    rig.until(
        lambda: not rig.present(some), "T4-visible", "blocks are found that a clear has forgotten"
    )
    if rig.load(*some):
        raise TierBroken("T4-visible", "a block is loaded that a clear has forgotten")
    if rig.store(some[0]) and rig.decide(some[0]) is not Claim.PRESENT:
        raise TierBroken("T4-visible", "a block that is stored again after a clear is not found")


def t5_withdraw(bench: Bench) -> None:
    """A load that fails, for every reason that can be made."""
    with bench.rig() as rig:
        _fails(rig, b"never stored")
        some = keys(4, "gone")
        for how, key in zip(("gone", "zeroed", "flipped", "empty"), some, strict=True):
            rig.store(key)
            if damage(bench.media, how, key, some[0], BLOCK_BYTES):
                bench.counts["faults"] += 1
                if not rig.load(key):
                    _withdrawn(rig, key)
                    rig.store(key)
                    if rig.load(key) and rig.decide(key) is not Claim.PRESENT:
                        raise TierBroken("T5-withdraw", "a new store does not restore the verdict")
        if bench.can_stop("loads and stores while I/O fails"):
            assert bench.outage is not None
            rig.store(b"before")
            bench.outage.fail()
            for key in (b"before", b"during"):
                if rig.store(b"during"):
                    raise TierBroken("T5-withdraw", "a store that cannot have landed is reported")
                _fails(rig, key)
            bench.counts["faults"] += 1
            bench.outage.mend()


def _fails(rig: TierRig, key: bytes) -> None:
    if rig.load(key):
        raise TierBroken("T5-withdraw", "a load that cannot have landed is reported as landed")
    _withdrawn(rig, key)


def _withdrawn(rig: TierRig, key: bytes) -> None:
    if key not in rig.verified and rig.decide(key, "T5-withdraw") is Claim.PRESENT:
        raise TierBroken("T5-withdraw", "a key whose load failed is still claimed")


def t9_raises(bench: Bench) -> None:
    """Work that cannot be done, then work that can."""
    with bench.rig() as rig:
        some = keys(4)
        rig.store(*some)
        for n in range(10):
            bad = rig.begin_load([some[0]], [1_000_000])
            if rig.report(bad, 10.0).landed:
                raise TierBroken("T9-raises", "a load into a row that does not exist has landed")
            good = rig.begin_load(some, range(4))
            try:
                landed = rig.report(good, 5.0).landed
            except TierBroken:
                raise TierBroken(
                    "T9-raises",
                    f"after {counted(n + 1, 'impossible load')} nothing is reported any more",
                ) from None
            again = landed or rig.store(*some)
            if not again:
                raise TierBroken("T9-raises", "after an impossible load everything fails")
            bench.counts["faults"] += 1
        if bench.can_stop("what happens while and after I/O fails"):
            assert bench.outage is not None
            bench.outage.fail()
            for n in range(5):
                rig.report(rig.begin_load(some[:1]), 15.0)
                job = rig.begin_store([b"during %d" % n])
                if job is not None:
                    rig.report(job, 15.0)
            bench.outage.mend()
            bench.counts["faults"] += 1
            rig.until(
                lambda: rig.store(b"after") and rig.load(b"after"),
                "T9-raises",
                "what it depends on works again, and the tier does not",
                30.0,
            )
            for key in rig.present(some):
                rig.load(key)


def t10_restart(bench: Bench) -> None:
    """Another run, another configuration, and writers that were killed."""
    some = keys(8)
    around = {path.name for path in bench.root.parent.iterdir()}
    with bench.rig() as rig:
        stored = rig.store(*some)
    with bench.rig() as rig:
        if rig.present(some) < stored or rig.load(*some) < stored:
            raise TierBroken("T10-restart", "what was reported stored is not found after a restart")
    for other in ("another", "../../etc", "/", "bench\0", "x" * 300):
        with bench.rig(namespace=other) as rig:
            _nothing(rig, some, "another namespace")
    with bench.rig(block_bytes=BLOCK_BYTES // 2) as rig:
        _nothing(rig, some, "another size of blocks")
    if {path.name for path in bench.root.parent.iterdir()} != around:
        raise TierBroken("T10-restart", "a namespace's name leads out of the root")
    with bench.rig() as rig:
        if rig.load(*some) < stored:
            raise TierBroken("T10-restart", "another configuration has taken blocks away")
    if bench.can_fork:
        told: set[int] = set()
        for seed in range(_KILLS):
            with bench.writer(seed=seed, namespace="killed") as writer:
                writer.listen(until=6 + seed)
                writer.kill()
                told.update(writer.landed)
            with bench.rig(namespace="killed", slots=KEYS) as rig:
                names = [key_of(n) for n in range(KEYS)]
                claimed = rig.present(names)
                landed = rig.load(*names)
                if claimed - landed:
                    raise TierBroken("T10-restart", "a killed writer left what cannot be loaded")
                if {key_of(n) for n in told} - landed:
                    raise TierBroken("T10-restart", "a killed writer's reported blocks are lost")
            bench.counts["kills"] += 1


def _nothing(rig: TierRig, some: Sequence[bytes], what: str) -> None:
    if rig.present(some) or rig.load(*some):
        raise TierBroken("T10-restart", f"{what} finds the same blocks")


def t11_shared(bench: Bench) -> None:
    """Two tiers on one root at once, in this process and in others."""
    rng = random.Random(11)
    with bench.rig() as one, bench.rig() as two:
        some = keys(12, "shared")
        for _ in range(60):
            chosen = rng.sample(some, 4)
            jobs = [(rig, rig.begin_store(chosen)) for rig in (one, two)]
            loads = [(rig, rig.begin_load(chosen, range(8, 12))) for rig in (one, two)]
            for rig, job in jobs:
                if job is not None:
                    rig.report(job)
            for rig, load in loads:
                for slot, key in zip(range(8, 12), chosen, strict=True):
                    if key in rig.report(load).landed:
                        rig.compare(key, slot, "T11-shared")
            bench.counts["rounds"] += 1
        if bench.can_fork:
            with bench.writer(seed=1, rounds=30) as writer:
                for n in range(60):
                    one.load(*map(key_of, rng.sample(range(KEYS), 4)), contract="T11-shared")
                    if n % 4 == 0:
                        one.store(*map(key_of, rng.sample(range(KEYS), 4)))
                writer.listen()
                if writer.said:
                    raise TierBroken("T11-shared", f"in another process, {writer.said}")
            bench.counts["processes"] += 1


def d1_bytes(bench: Bench) -> None:
    """Random stores and loads of blocks that carry their own names; clears now and then."""
    rng = random.Random(1)
    with bench.rig(slots=32) as rig:
        some = keys(40, "soak")
        free = list(range(32))
        open_jobs: dict[int, tuple[bool, list[bytes], list[int]]] = {}
        done = 0
        while done < bench.operations or open_jobs:
            for job in [job for job in open_jobs if job in rig.reports]:
                is_load, names, slots = open_jobs.pop(job)
                for key, slot in zip(names, slots, strict=True):
                    if is_load and key in rig.reports[job].landed:
                        rig.compare(key, slot, "D1-bytes")
                        bench.counts["blocks loaded"] += 1
                free += slots
            if done < bench.operations and len(free) >= 4:
                number = rng.randint(1, 4)
                names, slots = rng.sample(some, number), [free.pop() for _ in range(number)]
                is_load = rng.random() < 0.6
                begun = rig.begin_load(names, slots) if is_load else rig.begin_store(names, slots)
                done += 1
                if begun is None:
                    free += slots
                else:
                    open_jobs[begun] = (is_load, names, slots)
                if rng.random() < 0.001:
                    rig.tier.clear()
            elif open_jobs:
                rig.until(
                    lambda: any(job in rig.reports for job in open_jobs),
                    "T2-one-report",
                    f"none of {counted(len(open_jobs), 'job')} is reported",
                )
            rig.poll()
            rig.ask(rng.choice(some))
        bench.counts["operations"] += done


def d2_isolation(bench: Bench) -> None:
    """Keys that differ in one thing only, and two tenants of one tier's root."""
    salted = [
        Namespace(model="m", dtype="d", block_size=1, layout="l", salt=salt, adapter=adapter)
        for salt, adapter in ((None, None), ("a", None), (None, "a"), ("a", "a"), ("aa", None))
    ]
    some = [BlockKey(b"h", 0, space.digest()) for space in salted]
    some += [BlockKey(b"h", 1, salted[0].digest()), BlockKey(b"h0", 0, salted[0].digest())]
    some += [BlockKey(b"h", 0), BlockKey(b"", 0, b"h")]
    with bench.rig() as rig:
        for number, key in enumerate(some):
            rig.store(key)
            rig.load(*some, contract="D2-isolation")
            for other in some[number + 1 :]:
                if rig.decide(other) is Claim.PRESENT:
                    raise TierBroken("D2-isolation", "a key is claimed because another was stored")
        bench.counts["keys"] += len(some)
    with bench.rig(namespace="tenant two") as rig:
        if rig.present(some) or rig.load(*some):
            raise TierBroken("D2-isolation", "a tenant is served the blocks of another")
