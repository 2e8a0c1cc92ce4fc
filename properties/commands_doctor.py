"""The command `doctor`: is the machine as the tiers want it, and what to do where it is not."""

from __future__ import annotations

import logging
import os
import platform
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from ..impl.counted import counted
from ..impl.errors import ConfigError, TierError
from ..impl.tiers.base import Claim, Tier
from ..impl.tiers.configuration import build_tiers, read_config, size_in_bytes
from ..impl.tiers.file_io import FileIO, probe_direct
from ..impl.tiers.slab_file import file_length
from ..impl.tiers.trouble import SAID_ONCE
from .places import folder_there
from .report import Report
from .tier_rig import TierBroken, TierRig

_GIB = 1 << 30
_BLOCK_BYTES = 4096
_NAMESPACE = "tierproof doctor"
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
        else f"{counted(advice_given, 'thing')} could be better"
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
        if isinstance(root, str) and os.path.isdir(root):  # False also where one may not look
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
        tables: Any = settings.get("tiers")
        one = [{"kind": "memory"}]
        # the doctor's blocks are apart from all others, but the namespace of the file is tried too
        build_tiers({**settings, "tiers": one if isinstance(tables, list) and tables else tables})
    except ConfigError as error:
        yield str(config), str(error)
        return
    wrong = False
    for number, table in enumerate(tables):
        try:
            (tier,) = build_tiers({"tiers": [table]}, namespace=_NAMESPACE)
        except ConfigError as error:
            wrong = True
            yield str(config), str(error).replace("tiers[0]", f"tiers[{number}]", 1)
            continue
        name = f"tier {tier.name!r}"
        with _reasons() as reasons:
            trouble = _no_room(table) or _tried(tier, table)
        if not trouble:
            yield f"{name}: a block went there and came back", ""
        else:
            told = "; ".join(dict.fromkeys(reasons))
            yield name, trouble.removeprefix(f"{name}: ") + (f": {told}" if told else "")
    if not wrong:
        try:
            build_tiers(settings)
        except ConfigError as error:  # what two tiers must not share
            yield str(config), str(error)


def _tried(tier: Tier, table: Mapping[str, Any]) -> str:
    """What is wrong with a tier, as a block in it shows; empty if nothing is."""
    with ExitStack() as after:
        if table["kind"] == "slab":
            tier = _small_slab(table, after)
        try:
            rig = TierRig(tier, slots=2, block_bytes=_BLOCK_BYTES, patience=20.0)
        except (ConfigError, TierError) as error:
            return str(error)
        after.callback(rig.close)
        after.callback(rig.tier.clear)
        key = b"doctor %d" % os.getpid()
        try:
            if not rig.store(key):
                return "a block could not be stored"
            if rig.decide(key) is not Claim.PRESENT or not rig.load(key):
                return "a block was stored and could not be loaded"
        except TierBroken as broken:
            return broken.said
    return ""


def _small_slab(table: Mapping[str, Any], after: ExitStack) -> Tier:
    """A slab of a few blocks in a folder beside those of the configuration.

    One of the configured capacity would take as much of the disk again, and for good.
    """
    folder = tempfile.mkdtemp(prefix=".doctor-", dir=table["root"])
    after.callback(shutil.rmtree, folder, ignore_errors=True)
    small = {**table, "root": folder, "capacity": file_length(4, _BLOCK_BYTES)}
    return build_tiers({"tiers": [small]}, namespace=_NAMESPACE)[0]


def _no_room(table: Mapping[str, Any]) -> str:
    """Whether a disk is too small for a slab that has not been made yet; empty if not."""
    if table["kind"] != "slab":
        return ""
    capacity = size_in_bytes(table["capacity"])
    made = [path.stat().st_blocks * 512 for path in Path(table["root"]).glob("*.slab")]
    free = shutil.disk_usage(table["root"]).free
    if free >= capacity or max(made, default=0) > capacity // 2:  # it is there already
        return ""
    return (
        f"the disk has {free:,} bytes left, and a slab of {capacity:,} is to be made; lower its "
        "capacity or free some"
    )


@contextmanager
def _reasons() -> Iterator[list[str]]:
    """What tiers log meanwhile, in their words: why something failed is said nowhere else."""
    told: list[str] = []

    class Listener(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            told.append(record.getMessage().removesuffix(SAID_ONCE))

    listener, logger = Listener(logging.WARNING), logging.getLogger("tierproof.tiers")
    logger.addHandler(listener)
    try:
        yield told
    finally:
        logger.removeHandler(listener)
