"""S2-no-reuse-under-transfer: a slot that a writer, a GPU load or a cascade may still touch is not
given out; every quarantined slot has a transfer that will report.

Written by `tierproof matrix --versions 0.27.1`. Run it with `pytest test_S2_no_reuse_under_transfer_by_vllm_0_27_1.py`; to hold another
manager to it, name that one in the environment variable TIERPROOF_MANAGER.
"""

from tierproof.model.operations import (
    Lookup,
    PrepareStore,
    RequestSetting,
    Reset,
    Setting,
    StepEnd,
    TierSetting,
)
from tierproof.properties.counterexamples import hold

MANAGER = "vllm:0.27.1"
CONTRACT = "S2-no-reuse-under-transfer"

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
    # 4. r0 looks up k1: RETRY
    Lookup(key="k1", request="r0"),
    # 5. the step ends: <- here
    #    -> job 1: a load of k1 from t0 for r0
    StepEnd(),
]


def test_S2_no_reuse_under_transfer_by_vllm_0_27_1():
    hold(MANAGER, SETTING, HISTORY, CONTRACT, beside=__file__)
