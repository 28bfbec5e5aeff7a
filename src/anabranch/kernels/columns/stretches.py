"""Stretches of values as wide as a band: what is near enough to meet shares one."""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa

from anabranch.algebra.analysis.join_band import Band
from anabranch.kernels.columns.grouped import Ints, positions_of

_COUNTED_STRETCHES: Final = 2.0**40
"""Values more stretches away from 0 than this share one stretch: floats cannot count them."""

_UNCOUNTED: Final = np.int64(2**62)


def near_stretches(band: Band, payload: pa.RecordBatch, side: int) -> tuple[Ints, Ints]:
    """Rows and the stretches of values that they are in: right rows in one, left ones in several.

    A stretch is as wide as the band, so a left row looks into two. What is too large to be
    counted in stretches, or no number, is in a stretch of its own.
    """
    width = band.below + band.above or 1.0
    given = (band.left, band.right)[side].evaluate(payload, payload.num_rows)
    values = given.cast(pa.float64()).fill_null(np.nan).to_numpy(zero_copy_only=False)
    with np.errstate(over="ignore"):
        values = values / width
    rows = np.flatnonzero(given.is_valid().to_numpy(zero_copy_only=False))
    values = values[rows]
    far = ~(np.abs(values) <= _COUNTED_STRETCHES)
    if side == 1:
        return rows, np.where(far, _UNCOUNTED, np.floor(np.where(far, 0, values)).astype(np.int64))
    near = np.where(~(np.abs(values) <= 2 * _COUNTED_STRETCHES), 0, values)
    # Right values lie in [left - above, left + below]; a little more, as all of them are rounded.
    first = np.floor(near - band.above / width - 1e-3).astype(np.int64)
    last = np.floor(near + band.below / width + 1e-3).astype(np.int64)
    stretch, owner = positions_of(
        first, np.where(np.abs(values) <= 2 * _COUNTED_STRETCHES, last + 1, first)
    )
    distant = np.flatnonzero(~(np.abs(values) <= _COUNTED_STRETCHES / 2))
    owner = np.concatenate([owner, distant])
    return rows[owner], np.concatenate([stretch, np.full(len(distant), _UNCOUNTED)])
