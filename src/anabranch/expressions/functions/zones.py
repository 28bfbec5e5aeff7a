"""Instants as clocks show them in a named time zone."""

from __future__ import annotations

import re
from collections.abc import Sequence
from difflib import get_close_matches
from functools import cache
from typing import Final

from anabranch.errors import QueryError
from anabranch.expressions.functions.signature import function, signature, table
from anabranch.expressions.functions.value import Value, text_literal

_UTC: Final = ("utc", "gmt", "etc/utc", "etc/gmt", "z", "zulu")
_OFFSET: Final = "[+-]((0?[0-9]|1[0-7])(:[0-5][0-9])?|18(:00)?)"
_SPELLING: Final = "write a name of the IANA such as Europe/Berlin, or an offset such as +05:30"


@cache
def zone_names() -> tuple[str, ...]:
    """The names of time zones that workers know: those of the IANA, without abbreviations."""
    # Few expressions name a zone, and DuckDB takes long to import.
    import duckdb

    rows = duckdb.connect(config={"threads": "1"}).execute("SELECT name FROM pg_timezone_names()")
    return tuple(sorted(name for (name,) in rows.fetchall() if "/" in name or name == "UTC"))


def _zone(word: object) -> str | None:
    """A name as it is spelled; None for an offset.

    Raises:
        QueryError: There is no such time zone.
    """
    names = zone_names()
    if word in names:
        return str(word)
    if re.fullmatch(r"(UTC|GMT|UT)?[+-].*", str(word)):
        return None
    known = {name.lower(): name for name in names}
    close = [known[name] for name in get_close_matches(str(word).lower(), known, n=2, cutoff=0.5)]
    choice = " or ".join(f"'{name}'" for name in close or ("Europe/Berlin", "UTC"))
    raise QueryError(
        f"there is no time zone '{word}'",
        hint=f"time zones have the names of the IANA: {choice}",
    )


def _seen_in(zone: str, at: str) -> str:
    """The clock in a zone at an instant (workers hold instants as clocks in UTC)."""
    return f"timezone({zone}, timezone('UTC', CAST({at} AS TIMESTAMP)))"


def _seen_in_zone_of_row(zone: str, at: str) -> str:
    """The same where every row names its zone: a name of the IANA, or an offset as in `+05:30`.

    Of DuckDB's names only those of the IANA mean the same in Spark for certain; it fails for a name
    that it does not know.
    """
    hours, minutes = (
        f"CAST(coalesce(nullif(regexp_extract({zone}, '{part}', 1), ''), '0') AS BIGINT)"
        for part in ("^[+-]([0-9]+)", ":([0-9]+)$")
    )
    distance = f"to_minutes(60 * {hours} + {minutes})"
    clock = f"CAST({at} AS TIMESTAMP)"
    failure = f"error(concat('there is no time zone ', {zone}, '; {_SPELLING}'))"
    return (
        f"CASE WHEN contains({zone}, '/') THEN {_seen_in(zone, at)} "
        f"WHEN {zone} IN ('UTC', 'GMT', 'Z') THEN {clock} "
        f"WHEN regexp_full_match({zone}, '{_OFFSET}') "
        f"THEN CASE WHEN {zone}[1] = '-' THEN {clock} - {distance} ELSE {clock} + {distance} END "
        f"WHEN {zone} IS NOT NULL THEN CAST({failure} AS TIMESTAMP) END"
    )


def _read_by_row(zone: Value) -> bool:
    """Whether rows may name this zone; of constants only Spark reads `UTC+2`."""
    return zone.literal is None or re.fullmatch(_OFFSET, str(zone.literal)) is not None


def _of_row_from_utc(values: Sequence[Value]) -> str | None:
    at, zone = values
    return _seen_in_zone_of_row(zone.text, at.text) if _read_by_row(zone) else None


def _from_utc(values: Sequence[Value]) -> str | None:
    zone = _zone(values[1].literal)
    return None if zone is None else _seen_in(text_literal(zone), values[0].text)


def _converted(values: Sequence[Value]) -> str | None:
    if str(values[0].literal).lower() not in _UTC:
        return None
    zone = _zone(values[1].literal)
    return None if zone is None else _seen_in(text_literal(zone), values[2].text)


def _converted_of_row(values: Sequence[Value]) -> str | None:
    source, zone, at = values
    if str(source.literal).lower() not in _UTC or not _read_by_row(zone):
        return None
    return _seen_in_zone_of_row(zone.text, at.text)


ZONES: Final = table(
    function(
        "from_utc_timestamp",
        signature("timestamp, string constant", "timestamp", _from_utc),
        signature("timestamp, text", "timestamp", _of_row_from_utc, fails=True),
    ),
    function(
        "convert_timezone",
        signature("string constant, string constant, timestamp_ntz", "timestamp_ntz", _converted),
        signature(
            "string constant, text, timestamp_ntz", "timestamp_ntz", _converted_of_row, fails=True
        ),
    ),
)
