"""Bytes and speed of the device worker on a GPU, as JSON; `run.sh` runs it. No pytest needed.

With `--device cpu` the same code runs on threads: a rehearsal, whose figures mean nothing.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

import torch

from tierproof.impl.arena import Arena
from tierproof.impl.device.backend import DeviceBackend, Event
from tierproof.impl.device.cuda import CudaBackend
from tierproof.impl.device.layout import KvTensor
from tierproof.impl.device.threads import ThreadBackend
from tierproof.impl.device.worker import DeviceWorker

DTYPES = (torch.float16, torch.bfloat16, torch.float8_e4m3fn, torch.uint8)
LAYOUTS = ("layer-first", "stacked", "block-first")
TARGET = 0.9
BLOCK = 1 << 20
LAYERS = 32
PATIENCE = 60.0


@dataclass(frozen=True)
class Operation:
    """A load or a store as the worker sees it."""

    operation_id: int
    slots: tuple[int, ...]


def kv_group(
    layout: str, dtype: torch.dtype, *, blocks: int, layers: int, page: int, device: str
) -> list[KvTensor]:
    """Random KV blocks: `layers` x 2 pages of `page` values each."""

    def filled(*shape: int) -> torch.Tensor:
        size = torch.empty(0, dtype=dtype).element_size()
        whole = (*shape[:-1], shape[-1] * size)
        return torch.randint(0, 256, whole, dtype=torch.uint8, device=device).view(dtype)

    if layout == "layer-first":
        return [KvTensor(filled(2, blocks, page), 1) for _ in range(layers)]
    if layout == "stacked":
        return [KvTensor(filled(layers, 2, blocks, page), 2)]
    return [KvTensor(filled(blocks, layers, 2, page))]


def finish(worker: DeviceWorker) -> None:
    """Poll without a pause until nothing is in flight; every job must have gone well."""
    end = time.monotonic() + PATIENCE
    while worker.in_flight:
        for job in worker.poll():
            assert job.ok, job.error
        assert time.monotonic() < end, f"operations {worker.in_flight} do not end"


def bytes_survive(backend: DeviceBackend, device: str) -> list[dict[str, Any]]:
    """Every layout, dtype and an odd page size: out, overwritten, back, both ways at once."""
    results = []
    for layout in LAYOUTS:
        for dtype in DTYPES:
            for page in (64, 7):
                same = _there_and_back(backend, device, layout, dtype, page)
                results.append({"layout": layout, "dtype": str(dtype), "page": page, "same": same})
    return results


def _there_and_back(
    backend: DeviceBackend, device: str, layout: str, dtype: torch.dtype, page: int
) -> bool:
    blocks = 24
    group = kv_group(layout, dtype, blocks=blocks, layers=3, page=page, device=device)
    bits = [(part.tensor.view(torch.uint8), part.block_dim) for part in group]
    before = [tensor.clone() for tensor, _ in bits]
    arena = Arena(slots=blocks, block_bytes=3 * 2 * page * dtype.itemsize)
    worker = DeviceWorker(
        arena=arena, groups=[group], backend=backend, piece_bytes=4 * arena.block_bytes
    )
    half, rest = tuple(range(0, 12)), tuple(range(12, blocks))
    order = random.Random(page).sample(range(blocks), blocks)
    worker.store(Operation(1, half), order[:12])
    finish(worker)
    # The second half goes out while the first comes back to where it was, overwritten meanwhile.
    for tensor, dim in bits:
        tensor.index_fill_(dim, torch.tensor(order[:12], device=device), 0)
    worker.store(Operation(2, rest), order[12:])
    worker.load(Operation(3, half), order[:12])
    finish(worker)
    for tensor, dim in bits:
        tensor.index_fill_(dim, torch.tensor(order[12:], device=device), 0)
    worker.load(Operation(4, rest), order[12:])
    finish(worker)
    same = all(torch.equal(was, now) for was, (now, _) in zip(before, bits, strict=True))
    arena.release()
    return same


def seconds(run: Callable[[], object], repeats: int = 3) -> float:
    """The quickest of some runs, after one that warms up."""
    run()
    taken = []
    for _ in range(repeats):
        begun = time.perf_counter()
        run()
        taken.append(time.perf_counter() - begun)
    return min(taken)


def await_events(*events: Event) -> None:
    """Poll events until all have happened, none with an error."""
    end = time.monotonic() + PATIENCE
    while not all(event.query() for event in events):
        assert time.monotonic() < end, "a copy does not end"
    assert not any(event.error for event in events)


def speeds(backend: DeviceBackend, device: str, blocks: int) -> dict[str, Any]:
    """GB/s of each way and of both at once, and their ratios to plain pinned copies."""
    arena = Arena(slots=2 * blocks, block_bytes=BLOCK)
    rows = backend.register(arena)
    near = [backend.buffer(blocks, BLOCK) for _ in range(2)]
    out, back = backend.stream(), backend.stream()

    def peak(*ways: str) -> None:
        events = []
        if "store" in ways:
            out.copy(rows[:blocks], near[0])
            events.append(out.record())
        if "load" in ways:
            back.copy(near[1], rows[blocks:])
            events.append(back.record())
        await_events(*events)

    moved = blocks * BLOCK
    all_ways = (("store",), ("load",), ("store", "load"))
    found: dict[str, Any] = {"peak_gb_s": {}, "layouts": {}}
    for ways in all_ways:
        found["peak_gb_s"]["+".join(ways)] = len(ways) * moved / seconds(partial(peak, *ways)) / 1e9
    arena.release()
    for layout in ("layer-first", "block-first"):
        found["layouts"][layout] = _worker_speeds(
            backend, device, layout, blocks, all_ways, found["peak_gb_s"]
        )
    return found


def _worker_speeds(
    backend: DeviceBackend,
    device: str,
    layout: str,
    blocks: int,
    all_ways: tuple[tuple[str, ...], ...],
    peaks: dict[str, float],
) -> dict[str, Any]:
    page = BLOCK // (LAYERS * 2)
    group = kv_group(
        layout, torch.uint8, blocks=2 * blocks, layers=LAYERS, page=page, device=device
    )
    arena = Arena(slots=2 * blocks, block_bytes=BLOCK)
    worker = DeviceWorker(arena=arena, groups=[group], backend=backend)
    # Blocks lie anywhere, slots side by side: what a long-running server's prefill looks like.
    ids = random.Random(1).sample(range(2 * blocks), 2 * blocks)

    def run(*ways: str, after: Sequence[Event] | None = None) -> None:
        if "store" in ways:
            worker.store(Operation(1, tuple(range(blocks))), ids[:blocks], after=after)
        if "load" in ways:
            slots = tuple(range(blocks, 2 * blocks))
            worker.load(Operation(2, slots), ids[blocks:], after=after)
        finish(worker)

    found: dict[str, Any] = {}
    for ways in all_ways:
        name = "+".join(ways)
        speed = len(ways) * blocks * BLOCK / seconds(partial(run, *ways)) / 1e9
        found[name] = {"gb_s": speed, "ratio": speed / peaks[name]}
    if device == "cuda":
        found["beside_matmul"] = _beside_matmul(backend, run)
    arena.release()
    return found


def _beside_matmul(backend: DeviceBackend, run: Callable[..., None]) -> dict[str, float]:
    left, right = (torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16) for _ in range(2))

    def multiply() -> Event:
        for _ in range(20):
            torch.mm(left, right)
        return backend.current().record()

    def both() -> None:
        before = backend.current().record()
        done = multiply()
        # By default the copies would run behind the kernels, which do not touch these blocks.
        run("store", "load", after=[before])
        await_events(done)

    return {
        "matmul_s": seconds(lambda: await_events(multiply())),
        "copies_s": seconds(lambda: run("store", "load")),
        "together_s": seconds(both),
    }


@dataclass(frozen=True)
class Case:
    """A run of `tierproof demo` over files, and whether its logits are to be identical."""

    layout: Literal["layer-first", "block-first"]
    flip: bool = False
    checksums: bool = True

    @property
    def identical(self) -> bool:
        """Only a damaged block that nobody checks may show."""
        return self.checksums or not self.flip


CASES = (
    Case("layer-first"),
    Case("block-first"),
    Case("layer-first", flip=True),
    Case("block-first", flip=True, checksums=False),
)


def demos(device: str, cases: Sequence[Case] = CASES) -> dict[str, Any]:
    """Each case's report, and whether all went as they should; or why they cannot be run."""
    try:
        from tierproof.properties.demo.run import run
        from tierproof.properties.demo.settings import Settings
    except ModuleNotFoundError as error:
        return {"skipped": f"{error.name} is not installed"}
    reports, as_expected = [], True
    for seed, case in enumerate(cases):
        with tempfile.TemporaryDirectory(prefix="tierproof-") as root:
            settings = Settings(
                seed=seed,
                layout=case.layout,
                device=device,
                tier={"kind": "files", "root": root},
                environment={},
                run=uuid.uuid4().hex,
                checksums=case.checksums,
            )
            outcome = run(settings, lambda what, done, total: None, flip=case.flip)
        reports.append(outcome.as_json())
        as_expected = as_expected and outcome.identical is case.identical
    return {"as_expected": as_expected, "runs": reports}


def main(words: list[str]) -> int:
    """Run all; 1 where a byte or a logit was wrong. A ratio below the target is no failure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path, default=Path("gpu.json"))
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--mib", type=int, default=1024, help="MiB each way, at least 1")
    options = parser.parse_args(words)
    if options.device == "cuda" and not torch.cuda.is_available():
        reason = "torch sees no CUDA device"
        options.json.write_text(json.dumps({"skipped": reason}) + "\n")
        print(f"skipped: {reason}")
        return 0
    begun = time.monotonic()
    backend: DeviceBackend = CudaBackend() if options.device == "cuda" else ThreadBackend()
    try:
        compared = bytes_survive(backend, options.device)
        result: dict[str, Any] = {
            "device": torch.cuda.get_device_name() if options.device == "cuda" else "cpu threads",
            "torch": torch.__version__,
            "identical": all(entry["same"] for entry in compared),
            "bytes": compared,
            "target": TARGET,
            **speeds(backend, options.device, options.mib),
        }
    finally:
        backend.close()
    result["demo"] = demos(options.device)
    result["seconds"] = time.monotonic() - begun
    options.json.write_text(json.dumps(result, indent=1) + "\n")
    shown = {key: value for key, value in result.items() if key != "bytes"}
    shown["demo"] = {key: value for key, value in result["demo"].items() if key != "runs"}
    print(json.dumps(shown, indent=1))
    return 0 if result["identical"] and result["demo"].get("as_expected", True) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
