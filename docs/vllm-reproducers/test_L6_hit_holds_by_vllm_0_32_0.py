"""L6-hit-holds: a block answered HIT can be loaded until the next store, a reset or the end of the
step, whatever else is looked up or promoted before.

Written by `tierproof matrix --versions 0.32.0`. Run it with `pytest test_L6_hit_holds_by_vllm_0_32_0.py`; to hold another
manager to it, name that one in the environment variable TIERPROOF_MANAGER.
"""

from tierproof.model.operations import (
    Lookup,
    Report,
    RequestSetting,
    Setting,
    StepEnd,
    TierSetting,
)
from tierproof.properties.counterexamples import hold

MANAGER = "vllm:0.32.0"
CONTRACT = "L6-hit-holds"

SETTING = Setting(
    slots=1,
    keys=("k0", "k1"),
    tiers=(TierSetting(name="t0", has=("k0", "k1")),),
    requests=(RequestSetting(name="r0"), RequestSetting(name="r1")),
)

HISTORY = [
    # 1. r0 looks up k0: HIT_PENDING
    Lookup(key="k0", request="r0"),
    # 2. the step ends
    #    -> job 1: a load of k0 from t0 for r0
    StepEnd(),
    # 3. job 1 ends: k0 landed
    Report(number=1, landed=("k0",)),
    # 4. r0 looks up k0: HIT
    Lookup(key="k0", request="r0"),
    # 5. r0 looks up k1: HIT_PENDING   <- here
    Lookup(key="k1", request="r0"),
]


def test_L6_hit_holds_by_vllm_0_32_0():
    hold(MANAGER, SETTING, HISTORY, CONTRACT, beside=__file__)
