"""The command `spec`: write the generated pages, or say which are stale."""

from __future__ import annotations

from pathlib import Path

from .managers import UsageError
from .pages import PAGES, why_stale
from .places import folder_there
from .report import Page, Report


def spec(folder: Path, *, check: bool) -> Report:
    """Write the pages of `folder`, or only look whether they are what they should be.

    Raises:
        UsageError: there is no such folder, or they cannot be written.
    """
    if not check:
        folder_there(folder, "--folder", "the folder of the pages, such as docs in a clone")
    report = Report("spec")
    for name, page in PAGES.items():
        path, text = folder / name, page()
        if check:
            report.pages.append(Page(str(path), why_stale(path, text)))
            continue
        written = bool(why_stale(path, text))
        if written:
            try:
                path.write_text(text, encoding="utf-8")
            except OSError as error:
                raise UsageError(f"{path} could not be written: {error.strerror}") from error
        report.lines.append(f"{path} {'written' if written else 'is current'}")
    return report
