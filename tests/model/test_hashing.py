"""Hashes are equal for equal values and for no others, however the values are laid out."""

from __future__ import annotations

import math
import subprocess
import sys
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.errors import PlanError
from anabranch.model.numbers import hashing
from anabranch.model.numbers.hashing import stable_hash, stable_hashes
from anabranch.testing.arrow_values import arrow_types, arrow_values


@st.composite
def columns(draw: st.DrawFn) -> pa.Array:
    kind = draw(arrow_types())
    return pa.array(draw(st.lists(arrow_values(kind), max_size=12)), kind)


def identity(value: Any) -> Any:
    """What a value is equal by."""
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else value + 0.0
    if isinstance(value, dict):
        return tuple((name, identity(part)) for name, part in value.items())
    if isinstance(value, list | tuple):
        return tuple(identity(part) for part in value)
    return value


def hashes(*arrays: pa.Array, salt: int = 0) -> list[int]:
    return [int(word) for word in stable_hash(arrays, len(arrays[0]), salt)]


@given(columns())
def test_values_have_the_same_hash_exactly_when_they_are_the_same(column: pa.Array) -> None:
    keys = [identity(value) for value in column.to_pylist()]
    words = hashes(column)
    for key, word in zip(keys, words, strict=True):
        assert [other == key for other in keys] == [other == word for other in words]


@given(columns(), st.data())
def test_a_slice_hashes_like_the_whole(column: pa.Array, data: st.DataObject) -> None:
    first = data.draw(st.integers(0, len(column)))
    last = data.draw(st.integers(first, len(column)))
    assert hashes(column[first:last]) == hashes(column)[first:last]
    rebuilt = pa.array(column[first:last].to_pylist(), column.type)
    assert hashes(column[first:last]) == hashes(rebuilt)


@given(st.lists(columns(), min_size=2, max_size=3))
def test_rows_of_several_columns_hash_by_all_of_them(arrays: list[pa.Array]) -> None:
    length = min(len(array) for array in arrays)
    arrays = [array[:length] for array in arrays]
    keys = [identity(list(row)) for row in zip(*(a.to_pylist() for a in arrays), strict=True)]
    words = hashes(*arrays)
    for key, word in zip(keys, words, strict=True):
        assert [other == key for other in keys] == [other == word for other in words]


@given(columns(), st.integers(-(2**70), 2**70))
def test_a_salt_gives_other_hashes(column: pa.Array, salt: int) -> None:
    if salt % 2**64:
        assert set(hashes(column, salt=salt)).isdisjoint(hashes(column))


def test_hashes_never_change() -> None:
    """These numbers are in files of users: a change of the function would lose their state."""
    samples: list[pa.Array] = [
        pa.array([0, 1, -1]),
        pa.array([1.5, math.nan, -0.0]),
        pa.array(["", "item-1", "a text that is clearly longer than four words"]),
        pa.array([None, Decimal("1.25"), Decimal("-1.25")], pa.decimal128(10, 2)),
        pa.array([[1, 2], [], None]),
        pa.array([{"a": 1, "b": None}, {"a": 0, "b": "x"}, None]),
        pa.array([True, False, None]),
    ]
    assert [hashes(sample) for sample in samples] == GOLDEN


def test_another_process_computes_the_same() -> None:
    code = (
        "import pyarrow as pa; from anabranch.model.numbers.hashing import stable_hash;"
        "print(stable_hash([pa.array([1, None]), pa.array(['x', 'yy'])], 2).tolist())"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == str(hashes(pa.array([1, None]), pa.array(["x", "yy"])))


@pytest.mark.parametrize(
    "kind", [pa.int8(), pa.uint8(), pa.int16(), pa.uint16(), pa.bool_()], ids=str
)
def test_small_types_are_mapped_one_to_one_with_null(kind: pa.DataType) -> None:
    if kind == pa.bool_():
        column = pa.array([True, False, None])
    else:
        dtype = kind.to_pandas_dtype()
        limits = np.iinfo(dtype)
        numbers = np.arange(limits.min, limits.max + 1).astype(dtype)
        column = pa.concat_arrays([pa.array(numbers), pa.nulls(1, kind)])
    assert len(set(hashes(column))) == len(column)


def test_words_of_64_bits_are_mapped_one_to_one() -> None:
    """The mixing is inverted step by step, so no two numbers can have one hash."""
    numbers = np.random.default_rng(7).integers(-(2**63), 2**63 - 1, 1000)
    words = stable_hash([pa.array(numbers)], len(numbers))
    seed = int(stable_hash([], 1)[0])
    back = [(_unmix(int(word)) ^ ((seed + 0x9E3779B97F4A7C15) % 2**64)) for word in words]
    assert back == [int(number) % 2**64 for number in numbers]


def test_integers_of_all_widths_hash_alike() -> None:
    for kind in (pa.int8(), pa.int16(), pa.int32(), pa.uint8(), pa.uint64()):
        assert hashes(pa.array([1, 100], kind)) == hashes(pa.array([1, 100], pa.int64()))
    assert hashes(pa.array([-1], pa.int8())) == hashes(pa.array([-1], pa.int64()))
    assert hashes(pa.array([0.5], pa.float32())) == hashes(pa.array([0.5], pa.float64()))


def test_layouts_do_not_matter() -> None:
    words = pa.array(["b", None, "a", "b"])
    assert hashes(words.dictionary_encode()) == hashes(words)
    assert hashes(words.cast(pa.large_string())) == hashes(words)
    assert hashes(words.cast(pa.string_view())) == hashes(words)
    assert hashes(pa.chunked_array([words[:1], words[1:]])) == hashes(words)
    lists = pa.array([[1], None, [1, 2], []])
    assert hashes(lists.cast(pa.large_list(pa.int64()))) == hashes(lists)
    assert hashes(pa.array([[1, 2], None], pa.list_(pa.int64(), 2))) == hashes(
        pa.array([[1, 2], None])
    )


def test_what_lies_below_a_null_does_not_matter() -> None:
    mask = np.array([False, True])
    clean = pa.array([7, None])
    assert hashes(pa.array(np.array([7, 99]), mask=mask)) == hashes(clean)
    validity = clean.buffers()[0]
    text = pa.array(["a", "junk"])
    dirty = pa.Array.from_buffers(pa.string(), 2, [validity, *text.buffers()[1:]])
    assert hashes(dirty) == hashes(pa.array(["a", None]))
    lists = pa.array([[1], [2, 3]])
    dirty = pa.Array.from_buffers(
        lists.type, 2, [validity, lists.buffers()[1]], children=[lists.values]
    )
    assert hashes(dirty) == hashes(pa.array([[1], None]))


def test_nulls_at_every_depth_differ() -> None:
    kind = pa.struct([("s", pa.struct([("v", pa.int64())]))])
    column = pa.array([None, {"s": None}, {"s": {"v": None}}], kind)
    assert len(set(hashes(column))) == 3
    column = pa.array([None, [], [None], [None, None]], pa.list_(pa.int64()))
    assert len(set(hashes(column))) == 4


def test_no_columns_are_one_value() -> None:
    assert len(set(stable_hash([], 5).tolist())) == 1
    assert len(stable_hash([], 0)) == 0
    assert stable_hash([pa.array([], pa.string()), pa.array([], pa.bool_())], 0).dtype == np.uint64


def test_all_nulls_and_null_type_hash() -> None:
    assert len(set(hashes(pa.nulls(3)))) == 1
    assert hashes(pa.nulls(1)) == hashes(pa.nulls(1, pa.int64()))


def test_bits_are_spread() -> None:
    words = stable_hash([pa.array(np.arange(100_000))], 100_000)
    shards = np.bincount((words % np.uint64(8)).astype(np.int64))
    assert shards.min() > 12_000
    share = np.unpackbits(words.view(np.uint8)).mean()
    assert 0.49 < share < 0.51


def test_a_type_without_identity_is_refused() -> None:
    union = pa.UnionArray.from_sparse(pa.array([0], pa.int8()), [pa.array([1])])
    with pytest.raises(PlanError, match="have no identity"):
        stable_hash([union], 1)


def _unmix(word: int) -> int:
    def unshift(value: int, bits: int) -> int:
        result = value
        for _ in range(64 // bits + 1):
            result = value ^ (result >> bits)
        return result

    word = unshift(word, 31)
    word = word * pow(0x94D049BB133111EB, -1, 2**64) % 2**64
    word = unshift(word, 27)
    word = word * pow(0xBF58476D1CE4E5B9, -1, 2**64) % 2**64
    return unshift(word, 30)


GOLDEN = [
    [16294208416658607535, 16490336266968443936, 15999695513772384452],
    [9832619553069098951, 9730546864675883714, 16294208416658607535],
    [16294208416658607535, 2847340863487289716, 7970283694014972550],
    [8318489446235391470, 1008702415772496288, 9622960059278932261],
    [6678061096111080015, 8033628859552847100, 8318489446235391470],
    [1709118904338251728, 9517760788806323074, 8318489446235391470],
    [16490336266968443936, 16294208416658607535, 8318489446235391470],
]


@given(st.lists(st.none() | st.text(max_size=60), min_size=1), st.integers(0, 3))
def test_compiled_loops_over_texts_give_the_same(texts: list[str | None], first: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        columns = [pa.array(texts, kind)[first:] for kind in (pa.string(), pa.large_string())]
        length = len(columns[0])
        patch.setattr(hashing, "_is_compiled", lambda rows, size: False)
        expected = stable_hashes(columns, length, (0, 1))
        patch.setattr(hashing, "_is_compiled", lambda rows, size: True)
        assert stable_hashes(columns, length, (0, 1)).tolist() == expected.tolist()
        assert stable_hash(columns, length, 1).tolist() == expected[1].tolist()


@given(st.lists(st.none() | st.integers(-(2**63), 2**63 - 1), min_size=1))
def test_compiled_loops_over_numbers_give_the_same(numbers: list[int | None]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        floats = [None if number is None else float(number) for number in numbers]
        columns = [pa.array(numbers, pa.int64()), pa.array(floats, pa.float64())]
        patch.setattr(hashing, "_is_loaded", lambda: False)
        expected = stable_hashes(columns, len(numbers), (0, 1))
        patch.setattr(hashing, "_is_loaded", lambda: True)
        patch.setattr(hashing, "COMPILED_FROM_ROWS", 0)
        assert stable_hashes(columns, len(numbers), (0, 1)).tolist() == expected.tolist()
