"""Loads the unmodified offloading files of one vLLM release, without its engine and without torch.

    release = load("0.33.0")                    # UsageError when not fetched
    stock = release.build(slots=8, block_bytes=64, tiers=make_tiers)
    release.base.ReqContext(req_id="r0")        # vllm.v1.kv_offload.base
    release.tier_base.SecondaryTierManager      # vllm.v1.kv_offload.tiering.base

`make_tiers(view)` gets the primary tier's memory (a memoryview, slots x row bytes) and returns
instances of the release's own `SecondaryTierManager`. `stock.manager` is the release's
`TieringOffloadingManager` over its CPU primary tier, `stock.memory` the rows.

Importing vLLM's packages normally runs long chains of `__init__` files. Here those packages are
bare: modules with the right `__path__` whose `__init__` never ran. Only the packages of `WHOLE` are
run as they are. Modules of `vllm_stand_ins.ENGINE_ONLY` are stood in for.

All releases use the same module names, so a process can hold one release only; whoever wants
several starts a process for each.
"""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType
from typing import Any, cast

import numpy as np

from .managers import UsageError
from .vllm_cache import folder_of
from .vllm_stand_ins import ENGINE_ONLY, FOREIGN, StandIn

_OFFLOADING = "vllm.distributed.kv_transfer.kv_connector.v1.offloading"
WHOLE = ("vllm.v1.kv_offload", "vllm.v1.kv_hints", _OFFLOADING)
"""Packages that are run with their own `__init__`."""
MODULES = {
    "base": "vllm.v1.kv_offload.base",
    "tier_base": "vllm.v1.kv_offload.tiering.base",
    "tiering": "vllm.v1.kv_offload.tiering.manager",
}


class Region:
    """The primary tier's memory, in place of vLLM's region that worker processes share."""

    def __init__(self, rows: np.ndarray[Any, Any]) -> None:
        self.rows = rows

    def create_kv_memoryview(self) -> memoryview:
        """The rows as the tiers see them."""
        return memoryview(cast("Any", self.rows))

    def cleanup(self) -> None:
        """Nothing is shared, so there is nothing to unlink."""


@dataclass(frozen=True)
class Stock:
    """A release's manager as it is."""

    manager: Any
    """The release's TieringOffloadingManager."""
    primary: Any
    """Its CPU primary tier."""
    tiers: Sequence[Any]
    memory: np.ndarray[Any, Any]
    """The primary tier's rows: uint8, slots x block_bytes."""


@dataclass(frozen=True, eq=False)
class Release:
    """One release, loaded."""

    version: str
    folder: Path
    base: Any
    """Its module `vllm.v1.kv_offload.base`: keys, ReqContext, LookupResult, events."""
    tier_base: Any
    """Its module `vllm.v1.kv_offload.tiering.base`: the interface of a secondary tier."""
    tiering: Any
    """Its module `vllm.v1.kv_offload.tiering.manager`."""

    def module(self, name: str) -> ModuleType:
        """Another module of the release, by its full name.

        Raises:
            ImportError: the release has none, or it needs more than is stood in for.
        """
        with _foreign_stand_ins():
            return importlib.import_module(name)

    def build(
        self,
        *,
        slots: int,
        block_bytes: int,
        tiers: Callable[[memoryview], Sequence[Any]] = lambda view: (),
        memory: np.ndarray[Any, Any] | None = None,
        policy: str = "lru",
        events: bool = True,
    ) -> Stock:
        """The release's tiering manager over its CPU primary tier.

        Args:
            slots: blocks (chunks) that the primary tier holds.
            block_bytes: bytes of a row.
            tiers: makes the secondary tiers, given the primary tier's rows.
            memory: the rows (uint8, slots x block_bytes); new ones if None.
            policy: the eviction policy by the release's name, `lru` or `arc`.
            events: whether stored and removed events are kept for `take_events`.
        """
        rows = np.zeros((slots, block_bytes), dtype=np.uint8) if memory is None else memory
        kind = self.tiering.CPUPrimaryTierOffloadingManager
        # blocks became chunks in 0.30
        count = next(n for n in ("num_chunks", "num_blocks") if n in _parameters(kind))
        primary = kind(
            mmap_region=Region(rows), cache_policy=policy, enable_events=events, **{count: slots}
        )
        made = list(tiers(primary.get_kv_memoryview()))
        manager_kind = self.tiering.TieringOffloadingManager
        also = {"enable_events": events} if "enable_events" in _parameters(manager_kind) else {}
        manager = manager_kind(primary_tier=primary, secondary_tiers=made, **also)
        return Stock(manager, primary, made, rows)


@cache
def _parameters(kind: type) -> set[str]:
    return set(inspect.signature(kind).parameters)


_loaded: dict[str, Release] = {}


def load(version: str) -> Release:
    """The release, loaded into this process.

    Raises:
        UsageError: it is not in the cache, another `vllm` is loaded in this process already, or
            its files cannot be loaded (the message names what is missing).
    """
    if version in _loaded:
        return _loaded[version]
    folder = folder_of(version)
    if "vllm" in sys.modules:
        other = next(iter(_loaded), "of its own")
        raise UsageError(
            f"this process has vLLM {other} loaded, and vLLM {version} uses the same module names; "
            "load it in a process of its own"
        )
    finder = _Finder(folder)
    sys.meta_path.insert(0, finder)
    try:
        with _foreign_stand_ins():
            modules = {short: importlib.import_module(name) for short, name in MODULES.items()}
    except Exception as error:
        sys.meta_path.remove(finder)
        for name in [n for n in sys.modules if n.partition(".")[0] == "vllm"]:
            del sys.modules[name]
        raise UsageError(
            f"the files of vLLM {version} could not be loaded: {type(error).__name__}: {error}; "
            "they need numpy, msgspec, packaging, prometheus_client, regex and typing_extensions"
        ) from error
    _loaded[version] = Release(version, folder, **modules)
    return _loaded[version]


@contextmanager
def _foreign_stand_ins() -> Iterator[None]:
    """Stand-ins for packages that only annotations need, and only while something is loaded.

    Whoever imports the real package afterwards gets it.
    """
    absent = [name for name in FOREIGN if name not in sys.modules]
    finder = _Foreign(absent)
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)
        for name in [n for n in sys.modules if n.partition(".")[0] in absent]:
            del sys.modules[name]


class _Maker(Loader):
    """Makes the module that was decided on, and runs nothing."""

    def __init__(self, make: Callable[[], ModuleType]) -> None:
        self.make = make

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return self.make()

    def exec_module(self, module: ModuleType) -> None:
        """Nothing runs."""


def _stand_in(name: str) -> ModuleSpec:
    return ModuleSpec(name, _Maker(lambda: StandIn(name)), is_package=True)


class _Foreign(MetaPathFinder):
    """Finds stand-ins for packages that are not vLLM's."""

    def __init__(self, names: Sequence[str]) -> None:
        self.names = names

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        return _stand_in(name) if name.partition(".")[0] in self.names else None


class _Finder(MetaPathFinder):
    """Finds the modules of one release: as they are, bare, or stood in for."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name.partition(".")[0] != "vllm":
            return None
        if any(name == known or name.startswith(f"{known}.") for known in ENGINE_ONLY):
            return _stand_in(name)
        spec = PathFinder.find_spec(name, [str(self.folder)] if path is None else path)
        if spec is None or spec.submodule_search_locations is None or name.startswith(WHOLE):
            return spec
        bare = ModuleSpec(name, _Maker(lambda: ModuleType(name)), is_package=True)
        bare.submodule_search_locations = list(spec.submodule_search_locations)
        return bare
