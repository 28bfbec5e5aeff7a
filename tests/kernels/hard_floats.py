"""Floats that are hard to add up, and streams of them."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from anabranch.model.batch import EventBatch
from anabranch.model.logical import LogicalStream
from anabranch.testing import batchings, streams
from tests.kernels.plans import SCHEMA

FLOAT_SUMS = ("sx", "ax", "vs", "sp", "sdx", "ad")
ALL_SUMS = (*FLOAT_SUMS, "s", "a", "vp", "ss", "sd")
HARD = [0.1, 0.2, 0.3, 0.01, 1e16, 1.0, 1e308, 1e300, 1e-300, 5e-324, 2.0**-1074 * 3, 2.0**60, 1e5]
"""What a float sum gets wrong: different magnitudes, bits below each other, ends of the range."""

floats = st.one_of(
    st.sampled_from([*HARD, *(-value for value in HARD), -0.0, 0.0]),
    st.integers(-9_999, 9_999).map(lambda cents: cents / 100),
    st.floats(allow_nan=False),
)


@st.composite
def hard_streams(draw: st.DrawFn) -> list[EventBatch]:
    """Legal streams whose floats are hard to add: every drawn float stands for another one."""
    table = draw(st.lists(floats, min_size=1, max_size=9))
    batches = draw(streams(SCHEMA, max_size=14, odd_floats=False).flatmap(batchings))

    def harder(batch: EventBatch) -> EventBatch:
        values = batch.payload.column("x").to_pylist()
        other = [None if value is None else table[int(value * 4) % len(table)] for value in values]
        return batch.with_payload(
            batch.payload.set_column(2, SCHEMA.field(2), pa.array(other, pa.float64()))
        )

    return [harder(batch) for batch in batches]


def exact_steps(stream: LogicalStream) -> dict[str, Any]:
    """A stream in a form that is equal only if all floats are, to the last bit."""
    return {repr(payload): steps for payload, steps in stream.steps.items()}
