"""The primary tier's memory: rows that share one mapping, and clear errors."""

from __future__ import annotations

import ctypes
import mmap
import sys

import pytest

from tierproof import Arena, ConfigError
from tierproof.impl import arena as arena_module
from tierproof.impl import memory


def test_row_i_is_slot_i_of_one_contiguous_view():
    arena = Arena(slots=3, block_bytes=4)
    assert bytes(arena.view) == bytes(12)
    arena.row(1)[:] = b"abcd"
    assert bytes(arena.view) == bytes(4) + b"abcd" + bytes(4)
    assert len(arena.row(2)) == 4


@pytest.mark.parametrize("slot", [-1, 3])
def test_a_slot_that_there_is_not_is_an_index_error(slot):
    with pytest.raises(IndexError, match=r"is not one of 0\.\.2"):
        Arena(slots=3, block_bytes=4).row(slot)


@pytest.mark.parametrize(
    ("slots", "block_bytes", "field"), [(0, 4, "slots"), (3, -1, "block_bytes"), (True, 4, "slots")]
)
def test_a_size_that_is_no_positive_number_is_refused_by_name(slots, block_bytes, field):
    with pytest.raises(ConfigError, match=f"{field} must be a whole number of at least 1"):
        Arena(slots=slots, block_bytes=block_bytes)


def test_more_memory_than_there_is_is_a_config_error():
    with pytest.raises(ConfigError, match="choose fewer slots"):
        Arena(slots=1 << 40, block_bytes=1 << 30)


def test_a_released_arena_has_no_rows_any_more():
    arena = Arena(slots=1, block_bytes=4)
    arena.release()
    arena.release()
    assert arena.released
    with pytest.raises(ConfigError, match="released"):
        arena.row(0)


def test_a_row_that_somebody_holds_survives_the_release():
    arena = Arena(slots=1, block_bytes=4)
    row = arena.row(0)
    row[:] = b"abcd"
    arena.release()
    assert bytes(row) == b"abcd"


@pytest.mark.parametrize("huge_pages", ["yes", "no", "unknown"])
def test_huge_pages_are_asked_for_and_not_needed(huge_pages, monkeypatch):
    advised = []

    class Map(mmap.mmap):
        def madvise(self, option, *_):
            advised.append(option)
            if huge_pages == "no":
                raise OSError

    monkeypatch.setattr(mmap, "mmap", Map)
    if huge_pages == "unknown":
        monkeypatch.delattr(mmap, "MADV_HUGEPAGE")
    arena = arena_module.Arena(slots=2, block_bytes=1 << 20)
    assert len(arena.view) == 2 << 20
    assert len(advised) == (huge_pages != "unknown")


def test_what_is_more_than_the_system_has_left_is_refused_before_it_is_touched(monkeypatch):
    monkeypatch.setattr(memory, "available_bytes", lambda: 3 << 20)
    with pytest.raises(ConfigError, match=r"4,194,304 bytes.* has 3,145,728 bytes left"):
        arena_module.Arena(slots=2, block_bytes=2 << 20)


def test_a_numa_node_is_a_wish_that_the_system_may_refuse(monkeypatch):
    monkeypatch.setattr(memory, "numa_nodes", lambda: [0, 1])
    asked = []
    for agrees in (True, False):

        def prefer(*wish, says=agrees):
            asked.append(wish)
            return says

        monkeypatch.setattr(memory, "prefer_node", prefer)
        arena = arena_module.Arena(slots=2, block_bytes=4096, numa_node=1)
        assert arena.on_node == (1 if agrees else None)
    assert [(size, node) for _, size, node in asked] == [(8192, 1)] * 2


def test_a_numa_node_that_there_is_not_is_refused_by_name():
    with pytest.raises(ConfigError, match="numa_node must be one of"):
        Arena(slots=1, block_bytes=1, numa_node=4711)


def test_who_pinned_the_memory_hears_of_its_end_once():
    arena, heard = Arena(slots=1, block_bytes=4), []
    arena.before_release(lambda: heard.append(arena.released))
    arena.release()
    arena.release()
    assert heard == [False]


def test_the_tensor_of_the_rows_shares_the_memory_and_outlives_the_arena():
    pytest.importorskip("torch")
    arena = Arena(slots=3, block_bytes=5)
    tensor = arena.as_tensor()
    assert tensor.shape == (3, 5)
    tensor[1] = 7
    assert bytes(arena.row(1)) == b"\7" * 5
    arena.release()
    assert tensor[1].tolist() == [7] * 5
    with pytest.raises(ConfigError, match="released"):
        arena.as_tensor()


def test_a_missing_torch_is_named_with_its_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(ConfigError, match=r"pip install '\.\[torch\]'"):
        Arena(slots=1, block_bytes=1).as_tensor()


@pytest.mark.parametrize(
    ("files", "bytes_left"),
    [
        ({}, None),
        ({"proc/meminfo": "MemTotal: 9 kB\nMemAvailable:   4 kB\n"}, 4096),
        (
            {
                "proc/meminfo": "MemAvailable: 4 kB\n",
                "sys/fs/cgroup/memory.max": "3000\n",
                "sys/fs/cgroup/memory.current": "1000\n",
            },
            2000,
        ),
        (
            {
                "proc/meminfo": "MemAvailable: 4 kB\n",
                "sys/fs/cgroup/memory.max": "max\n",
                "sys/fs/cgroup/memory.current": "1000\n",
            },
            4096,
        ),
    ],
)
def test_the_memory_left_is_the_least_that_machine_and_container_say(tmp_path, files, bytes_left):
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    assert memory.available_bytes(tmp_path) == bytes_left


def test_the_nodes_are_those_that_have_a_folder(tmp_path):
    for name in ("node0", "node10", "node2", "possible"):
        (tmp_path / "sys/devices/system/node" / name).mkdir(parents=True)
    assert memory.numa_nodes(tmp_path) == [0, 2, 10]


def test_a_preference_the_system_cannot_have_is_told():
    pages = mmap.mmap(-1, 4096)
    address = ctypes.addressof(ctypes.c_char.from_buffer(pages))
    assert memory.prefer_node(address, 4096, 0) in (True, False)  # containers may forbid it
    assert not memory.prefer_node(address, 4096, 64)
    assert not memory.prefer_node(address, 4096, 63), "no machine of ours has that node"


def test_a_mapping_that_the_system_refuses_is_a_config_error(monkeypatch):
    monkeypatch.setattr(memory, "available_bytes", lambda: None)
    with pytest.raises(ConfigError, match=r"cannot map .* choose fewer slots"):
        Arena(slots=1 << 40, block_bytes=1 << 30)
