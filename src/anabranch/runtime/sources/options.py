"""The options of sources: one table for Python and SQL, and which kind of source takes which."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal, TypeAlias, get_args

from anabranch.errors import PlanError
from anabranch.runtime.option import (
    COLUMN,
    COLUMN_SETS,
    COLUMNS,
    DURATION,
    FLAG,
    NAME,
    ORDER,
    PATH,
    POSITIVE_DURATION,
    SCHEMA,
    Option,
    check_all,
    count,
    set_options,
    table_of,
    word,
)
from anabranch.runtime.sources.archive_bounds import KEEP
from anabranch.runtime.sources.expectations import RATE, VALUE_COUNTS
from anabranch.runtime.sources.spec import MOST_ROWS, LatePolicy

SourceKind: TypeAlias = Literal[
    "rows", "arrival", "elements", "log", "archive", "copies", "delta", "frame", "still", "table"
]
"""Kinds of sources.

Files of rows with a time; rows that get the time of their arrival; files of elements; the log
folder of a query; an archive of rows that a query has read; copies of a stream; a Delta table read
as a stream; a streaming DataFrame; one that does not stream; a relation, wherever it comes from.
"""

WORDS: Final[Mapping[SourceKind, str]] = {
    "rows": "files of rows",
    "arrival": "rows that are timed by their arrival",
    "elements": "files of elements",
    "log": "the log folder of a query",
    "archive": "an archive",
    "copies": "copies of a stream",
    "delta": "a Delta table",
    "frame": "a streaming DataFrame",
    "still": "a DataFrame that does not stream",
    "table": "a table",
}

_EVERY: Final[frozenset[str]] = frozenset(get_args(SourceKind))
_STREAMS_IN_FILES: Final[frozenset[str]] = frozenset(
    ("rows", "arrival", "elements", "log", "archive", "delta")
)
_WITH_COLUMNS: Final[frozenset[str]] = frozenset(("rows", "delta", "frame", "still"))

_ARCHIVED: Final[frozenset[str]] = _WITH_COLUMNS | {"elements", "log", "archive"}
_NO_ARCHIVE: Final = "its rows are never late, and it has no archive"

SOURCE_OPTIONS: Final = table_of(
    Option(name="name", kind=NAME, applies_to=_EVERY, in_sql=False),
    Option(
        name="start",
        kind=COLUMN,
        applies_to=_WITH_COLUMNS | {"arrival", "table"},
        clause="ORDERED BY",
        why_not="elements have a start of their own",
    ),
    Option(
        name="end",
        kind=COLUMN,
        applies_to=_WITH_COLUMNS | {"table"},
        clause="UNTIL",
        why_not="an end needs a column with the start",
    ),
    Option(
        name="kind",
        kind=COLUMN,
        applies_to=_WITH_COLUMNS,
        why_not="only tables of elements have a column with the kind",
    ),
    Option(name="schema", kind=SCHEMA, applies_to=_EVERY, clause="columns"),
    Option(
        name="delay",
        kind=DURATION,
        applies_to=_WITH_COLUMNS | {"elements", "log", "archive"},
        clause="DELAY",
        why_not="its rows are never late",
    ),
    Option(
        name="late",
        kind=word(*get_args(LatePolicy)),
        default="drop",
        nullable=False,
        applies_to=_WITH_COLUMNS | {"elements", "log", "archive", "copies"},
        clause="LATE",
        why_not="its rows are never late",
    ),
    Option(
        name="archive",
        kind=PATH,
        applies_to=_ARCHIVED,
        clause="ARCHIVE",
        why_not=_NO_ARCHIVE,
    ),
    Option(
        name="keep",
        kind=KEEP,
        applies_to=_ARCHIVED,
        clause="KEEP",
        why_not=_NO_ARCHIVE,
    ),
    Option(
        name="heartbeat",
        kind=POSITIVE_DURATION,
        applies_to=_STREAMS_IN_FILES | {"frame"},
        clause="HEARTBEAT",
        why_not="queries do not wait for it",
    ),
    Option(
        name="chronon",
        kind=POSITIVE_DURATION,
        applies_to=_EVERY,
        clause="CHRONON",
    ),
    Option(
        name="ordered",
        kind=ORDER,
        default=False,
        nullable=False,
        applies_to=frozenset(("rows", "elements", "delta")),
        clause="ORDERED",
        why_not="only rows and elements of files can be declared in order; log folders say it of "
        "themselves, and for copies the case of their merge does",
    ),
    Option(
        name="keyed",
        kind=FLAG,
        default=False,
        nullable=False,
        applies_to=_EVERY - {"table"},
        clause="KEYED",
        why_not="the rows of a table hold at all times",
    ),
    Option(
        name="unique",
        kind=COLUMN_SETS,
        applies_to=_EVERY,
        clause="UNIQUE",
    ),
    Option(
        name="rate",
        kind=RATE,
        applies_to=_EVERY - {"table"},
        clause="RATE",
        why_not="the rows of a table are all there",
    ),
    Option(
        name="distinct",
        kind=VALUE_COUNTS,
        applies_to=_EVERY,
        clause="DISTINCT",
    ),
    Option(
        name="edges",
        kind=COLUMNS,
        applies_to=_WITH_COLUMNS | {"arrival"},
        clause="EDGES BY",
        why_not="only rows with a start column and without an end can be edges",
    ),
    Option(
        name="hide_times",
        kind=FLAG,
        default=False,
        nullable=False,
        applies_to=_WITH_COLUMNS | {"table"},
        in_sql=False,
        why_not="it has no time column",
    ),
    Option(
        name="ends",
        kind=FLAG,
        default=False,
        nullable=False,
        applies_to=_STREAMS_IN_FILES | {"still"},
        why_not="its end cannot be declared",
    ),
    Option(
        name="max_rows_per_batch",
        kind=count(1),
        default=MOST_ROWS,
        applies_to=_STREAMS_IN_FILES | {"copies", "still"},
        why_not="the size of its batches is not set here",
    ),
    Option(
        name="max_files_per_batch",
        kind=count(1),
        applies_to=_STREAMS_IN_FILES - {"log", "archive"},
        why_not="it is not read file by file",
    ),
    Option(
        name="replace",
        kind=FLAG,
        default=False,
        nullable=False,
        applies_to=_EVERY,
        # In SQL it is CREATE OR REPLACE.
        in_sql=False,
    ),
    Option(
        name="copies",
        kind=FLAG,
        default=False,
        nullable=False,
        applies_to=frozenset({"copies"}),
        why_not="copies are log folders and stream files, found by a folder or a pattern",
    ),
)
"""All options of `engine.stream`, `engine.relation`, `CREATE STREAM` and `CREATE TABLE`."""

IN_WITH: Final = tuple(
    name for name, option in SOURCE_OPTIONS.items() if option.in_sql and option.clause is None
)
"""The options that stand in `WITH (...)`."""


def checked_options(given: Mapping[str, Any], *, where: str) -> frozenset[str]:
    """Check the options of a source, and give the names of those that are not as by default.

    Raises:
        PlanError: A value is not what its option takes.
    """
    check_all(SOURCE_OPTIONS, given, where=where)
    return set_options(SOURCE_OPTIONS, given)


def refuse_misplaced(given: frozenset[str], kind: SourceKind, *, where: str) -> None:
    """Refuse options that mean nothing for this kind of source.

    Raises:
        PlanError: There is one; in SQL it may be a clause.
    """
    for name, option in SOURCE_OPTIONS.items():
        if name not in given or kind in option.applies_to:
            continue
        called = option.clause or name
        label = name if called == name else f"{called} ({name} in Python)"
        raise PlanError(
            f"{label} has no meaning for {WORDS[kind]}",
            where=where,
            hint=f"leave it out: {option.why_not}",
        )
