"""What the table does not say: what the calls of a manager are made of, and what was decided.

The table speaks of one block. Order among blocks, jobs and calls is the reference model's
(`model/reference.py` and the modules that it uses), and is said here in words.
"""

from __future__ import annotations

CALLS: dict[str, str] = {
    "lookup": (
        "one `lookup` event. Only where the primary tier does not decide are the tiers asked: "
        "in order, those that the request's filter allows, that serve no peer through this "
        "request, whose claim on the key is not retracted and that have not timed out for this "
        "request; up to the first that has the block."
    ),
    "lookup_many": "the lookups one after another.",
    "exists": (
        "no event: nothing is reserved. Where the primary tier does not decide, each tier is asked "
        "once for all keys that are still open, and which one has a block is remembered for a plan."
    ),
    "plan_load": (
        "`plan` for every key, or for none: where permits or slots are missing, or a block is "
        "nowhere any more, nothing changes. `evict` as often as slots are missing."
    ),
    "prepare_load": "`read` for every key; refused as a whole unless every key is RESIDENT.",
    "complete_load": "`unpin` for every key; whoever waited on the block has read it (`let_go`).",
    "prepare_store": (
        "`store_begin`, then, for the longest head of the offer's absent keys that fits, "
        "`evict` as often as slots are missing and `accept` for each key. Keys that are present"
        " get `offer` or `park` for tiers that want whole requests."
    ),
    "complete_store": (
        "`store_landed` or `store_failed` for every key in the order of the offer, then `copy` "
        "for each tier, one job a tier."
    ),
    "withdraw": "`let_go` for every key that the request waits on.",
    "on_schedule_end": (
        "`submit` for queued promotions, one job for each tier and request; `let_go` for the "
        "newly scheduled requests; `copy` for cascades that are due; `step_end`; `tell` for "
        "requests that have ended and whose stores are done."
    ),
    "on_request_finished": "`let_go` for everything that the request waits on, then `finish`.",
    "reset_cache": (
        "`forget` for every block, `unfounded` for copies to a tier that is cleared, then "
        "`reset_end`."
    ),
    "on_reset_flushed": "`flushed`; one call ends the hold of all resets before it.",
    "send": "`export` for every key; refused as a whole where berths are missing.",
    "poll (of a tier)": (
        "`load_landed`, `load_failed`, `unpin`, `copied` and `verified`, as reported."
    ),
}

DECISIONS: tuple[tuple[str, str], ...] = (
    (
        "When completions are absorbed",
        "At the first of lookup, lookup_many, exists, plan_load, plan_head, landed, prepare_load, "
        "prepare_store and on_schedule_end "
        "after a step has ended: the clock is read once, every tier is polled in order, and "
        "only then do deadlines and leases run out, so a report that arrives with its deadline "
        "wins. Again before an eviction could be decided, and then before the tiers are asked. A "
        "call between two steps that starts or ends something with a date (complete_store, a send) "
        "reads the clock for it: what lands then has its whole lease, and its copies their whole "
        "deadline.",
    ),
    (
        "What one tier may take of the cascade share",
        "As many blocks as leave a berth to each other tier, and at least one: a slow tier that in "
        "time held every berth would keep the others from getting anything.",
    ),
    (
        "When a probe times out",
        "A tier is asked before its time is looked at: only when it is still undecided, the probe "
        "deadline after it first was, it counts as MISS, and for this request and key for good. "
        "Any other answer of the tier ends the probe, and so do a promise, a retraction of the "
        "claim and the request's being scheduled; but the time that the tier was undecided is not "
        "given back: one that wavers goes on where it stopped, else two tiers in turn could make a "
        "request wait for ever.",
    ),
    (
        "What a read under way does to a promise",
        "A promise whose block its request is reading is ended neither by its lease nor by being "
        "scheduled, but by the read's completion. The end of the request ends it at once.",
    ),
    (
        "How long a HIT is a promise",
        "For one request until it loads the block or ends; for all until the next prepare_store"
        " begins, also one that returns None, a reset, or the end of the step.",
    ),
    (
        "Who owns a queued promotion",
        "The request whose lookup queued it. When it lets go, the promotion passes to the "
        "longest-waiting other request that may load from its source, keeping its place in the "
        "order of submission; where there is none it is dropped for everybody.",
    ),
    (
        "What a permit belongs to",
        "The slot. A load has one from its lookup on; a store gets one with its first waiter if"
        " one is free, else that promise holds until the block lands only. It is kept while the"
        " writer has not reported, a hung one's too, and then until the last waiter has let go."
        " At a reset it is given back at once unless a writer is still alive.",
    ),
    (
        "What a load plan holds",
        "Each block of the plan until its request has read it or let go, also one that was in the "
        "primary tier already; the lease of such a block begins anew. A plan acts on what `exists` "
        "found for the same request; a claim that has been retracted since, a reset and its hold "
        "make the block lost, and the plan is refused. A plan that succeeds, an empty one too, "
        "ends the questions that no tier has answered.",
    ),
    (
        "What is full",
        "A tier has the block and no permit is free, or no slot is free and nothing may be "
        "evicted. Tiers are asked even when nothing is free, so that a MISS says whether "
        "anybody has it.",
    ),
    (
        "Which reason a MISS names",
        "The first that applies of: a tier raised, a tier was undecided for too long, a claim "
        "is retracted, no tier has it. An undecided tier makes it RETRY instead.",
    ),
    (
        "What a failed load takes away",
        "The tier's claim on that key, also when the report arrives after a reset, and when the "
        "same poll says that the key was verified: the failure is the newer word. A later "
        "store of the key to that tier gives it back, and so does the tier's own word that it "
        "has verified the block anew.",
    ),
    (
        "When a cascade is offered again",
        "A refused or failed one is due again at the end of a later step, as often as "
        "`reoffers` says. A tier that refused is left alone until one of its stores reports; one "
        "that has none in flight, until `reoffer_pause` has passed and a later step ends. A "
        "cascade that failed is offered again when `reoffer_pause` has passed, so that one bad "
        "moment does not use up all offers. One that could not start because berths were taken "
        "stays due, and that is no attempt. What is due goes before what has just been stored, and "
        "a tier that is left alone is not offered new blocks either: they become due.",
    ),
    (
        "When the end of a request is told",
        "At the first end of a step at which no store of its own is in flight (overdue ones and"
        " those from before a reset do not count) and no offer of it is parked.",
    ),
    (
        "In which order blocks go",
        "The table allows any victim that may go. The shipped manager keeps what one request uses "
        "together, in the order in which the request named the keys, the tail going before the "
        "head; all of it is as recent as the request's last use of any of it, also what a search "
        "had stepped over.",
    ),
    (
        "What a shutdown ends",
        "Every request: promises are released, what is queued, due or parked is dropped, and each "
        "tier hears of all ends before it is stopped. Afterwards every call is refused but those "
        "that complete GPU operations, on_request_finished, which does nothing, and those that "
        "only look; memory that such an operation touches is released when the last one completes.",
    ),
    (
        "What a tier may not report",
        "An unknown job, a job again, or a key that is not in the job: such a report is logged,"
        " counted and ignored as a whole, because a scheduler must survive its tiers. The same "
        "from the caller raises ContractViolation and changes nothing.",
    ),
    (
        "What a reset keeps",
        "Live requests, ends that are to be told, retracted claims and the numbers of "
        "operations. Slots that a transfer may still touch are in quarantine until the last one"
        " reports. A copy or a send under way to a tier that the reset cleared does not make that "
        "tier's claim count.",
    ),
)
