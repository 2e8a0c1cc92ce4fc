"""The contracts, each stated once. Every way of checking refers to these ids; users pin them.

`methods` of a contract are the ways in which it is checked here: *proof* on the rule table for
any number of keys, tiers, requests, slots and transfers; *tour*, every reachable case driven on the
real manager; *runs*, random histories in lockstep with the model.
"""

from __future__ import annotations

from dataclasses import dataclass

VERSION = "1"
"""Version of the set of contracts; it rises when a contract's meaning changes."""

PROOF, TOUR, RUNS = "proof", "tour", "runs"


@dataclass(frozen=True)
class Contract:
    """One promise: a stable id, the promise in words, the methods, the probes that it needs."""

    id: str
    words: str
    methods: tuple[str, ...]
    needs: tuple[str, ...] = ()
    """Probes without which a manager cannot be held to it."""


CONTRACTS = {
    c.id: c
    for c in (
        Contract(
            "L1-answer-true",
            "each answer means what the semantics say: HIT implies valid bytes, HIT_PENDING "
            "exactly one live writer, RETRY an undecided tier and no claim, MISS no claim or a "
            "named reason that holds",
            (PROOF, TOUR, RUNS),
        ),
        Contract(
            "L2-until-landed",
            "after a promotion has begun, no lookup of the key by anyone answers MISS or RETRY "
            "until it lands, fails, is overdue, is reset, or is dropped or withdrawn before it "
            "was submitted",
            (PROOF, TOUR, RUNS),
        ),
        Contract(
            "L3-until-read",
            "a waiter never again sees MISS or RETRY for the key until a named release",
            (PROOF, TOUR, RUNS),
        ),
        Contract(
            "L4-submitted-once",
            "a begun promotion is in exactly one submit_load: never two, and never none once its "
            "step has ended unless it was dropped or withdrawn first",
            (PROOF, TOUR, RUNS),
        ),
        Contract(
            "L5-tiers-asked",
            "tiers are asked in order, filtered, at most once a lookup, never after a HIT, never "
            "when the primary decides",
            (TOUR, RUNS),
        ),
        Contract(
            "L6-hit-holds",
            "a block answered HIT can be loaded until the next store, a reset or the end of the "
            "step, whatever else is looked up or promoted before",
            (PROOF, TOUR, RUNS),
        ),
        Contract(
            "S1-slot-exclusive",
            "no slot belongs to two keys; every slot is exactly one of free, owned, quarantined",
            (PROOF, TOUR, RUNS),
            ("slot_of",),
        ),
        Contract(
            "S2-no-reuse-under-transfer",
            "a slot that a writer, a GPU load or a cascade may still touch is not given out; every "
            "quarantined slot has a transfer that will report",
            (PROOF, TOUR, RUNS),
        ),
        Contract(
            "S3-pins",
            "pins equal the GPU loads and cascades in flight, never negative; a pinned or promised "
            "block is not evicted; the end of a request takes no pin from a running copy",
            (PROOF, TOUR, RUNS),
        ),
        Contract(
            "S4-operations",
            "a completion acts on the operation it names and on nothing that came after it",
            (PROOF, TOUR, RUNS),
        ),
        Contract(
            "F1-partial-failure",
            "in a failed job the keys that landed are HIT, the others are not, and no slot is lost",
            (PROOF, TOUR, RUNS),
        ),
        Contract(
            "F2-claim-retracted",
            "a failed load is not started again from the same tier for the same key without new "
            "evidence, resets included",
            (PROOF, TOUR, RUNS),
        ),
        Contract(
            "F3-tier-raises",
            "an exception from any tier call is a failed call or job, reported once; everything "
            "else goes on",
            (TOUR, RUNS),
        ),
        Contract(
            "C1-cascade-once",
            "for each tier at most one cascade of a block is in flight, and it succeeds at most "
            "once for each store; each admitting tier gets the block, also when its write was "
            "still in flight",
            (PROOF, TOUR, RUNS),
        ),
        Contract(
            "C2-cascade-reoffered",
            "a refused or failed cascade is offered again while the block is resident, boundedly",
            (PROOF, TOUR, RUNS),
        ),
        Contract(
            "R1-reset",
            "nothing from before a reset is readable after it; late completions only free slots",
            (PROOF, TOUR, RUNS),
        ),
        Contract(
            "Q1-finish",
            "each tier hears the end of a request exactly once, after its last submit, in bounded "
            "time; then nothing of the request is left",
            (PROOF, TOUR, RUNS),
        ),
        Contract(
            "P1-progress",
            "every promise settles: two rankings decrease with each helpful event, the adversaries "
            "are named, and waits are bounded",
            (PROOF, TOUR, RUNS),
        ),
        Contract(
            "P2-room-for-stores",
            "slots withheld from stores by promotions (permits) and by cascades never exceed their "
            "shares, hung ones included",
            (PROOF, TOUR, RUNS),
        ),
        Contract(
            "W1-pending-work",
            "has_pending_work is true exactly while something is still to happen",
            (PROOF, TOUR, RUNS),
        ),
        Contract(
            "A1-promote-what-is-read",
            "blocks promoted for a load plan are those that it loads and that, when it was made, "
            "were neither in the primary tier nor in flight, each once; none if it loads nothing",
            (PROOF, TOUR, RUNS),
        ),
        Contract(
            "A2-ask-no-more",
            "for a load, each key that a boundary needs is asked for at most once and no other; at "
            "most those of the hit and of the boundaries that were given up, where tiers answer at "
            "once",
            (RUNS,),
        ),
        Contract("E1-events", "replaying the events gives the resident set", (TOUR, RUNS)),
        Contract(
            "D1-bytes",
            "bytes read under a key are the bytes stored under it",
            (PROOF, TOUR, RUNS),
        ),
    )
}

TIER_CONTRACTS = {
    c.id: c
    for c in (
        Contract("T1-nonblocking", "lookup, submit and poll never wait for I/O", (RUNS,)),
        Contract(
            "T2-one-report",
            "every submitted job is reported exactly once, by the set of keys that landed, and "
            "only when its I/O can no longer touch the slots; also after a worker's crash or a "
            "drain",
            (RUNS,),
        ),
        Contract(
            "T3-bytes",
            "a landed key's bytes are the bytes stored under it; torn, truncated, foreign, "
            "bit-flipped or half-written data is a failed key, never bytes",
            (RUNS,),
        ),
        Contract(
            "T4-visible",
            "after a store is reported, lookup finds it (at once, or undecided and then present); "
            "before, it never does; a cached absent does not outlive the tier's own store",
            (RUNS,),
        ),
        Contract(
            "T5-withdraw",
            "a failed load or store withdraws the verdict; an answer that belongs to an older "
            "question is dropped",
            (RUNS,),
        ),
        Contract(
            "T6-own-arguments",
            "a job owns its arguments; slots are touched only between submit and report",
            (RUNS,),
        ),
        Contract(
            "T7-bounded",
            "a configured capacity holds; queues are bounded and refuse stores rather than pin "
            "slots; loads go before queued stores, stores still progress",
            (RUNS,),
        ),
        Contract(
            "T8-drain",
            "after drain no I/O touches the arena and every result is available; bounded in time, "
            "naming the jobs that could not be stopped",
            (RUNS,),
        ),
        Contract(
            "T9-raises",
            "one exception never ends a background loop; what fails fails that call alone, and "
            "the tier recovers without a restart",
            (RUNS,),
        ),
        Contract(
            "T10-restart",
            "what was reported stored is found after a restart with the same configuration; "
            "another namespace or size of blocks finds nothing of it; leftovers of a killed "
            "writer are ignored",
            (RUNS,),
        ),
        Contract(
            "T11-shared",
            "several processes on one folder, bucket or server: whole blocks only, no foreign "
            "bytes",
            (RUNS,),
        ),
        Contract("D1-bytes", "bytes read under a key are the bytes stored under it", (RUNS,)),
        Contract(
            "D2-isolation",
            "keys of different tenants, adapters, models or layouts never meet",
            (RUNS,),
        ),
    )
}
"""The contract of a secondary tier; a tier that does not claim them all has `claims`."""
