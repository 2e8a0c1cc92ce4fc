"""A block's file that the next block is written over: who may have it, and how it is taken.

To delete a file and to make another costs more than half of a disk's throughput (measured on ext4).
"""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass

from .file_io import FileIO


@dataclass(slots=True)
class Heir:
    """A temporary that is to have a block's file: its name, its bytes, and flags to open it with.

    `fd` is the file, open for writing, once it has it.
    """

    name: str
    size: int
    flags: int
    fd: int | None = None

    def take(self, io: FileIO, path: str) -> None:
        """Have the file at `path`, which has no other name then.

        Raises:
            OSError: as the system says; the file is where it was.
        """
        # Opened first: a process without descriptors must not lose a block for each store.
        fd = io.open(path, os.O_WRONLY | os.O_NOFOLLOW | os.O_NONBLOCK | self.flags)
        try:
            io.rename(path, self.name)
        except BaseException:
            io.close(fd)
            raise
        self.fd = fd


def is_fit(found: os.stat_result, size: int) -> bool:
    """Whether a file looks as a writer of ours made it for `size` bytes, and has one name only."""
    return (
        stat.S_ISREG(found.st_mode)
        and stat.S_IMODE(found.st_mode) == 0o600
        and (found.st_size, found.st_nlink, found.st_uid) == (size, 1, os.geteuid())
    )
