"""What the system says about its memory: how much is to be had, and which NUMA nodes there are."""

from __future__ import annotations

import ctypes
import platform
import re
from pathlib import Path

ROOT = Path("/")

# `mbind` has no wrapper in libc; libnuma, which has one, is rarely installed.
_MBIND = {"x86_64": 237, "aarch64": 235}
_MPOL_PREFERRED = 1
_MASK_BITS = 64


def available_bytes(root: Path = ROOT) -> int | None:
    """Bytes that a new mapping may fill: the machine's, or the container's where that is less.

    Returns:
        None where the system does not say (no /proc).
    """
    found = []
    text = _read(root / "proc/meminfo")
    match = re.search(r"^MemAvailable:\s+(\d+) kB", text, re.MULTILINE)
    if match:
        found.append(int(match[1]) * 1024)
    cgroup = root / "sys/fs/cgroup"
    for limit, used in (
        ("memory.max", "memory.current"),
        ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes"),
    ):
        words = [_read(cgroup / name).strip() for name in (limit, used)]
        if all(word.isdigit() for word in words):  # no limit is the word "max"
            found.append(max(0, int(words[0]) - int(words[1])))
    return min(found, default=None)


def numa_nodes(root: Path = ROOT) -> list[int]:
    """The numbers of the system's NUMA nodes, ascending; empty where it does not say."""
    folders = (root / "sys/devices/system/node").glob("node[0-9]*")
    return sorted(int(folder.name.removeprefix("node")) for folder in folders)


def prefer_node(address: int, size: int, node: int) -> bool:
    """Ask that the untouched pages of `size` bytes at `address` come from NUMA node `node`.

    A preference and not a binding: a full node makes memory slower, not the process dead.

    Returns:
        Whether the system agreed; containers often forbid the call.
    """
    number = _MBIND.get(platform.machine())
    if number is None or not 0 <= node < _MASK_BITS:
        return False
    libc = ctypes.CDLL(None, use_errno=True)
    mask = ctypes.c_ulong(1 << node)
    # The kernel counts one bit less than it is told.
    answer: int = libc.syscall(
        ctypes.c_long(number),
        ctypes.c_void_p(address),
        ctypes.c_ulong(size),
        ctypes.c_int(_MPOL_PREFERRED),
        ctypes.byref(mask),
        ctypes.c_ulong(_MASK_BITS + 1),
        ctypes.c_uint(0),
    )
    return answer == 0


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""
