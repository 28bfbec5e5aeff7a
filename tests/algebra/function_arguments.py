"""Values at the edges of every type, and expressions that put them into every function."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Iterator, Sequence
from datetime import date, datetime, time, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from anabranch.expressions.functions.every import FUNCTIONS
from anabranch.expressions.functions.signature import Function, Signature

NAN, INF = math.nan, math.inf
DOUBLES = [0.0, -0.0, 1.0, -1.0, 0.5, 2.5, -2.5, 3.5, 1.005, -0.3, 1e-9, 123456.789, 1e15, -1e15,
           9.007199254740993e15, 9.223372036854775807e18, -9.223372036854775808e18, 1e22, 1e300,
           -1e300, 5e-324, 3.4028234663852886e38, 3.5e38, 2147483647.0, -2147483649.0, 127.9,
           NAN, INF, -INF]  # fmt: skip
TEXTS = ["", " ", "a", "A", "abc", "ABC", "Abc Def", "a,b,,c", "  x  ", "é", "ÉCOLE", "straße",
         "ΑΣ", "İi", "𝒳😀", "a😀b", "ﬁn", "ab\ncd", "ab\n", "a\tb", "x%_y", "\\", "'", '"q"',
         "2026-11-15", "hello world", "aaa", "b-a", "\u2028", "foo123bar45", "ǆ",
         "z\x00z"]  # fmt: skip
READINGS = ["12", "-7", "+5", " 42 ", "3.75", "1e3", "-1E-2", ".5", "5.", "NaN", "inf", "-Infinity",
            "1d", "0x1p3", "9223372036854775807", "9223372036854775808", "128", "99999999.995",
            "true", " F ", "yes", "no", "1", "0", "2026-02-28", "2024-02-29", "2026-02-30",
            "2026-1-5", " 2026-01-05 ", "2026-11-15 10:30:05", "2026-11-15T10:30:05.123456789",
            "2026-11-15 10:30:05+01:30", "2026-11-15 24:00:00", "2026-07-15 10:30:00 Europe/Berlin",
            "2026-11-15 10:30 Z", "2026-11-15 10:30:05 PST",
            "1969-12-31 23:59:59.999999", "+12026-01-01", "-0044-03-15", "20261115", "05/01/2026",
            "2026-01-05 03:04:05.678", "x", "", "4a4B", "YWJj", "YQ==", "YQ", "!!",
            "٣"]  # fmt: skip
DATES = [date(1970, 1, 1), date(1969, 12, 31), date(2026, 11, 15), date(2024, 2, 29),
         date(2023, 2, 28), date(2000, 2, 29), date(1900, 2, 28), date(1582, 10, 15),
         date(1, 1, 1), date(9999, 12, 31), date(2027, 1, 1), date(2026, 1, 31),
         date(2020, 12, 31), date(1999, 12, 31)]  # fmt: skip
TIMES = [time(), time(23, 59, 59, 999999), time(10, 30, 5), time(12, 0, 0, 1), time(1, 2, 3, 120)]
CLOCKS = [datetime.combine(day, time) for day, time in zip(DATES, itertools.cycle(TIMES))]

ZONES = ["Europe/Berlin", "America/New_York", "Asia/Kolkata", "Australia/Lord_Howe", "UTC", "GMT",
         "Z", "+05:30", "-03:30", "+2", "-18:00", "+9:00", "Pacific/Apia"]  # fmt: skip


def _integers(bits: int) -> list[int]:
    most = 2 ** (bits - 1)
    return [0, 1, -1, 2, -2, 7, -7, 64, 100, most - 1, -most, most // 2, -(most // 2) - 1]


def _decimals(precision: int, scale: int) -> list[Decimal]:
    unit = Decimal(1).scaleb(-scale)
    most = Decimal("9" * (precision - scale) + "." + "9" * scale)
    usual = [Decimal(text).quantize(unit) for text in ("0", "1", "-7", "2.5", "-2.5")]
    return [unit, -unit, most, most.copy_negate(), *usual]


COLUMNS: Final[dict[str, tuple[pa.DataType, list[Any]]]] = {
    "b": (pa.bool_(), [True, False]),
    "i1": (pa.int8(), _integers(8)),
    "i2": (pa.int16(), _integers(16)),
    "i4": (pa.int32(), _integers(32)),
    "i8": (pa.int64(), _integers(64)),
    "k": (pa.int32(), [-3, -1, 0, 1, 2, 3, 4, 7, 12, 20, 21]),
    "j": (pa.int32(), [-2, 0, 1, 2, 3, 5]),
    "q": (pa.int64(), [1, 2, 3, 1000, 86_400, 1_700_000_000, -1_700_000_000, -1, 0]),
    "f4": (pa.float32(), [each for each in DOUBLES if abs(each) not in (1e300, 3.5e38)]),
    "f8": (pa.float64(), DOUBLES),
    "g8": (pa.float64(), DOUBLES),
    "d": (pa.decimal128(10, 2), _decimals(10, 2)),
    "d5": (pa.decimal128(5, 0), _decimals(5, 0)),
    "w": (pa.decimal128(38, 10), _decimals(38, 10)),
    "s": (pa.string(), TEXTS),
    "u": (pa.string(), TEXTS),
    "t": (pa.string(), READINGS),
    "y": (pa.binary(), [b"", b"abc", b"\x00\xff", "é😀".encode(), b"\x80"]),
    "dt": (pa.date32(), DATES),
    "eu": (pa.date32(), DATES),
    "nt": (pa.timestamp("us"), CLOCKS),
    "ts": (pa.timestamp("us", "UTC"), [each.replace(tzinfo=timezone.utc) for each in CLOCKS]),
    "li": (pa.list_(pa.int32()), [[], [1], [3, None, 1, 2], [None], [7, 7, -1], [2**31 - 1]]),
    "ls": (pa.list_(pa.string()), [[], ["a"], ["b", None, "A", ""], [None, None], ["é", "😀"]]),
    "lf": (pa.list_(pa.float64()), [[], [NAN, 1.0], [None, -0.0, INF], [2.5, 0.5], [None]]),
    "ll": (pa.list_(pa.list_(pa.int32())), [[], [[1, 2], [3]], [[1], None], [[], [None, 5]]]),
    "m": (pa.map_(pa.string(), pa.int32()), [[], [("a", 1), ("b", None)], [("", 0), ("é", -1)]]),
    "p": (pa.struct([("x", pa.int32()), ("Name", pa.string())]), [{"x": 1, "Name": "é"}, {}]),
    "zn": (pa.string(), ZONES),
}


def rows(count: int = 96, seed: int = 7) -> pa.RecordBatch:
    """Rows that hold every value at least once, in combinations drawn at random."""
    draw = random.Random(seed)
    arrays = []
    for kind, values in COLUMNS.values():
        pool = [*values, None]
        column = [*pool, *(draw.choice(pool) for _ in range(count - len(pool)))]
        draw.shuffle(column)
        arrays.append(pa.array(column, kind))
    schema = pa.schema([(name, kind) for name, (kind, _) in COLUMNS.items()])
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


ARGUMENTS: Final = {
    "boolean": ["b"],
    "tinyint": ["i1"],
    "smallint": ["i2", "i1"],
    "int": ["k", "i2", "i1", "null"],
    "bigint": ["q", "i8", "i4", "null"],
    "float": ["f4"],
    "double": ["f8", "g8", "f4", "i8", "d", "w", "null"],
    "string": ["s", "u", "t", "i4", "d", "b", "dt", "ts", "null"],
    "binary": ["y", "s"],
    "date": ["dt", "eu", "nt", "ts", "null"],
    "timestamp": ["ts", "nt", "dt", "null"],
    "timestamp_ntz": ["nt", "dt"],
    "interval": ["interval 90 minutes"],
    "integer": ["i1", "i2", "i4", "i8", "k"],
    "fraction": ["f4", "f8"],
    "decimal": ["d", "w", "d5"],
    "number": ["i1", "i2", "i4", "i8", "f4", "f8", "d", "d5", "w"],
    "clock": ["ts", "nt"],
    "day": ["dt"],
    "time": ["dt", "ts", "nt"],
    "plain": ["i4", "s", "dt"],
    "any": ["i4", "s", "f8", "d", "dt", "ts", "nt", "b", "i8", "li", "null"],
    "array": ["li", "ls", "lf"],
    "map": ["m"],
    "text": ["s", "t"],
    "bytes": ["y"],
    "string constant": ["'a'", "','"],
    "int constant": ["1", "0", "2", "-1"],
}

ZONED: Final = (
    "from_utc_timestamp(ts, zn)",
    "from_utc_timestamp(nt, coalesce(zn, 'Asia/Tokyo'))",
    "from_utc_timestamp(ts, t)",
    "from_utc_timestamp(ts, '-03:30')",
    "date(from_utc_timestamp(ts, zn))",
    "convert_timezone('UTC', zn, nt)",
)
"""Instants in the time zone that each row names."""


def written() -> list[str]:
    """Expressions written by hand: constants, syntax, and arguments that belong together."""
    lines = Path(__file__).with_name("functions.sql").read_text(encoding="utf-8").splitlines()
    return [line for line in lines if line and not line.startswith("--")]


def _arguments(signature: Signature, count: int) -> Iterator[tuple[str, ...]]:
    pools = [ARGUMENTS[name] for name in signature.takes[:count]]
    # Every argument in every place, but not every combination.
    for number in range(max((len(pool) for pool in pools), default=1)):
        yield tuple(pool[(number + place) % len(pool)] for place, pool in enumerate(pools))


LARGE: Final = ("repeat", "space", "lpad", "rpad", "array_repeat", "sequence", "elt")
"""Functions that make something as large as a number says."""


def calls(function: Function, most: int) -> list[str]:
    """Calls of a function with arguments of every kind that it takes, so many per signature."""
    if function.name in LARGE:
        return []
    texts = []
    for signature in function.signatures:
        for count in range(len(signature.takes) - signature.optional, len(signature.takes) + 1):
            given = itertools.islice(_arguments(signature, count), most)
            texts += [f"{function.name}({', '.join(arguments)})" for arguments in given]
    # Other names of a function share its signatures.
    names = [name for name, each in FUNCTIONS.items() if each.signatures == function.signatures]
    return list(dict.fromkeys(texts))[: None if names[0] == function.name else 1]


TYPES = (
    *("boolean", "tinyint", "smallint", "int", "bigint", "float", "double", "string", "binary"),
    *("decimal(10,2)", "decimal(4,3)", "decimal(20,0)", "decimal(38,10)"),
    *("date", "timestamp", "timestamp_ntz", "array<string>", "array<bigint>"),
)


SOME: Final = ("b", "i2", "i8", "f8", "d", "t", "s", "y", "dt", "nt", "ts", "ls")
"""Columns of most types."""


def casts(columns: Sequence[str]) -> Iterator[str]:
    """Casts from columns to every type."""
    for word, name, kind in itertools.product(("cast", "try_cast"), columns, TYPES):
        yield f"{word}({name} as {kind})"
    for name, kind in itertools.product(("i4", "t"), TYPES):
        if kind.isalpha():
            yield f"{kind}({name})"


def operations(columns: Sequence[str]) -> Iterator[str]:
    """Operators between every two columns."""
    for sign, one, two in itertools.product("+-*/%<=&", columns, columns):
        yield f"{one} {sign} {two}"
