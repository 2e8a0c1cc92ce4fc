"""What is measured: one row for each call, with the least that it can cost and the goal."""

from __future__ import annotations

from dataclasses import dataclass

SCAN = 3_360
"""Keys of the public workload's full scan."""
LOOKUPS = 2_000
BATCH, BATCHES = 32, 32
SINGLE_LOADS = 500
MANY_JOBS, SOME_JOBS = 1_000, 10
MANY_LIVE = 1_000
SPARE = 4_096
"""Free slots of a manager on the bench: more than a round needs."""


@dataclass(frozen=True)
class Row:
    """A line of the table."""

    name: str
    unit: str
    """What the time is for: a lookup, a block, a step, ..."""
    needs: str
    """The dictionary operations that this cannot do without: the floor does them and no more."""
    goal: float | None = None
    """How many times as fast as the stock manager it should be."""


_FIND = "find the block"
_MISS = "find no block, ask each tier's table"
ROWS = tuple(
    Row(*row)
    for row in (
        ("HIT, first time", "lookup", _FIND, 1.5),
        ("HIT, repeated", "lookup", _FIND, 1.5),
        ("HIT, first time, counted", "lookup", _FIND),
        ("HIT, repeated, counted", "lookup", _FIND),
        ("HIT_PENDING, first time", "lookup", f"{_FIND}, enter who waits"),
        ("HIT_PENDING, repeated", "lookup", _FIND),
        ("MISS, 1 tier", "lookup", _MISS),
        ("MISS, 2 tiers", "lookup", _MISS, 2.0),
        ("MISS, 4 tiers", "lookup", _MISS),
        ("MISS, 2 tiers, no slot free", "lookup", _MISS, 2.0),
        ("MISS, 2 tiers, repeated", "lookup", _MISS),
        ("MISS, 2 tiers, counted", "lookup", _MISS),
        (f"scan of {SCAN:,} resident keys", "scan", "find each block", 10.0),
        (f"scan of {SCAN:,} scattered keys", "scan", "find each block"),
        (f"scan of {SCAN:,} keys, repeated", "scan", "find each block"),
        (f"scan of {SCAN:,} keys, counted", "scan", "find each block"),
        (f"scan of {SCAN:,} absent keys", "scan", _MISS),
        (
            "promotion, free slots",
            "lookup",
            "find no block, ask a tier, enter block and who waits",
            4.0,
        ),
        (
            "promotion, evicting",
            "lookup",
            "as with free slots, and take the victim out",
            4.0,
        ),
        ("end of step, 1 job", "step", "ask each tier, enter the job"),
        ("end of step, 10 jobs", "step", "ask each tier, enter the jobs"),
        ("end of step, 1,000 jobs", "step", "ask each tier, enter the jobs"),
        ("promotions land, 1 job", "block", "take the job out; is the key among the landed?", 2.0),
        ("promotions land, 1,000 jobs", "block", "as with 1 job", 2.0),
        ("load of 1 block", "block", "find the block, enter the operation and take it out"),
        (f"load of {BATCH}", "block", "as with 1 block, the operation once", 1.2),
        (
            f"store of {BATCH}, 2 tiers",
            "block",
            "find no block, enter it; enter operation and jobs",
        ),
        ("cascades end, each tier", "block", "take the job out, and the key of what is being sent"),
        (f"finish, {BATCH} blocks read", "request", "take the request out; find each block"),
        ("idle step, 1 live request", "step", "ask each tier"),
        ("idle step, 1,000 live", "step", "ask each tier"),
        ("work pending? 1 live request", "call", "nothing"),
        ("work pending? 1,000 live", "call", "nothing"),
    )
)
BY_NAME = {row.name: row for row in ROWS}
IDLE_FEW, IDLE_MANY = "idle step, 1 live request", "idle step, 1,000 live"
IDLE_GOAL = 3.0
"""An idle step with a thousand live requests costs at most so many times one with a single one."""
