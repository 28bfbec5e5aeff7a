"""The rows where a mask is true: bit by bit, and by numpy."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.kernels.columns import compiled, grouped
from anabranch.kernels.columns.grouped import true_rows

MASKS = st.lists(st.sampled_from([True, False, None]), max_size=90)


@given(MASKS, st.integers(0, 20), st.booleans())
def test_true_rows_are_found_in_any_part_of_a_mask(
    mask: list[bool | None], cut: int, is_loaded: bool
) -> None:
    whole = pa.array(mask, pa.bool_())
    part = whole.slice(cut, max(len(mask) - 2 * cut, 0))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(grouped, "is_compiled", lambda rows: is_loaded and rows > 0)
        found = true_rows(part)
    assert found.dtype == np.int64
    assert found.tolist() == [row for row, value in enumerate(part.to_pylist()) if value]


@given(MASKS)
def test_bits_behind_a_mask_are_not_read(mask: list[bool | None]) -> None:
    bits = np.packbits([bool(value) for value in mask] + [True] * 8, bitorder="little")
    count = sum(bool(value) for value in mask)
    found = compiled.set_bits(bits, 0, len(mask), count)
    assert found.tolist() == [row for row, value in enumerate(mask) if value]
