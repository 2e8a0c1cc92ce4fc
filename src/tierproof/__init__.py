"""TierProof: a tiered KV-cache offloading manager held to proved contracts.

The names below are imported when they are first used, so that `import tierproof` stays cheap and
the pytest plugin can load before coverage starts.
"""

import logging
from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

# A library is silent until its user says where messages go.
logging.getLogger("tierproof").addHandler(logging.NullHandler())

if TYPE_CHECKING:
    from tierproof.impl.answers import Asked
    from tierproof.impl.arena import Arena
    from tierproof.impl.config import ManagerConfig
    from tierproof.impl.device import CudaBackend, DeviceWorker, KvTensor, ThreadBackend
    from tierproof.impl.errors import (
        ConfigError,
        ContractViolation,
        CorruptBlockError,
        TierError,
        TierProofError,
    )
    from tierproof.impl.geometry import Geometry, Group, Prompt
    from tierproof.impl.keys import BlockKey
    from tierproof.impl.manager import TieredOffloadingManager
    from tierproof.impl.one_phase import OnePhase
    from tierproof.impl.tiers.base import (
        NOTHING,
        Claim,
        JobReport,
        LoadJob,
        Poll,
        RequestInfo,
        StoreJob,
        StorePolicy,
        Tier,
    )
    from tierproof.impl.tiers.configuration import build_tiers
    from tierproof.impl.tiers.files import FileTier
    from tierproof.impl.tiers.memory import MemoryTier
    from tierproof.impl.tiers.object_store import ObjectStoreTier
    from tierproof.impl.tiers.redis import RedisTier
    from tierproof.impl.tiers.slab import SlabTier
    from tierproof.impl.two_phase import TwoPhase
    from tierproof.impl.vocabulary import LookupResult, MissReason

__all__ = [
    "NOTHING",
    "Arena",
    "Asked",
    "BlockKey",
    "Claim",
    "ConfigError",
    "ContractViolation",
    "CorruptBlockError",
    "CudaBackend",
    "DeviceWorker",
    "FileTier",
    "Geometry",
    "Group",
    "JobReport",
    "KvTensor",
    "LoadJob",
    "LookupResult",
    "ManagerConfig",
    "MemoryTier",
    "MissReason",
    "ObjectStoreTier",
    "OnePhase",
    "Poll",
    "Prompt",
    "RedisTier",
    "RequestInfo",
    "SlabTier",
    "StoreJob",
    "StorePolicy",
    "ThreadBackend",
    "Tier",
    "TierError",
    "TierProofError",
    "TieredOffloadingManager",
    "TwoPhase",
    "__version__",
    "build_tiers",
]

_HOME = {
    "Arena": "tierproof.impl.arena",
    "Asked": "tierproof.impl.answers",
    "BlockKey": "tierproof.impl.keys",
    "Claim": "tierproof.impl.tiers.base",
    "ConfigError": "tierproof.impl.errors",
    "ContractViolation": "tierproof.impl.errors",
    "CorruptBlockError": "tierproof.impl.errors",
    "CudaBackend": "tierproof.impl.device",
    "DeviceWorker": "tierproof.impl.device",
    "FileTier": "tierproof.impl.tiers.files",
    "Geometry": "tierproof.impl.geometry",
    "Group": "tierproof.impl.geometry",
    "JobReport": "tierproof.impl.tiers.base",
    "KvTensor": "tierproof.impl.device",
    "LoadJob": "tierproof.impl.tiers.base",
    "LookupResult": "tierproof.impl.vocabulary",
    "ManagerConfig": "tierproof.impl.config",
    "MemoryTier": "tierproof.impl.tiers.memory",
    "MissReason": "tierproof.impl.vocabulary",
    "NOTHING": "tierproof.impl.tiers.base",
    "ObjectStoreTier": "tierproof.impl.tiers.object_store",
    "OnePhase": "tierproof.impl.one_phase",
    "Poll": "tierproof.impl.tiers.base",
    "Prompt": "tierproof.impl.geometry",
    "RedisTier": "tierproof.impl.tiers.redis",
    "RequestInfo": "tierproof.impl.tiers.base",
    "SlabTier": "tierproof.impl.tiers.slab",
    "StoreJob": "tierproof.impl.tiers.base",
    "StorePolicy": "tierproof.impl.tiers.base",
    "ThreadBackend": "tierproof.impl.device",
    "Tier": "tierproof.impl.tiers.base",
    "TierError": "tierproof.impl.errors",
    "TierProofError": "tierproof.impl.errors",
    "TieredOffloadingManager": "tierproof.impl.manager",
    "TwoPhase": "tierproof.impl.two_phase",
    "build_tiers": "tierproof.impl.tiers.configuration",
}


def __getattr__(name: str) -> Any:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module 'tierproof' has no attribute {name!r}")
    value = getattr(import_module(home), name)
    globals()[name] = value  # the next access does not come here
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
