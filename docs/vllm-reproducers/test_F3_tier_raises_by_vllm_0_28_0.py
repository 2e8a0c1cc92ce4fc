"""F3-tier-raises: an exception from any tier call is a failed call or job, reported once;
everything else goes on.

Written by `tierproof matrix --versions 0.28.0`. Run it with `pytest test_F3_tier_raises_by_vllm_0_28_0.py`; to hold another
manager to it, name that one in the environment variable TIERPROOF_MANAGER.
"""

from tierproof.model.operations import (
    Lookup,
    Mood,
    RequestSetting,
    Setting,
    TierSetting,
)
from tierproof.properties.counterexamples import hold

MANAGER = "vllm:0.28.0"
CONTRACT = "F3-tier-raises"

SETTING = Setting(
    slots=3,
    keys=("k0", "k1"),
    tiers=(TierSetting(name="t0", has=("k0",)), TierSetting(name="t1", has=("k1",))),
    requests=(RequestSetting(name="r0"),),
)

HISTORY = [
    # 1. tier t0 from now on raises when it is asked
    Mood(tier="t0", mood="raise on lookup"),
    # 2. r0 looks up k0: raises TierError   <- here
    Lookup(key="k0", request="r0"),
]


def test_F3_tier_raises_by_vllm_0_28_0():
    hold(MANAGER, SETTING, HISTORY, CONTRACT, beside=__file__)
