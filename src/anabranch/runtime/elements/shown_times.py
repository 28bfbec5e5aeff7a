"""Times as users see them: timestamps, where those of the stream are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from anabranch.model.clock import Clock
from anabranch.model.time import FOREVER, Time

Metrics: TypeAlias = dict[str, Any]
"""What users get from `metrics()`: names and plain values."""

_TIMES: Final = ("start", "end", "new_end")
_KEYS: Final = ("stable", "reached")
"""What instants are called in metrics, of a batch, a source or a copy."""


class ShownTime(int):
    """A number of chronons that is printed as the timestamp that it stands for.

    It is computed with, compared and written to JSON as the number.

    >>> clock = Clock(1_000_000, timestamps=True)
    >>> ShownTime(60, clock), ShownTime(60, clock) == 60, f"{ShownTime(60, clock)}"
    (1970-01-01T00:01:00, True, '1970-01-01T00:01:00')
    """

    _clock: Clock

    def __new__(cls, time: int, clock: Clock) -> ShownTime:
        """The time by a clock."""
        found = super().__new__(cls, time)
        found._clock = clock
        return found

    def __repr__(self) -> str:
        return self._clock.format(int(self))

    __str__ = __repr__

    def __reduce__(self) -> tuple[Any, ...]:
        return ShownTime, (int(self), self._clock)


def shown_time(time: Time, clock: Clock) -> Time:
    """The time itself, which prints as a timestamp where the clock has those."""
    return Time(ShownTime(time, clock)) if clock.timestamps else time


def shown_metrics(metrics: Metrics, clock: Clock) -> Metrics:
    """Metrics whose instants print as timestamps; nothing else changes."""
    return _shown(metrics, clock) if clock.timestamps else metrics


def _shown(metrics: Mapping[str, Any], clock: Clock) -> Metrics:
    found: Metrics = {}
    for name, value in metrics.items():
        if isinstance(value, Mapping) and name != "stages":
            found[name] = _shown(value, clock)
        else:
            is_time = name in _KEYS and isinstance(value, int)
            found[name] = ShownTime(value, clock) if is_time else value
    return found


def shown_elements(elements: pa.Table, clock: Clock) -> pa.Table:
    """A table of elements with timestamps; NULL is forever, also for a stable point.

    The number of a revision, which has the place of a time in the row that announces it, goes into
    a column `revision` of its own.
    """
    if not clock.timestamps:
        return elements
    announces = pc.equal(elements.column("kind"), "revise")
    if pc.any(announces).as_py():
        number = elements.column("new_end")
        none = pa.scalar(None, pa.int64())
        elements = elements.append_column("revision", pc.if_else(announces, number, none))
        kept = pc.if_else(announces, none, number)
        elements = elements.set_column(elements.schema.get_field_index("new_end"), "new_end", kept)
    for name in _TIMES:
        column = elements.column(name)
        times = pc.fill_null(column, int(FOREVER)).to_numpy().astype(np.int64)
        shown = clock.column(times, times == FOREVER)
        elements = elements.set_column(elements.schema.get_field_index(name), name, shown)
    return elements
