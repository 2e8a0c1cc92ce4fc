"""The rule table: what may happen to a block, as data. Start reading here.

Each rule says: when *event* meets a key whose words match `when`, the key changes by `then` and
the caller is told `answer`. A rule holds no code, so the same table is read four ways that cannot
drift apart: as the executable reference model (`reference`), as z3 terms for any number of keys,
requests, tiers, slots and transfers, as a page of the specification, and as the list of places to
break.

A cell names a word, and in brackets the role that indexes it: `waits[asker]` is the asker's
promise, `waits[all]` everybody's. Roles are what an event is about (`events`). In `then`, a value
replaces the old one, a mapping maps old to new, and a lower-case verb moves a slot, a permit, a
berth or a transfer. Calls of a manager are sequences of events (`reference` says which); nothing
else happens to a block.
"""

from __future__ import annotations

from .copying import CASCADING
from .events import EVENTS, Effects, Event, Guard, Rule
from .vocabulary import CASCADES, ONE_MORE, OVERDUE, PHASES, WRITTEN

ASKED: Guard = {"phase": ("ABSENT",), "held": ("NO",)}
"""The secondary tiers are asked only when the primary tier does not decide."""

CLAIMED: Guard = {**ASKED, "tiers": ("CLAIMED",)}
NO_ROOM: Guard = {"permits": ("YES",), "room": ("NO",)}

PROMOTED: Effects = {
    "phase": "QUEUED",
    "slot": "take",
    "permit": "take",
    "waits[asker]": "YES",
    "source": "tier",
    "asked_by": "asker",
    "submits": "0",
}

LOOKUP = (
    Rule("hit", "lookup", {"phase": ("RESIDENT",)}, {"hit[asker]": "YES"}, "HIT"),
    Rule(
        "promised",
        "lookup",
        {"phase": ("QUEUED", "LOADING")},
        {"waits[asker]": "YES"},
        "HIT_PENDING",
    ),
    Rule(
        "stored_with_permit",
        "lookup",
        {"phase": ("STORING",), "permit": ("YES",)},
        {"waits[asker]": "YES"},
        "HIT_PENDING",
    ),
    Rule(
        "stored_takes_permit",
        "lookup",
        {"phase": ("STORING",), "permit": ("NO",), "permits": ("YES",)},
        {"waits[asker]": "YES", "permit": "take"},
        "HIT_PENDING",
    ),
    Rule(  # no permit is free: promised until it lands only
        "stored_until_landed",
        "lookup",
        {"phase": ("STORING",), "permit": ("NO",), "permits": ("NO",)},
        {"waits[asker]": "YES"},
        "HIT_PENDING",
    ),
    Rule("overdue", "lookup", {"phase": OVERDUE}, {}, "MISS", "OVERDUE"),
    Rule("held", "lookup", {"phase": ("ABSENT",), "held": ("YES",)}, {}, "MISS", "HELD"),
    Rule(
        "promote",
        "lookup",
        {**CLAIMED, "permits": ("YES",), "room": ("YES",)},
        PROMOTED,
        "HIT_PENDING",
    ),
    Rule("no_permit", "lookup", {**CLAIMED, "permits": ("NO",)}, {}, "MISS", "FULL"),
    Rule("no_slot", "lookup", {**CLAIMED, **NO_ROOM}, {}, "MISS", "FULL"),
    Rule("undecided", "lookup", {**ASKED, "tiers": ("UNDECIDED",)}, {}, "RETRY"),
    Rule("raised", "lookup", {**ASKED, "tiers": ("RAISED",)}, {}, "MISS", "TIER_ERROR"),
    Rule("timed_out", "lookup", {**ASKED, "tiers": ("TIMED_OUT",)}, {}, "MISS", "PROBE_TIMEOUT"),
    Rule("retracted", "lookup", {**ASKED, "tiers": ("RETRACTED",)}, {}, "MISS", "FAILED"),
    Rule("absent", "lookup", {**ASKED, "tiers": ("UNCLAIMED",)}, {}, "MISS", "ABSENT"),
)

PLANS = (
    Rule(  # a plan takes a permit for each of its blocks; who shares a block shares its permit
        "plan_joins",
        "plan",
        {"phase": ("QUEUED", "LOADING", "STORING", "RESIDENT"), "permit": ("YES",)},
        {"waits[asker]": "YES"},
    ),
    Rule(
        "plan_takes_permit",
        "plan",
        {"phase": ("STORING", "RESIDENT"), "permit": ("NO",), "permits": ("YES",)},
        {"waits[asker]": "YES", "permit": "take"},
    ),
    Rule(  # only what is neither there nor on its way
        "plan_promotes",
        "plan",
        {**CLAIMED, "permits": ("YES",), "room": ("YES",)},
        PROMOTED,
    ),
)

STEP = (
    Rule(
        "submitted",
        "submit",
        {"phase": ("QUEUED",)},
        {"phase": "LOADING", "submits": ONE_MORE, "transfer": "start LOAD", "content": "lost"},
    ),
    Rule(
        "step_ends",
        "step_end",
        {"phase": tuple(p for p in PHASES if p != "QUEUED")},
        {"hit[all]": "NO"},
    ),
)

LETTING_GO = (
    Rule(
        "leaves_queue",
        "let_go",
        {"phase": ("QUEUED",), "queuer": ("OTHER",)},
        {"waits[asker]": "NO"},
    ),
    Rule(
        "passed_on",
        "let_go",
        {"phase": ("QUEUED",), "queuer": ("SELF",), "heirs": ("SOME",)},
        {"waits[asker]": "NO", "asked_by": "heir"},
    ),
    Rule(  # whoever else waits may not load from that tier: dropped for them as well
        "dropped",
        "let_go",
        {"phase": ("QUEUED",), "queuer": ("SELF",), "heirs": ("NONE",)},
        {"phase": "ABSENT", "slot": "free", "permit": "free", "waits[all]": "NO"},
    ),
    Rule(  # the permit stays with the writer
        "leaves_writer", "let_go", {"phase": ("LOADING", "STORING")}, {"waits[asker]": "NO"}
    ),
    Rule(
        "one_of_many",
        "let_go",
        {"phase": ("RESIDENT",), "others": ("SOME",)},
        {"waits[asker]": "NO"},
    ),
    Rule(
        "last_waiter",
        "let_go",
        {"phase": ("RESIDENT",), "others": ("NONE",)},
        {"waits[asker]": "NO", "permit": "free"},
    ),
)

DEADLINE = (
    Rule(
        "load_overdue",
        "overdue",
        {"phase": ("LOADING",)},
        {"phase": "OVERDUE_LOADING", "waits[all]": "NO"},
    ),
    Rule(
        "store_overdue",
        "overdue",
        {"phase": ("STORING",)},
        {"phase": "OVERDUE_STORING", "waits[all]": "NO", "parked[all]": "NO"},
    ),
)

LANDED: Effects = {"phase": "RESIDENT", "transfer": "end", "content": "own"}
GONE: Effects = {"phase": "ABSENT", "transfer": "end", "slot": "free", "permit": "free"}
LATE: Effects = {"transfer": "end", "slot": "free", "permit": "free"}
"""A report from before a reset: the block is long forgotten, only its slot comes back."""

LOADS = (
    Rule(  # the tier that it came from has it: no cascade to it
        "landed_for_waiters",
        "load_landed",
        {"stale": ("NO",), "waiters": ("SOME",)},
        {**LANDED, "cascade[tier]": "DONE"},
    ),
    Rule(
        "landed_unawaited",
        "load_landed",
        {"stale": ("NO",), "waiters": ("NONE",)},
        {**LANDED, "cascade[tier]": "DONE", "permit": "free"},
    ),
    Rule("landed_late", "load_landed", {"stale": ("YES",)}, LATE),
    Rule(
        "failed",
        "load_failed",
        {"stale": ("NO",)},
        {**GONE, "waits[all]": "NO", "retracted[tier]": "YES"},
    ),
    Rule("failed_late", "load_failed", {"stale": ("YES",)}, {**LATE, "retracted[tier]": "YES"}),
    Rule("verified", "verified", {}, {"retracted[tier]": "NO"}),
    Rule("unfounded", "unfounded", {}, {"retracted[tier]": "YES"}),
)

STORED: Effects = {**LANDED, "cascade[all]": "DUE", "parked[all]": "NO"}

STORES = (
    Rule("store_begins", "store_begin", {}, {"hit[all]": "NO"}),
    Rule(
        "accepted",
        "accept",
        {"room": ("YES",)},
        {"phase": "STORING", "slot": "take", "transfer": "start STORE", "content": "lost"},
    ),
    Rule(
        "stored_for_waiters",
        "store_landed",
        {"stale": ("NO",), "waiters": ("SOME",), "permit": ("YES",)},
        STORED,
    ),
    Rule(
        "stored_without_permit",
        "store_landed",
        {"stale": ("NO",), "waiters": ("SOME",), "permit": ("NO",)},
        {**STORED, "waits[all]": "NO"},
    ),
    Rule(
        "stored_unawaited",
        "store_landed",
        {"stale": ("NO",), "waiters": ("NONE",)},
        {**STORED, "permit": "free"},
    ),
    Rule("stored_late", "store_landed", {"stale": ("YES",)}, LATE),
    Rule(
        "store_failed",
        "store_failed",
        {"stale": ("NO",)},
        {**GONE, "waits[all]": "NO", "parked[all]": "NO"},
    ),
    Rule("store_failed_late", "store_failed", {"stale": ("YES",)}, LATE),
)

REPORTED = ("NONE", "DUE", "DONE")

READS = (
    Rule(
        "pinned", "read", {"phase": ("RESIDENT",)}, {"transfer": "start READ", "hit[asker]": "NO"}
    ),
    Rule("unpinned", "unpin", {"stale": ("NO",), "kind": ("READ",)}, {"transfer": "end"}),
    Rule(  # only once `copied` has said how it went, or a cascade would run for ever in name
        "cascade_leaves_last",
        "unpin",
        {"stale": ("NO",), "kind": ("CASCADE",), "cascade[tier]": REPORTED, "cascading": ("NONE",)},
        {"transfer": "end", "berth": "free"},
    ),
    Rule(
        "cascade_leaves",
        "unpin",
        {"stale": ("NO",), "kind": ("CASCADE",), "cascade[tier]": REPORTED, "cascading": ("SOME",)},
        {"transfer": "end"},
    ),
    Rule(
        "export_leaves_last",
        "unpin",
        {"stale": ("NO",), "kind": ("EXPORT",), "cascading": ("NONE",)},
        {"transfer": "end", "berth": "free"},
    ),
    Rule(
        "export_leaves",
        "unpin",
        {"stale": ("NO",), "kind": ("EXPORT",), "cascading": ("SOME",)},
        {"transfer": "end"},
    ),
    Rule(
        "last_one_out",
        "unpin",
        {"stale": ("YES",), "company": ("NONE",)},
        {"transfer": "end", "slot": "free", "berth": "free"},
    ),
    Rule(
        "late_read_leaves",
        "unpin",
        {"stale": ("YES",), "company": ("SOME",), "kind": ("READ",)},
        {"transfer": "end"},
    ),
    Rule(
        "late_cascade_leaves_readers",
        "unpin",
        {"stale": ("YES",), "company": ("SOME",), "kind": CASCADES, "cascading": ("NONE",)},
        {"transfer": "end", "berth": "free"},
    ),
    Rule(
        "late_cascade_leaves",
        "unpin",
        {"stale": ("YES",), "company": ("SOME",), "kind": CASCADES, "cascading": ("SOME",)},
        {"transfer": "end"},
    ),
)

EVICTION = (
    Rule(
        "evicted",
        "evict",
        {"phase": ("RESIDENT",), "pins": ("NONE",), "waiters": ("NONE",), "hits": ("NONE",)},
        {"phase": "ABSENT", "slot": "free", "cascade[all]": "NONE", "successes[all]": "0"},
    ),
)

FORGOTTEN: Effects = {
    "phase": "ABSENT",
    "waits[all]": "NO",
    "hit[all]": "NO",
    "parked[all]": "NO",
    "cascade[all]": "NONE",
    "successes[all]": "0",
}

RESET = (
    Rule(
        "queue_forgotten",
        "forget",
        {"phase": ("QUEUED",)},
        {**FORGOTTEN, "slot": "free", "permit": "free"},
    ),
    Rule(  # the permit stays until the late report: the slot is still withheld
        "writer_quarantined",
        "forget",
        {"phase": WRITTEN},
        {**FORGOTTEN, "slot": "quarantine", "transfers": "go stale"},
    ),
    Rule(
        "readers_quarantined",
        "forget",
        {"phase": ("RESIDENT",), "pins": ("SOME",)},
        {**FORGOTTEN, "slot": "quarantine", "permit": "free", "transfers": "go stale"},
    ),
    Rule(
        "block_forgotten",
        "forget",
        {"phase": ("RESIDENT",), "pins": ("NONE",)},
        {**FORGOTTEN, "slot": "free", "permit": "free"},
    ),
    Rule("reset_ends", "reset_end", {"phase": ("ABSENT",)}, {"held": "YES"}),
    Rule("flushed", "flushed", {}, {"held": "NO"}),
)

ENDS = (
    Rule(
        "finished",
        "finish",
        {"waits[asker]": ("NO",)},
        {"hit[asker]": "NO", "life[asker]": "ENDING"},
    ),
    Rule("told", "tell", {"parked[asker]": ("NO",)}, {"life[asker]": "ENDED"}),
)

RULES: tuple[Rule, ...] = (
    LOOKUP
    + PLANS
    + STEP
    + LETTING_GO
    + DEADLINE
    + LOADS
    + STORES
    + READS
    + EVICTION
    + CASCADING
    + RESET
) + ENDS

__all__ = ["EVENTS", "RULES", "Effects", "Event", "Guard", "Rule"]
