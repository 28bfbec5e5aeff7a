"""Functions that DuckDB does not have, over columns; most are asked for unusual values only."""

from __future__ import annotations

import base64
import hashlib
import re
import zlib
from collections.abc import Callable, Sequence
from datetime import date, datetime, timedelta, timezone
from typing import Any, Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import duckdb
import pyarrow as pa
from duckdb.func import ARROW, SPECIAL

_BLANKS: Final = "".join(map(chr, [*range(0x21), *range(0x7F, 0xA0)]))
_EPOCH: Final = date(1970, 1, 1).toordinal()
_DATE: Final = (
    r"(?P<year>[+-]?\d{4,7})(?:-(?P<month>\d{1,2})(?:-(?P<day>\d{1,2})(?P<rest>[ T].*)?)?)?"
)
_TIME: Final = re.compile(
    r"(?P<hour>\d{1,2})(?::(?P<minute>\d{1,2})"
    r"(?::(?P<second>\d{1,2})(?:\.(?P<part>\d*))?(?P<zone>[ A-Za-z+-].*)?)?)?",
    re.ASCII | re.DOTALL,
)
_OFFSET: Final = re.compile(
    r"(?:UTC|GMT|UT)?(?P<sign>[+-])(?P<hours>\d{1,2})(?::?(?P<minutes>\d{1,2})(?::?(?P<seconds>\d{2}))?)?"
)
_SHORT_ZONES: Final = {
    "ACT": "Australia/Darwin",
    "AET": "Australia/Sydney",
    "AGT": "America/Argentina/Buenos_Aires",
    "ART": "Africa/Cairo",
    "AST": "America/Anchorage",
    "BET": "America/Sao_Paulo",
    "BST": "Asia/Dhaka",
    "CAT": "Africa/Harare",
    "CNT": "America/St_Johns",
    "CST": "America/Chicago",
    "CTT": "Asia/Shanghai",
    "EAT": "Africa/Addis_Ababa",
    "ECT": "Europe/Paris",
    "IET": "America/Indiana/Indianapolis",
    "IST": "Asia/Kolkata",
    "JST": "Asia/Tokyo",
    "MIT": "Pacific/Apia",
    "NET": "Asia/Yerevan",
    "NST": "Pacific/Auckland",
    "PLT": "Asia/Karachi",
    "PNT": "America/Phoenix",
    "PRT": "America/Puerto_Rico",
    "PST": "America/Los_Angeles",
    "SST": "Pacific/Guadalcanal",
    "VST": "Asia/Ho_Chi_Minh",
}
"""Three letters that Java takes for a zone (java.time.ZoneId.SHORT_IDS)."""


def read_double(text: str) -> float | None:
    """A number as Java reads it: with blanks around, `1d`, `0x1p3`, `Infinity`, `inf`, `NaN`."""
    text = text.strip(_BLANKS)
    special = {"inf": "inf", "infinity": "inf", "nan": "nan"}.get(text.lower().lstrip("+-"))
    if special == "nan":
        return float("nan") if text[0] not in "+-" else None
    if special:
        signs = text[: len(text) - len(text.lstrip("+-"))]
        return None if len(signs) > 1 else float(signs + special)
    if re.fullmatch(r"[+-]?0[xX][0-9a-fA-F]*\.?[0-9a-fA-F]*[pP][+-]?[0-9]+[dDfF]?", text):
        return float.fromhex(text.rstrip("dDfF") if "p" in text.lower() else text)
    plain = re.fullmatch(r"([+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)[dDfF]?", text)
    return float(plain[1]) if plain else None


def ascii_digits(text: str) -> str:
    """A number in the digits of any script, in ours."""
    digits = (str(int(char)) if char.isdecimal() and char < "\U00010000" else char for char in text)
    return "".join(digits).strip(_BLANKS)


def read_date(text: str) -> int | None:
    """Days since 1970 of a text that begins with a date, as Spark's cast reads it."""
    found = re.fullmatch(_DATE, text.strip(_BLANKS), re.ASCII | re.DOTALL)
    return None if found is None else _days(found)


def _days(found: re.Match[str]) -> int | None:
    year, month, day = int(found["year"]), int(found["month"] or 1), int(found["day"] or 1)
    # Python's calendar ends at 9999, but it repeats every 400 years.
    cycles = (year - 1) // 400
    try:
        there = date(year - cycles * 400, month, day).toordinal()
    except ValueError:
        return None
    return there + cycles * 146_097 - _EPOCH


def read_timestamp(text: str) -> int | None:
    """Microseconds since 1970, in UTC unless the text names a zone."""
    return _micros(text, zoned=True)


def read_timestamp_ntz(text: str) -> int | None:
    """Microseconds since 1970 on the clock on the wall; a zone is read over."""
    return _micros(text, zoned=False)


def _micros(text: str, *, zoned: bool) -> int | None:
    text = text.strip(_BLANKS)
    found = re.fullmatch(_DATE, text, re.ASCII | re.DOTALL)
    days = None if found is None else _days(found)
    if found is None or days is None:
        if re.match(r"T?\d{1,2}:", text, re.ASCII):
            raise ValueError(f"{text} has no date, so it would be a different instant every day")
        return None
    rest = found["rest"]
    if rest is None:
        return days * 86_400_000_000
    time = _TIME.fullmatch(rest[1:])
    if time is None:
        return None
    hour, minute, second = (int(time[part] or 0) for part in ("hour", "minute", "second"))
    if hour > 23 or minute > 59 or second > 59:
        return None
    part = int((time["part"] or "")[:6].ljust(6, "0"))
    local = ((days * 24 + hour) * 60 + minute) * 60 + second
    offset = 0 if time["zone"] is None else _offset(time["zone"].strip(), local)
    if offset is None:
        return None
    return (local - (offset if zoned else 0)) * 1_000_000 + part


def _offset(zone: str, local: int) -> int | None:
    """Seconds that a clock in a zone is ahead when it shows a local time."""
    if zone in ("Z", "UTC", "GMT", "UT"):
        return 0
    found = _OFFSET.fullmatch(zone)
    if found:
        hours, minutes, seconds = (
            int(found[part] or 0) for part in ("hours", "minutes", "seconds")
        )
        size = hours * 3600 + minutes * 60 + seconds
        fits = minutes < 60 and seconds < 60 and size <= 18 * 3600
        return (size if found["sign"] == "+" else -size) if fits else None
    zone = _SHORT_ZONES.get(zone, zone)
    try:
        there = datetime(1970, 1, 1, tzinfo=timezone.utc) + timedelta(seconds=local)
        offset = there.replace(tzinfo=ZoneInfo(zone)).utcoffset()
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return None
    except OverflowError:
        raise ValueError(f"the clock of {zone} in that year is known to Spark only") from None
    return None if offset is None else int(offset.total_seconds())


def edit_distance(one: str, two: str) -> int:
    """How many characters must be put in, taken out or changed."""
    above = list(range(len(two) + 1))
    for row, left in enumerate(one, 1):
        line = [row]
        for column, right in enumerate(two, 1):
            line.append(min(above[column] + 1, line[-1] + 1, above[column - 1] + (left != right)))
        above = line
    return above[-1]


def title(text: str) -> str:
    """Every word with a capital; words stand between blanks."""
    # Only a whole word shows whether a sigma is its last letter.
    return " ".join(
        word[:1].title() + word.lower()[len(word[:1].lower()) :] for word in text.split(" ")
    )


def from_base64(text: str) -> bytes:
    """The bytes, as Java's decoder for mail reads them: over signs that do not belong there."""
    body, padding, rest = text.encode().partition(b"=")
    digits = re.sub(rb"[^A-Za-z0-9+/]", b"", body)
    alone = len(digits) % 4
    wrong = (padding and alone == 0) or (padding and alone == 2 and rest[:1] != b"=")
    if alone == 1 or wrong or re.search(rb"[A-Za-z0-9+/]", rest):
        raise ValueError(f"{text} is not base64")
    return base64.b64decode(digits + b"=" * (-len(digits) % 4))


def _of_one(function: Callable[[Any], Any], kind: pa.DataType) -> Callable[..., pa.Array]:
    def over(column: pa.ChunkedArray) -> pa.Array:
        values = column.to_pylist()
        return pa.array([None if value is None else function(value) for value in values], kind)

    return over


def _of_two(function: Callable[[Any, Any], Any], kind: pa.DataType) -> Callable[..., pa.Array]:
    def over(left: pa.ChunkedArray, right: pa.ChunkedArray) -> pa.Array:
        pairs = zip(left.to_pylist(), right.to_pylist())
        return pa.array([None if None in pair else function(*pair) for pair in pairs], kind)

    return over


_FUNCTIONS: Final[Sequence[tuple[str, Callable[..., Any], list[str], str, pa.DataType]]] = (
    ("spark_double", read_double, ["VARCHAR"], "DOUBLE", pa.float64()),
    ("spark_digits", ascii_digits, ["VARCHAR"], "VARCHAR", pa.string()),
    ("spark_date", read_date, ["VARCHAR"], "INTEGER", pa.int32()),
    ("spark_timestamp", read_timestamp, ["VARCHAR"], "BIGINT", pa.int64()),
    ("spark_timestamp_ntz", read_timestamp_ntz, ["VARCHAR"], "BIGINT", pa.int64()),
    ("spark_upper", str.upper, ["VARCHAR"], "VARCHAR", pa.string()),
    ("spark_lower", str.lower, ["VARCHAR"], "VARCHAR", pa.string()),
    ("spark_initcap", title, ["VARCHAR"], "VARCHAR", pa.string()),
    ("spark_reverse", lambda text: text[::-1], ["VARCHAR"], "VARCHAR", pa.string()),
    ("spark_levenshtein", edit_distance, ["VARCHAR", "VARCHAR"], "INTEGER", pa.int32()),
    ("spark_unbase64", from_base64, ["VARCHAR"], "BLOB", pa.binary()),
    ("spark_crc32", zlib.crc32, ["BLOB"], "BIGINT", pa.int64()),
    (
        "spark_sha224",
        lambda data: hashlib.sha224(data).hexdigest(),
        ["BLOB"],
        "VARCHAR",
        pa.string(),
    ),
    (
        "spark_sha384",
        lambda data: hashlib.sha384(data).hexdigest(),
        ["BLOB"],
        "VARCHAR",
        pa.string(),
    ),
    (
        "spark_sha512",
        lambda data: hashlib.sha512(data).hexdigest(),
        ["BLOB"],
        "VARCHAR",
        pa.string(),
    ),
)


def teach(connection: duckdb.DuckDBPyConnection) -> None:
    """Let a connection know these functions."""
    for name, function, takes, gives, kind in _FUNCTIONS:
        over = (_of_one if len(takes) == 1 else _of_two)(function, kind)
        parameters = [duckdb.sqltype(each) for each in takes]
        connection.create_function(
            name, over, [*parameters], gives, type=ARROW, null_handling=SPECIAL
        )
