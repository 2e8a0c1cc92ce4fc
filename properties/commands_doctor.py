"""The command `doctor`: is the machine as the tiers want it, and what to do where it is not."""

from __future__ import annotations

import os
import platform
import shutil
import sys
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from ..impl.errors import ConfigError
from ..impl.tiers.base import Claim
from ..impl.tiers.configuration import build_tiers, read_config
from ..impl.tiers.file_io import FileIO, probe_direct
from .places import folder_there
from .report import Report
from .tier_rig import TierBroken, TierRig

_GIB = 1 << 30
_THP = Path("/sys/kernel/mm/transparent_hugepage/enabled")
_PACKAGES = ("numpy", "msgspec", "xxhash", "prometheus_client", "torch", "obstore", "valkey")
Finding = tuple[str, str]
"""What was found; what to do, empty where nothing."""


def doctor(folder: Path | None, config: Path | None) -> Report:
    """Look at the machine, at the disks, and at the tiers of a configuration.

    The disks are that of the folder and those of the configuration's tiers; that of the current
    folder where neither says one. A folder or server that cannot be used makes the exit code 2;
    everything else is advice.

    Raises:
        UsageError: the folder is none, or cannot be written.
    """
    if folder is not None:
        folder_there(folder, "--folder", "the folder where a cache would be")
    report = Report("doctor")
    tried = [] if config is None else list(tiers(config))
    folders = list(dict.fromkeys([*([] if folder is None else [folder]), *_roots(config)]))
    findings = [huge_pages(), memory()]
    for one in folders or [Path()]:
        findings += [direct_io(one), disk(one)]
    findings += [device(), *versions()]
    for found, advice in findings:
        report.lines.append(f"{'look' if advice else 'ok  '}  {found}")
        if advice:
            report.lines.append(f"      -> {advice}")
    for found, trouble in tried:
        report.lines.append(f"{'bad ' if trouble else 'ok  '}  {found}")
        if trouble:
            report.doubts.append(f"{found}: {trouble}")
    advice_given = sum(bool(advice) for _, advice in findings)
    report.conclusion = (
        "the configuration cannot be used as it is"
        if report.doubts
        else f"{advice_given} thing(s) could be better"
        if advice_given
        else "everything is as it should be"
    )
    return report


def _roots(config: Path | None) -> Iterator[Path]:
    """The folders that the tiers of a configuration keep blocks in, as far as there are any."""
    if config is None:
        return
    try:
        tables = read_config(config).get("tiers") or []
    except ConfigError:  # told already
        return
    for table in tables if isinstance(tables, list) else ():
        root = table.get("root") if isinstance(table, dict) else None
        if isinstance(root, str) and Path(root).is_dir():
            yield Path(root)


def huge_pages() -> Finding:
    """May an arena have huge pages?"""
    try:
        words = _THP.read_text().split()
    except OSError:
        return "huge pages: this kernel has none", "O_DIRECT will be up to 3 times slower"
    chosen = next((word.strip("[]") for word in words if word.startswith("[")), "unknown")
    if chosen in ("always", "madvise"):
        return f"huge pages: {chosen}", ""
    return f"huge pages: {chosen}", f"as root: echo madvise > {_THP}"


def direct_io(folder: Path) -> Finding:
    """Does the folder's file system take O_DIRECT?"""
    probe = folder / f".tierproof-doctor-{os.getpid()}"
    try:
        if probe_direct(FileIO(), str(probe), None):
            return f"O_DIRECT in {folder}: works", ""
    except OSError as error:
        return f"{folder}: cannot be written ({error.strerror})", "choose another folder: --folder"
    return (
        f"O_DIRECT in {folder}: refused",
        "put the cache on ext4 or XFS; buffered I/O reaches about half of the disk",
    )


def memory() -> Finding:
    """How much memory may an arena take?"""
    available = 0
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemAvailable:"):
            available = int(line.split()[1]) * 1024
    limit = None
    for name in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        try:
            text = Path(name).read_text().strip()
        except OSError:
            continue
        if text.isdigit() and int(text) < 1 << 60:
            limit = int(text)
    told = f"memory: {available / _GIB:.1f} GiB available"
    if limit is not None and limit < available:
        return f"{told}, but this container may have {limit / _GIB:.1f} GiB", "size the arena by it"
    return told, ""


def disk(folder: Path) -> Finding:
    """How much room has the folder's disk?"""
    try:
        free = shutil.disk_usage(folder).free
    except OSError as error:
        return f"disk: {folder} cannot be looked at ({error.strerror})", "choose another --folder"
    few = "" if free > 10 * _GIB else "a cache of some use needs more than 10 GiB"
    return f"disk: {free / _GIB:.1f} GiB free in {folder}", few


def device() -> Finding:
    """Is there a GPU that torch sees?"""
    try:
        import torch
    except ImportError:
        return (
            "device: torch is not installed",
            "to copy to a GPU: pip install '.[torch]' in a clone",
        )
    if torch.cuda.is_available():
        return f"device: {torch.cuda.get_device_name(0)}, CUDA {torch.version.cuda}", ""
    return f"device: torch {torch.__version__} sees none", ""


def versions() -> Iterator[Finding]:
    """What is installed."""
    found = [f"python {platform.python_version()}", f"{sys.platform} {platform.release()}"]
    for name in _PACKAGES:
        try:
            found.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            found.append(f"no {name}")
    yield "versions: " + ", ".join(found), ""


def tiers(config: Path) -> Iterator[Finding]:
    """Store a block in each tier of a configuration, read it back, and take it away again."""
    try:
        settings = read_config(config)
        tables = settings.get("tiers") or []
        build_tiers(settings, namespace="tierproof doctor")
        # the doctor's blocks are apart from all others, but the namespace of the file is tried too
        build_tiers({**settings, "tiers": [{"kind": "memory"}]})
    except ConfigError as error:
        yield str(config), str(error)
        return
    for table in tables:
        (tier,) = build_tiers({"tiers": [table]}, namespace="tierproof doctor")
        name = f"tier {tier.name!r}"
        try:
            rig = TierRig(tier, slots=2, block_bytes=4096, patience=20.0)
        except ConfigError as error:
            yield name, str(error)
            continue
        try:
            key = b"doctor %d" % os.getpid()
            if not rig.store(key):
                yield name, "a block could not be stored; the log says why"
            elif rig.decide(key) is not Claim.PRESENT or not rig.load(key):
                yield name, "a block was stored and could not be loaded"
            else:
                yield f"{name}: a block went there and came back", ""
        except TierBroken as broken:
            yield name, broken.said
        finally:
            rig.tier.clear()
            rig.close()
