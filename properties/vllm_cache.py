"""Where the files of vLLM's releases are kept, and how they get there.

A release is its wheel's Python files, as published and never installed: those of `PARTS`, some
12 MB of a wheel of 330 to 500 MB, and `EXTENSION`. They lie in `cache_folder()/VERSION`. Nothing of
them is part of this project.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Sequence
from pathlib import Path

from .managers import UsageError

ENVIRONMENT = "TIERPROOF_CACHE"
"""The environment variable that names another folder than ~/.cache/tierproof."""
PARTS = ("vllm/v1/", "vllm/distributed/", "vllm/utils/")
"""Folders of the wheel that are kept; of its top folder the files are."""
EXTENSION = "vllm/fs_io_C."
"""The compiled loop of its file tier, 28 kB: the one file kept that is not Python."""
MANAGER = Path("vllm/v1/kv_offload/tiering/manager.py")
FIRST = "0.22.1"
"""The first release with a tiering manager."""
_VERSION = re.compile(r"\d+(\.\d+){2,}((a|b|rc|\.post|\.dev)\d+)*")
_PATIENCE = 900.0
"""Seconds that a download may take."""


def cache_folder() -> Path:
    """The folder with one folder for each release; it need not exist."""
    if named := os.environ.get(ENVIRONMENT):
        return Path(named).expanduser() / "vllm"
    above = os.environ.get("XDG_CACHE_HOME")
    root = Path(above).expanduser() if above else Path.home() / ".cache"
    return root / "tierproof" / "vllm"


def checked(version: str) -> str:
    """The version, if it can be one.

    Raises:
        UsageError: it cannot.
    """
    if not _VERSION.fullmatch(version):
        raise UsageError(
            f"{version!r} is not the version of a vLLM release; write one such as 0.33.0"
        )
    return version


def is_cached(version: str) -> bool:
    """Are the release's files here?"""
    return (cache_folder() / checked(version) / MANAGER).is_file()


def folder_of(version: str) -> Path:
    """The folder that holds a release's `vllm`.

    Raises:
        UsageError: the release is not in the cache.
    """
    folder = cache_folder() / checked(version)
    if not (folder / MANAGER).is_file():
        raise UsageError(
            f"vLLM {version} is not in the cache ({cache_folder()}); "
            f"fetch it once: tierproof fetch-vllm {version}"
        )
    return folder


def cached() -> list[str]:
    """The versions in the cache, oldest first."""
    root = cache_folder()
    names = [f.name for f in root.iterdir()] if root.is_dir() else []
    found = [n for n in names if _VERSION.fullmatch(n) and (root / n / MANAGER).is_file()]
    return sorted(found, key=lambda name: [int(n) for n in re.findall(r"\d+", name)])


def fetch(version: str) -> bool:
    """Put a release into the cache; False if it was there.

    The files appear all at once, so a reader never sees half a release, whoever fetches it too.

    Raises:
        UsageError: there is no such release or it has no tiering manager, the package index could
            not be reached, pip is missing, or the cache cannot be written.
    """
    if is_cached(version):
        return False
    target = cache_folder() / version
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=f".{version}-", dir=target.parent) as folder:
            wheel = _download(version, Path(folder))
            files = Path(folder) / "files"
            _extract(wheel, files)
            if not (files / MANAGER).is_file():
                raise UsageError(
                    f"vLLM {version} has no tiering manager; {FIRST} is the first release with one"
                )
            shutil.rmtree(target, ignore_errors=True)  # what an older version of this left
            try:
                files.rename(target)
            except OSError:
                if not is_cached(version):  # somebody else was faster, else
                    raise
    except (OSError, zipfile.BadZipFile) as error:
        raise UsageError(
            f"vLLM {version} could not be put into the cache {cache_folder()}: {error}; "
            f"name another folder in {ENVIRONMENT}"
        ) from error
    return True


def _download(version: str, folder: Path) -> Path:
    """The wheel, downloaded with pip: whatever index pip is configured with is asked."""
    command = [sys.executable, "-m", "pip", "download", f"vllm=={version}", "--dest", str(folder)]
    command += ["--no-deps", "--only-binary=:all:", "--ignore-requires-python"]
    command += ["--disable-pip-version-check", "--no-cache-dir", "--progress-bar=off"]
    command += ["--retries=1", "--timeout=20", "--no-input"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_PATIENCE)
    except subprocess.TimeoutExpired:
        raise UsageError(
            f"vLLM {version} could not be fetched: the download took more than {_PATIENCE:.0f} s"
        ) from None
    wheels = sorted(folder.glob("*.whl"))
    if done.returncode or not wheels:
        raise UsageError(_why(version, done.stdout + done.stderr))
    return wheels[0]


def _why(version: str, said: str) -> str:
    """What pip said, as one sentence with what to do."""
    if "No module named pip" in said:
        return (
            f"vLLM {version} could not be fetched: this needs pip, and {sys.executable} has none; "
            f"install it (python -m ensurepip), or fetch in an environment with pip: the cache "
            f"({cache_folder()}) is shared"
        )
    listed = re.search(r"\(from versions: ([^)]*)\)", said)
    there = [] if listed is None else [v.strip() for v in listed[1].split(",")]
    if there not in ([], ["none"]):
        return (
            f"there is no vLLM {version} for this machine; the newest are {', '.join(there[-5:])}"
        )
    last = [line.strip() for line in said.splitlines() if line.strip()]
    reason = next((line for line in reversed(last) if line.startswith("ERROR")), "".join(last[-1:]))
    return (
        f"vLLM {version} could not be fetched: pip did not reach a package index that has vllm "
        f"({reason[:200]})"
    )


def _extract(wheel: Path, folder: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder, members=_wanted(archive.namelist()))
    wheel.unlink()


def _wanted(names: Sequence[str]) -> list[str]:
    return [
        name
        for name in names
        if name.startswith(EXTENSION)
        or (
            name.endswith(".py")
            and name.startswith("vllm/")
            and (name.startswith(PARTS) or name.count("/") == 1)
        )
    ]
