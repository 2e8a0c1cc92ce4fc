"""Workers with one fault of order each. None shows in a run that happens to go well."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from tierproof.impl.device.backend import Event, Stream
from tierproof.impl.device.lanes import Bounce, Lane, Loads, Piece, Stores
from tierproof.impl.device.worker import DeviceWorker


class _NoWaitForBuffer(Lane):
    def await_buffer(self, bounce: Bounce) -> None:
        pass


class _NoWaitForFilled(Lane):
    def await_filled(self, filled: Event) -> None:
        pass


class _NoBegin(Lane):
    def begin(self, after: Iterable[Event]) -> None:
        pass


class _EndsWithFirstHalf(Lane):
    def submit(self, piece: Piece, events: list[Event]) -> None:
        super().submit(piece, events)
        events.pop()


class _EarlyEnd(Lane):
    """Records the end before the second half is submitted."""

    def submit(self, piece: Piece, events: list[Event]) -> None:
        early = self.second.record()
        super().submit(piece, events)
        events[-1] = early


class _FreeAtFirstHalf(Lane):
    """Says that the buffer is free when it has just been filled."""

    def submit(self, piece: Piece, events: list[Event]) -> None:
        super().submit(piece, events)
        self._rings[piece.group][-1].free = events[-2]


class _OneBufferTwice(Lane):
    """Each second use of a buffer does not know of the first."""

    def submit(self, piece: Piece, events: list[Event]) -> None:
        super().submit(piece, events)
        self._rings[piece.group][-1].free = None


def _with(*, stores: type[Lane] = Stores, loads: type[Lane] = Loads) -> type[DeviceWorker]:
    return type("Broken", (DeviceWorker,), {"stores": stores, "loads": loads})


def _lane(fault: type[Lane], lane: type[Lane]) -> type[Lane]:
    return type("BrokenLane", (fault, lane), {})


class _ForgetsLoads(DeviceWorker):
    def _in_the_way(self, store: bool, blocks: Iterable[int]) -> list[Event]:
        return [] if store else super()._in_the_way(store, blocks)


class _ForgetsStores(DeviceWorker):
    def _in_the_way(self, store: bool, blocks: Iterable[int]) -> list[Event]:
        return super()._in_the_way(store, blocks) if store else []


class _NoGuard(DeviceWorker):
    def guard(self, stream: Stream, blocks: Collection[int]) -> None:
        pass


class _FreesSourcesAtSubmit(DeviceWorker):
    def reading(self, blocks: Iterable[int]) -> set[int]:
        return set()


class _FreesTargetsAtSubmit(DeviceWorker):
    def writing(self, blocks: Iterable[int]) -> set[int]:
        return set()


BROKEN: dict[str, type[DeviceWorker]] = {
    "a store copies before it has gathered": _with(stores=_lane(_NoWaitForFilled, Stores)),
    "a load scatters before it has copied": _with(loads=_lane(_NoWaitForFilled, Loads)),
    "a store's buffer is used again too early": _with(stores=_lane(_NoWaitForBuffer, Stores)),
    "a load's buffer is used again too early": _with(loads=_lane(_NoWaitForBuffer, Loads)),
    "a store's buffer is free once filled": _with(stores=_lane(_FreeAtFirstHalf, Stores)),
    "a load's buffer forgets its user": _with(loads=_lane(_OneBufferTwice, Loads)),
    "a store ends with its gather": _with(stores=_lane(_EndsWithFirstHalf, Stores)),
    "a store's end is recorded early": _with(stores=_lane(_EarlyEnd, Stores)),
    "a store does not wait for the kernel before": _with(stores=_lane(_NoBegin, Stores)),
    "a load does not wait for the kernel before": _with(loads=_lane(_NoBegin, Loads)),
    "a store reads what a load still writes": _ForgetsLoads,
    "a load writes what a store still reads": _ForgetsStores,
    "kernels are not guarded": _NoGuard,
    "a source block is free at submission": _FreesSourcesAtSubmit,
    "a target block is free at submission": _FreesTargetsAtSubmit,
}
