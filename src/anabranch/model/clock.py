"""What one chronon of a stream is: durations and instants are read and shown through it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from numbers import Integral
from typing import Any, ClassVar, Final, final

import numpy as np
import pyarrow as pa

from anabranch.errors import QueryError
from anabranch.model.identity import Identity
from anabranch.model.time import (
    BEGINNING,
    FOREVER,
    Duration,
    Time,
    TimeArray,
    format_time,
    parse_time,
)

_UNITS: Final = {
    "microsecond": 1,
    "us": 1,
    "millisecond": 1_000,
    "ms": 1_000,
    "second": 1_000_000,
    "sec": 1_000_000,
    "s": 1_000_000,
    "minute": 60_000_000,
    "min": 60_000_000,
    "m": 60_000_000,
    "hour": 3_600_000_000,
    "hr": 3_600_000_000,
    "h": 3_600_000_000,
    "day": 86_400_000_000,
    "d": 86_400_000_000,
    "week": 604_800_000_000,
}
_WORDS: Final = ("day", "hour", "minute", "second", "millisecond", "microsecond")
_SHORT: Final = ("d", "h", "m", "s", "ms", "us")
_NAMES: Final = "microseconds, milliseconds, seconds, minutes, hours, days, weeks"
_DURATION: Final = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([a-zA-Z]*)\s*")
_INSTANT: Final = pa.timestamp("us", tz="UTC")


@final
@dataclass(frozen=True, slots=True)
class Clock:
    """How a stream counts time.

    Attributes:
        chronon: The microseconds of one chronon; None where nobody has said so.
        timestamps: Whether instants are counted from 1970 on and shown as timestamps.
    """

    identity: ClassVar[Identity] = Identity("Clock", ("chronon", "timestamps"))

    chronon: int | None = None
    timestamps: bool = False

    def duration(self, span: object) -> Duration:
        """How many chronons a duration is: `"10 minutes"`, a timedelta, or their number.

        >>> Clock(1_000_000).duration("10 minutes"), Clock().duration(5)
        (600, 5)

        Raises:
            QueryError: It is none, or is negative; it is not a whole number of chronons; or it
                cannot be told how many it is: it has a unit and the chronon is not known, or it
                has none and instants are timestamps.
        """
        count = self._counted(span)
        if count < 0:
            raise QueryError(
                f"a duration cannot be negative: {span}", hint="use a positive duration"
            )
        return Duration(min(count, FOREVER))

    def distance(self, span: object) -> int:
        """The same where the duration may be negative: `"-5 minutes"`."""
        if isinstance(span, str) and span.strip().startswith("-"):
            return -self.duration(span.strip().removeprefix("-"))
        return max(-FOREVER, min(self._counted(span), FOREVER))

    def instant(self, when: str | int | datetime, *, exact: bool = False) -> Time:
        """An instant as users write it: a number of chronons, `"forever"`, a timestamp (UTC).

        A timestamp means the chronon that it lies in; with `exact` it must be the first of its
        microseconds.

        >>> Clock(1_000_000, timestamps=True).instant("1970-01-01 00:01:00.5")
        60

        Raises:
            QueryError: It is none, or it is a timestamp and the stream has whole numbers.
        """
        found = parse_time(when)
        if not BEGINNING <= found <= FOREVER:
            raise QueryError(
                f"{when} is not an instant", hint="an instant is a whole number of 64 bits"
            )
        if _is_number(when) or found in (FOREVER, BEGINNING):
            return found
        if not self.timestamps:
            raise QueryError(
                f"'{when}' is a timestamp, and the times of this stream are whole numbers",
                hint="write the number of the instant",
            )
        step = self.chronon or 1
        if exact and found % step:
            raise QueryError(
                f"'{when}' is not the beginning of a chronon", hint=self._chronon_hint()
            )
        return Time(found // step)

    def format(self, time: int) -> str:
        """An instant for people: `forever`, a number, or an ISO timestamp in UTC.

        >>> Clock(1_000_000, timestamps=True).format(60), Clock().format(60)
        ('1970-01-01T00:01:00', '60')
        """
        if not self.timestamps or time in (FOREVER, BEGINNING):
            return format_time(time)
        return format_time(int(time) * (self.chronon or 1), timestamps=True)

    def format_duration(self, duration: int) -> str:
        """A duration for people: `10m` where the length of a chronon is known, else the number.

        >>> Clock(1_000_000).format_duration(600), Clock().format_duration(600)
        ('10m', '600')
        """
        if duration == FOREVER:
            return "forever"
        if self.chronon is None:
            return str(duration)
        count, name = _in_units(duration * self.chronon)
        return f"{count}{_SHORT[_WORDS.index(name)]}"

    def format_rate(self, rate: float) -> str:
        """A number of rows per chronon for people: per second, where that is known.

        >>> Clock(1_000_000).format_rate(10.0), Clock().format_rate(0.25)
        ('10/s', '0.25/chronon')
        """
        if self.chronon is None:
            return f"{rate:.4g}/chronon"
        return f"{rate * _UNITS['second'] / self.chronon:.4g}/s"

    @property
    def label(self) -> str:
        """How long one chronon is, in words: `1 second`; nothing where that is not known."""
        if self.chronon is None:
            return ""
        count, name = _in_units(self.chronon)
        return f"{count} {name}{'s' if count != 1 else ''}"

    @property
    def is_usual(self) -> bool:
        """Whether it counts microseconds of timestamps, or numbers of which nothing is known."""
        return self in (INTEGERS, MICROSECONDS)

    @property
    def type(self) -> pa.DataType:
        """The type of columns with instants."""
        return _INSTANT if self.timestamps else pa.int64()

    def column(self, times: TimeArray, missing: TimeArray | None = None) -> pa.Array:
        """Instants as a column that users see; NULL where `missing` says so."""
        return pa.array(self.microseconds(times), pa.int64(), mask=missing).cast(self.type)

    def microseconds(self, times: TimeArray) -> TimeArray:
        """Instants in microseconds where they are timestamps; other numbers stay as they are.

        What microseconds cannot count lies before all time, or is forever.
        """
        step = self.chronon or 1
        if not self.timestamps or step == 1:
            return times
        least, most = -(-int(BEGINNING) // step), int(FOREVER) // step
        with np.errstate(over="ignore"):
            found = times * np.int64(step)
        found = np.where(times > most, np.int64(FOREVER), found)
        return np.where(times < least, np.int64(BEGINNING), found)

    def _counted(self, span: object) -> int:
        try:
            number, has_unit = read_span(span)
        except QueryError as problem:
            raise QueryError(problem.what, hint=self._hint()) from None
        if number == FOREVER and not has_unit:
            return int(FOREVER)
        return self._whole(number, span) if has_unit else self._bare(number, span)

    def _bare(self, number: Fraction, span: object) -> int:
        """A number without a unit: so many chronons."""
        if self.timestamps and number != 0:
            raise QueryError(f"'{span}' has no unit of time", hint=self._hint())
        if number.denominator != 1:
            raise QueryError(f"'{span}' is not a whole number of chronons", hint=self._hint())
        return int(number)

    def _whole(self, microseconds: Fraction, span: object) -> int:
        """A number of microseconds: of how many chronons."""
        if self.chronon is None:
            if microseconds == 0:
                return 0
            raise QueryError(
                f"'{span}' has a unit, and the length of a chronon is not declared",
                hint="the times of this stream are whole numbers: write a number without a unit, "
                "or declare CHRONON 1 SECOND (in Python chronon='1 second')",
            )
        count = microseconds / self.chronon
        if count.denominator != 1:
            raise QueryError(
                f"'{span}' is not a whole number of chronons", hint=self._chronon_hint()
            )
        return int(count)

    def _hint(self) -> str:
        if self.timestamps:
            return f"write a number and a unit, such as '10 minutes'; units are: {_NAMES}"
        if self.chronon is not None:
            return (
                "write a number and a unit, such as '10 minutes', or a whole number of chronons "
                f"of {self.label}"
            )
        return "the times of this stream are whole numbers: write a whole number"

    def _chronon_hint(self) -> str:
        return f"one chronon of this stream is {self.label}"


INTEGERS: Final = Clock()
"""Whole numbers of which nothing is known."""

MICROSECONDS: Final = Clock(1, timestamps=True)
"""Timestamps as they usually are."""


ANY_CLOCK: Final = Clock(1)
"""For modules without a stream: units are those of microseconds, and numbers are taken as well."""


def log_of_clock(clock: Clock) -> dict[str, Any]:
    """A clock as a log and a checkpoint say it; the usual chronon is left out."""
    found: dict[str, Any] = {"timestamps": clock.timestamps}
    return found if clock.is_usual else {**found, "chronon": clock.chronon}


def clock_of_log(about: Mapping[str, Any]) -> Clock:
    """What `log_of_clock` wrote.

    >>> clock_of_log({"timestamps": True}) == MICROSECONDS
    True
    """
    usual = MICROSECONDS if about["timestamps"] else INTEGERS
    return Clock(about.get("chronon", usual.chronon), usual.timestamps)


def note_of_clock(clock: Clock) -> str:
    """A clock as a note at a column: `timestamp`, `integer 1000000`.

    >>> note_of_clock(MICROSECONDS), note_of_clock(Clock(1_000_000))
    ('timestamp', 'integer 1000000')
    """
    kind = "timestamp" if clock.timestamps else "integer"
    return kind if clock.is_usual else f"{kind} {clock.chronon}"


def clock_of_note(note: str) -> Clock:
    """What `note_of_clock` wrote."""
    kind, _, chronon = note.partition(" ")
    usual = MICROSECONDS if kind == "timestamp" else INTEGERS
    return Clock(int(chronon), usual.timestamps) if chronon else usual


def chronon_of(span: object) -> Duration:
    """How many microseconds a chronon is: `"1 second"`, or a timedelta.

    Raises:
        QueryError: It is no duration, or has no length.
    """
    found = MICROSECONDS.duration(span)
    if not 1 <= found < FOREVER:
        raise QueryError(
            f"a chronon cannot be '{span}'", hint="give the length of a chronon: '1 second'"
        )
    return found


def read_span(span: object) -> tuple[Fraction, bool]:
    """A duration as it is written: microseconds, where it has a unit, or a bare number.

    Texts become exact fractions: a double has only 53 bits, and 0.1 is none.

    >>> read_span("1.5 s"), read_span(7)
    ((Fraction(1500000, 1), True), (Fraction(7, 1), False))

    Raises:
        QueryError: It is no duration.
    """
    hint = "write a number and a unit, such as '10 minutes', or a whole number of chronons"
    if isinstance(span, timedelta):
        return Fraction(span // timedelta(microseconds=1)), True
    if not isinstance(span, str):
        if isinstance(span, bool) or not isinstance(span, Integral | float | Decimal | Fraction):
            raise QueryError(f"{span!r} is not a duration", hint=hint)
        return _fraction(span), False
    if span.strip().lower() in ("forever", "unbounded"):
        return Fraction(FOREVER), False
    match = _DURATION.fullmatch(span)
    unit = match.group(2).lower() if match else ""
    scale = _UNITS.get(unit) or _UNITS.get(unit.removesuffix("s")) if unit else 1
    if match is None or scale is None:
        negative = "a duration cannot be negative" if span.strip().startswith("-") else ""
        raise QueryError(negative or f"'{span}' is not a duration", hint=hint)
    return Fraction(match.group(1)) * scale, bool(unit)


def _is_number(when: object) -> bool:
    if isinstance(when, str):
        return re.fullmatch(r"\s*[+-]?[0-9]+\s*", when) is not None
    return isinstance(when, Integral)


def _fraction(number: Any) -> Fraction:
    try:
        return Fraction(int(number) if isinstance(number, Integral) else number)
    except (ValueError, OverflowError):
        raise QueryError(f"{number!r} is not a duration", hint="use a finite number") from None


def _in_units(microseconds: int) -> tuple[int, str]:
    """In the largest unit of which it is a whole number."""
    name = next(each for each in _WORDS if microseconds % _UNITS[each] == 0)
    return microseconds // _UNITS[name], name
