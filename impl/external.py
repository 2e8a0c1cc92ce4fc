"""Requests that a tier makes for a peer: they never ask that tier itself."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from .arguments import distinct
from .blocks import Block
from .cascades import Cascades
from .errors import ContractViolation
from .requests import Request, Requests
from .secondary import Secondary
from .tiers.base import Key
from .vocabulary import LookupResult

if TYPE_CHECKING:
    from .manager import TieredOffloadingManager


class ExternalRequests:
    """The handle of one serving tier, from `TieredOffloadingManager.external`.

    Used under the manager's lock, by whoever drives the steps: never from a tier's own thread.
    """

    def __init__(
        self,
        manager: TieredOffloadingManager,
        serving: Secondary,
        requests: Requests,
        resident: Callable[[Sequence[Key]], list[Block]],
        cascades: Cascades,
    ) -> None:
        self._manager = manager
        self._serving = serving
        self._requests = requests
        self._resident = resident
        self._cascades = cascades

    def on_new_request(self, request_id: str) -> Request:
        """Announce a peer's request; its lookups ask every tier but the serving one."""
        return self._requests.begin(request_id, None, excluded=self._serving)

    def lookup(self, key: Key, request: Request) -> LookupResult:
        """As the manager's `lookup`; may start a promotion.

        Raises:
            ContractViolation: the handle is not a live one of this tier's.
        """
        self._check(request)
        return self._manager.lookup(key, request)

    def send(self, keys: Iterable[Key], request: Request) -> int | None:
        """Pin the blocks and hand them to the serving tier as one store job.

        Returns:
            The job's id; None when nothing is pinned: the share of cascades does not allow it, a
            store of the tier is overdue, or the tier would not take it.

        Raises:
            ContractViolation: a key is not RESIDENT or named twice, or the handle is not a live
                one of this tier's.
        """
        self._check(request)
        keys = distinct(keys)
        if not keys:  # a job without blocks would be reported for nothing
            return None
        return self._cascades.send_external(self._serving, self._resident(keys), request)

    def on_request_finished(self, request: Request) -> None:
        """The peer's request has ended; what it was promised is released.

        Raises:
            ContractViolation: the handle is not a live one of this tier's.
        """
        self._check(request)
        self._manager.on_request_finished(request)

    def _check(self, request: Request) -> None:
        """Only requests of this handle: another's lookups would ask the serving tier itself."""
        self._requests.check(request)
        if request.excluded is not self._serving:
            raise ContractViolation(
                f"{request!r} was not announced by tier {self._serving.name!r}; use the request "
                "that on_new_request of this handle returned"
            )
