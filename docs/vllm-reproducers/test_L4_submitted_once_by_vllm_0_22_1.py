"""L4-submitted-once: a begun promotion is in exactly one submit_load: never two, and never none
once its step has ended unless it was dropped or withdrawn first.

Written by `tierproof matrix --versions 0.22.1`. Run it with `pytest test_L4_submitted_once_by_vllm_0_22_1.py`; to hold another
manager to it, name that one in the environment variable TIERPROOF_MANAGER.
"""

from tierproof.model.operations import (
    Lookup,
    Mood,
    RequestSetting,
    Setting,
    StepEnd,
    TierSetting,
)
from tierproof.properties.counterexamples import hold

MANAGER = "vllm:0.22.1"
CONTRACT = "L4-submitted-once"

SETTING = Setting(
    slots=3,
    keys=("k0", "k1"),
    tiers=(TierSetting(name="t0", has=("k0",)), TierSetting(name="t1", has=("k1",))),
    requests=(RequestSetting(name="r0"),),
)

HISTORY = [
    # 1. tier t0 from now on raises when it is given a job
    Mood(tier="t0", mood="raise on submit"),
    # 2. r0 looks up k0: HIT_PENDING
    Lookup(key="k0", request="r0"),
    # 3. the step ends: raises TierError
    #    -> job 1: a load of k0 from t0 for r0
    StepEnd(),
    # 4. the step ends: raises TierError   <- here
    #    -> job 2: a load of k0 from t0 for r0
    StepEnd(),
]


def test_L4_submitted_once_by_vllm_0_22_1():
    hold(MANAGER, SETTING, HISTORY, CONTRACT, beside=__file__)
