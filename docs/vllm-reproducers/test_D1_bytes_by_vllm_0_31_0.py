"""D1-bytes: bytes read under a key are the bytes stored under it.

Written by `tierproof matrix --versions 0.31.0`. Run it with `pytest test_D1_bytes_by_vllm_0_31_0.py`; to hold another
manager to it, name that one in the environment variable TIERPROOF_MANAGER.
"""

from tierproof.model.operations import (
    CompleteStore,
    Lookup,
    PrepareStore,
    Report,
    RequestSetting,
    Reset,
    Setting,
    StepEnd,
    TierSetting,
)
from tierproof.properties.counterexamples import hold

MANAGER = "vllm:0.31.0"
CONTRACT = "D1-bytes"

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
    # 3. the cache is reset
    Reset(),
    # 4. r0 looks up k1: HIT_PENDING
    Lookup(key="k1", request="r0"),
    # 5. the step ends
    #    -> job 1: a load of k1 from t0 for r0
    StepEnd(),
    # 6. job 1 ends: k1 landed
    Report(number=1, landed=("k1",)),
    # 7. the GPU has written (operation 1)
    CompleteStore(number=1),
    # 8. r0 looks up k1: HIT   <- here
    Lookup(key="k1", request="r0"),
]


def test_D1_bytes_by_vllm_0_31_0():
    hold(MANAGER, SETTING, HISTORY, CONTRACT, beside=__file__)
