"""Stand-ins for what vLLM's offloading files import and do not use on a CPU machine.

They are there so that `import` and annotations work. Whatever is used in earnest is an error that
says so; nothing that decides anything in the offloading files is replaced.
"""

from __future__ import annotations

import logging
from types import ModuleType, SimpleNamespace
from typing import Any

ENGINE_ONLY = frozenset(
    {
        "vllm._custom_ops",
        "vllm.config",
        "vllm.logger",
        "vllm.model_executor",
        "vllm.platforms",
        "vllm.triton_utils",
        "vllm.distributed.device_communicators.cuda_wrapper",
        "vllm.distributed.device_communicators.shm_broadcast",
        "vllm.distributed.kv_events",
        "vllm.distributed.kv_transfer.kv_connector.factory",
        "vllm.distributed.parallel_state",
        "vllm.utils.torch_utils",
        "vllm.v1.attention",
        "vllm.v1.core.kv_cache_manager",
        "vllm.v1.core.kv_cache_utils",
        "vllm.v1.core.sched.output",
        "vllm.v1.core.single_type_kv_cache_manager",
        "vllm.v1.kv_cache_interface",
        "vllm.v1.kv_cache_spec_registry",
        "vllm.v1.outputs",
        "vllm.v1.request",
    }
)
"""Modules of vLLM that need a GPU, a running engine, or packages of a gigabyte."""
FOREIGN = ("torch",)
"""Packages that are stood in for while a release is loaded, unless they are loaded already."""


class Missing(type):
    """The type of names that are only there to be imported and to stand in annotations."""

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return missing(f"{cls.__module__}.{cls.__name__}", name)

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        """Refuse to be used."""
        raise RuntimeError(
            f"{cls.__module__}.{cls.__name__} is only a stand-in here: it needs vLLM's engine or a "
            "GPU, and is not part of what can be checked on this machine"
        )


def missing(module: str, name: str) -> Missing:
    """A name of a module that is not there."""
    return Missing(name, (), {"__module__": module})


class StandIn(ModuleType):
    """A module each of whose names is `Missing`, but for those that are given."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.__path__: list[str] = []  # so that its submodules are looked for as well
        for what, value in _GIVEN.get(name, {}).items():
            setattr(self, what, value)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        value = missing(self.__name__, name)
        setattr(self, name, value)
        return value


class Quiet(logging.LoggerAdapter[logging.Logger]):
    """A logger with vLLM's additional methods."""

    def debug_once(self, message: str, *args: Any, **kwargs: Any) -> None:
        """Log at level debug."""
        self.debug(message, *args)

    def info_once(self, message: str, *args: Any, **kwargs: Any) -> None:
        """Log at level info."""
        self.info(message, *args)

    def warning_once(self, message: str, *args: Any, **kwargs: Any) -> None:
        """Log at level warning."""
        self.warning(message, *args)


def init_logger(name: str) -> Quiet:
    """The logger of a module of vLLM: Python's own, under the module's name."""
    return Quiet(logging.getLogger(name), {})


class Platform:
    """A machine without accelerators."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("is_"):
            return lambda *args: name == "is_cpu"
        raise AttributeError(name)


class GroupManager:
    """What the engine has for a KV-cache group."""

    supports_fine_grained_hash_lookup = False


class Registry:
    """Which of them belongs to a group."""

    @staticmethod
    def get_manager_class(spec: object) -> type[GroupManager]:
        """One for all: the offloading files only ask it the above."""
        return GroupManager


_GIVEN: dict[str, dict[str, Any]] = {
    "vllm.logger": {"init_logger": init_logger},
    "vllm.platforms": {"current_platform": Platform()},
    "vllm.triton_utils": {"HAS_TRITON": False},
    "vllm.utils.torch_utils": {"PIN_MEMORY": False},
    "vllm.v1.kv_cache_interface": {
        # of events, which are off
        "get_kv_cache_spec_kind": lambda spec: SimpleNamespace(value="unknown"),
        "get_kv_cache_spec_sliding_window": lambda spec: None,
    },
    "vllm.v1.kv_cache_spec_registry": {"KVCacheSpecRegistry": Registry},
}
