"""Elements as JSON lines: the fast way in, and the exact way to say what is wrong."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final, final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj

from anabranch.model.arrivals import Arrivals
from anabranch.model.batch import EventBatch
from anabranch.model.files.json_decode import MisfitError, from_wire, has_decimal, wire_type
from anabranch.model.files.line_parser import LineParser
from anabranch.model.files.revision_lines import revision_lines, without_revisions
from anabranch.model.revision import Revision
from anabranch.model.time import BEGINNING, FOREVER, Time, TimeArray

TIME_KEYS: Final = ("start", "end", "new_end", "stable")
_FOREVER: Final = re.compile(rb'(?<!\\)("(?:start|end|new_end|stable)"\s*:\s*)"forever"')
_BLANK: Final = re.compile(rb"\n[ \t\r]*(?:\n|[ \t\r]\Z)")
_BOUND: Final = str(FOREVER).encode()


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class LineReader:
    """Turns whole lines into arrivals.

    Attributes:
        schema: The payload columns.
        name: What errors call the source.
        strict: Refuse lifetimes that end before they start (a checker wants to see them).
    """

    schema: pa.Schema
    name: str = "stream"
    strict: bool = True

    def read(self, data: bytes, first_line: int = 1) -> Arrivals:
        """The elements in these lines.

        Raises:
            StreamError: A line is not an element of this schema.
        """
        others = without_revisions(data)
        arrivals = self._read_fast(others, first_line)
        exact = LineParser(name=self.name)
        if arrivals is None:
            arrivals = exact.read(data, self.schema, first_line)
        elif others is not data:
            arrivals = self._with_revisions(arrivals, exact, data, first_line)
        if self.strict:
            exact.refuse_reversed(arrivals, data, first_line)
        return arrivals

    def _with_revisions(
        self, arrivals: Arrivals, exact: LineParser, data: bytes, first_line: int
    ) -> Arrivals:
        """The elements of all other lines, with the revisions among them."""
        lines = list(revision_lines(data, first_line))
        revisions = self._revisions(b"\n".join(line for _, line in lines))
        if revisions is None:
            found = [exact.read(line, self.schema, number).revisions for number, line in lines]
            revisions = [revision for [revision] in found]
        return replace(
            arrivals,
            revisions=tuple(revisions),
            revision_positions=tuple(number for number, _ in lines),
        )

    def _revisions(self, data: bytes) -> list[Revision] | None:
        """One revision per line, by Arrow's own reader; None where that cannot be sure."""
        payload = wire_type(pa.struct(list(self.schema)))
        table = self._parsed(
            data,
            lambda time: pa.schema(
                [
                    ("revise", pa.int64()),
                    ("from", time),
                    ("to", time),
                    ("changes", pa.list_(pa.struct(list(_wire_schema(payload, time))))),
                ]
            ),
        )
        if table is None:
            return None
        changes = _column(table, "changes")
        numbers = _column(table, "revise")
        try:
            _demand(not changes.null_count and not numbers.null_count)
            rows = changes.flatten()
            _demand(not rows.null_count)
            found = self._arrivals(
                pa.Table.from_batches([pa.RecordBatch.from_struct_array(rows)]),
                np.arange(len(rows), dtype=np.int64),
            )
            first, last = (_times(_column(table, name)) for name in ("from", "to"))
            _demand(first[1].all() and last[1].all() and not len(found.stables))
            count = changes.value_lengths().to_numpy()
            _demand_changes(found.batch, np.repeat(first[0], count), np.repeat(last[0], count))
            _demand((numbers.to_numpy() >= 1).all() and (count > 0).all())
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, MisfitError, _UnsureError):
            return None
        bounds = np.r_[0, np.cumsum(count)].tolist()
        return [
            Revision(
                number=number,
                first=Time(int(first[0][line])),
                last=Time(int(last[0][line])),
                changes=found.batch.take(np.arange(bounds[line], bounds[line + 1])),
            )
            for line, number in enumerate(numbers.to_pylist())
        ]

    def _read_fast(self, data: bytes, first_line: int) -> Arrivals | None:
        """The same by Arrow's own reader, or None where that cannot be sure."""
        if not data or data.isspace():
            return Arrivals.of([], self.schema)
        payload = wire_type(pa.struct(list(self.schema)))
        table = self._parsed(data, lambda time: _wire_schema(payload, time))
        if table is None:
            return None
        lines = _line_numbers(data, first_line)
        if len(lines) != table.num_rows:
            return None
        try:
            return self._arrivals(table, lines)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, MisfitError, _UnsureError):
            return None

    def _parsed(self, data: bytes, wire: Callable[[pa.DataType], pa.Schema]) -> pa.Table | None:
        """The lines as a table whose schema depends on how times are written."""
        if not data.isascii() and not _is_utf8(data):
            return None
        numbers = data
        if b'"forever"' in data:
            if has_time_key(pa.struct(list(self.schema))):
                return None
            numbers = with_numbers_for_forever(data)
        table = _parse(numbers, wire(pa.int64()))
        return _parse(data, wire(pa.string())) if table is None else table

    def _arrivals(self, table: pa.Table, lines: npt.NDArray[np.int64]) -> Arrivals:
        inserts, adjusts = _column(table, "insert"), _column(table, "adjust")
        is_insert, is_adjust = _flags(inserts.is_valid()), _flags(adjusts.is_valid())
        times = {key: _times(_column(table, key)) for key in TIME_KEYS}
        is_stable = times["stable"][1]
        is_row = is_insert | is_adjust
        _demand((is_insert.astype(np.int8) + is_adjust + is_stable == 1).all())
        _demand((times["start"][1] == is_row).all())
        _demand((times["new_end"][1] == is_adjust).all())
        _demand(not (times["end"][1] & is_stable).any())
        rows = np.flatnonzero(is_row)
        start = times["start"][0][rows]
        _demand(not (start == FOREVER).any())
        written_end = np.where(times["end"][1], times["end"][0], FOREVER)[rows]
        adjusted = is_adjust[rows]
        if not adjusted.any():
            payload = inserts if len(rows) == len(inserts) else inserts.take(pa.array(rows))
        else:
            both = pa.concat_arrays([inserts, adjusts])
            payload = both.take(pa.array(np.where(adjusted, rows + len(inserts), rows)))
        stables = times["stable"][0][is_stable]
        return Arrivals(
            batch=EventBatch(
                self._payload(payload),
                start,
                np.where(adjusted, written_end, start),
                np.where(adjusted, times["new_end"][0][rows], written_end),
                Time(int(stables.max(initial=BEGINNING))),
            ),
            position=lines[rows],
            is_adjust=adjusted,
            stables=stables,
            stable_positions=lines[is_stable],
        )

    def _payload(self, rows: pa.Array) -> pa.RecordBatch:
        columns = [from_wire(rows.field(i), field.type) for i, field in enumerate(self.schema)]
        if not columns:
            return pa.RecordBatch.from_struct_array(rows)
        for column in columns:
            if has_decimal(column.type):
                # Arrow's reader lets through digits beyond the precision.
                column.validate(full=True)
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)


def with_numbers_for_forever(data: bytes) -> bytes:
    """The lines with the largest number in place of "forever", so that times are of one type."""
    if b'"forever"' not in data:
        return data
    return _FOREVER.sub(rb"\g<1>" + _BOUND, data)


def has_time_key(kind: pa.DataType) -> bool:
    """Whether a payload has a field, at any depth, that is called like a time."""
    if pa.types.is_struct(kind):
        fields = [kind.field(i) for i in range(kind.num_fields)]
        return any(field.name in TIME_KEYS or has_time_key(field.type) for field in fields)
    if pa.types.is_map(kind):
        return has_time_key(kind.key_type) or has_time_key(kind.item_type)
    return pa.types.is_nested(kind) and has_time_key(kind.value_type)


def _parse(data: bytes, wire: pa.Schema) -> pa.Table | None:
    try:
        return pj.read_json(
            pa.BufferReader(data),
            read_options=pj.ReadOptions(use_threads=False, block_size=len(data) + 1),
            parse_options=pj.ParseOptions(explicit_schema=wire, unexpected_field_behavior="error"),
        ).combine_chunks()
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return None


def _wire_schema(payload: pa.DataType, time: pa.DataType) -> pa.Schema:
    """The keys of an element."""
    times = [(key, time) for key in TIME_KEYS]
    return pa.schema([("insert", payload), ("adjust", payload), *times])


def _demand_changes(changes: EventBatch, first: TimeArray, last: TimeArray) -> None:
    """Changes are inserts and withdrawals within their revisions."""
    is_insert = changes.end == changes.start
    ends = np.where(is_insert, changes.new_end, changes.end)
    _demand((is_insert | (changes.new_end == changes.start)).all())
    _demand((ends > changes.start).all() and (changes.start >= first).all())
    _demand((ends <= last).all())


class _UnsureError(Exception):
    """Something is wrong with some line; the exact parser will say what."""


def _demand(holds: bool | np.bool_) -> None:
    if not holds:
        raise _UnsureError


def _is_utf8(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def _column(table: pa.Table, name: str) -> pa.Array:
    column = table.column(name)
    return column.chunk(0) if column.num_chunks else pa.array([], column.type)


def _flags(column: pa.Array) -> npt.NDArray[np.bool_]:
    return np.asarray(column.to_numpy(zero_copy_only=False), np.bool_)


def _times(column: pa.Array) -> tuple[TimeArray, npt.NDArray[np.bool_]]:
    """Instants out of numbers or ISO strings, and which of them are there."""
    there = _flags(column.is_valid())
    if pa.types.is_string(column.type):
        is_forever = pc.equal(column, "forever")
        text = pc.if_else(is_forever, pa.scalar(None, pa.string()), column)
        text = pc.replace_substring_regex(text, "(?i)z$", "")
        column = text.cast(pa.timestamp("us")).cast(pa.int64())
        column = pc.if_else(is_forever, pa.scalar(FOREVER, pa.int64()), column)
    return pc.fill_null(column, 0).to_numpy(), there


def _line_numbers(data: bytes, first: int) -> npt.NDArray[np.int64]:
    """The numbers of all lines that are not blank."""
    count = data.count(b"\n") + (not data.endswith(b"\n"))
    numbers = np.arange(first, first + count, dtype=np.int64)
    if data[:1] not in b"\r\n \t" and _BLANK.search(data) is None:
        return numbers
    return numbers[[bool(line.strip()) for line in data.split(b"\n")[:count]]]
