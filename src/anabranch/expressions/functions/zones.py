"""Instants as clocks show them in a named time zone."""

from __future__ import annotations

import re
from collections.abc import Sequence
from difflib import get_close_matches
from functools import cache
from typing import Final

import duckdb

from anabranch.errors import QueryError
from anabranch.expressions.functions.signature import function, signature, table
from anabranch.expressions.functions.value import Value

_UTC: Final = ("utc", "gmt", "etc/utc", "etc/gmt", "z", "zulu")


@cache
def zone_names() -> tuple[str, ...]:
    """The names of time zones that workers know: those of the IANA, without abbreviations."""
    rows = duckdb.connect(config={"threads": "1"}).execute("SELECT name FROM pg_timezone_names()")
    return tuple(sorted(name for (name,) in rows.fetchall() if "/" in name or name == "UTC"))


def _zone(word: object) -> str | None:
    """A name as it is spelled; None for an offset, which only Spark reads.

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


def _seen_in(zone: str | None, at: str) -> str | None:
    """The clock in a zone at an instant (workers hold instants as clocks in UTC)."""
    if zone is None:
        return None
    return f"timezone('{zone}', timezone('UTC', CAST({at} AS TIMESTAMP)))"


def _from_utc(values: Sequence[Value]) -> str | None:
    return _seen_in(_zone(values[1].literal), values[0].text)


def _converted(values: Sequence[Value]) -> str | None:
    if str(values[0].literal).lower() not in _UTC:
        return None
    return _seen_in(_zone(values[1].literal), values[2].text)


ZONES: Final = table(
    function("from_utc_timestamp", signature("timestamp, string constant", "timestamp", _from_utc)),
    function(
        "convert_timezone",
        signature("string constant, string constant, timestamp_ntz", "timestamp_ntz", _converted),
    ),
)
