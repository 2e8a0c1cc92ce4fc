"""Where a command writes, by one rule: it makes what an option names, in a folder that is there.

So a folder that is misspelt is told and not made. A file, or a folder of new files, is made in an
existing folder; pages are written into a folder that must exist itself, as it has others' in it.
Each is looked at before any work: nobody works an hour for a report that cannot be written.
"""

from __future__ import annotations

import os
from pathlib import Path

from .managers import UsageError


def writable(path: Path | None, option: str) -> Path | None:
    """Refuse a file that could not be written; None: no file is asked for.

    Raises:
        UsageError: `path` is a folder, lies in none, or the system does not let it be written.
    """
    if path is None:
        return None
    try:
        if path.is_dir():
            raise UsageError(f"{option} {path}: that is a folder; name a file in it")
        if not path.parent.is_dir():
            raise UsageError(f"{option} {path}: there is no folder {path.parent}; make it first")
        there = path.exists()
        # a pipe is not tried: its reader would take the end of that for the report's
        if not there or path.is_file():
            with path.open("a"):
                pass
        if not there:
            path.unlink()
    except OSError as error:
        raise UsageError(f"{option} {path}: cannot be written: {error.strerror}") from error
    return path


def write(path: Path, text: str, option: str) -> None:
    """Write a whole file.

    Raises:
        UsageError: it cannot be written.
    """
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{option} {path}: could not be written: {error.strerror}") from error


def folder_there(path: Path, option: str, what: str) -> Path:
    """Refuse a folder that does not exist or cannot be written; `what` says which one belongs here.

    Raises:
        UsageError: it is none, or may not be written.
    """
    if not path.is_dir():
        is_none = "that is no folder" if path.exists() else "there is no such folder"
        raise UsageError(f"{option} {path}: {is_none}; make it first, or name {what}")
    return _allowed(path, path, option)


def folder_to_make(path: Path | None, option: str) -> Path | None:
    """Refuse a folder of new files that could not be made or written; makes nothing yet.

    Raises:
        UsageError: `path` is a file, lies in no folder, or may not be made or written.
    """
    if path is None:
        return None
    if path.is_dir():
        return _allowed(path, path, option)
    if path.exists():
        raise UsageError(f"{option} {path}: that is no folder; name another folder with {option}")
    if not path.parent.is_dir():
        raise UsageError(f"{option} {path}: there is no folder {path.parent}; make it first")
    return _allowed(path.parent, path, option)


def _allowed(folder: Path, path: Path, option: str) -> Path:
    if not os.access(folder, os.W_OK | os.X_OK):
        raise UsageError(
            f"{option} {path}: you may not write into {folder}; name another folder, or change it"
        )
    return path
