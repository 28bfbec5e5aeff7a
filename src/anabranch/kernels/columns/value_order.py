"""The order of values of any type: as codes, or as sorted parts that are merged."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from anabranch.kernels.columns.extremes import Codec
from anabranch.kernels.columns.families import STATISTICS
from anabranch.kernels.columns.grouped import Ids, Ints, Mask, is_first, merge_order


def codes_of(values: pa.Array) -> Ints:
    """Whole numbers are their own codes, other values are ranked among themselves."""
    if values.type == pa.int64():
        return np.asarray(values.to_numpy(zero_copy_only=False))
    return Codec.of(values.type, False, [values]).encode(values)


def merge_values(ids: Sequence[Ids | Ints], values: pa.Array) -> tuple[Ints, Mask]:
    """Positions that sort parts, each sorted by id and value, and which begin another value.

    `values` are those of all parts, one behind the other. Rows equal in both keep their order.
    """
    every = np.concatenate(ids)
    cuts = np.cumsum([0, *map(len, ids)])
    loops = STATISTICS.loops(len(every)) if _is_text(values.type) else None
    if loops is not None:
        offsets, data = bytes_of(values)
        found: tuple[Ints, Mask] = loops.merge_texts(
            every.view(np.uint64), offsets.astype(np.int64), data, cuts
        )
        return found
    codes = codes_of(values)
    order = merge_order(list(zip(ids, np.split(codes, cuts[1:-1]), strict=True)))
    return order, is_first(every[order], codes[order])


def _is_text(kind: pa.DataType) -> bool:
    types = pa.types
    tests = (types.is_string, types.is_large_string, types.is_binary, types.is_large_binary)
    return any(test(kind) for test in tests)


def has_short_offsets(kind: pa.DataType) -> bool:
    """Whether values are texts or bytes with offsets of 32 bits."""
    return bool(pa.types.is_string(kind) or pa.types.is_binary(kind))


def bytes_of(values: pa.Array) -> tuple[np.ndarray, np.ndarray]:
    """Where each text begins and ends, and the bytes of all of them."""
    wide = not has_short_offsets(values.type)
    _, offsets, data = values.buffers()
    found = np.frombuffer(offsets or bytes(8), np.int64 if wide else np.int32)
    return found[values.offset :][: len(values) + 1], np.frombuffer(data or b"", np.uint8)
