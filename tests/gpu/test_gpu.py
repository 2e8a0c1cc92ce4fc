"""The device checks under pytest: on a GPU in full, without one a rehearsal on threads."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")

import torch

from tierproof import Arena, ConfigError
from tierproof.impl.device.cuda import CudaBackend
from tierproof.impl.device.layout import KvTensor
from tierproof.impl.device.threads import ThreadBackend
from tierproof.impl.device.worker import DeviceWorker

from . import measure

pytestmark = pytest.mark.usefixtures("own_fork_server")
SCRIPT = Path(__file__).with_name("run.sh")


@pytest.mark.gpu
def test_bytes_survive_the_way_to_the_arena_and_back():
    found = measure.bytes_survive(CudaBackend(), "cuda")
    assert [entry for entry in found if not entry["same"]] == []


@pytest.mark.gpu
def test_the_arena_is_pinned_until_it_is_released():
    arena = Arena(slots=4, block_bytes=1 << 20)
    rows = CudaBackend().register(arena)
    assert rows.is_pinned()
    arena.release()


@pytest.mark.gpu
def test_a_submission_does_not_wait_for_a_running_kernel():
    backend = CudaBackend()
    pool = torch.zeros(64, 1 << 20, dtype=torch.uint8, device="cuda")
    worker = DeviceWorker(
        arena=Arena(slots=64, block_bytes=1 << 20), groups=[[KvTensor(pool)]], backend=backend
    )
    operation = measure.Operation(1, tuple(range(64)))
    worker.store(operation, range(64))
    measure.finish(worker)
    torch.cuda._sleep(2_000_000_000)  # about a second of the device's clock
    worker.store(operation, range(64))
    assert worker.poll() == []
    assert worker.reading([5]) == {5}
    measure.finish(worker)


@pytest.mark.gpu
def test_a_model_on_the_gpu_cannot_tell_that_it_was_offloaded():
    assert measure.demos("cuda")["as_expected"]


def test_the_rehearsal_of_the_demo_is_identical_where_it_is_to_be_and_only_there():
    cases = (measure.CASES[0], measure.CASES[3])
    found = measure.demos("cpu", cases)
    assert found["as_expected"]
    assert [run["identical"] for run in found["runs"]] == [True, False]


def test_without_the_base_install_the_demo_is_left_out_and_the_rest_is_not(monkeypatch):
    for name in [name for name in sys.modules if name.startswith("tierproof.properties.demo")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "tierproof.impl.geometry", None)
    assert measure.demos("cpu") == {"skipped": "tierproof.impl.geometry is not installed"}


def test_the_rehearsal_on_threads_finds_every_byte():
    torch.set_num_threads(1)
    backend = ThreadBackend()
    try:
        found = measure.bytes_survive(backend, "cpu")
    finally:
        backend.close()
    assert len(found) == 24
    assert [entry for entry in found if not entry["same"]] == []


def test_without_a_gpu_the_script_says_so_and_is_no_failure(tmp_path):
    result = tmp_path / "gpu.json"
    done = subprocess.run(
        ["bash", SCRIPT, result],
        env={**os.environ, "PYTHON": sys.executable, "CUDA_VISIBLE_DEVICES": ""},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "skipped: torch sees no CUDA device\n"
    assert json.loads(result.read_text()) == {"skipped": "torch sees no CUDA device"}


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
def test_a_device_that_there_is_not_is_a_config_error():
    with pytest.raises(ConfigError, match="torch sees 0 CUDA devices, so there is no device 0"):
        CudaBackend()
