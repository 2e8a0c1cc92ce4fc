"""R1-reset: nothing from before a reset is readable after it; late completions only free slots.

Written by `tierproof matrix --versions 0.22.1`. Run it with `pytest test_R1_reset_by_vllm_0_22_1.py`; to hold another
manager to it, name that one in the environment variable TIERPROOF_MANAGER.
"""

from tierproof.model.operations import (
    CompleteStore,
    PrepareStore,
    RequestSetting,
    Reset,
    Setting,
    StepEnd,
    TierSetting,
)
from tierproof.properties.counterexamples import hold

MANAGER = "vllm:0.22.1"
CONTRACT = "R1-reset"

SETTING = Setting(
    slots=1,
    keys=("k0", "k1"),
    tiers=(TierSetting(name="t0", has=("k1",)),),
    requests=(RequestSetting(name="r0"),),
)

HISTORY = [
    # 1. r0 offers k0 to be stored: slots [0] for ['k0']
    #    -> operation 1
    PrepareStore(keys=("k0",), request="r0"),
    # 2. the step ends
    StepEnd(),
    # 3. the GPU has written (operation 1)
    #    -> job 1: a copy of k0 to t0 for r0
    CompleteStore(number=1),
    # 4. the cache is reset: <- here
    Reset(),
]


def test_R1_reset_by_vllm_0_22_1():
    hold(MANAGER, SETTING, HISTORY, CONTRACT, beside=__file__)
