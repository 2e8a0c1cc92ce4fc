"""P1-progress: every promise settles: two rankings decrease with each helpful event, the
adversaries are named, and waits are bounded.

Written by `tierproof matrix --versions 0.27.1`. Run it with `pytest test_P1_progress_by_vllm_0_27_1.py`; to hold another
manager to it, name that one in the environment variable TIERPROOF_MANAGER.
"""

from tierproof.model.operations import (
    Advance,
    Lookup,
    RequestSetting,
    Setting,
    StepEnd,
    TierSetting,
)
from tierproof.properties.counterexamples import hold

MANAGER = "vllm:0.27.1"
CONTRACT = "P1-progress"

SETTING = Setting(
    slots=1,
    keys=("k0", "k1"),
    tiers=(TierSetting(name="t0", has=("k0",), undecided=("k1",)),),
    requests=(RequestSetting(name="r0"),),
)

HISTORY = [
    # 1. r0 looks up k0: RETRY
    Lookup(key="k0", request="r0"),
    # 2. the step ends
    #    -> job 1: a load of k0 from t0 for r0
    StepEnd(),
    # 3. 31 s pass
    Advance(seconds=31.0),
    # 4. r0 looks up k0: HIT_PENDING   <- here
    Lookup(key="k0", request="r0"),
]


def test_P1_progress_by_vllm_0_27_1():
    hold(MANAGER, SETTING, HISTORY, CONTRACT, beside=__file__)
