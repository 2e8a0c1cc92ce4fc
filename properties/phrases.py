"""The table's cells in English, for the page of the specification.

Every word that a rule uses has its phrase here; a test fails when the table learns a word that
this file does not know, so that the page never shows a bare cell.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ..model.rules import Effects, Guard
from ..model.vocabulary import ONE_MORE, WORDS, split

ANSWERS = {
    "HIT": "the bytes are in the primary tier and may be read now; the caller may load the block "
    "in this step",
    "HIT_PENDING": "the place is certain and the bytes are on their way: exactly one writer (a "
    "promotion or a GPU store) owns the slot; the caller counts it as a hit and waits",
    "RETRY": "the place is not known yet: no allowed tier claims the block and at least one has "
    "not answered; the caller may not count it and asks again in the next step",
    "MISS": "no allowed tier claims the block, or a named reason makes it unavailable; the caller "
    "recomputes",
}
REASONS = {
    "ABSENT": "no allowed tier claims the block",
    "FULL": "a tier has the block, but no permit or no slot is to be had",
    "HELD": "promotions are held between a reset and its flush",
    "OVERDUE": "the block's writer is past the pending deadline",
    "FAILED": "a load of the block failed and no other allowed tier claims it",
    "TIER_ERROR": "a tier raised when it was asked and no other allowed tier claims the block",
    "PROBE_TIMEOUT": "a tier stayed undecided for longer than the probe deadline",
}
PHASES = {
    "ABSENT": "the primary tier does not know the block",
    "QUEUED": "a promotion has its slot and permit; it is submitted when the step ends",
    "LOADING": "a secondary tier writes the slot",
    "STORING": "the GPU writes the slot",
    "OVERDUE_LOADING": "as LOADING, past the deadline: lookups answer MISS, the slot waits",
    "OVERDUE_STORING": "as STORING, past the deadline",
    "RESIDENT": "the bytes are in the slot and may be read",
}
ROLES = {
    "key": "the block that the event is about",
    "asker": "the request that acts",
    "tier": "the secondary tier that it is about",
    "transfer": "the transfer that begins or ends; it knows its key, slot, request and tier",
    "slot": "the slot of the block, or of the transfer",
    "heir": "the longest-waiting other request that may load from the promotion's source",
    "all": "every request, or every tier",
}

# {who} is the role in the brackets of the cell
_GUARDS: dict[str, dict[str, str]] = {
    "waits": {"YES": "{who} waits on the block", "NO": "{who} does not wait on the block"},
    "hit": {"YES": "{who} was just answered HIT", "NO": "{who} was not just answered HIT"},
    "parked": {"YES": "{who} has a parked offer of it", "NO": "{who} has no parked offer of it"},
    "retracted": {"YES": "{who}'s claim is retracted", "NO": "{who}'s claim stands"},
    "cascade": {
        "NONE": "no cascade to {who} is due, running or done",
        "DUE": "a cascade to {who} is due",
        "RUNNING": "the cascade to {who} is running",
        "DONE": "the cascade to {who} is done",
    },
    "life": {
        "LIVE": "{who} is live",
        "ENDING": "{who} has ended and the tiers do not know yet",
        "ENDED": "the tiers know that {who} has ended",
    },
    "held": {"YES": "promotions are held", "NO": "promotions are not held"},
    "state": {
        "UNUSED": "the transfer has not begun",
        "RUNNING": "the transfer is running",
        "ENDED": "the transfer has ended",
    },
    "stale": {
        "YES": "a reset has forgotten the block that it moves",
        "NO": "no reset has come between",
    },
    "permit": {"YES": "the slot has a permit", "NO": "the slot has no permit"},
    "permits": {"YES": "a permit is free", "NO": "no permit is free"},
    "berths": {"YES": "a berth is free", "NO": "no berth is free"},
    "room": {
        "YES": "a slot is free or an eviction can free one",
        "NO": "no slot is free and nothing may be evicted",
    },
    "tiers": {
        "CLAIMED": "an allowed tier has the block",
        "UNDECIDED": "no allowed tier has the block and one is undecided",
        "RAISED": "no allowed tier has the block and one raised",
        "TIMED_OUT": "no allowed tier has the block and one was undecided for too long",
        "RETRACTED": "no allowed tier has the block and one's claim is retracted",
        "UNCLAIMED": "no allowed tier has the block",
    },
    "queuer": {
        "SELF": "the promotion is the asker's own",
        "OTHER": "the promotion is another request's",
    },
    "waiters": {"SOME": "somebody waits on it", "NONE": "nobody waits on it"},
    "others": {"SOME": "others wait on it too", "NONE": "nobody else waits on it"},
    "heirs": {
        "SOME": "another waiter may load from its source",
        "NONE": "no other waiter may load from its source",
    },
    "hits": {"SOME": "somebody was just answered HIT", "NONE": "nobody was just answered HIT"},
    "pins": {"SOME": "transfers read it", "NONE": "no transfer reads it"},
    "company": {
        "SOME": "other transfers still touch the slot",
        "NONE": "no other transfer touches the slot",
    },
    "cascading": {
        "SOME": "another cascade or export pins the slot",
        "NONE": "no other cascade or export pins the slot",
    },
    "copying": {
        "SOME": "an older cascade of it to the tier is still running",
        "NONE": "no older cascade of it to the tier is running",
    },
    "duties": {
        "SOME": "stores of the request are still in flight",
        "NONE": "no store of the request is in flight",
    },
    "outcome": {"LANDED": "it landed", "FAILED": "it failed", "REFUSED": "the tier refused it"},
    "tries": {"LEFT": "re-offers are left", "SPENT": "no re-offer is left"},
}

_EFFECTS: dict[str, dict[str, str]] = {
    "hit": {"YES": "{who} may load it in this step", "NO": "the short promise to {who} ends"},
    "waits": {"YES": "{who} waits on it", "NO": "{who} no longer waits on it"},
    "parked": {"YES": "{who}'s offer is parked", "NO": "{who}'s parked offer is over"},
    "retracted": {"YES": "{who}'s claim is retracted", "NO": "{who}'s claim counts again"},
    "cascade": {
        "NONE": "the cascade to {who} is given up",
        "DUE": "a cascade to {who} is due",
        "RUNNING": "the cascade to {who} runs",
        "DONE": "the cascade to {who} is done",
    },
    "life": {
        "ENDING": "{who} has ended; the tiers are to be told",
        "ENDED": "each tier is told, once",
    },
    "held": {"YES": "promotions are held", "NO": "promotions are free again"},
    "slot": {
        "take": "it takes a free slot",
        "free": "the slot is free",
        "quarantine": "the slot is in quarantine: no one's until its last transfer reports",
    },
    "permit": {"take": "the slot takes a permit", "free": "the slot holds no permit any more"},
    "berth": {"take": "the slot takes a berth", "free": "the slot holds no berth any more"},
    "source": {"tier": "it will be loaded from that tier"},
    "asked_by": {
        "asker": "the promotion is the asker's",
        "heir": "the promotion passes to the heir",
    },
    "transfer": {
        "start LOAD": "a load begins",
        "start STORE": "a store begins",
        "start READ": "a read begins and pins the block",
        "start CASCADE": "a cascade begins and pins the block",
        "start EXPORT": "an export begins and pins the block",
        "end": "the transfer is over",
    },
    "transfers": {"go stale": "its transfers only free their slots from now on"},
    "content": {
        "lost": "what the slot held is lost",
        "own": "the slot holds the bytes of the block",
    },
    "submits": {"0": "counted: no submission", "+1": "counted: one more submission"},
    "successes": {"+1": "counted: one more cascade has landed"},
}
_EFFECTS_ON_ALL: dict[str, dict[str, str]] = {
    "hit": {"NO": "all short promises of it end"},
    "waits": {"NO": "nobody waits on it any more"},
    "parked": {"NO": "no offer of it is parked any more"},
    "cascade": {
        "DUE": "a cascade to every tier is due",
        "NONE": "no cascade of it is due, running or done any more",
    },
    "successes": {"0": "counted: no cascade has landed"},
}


def cell(word: str, allowed: tuple[str, ...]) -> str:
    """A cell of a guard: one of `allowed` is the value of `word`."""
    name, role = split(word)
    if name in ("phase", "kind"):
        subject = "the block" if name == "phase" else "the transfer"
        left = [v for v in WORDS[name] if v not in allowed]
        if len(left) == 1:
            return f"{subject} is not {left[0]}"
        told = [_a(v) for v in allowed] if name == "kind" else allowed
        return f"{subject} is {' or '.join(told)}"
    phrases = _GUARDS[name]
    return " or ".join(phrases[value].format(who=_who(role)) for value in allowed)


def effect(word: str, becomes: str | Mapping[str, str]) -> str:
    """A cell of what a rule does."""
    name, role = split(word)
    if name == "phase":
        return f"the block becomes {becomes}"
    value = becomes if isinstance(becomes, str) else "+1" if becomes == ONE_MORE else str(becomes)
    phrases = _EFFECTS_ON_ALL if role == "all" else _EFFECTS
    return phrases[name][value].format(who=_who(role))


def _who(role: str | None) -> str:
    return f"the {role}" if role else ""


def _a(noun: str) -> str:
    return f"{'an' if noun[0] in 'AEIOU' else 'a'} {noun}"


def when(guard: Guard) -> str:
    """A whole guard."""
    return _sentence(cell(word, allowed) for word, allowed in guard.items())


def then(effects: Effects) -> str:
    """Everything that a rule does."""
    return _sentence(effect(word, becomes) for word, becomes in effects.items())


def _sentence(parts: Iterable[str]) -> str:
    told = "; ".join(parts)
    return told[:1].upper() + told[1:]
