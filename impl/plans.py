"""Load plans: where blocks are, without reserving any; then all of a wave, or nothing."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from .blocks import Block
from .cascades import Cascades
from .claims import Claims
from .lookups import Lookups
from .operations import LoadPlan, PlanVerdict
from .primary import PrimaryTier
from .requests import Request, Requests
from .step import Step
from .tiers.base import Key
from .transfers import Transfers
from .undecided import Undecided
from .vocabulary import LookupResult, Phase

HIT, HIT_PENDING = LookupResult.HIT, LookupResult.HIT_PENDING
MISS = LookupResult.MISS
RESIDENT, STORING = Phase.RESIDENT, Phase.STORING
PLANNED, NO_ROOM, LOST = PlanVerdict.PLANNED, PlanVerdict.NO_ROOM, PlanVerdict.LOST


class Plans:
    """What `exists`, `plan_load` and their like do. The step has begun."""

    def __init__(
        self,
        primary: PrimaryTier,
        requests: Requests,
        transfers: Transfers,
        cascades: Cascades,
        claims: Claims,
        undecided: Undecided,
        lookups: Lookups,
        step: Step,
    ) -> None:
        self._primary = primary
        self._requests = requests
        self._transfers = transfers
        self._cascades = cascades
        self._claims = claims
        self._undecided = undecided
        self._lookups = lookups
        self._step = step

    # -- resolve ----------------------------------------------------------------------------------

    def exists(self, keys: Sequence[Key], request: Request) -> list[bool | None]:
        """Whether each block is somewhere; None where a tier has not decided. Reserves nothing."""
        blocks, found = self._primary.blocks, request.found
        if found:
            for key in keys:
                found.pop(key, None)
        # no tier is asked twice for a key that is named twice
        distinct = dict.fromkeys(keys)
        absent = [] if self._lookups.held else [key for key in distinct if key not in blocks]
        where = self._claims.locate(absent, request) if absent else {}
        answers: list[bool | None] = []
        for key in keys:
            block = blocks.get(key)
            if block is not None:
                there: bool | None = not STORING < block.phase < RESIDENT
            elif key not in where:
                there = False
            elif (place := where[key]) is None:
                there = None
            else:
                there = True
                found[key] = place
            if there and request.probes:
                self._undecided.settle(request, key)
            answers.append(there)
        return answers

    def landed(self, keys: Iterable[Key]) -> LookupResult:
        """HIT when all are RESIDENT, HIT_PENDING while some are on their way, MISS when one is
        neither."""
        blocks, answer = self._primary.blocks, HIT
        for key in keys:
            block = blocks.get(key)
            if block is None or STORING < block.phase < RESIDENT:
                return MISS
            if block.phase is not RESIDENT:
                answer = HIT_PENDING
        return answer

    # -- plan -------------------------------------------------------------------------------------

    def head(self, keys: Iterable[Key]) -> int:
        """How many of the keys, from the first on, there are permits for."""
        left = self._primary.permits - len(self._primary.permitted)
        find, permitted, number = self._primary.blocks.get, self._primary.permitted, 0
        for key in keys:
            block = find(key)
            if block is None or block not in permitted:
                if not left:
                    break
                left -= 1
            number += 1
        return number

    def plan(self, keys: Sequence[Key], request: Request) -> LoadPlan:
        """Promise all of the blocks until read, promoting those that are nowhere; or nothing."""
        keys = tuple(keys)
        lost = self._lost(keys, request)
        if not lost and self._short(keys):
            # An eviction may have to be decided: first hear what has ended.
            self._transfers.absorb()
            # a tier that was polled may have ended the request
            lost = keys if request.home is None else self._lost(keys, request)
        if lost:
            return LoadPlan(LOST, keys, lost=lost)
        blocks = self._primary.blocks
        absent = [key for key in keys if key not in blocks]
        if self.head(keys) < len(keys) or not self._take(keys, absent, request):
            return LoadPlan(NO_ROOM, keys)
        for key in keys:
            request.found.pop(key, None)
        self._undecided.settle_all(request)
        return LoadPlan(PLANNED, keys, promoted=tuple(absent))

    def _lost(self, keys: Sequence[Key], request: Request) -> tuple[Key, ...]:
        """Blocks that are overdue, or that no tier is known to have."""
        blocks, found, held = self._primary.blocks, request.found, self._lookups.held
        lost = []
        for key in keys:
            block = blocks.get(key)
            if block is not None:
                gone = STORING < block.phase < RESIDENT
            else:
                source = found.get(key)
                gone = held or source is None or key in source.retracted
            if gone:
                lost.append(key)
        return tuple(lost)

    def _short(self, keys: Sequence[Key]) -> bool:
        primary = self._primary
        absent = sum(key not in primary.blocks for key in keys)
        return absent > primary.free or self.head(keys) < len(keys)

    def _take(self, keys: Sequence[Key], absent: Sequence[Key], request: Request) -> bool:
        """Hold what is there, make room, queue the rest; there are permits for all."""
        primary, requests = self._primary, self._requests
        blocks = primary.blocks
        present = [block for key in keys if (block := blocks.get(key)) is not None]
        resident = [block for block in present if block.phase is RESIDENT]
        missing = max(0, len(absent) - primary.free)
        victims: list[Block] | None = []
        if missing:
            spared = [block for block in resident if block.loose]
            if primary.evictable - len(spared) < missing:
                return False
            victims = primary.victims(missing, spared)
            if victims is None:
                return False
        for block in present:
            if block.phase is RESIDENT:
                reading = block.pins > 0 and self._reads(block, request)
                requests.hold(block, request, self._step.now, reading=reading)
            else:
                requests.wait(block, request)
        for victim in victims or ():
            primary.remove(victim)
            self._cascades.evicted(victim)
        for key in absent:
            requests.queue(primary.reserve(key), request.found[key], request)
        return True

    def _reads(self, block: Block, request: Request) -> bool:
        reads = self._transfers.reads.values()
        return any(read.request is request and block in read.blocks for read in reads)
