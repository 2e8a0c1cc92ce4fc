"""What the tests of the stock file tier do with the release itself, in a process of its own.

    python stock_process.py NAME FOLDER    # calls the function NAME; an exception is a failure

A process can hold one release of vLLM only, and pytest's own has a package `vllm` of tests.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tierproof.impl.tiers.base import NO_REQUEST, LoadJob, StoreJob
from tierproof.properties import bench_tiers
from tierproof.properties.bench_stock import VERSION, StockFileTier, stock_release
from tierproof.properties.report import Report
from tierproof.properties.tier_rig import TierRig, payload

MIB = 1 << 20
SIZE = 16384


@contextmanager
def a_rig(folder: Path) -> Iterator[TierRig]:
    rig = TierRig(StockFileTier(stock_release()[0], folder), slots=8, block_bytes=SIZE)
    yield rig
    rig.close()


def moves_bytes(folder: Path) -> None:
    keys = [b"one", b"two", b"three"]
    with a_rig(folder) as rig:
        assert rig.store(*keys) == set(keys)
        files = list(folder.rglob("*.bin"))
        assert len(files) == 3
        assert {path.read_bytes() for path in files} == {payload(key, SIZE) for key in keys}
        assert rig.load(*keys) == set(keys)  # compares the bytes


def forgets(folder: Path) -> None:
    with a_rig(folder) as rig:
        assert rig.store(b"one") == {b"one"}
        rig.tier.clear()
        assert list(folder.rglob("*.bin")) == []
        assert rig.load(b"one") == frozenset(), "a deleted block was loaded"
        assert rig.store(b"one") == {b"one"}, "its folder could not be made again"
        try:
            rig.tier.lookup(b"one", NO_REQUEST)
        except NotImplementedError:
            return
        raise AssertionError("an answer that nobody looked up")


def is_given_its_managers_jobs(folder: Path) -> None:
    with a_rig(folder) as rig:
        inner: Any = rig.tier._tier  # type: ignore[attr-defined]
        given: list[Any] = []
        inner.submit_load = inner.submit_store = given.append
        rig.tier.submit_load(LoadJob(1, (b"k",), (3,)))
        rig.tier.submit_store(StoreJob(2, (b"k",), (3,)))
        load, store = given
        assert (load.job_id, load.is_promotion, list(load.chunk_ids)) == (1, True, [3])
        assert (store.job_id, store.is_promotion, list(store.chunk_ids)) == (2, False, [3])
        assert load.keys == store.keys
        assert len(load.keys[0]) == 36, "a hash of 32 bytes and a group of 4"


def takes_turns(folder: Path) -> None:
    order: list[str] = []
    module: Any = bench_tiers
    real = module.rounds_of

    def watched(rounds: int, phases: Any, progress: Any) -> Any:
        order.extend(name for steps in phases for name in steps)
        return real(rounds, phases, progress)

    module.rounds_of = watched
    report = Report("bench tiers")
    bench_tiers.file_tiers(
        report, folder, sizes=[4 * MIB], total=32 * MIB, rounds=2, progress=lambda *_: None
    )
    told = {m.what: m.value for m in report.measures if "vLLM" in m.what}
    assert set(told) == {
        f"{what}, 4 MiB, of vLLM {VERSION}'s file tier"
        for what in (
            *("files store", "files store when full", "files load"),
            *("slab store", "slab load"),
        )
    }
    assert all(0.01 < value < 100 for value in told.values()), told
    assert order.index("files store") < order.index("stock store") < order.index("limit read")
    assert order.index("files store") < order.index("files store when full")
    assert sum("'s file tier: " in line and "; goal 1 " in line for line in report.lines) == 5
    assert f"the file tier of vLLM {VERSION} moves its bytes by its" in report.lines[-1]
    assert list(folder.iterdir()) == [], "the benchmark left files"


if __name__ == "__main__":
    globals()[sys.argv[1]](Path(sys.argv[2]))
