"""P2-room-for-stores: slots withheld from stores by promotions (permits) and by cascades never
exceed their shares, hung ones included.

Written by `tierproof matrix --versions 0.30.0`. Run it with `pytest test_P2_room_for_stores_by_vllm_0_30_0.py`; to hold another
manager to it, name that one in the environment variable TIERPROOF_MANAGER.
"""

from tierproof.model.operations import (
    Lookup,
    PrepareStore,
    RequestSetting,
    Setting,
    TierSetting,
)
from tierproof.properties.counterexamples import hold

MANAGER = "vllm:0.30.0"
CONTRACT = "P2-room-for-stores"

SETTING = Setting(
    slots=2,
    keys=("k0", "k1", "k2", "k3"),
    tiers=(TierSetting(name="t0", has=("k0", "k1")), TierSetting(name="t1", has=("k1", "k2"), undecided=("k3",))),
    requests=(RequestSetting(name="r0"), RequestSetting(name="r1"), RequestSetting(name="r2")),
)

HISTORY = [
    # 1. r1 looks up k1: HIT_PENDING
    Lookup(key="k1", request="r1"),
    # 2. r1 looks up k2: HIT_PENDING
    Lookup(key="k2", request="r1"),
    # 3. r0 offers k0 to be stored: <- here
    PrepareStore(keys=("k0",), request="r0"),
]


def test_P2_room_for_stores_by_vllm_0_30_0():
    hold(MANAGER, SETTING, HISTORY, CONTRACT, beside=__file__)
