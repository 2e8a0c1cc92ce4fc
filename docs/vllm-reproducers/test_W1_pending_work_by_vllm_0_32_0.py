"""W1-pending-work: has_pending_work is true exactly while something is still to happen.

Written by `tierproof matrix --versions 0.32.0`. Run it with `pytest test_W1_pending_work_by_vllm_0_32_0.py`; to hold another
manager to it, name that one in the environment variable TIERPROOF_MANAGER.
"""

from tierproof.model.operations import (
    Lookup,
    Mood,
    Report,
    RequestSetting,
    Setting,
    StepEnd,
    TierSetting,
)
from tierproof.properties.counterexamples import hold

MANAGER = "vllm:0.32.0"
CONTRACT = "W1-pending-work"

SETTING = Setting(
    slots=1,
    keys=("k0",),
    tiers=(TierSetting(name="t0", has=("k0",)),),
    requests=(RequestSetting(name="r0"),),
)

HISTORY = [
    # 1. tier t0 from now on raises when it is given a job
    Mood(tier="t0", mood="raise on submit"),
    # 2. r0 looks up k0: HIT_PENDING
    Lookup(key="k0", request="r0"),
    # 3. the step ends; newly scheduled in it: r0: raises TierError
    #    -> job 1: a load of k0 from t0 for r0
    StepEnd(scheduled=("r0",)),
    # 4. tier t0 from now on no longer raises when given a job
    Mood(tier="t0", mood="raise on submit", on=False),
    # 5. the step ends
    #    -> job 2: a load of k0 from t0 for r0
    StepEnd(),
    # 6. job 2 ends: k0 landed
    Report(number=2, landed=("k0",)),
    # 7. the step ends
    StepEnd(),
    # 8. the step ends
    StepEnd(),
    # 9. the step ends: <- here
    StepEnd(),
]


def test_W1_pending_work_by_vllm_0_32_0():
    hold(MANAGER, SETTING, HISTORY, CONTRACT, beside=__file__)
