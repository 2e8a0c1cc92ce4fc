"""L3-until-read: a waiter never again sees MISS or RETRY for the key until a named release.

Written by `tierproof matrix --versions 0.22.1`. Run it with `pytest test_L3_until_read_by_vllm_0_22_1.py`; to hold another
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

MANAGER = "vllm:0.22.1"
CONTRACT = "L3-until-read"

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
    # 4. r0 looks up k1: HIT_PENDING
    Lookup(key="k1", request="r0"),
    # 5. r0 looks up k0: MISS   <- here
    Lookup(key="k0", request="r0"),
]


def test_L3_until_read_by_vllm_0_22_1():
    hold(MANAGER, SETTING, HISTORY, CONTRACT, beside=__file__)
