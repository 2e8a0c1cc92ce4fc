"""Other processes in the folder, and what `kill -9` leaves of them: `T10`, `T11`."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tierproof.impl.tiers.base import Claim
from tierproof.impl.tiers.block_file import file_bytes
from tierproof.impl.tiers.files import FileTier

from .support import (
    Rig,
    block_files,
    file_rig,
    leftovers,
)

KEYS = [b"k%d" % number for number in range(1, 6)]

WRITER = """
import sys, random
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from tests.tiers.support import Rig
from tierproof.impl.tiers.files import FileTier

root, (seed, capacity, rounds) = Path(sys.argv[2]), map(int, sys.argv[3:])
rig = Rig(FileTier(root, capacity_bytes=capacity or None), slots=4, block_bytes=16384)
rng = random.Random(seed)
print("ready", flush=True)
for _ in range(rounds):
    keys = [b"key %d" % number for number in rng.sample(range(40), 4)]
    for key in rig.store(*keys):
        print("stored", int(key.split()[1]), flush=True)
    rig.load(*[b"key %d" % number for number in rng.sample(range(40), 4)])
rig.close()
print("corrupt", rig.tier.counters["corrupt"], flush=True)
"""
REPOSITORY = Path(__file__).parents[2]


@contextmanager
def writer(
    root: Path, *, seed: int = 0, capacity: int = 0, rounds: int = 1_000_000
) -> Iterator[subprocess.Popen[str]]:
    """Another process that stores and loads keys "key 0" to "key 39" in the folder."""
    arguments = [str(REPOSITORY), str(root), str(seed), str(capacity), str(rounds)]
    process = subprocess.Popen(
        [sys.executable, "-c", WRITER, *arguments], stdout=subprocess.PIPE, text=True
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


def lines(process: subprocess.Popen[str]) -> Iterator[str]:
    assert process.stdout is not None
    return iter(process.stdout)


@pytest.mark.parametrize("capacity", [0, 12 * file_bytes(16384)])
def test_t10_kill_9_of_a_writer_loses_nothing_reported_and_leaves_nothing_torn(
    tmp_path: Path, capacity: int
) -> None:
    for seed in range(3):
        reported: set[int] = set()
        with writer(tmp_path, seed=seed, capacity=capacity) as process:
            output = lines(process)
            assert next(output) == "ready\n"
            for line in output:
                reported.add(int(line.split()[1]))
                if len(reported) >= 15:
                    break
            process.send_signal(signal.SIGKILL)
            process.wait()
            reported |= {int(line.split()[1]) for line in output if line.endswith("\n")}
        rig = Rig(FileTier(tmp_path, capacity_bytes=capacity or None), slots=40, block_bytes=16384)
        try:
            keys = [b"key %d" % number for number in range(40)]
            landed = rig.load(*keys)
            if not capacity:
                assert landed >= {b"key %d" % number for number in reported}
            assert rig.tier.counters["corrupt"] == 0, "a torn file got a block's name"
            files = block_files(tmp_path)
            assert len(files) == len(landed)
            assert not capacity or len(files) <= 12
            assert rig.store(b"key 0") == {b"key 0"}
            assert leftovers(tmp_path) == [], "the killed writer's temporaries were not swept"
        finally:
            rig.close()


def test_t11_two_processes_serve_each_others_blocks(tmp_path: Path) -> None:
    with (
        file_rig(tmp_path, slots=4, block_bytes=16384) as rig,
        writer(tmp_path, rounds=30) as process,
    ):
        output = lines(process)
        assert next(output) == "ready\n"
        number = int(next(output).split()[1])
        assert rig.decide(b"key %d" % number) is Claim.PRESENT
        assert rig.load(b"key %d" % number) == {b"key %d" % number}


@pytest.mark.parametrize("capacity", [0, 12 * file_bytes(16384)])
def test_t11_three_processes_see_whole_blocks_only(tmp_path: Path, capacity: int) -> None:
    most = 0
    with (
        writer(tmp_path, seed=1, capacity=capacity, rounds=40) as one,
        writer(tmp_path, seed=2, capacity=capacity, rounds=40) as two,
    ):
        ends = []
        for process in (one, two):
            reader = threading.Thread(target=lambda p=process: ends.append([*lines(p)][-1]))
            reader.start()
        rng = random.Random(3)
        rig = Rig(FileTier(tmp_path, capacity_bytes=capacity or None), slots=4, block_bytes=16384)
        while len(ends) < 2:
            keys = [b"key %d" % number for number in rng.sample(range(40), 4)]
            rig.load(*keys)  # compares the bytes
            rig.store(*keys[:2])
            most = max(most, len(block_files(tmp_path)))
        assert ends == ["corrupt 0\n"] * 2, "the writers compare too, and ended well"
        assert rig.tier.counters["corrupt"] == 0
        rig.close()
    if capacity:
        assert len(block_files(tmp_path)) <= 12, "three processes exceeded the capacity they share"
        assert most <= 14  # a listing is not an instant: a file may come and go meanwhile
    assert leftovers(tmp_path) == []
