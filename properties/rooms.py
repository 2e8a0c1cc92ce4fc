"""The rooms that the tour walks through: small settings, each about one part of a block's life.

One room with everything in it would have millions of states; since a rule of the table speaks of
one block (or is a broadcast), what matters is what can be around one block at a time. Together the
rooms reach every rule, which the tour checks.
"""

from __future__ import annotations

from ..model import operations as ops
from ..model.operations import MINDS, RequestSetting, Setting, TierSetting
from .close_rooms import CLOSE_ROOMS
from .room import COPYING, Room
from .room import menu as _menu

T, R = TierSetting, RequestSetting

PLANNING = frozenset(
    ("exists", "plan_load", "prepare_load", "complete_load", "job_ends", "on_schedule_end")
) | {"withdraw"}

__all__ = ["ROOMS", "Room"]
FOUR = ("k0", "k1", "k2", "k3")

ROOMS = (
    Room(
        "answers",
        "what two tiers may say, raise, and how a promotion begins",
        Setting(slots=1, tiers=(T("t0"), T("t1"))),
        _menu(minds=MINDS, moods=("raise on lookup",)),
    ),
    Room(
        "probes",
        "a tier that does not make up its mind, until the deadline",
        Setting(slots=1, tiers=(T("t0", undecided=("k0",)), T("t1"))),
        _menu(minds=("UNDECIDED", "ABSENT"), time=True, ends=True, scheduled=True),
    ),
    Room(
        "failures",
        "loads that fail in part, submits and polls that raise, claims verified anew",
        Setting(
            slots=2,
            keys=("k0", "k1"),
            tiers=(T("t0", has=("k0", "k1")), T("t1", has=("k0",))),
            requests=(R("r0"), R("r1", only=("t1",))),
            promotion_share=0.5,
        ),
        _menu(moods=("raise on submit",), verify=True),
        weight=3,
    ),
    Room(
        "batches",
        "two promotions in one job, landing together, in part or not at all",
        Setting(slots=4, keys=("k0", "k1"), tiers=(T("t0", has=("k0", "k1")),)),
        _menu(lookup_many=True, batches=True, moods=("raise on submit", "raise on poll")),
    ),
    Room(
        "jobs of four",
        "promotions of four blocks in one job, and reads of all of them",
        Setting(slots=8, keys=FOUR, tiers=(T("t0", has=FOUR),)),
        _menu(
            lookup_many=True,
            batches=True,
            loads=True,
            only=frozenset(
                {"lookup_many", "on_schedule_end", "job_ends", "prepare_load", "complete_load"}
            ),
        ),
        focus="k2",
    ),
    Room(
        "copies of four",
        "a store of four blocks, and their copies in one job",
        Setting(slots=16, keys=FOUR, tiers=(T("t0"),)),
        _menu(stores=True, batches=True, only=COPYING),
        focus="k2",
    ),
    Room(
        "promises",
        "two requests that are promised one block, and every way to let it go",
        Setting(slots=1, tiers=(T("t0", has=("k0",)),), requests=(R("r0"), R("r1"))),
        _menu(loads=True, ends=True, withdraw=True, scheduled=True),
        weight=5,
    ),
    Room(
        "heirs",
        "a queued promotion that passes on, or is dropped because of a filter",
        Setting(
            slots=1,
            tiers=(T("t0", has=("k0",)), T("t1")),
            requests=(R("r0"), R("r1"), R("r2", only=("t1",))),
        ),
        _menu(withdraw=True),
        weight=2,
    ),
    Room(
        "plans",
        "load plans of two requests, and what becomes of what they hold",
        Setting(slots=1, tiers=(T("t0", has=("k0",)),), requests=(R("r0"), R("r1"))),
        _menu(plans=True, loads=True, withdraw=True, only=PLANNING),
        weight=3,
    ),
    Room(
        "plans of two blocks",
        "all of a plan or nothing, when there is room for both, for one, or for none",
        Setting(slots=3, keys=("k0", "k1"), tiers=(T("t0", has=("k0", "k1")),)),
        _menu(plans=True, batches=True, loads=True, only=PLANNING),
    ),
    Room(
        "plans and stores",
        "a plan of a block that the GPU writes or has written, when the only slot is needed",
        Setting(slots=1, keys=("k0", "k1"), tiers=(T("t0", has=("k1",)),)),
        _menu(
            plans=True,
            stores=True,
            failures=False,
            only=PLANNING | {"prepare_store", "complete_store"},
        ),
        weight=2,
    ),
    Room(
        "plans and time",
        "questions that are not answered, leases and resets under a plan",
        Setting(slots=1, tiers=(T("t0", has=("k0",)),)),
        _menu(
            plans=True,
            loads=True,
            time=True,
            resets=True,
            minds=("UNDECIDED", "ABSENT"),
            only=PLANNING | {"time_passes", "reset_cache", "on_reset_flushed"},
        ),
        weight=3,
    ),
    Room(
        "room",
        "a permit and a slot that are taken by another block, and its eviction",
        Setting(slots=1, keys=("k0", "k1"), tiers=(T("t0", has=("k0", "k1")),)),
        _menu(stores=True, loads=True, failures=False),
        weight=2,
    ),
    Room(
        "stores",
        "GPU stores of two blocks, and waits on them with a permit and without",
        Setting(slots=2, keys=("k0", "k1"), tiers=(), requests=(R("r0"), R("r1"))),
        _menu(stores=True, withdraw=True),
        weight=3,
    ),
    Room(
        "stores between steps",
        "a block that lands between two steps, long after the last one: its lease begins then",
        Setting(slots=2, tiers=()),
        _menu(loads=True, time=True, only=frozenset({"lookup", "on_schedule_end", "time_passes"})),
        start=(
            ops.PrepareStore(("k0",), "r0"),
            ops.Lookup("k0", "r0"),
            ops.StepEnd(),
            ops.Advance(30.0),
            ops.CompleteStore(1),
        ),
    ),
    Room(
        "mistakes",
        "calls and reports that must be refused",
        Setting(slots=1, tiers=(T("t0"),)),
        _menu(stores=True, loads=True, mistakes=True, failures=False),
    ),
    Room(
        "cascades",
        "copies to a tier: refused, failed, raised, offered again, given up",
        Setting(slots=1, tiers=(T("t0"),)),
        _menu(stores=True, pauses=True, moods=("refuse stores", "raise on submit")),
    ),
    Room(
        "berths",
        "copies of two blocks to two tiers, when only one slot may be pinned",
        Setting(slots=2, keys=("k0", "k1"), tiers=(T("t0"), T("t1"))),
        _menu(stores=True, failures=False, only=COPYING),
    ),
    Room(
        "whole requests",
        "a tier that asks for the whole context, offers that find a block being written",
        Setting(
            slots=1,
            tiers=(T("t0", whole_request=True), T("t1", has=("k0",))),
        ),
        _menu(
            stores=True,
            ends=True,
            failures=False,
            only=COPYING | {"lookup", "on_request_finished"},
        ),
        weight=3,
    ),
    Room(
        "deadlines of loads",
        "a load that is overdue and reports late, a lease that runs out, also while it is read",
        Setting(slots=1, tiers=(T("t0", has=("k0",)),)),
        _menu(loads=True, time=True),
        weight=2,
    ),
    Room(
        "deadlines of stores",
        "a store or a copy that is overdue and reports late",
        Setting(slots=1, tiers=(T("t0"),)),
        _menu(stores=True, time=True, ends=True, failures=False),
    ),
    Room(
        "resets of loads",
        "a reset while a promotion is queued, loading, landed or read",
        Setting(slots=1, tiers=(T("t0", has=("k0",)),)),
        _menu(loads=True, resets=True, reset_tiers=True),
    ),
    Room(
        "resets of stores",
        "a reset while a block is stored, copied or read, also of the tier it is copied to",
        Setting(slots=1, tiers=(T("t0"),)),
        _menu(stores=True, resets=True, reset_tiers=True, loads=True, failures=False),
        weight=4,
    ),
    Room(
        "resets of plain stores",
        "a store from before a reset that lands, or fails, after it",
        Setting(slots=2, tiers=()),
        _menu(stores=True, resets=True),
    ),
    Room(
        "resets of copies",
        "a reset while a block is copied to two tiers",
        Setting(slots=1, tiers=(T("t0"), T("t1"))),
        _menu(stores=True, resets=True, failures=False, only=COPYING | {"reset_cache"}),
    ),
    Room(
        "peers",
        "a tier that serves a peer: its own claims excluded, its sends bounded",
        Setting(
            slots=2,
            tiers=(T("t1", has=("k0",)),),
            requests=(R("r0"), R("x0", external_of="t1")),
        ),
        _menu(resets=True, reset_tiers=True, moods=("refuse stores", "raise on submit")),
        weight=4,
    ),
    Room(
        "sends beside copies",
        "one slot that is copied to a tier and sent to a peer at the same time",
        Setting(slots=1, tiers=(T("t0"), T("t1")), requests=(R("r0"), R("x0", external_of="t1"))),
        _menu(stores=True, failures=False, only=COPYING | {"send"}),
    ),
    Room(
        "ends of peers",
        "a peer's request that ends while its blocks are sent",
        Setting(
            slots=1, tiers=(T("t0", has=("k0",)), T("t1")), requests=(R("x0", external_of="t1"),)
        ),
        _menu(ends=True, failures=False),
    ),
    Room(
        "victims",
        "a block that is read or promised, next to one that may go, when room is needed",
        Setting(slots=2, keys=("k0", "k1", "k2"), tiers=()),
        _menu(stores=True, loads=True, failures=False),
        focus="k1",
    ),
    Room(
        "first to go",
        "the block that would go first is read when room is needed",
        Setting(slots=2, keys=("k0", "k1", "k2"), tiers=()),
        _menu(
            stores=True,
            loads=True,
            only=frozenset({"prepare_store", "prepare_load", "complete_load"}),
        ),
        focus="k1",
        start=(
            ops.PrepareStore(("k0",), "r0"),
            ops.PrepareStore(("k1",), "r0"),
            ops.CompleteStore(1),
            ops.CompleteStore(2),
        ),
    ),
    Room(
        "hits",
        "one block answered HIT to two requests, when room is needed for another",
        Setting(
            slots=1,
            keys=("k0", "k1"),
            tiers=(T("t0", has=("k0", "k1")),),
            requests=(R("r0"), R("r1")),
        ),
        _menu(loads=True, failures=False),
    ),
    Room(
        "claims",
        "claims on two blocks of one tier, lost and verified anew one by one",
        Setting(slots=4, keys=("k0", "k1"), tiers=(T("t0", has=("k0", "k1")),)),
        _menu(
            moods=("raise on submit",),
            verify=True,
            only=frozenset({"lookup", "on_schedule_end", "tier_verifies"}),
        ),
        focus=None,
    ),
    Room(
        "after the end",
        "calls with the handle of a request that has ended",
        Setting(slots=1, tiers=()),
        _menu(stores=True, ends=True, mistakes=True, failures=False),
    ),
    Room(
        "batches of stores",
        "offers of several blocks, of which some are present and some do not fit",
        Setting(slots=2, keys=("k0", "k1", "k2"), tiers=()),
        _menu(
            stores=True,
            batches=True,
            failures=False,
            only=frozenset({"prepare_store", "complete_store", "on_schedule_end"}),
        ),
    ),
    Room(
        "jobs",
        "two jobs of one step, one of which may raise",
        Setting(slots=4, keys=("k0", "k1"), tiers=(T("t0", has=("k0",)), T("t1", has=("k1",)))),
        _menu(
            moods=("raise on submit",),
            only=frozenset({"lookup", "on_schedule_end", "job_ends"}),
        ),
    ),
    Room(
        "hung tier",
        "a tier that does not report a copy, when there is another block for it",
        Setting(slots=8, keys=("k0", "k1")),
        _menu(stores=True, time=True, failures=False, only=COPYING | {"time_passes"}),
    ),
    Room(
        "ends of copies",
        "copies that are offered again after the end of their request",
        Setting(slots=1),
        _menu(
            stores=True,
            ends=True,
            pauses=True,
            moods=("refuse stores",),
            only=COPYING | {"on_request_finished", "time_passes"},
        ),
    ),
    Room(
        "ends and resets",
        "a reset between the end of a request and its being told",
        Setting(slots=1),
        _menu(
            stores=True,
            ends=True,
            resets=True,
            failures=False,
            only=COPYING | {"on_request_finished", "reset_cache"},
        ),
    ),
    *CLOSE_ROOMS,
)
