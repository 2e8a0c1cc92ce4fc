"""The part of the rule table about copies to secondary tiers: cascades, offers, exports to peers.

`rules` gathers the whole table; a rule here reads as the rules there do.
"""

from __future__ import annotations

from .events import Rule
from .vocabulary import ONE_MORE

CASCADING = (
    Rule("parked", "park", {"phase": ("STORING",)}, {"parked[asker]": "YES"}),
    Rule(
        "offered",
        "offer",
        {"phase": ("RESIDENT",), "cascade[tier]": ("NONE",)},
        {"cascade[tier]": "DUE"},
    ),
    Rule(
        "copy_takes_berth",
        "copy",
        {
            "phase": ("RESIDENT",),
            "cascade[tier]": ("DUE",),
            "copying": ("NONE",),
            "cascading": ("NONE",),
            "berths": ("YES",),
        },
        {"cascade[tier]": "RUNNING", "transfer": "start CASCADE", "berth": "take"},
    ),
    Rule(
        "copy_shares_berth",
        "copy",
        {
            "phase": ("RESIDENT",),
            "cascade[tier]": ("DUE",),
            "copying": ("NONE",),
            "cascading": ("SOME",),
        },
        {"cascade[tier]": "RUNNING", "transfer": "start CASCADE"},
    ),
    Rule(
        "export_takes_berth",
        "export",
        {"phase": ("RESIDENT",), "cascading": ("NONE",), "berths": ("YES",)},
        {"transfer": "start EXPORT", "berth": "take"},
    ),
    Rule(
        "export_shares_berth",
        "export",
        {"phase": ("RESIDENT",), "cascading": ("SOME",)},
        {"transfer": "start EXPORT"},
    ),
    Rule(
        "copied",
        "copied",
        {"cascade[tier]": ("RUNNING",), "outcome": ("LANDED",)},
        {"cascade[tier]": "DONE", "successes[tier]": ONE_MORE},
    ),
    Rule(
        "copied_again_later",
        "copied",
        {"cascade[tier]": ("RUNNING",), "outcome": ("FAILED",), "tries": ("LEFT",)},
        {"cascade[tier]": "DUE"},
    ),
    Rule(
        "copying_given_up",
        "copied",
        {"cascade[tier]": ("RUNNING",), "outcome": ("FAILED",), "tries": ("SPENT",)},
        {"cascade[tier]": "NONE"},
    ),
    Rule(
        "refused",
        "copied",
        {"cascade[tier]": ("DUE",), "outcome": ("REFUSED",), "tries": ("LEFT",)},
        {},
    ),
    Rule(
        "refused_for_good",
        "copied",
        {"cascade[tier]": ("DUE",), "outcome": ("REFUSED",), "tries": ("SPENT",)},
        {"cascade[tier]": "NONE"},
    ),
)
