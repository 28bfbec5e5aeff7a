"""Insert, adjust and stable, one at a time."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, final

import numpy as np
import pyarrow as pa

from anabranch.model.batch import EventBatch
from anabranch.model.clock import INTEGERS, Clock
from anabranch.model.payload import rows_of
from anabranch.model.time import BEGINNING, FOREVER, Time

Values: TypeAlias = Mapping[str, Any] | tuple[Any, ...]
"""A payload: by column name, or in the order of the columns."""


@final
@dataclass(frozen=True, slots=True)
class Insert:
    """A new event: `payload` holds during `[start, end)`."""

    payload: Values
    start: int
    end: int = FOREVER

    def __str__(self) -> str:
        return show_element(self)


@final
@dataclass(frozen=True, slots=True)
class Adjust:
    """An announced event gets another end; `new_end == start` withdraws it."""

    payload: Values
    start: int
    end: int
    new_end: int

    def __str__(self) -> str:
        return show_element(self)


@final
@dataclass(frozen=True, slots=True)
class Stable:
    """Nothing before `time` changes any more."""

    time: int

    def __str__(self) -> str:
        return show_element(self)


Element: TypeAlias = Insert | Adjust | Stable


def show_element(element: Element, *, clock: Clock = INTEGERS) -> str:
    """An element for people.

    >>> show_element(Adjust({"itemID": 1}, 5, 9, 7))
    'adjust {"itemID": 1} from [5, 9) to [5, 7)'
    """

    def at(time: int) -> str:
        return clock.format(time)

    if isinstance(element, Stable):
        return f"stable {at(element.time)}"
    values = element.payload
    payload = json.dumps(
        dict(values) if isinstance(values, Mapping) else list(values),
        default=str,
        ensure_ascii=False,
    )
    lifetime = f"[{at(element.start)}, {at(element.end)})"
    if isinstance(element, Insert):
        return f"insert {payload} {lifetime}"
    return f"adjust {payload} from {lifetime} to [{at(element.start)}, {at(element.new_end)})"


def element_json(element: Element, *, clock: Clock = INTEGERS) -> dict[str, Any]:
    """An element as in a stream file, as far as JSON can say its payload.

    >>> element_json(Insert({"itemID": 1}, 5))
    {'insert': {'itemID': 1}, 'start': 5, 'end': 'forever'}
    """
    if isinstance(element, Stable):
        return {"stable": time_json(element.time, clock=clock)}
    kind = "insert" if isinstance(element, Insert) else "adjust"
    times = {"start": element.start, "end": element.end}
    if isinstance(element, Adjust):
        times["new_end"] = element.new_end
    shown_times = {name: time_json(time, clock=clock) for name, time in times.items()}
    return {kind: element.payload, **shown_times}


def time_json(time: int, *, clock: Clock = INTEGERS) -> int | str:
    """An instant as in a stream file: a number, an ISO timestamp, or `forever`."""
    return clock.format(time) if clock.timestamps or time == FOREVER else time


def elements_of(batch: EventBatch) -> list[Element]:
    """The rows of a batch as elements, then its stable point if it makes a promise."""
    payloads: Sequence[dict[str, Any]] = batch.payload.to_pylist() or [{}] * len(batch)
    times = zip(batch.start.tolist(), batch.end.tolist(), batch.new_end.tolist())
    found: list[Element] = [
        Insert(payload, start, new_end) if end == start else Adjust(payload, start, end, new_end)
        for payload, (start, end, new_end) in zip(payloads, times)
    ]
    return found if batch.stable == BEGINNING else [*found, Stable(batch.stable)]


def batch_of(elements: Iterable[Element], schema: pa.Schema) -> EventBatch:
    """One batch out of elements; the largest stable point holds after all of its rows."""
    rows: list[Insert | Adjust] = []
    stable = int(BEGINNING)
    for element in elements:
        if isinstance(element, Stable):
            stable = max(stable, element.time)
        else:
            rows.append(element)
    start = np.array([row.start for row in rows], np.int64)
    old = [row.end if isinstance(row, Adjust) else row.start for row in rows]
    new = [row.new_end if isinstance(row, Adjust) else row.end for row in rows]
    return EventBatch(
        _payload(rows, schema),
        start,
        np.array(old, np.int64),
        np.array(new, np.int64),
        Time(stable),
    )


def _payload(rows: Sequence[Insert | Adjust], schema: pa.Schema) -> pa.RecordBatch:
    if not rows or not isinstance(rows[0].payload, Mapping):
        return rows_of([tuple(row.payload) for row in rows], schema)
    return pa.RecordBatch.from_pylist([dict(row.payload) for row in rows], schema)
