"""C2-cascade-reoffered: a refused or failed cascade is offered again while the block is resident,
boundedly.

Written by `tierproof matrix --versions 0.28.0`. Run it with `pytest test_C2_cascade_reoffered_by_vllm_0_28_0.py`; to hold another
manager to it, name that one in the environment variable TIERPROOF_MANAGER.
"""

from tierproof.model.operations import (
    CompleteStore,
    PrepareStore,
    Report,
    RequestSetting,
    Setting,
    StepEnd,
    TierSetting,
)
from tierproof.properties.counterexamples import hold

MANAGER = "vllm:0.28.0"
CONTRACT = "C2-cascade-reoffered"

SETTING = Setting(
    slots=2,
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
    # 4. job 1 ends: it failed
    Report(number=1),
    # 5. the step ends
    StepEnd(),
    # 6. the step ends
    StepEnd(),
    # 7. the step ends: <- here
    StepEnd(),
]


def test_C2_cascade_reoffered_by_vllm_0_28_0():
    hold(MANAGER, SETTING, HISTORY, CONTRACT, beside=__file__)
