"""Instants and durations, counted in chronons."""

from __future__ import annotations

from contextlib import suppress
from datetime import datetime, timedelta, timezone
from numbers import Integral
from typing import Final, NewType

import numpy as np
import numpy.typing as npt

from anabranch.errors import QueryError
from anabranch.model.iso_text import nanoseconds_of

Time = NewType("Time", int)
"""An instant: the number of chronons since instant 0 (microseconds for timestamps)."""

Duration = NewType("Duration", int)
"""A positive number of chronons."""

TimeArray = npt.NDArray[np.int64]

FOREVER: Final = Time(2**63 - 1)
"""Later than every instant; only an end or a stable point may be FOREVER."""

BEGINNING: Final = Time(-(2**63))
"""Earlier than every instant; the stable point of a stream that has promised nothing."""

MICROSECOND: Final = Duration(1)
SECOND: Final = Duration(1_000_000)

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=timezone.utc)


def add_saturating(times: TimeArray, amount: int | TimeArray) -> TimeArray:
    """Add a non-negative amount; what would pass FOREVER stays at FOREVER.

    >>> add_saturating(np.array([1, FOREVER - 1, FOREVER]), 5).tolist() == [6, FOREVER, FOREVER]
    True
    """
    more = np.asarray(amount, dtype=np.int64)
    room = np.int64(FOREVER) - more
    if len(times) and times.max() <= room.min():
        return np.asarray(times + more)
    with np.errstate(over="ignore"):
        return np.where(times > room, np.int64(FOREVER), times + more)


def subtract_saturating(time: Time, amount: Duration) -> Time:
    """The instant `amount` before `time`, never before BEGINNING; FOREVER stays FOREVER."""
    return time if time == FOREVER else Time(max(int(time) - int(amount), BEGINNING))


def parse_time(text: object) -> Time:
    """An instant as users write it: chronons, `"forever"`, an ISO string or a datetime (UTC).

    >>> parse_time("1970-01-01 00:00:01"), parse_time(7), parse_time("forever") == FOREVER
    (1000000, 7, True)
    """
    if isinstance(text, datetime):
        moment = text if text.tzinfo else text.replace(tzinfo=timezone.utc)
        return Time((moment - _EPOCH) // timedelta(microseconds=1))
    if isinstance(text, Integral):
        return Time(int(text))
    if isinstance(text, str):
        if text.strip().lower() == "forever":
            return FOREVER
        try:
            return Time(int(text))
        except ValueError:
            pass
        with suppress(ValueError):
            return Time(nanoseconds_of(text) // 1000)
    raise QueryError(
        f"{str(text)!r} is not an instant",
        hint="write an integer, 'forever', or an ISO timestamp such as '2026-11-15 10:00:00'",
    )


def format_time(time: int, *, timestamps: bool = False) -> str:
    """An instant for people: `forever`, a number, or an ISO timestamp in UTC.

    >>> format_time(1_500_000, timestamps=True), format_time(FOREVER)
    ('1970-01-01T00:00:01.500000', 'forever')
    """
    if time == FOREVER:
        return "forever"
    if time == BEGINNING:
        return "-forever"
    if not timestamps:
        return str(time)
    try:
        return (_EPOCH + timedelta(microseconds=int(time))).replace(tzinfo=None).isoformat()
    except OverflowError:
        return str(time)
