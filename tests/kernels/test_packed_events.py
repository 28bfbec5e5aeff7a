"""Packed moves are the moves, and the engine's column names have one home."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

import anabranch
from anabranch.kernels.contract.column_names import CHECK, COPY, ID
from anabranch.kernels.contract.packed_events import pack_events, packed_schema, unpack_events
from anabranch.model.batch import EventBatch
from anabranch.model.time import BEGINNING, FOREVER, Time

_SCHEMA = pa.schema([("user", pa.string()), ("__odd", pa.int64())])
_TIME = st.integers(int(BEGINNING), int(FOREVER))
_ROWS = st.lists(
    st.tuples(_TIME, _TIME, _TIME, st.none() | st.text(max_size=3), st.none() | st.integers(0, 9)),
    max_size=5,
)


def batch_of(rows: list[tuple[int, int, int, str | None, int | None]], stable: int) -> EventBatch:
    start, end, new_end = (np.array([row[n] for row in rows], np.int64) for n in range(3))
    columns = [pa.array([row[n] for row in rows], kind) for n, kind in zip((3, 4), _SCHEMA.types)]
    payload = pa.RecordBatch.from_arrays(columns, schema=_SCHEMA)
    return EventBatch(payload, start, end, new_end, Time(stable))


@given(_ROWS, _TIME, st.sampled_from([(), (ID,), (ID, CHECK)]), st.sampled_from([(), (COPY,)]))
def test_packed_moves_come_out_as_they_went_in(
    rows: list[tuple[int, int, int, str | None, int | None]],
    stable: int,
    hashed: tuple[str, ...],
    counted: tuple[str, ...],
) -> None:
    batch = batch_of(rows, stable)
    packed = pack_events(
        batch,
        hashed={name: np.arange(len(rows), dtype=np.uint64) for name in hashed},
        counted={name: np.arange(len(rows), dtype=np.int64) for name in counted},
    )
    assert packed.schema.equals(packed_schema(_SCHEMA, hashed=hashed, counted=counted))
    again = unpack_events(packed, _SCHEMA, batch.stable)
    assert again.payload.equals(batch.payload)
    assert again.stable == batch.stable
    for name in ("start", "end", "new_end"):
        np.testing.assert_array_equal(getattr(again, name), getattr(batch, name))


def test_columns_of_kernels_are_named_in_one_file() -> None:
    root = Path(anabranch.__file__).parent / "kernels"
    named = {
        path.relative_to(root).as_posix()
        for path in root.rglob("*.py")
        if re.search(r"= \"__[a-z_.]+\"$", path.read_text(), re.MULTILINE)
    }
    assert named == {"contract/column_names.py"}
