"""The words of the specification: sorts, fields with their values, links, answers and reasons.

A *field* is a small value that the table reads and writes, indexed by one or more sorts: `phase` of
a key, `waits` of a key and a request. A *link* leads from one thing to another: the slot of a key.
A *derived* word is never stored; it says something about many things at once ("does anybody wait
on this key?") and may only stand in a guard. An *environment* word is a choice that is not the
specification's: what a tier answers, whether a counter of attempts is spent.

`tierproof.impl` has a vocabulary of its own: an oracle that shares code with what it judges shares
its faults. `tierproof.properties` compares the two by name.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

SORTS = ("key", "request", "tier", "slot", "transfer")

ANSWERS = ("HIT", "HIT_PENDING", "RETRY", "MISS")
REASONS = ("ABSENT", "FULL", "HELD", "OVERDUE", "FAILED", "TIER_ERROR", "PROBE_TIMEOUT")

PHASES = (
    "ABSENT",
    "QUEUED",
    "LOADING",
    "STORING",
    "OVERDUE_LOADING",
    "OVERDUE_STORING",
    "RESIDENT",
)
OVERDUE = ("OVERDUE_LOADING", "OVERDUE_STORING")
WRITTEN = ("LOADING", "STORING", *OVERDUE)
"""The phases in which exactly one live writer owns the slot."""
OWNING = PHASES[1:]
"""The phases in which the key owns a slot."""
NO_YES = ("NO", "YES")
NONE_SOME = ("NONE", "SOME")
KINDS = ("LOAD", "STORE", "READ", "CASCADE", "EXPORT")
WRITES = ("LOAD", "STORE")
CASCADES = ("CASCADE", "EXPORT")
"""What `cascade_share` bounds: copies to a tier, and blocks pinned to be sent to a peer."""
COUNTED = ("0", "1", "2+")
ONE_MORE = {"0": "1", "1": "2+", "2+": "2+"}


@dataclass(frozen=True)
class Field:
    """A stored value: `of` are the sorts that index it, `values[0]` is what it starts as.

    A *ghost* is stored for the sake of a contract only; no implementation has to keep it.
    """

    name: str
    of: tuple[str, ...]
    values: tuple[str, ...]
    says: str
    ghost: bool = False


@dataclass(frozen=True)
class Link:
    """A stored relation from one sort to one thing of another sort."""

    name: str
    of: str
    to: str
    says: str
    ghost: bool = False


@dataclass(frozen=True)
class Word:
    """A derived or environment word: read by guards, never written."""

    name: str
    values: tuple[str, ...]
    says: str


FIELDS = {
    f.name: f
    for f in (
        Field("phase", ("key",), PHASES, "where the block is in its life"),
        Field("waits", ("key", "request"), NO_YES, "the request was promised the block"),
        Field("hit", ("key", "request"), NO_YES, "the short promise of a HIT"),
        Field("parked", ("key", "request"), NO_YES, "an offer waits for the write to end"),
        Field("retracted", ("key", "tier"), NO_YES, "a load failed: do not ask this tier"),
        Field(
            "cascade",
            ("key", "tier"),
            ("NONE", "DUE", "RUNNING", "DONE"),
            "how far the copy to the tier is",
        ),
        Field("life", ("request",), ("LIVE", "ENDING", "ENDED"), "ENDED: every tier was told"),
        Field("held", (), NO_YES, "promotions wait for the flush of a reset"),
        Field("state", ("transfer",), ("UNUSED", "RUNNING", "ENDED"), "a transfer runs once"),
        Field("kind", ("transfer",), KINDS, "what the transfer does to its slot"),
        Field("stale", ("transfer",), NO_YES, "a reset forgot the block it moves"),
        Field("slot_state", ("slot",), ("FREE", "OWNED", "QUARANTINED"), "exactly one of three"),
        Field("permit", ("slot",), NO_YES, "withheld from stores by a promise"),
        Field("berth", ("slot",), NO_YES, "withheld from stores by a cascade"),
        Field("submits", ("key",), COUNTED, "submissions since the promotion began", ghost=True),
        Field("successes", ("key", "tier"), COUNTED, "cascades landed in this life", ghost=True),
        Field("filled", ("slot",), NO_YES, "the slot holds whole bytes of one key", ghost=True),
    )
}

LINKS = {
    link.name: link
    for link in (
        Link("slot_of", "key", "slot", "the slot that the key owns"),
        Link("owner", "slot", "key", "the key that owns the slot"),
        Link("source", "key", "tier", "the tier that the promotion reads from"),
        Link("asked_by", "key", "request", "whose promotion it is, while QUEUED"),
        Link("writer", "key", "transfer", "the transfer that writes the slot"),
        Link("of", "transfer", "key", "the key whose bytes it moves"),
        Link("at", "transfer", "slot", "the slot that it touches"),
        Link("by", "transfer", "request", "the request that it was started under"),
        Link("to", "transfer", "tier", "the tier at its other end (LOAD, CASCADE, EXPORT)"),
        Link("content", "slot", "key", "whose bytes a filled slot holds", ghost=True),
    )
}

DERIVED = {
    w.name: w
    for w in (
        Word("waiters", NONE_SOME, "requests that wait on the key"),
        Word("others", NONE_SOME, "requests other than the asker that wait on the key"),
        Word("heirs", NONE_SOME, "others whose filter allows the source"),
        Word("hits", NONE_SOME, "requests that hold a short promise of the key"),
        Word("pins", NONE_SOME, "reads, cascades and exports that run on the block"),
        Word("company", NONE_SOME, "other transfers that run on the transfer's slot"),
        Word("cascading", NONE_SOME, "(other) cascades or exports that run on the slot"),
        Word("copying", NONE_SOME, "cascades of the key to the tier that run, stale ones too"),
        Word("queuer", ("SELF", "OTHER"), "is the asker the one whose promotion is queued?"),
        Word("duties", NONE_SOME, "stores of the request that run and are not overdue"),
        Word("room", NO_YES, "a slot is free, or an evictable block makes it so"),
        Word("permits", NO_YES, "a permit is free"),
        Word("berths", NO_YES, "a berth is free"),
        Word(
            "tiers",
            ("CLAIMED", "UNDECIDED", "RAISED", "TIMED_OUT", "RETRACTED", "UNCLAIMED"),
            "what the tiers say that may be asked, taken together",
        ),
    )
}

ENVIRONMENT = {
    w.name: w
    for w in (
        Word("outcome", ("LANDED", "FAILED", "REFUSED"), "how an offered cascade went"),
        Word("tries", ("LEFT", "SPENT"), "are re-offers of this cascade left?"),
    )
}

WORDS: dict[str, tuple[str, ...]] = {
    **{name: f.values for name, f in FIELDS.items()},
    **{name: w.values for name, w in DERIVED.items()},
    **{name: w.values for name, w in ENVIRONMENT.items()},
}
"""Every word that a guard may use, with its values."""

VERBS = {
    "slot": ("take", "free", "quarantine"),
    "permit": ("take", "free"),
    "berth": ("take", "free"),
    "transfer": (*(f"start {kind}" for kind in KINDS), "end"),
    "transfers": ("go stale",),
    "content": ("lost", "own"),
}
"""Effects on things rather than on one value; lower case, so that nobody takes them for values."""


@cache
def split(cell: str) -> tuple[str, str | None]:
    """`"waits[asker]"` -> `("waits", "asker")`; `"phase"` -> `("phase", None)`."""
    name, bracket, role = cell.partition("[")
    return name, role[:-1] if bracket else None
