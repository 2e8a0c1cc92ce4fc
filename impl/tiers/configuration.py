"""Secondary tiers from a TOML file or a dictionary.

    namespace = { model = "m", dtype = "bfloat16", block_size = 16, layout = "NHD" }   # or a text

    [[tiers]]
    kind = "slab"
    root = "/mnt/nvme/tierproof"
    capacity = "200GiB"

    [[tiers]]
    kind = "redis"
    url = "redis://cache.internal:6379/0"
    password_env = "CACHE_PASSWORD"

Secrets are named by the environment variable that holds them; a secret in the file is refused.
"""

from __future__ import annotations

import difflib
import os
import re
import tomllib
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, Literal

import msgspec

from ..errors import ConfigError
from ..keys import Namespace
from .base import Tier

KINDS = ("memory", "files", "slab", "s3", "redis")
"""The names of the tiers, in configuration and on the command line; `file` is `files`."""

_UNITS = {"": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([KMGT]iB)?")
_PLACE = re.compile(r" - at `\$\.?(\w*).*`$")
_SECRETS = {
    "password": "password_env",
    "secret": "secret_key_env",
    "secret_key": "secret_key_env",
    "secret_access_key": "secret_key_env",
    "access_key": "access_key_env",
    "access_key_id": "access_key_env",
}
_MEANT = {
    "kind": f"one of {', '.join(KINDS)}",
    "name": "a text, unique among the tiers",
    "root": "a folder's path, in full and without ~",
    "capacity": 'bytes as a whole number of at least 1, or a text such as "200GiB" (in KiB, MiB, '
    "GiB or TiB)",
    "capacity_blocks": "a whole number of at least 1",
    "max_age_seconds": "a number of seconds above 0",
    "ttl_seconds": "a number of seconds above 0",
    "threads": "a whole number of at least 1",
    "io_deadline": 'a number of seconds above 0, or "none"',
    "queued_stores": "a whole number of at least 1",
    "direct": 'true, false or "auto"',
    "shared": "true or false",
    "timeout": "a number of seconds above 0",
    "absent_seconds": "a number of seconds of at least 0",
    "present_seconds": "a number of seconds of at least 0",
    "url": "redis://HOST:PORT/DB, rediss://HOST:PORT/DB or unix:///PATH, without a password",
    "username": "a text",
    "password_env": "the name of an environment variable",
    "bucket": "a bucket's name",
    "endpoint": "http://HOST:PORT or https://HOST",
    "region": "a text",
    "prefix": "letters, digits, '.', '_', '-' and '/'",
    "access_key_env": "the name of an environment variable",
    "secret_key_env": "the name of an environment variable",
}
_UNSHOWN = frozenset({"url", "endpoint", "username"})
_WHOLE = ("namespace", "tiers")
_VARIABLE = re.compile(r"[A-Z_][A-Z0-9_]*")
"""What the name of a variable usually looks like. Anything else may be the secret itself."""


class _Settings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    kind: str
    name: str | msgspec.UnsetType = msgspec.UNSET


class _Queued(_Settings, frozen=True, kw_only=True):
    threads: int | msgspec.UnsetType = msgspec.UNSET
    io_deadline: float | Literal["none"] | msgspec.UnsetType = msgspec.UNSET
    queued_stores: int | msgspec.UnsetType = msgspec.UNSET


class _Memory(_Settings, frozen=True, kw_only=True):
    capacity_blocks: int | msgspec.UnsetType = msgspec.UNSET


class _Files(_Queued, frozen=True, kw_only=True):
    root: str
    capacity: int | str | msgspec.UnsetType = msgspec.UNSET
    direct: bool | Literal["auto"] | msgspec.UnsetType = msgspec.UNSET
    shared: bool | msgspec.UnsetType = msgspec.UNSET
    absent_seconds: float | msgspec.UnsetType = msgspec.UNSET


class _Slab(_Queued, frozen=True, kw_only=True):
    root: str
    capacity: int | str
    direct: bool | Literal["auto"] | msgspec.UnsetType = msgspec.UNSET


class _Redis(_Queued, frozen=True, kw_only=True):
    url: str
    ttl_seconds: float | msgspec.UnsetType = msgspec.UNSET
    timeout: float | msgspec.UnsetType = msgspec.UNSET
    absent_seconds: float | msgspec.UnsetType = msgspec.UNSET
    present_seconds: float | msgspec.UnsetType = msgspec.UNSET
    username: str | msgspec.UnsetType = msgspec.UNSET
    password_env: str | msgspec.UnsetType = msgspec.UNSET


class _S3(_Queued, frozen=True, kw_only=True):
    bucket: str
    endpoint: str | msgspec.UnsetType = msgspec.UNSET
    region: str | msgspec.UnsetType = msgspec.UNSET
    prefix: str | msgspec.UnsetType = msgspec.UNSET
    capacity_blocks: int | msgspec.UnsetType = msgspec.UNSET
    max_age_seconds: float | msgspec.UnsetType = msgspec.UNSET
    timeout: float | msgspec.UnsetType = msgspec.UNSET
    absent_seconds: float | msgspec.UnsetType = msgspec.UNSET
    present_seconds: float | msgspec.UnsetType = msgspec.UNSET
    access_key_env: str | msgspec.UnsetType = msgspec.UNSET
    secret_key_env: str | msgspec.UnsetType = msgspec.UNSET


_SETTINGS: dict[str, type[_Settings]] = {
    "memory": _Memory,
    "files": _Files,
    "slab": _Slab,
    "s3": _S3,
    "redis": _Redis,
}


def read_config(path: str | os.PathLike[str]) -> dict[str, Any]:
    """A TOML file as a dictionary.

    Raises:
        ConfigError: there is no such file, or it is no TOML.
    """
    try:
        return tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(
            f"the configuration {os.fspath(path)!r} cannot be read: {error.strerror}"
        ) from error
    except ValueError as error:  # TOML or UTF-8; the message tells a line, not a value
        raise ConfigError(f"the configuration {os.fspath(path)!r} is no TOML: {error}") from error


def build_tiers(
    config: Mapping[str, Any] | str | os.PathLike[str],
    *,
    namespace: str | bytes | Namespace | None = None,
    environment: Mapping[str, str] = os.environ,
) -> list[Tier]:
    """The tiers that a configuration describes, in its order.

    Args:
        config: a dictionary with `tiers` (a list of tables) and, if wanted, `namespace`; or the
            path of a TOML file with the same.
        namespace: what changes the bytes or keeps users apart; instead of the configuration's.
        environment: where secrets are looked up.

    Raises:
        ConfigError: a setting is missing, unknown or not allowed; the message names it and what it
            may be, and repeats no secret.
    """
    if isinstance(config, str | os.PathLike):
        config = read_config(config)
    if not isinstance(config, Mapping):
        raise ConfigError(
            "a configuration must be the path of a TOML file, or a dictionary with tiers, not "
            f"{type(config).__name__}"
        )
    for setting in config:
        if setting not in _WHOLE:  # a misspelt namespace would let users meet
            raise ConfigError(
                f"unknown setting {setting!r}; {_hint(setting, _WHOLE)}a configuration has "
                "namespace and tiers ([[tiers]], one for each tier)"
            )
    tables = config.get("tiers")
    if not isinstance(tables, list) or not tables:
        raise ConfigError("tiers must be a list of tables ([[tiers]]), one for each tier")
    space = _namespace(config.get("namespace", "")) if namespace is None else namespace
    tiers = [_tier(f"tiers[{n}]", table, space, environment) for n, table in enumerate(tables)]
    names = [tier.name for tier in tiers]
    for number, name in enumerate(names):
        if name in names[:number]:
            raise ConfigError(f"tiers[{number}]: name must be {_MEANT['name']}; {name!r} is taken")
    return tiers


def size_in_bytes(value: int | str) -> int:
    """A size given as a number of bytes or as a text such as "1.5GiB".

    Raises:
        ConfigError: it is neither, or less than 1.
    """
    size = value
    if isinstance(size, str):
        parsed = _SIZE.fullmatch(size.strip())
        size = 0 if parsed is None else int(float(parsed[1]) * _UNITS[parsed[2] or ""])
    if size < 1:
        raise ConfigError(f"capacity must be {_MEANT['capacity']}, not {value!r}")
    return size


def _tier(
    place: str, table: Any, namespace: str | bytes | Namespace, environment: Mapping[str, str]
) -> Tier:
    if not isinstance(table, Mapping):
        raise ConfigError(f"{place} must be a table of settings, not {type(table).__name__}")
    kind = "files" if table.get("kind") == "file" else table.get("kind")
    if kind not in KINDS:
        said = "is missing" if kind is None else f"must not be {kind!r}"
        raise ConfigError(f"{place}: kind {said}; it must be {_MEANT['kind']}")
    place = f"{place} ({kind})"
    settings = _checked(place, kind, {**table, "kind": kind})
    given = {
        field: value
        for field in settings.__struct_fields__
        if field != "kind" and (value := getattr(settings, field)) is not msgspec.UNSET
    }
    if given.get("io_deadline") == "none":
        given["io_deadline"] = None
    if given.get("direct") == "auto":
        given["direct"] = None
    try:
        root = given.get("root", "/")
        if not root.strip() or root.startswith("~"):  # else it would be a folder below this one
            raise ConfigError(f"root must be {_MEANT['root']}, not {root!r}")
        if "capacity" in given:
            given["capacity_bytes"] = size_in_bytes(given.pop("capacity"))
        for field in [field for field in given if field.endswith("_env")]:
            given[field.removesuffix("_env")] = _secret(field, given.pop(field), environment)
        if kind == "memory":
            from .memory import MemoryTier

            return MemoryTier(**given)
        given["namespace"] = namespace
        return _built(kind, given)
    except ConfigError as error:
        raise ConfigError(f"{place}: {error}") from error


def _built(kind: str, given: dict[str, Any]) -> Tier:
    if kind == "files":
        from .files import FileTier

        return FileTier(**given)
    if kind == "slab":
        from .slab import SlabTier

        return SlabTier(**given)
    if kind == "redis":
        from .redis import RedisTier

        return RedisTier(**given)
    from .object_store import ObjectStoreTier

    return ObjectStoreTier(**given)


def _checked(place: str, kind: str, table: Mapping[str, Any]) -> _Settings:
    settings = _SETTINGS[kind]
    fields = [field for field in settings.__struct_fields__ if field != "kind"]
    for name in table:
        if name != "kind" and name not in fields:
            if _SECRETS.get(name) in fields:
                raise ConfigError(
                    f"{place}: {name} must not be in the configuration; put it into an environment "
                    f"variable and name that by {_SECRETS[name]}"
                )
            raise ConfigError(
                f"{place}: unknown setting {name!r}; {_hint(name, fields)}a tier of kind {kind} "
                f"has {', '.join(fields)}"
            )
    try:
        return msgspec.convert(table, settings)
    except msgspec.ValidationError as error:
        missing = re.search(r"missing required field `(\w+)`", str(error))
        if missing:
            raise ConfigError(
                f"{place}: {missing[1]} is missing; it must be {_MEANT[missing[1]]}"
            ) from None
        found = _PLACE.search(str(error))
        field = found[1] if found else ""
        shown = "" if field in _UNSHOWN else f", not {table.get(field)!r}"
        raise ConfigError(f"{place}: {field} must be {_MEANT.get(field, error)}{shown}") from None


def _hint(name: object, fields: Collection[str]) -> str:
    close = difflib.get_close_matches(str(name), fields, n=1)
    return f"did you mean {close[0]}? " if close else ""


def _secret(field: str, variable: str, environment: Mapping[str, str]) -> str:
    value = environment.get(variable)
    if value:
        return value
    if _VARIABLE.fullmatch(variable):
        raise ConfigError(f"{field} names the environment variable {variable!r}, which is not set")
    raise ConfigError(
        f"{field} must be {_MEANT[field]}, not the secret itself; what stands there is the name of "
        "none that is set, and is not repeated here"
    )


def _namespace(given: Any) -> str | Namespace:
    if isinstance(given, str):
        return given
    if not isinstance(given, Mapping):
        raise ConfigError("namespace must be a text or a table of the fields of a Namespace")
    fields = Namespace.__struct_fields__
    for name in given:
        if name not in fields:
            raise ConfigError(
                f"namespace: unknown field {name!r}; a namespace has {', '.join(fields)}"
            )
    extra = given.get("extra", {})
    if not isinstance(extra, Mapping):
        raise ConfigError("namespace: extra must be a table of texts")
    try:
        return Namespace(**{**given, "extra": tuple(extra.items())})
    except TypeError as error:  # a field is missing; Namespace checks the others itself
        raise ConfigError(f"namespace: {error}") from None
