"""C1-cascade-once: for each tier at most one cascade of a block is in flight, and it succeeds at
most once for each store; each admitting tier gets the block, also when its write was still in
flight.

Written by `tierproof matrix --versions 0.27.1`. Run it with `pytest test_C1_cascade_once_by_vllm_0_27_1.py`; to hold another
manager to it, name that one in the environment variable TIERPROOF_MANAGER.
"""

from tierproof.model.operations import (
    CompleteStore,
    PrepareStore,
    RequestSetting,
    Setting,
    StepEnd,
    TierSetting,
)
from tierproof.properties.counterexamples import hold

MANAGER = "vllm:0.27.1"
CONTRACT = "C1-cascade-once"

SETTING = Setting(
    slots=2,
    keys=("k0",),
    tiers=(TierSetting(name="t0", whole_request=True), TierSetting(name="t1", has=("k0",))),
    requests=(RequestSetting(name="r0"), RequestSetting(name="r1")),
)

HISTORY = [
    # 1. r0 offers k0 to be stored: slots [0] for ['k0']
    #    -> operation 1
    PrepareStore(keys=("k0",), request="r0"),
    # 2. the step ends
    StepEnd(),
    # 3. the GPU has written (operation 1)
    #    -> job 1: a copy of k0 to t0 for r0
    #    -> job 2: a copy of k0 to t1 for r0
    CompleteStore(number=1),
    # 4. r1 offers k0 to be stored: slots [] for []   <- here
    #    -> job 3: a copy of k0 to t0 for r1
    PrepareStore(keys=("k0",), request="r1"),
]


def test_C1_cascade_once_by_vllm_0_27_1():
    hold(MANAGER, SETTING, HISTORY, CONTRACT, beside=__file__)
