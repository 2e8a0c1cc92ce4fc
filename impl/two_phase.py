"""The two-phase consumer: find the hit by existence alone, then promote exactly what it reads.

A hit is loaded in *waves*: a wave is a plan for as many of its blocks as there are permits, all or
none, and is read by the GPU and let go before the next one. So any capacity of at least one slot
serves the whole hit, and a request that cannot be admitted yet promotes nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

from .answers import WAIT, Answer, Asked
from .manager import TieredOffloadingManager
from .operations import LoadPlan, PlanVerdict
from .resolution import Resolution
from .tiers.base import Key
from .vocabulary import LookupResult

HIT, MISS = LookupResult.HIT, LookupResult.MISS


class TwoPhase:
    """One waiting request: resolved once, then planned and loaded wave by wave.

    What was asked stays known from step to step; a deferred request is not scanned again.
    """

    def __init__(self, manager: TieredOffloadingManager, asked: Asked) -> None:
        self._manager = manager
        self._asked = asked
        self._resolution = Resolution(manager, asked)
        self._hit: int | None = None
        self._left: list[Key] = []
        """Blocks of the hit that no wave has read, the next one last."""
        self._wave: tuple[Key, ...] = ()
        self._read: set[Key] = set()

    def ask(self) -> Answer:
        """Go on as far as this step allows: to a wave that can be read, or to a reason to wait."""
        if self._wave and (answer := self._wave_answer()) is not None:
            return answer
        # What is planned may be there already; what is lost is asked about again, but not for ever
        # in one step: a tier may say one thing and do another.
        for _ in range(2):
            if self._hit is None and not self._resolve():
                return WAIT
            if not self._left:
                return self._finish()
            plan = self._plan()
            if plan is None:
                return WAIT
            if plan.verdict is PlanVerdict.PLANNED:
                return self._wave_answer() or WAIT
            self._lost(plan.lost)
        return WAIT

    def _wave_answer(self) -> Answer | None:
        """The wave's load, or that it is on its way; None when it was lost."""
        manager, request, wave = self._manager, self._asked.request, self._wave
        state = manager.landed(wave, request)
        if state is MISS:
            manager.withdraw(wave, request)
            self._wave = ()
            self._lost(wave)
            return None
        if state is not HIT:
            return WAIT
        load = manager.prepare_load(wave, request)
        self._read.update(wave)
        del self._left[len(self._left) - len(wave) :]
        self._wave = ()
        return Answer(None if self._left else self._hit, load)

    def _lost(self, keys: Sequence[Key]) -> None:
        """Blocks are not where they were found: resolve again, from what is still known."""
        self._resolution.forget(frozenset(keys))
        self._hit = None

    def _resolve(self) -> bool:
        """Is the hit known? Then also what of it is still to be read."""
        hit = self._resolution.step()
        if hit is None:
            return False
        chunks = self._asked.geometry.reads(self._asked.prompt, hit)
        read = self._read
        self._left = [key for key in self._asked.keys(chunks[::-1]) if key not in read]
        self._hit = max(hit, self._asked.prompt.on_gpu)
        return True

    def _finish(self) -> Answer:
        # a plan for nothing: what tiers have not answered matters no more
        self._manager.plan_load((), self._asked.request)
        return Answer(self._hit)

    def _plan(self) -> LoadPlan | None:
        """Plan the next wave, as large as permits and slots allow; None when not one fits."""
        manager, request = self._manager, self._asked.request
        size = manager.plan_head(reversed(self._left), request)
        while size:
            plan = manager.plan_load(self._left[: -size - 1 : -1], request)
            if plan.verdict is PlanVerdict.PLANNED:
                self._wave = plan.keys
            if plan.verdict is not PlanVerdict.NO_ROOM:
                return plan
            size //= 2
        return None
