"""Keys as 64-bit ids."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from anabranch.kernels.columns.grouped import Ids
from anabranch.model.numbers.hashing import stable_hash, stable_hashes


def key_ids(columns: Sequence[pa.Array], length: int) -> Ids:
    """The id of each row's key; equal keys have equal ids, in every process and version."""
    if not columns:
        return np.zeros(length, np.uint64)
    return stable_hash(columns, length)


def key_checks(columns: Sequence[pa.Array], length: int) -> Ids:
    """A second, independent hash, to notice two keys under one id."""
    return stable_hash(columns, length, salt=1)


def ids_and_checks(columns: Sequence[pa.Array], length: int) -> tuple[Ids, Ids]:
    """Both hashes; long texts are read once."""
    if not columns:
        return key_ids(columns, length), key_checks(columns, length)
    both = stable_hashes(columns, length, (0, 1))
    return both[0], both[1]


def needs_check(types: Sequence[pa.DataType]) -> bool:
    """Whether two different keys could share an id: not for one column of at most 64 bits."""
    if not types:
        return False
    return len(types) > 1 or not _fits_in_64_bits(types[0])


def _fits_in_64_bits(kind: pa.DataType) -> bool:
    fixed = pa.types.is_primitive(kind) or pa.types.is_boolean(kind)
    return bool(fixed and kind.bit_width <= 64)
