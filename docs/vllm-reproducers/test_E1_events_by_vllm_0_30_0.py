"""E1-events: replaying the events gives the resident set.

Written by `tierproof matrix --versions 0.30.0`. Run it with `pytest test_E1_events_by_vllm_0_30_0.py`; to hold another
manager to it, name that one in the environment variable TIERPROOF_MANAGER.
"""

from tierproof.model.operations import (
    Lookup,
    Report,
    RequestSetting,
    Reset,
    Setting,
    StepEnd,
    TierSetting,
)
from tierproof.properties.counterexamples import hold

MANAGER = "vllm:0.30.0"
CONTRACT = "E1-events"

SETTING = Setting(
    slots=1,
    keys=("k0", "k1"),
    tiers=(TierSetting(name="t0", has=("k1",)),),
    requests=(RequestSetting(name="r0"),),
)

HISTORY = [
    # 1. r0 looks up k1: HIT_PENDING
    Lookup(key="k1", request="r0"),
    # 2. the step ends
    #    -> job 1: a load of k1 from t0 for r0
    StepEnd(),
    # 3. job 1 ends: k1 landed
    Report(number=1, landed=("k1",)),
    # 4. the cache is reset: <- here
    Reset(),
]


def test_E1_events_by_vllm_0_30_0():
    hold(MANAGER, SETTING, HISTORY, CONTRACT, beside=__file__)
