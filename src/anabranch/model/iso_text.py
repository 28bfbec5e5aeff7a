"""ISO 8601 as people write it, read alike by every version of Python."""

from __future__ import annotations

import re
from datetime import date, datetime, time, timedelta, timezone
from typing import Final

_DATE: Final = r"([0-9]{4})-?([0-9]{2})-?([0-9]{2})"
_CLOCK: Final = r"([0-9]{2})(?::?([0-9]{2})(?::?([0-9]{2})(?:[.,]([0-9]{1,9}))?)?)?"
_ZONE: Final = r"([Zz]|[+-][0-9]{2}(?::?[0-9]{2})?)"
_MOMENT: Final = re.compile(rf"{_DATE}(?:[Tt ]{_CLOCK}{_ZONE}?)?")
_TIME: Final = re.compile(_CLOCK)
_DAY: Final = re.compile(_DATE)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=timezone.utc)


def nanoseconds_of(text: str) -> int:
    """The nanoseconds since 1970 of a timestamp; without a zone it is in UTC.

    >>> nanoseconds_of("1970-01-01T01:00:00.5+01"), nanoseconds_of("1970-01-01 00:00:00.000000007Z")
    (500000000, 7)

    Raises:
        ValueError: The text is no ISO timestamp.
    """
    found = _MOMENT.fullmatch(text.strip())
    if found is None:
        raise ValueError(text)
    year, month, day, hour, minute, second, fraction, zone = found.groups()
    clock = (int(hour or 0), int(minute or 0), int(second or 0))
    whole = datetime(int(year), int(month), int(day), *clock, tzinfo=timezone.utc)
    seconds = (whole - _EPOCH) // timedelta(seconds=1) - _offset(zone)
    return seconds * 1_000_000_000 + int((fraction or "").ljust(9, "0"))


def date_of(text: str) -> date:
    """A calendar day: `2026-11-15`.

    Raises:
        ValueError: The text is no ISO date.
    """
    found = _DAY.fullmatch(text.strip())
    if found is None:
        raise ValueError(text)
    return date(*(int(part) for part in found.groups()))


def time_of(text: str) -> time:
    """A time of day, at most to the microsecond: `10:00:00.5`.

    Raises:
        ValueError: The text is no ISO time.
    """
    found = _TIME.fullmatch(text.strip())
    if found is None:
        raise ValueError(text)
    hour, minute, second, fraction = found.groups()
    micros, rest = divmod(int((fraction or "").ljust(9, "0")), 1000)
    if rest:
        raise ValueError(text)
    return time(int(hour), int(minute or 0), int(second or 0), micros)


def _offset(zone: str | None) -> int:
    if zone is None or zone in "Zz":
        return 0
    digits = zone[1:].replace(":", "")
    hours, minutes = int(digits[:2]), int(digits[2:] or 0)
    if hours > 23 or minutes > 59:
        raise ValueError(zone)
    seconds = hours * 3600 + minutes * 60
    return -seconds if zone.startswith("-") else seconds
