"""L1-answer-true: each answer means what the semantics say: HIT implies valid bytes, HIT_PENDING
exactly one live writer, RETRY an undecided tier and no claim, MISS no claim or a named reason
that holds.

Written by `tierproof matrix --versions 0.27.1`. Run it with `pytest test_L1_answer_true_by_vllm_0_27_1.py`; to hold another
manager to it, name that one in the environment variable TIERPROOF_MANAGER.
"""

from tierproof.model.operations import (
    Lookup,
    RequestSetting,
    Setting,
    TierSetting,
)
from tierproof.properties.counterexamples import hold

MANAGER = "vllm:0.27.1"
CONTRACT = "L1-answer-true"

SETTING = Setting(
    slots=1,
    keys=("k0",),
    tiers=(TierSetting(name="t0", undecided=("k0",)), TierSetting(name="t1", has=("k0",))),
    requests=(RequestSetting(name="r0"),),
)

HISTORY = [
    # 1. r0 looks up k0: RETRY   <- here
    Lookup(key="k0", request="r0"),
]


def test_L1_answer_true_by_vllm_0_27_1():
    hold(MANAGER, SETTING, HISTORY, CONTRACT, beside=__file__)
