"""The history of an answer as a picture: a column over time, one line per group."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from anabranch.display.text_table import numeric
from anabranch.errors import PlanError
from anabranch.model.clock import Clock
from anabranch.model.history import History
from anabranch.model.time import BEGINNING, FOREVER, TimeArray

MOST_LINES: Final = 20
"""Groups that are drawn; more could not be told apart."""


def plot_events(
    history: History, clock: Clock, y: str | None, by: str | Sequence[str] | None
) -> Any:
    """Draw what holds when; see `Answers.plot`."""
    try:
        from matplotlib import pyplot
    except ModuleNotFoundError:
        raise PlanError(
            "matplotlib is not installed",
            where="plot()",
            hint="install it: pip install matplotlib; run.to_pandas() has what would be drawn",
        ) from None
    schema = history.payload.schema
    value = _drawn(schema, y)
    keys = _told_apart(schema, value, by)
    low, high = _clipped(history)
    start, end = clock.column(low), clock.column(high)
    groups = _labels(history.payload, keys)
    heights = history.payload.column(value).cast(pa.float64()).to_numpy(zero_copy_only=False)
    _, axes = pyplot.subplots(figsize=(8, 4))
    names = list(dict.fromkeys(groups.tolist()))
    for name in names[:MOST_LINES]:
        rows = np.flatnonzero(groups == name)
        # A line per event, with a gap behind it: where nothing holds, nothing is drawn.
        times = np.array(
            [each for row in rows for each in (start[row].as_py(), end[row].as_py(), None)], object
        )
        values = np.array([each for row in rows for each in (heights[row],) * 2 + (np.nan,)])
        times[2::3] = times[1::3]
        axes.plot(times, values, label=name or value)
    axes.set_xlabel("time")
    axes.set_ylabel(value)
    if len(names) > MOST_LINES:
        axes.set_title(f"the first {MOST_LINES} of {len(names)} groups")
    if keys:
        axes.legend(title=", ".join(keys), fontsize="small")
    axes.figure.autofmt_xdate()
    return axes


def _drawn(schema: pa.Schema, y: str | None) -> str:
    numbers: list[str] = [schema.names[index] for index in sorted(numeric(schema))]
    if y is None and numbers:
        return numbers[-1]
    if y is None or y not in numbers:
        what = "no column has numbers" if y is None else f"'{y}' is not a column with numbers"
        raise PlanError(what, where="plot()", hint=f"columns are: {', '.join(schema.names)}")
    return y


def _told_apart(schema: pa.Schema, value: str, by: str | Sequence[str] | None) -> list[str]:
    if by is not None:
        keys = [by] if isinstance(by, str) else list(by)
        for name in keys:
            if name not in schema.names:
                raise PlanError(
                    f"there is no column '{name}'",
                    where="plot(by=...)",
                    hint=f"columns are: {', '.join(schema.names)}",
                )
        return keys
    return [
        field.name
        for field in schema
        if field.name != value
        and not pa.types.is_floating(field.type)
        and not pa.types.is_temporal(field.type)
    ]


def _clipped(history: History) -> tuple[TimeArray, TimeArray]:
    """Lifetimes with ends that can be drawn: forever is the last finite instant there is."""
    start, end = history.start, history.end
    finite = [*start[start > BEGINNING].tolist(), *end[end < FOREVER].tolist()]
    least, most = min(finite, default=0), max(finite, default=1)
    return np.maximum(start, least), np.where(end == FOREVER, max(most, least + 1), end)


def _labels(payload: pa.RecordBatch, keys: Sequence[str]) -> Any:
    if not keys:
        return np.full(payload.num_rows, "", object)
    parts = [pc.fill_null(payload.column(name).cast(pa.string()), "null") for name in keys]
    joined = parts[0] if len(parts) == 1 else pc.binary_join_element_wise(*parts, ", ")
    return np.array(joined.to_pylist(), object)
