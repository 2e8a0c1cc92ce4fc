"""A secondary tier as the manager sees it: what it owes us, what we owe it, and guarded calls.

No exception of a tier leaves this module: it is a failed call or job, logged once until the method
works again, and counted.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Sequence

from .arena import Arena
from .blocks import Block
from .errors import ConfigError, ContractViolation
from .jobs import Load, Owed, Send
from .metrics import TierTotals
from .tiers.base import (
    NOTHING,
    Claim,
    Key,
    LoadJob,
    Poll,
    RequestInfo,
    StoreJob,
    StorePolicy,
    Tier,
)

logger = logging.getLogger("tierproof")


class Secondary:
    """One secondary tier: its place in the order, its jobs in flight, its retracted claims."""

    __slots__ = (
        "_complained",
        "bit",
        "cascading",
        "due",
        "index",
        "loads",
        "name",
        "pressed",
        "pressed_at",
        "pressed_in_step",
        "retracted",
        "sending",
        "sends",
        "slow",
        "tier",
        "totals",
    )

    def __init__(self, tier: Tier, index: int) -> None:
        self.tier = tier
        self.name = tier.name
        self.index = index
        self.bit = 1 << index
        self.loads: dict[int, Load] = {}
        """Promotion jobs in flight, oldest first."""
        self.sends: dict[int, Send] = {}
        """Store jobs in flight, oldest first."""
        self.cascading: dict[Key, Send] = {}
        """Keys of cascades in flight, those from before a reset included."""
        self.sending = 0
        """Blocks on their way to it: cascades and external sends, stale ones included."""
        self.due: dict[Block, Owed] = {}
        """Cascades to offer (again), oldest first."""
        self.retracted: set[Key] = set()
        """Keys whose claim counts for nothing until there is new evidence."""
        self.pressed = False
        """It refused a store and has not finished one since."""
        self.pressed_in_step = 0
        self.pressed_at = 0.0
        """When it last refused: the step, and the time."""
        self.slow = False
        """Its last store took longer than `backpressure_seconds`."""
        self.totals = TierTotals()
        self._complained: set[str] = set()

    @property
    def busy(self) -> bool:
        """Whether something is still to happen here."""
        return bool(self.loads or self.sends or self.due)

    # -- guarded calls ----------------------------------------------------------------------------

    def claim(self, key: Key, request: RequestInfo) -> Claim | None:
        """The tier's answer; None when it raised or answered nonsense."""
        try:
            answer = self.tier.lookup(key, request)
        except Exception as error:
            self.failed("lookup", error)
            return None
        if type(answer) is not Claim:
            self.failed("lookup", TypeError())
            return None
        if self._complained:
            self._complained.discard("lookup")
        return answer

    def claims(self, keys: Sequence[Key], request: RequestInfo) -> Sequence[Claim | None]:
        """As `claim` for each key; in one call where the tier takes many at once."""
        many = getattr(self.tier, "lookup_many", None)
        if many is None:
            return [self.claim(key, request) for key in keys]
        try:
            answers = list(many(tuple(keys), request))
        except Exception as error:
            self.failed("lookup_many", error)
            return [None] * len(keys)
        if len(answers) != len(keys) or any(type(answer) is not Claim for answer in answers):
            self.failed("lookup_many", TypeError())
            return [None] * len(keys)
        if self._complained:
            self._complained.discard("lookup_many")
        return answers

    def submit_load(self, job: LoadJob) -> bool:
        """Whether the job has begun."""
        try:
            self.tier.submit_load(job)
        except Exception as error:
            self.failed("submit_load", error)
            return False
        if self._complained:
            self._complained.discard("submit_load")
        return True

    def submit_store(self, job: StoreJob) -> Collection[Key] | None:
        """The refused keys; None when the job has failed as a whole.

        A tier that returns nonsense has begun all the same: its slots wait for its report.
        """
        try:
            said = self.tier.submit_store(job)
        except Exception as error:
            self.failed("submit_store", error)
            return None
        try:
            refused = tuple(dict.fromkeys(said))
        except TypeError as error:  # no collection, or of what cannot be keys
            self.failed("submit_store", error)
            return ()
        if self._complained:
            self._complained.discard("submit_store")
        return refused

    def poll(self) -> Poll:
        """What the tier has to say; nothing when it raised or said nonsense."""
        try:
            poll = self.tier.poll()
            if poll is not NOTHING:
                poll = Poll(tuple(poll.reports), self._verified(poll))
        except Exception as error:
            self.failed("poll", error)
            return NOTHING
        if self._complained:
            self._complained.discard("poll")
        return poll

    def _verified(self, poll: Poll) -> frozenset[Key]:
        """Keys that were verified; none when that is nonsense, and the reports count all the same:
        a job is reported once, and what is dropped here would never come again."""
        try:
            return frozenset(poll.verified)
        except TypeError as error:
            self.failed("poll", error)
            return frozenset()

    def request_begins(self, request: RequestInfo) -> bool:
        """Whether the tier asks for the request's whole context."""
        return self._call("on_new_request", request) is StorePolicy.WHOLE_REQUEST

    def request_ends(self, request: RequestInfo) -> None:
        """Tell the tier, once, that no submit under the request follows."""
        self._call("on_request_finished", request)

    def clear(self) -> bool:
        """Whether the tier has forgotten its blocks."""
        return self._call("clear") is not _RAISED

    def _call(self, method: str, *arguments: object) -> object:
        try:
            result = getattr(self.tier, method)(*arguments)
        except Exception as error:
            self.failed(method, error)
            return _RAISED
        self._complained.discard(method)
        return result

    def failed(self, method: str, error: Exception) -> None:
        """Count an exception of the tier and say it once."""
        self.totals.errors += 1
        if method not in self._complained:
            # Neither the message nor the arguments: an error's text may carry a key.
            self._complained.add(method)
            logger.warning(
                "tier %r: %s failed with %s; it counts as a failed call, serving goes on",
                self.name,
                method,
                type(error).__name__,
            )


_RAISED = object()


def attach(tiers: Sequence[Tier], arena: Arena) -> tuple[Secondary, ...]:
    """Give every tier the arena, in the order in which they will be asked.

    Raises:
        ConfigError: something is not a tier, or two have one name; no tier was given the arena.
    """
    names = [getattr(tier, "name", None) for tier in tiers]
    for tier, name in zip(tiers, names, strict=True):
        if not _acts_as_tier(tier) or not isinstance(name, str):
            raise ConfigError(
                f"tiers must have the methods and the name of tierproof's Tier protocol; "
                f"{type(tier).__name__} has not"
            )
        if names.count(name) > 1:
            raise ConfigError(f"tiers must have different names; {name!r} is used twice")
    for tier in tiers:
        tier.attach(arena)
    return tuple(Secondary(tier, index) for index, tier in enumerate(tiers))


_KNOWN: set[type] = set()
"""Types whose instances were seen to be tiers: looking at every method takes a while."""


def _acts_as_tier(tier: Tier) -> bool:
    if type(tier) not in _KNOWN and isinstance(tier, Tier):
        _KNOWN.add(type(tier))
    return type(tier) in _KNOWN


def named_tiers(secondaries: tuple[Secondary, ...], names: Iterable[str]) -> list[Secondary]:
    """The tiers of these names, in their order.

    Raises:
        ContractViolation: there is no tier of a name.
    """
    known = [secondary.name for secondary in secondaries]
    names = names if isinstance(names, str) else tuple(names)
    for name in [names] if isinstance(names, str) else names:
        if isinstance(names, str) or name not in known:
            raise ContractViolation(f"tiers are named by a collection out of {known}, not {name!r}")
    return [secondary for secondary in secondaries if secondary.name in names]
