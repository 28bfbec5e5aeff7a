"""The same 64 bits for the same value, in every process and on every machine."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from numpy.lib.stride_tricks import as_strided

from anabranch.errors import PlanError

Words: TypeAlias = npt.NDArray[np.uint64]
Positions: TypeAlias = npt.NDArray[np.int64]
Flags: TypeAlias = npt.NDArray[np.bool_]
Octets: TypeAlias = npt.NDArray[np.uint8]

_GAMMA: Final = np.uint64(0x9E3779B97F4A7C15)
_LENGTH: Final = np.uint64(0xD1342543DE82EF95)
_NESTED: Final = np.uint64(0xA24BAED4963EE407)
# The bit pattern of a NaN that no canonical float has, and no integer of less than 64 bits.
_NULL: Final = np.uint64(0x7FF5E1D39B6C2A47)
_NAN: Final = np.uint64(0x7FF8000000000000)
# Up to so many words of a text are mixed one after the other; longer texts are summed up.
_SHORT: Final = 4
_TEXTS: Final = {
    kind.id
    for kind in (pa.string(), pa.binary(), pa.large_string(), pa.large_binary(), pa.binary(1))
}
_LISTS: Final = {
    kind.id
    for kind in (
        pa.list_(pa.null()),
        pa.large_list(pa.null()),
        pa.list_(pa.null(), 1),
        pa.map_(pa.string(), pa.null()),
    )
}
COMPILE_FROM_ROWS: Final = 20_000
"""From this row count on, the compiled loop that hashes texts is worth loading."""

COMPILE_FROM_BYTES: Final = 2**19
"""So it is from so many bytes of text on."""

COMPILED_FROM_ROWS: Final = 4
"""From this row count on, the compiled loop is called once it is loaded."""

_NATIVE: Final = "anabranch.model.numbers.compiled_hashing"
_NATIVE_WORDS: Final = "anabranch.model.numbers.compiled_words"
# Keeps the first 0..8 bytes of a word.
_MASKS: Final = np.array([2 ** (8 * count) - 1 for count in range(9)], np.uint64)


def stable_hash(columns: Sequence[pa.Array], length: int, salt: int = 0) -> Words:
    """One 64-bit hash per row over all columns.

    Depends on values only: not on the process, the platform, library versions, slices, dictionary
    encoding, or what lies in the slots of nulls. Equal means "not distinct from" (NULL equals
    NULL, NaN equals NaN, -0.0 equals 0.0), also inside nested values; a map is a list of entries
    in order. Integers of all widths with one value hash alike, as do floats.

    For a single column of a type of at most 64 bits and without nulls the hash is a bijection:
    equal hashes mean equal values. For types of less than 64 bits and for floats that holds with
    nulls, too.

    >>> stable_hash([pa.array([1, None]), pa.array(["a", "a"])], 2)
    array([18131097518983696450,   195108013252148477], dtype=uint64)
    """
    return np.asarray(stable_hashes(columns, length, (salt,))[0])


def stable_hashes(columns: Sequence[pa.Array], length: int, salts: Sequence[int]) -> Words:
    """The hashes of each row with several salts, a row of the result per salt.

    Long texts are read once for all of them.
    """
    begin = _mix(np.array([salt & (2**64 - 1) for salt in salts], np.uint64))
    state = np.repeat(begin[:, None], length, axis=1)
    for column in columns:
        assert len(column) == length
        state = _absorb(state, column)
    return state


def _mix(words: Words) -> Words:
    """The finaliser of splitmix64, in place: a bijection on 64 bits."""
    shifted = words >> np.uint64(30)
    words ^= shifted
    words *= np.uint64(0xBF58476D1CE4E5B9)
    np.right_shift(words, np.uint64(27), out=shifted)
    words ^= shifted
    words *= np.uint64(0x94D049BB133111EB)
    np.right_shift(words, np.uint64(31), out=shifted)
    words ^= shifted
    return words


def _take_in(state: Words, words: Words) -> Words:
    """Mix one word per row into the state; a bijection in either of them."""
    if state.ndim == 2 and len(words) >= COMPILED_FROM_ROWS and _hashes_words():
        from anabranch.model.numbers.compiled_words import absorb_words

        return np.asarray(absorb_words(np.ascontiguousarray(state), np.ascontiguousarray(words)))
    result = state + _GAMMA
    result ^= words
    return _mix(result)


def _absorb(state: Words, column: pa.Array) -> Words:
    """Mix the values of a column, of any type, into the state of each row."""
    column = _plain(column)
    kind = column.type
    valid = _valid(column)
    words = _fixed_words(column)
    if words is not None:
        if valid is not None:
            words = np.where(valid, words, _NULL)
        return _take_in(state, words)
    if pa.types.is_null(kind):
        return _take_in(state, np.full(len(column), _NULL, np.uint64))
    if pa.types.is_struct(kind):
        result = _absorb_struct(state, column)
    elif kind.id in _TEXTS:
        result = _absorb_bytes(state, column, valid)
    elif pa.types.is_decimal(kind) or kind == pa.month_day_nano_interval():
        result = _absorb_wide(state, column)
    elif kind.id in _LISTS:
        result = _absorb_list(state, column, valid)
    else:
        raise PlanError(
            f"values of type {kind} have no identity",
            hint="cast the column to another type, or leave it out of the payload",
        )
    if valid is None:
        return result
    return np.where(valid, result, _take_in(state, np.full(len(column), _NULL, np.uint64)))


def _plain(column: pa.Array) -> pa.Array:
    """The same values without a layout of their own: no chunks, dictionaries, runs, views."""
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    if isinstance(column, pa.ExtensionArray):
        column = column.storage
    kind = column.type
    if pa.types.is_dictionary(kind):
        return _plain(column.dictionary_decode())
    if pa.types.is_run_end_encoded(kind):
        return _plain(pc.run_end_decode(column))
    if pa.types.is_string_view(kind):
        return column.cast(pa.string())
    if pa.types.is_binary_view(kind):
        return column.cast(pa.binary())
    if pa.types.is_list_view(kind) or pa.types.is_large_list_view(kind):
        return column.cast(pa.large_list(kind.value_field))
    return column


def _valid(column: pa.Array) -> Flags | None:
    """Which values are not null; None if all are."""
    if not column.null_count:
        return None
    return np.asarray(column.is_valid().to_numpy(zero_copy_only=False))


def _values(column: pa.Array, buffer: int, dtype: str, width: int = 1) -> npt.NDArray[np.generic]:
    """The numbers in a buffer of the column (little endian as in Arrow), `width` per row."""
    data = column.buffers()[buffer]
    if data is None or not len(column):
        return np.empty(0, dtype)
    first = column.offset * width
    size = np.dtype(dtype).itemsize
    return np.frombuffer(data, dtype, len(column) * width, first * size)


def _fixed_words(column: pa.Array) -> Words | None:
    """The values as one word each, or None if the type has more than 64 bits."""
    kind = column.type
    if pa.types.is_boolean(kind):
        bits = np.frombuffer(column.buffers()[1] or b"", np.uint8)
        first = column.offset
        part = bits[first // 8 : (first + len(column) + 7) // 8]
        flags = np.unpackbits(part, bitorder="little")[first % 8 : first % 8 + len(column)]
        return flags.astype(np.uint64)
    if pa.types.is_floating(kind):
        floats = _values(column, 1, f"<f{kind.bit_width // 8}").astype(np.float64)
        floats += 0.0  # -0.0 + 0.0 is 0.0
        words = floats.view(np.uint64)
        words[np.isnan(floats)] = _NAN
        return words
    if not pa.types.is_primitive(kind) and not pa.types.is_decimal(kind):
        return None
    if kind.bit_width > 64:
        return None
    sign = "u" if pa.types.is_unsigned_integer(kind) else "i"
    numbers = _values(column, 1, f"<{sign}{kind.bit_width // 8}")
    return numbers.astype(np.uint64 if sign == "u" else np.int64, copy=False).view(np.uint64)


def _absorb_wide(state: Words, column: pa.Array) -> Words:
    """Decimals and intervals of 128 or 256 bits, word by word."""
    count = column.type.bit_width // 64
    words = _values(column, 1, "<u8", count).reshape(len(column), count)
    for part in range(count):
        state = _take_in(state, words[:, part].astype(np.uint64))
    return state


def _absorb_struct(state: Words, column: pa.Array) -> Words:
    # The step keeps a struct of nulls apart from a null struct.
    state = state + _NESTED
    if not column.type.num_fields:
        return _mix(state)
    for index in range(column.type.num_fields):
        state = _absorb(state, column.field(index))
    return state


def _absorb_bytes(state: Words, column: pa.Array, valid: Flags | None) -> Words:
    """Texts of any length: eight bytes at a time, all rows at once."""
    offsets, data = _text_offsets(column), column.buffers()[-1]
    low, high = int(offsets[0]), int(offsets[-1])
    begin, length = offsets[:-1] - low, np.diff(offsets)
    if valid is not None:
        length = np.where(valid, length, 0)
    state = state + length.view(np.uint64) * _LENGTH
    if _is_compiled(len(length), high - low):
        return _compiled_texts(state, np.frombuffer(data or b"", np.uint8)[low:high], begin, length)
    every = _words_at_every_byte(data, low, high)
    result = _take_in(state, _words(every, begin, length))
    longest = int(length.max(initial=0))
    for part in range(1, min(_SHORT, (longest + 7) // 8)):
        longer = np.flatnonzero((length > 8 * part) & (length <= 8 * _SHORT))
        rows = longer if len(longer) < len(length) else slice(None)
        words = _words(every, begin[rows] + 8 * part, length[rows] - 8 * part)
        result[..., rows] = _take_in(result[..., rows], words)
    if longest > 8 * _SHORT:
        long = np.flatnonzero(length > 8 * _SHORT)
        count = (length[long] + 7) // 8
        row, position = _unroll(count)
        owner = long[row]
        words = _words(every, begin[owner] + 8 * position, length[owner] - 8 * position)
        result[..., long] = _take_in(result[..., long], _sum_up(words, position, count))
    return result


def _is_compiled(rows: int, size: int) -> bool:
    """Whether so many texts of so many bytes are worth a compiled loop."""
    if _is_loaded():
        return rows >= COMPILED_FROM_ROWS
    return rows >= COMPILE_FROM_ROWS or size >= COMPILE_FROM_BYTES


def load_compiled() -> None:
    """Load the compiled loops, however few rows there are."""
    import_module(_NATIVE)


def _is_loaded() -> bool:
    """Whether compiled loops are there; another thread may be about to load them."""
    return hasattr(sys.modules.get(_NATIVE), "absorb_texts")


def _hashes_words() -> bool:
    """Whether the compiled loop over words is there; it comes with any other loops."""
    return hasattr(sys.modules.get(_NATIVE_WORDS), "absorb_words")


def _compiled_texts(state: Words, data: Octets, begin: Positions, length: Positions) -> Words:
    """The same in one pass over the bytes."""
    from anabranch.model.numbers.compiled_hashing import absorb_texts

    words = -(-int(length.max(initial=0)) // 8)
    salts = _mix(np.arange(words, dtype=np.uint64) + _GAMMA) + _GAMMA
    state = np.ascontiguousarray(state)
    return np.asarray(absorb_texts(state, data, begin, length, salts))


def _text_offsets(column: pa.Array) -> Positions:
    kind = column.type
    if pa.types.is_fixed_size_binary(kind):
        return _even_offsets(column, kind.byte_width)
    return _offsets(column)


def _even_offsets(column: pa.Array, width: int) -> Positions:
    return np.arange(column.offset, column.offset + len(column) + 1, dtype=np.int64) * width


def _offsets(column: pa.Array) -> Positions:
    """Where each text or list begins, and where the last ends."""
    kind = column.type
    long = pa.types.is_large_string(kind) or pa.types.is_large_binary(kind)
    dtype = "<i8" if long or pa.types.is_large_list(kind) else "<i4"
    buffer = column.buffers()[1]
    if buffer is None or not len(column):
        return np.zeros(1, np.int64)
    start = column.offset * np.dtype(dtype).itemsize
    return np.frombuffer(buffer, dtype, len(column) + 1, start).astype(np.int64)


def _words_at_every_byte(buffer: pa.Buffer | None, low: int, high: int) -> Words:
    """The eight bytes that follow each byte from `low` to `high`, as overlapping words."""
    part = np.frombuffer(buffer or b"", np.uint8)[low:high]
    # A copy with zeros behind it: the last text may end less than eight bytes before the end.
    room = np.zeros(len(part) + 8, np.uint8)
    room[: len(part)] = part
    return as_strided(room[:8].view("<u8"), (len(part) + 1,), (1,))


def _words(every: Words, positions: Positions, left: Positions) -> Words:
    """The next eight bytes at each position, of which `left` belong to the text."""
    words = every[positions].astype(np.uint64, copy=False)
    words &= _MASKS[np.minimum(left, 8)]
    return words


def _absorb_list(state: Words, column: pa.Array, valid: Flags | None) -> Words:
    """Lists of anything: the values are hashed on their own, then summed up by position."""
    kind = column.type
    if pa.types.is_fixed_size_list(kind):
        offsets = _even_offsets(column, kind.list_size)
    else:
        offsets = _offsets(column)
    begin, length = offsets[:-1], np.diff(offsets)
    if valid is not None:
        length = np.where(valid, length, 0)
    low, high = int(offsets[0]), int(offsets[-1])
    columns = [column.keys, column.items] if pa.types.is_map(kind) else [column.values]
    hashes = stable_hash([part[low:high] for part in columns], high - low)
    row, position = _unroll(length)
    words = hashes[begin[row] - low + position]
    state = state + length.astype(np.uint64) * _LENGTH + _NESTED
    return _take_in(state, _sum_up(words, position, length))


def _unroll(
    count: Positions,
) -> tuple[Positions, Positions]:
    """For every part of every row: the row, and the position in it."""
    row = np.repeat(np.arange(len(count), dtype=np.int64), count)
    first = np.cumsum(count) - count
    return row, np.arange(len(row), dtype=np.int64) - first[row]


def _sum_up(words: Words, position: Positions, count: Positions) -> Words:
    """One word per row out of `count` words each: the sum of their mixes with their position."""
    mixed = _take_in(_mix(position.astype(np.uint64) + _GAMMA), words)
    total = np.zeros(len(mixed) + 1, np.uint64)
    np.cumsum(mixed, out=total[1:])
    last = np.cumsum(count)
    summed: Words = total[last] - total[last - count]
    return summed
