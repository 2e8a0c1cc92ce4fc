"""F2-claim-retracted: a failed load is not started again from the same tier for the same key
without new evidence, resets included.

Written by `tierproof matrix --versions 0.31.0`. Run it with `pytest test_F2_claim_retracted_by_vllm_0_31_0.py`; to hold another
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

MANAGER = "vllm:0.31.0"
CONTRACT = "F2-claim-retracted"

SETTING = Setting(
    slots=2,
    keys=("k0",),
    tiers=(TierSetting(name="t0", has=("k0",)), TierSetting(name="t1", has=("k0",))),
    requests=(RequestSetting(name="r0", only=("t1",)), RequestSetting(name="r1")),
)

HISTORY = [
    # 1. r0 looks up k0: HIT_PENDING
    Lookup(key="k0", request="r0"),
    # 2. the step ends
    #    -> job 1: a load of k0 from t1 for r0
    StepEnd(),
    # 3. job 1 ends: it failed
    Report(number=1),
    # 4. r0 looks up k0: HIT_PENDING   <- here
    Lookup(key="k0", request="r0"),
]


def test_F2_claim_retracted_by_vllm_0_31_0():
    hold(MANAGER, SETTING, HISTORY, CONTRACT, beside=__file__)
