"""Names of blocks: one to one, bound to everything that changes the bytes, safe as file names."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tierproof.impl.errors import ConfigError
from tierproof.impl.keys import (
    DIGEST_BYTES,
    BlockKey,
    Namespace,
    encode_key,
    fingerprint,
    key_digester,
    namespace_digest,
)

BASE = Namespace(model="m", revision="r", dtype="bfloat16", block_size=16, layout="NHD")

block_keys = st.builds(
    BlockKey,
    block_hash=st.binary(max_size=6),
    group=st.integers(0, 300),
    namespace=st.binary(max_size=6),
)
names = st.text(max_size=4)
namespaces = st.builds(
    Namespace,
    model=names,
    revision=names,
    dtype=names,
    block_size=st.integers(1, 3),
    layout=names,
    tensor_parallel=st.integers(1, 3),
    pipeline_parallel=st.integers(1, 3),
    context_parallel=st.integers(1, 3),
    shard=st.integers(0, 2),
    group=names,
    runner=names,
    salt=st.none() | names,
    adapter=st.none() | names,
    extra=st.dictionaries(names, names, max_size=2).map(lambda pairs: tuple(pairs.items())),
)


def meaning(space: Namespace) -> tuple[object, ...]:
    fields = msgspec.structs.asdict(space)
    fields |= {"salt": space.salt or None, "adapter": space.adapter or None}
    fields["extra"] = tuple(sorted(space.extra))
    return tuple(fields.values())


@given(block_keys | st.binary(max_size=8) | st.text(max_size=8), block_keys | st.binary(max_size=8))
def test_two_keys_have_one_encoding_exactly_when_they_are_equal(one: Any, other: Any) -> None:
    assert (encode_key(one) == encode_key(other)) == (one == other)


@given(namespaces, namespaces)
def test_two_namespaces_have_one_digest_exactly_when_they_mean_the_same(
    one: Namespace, other: Namespace
) -> None:
    same = meaning(one) == meaning(other)
    assert (one.encode() == other.encode()) == same
    assert (one.digest() == other.digest()) == same


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (BlockKey(b"ab", 0, b"c"), BlockKey(b"a", 0, b"bc")),
        (BlockKey(b"a"), BlockKey(b"a", 1)),
        (BlockKey(b"a"), b"a"),
        (b"a", "a"),
        (b"ba", "a"),
        ("é", "e\u0301"),
        ("\ud800\udc00", "\U00010000"),
    ],
)
def test_keys_that_look_alike_differ(one: Any, other: Any) -> None:
    assert encode_key(one) != encode_key(other)


@pytest.mark.parametrize(
    ("key", "word"),
    [
        (7, "int"),
        (("a", "b"), "tuple"),
        (None, "NoneType"),
        (BlockKey("text"), "str"),  # type: ignore[arg-type]
        (BlockKey(b"", 0, "text"), "str"),  # type: ignore[arg-type]
        (BlockKey(b"", -1), "-1"),
        (BlockKey(b"", 1 << 32), str(1 << 32)),
        (BlockKey(b"", "1"), "'1'"),  # type: ignore[arg-type]
    ],
)
def test_a_key_that_cannot_be_named_is_refused_by_its_type(key: Any, word: str) -> None:
    with pytest.raises(ConfigError, match=word):
        encode_key(key)


def test_a_block_key_is_a_value() -> None:
    key = BlockKey(b"hash", 2, b"space")
    assert key == BlockKey(b"hash", 2, b"space")
    assert len({key, copy.copy(key), pickle.loads(pickle.dumps(key))}) == 1
    with pytest.raises(AttributeError):
        key.group = 3  # type: ignore[misc]


OTHER_VALUES = {
    "model": "n",
    "revision": "s",
    "dtype": "float16",
    "block_size": 32,
    "layout": "HND",
    "tensor_parallel": 2,
    "pipeline_parallel": 2,
    "context_parallel": 2,
    "shard": 1,
    "group": "sliding-1024",
    "runner": "v2",
    "salt": "tenant",
    "adapter": "tenant",
    "extra": (("quantization", "awq"),),
}


def test_every_field_of_a_namespace_is_tried_below() -> None:
    assert set(OTHER_VALUES) == set(Namespace.__struct_fields__)


@pytest.mark.parametrize("field", OTHER_VALUES)
def test_b52_each_field_that_changes_the_bytes_changes_the_namespace(field: str) -> None:
    changed = msgspec.structs.replace(BASE, **{field: OTHER_VALUES[field]})
    assert changed.digest() != BASE.digest()


def test_b52_two_processes_of_one_run_compute_one_fingerprint() -> None:
    code = (
        "from tierproof.impl.keys import Namespace, fingerprint\n"
        "space = Namespace(model='m', revision='r', dtype='bfloat16', block_size=16,"
        " layout='NHD')\n"
        "print(fingerprint(space.digest(), 4096).hex())"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == fingerprint(BASE.digest(), 4096).hex()


def test_b53_an_empty_salt_is_no_salt_and_others_are_kept_apart() -> None:
    assert BASE.for_user(salt="").digest() == BASE.for_user(salt=None).digest() == BASE.digest()
    assert BASE.for_user(adapter="").digest() == BASE.digest()
    users = [
        BASE,
        BASE.for_user(salt="one"),
        BASE.for_user(salt="two"),
        BASE.for_user(adapter="one"),
        BASE.for_user(salt="one", adapter="two"),
        BASE.for_user(salt="two", adapter="one"),
        BASE.for_user(salt="onetwo"),
        msgspec.structs.replace(BASE, extra=(("salt", "one"),)),
    ]
    assert len({user.digest() for user in users}) == len(users)


def test_d2_an_adapter_named_like_a_salt_does_not_collide() -> None:
    assert BASE.for_user(adapter="x").digest() != BASE.for_user(salt="x").digest()
    shifted = BASE.for_user(salt="a", adapter="bc"), BASE.for_user(salt="ab", adapter="c")
    assert shifted[0].digest() != shifted[1].digest()


def test_the_order_of_extra_pairs_does_not_matter() -> None:
    pairs = (("a", "1"), ("b", "2"))
    one = msgspec.structs.replace(BASE, extra=pairs)
    assert one.digest() == msgspec.structs.replace(BASE, extra=pairs[::-1]).digest()


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("model", b"m"),
        ("salt", b"secret"),
        ("block_size", 0),
        ("block_size", True),
        ("tensor_parallel", "2"),
        ("shard", -1),
        ("extra", {"a": "1"}),
        ("extra", (("a", 1),)),
        ("extra", (("a", "1"), ("a", "2"))),
    ],
)
def test_a_wrong_field_is_named_and_its_value_is_not_shown(field: str, value: Any) -> None:
    with pytest.raises(ConfigError, match=field) as caught:
        msgspec.structs.replace(BASE, **{field: value})
    assert "secret" not in str(caught.value)


@given(st.text() | st.binary())
def test_a_name_on_disk_is_a_digest_of_fixed_length_whatever_the_key_holds(key: Any) -> None:
    digest = key_digester(namespace_digest("space"))(key)
    assert len(digest) == DIGEST_BYTES
    assert set(digest.hex()) <= set("0123456789abcdef")


def test_names_differ_by_namespace_by_size_and_by_kind_of_namespace() -> None:
    spaces = [namespace_digest(space) for space in ("a", b"a", "", b"", BASE)]
    prints = [fingerprint(space, size) for space in spaces for size in (4096, 8192)]
    assert len({key_digester(print_)(b"key") for print_ in prints}) == len(prints)


def test_a_namespace_is_text_bytes_or_a_namespace() -> None:
    with pytest.raises(ConfigError, match="int"):
        namespace_digest(7)  # type: ignore[arg-type]
