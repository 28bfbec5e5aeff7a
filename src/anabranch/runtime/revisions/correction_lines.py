"""Corrections as people write them: JSON lines, dictionaries, elements or an Arrow table."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias, final, get_args

import pyarrow as pa
import pyarrow.parquet as pq

from anabranch.errors import AnabranchError, StreamError
from anabranch.model.clock import Clock
from anabranch.model.elements import Adjust, Element, Insert, Stable
from anabranch.model.time import BEGINNING, FOREVER

CorrectionKind: TypeAlias = Literal["insert", "adjust", "replace", "delete"]

Corrections: TypeAlias = "str | Path | pa.Table | Iterable[Mapping[str, Any] | Element]"
"""The path of a file of JSON lines or of Parquet, an element table, or corrections one by one."""

_KEYS: Final[Mapping[CorrectionKind, frozenset[str]]] = {
    "insert": frozenset({"insert", "start", "end"}),
    "adjust": frozenset({"adjust", "start", "end", "new_end"}),
    "replace": frozenset({"replace", "with", "start", "all"}),
    "delete": frozenset({"delete", "start", "all"}),
}
_SHAPES: Final = (
    'a correction is {"insert": {...}, "start": t, "end": u}, {"adjust": ...} with "new_end", '
    '{"replace": {...}, "with": {...}, "start": t} or {"delete": {...}, "start": t}; "all": true '
    "lets the last two change several rows"
)


class UnappliedError(Exception):
    """Why a correction cannot be applied, in one sentence."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class CorrectionLine:
    """One correction, as it was given.

    Attributes:
        number: Its line, from 1.
        text: What it says, for people.
        kind: What it does.
        row: The columns that it names: of a new row, or of the row that it is about.
        changed: The columns that `replace` changes.
        start: The start of the row.
        end: Its end, where one is given.
        new_end: The end that it gets.
        every: It is about all rows that are like that, not about one.
    """

    number: int
    text: str
    kind: CorrectionKind
    row: Mapping[str, Any] | tuple[Any, ...]
    changed: Mapping[str, Any] = field(default_factory=dict)
    start: int
    end: int | None = None
    new_end: int | None = None
    every: bool = False


def given_corrections(corrections: Corrections) -> Iterator[tuple[int, str, object]]:
    """Number, text and content of each correction; the content is the problem if it has none.

    Raises:
        StreamError: A file cannot be read.
    """
    if isinstance(corrections, (str, Path)):
        yield from _of_file(Path(corrections))
        return
    each: Iterable[Any] = corrections
    if isinstance(corrections, (pa.Table, pa.RecordBatch)):
        each = _of_table(corrections)
    for number, content in enumerate(each, 1):
        found = _of_element(content)
        yield number, json.dumps(found, default=str, ensure_ascii=False), found


def _of_file(path: Path) -> Iterator[tuple[int, str, object]]:
    try:
        if path.suffix == ".parquet":
            yield from given_corrections(pq.read_table(path))
            return
        data = path.read_bytes()
    except (OSError, pa.ArrowInvalid) as problem:
        raise StreamError(
            "the corrections cannot be read",
            where=f"{path}: {str(problem)[:200]}",
            hint=_SHAPES,
        ) from None
    for number, line in enumerate(data.split(b"\n"), 1):
        if line.strip():
            text = line.decode(errors="replace").strip()
            try:
                yield number, text, json.loads(line, parse_float=Decimal)
            except ValueError as problem:
                yield number, text, UnappliedError(f"not valid JSON: {problem}")


def _of_table(table: pa.Table | pa.RecordBatch) -> Iterator[dict[str, Any]]:
    """The rows of a table of elements, as log folders have them."""
    times = [name for name in ("kind", "start", "end", "new_end") if name in table.column_names]
    for row in table.to_pylist():
        found = {name: row.pop(name) for name in times}
        kind = found.pop("kind", None) or "insert"
        if kind == "insert":
            found.pop("new_end", None)
        yield {kind: row, **found}


def _of_element(content: object) -> object:
    match content:
        case Insert():
            return {"insert": content.payload, "start": content.start, "end": content.end}
        case Adjust():
            times = {"start": content.start, "end": content.end, "new_end": content.new_end}
            return {"adjust": content.payload, **times}
        case Stable():
            return {"stable": content.time}
    return content


def correction_line(number: int, text: str, content: object, clock: Clock) -> CorrectionLine:
    """What a correction says.

    Raises:
        UnappliedError: It is none.
    """
    if isinstance(content, UnappliedError):
        raise content
    if not isinstance(content, Mapping):
        raise UnappliedError(f"not an object; {_SHAPES}")
    kinds: list[CorrectionKind] = [
        k for k in get_args(CorrectionKind) if content.get(k) is not None
    ]
    if len(kinds) != 1:
        what = "a stable point promises, and corrects nothing" if "stable" in content else _SHAPES
        raise UnappliedError(what)
    (kind,) = kinds
    unknown = [key for key in content if key not in _KEYS[kind] and content[key] is not None]
    if unknown:
        raise UnappliedError(f"'{unknown[0]}' does not belong to '{kind}'; {_SHAPES}")
    row, changed = content[kind], content.get("with", {})
    if not isinstance(row, (Mapping, tuple)) or not isinstance(changed, Mapping):
        raise UnappliedError(f"a row must be an object with columns; {_SHAPES}")
    if kind == "replace" and not changed:
        raise UnappliedError(f"'with' is missing; {_SHAPES}")
    every = content.get("all")
    if every is not None and not isinstance(every, bool):
        raise UnappliedError(f"'all' is {every!r}, not true or false")
    end = None if content.get("end") is None else _time(content, "end", clock)
    return CorrectionLine(
        number=number,
        text=text[:200],
        kind=kind,
        row=row,
        changed=changed,
        start=_time(content, "start", clock),
        end=(FOREVER if end is None else end) if kind == "adjust" else end,
        new_end=_time(content, "new_end", clock) if kind == "adjust" else None,
        every=bool(every),
    )


def _time(content: Mapping[str, Any], key: str, clock: Clock) -> int:
    value = content.get(key)
    if value is None:
        raise UnappliedError(f"'{key}' is missing; {_SHAPES}")
    try:
        time = int(clock.instant(value))
    except AnabranchError as problem:
        raise UnappliedError(f"'{key}': {problem.what}") from None
    if not BEGINNING < time <= FOREVER or (key == "start" and time == FOREVER):
        raise UnappliedError(f"'{key}' is not an instant: {value}")
    return time


def columns_of(row: Mapping[str, Any] | tuple[Any, ...], names: Sequence[str]) -> dict[str, Any]:
    """The values of a row by column; those of a tuple are in the order of the columns.

    Raises:
        UnappliedError: It names a column that there is not.
    """
    if isinstance(row, tuple):
        if len(row) != len(names):
            raise UnappliedError(f"{len(row)} values for the columns {', '.join(names)}")
        return dict(zip(names, row, strict=True))
    for name in row:
        if name not in names:
            raise UnappliedError(f"there is no column '{name}'; columns are: {', '.join(names)}")
    return dict(row)
