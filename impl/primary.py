"""The primary tier: blocks, slots, pins, permits, quarantine.

The only place where a slot changes hands. Every slot is free, owned by exactly one block of
`blocks`, or quarantined under a block that a reset forgot while a transfer could touch its slot.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from .blocks import Block, Epoch, HitPromise
from .events import Event, EventLog
from .metrics import Totals
from .policies import EvictionPolicy
from .tiers.base import Key
from .vocabulary import Phase

if TYPE_CHECKING:
    from .requests import Request

RESIDENT = Phase.RESIDENT


class PrimaryTier:
    """The slots and who owns them. Holds no bytes: those are in the arena's rows."""

    def __init__(
        self,
        *,
        slots: int,
        permits: int,
        berths: int,
        policy: EvictionPolicy,
        events: EventLog,
        totals: Totals,
    ) -> None:
        self.slots = slots
        self.permits = permits
        """How many blocks may be promised until read."""
        self.berths = berths
        """How many slots cascades may pin."""
        self.blocks: dict[Key, Block] = {}
        """The blocks that own a slot. Always this one object: callers keep a reference."""
        self.quarantine: set[Block] = set()
        self.sending: dict[Block, int] = {}
        """Blocks under a store to a secondary tier, and under how many."""
        self.free = slots
        """How many slots are free."""
        self.evictable = 0
        """How many RESIDENT blocks are loose. HIT promises do not count here: a store ends them,
        and a promotion finds out while it looks for its victim."""
        self.permitted: set[Block] = set()
        """The blocks whose slots hold one of the permits for promises until read."""
        self.epoch = Epoch()
        self.policy = policy
        """The order of eviction."""
        self._events = events.entries
        self._totals = totals
        # Slots are handed out fresh, in order, before any is used again: a manager of ten million
        # slots starts at once, and the returned ones are the warmest.
        self._fresh = 0
        self._returned: list[int] = []

    # -- slots ------------------------------------------------------------------------------------

    def reserve(self, key: Key) -> Block:
        """Give a free slot and a permit to a promotion. The caller has seen that there are."""
        block = self.take(key, Phase.QUEUED)
        self.permitted.add(block)
        return block

    def take(self, key: Key, phase: Phase) -> Block:
        """Give a free slot to `key`. The caller has made sure that there is one."""
        self.free -= 1
        if self._returned:
            slot = self._returned.pop()
        else:
            slot = self._fresh
            self._fresh = slot + 1
        block = self.blocks[key] = Block(key, slot, phase)
        return block

    def land(self, blocks: list[Block], request: Request, done: int = 0) -> None:
        """The slots that the request had filled hold their bytes: the blocks are RESIDENT.

        `done` names the secondary tier that they come from, as its bit.
        """
        events = self._events
        for block in blocks:
            block.phase = RESIDENT
            block.writer = None
            block.done |= done
            if events is not None:
                events.append(Event("stored", block.key))
            if block.waits is None:
                self.evictable += 1
                self.permitted.discard(block)
        # once its end has been told a request is no more, and nothing stands with what it used
        self.policy.insert(blocks, None if request.told else request)

    def vanish(self, block: Block) -> None:
        """A block that never became readable is ABSENT again; nobody waits on it any more."""
        assert block.phase is not RESIDENT
        assert block.waits is None
        del self.blocks[block.key]
        self.drop_permit(block)
        self._free_slot(block)

    def evict(self) -> Block | None:
        """Evict the block that the policy names; None when every block is held or promised."""
        block = self.policy.victim(self.epoch) if self.evictable else None
        if block is not None:
            self.remove(block)
        return block

    def remove(self, block: Block) -> None:
        """Evict this block, which may go."""
        self.evictable -= 1
        self._totals.evicted += 1
        self.policy.remove(block)
        del self.blocks[block.key]
        if self._events is not None:
            self._events.append(Event("removed", block.key))
        self._free_slot(block)

    def victims(self, number: int, spared: Sequence[Block]) -> list[Block] | None:
        """`number` blocks that may go, none of `spared`; None when there are not so many.

        While they are looked for, they and the spared ones carry a HIT promise, so that the search
        goes on; promises that hold already are left as they are.
        """
        mark = HitPromise(self.epoch)
        marked: list[Block] = []
        for block in spared:
            if block.promise is None or not block.promise.holds(self.epoch):
                block.promise = mark
                marked.append(block)
        found: list[Block] = []
        while len(found) < number:
            victim = self.policy.victim(self.epoch) if self.evictable else None
            if victim is None:
                break
            victim.promise = mark
            found.append(victim)
        for block in marked + found:
            block.promise = None
        self.policy.restore_promised()
        return found if len(found) == number else None

    def can_promote(self) -> bool:
        """Whether a promotion would find a permit and a slot now."""
        if len(self.permitted) >= self.permits:
            return False
        if self.free:
            return True
        return self.evictable > 0 and self.policy.victim(self.epoch) is not None

    def forget_all(self) -> None:
        """Every block is ABSENT; slots that a transfer may touch go into quarantine.

        A writer keeps its permit until it reports, so that hung promotions stay within their
        share; readers never needed one. Nobody waits on any block any more.
        """
        for block in self.blocks.values():
            block.waits = block.promise = block.next = block.prev = None
            if block.phase is RESIDENT:
                if self._events is not None:
                    self._events.append(Event("removed", block.key))
                self.drop_permit(block)
            if block.pins or block.phase not in (RESIDENT, Phase.QUEUED):
                self.quarantine.add(block)
            else:
                self.drop_permit(block)
                self._free_slot(block)
        self.blocks.clear()
        self.evictable = 0
        self.policy.clear()
        self.epoch = Epoch()

    def leave_quarantine(self, block: Block) -> None:
        """The last transfer that could touch a forgotten block's slot has reported."""
        self.quarantine.remove(block)
        self.drop_permit(block)
        self._free_slot(block)

    def _free_slot(self, block: Block) -> None:
        self._returned.append(block.slot)
        self.free += 1

    # -- pins -------------------------------------------------------------------------------------

    def pin(self, blocks: Iterable[Block]) -> None:
        """A transfer begins to read the slots of RESIDENT blocks."""
        for block in blocks:
            if not block.pins and block.waits is None:
                self.evictable -= 1
            block.pins += 1

    def unpin(self, blocks: Iterable[Block]) -> None:
        """A transfer that read the slots has reported."""
        for block in blocks:
            pins = block.pins = block.pins - 1
            if not pins:
                if self.quarantine and block in self.quarantine:
                    self.leave_quarantine(block)
                elif block.waits is None:
                    self._let_go(block)

    def pin_to_send(self, blocks: Iterable[Block]) -> None:
        """A store to a secondary tier begins to read the slots. The caller has counted berths."""
        sending = self.sending
        for block in blocks:
            sending[block] = sending.get(block, 0) + 1
        self.pin(blocks)

    def unpin_sent(self, blocks: Iterable[Block]) -> None:
        """A store to a secondary tier has reported or never began."""
        sending = self.sending
        for block in blocks:
            count = sending.pop(block) - 1
            if count:
                sending[block] = count
        self.unpin(blocks)

    def berths_left(self) -> int:
        """How many more slots cascades may pin; one that cascades already needs no other."""
        return self.berths - len(self.sending)

    # -- promises ---------------------------------------------------------------------------------

    def awaited(self, block: Block) -> None:
        """A RESIDENT block is about to get its first wait."""
        if not block.pins:
            self.evictable -= 1

    def unawaited(self, block: Block) -> None:
        """The last wait on a RESIDENT block is gone."""
        self.drop_permit(block)
        if not block.pins:
            self._let_go(block)

    def _let_go(self, block: Block) -> None:
        self.evictable += 1
        if block.next is None:  # a search for a victim has stepped over it
            self.policy.restore(block)

    def take_permit(self, block: Block) -> None:
        """Promise the block until read, if the share of promotions allows another."""
        if len(self.permitted) < self.permits:
            self.permitted.add(block)

    def drop_permit(self, block: Block) -> None:
        """The block is promised to nobody any more, and nobody writes it under a promise."""
        self.permitted.discard(block)

    def end_hit_promises(self) -> None:
        """All HIT promises end, without a visit to any of them."""
        self.epoch = Epoch()
        self.policy.restore_promised()

    # -- what a store offers ----------------------------------------------------------------------

    def evict_sparing(self, number: int, spared: Sequence[Block]) -> list[Block]:
        """Evict exactly `number` blocks, none of `spared`. The caller has counted that they exist.

        For the time of the search the spared blocks carry a HIT promise of an epoch of its own.
        """
        offer = HitPromise(self.epoch)
        for block in spared:
            block.promise = offer
        evicted = []
        for _ in range(number):
            victim = self.evict()
            assert victim is not None, "evictable blocks were counted but not found"
            evicted.append(victim)
        if spared:
            self.end_hit_promises()
        return evicted
