"""What the workers of every tier do alike when they move a block, wherever its bytes go."""

from __future__ import annotations

import errno
import threading
import time
from collections.abc import Callable

from ..arena import Arena
from ..errors import TierError
from .file_index import FileIndex
from .trouble import Trouble


class NoRoomError(TierError):
    """Nothing within the capacity can be evicted now, or the server has no room."""


class RemoteError(TierError):
    """The server did not do it; the message is fit for a log: no key, no address, no secret."""


class BlockMover:
    """Moves blocks of one namespace (`space`) between arena rows and where they are kept.

    Each method runs on a worker thread and answers for one block: whatever goes wrong with it, the
    others of its job go on.

    Args:
        tell: counts an event of that name.
    """

    def __init__(
        self,
        *,
        arena: Arena,
        space: str,
        index: FileIndex,
        trouble: Trouble,
        tell: Callable[[str], None],
    ) -> None:
        self.generation = 0
        """Raised by every clear: older stores no longer count."""
        self._arena = arena
        self._space = space
        self._index = index
        self._trouble = trouble
        self._tell = tell
        self._stamps = threading.Lock()
        self._last_stamp = 0

    def store(self, digest: bytes, slot: int, generation: int) -> bool:
        """Keep row `slot` under `digest`; True when it is there to be read."""
        try:
            landed = self._keep(digest, self._arena.row(slot), generation)
        except NoRoomError as error:
            self._tell("no_room")
            self._trouble.failed("write", str(error))
            return False
        except (OSError, RemoteError) as error:
            self._failed("write", error)
            return False
        if landed:
            self._trouble.worked("write")
        return landed and generation == self.generation

    def _keep(self, digest: bytes, row: memoryview, generation: int) -> bool:
        """Keep a row's bytes, if they are not there yet; False when a clear came between.

        Raises:
            NoRoomError: there is no room.
            OSError, RemoteError: it could not be done.
        """
        raise NotImplementedError

    def _failed(self, kind: str, error: OSError | RemoteError) -> None:
        """Count and tell that an operation of a kind ("read", "write", ...) failed."""
        self._tell("io_errors")
        reason = str(error)
        if isinstance(error, OSError):  # whose own text would name the file
            name = errno.errorcode.get(error.errno or 0, type(error).__name__)
            reason = f"{error.strerror} ({name})"
        if self._trouble.failed(kind, reason):
            self._index.distrust()

    def _stamp(self) -> int:
        """The time in nanoseconds, never the same twice, so that recency is an order."""
        with self._stamps:
            self._last_stamp = max(time.time_ns(), self._last_stamp + 1)
            return self._last_stamp
