"""Small rooms in which states are told apart by the manager's fingerprint as well.

What two ways lead to may be one state of the model and two of a manager that has gone wrong on one
of them. Where every state is told apart there are many, so each of these rooms begins close to what
it is about and offers little.
"""

from __future__ import annotations

from ..model import operations as ops
from ..model.operations import RequestSetting, Setting, TierSetting
from .room import COPYING, Room
from .room import menu as _menu

T, R = TierSetting, RequestSetting

STORED = (ops.PrepareStore(("k0",), "r0"), ops.CompleteStore(1))
RESETTING = frozenset({"lookup", "reset_cache", "on_schedule_end", "on_reset_flushed"})

CLOSE_ROOMS = (
    Room(
        "shared hits",
        "one block answered HIT to two requests, which load it in turn",
        Setting(
            slots=1,
            keys=("k0", "k1"),
            tiers=(T("t0", has=("k0", "k1")),),
            requests=(R("r0"), R("r1")),
        ),
        _menu(loads=True, only=frozenset({"lookup", "prepare_load", "complete_load"})),
        start=(
            ops.Lookup("k0", "r0"),
            ops.StepEnd(),
            ops.Report(1, ("k0",)),
            ops.PrepareLoad(("k0",), "r0"),
            ops.CompleteLoad(2),
        ),
        closely=True,
    ),
    Room(
        "hold of a reset",
        "what ends the hold of a reset, and what does not",
        Setting(slots=1, tiers=(T("t0", has=("k0",)),)),
        _menu(resets=True, only=RESETTING),
        closely=True,
    ),
    Room(
        "clearing twice",
        "a copy to a tier that a reset has cleared, and a second reset before it ends",
        Setting(slots=1, tiers=(T("t0"),)),
        _menu(resets=True, reset_tiers=True, failures=False, only=RESETTING | {"job_ends"}),
        start=STORED,
        closely=True,
    ),
    Room(
        "copies across a reset",
        "a block that is stored anew while its copy from before a reset is under way",
        Setting(slots=8, tiers=(T("t0"),)),
        _menu(stores=True, failures=False, only=COPYING),
        start=(*STORED, ops.Reset()),
        closely=True,
    ),
    Room(
        "operations across a reset",
        "a store from before a reset, and one after it, that end in either order",
        Setting(slots=2, tiers=()),
        _menu(stores=True, only=frozenset({"prepare_store", "complete_store"})),
        start=(ops.PrepareStore(("k0",), "r0"), ops.Reset()),
        closely=True,
    ),
    Room(
        "parked copies",
        "an offer of a whole request that waits for a write, and the end of its request",
        Setting(slots=1, tiers=(T("t0", whole_request=True),)),
        _menu(stores=True, ends=True, failures=False, only=COPYING | {"on_request_finished"}),
        start=(ops.PrepareStore(("k0",), "r0"), ops.PrepareStore(("k0",), "r0")),
        closely=True,
    ),
)
