"""The rooms in which watched managers are led everywhere: small settings, each about one thing."""

from __future__ import annotations

from ..model.operations import (
    CompleteStore,
    Lookup,
    PrepareLoad,
    PrepareStore,
    RequestSetting,
    Reset,
    Setting,
    StepEnd,
    TierSetting,
)
from .watch_moves import Room

T, R = TierSetting, RequestSetting
TWO = (R("r0"), R("r1"))

ROOMS = (
    Room(
        "answers",
        "what two tiers may say, and how a promotion begins",
        Setting(slots=1, tiers=(T("t0", undecided=("k0",)), T("t1", has=("k0",)))),
        minds=("ABSENT", "UNDECIDED", "PRESENT"),
        depth=6,
    ),
    Room(
        "filters",
        "a request that may load from one tier only",
        Setting(
            slots=2,
            tiers=(T("t0", has=("k0",)), T("t1", has=("k0",))),
            requests=(R("r0", only=("t1",)), R("r1")),
        ),
        depth=6,
    ),
    Room(
        "promises",
        "blocks that are promised and not read yet, when another needs the slot",
        Setting(slots=1, keys=("k0", "k1"), tiers=(T("t0", has=("k0", "k1")),), requests=TWO),
        loads=True,
        scheduled=True,
        depth=7,
    ),
    Room(
        "hits",
        "blocks answered HIT, when the same step promotes others",
        Setting(slots=1, keys=("k0", "k1"), tiers=(T("t0", has=("k1",)),)),
        loads=True,
        stores=(("k0",),),
        depth=7,
    ),
    Room(
        "readers",
        "a block that two requests and a copy read at the same time, when its slot is wanted",
        Setting(slots=1, keys=("k0", "k1"), tiers=(T("t0"),), requests=TWO),
        start=(
            *(PrepareStore(("k0",), "r0"), StepEnd(), CompleteStore(1)),
            *(Lookup("k0", "r0"), Lookup("k0", "r1")),
            *(PrepareLoad(("k0",), "r0"), PrepareLoad(("k0",), "r1"), StepEnd()),
        ),
        ends=True,
        stores=(("k1",),),
        lookups=False,
    ),
    Room(
        "first to go",
        "two blocks, of which the one that was used first is being read, when slots are wanted",
        Setting(slots=2, keys=("k0", "k1", "k2", "k3"), tiers=(T("t0"),)),
        start=(
            *(PrepareStore(("k0", "k1"), "r0"), StepEnd(), CompleteStore(1)),
            *(Lookup("k0", "r0"), PrepareLoad(("k0",), "r0"), Lookup("k1", "r0"), StepEnd()),
        ),
        stores=(("k2",), ("k3",)),
        lookups=False,
        depth=6,
    ),
    Room(
        "room for stores",
        "promotions and copies that hold slots, when the GPU wants to store",
        Setting(slots=3, keys=("k0", "k1", "k2", "k3"), tiers=(T("t0", has=("k0", "k1", "k2")),)),
        stores=(("k3",),),
        depth=6,
    ),
    Room(
        "failures",
        "loads that fail wholly or in part, and what is asked again",
        Setting(slots=2, keys=("k0", "k1"), tiers=(T("t0", has=("k0", "k1")), T("t1"))),
        failures=True,
        depth=7,
    ),
    Room(
        "slots after failures",
        "loads and stores that fail, and whether their slots can be had again",
        Setting(slots=1, keys=("k0", "k1"), tiers=(T("t0", has=("k0",)),), requests=TWO),
        start=(Lookup("k0", "r0"), StepEnd()),
        stores=(("k1",),),
        failures=True,
        lookups=False,
    ),
    Room(
        "exceptions",
        "a tier that raises, beside one that does not",
        Setting(
            slots=3,
            keys=("k0", "k1"),
            tiers=(T("t0", has=("k0",)), T("t1", has=("k1",))),
        ),
        moods=("raise on lookup", "raise on submit", "raise on poll"),
        depth=6,
    ),
    Room(
        "after an exception",
        "a submit that raises once, and what becomes of its block and of the step after",
        Setting(slots=1, tiers=(T("t0", has=("k0",)),)),
        moods=("raise on submit",),
        scheduled=True,
        depth=10,
    ),
    Room(
        "copies",
        "a stored block and its copies to two tiers, failed or landed",
        Setting(slots=1, tiers=(T("t0"), T("t1"))),
        stores=(("k0",),),
        failures=True,
        lookups=False,
        depth=8,
    ),
    Room(
        "refusals",
        "a tier under pressure, which refuses a copy and later would take it",
        Setting(slots=1, tiers=(T("t0"),)),
        stores=(("k0",),),
        moods=("refuse stores",),
        lookups=False,
        depth=9,
    ),
    Room(
        "whole requests",
        "a tier that wants whole requests, and blocks that are there or on their way",
        Setting(
            slots=2,
            tiers=(T("t0", whole_request=True), T("t1", has=("k0",))),
            requests=TWO,
        ),
        stores=(("k0",),),
        depth=8,
    ),
    Room(
        "ends",
        "requests that end with copies and loads under way",
        Setting(slots=2, keys=("k0", "k1"), tiers=(T("t0", has=("k1",)),)),
        stores=(("k0",),),
        loads=True,
        failures=True,
        ends=True,
        depth=8,
    ),
    Room(
        "resets",
        "a reset with loads, stores and copies under way",
        Setting(slots=1, keys=("k0", "k1"), tiers=(T("t0", has=("k1",)),)),
        stores=(("k0",),),
        loads=True,
        ends=True,
        resets=True,
        depth=8,
    ),
    Room(
        "stores across a reset",
        "a block that is stored before a reset and again after it, when the first store ends",
        Setting(slots=2, keys=("k0", "k1"), tiers=(T("t0"),)),
        start=(
            *(PrepareStore(("k0",), "r0"), StepEnd(), Reset()),
            *(PrepareStore(("k0",), "r0"), StepEnd()),
        ),
        loads=True,
        depth=6,
    ),
    Room(
        "waits",
        "a load that is never reported, a tier that is never decided",
        Setting(slots=1, keys=("k0", "k1"), tiers=(T("t0", has=("k0",), undecided=("k1",)),)),
        time=True,
        depth=6,
    ),
)
