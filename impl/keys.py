"""What a block is called: keys, namespaces, their one-to-one encoding and their digests.

Two blocks whose bytes can differ must never meet under one name. A key says which block
(`block_hash`, `group`); a namespace says everything else that changes the bytes (model, revision,
dtype, block size, layout, parallel layout) or keeps users apart (tenant salt, adapter). Both are
encoded as tagged, length-prefixed fields, so that ('ab', 'c') and ('a', 'bc') differ and an adapter
named like a salt cannot pass for one.

Names on disk are BLAKE2b digests of 256 bits: they have a fixed length whatever a salt contains,
and nobody can construct two keys with one name. (xxh3 guards payloads against accidents; it does
not resist an attacker, and it names nothing.)
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from hashlib import blake2b
from typing import Any

import msgspec

from .errors import ConfigError

DIGEST_BYTES = 32
"""Length of every digest in this module."""

_MAX_GROUP = (1 << 32) - 1


class BlockKey(msgspec.Struct, frozen=True, cache_hash=True):
    """A block's content address: equal keys always stand for equal bytes.

    Types are checked where the key is encoded (`encode_key`), not here: a scheduler makes
    thousands of keys a step.
    """

    block_hash: bytes
    """The engine's hash of the block's tokens and of all tokens before them."""
    group: int = 0
    """Index of the KV-cache group, 0 to 2**32 - 1."""
    namespace: bytes = b""
    """`Namespace.digest()` of all that is not in the hash: model, layout, tenant, adapter."""


class Namespace(msgspec.Struct, frozen=True, kw_only=True):
    """Everything outside the tokens that changes a block's bytes or keeps users apart.

    Two processes that state the same fields get the same digest. State nothing that differs
    between processes which hold the same bytes (a port, a pid, the rank of a replica).

    Raises:
        ConfigError: a field has the wrong type or is out of range; the message names it.
    """

    model: str
    """Name of the model."""
    revision: str = ""
    """Commit or tag of its weights."""
    dtype: str
    """Of the cached values, e.g. "bfloat16" or "fp8_e4m3"."""
    block_size: int
    """Tokens in an offloaded block."""
    layout: str
    """Order of the dimensions within a block, e.g. "NHD" or "HND", layers included."""
    tensor_parallel: int = 1
    """Number of tensor-parallel shards."""
    pipeline_parallel: int = 1
    """Number of pipeline stages."""
    context_parallel: int = 1
    """Number of context-parallel shards."""
    shard: int = 0
    """Which shard's bytes these are; 0 where every process holds the same bytes."""
    group: str = ""
    """What the KV-cache group is, e.g. "full", "sliding-1024", "mamba"."""
    runner: str = ""
    """Engine, runner or attention backend, where it changes the bytes."""
    salt: str | None = None
    """The tenant's secret or name; None and "" are the same tenant: nobody."""
    adapter: str | None = None
    """Name of the LoRA adapter; None and "" mean none."""
    extra: tuple[tuple[str, str], ...] = ()
    """Any further (name, value) pairs; their order does not matter."""

    def __post_init__(self) -> None:
        for name in ("model", "revision", "dtype", "layout", "group", "runner"):
            if not isinstance(getattr(self, name), str):
                raise _wrong(name, "a string", getattr(self, name))
        for name in ("salt", "adapter"):
            if not isinstance(getattr(self, name), str | None):
                raise _wrong(name, "a string or None", getattr(self, name))
        for name, least in _COUNTS.items():
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or value < least:
                raise _wrong(name, f"a whole number of at least {least}", value)
        pairs = self.extra
        if not isinstance(pairs, tuple) or not all(map(_is_pair, pairs)):
            raise _wrong("extra", "a tuple of (name, value) pairs of strings", pairs)
        if len({name for name, _ in pairs}) != len(pairs):
            raise ConfigError("Namespace: extra names one thing twice; give each name one value")

    def encode(self) -> bytes:
        """Every field as tagged, length-prefixed bytes; different namespaces encode differently."""
        parts = [b"tierproof.namespace/1"]
        for name in self.__struct_fields__:
            value = getattr(self, name)
            if name == "extra":
                for extra_name, extra_value in sorted(value):
                    parts += (b"x", _text(extra_name), _text(extra_value))
            elif value is None or (name in ("salt", "adapter") and not value):
                continue
            else:
                parts += (b"f", _text(name), _text(str(value)))
        return b"".join(parts)

    def digest(self) -> bytes:
        """The namespace as 32 bytes, for `BlockKey.namespace` and for a tier's configuration."""
        return _blake(self.encode(), b"namespace").digest()

    def for_user(self, *, salt: str | None = None, adapter: str | None = None) -> Namespace:
        """The same model and layout for one tenant and adapter."""
        return msgspec.structs.replace(self, salt=salt, adapter=adapter)


_COUNTS = {
    "block_size": 1,
    "tensor_parallel": 1,
    "pipeline_parallel": 1,
    "context_parallel": 1,
    "shard": 0,
}


def encode_key(key: Hashable) -> bytes:
    """`key` as bytes, one to one: unequal keys have unequal encodings.

    Raises:
        ConfigError: the key is no `BlockKey`, `bytes` or `str`, or a field of it has a wrong type.
    """
    if isinstance(key, BlockKey):
        for name in ("block_hash", "namespace"):
            if not isinstance(getattr(key, name), bytes):
                raise ConfigError(
                    f"BlockKey.{name} must be bytes, not {type(getattr(key, name)).__name__}"
                )
        if not isinstance(key.group, int) or not 0 <= key.group <= _MAX_GROUP:
            raise ConfigError(f"BlockKey.group must be 0 to {_MAX_GROUP}, not {key.group!r}")
        return b"".join(
            (b"k", _sized(key.block_hash), key.group.to_bytes(4, "little"), key.namespace)
        )
    if isinstance(key, bytes):
        return b"b" + key
    if isinstance(key, str):
        return b"s" + key.encode("utf-8", "surrogatepass")
    raise ConfigError(
        f"a persistent tier cannot name a block by a {type(key).__name__}; "
        "use tierproof.BlockKey, bytes or str"
    )


def namespace_digest(namespace: str | bytes | Namespace) -> bytes:
    """32 bytes for a namespace given as text, as bytes (a digest, say) or field by field.

    Raises:
        ConfigError: it is none of these.
    """
    if isinstance(namespace, Namespace):
        return namespace.digest()
    if isinstance(namespace, bytes | str):
        return _blake(encode_key(namespace), b"name").digest()
    raise _wrong("namespace", "a string, bytes or a tierproof Namespace", namespace)


def fingerprint(namespace: bytes, block_bytes: int) -> bytes:
    """A namespace's digest bound to the size of its blocks: other sizes never share a name."""
    return _blake(namespace + block_bytes.to_bytes(8, "little"), b"fingerprint").digest()


def key_digester(space: bytes) -> Callable[[Hashable], bytes]:
    """A function from a key to the 32-byte name of its block within `space`.

    The function raises ConfigError for a key that `encode_key` refuses.
    """
    start = _blake(_sized(space), b"key")

    def digest(key: Hashable) -> bytes:
        state = start.copy()
        state.update(encode_key(key))
        return state.digest()

    return digest


def _blake(data: bytes, use: bytes) -> blake2b:
    # `person` keeps the uses apart: a digest made for one never equals one made for another.
    return blake2b(data, digest_size=DIGEST_BYTES, person=b"tp1." + use)


def _sized(value: bytes) -> bytes:
    return len(value).to_bytes(8, "little") + value


def _text(value: str) -> bytes:
    return _sized(value.encode("utf-8", "surrogatepass"))


def _is_pair(pair: Any) -> bool:
    return (
        isinstance(pair, tuple) and len(pair) == 2 and all(isinstance(part, str) for part in pair)
    )


def _wrong(name: str, wanted: str, value: object) -> ConfigError:
    # The value itself may be a salt, so the message tells its type only.
    return ConfigError(f"Namespace: {name} must be {wanted}, not {type(value).__name__}")
