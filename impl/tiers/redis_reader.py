"""Receives one reply of a Redis or Valkey server straight into the memory it is meant for.

The client libraries make a bytes object of every value, which is then copied once more. Here the
socket writes a block into its arena row; what surrounds it goes through a buffer of some kilobytes.
Measured with blocks of 4 MiB, this doubles what one server's blocks are loaded with.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

_SURROUNDINGS = 4096
_NULLS = frozenset({b"$-1", b"_"})
"""How the second and the third version of the protocol say that there is no such value."""


class Socket(Protocol):
    """The one method of a socket that is used."""

    def recv_into(self, buffer: memoryview) -> int:
        """Receive some bytes; returns how many, 0 when the other side has closed."""


class RefusedError(Exception):
    """The server answered with an error; the text is the server's."""


class UnexpectedReplyError(Exception):
    """The reply is no list of so many values; the rest of it was not read."""


class WrongLengthError(Exception):
    """A value is longer or shorter than its target; the rest of the reply was not read."""


class Reply:
    """One reply of a server, read from its beginning.

    Args:
        socket: from which nothing has been read since the command was sent.
    """

    def __init__(self, socket: Socket) -> None:
        self._socket = socket
        self._buffer = memoryview(bytearray(_SURROUNDINGS))
        self._at = self._end = 0

    def values(self, targets: Sequence[memoryview]) -> bool:
        """Fill each target with the value in its place; False if a value is missing.

        When this returns, the reply has been read to its end, and some targets may hold anything
        if a value is missing. When it raises, it has not, and the connection is of no more use.

        Raises:
            RefusedError: an error came instead.
            WrongLengthError: a value is not as long as its target.
            UnexpectedReplyError: it is no list of so many values.
            OSError: the connection broke, or was silent for longer than its time limit.
        """
        self._expect(self._line(), b"*%d" % len(targets))
        whole = True
        for target in targets:
            said = self._line()
            if said in _NULLS:
                whole = False
                continue
            if said[:1] == b"$" and said != b"$%d" % target.nbytes:
                raise WrongLengthError(f"{said[1:20].decode()} bytes instead of {target.nbytes}")
            self._expect(said, b"$%d" % target.nbytes)
            self._fill(target)
            self._expect(self._line(), b"")
        return whole

    def _expect(self, said: bytes, wanted: bytes) -> None:
        if said.startswith(b"-"):
            raise RefusedError(said[1:].decode("utf-8", "replace"))
        if said != wanted:
            raise UnexpectedReplyError(f"{wanted!r} was expected, not {said[:20]!r}")

    def _line(self) -> bytes:
        line = bytearray()
        while not line.endswith(b"\r\n"):
            if self._at == self._end:
                self._end, self._at = self._receive(self._buffer), 0
            have = bytes(self._buffer[self._at : self._end])
            # The two characters at a line's end may come one by one.
            upto = have.find(b"\n") + 1 or len(have)
            line += have[:upto]
            self._at += upto
            if len(line) > _SURROUNDINGS:
                raise UnexpectedReplyError("a line without an end")
        return bytes(line[:-2])

    def _fill(self, target: memoryview) -> None:
        filled = min(target.nbytes, self._end - self._at)
        target[:filled] = self._buffer[self._at : self._at + filled]
        self._at += filled
        while filled < target.nbytes:
            filled += self._receive(target[filled:])

    def _receive(self, into: memoryview) -> int:
        received = self._socket.recv_into(into)
        if received == 0:
            raise ConnectionResetError("the server has closed the connection")
        return received
