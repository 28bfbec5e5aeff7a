"""Units of time in SQL, in full and abbreviated."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

UNITS: Final = ("MICROSECOND", "MILLISECOND", "SECOND", "MINUTE", "HOUR", "DAY", "WEEK")
"""In full; the plural is one, too."""

_SHORT: Final[Mapping[str, str]] = {
    "US": "MICROSECOND",
    "MS": "MILLISECOND",
    **dict.fromkeys(("S", "SEC", "SECS"), "SECOND"),
    **dict.fromkeys(("M", "MIN", "MINS"), "MINUTE"),
    **dict.fromkeys(("H", "HR", "HRS"), "HOUR"),
    "D": "DAY",
}


def unit_named(word: str) -> str | None:
    """The unit that a word behind a number means; None if it is none.

    >>> unit_named("minutes"), unit_named("MIN"), unit_named("SLIDE")
    ('MINUTES', 'MINUTE', None)
    """
    word = word.upper()
    return word if word.removesuffix("S") in UNITS else _SHORT.get(word)
