"""From corrections that name rows to elements: which row is meant, and what is to be told of it.

`replace` and `delete` name a row by its start and some of its columns. It must be exactly one of
the rows that the source has, as corrected so far, or with `all` at least one; then it is withdrawn,
and `replace` inserts the row that takes its place. What cannot be applied goes into quarantine, and
the rest goes on.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Any, Final, final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from anabranch.model.batch import EventBatch
from anabranch.model.coarser import chronon_of_time
from anabranch.model.files.json_decode import MisfitError, decode_value
from anabranch.model.netting import net
from anabranch.model.numbers.hashing import stable_hashes
from anabranch.model.time import FOREVER, Time
from anabranch.runtime.revisions.archived_sources import ArchivedSource
from anabranch.runtime.revisions.correction_lines import CorrectionLine, UnappliedError, columns_of
from anabranch.runtime.sources.rows import instants

_JSON: Final = (str, int, float, Decimal, bool, list, dict)


@final
class Resolver:
    """The rows of a source at some instants, and the corrections that have been found for them."""

    def __init__(
        self, source: ArchivedSource, schema: pa.Schema, rows: EventBatch, oldest: Time
    ) -> None:
        """Begin with rows of the archive.

        Args:
            source: The source.
            schema: Its payload columns.
            rows: All moves of events that start at an instant which corrections name.
            oldest: From this instant on the archive is complete.
        """
        self._source = source
        self._schema = schema
        self._oldest = oldest
        self._found: list[EventBatch] = []
        order = np.argsort(rows.start, kind="stable")
        starts, first = np.unique(rows.start[order], return_index=True)
        groups = np.split(order, first[1:])
        self._rows = {int(s): [rows.take(own)] for s, own in zip(starts, groups)}

    @property
    def corrections(self) -> EventBatch:
        """All that was found so far, in as few moves as possible."""
        return net(EventBatch.concat([EventBatch.empty(self._schema), *self._found]))

    def take(self, line: CorrectionLine) -> None:
        """Find out what a correction changes; later ones see that it did.

        Raises:
            UnappliedError: It names no row, or several, or is not one of this source.
        """
        if line.kind == "insert":
            self._add(self._inserted(self._typed(line.row, whole=True), line.start, line.end))
        elif line.kind == "adjust":
            self._add(self._adjusted(line))
        else:
            old = self._named(line)
            moves = [old.with_ends(old.new_end, old.start)]
            if line.kind == "replace":
                each = (old.take(np.array([index])) for index in range(len(old)))
                moves += [self._replaced(one, line) for one in each]
            self._add(EventBatch.concat(moves))

    def _add(self, moves: EventBatch) -> None:
        self._found.append(moves)
        for start in np.unique(moves.start).tolist():
            own = moves.where(moves.start == start)
            self._rows.setdefault(start, []).append(own)

    def _events(self, start: int) -> EventBatch:
        """The rows that start at an instant, as they are now; each once per copy."""
        rows = self._rows.get(start, [])
        moves = net(EventBatch.concat([EventBatch.empty(self._schema), *rows]))
        return moves.where((moves.end == moves.start) & (moves.new_end > moves.start))

    def _named(self, line: CorrectionLine) -> EventBatch:
        """The row that a correction means, or the rows."""
        row = self._typed(line.row)
        events = self._events(line.start)
        events = events.where(self._equal(events, row))
        if len(events) == 1 or (line.every and len(events)):
            return events
        if not len(events):
            raise UnappliedError(f"there is no such row{self._since(line.start)}")
        if _are_equal(events):
            raise UnappliedError(
                f'{len(events)} rows are equal: add "all": true to {line.kind} all of them, or '
                "withdraw one with an adjust"
            )
        raise UnappliedError(
            f'{len(events)} rows are like that: name more of their columns, or add "all": true to '
            f"{line.kind} all of them"
        )

    def _adjusted(self, line: CorrectionLine) -> EventBatch:
        assert line.end is not None
        assert line.new_end is not None
        events = self._events(line.start)
        row = self._typed(line.row, whole=True)
        own = events.where(self._equal(events, row) & (events.new_end == line.end))
        if not len(own):
            raise UnappliedError(f"there is no such event{self._since(line.start)}")
        if line.new_end < line.start:
            raise UnappliedError("the lifetime ends before it starts")
        if self._source.only_points and line.new_end != line.start:
            raise UnappliedError("rows of this source are points: they can only be withdrawn")
        one = own.take(np.arange(1))
        return one.with_ends(one.new_end, np.array([line.new_end], np.int64))

    def _inserted(self, row: Mapping[str, Any], start: int, end: int | None) -> EventBatch:
        """A new row; a column with its start or end says the same as its lifetime."""
        if end is None:
            end = start + 1 if self._source.only_points else int(FOREVER)
        if end <= start:
            raise UnappliedError("the lifetime ends before it starts")
        if self._source.only_points and end != start + 1:
            raise UnappliedError("rows of this source are points: leave the end out")
        row = dict(row)
        for column, time in ((self._source.start, start), (self._source.end, end)):
            if column is not None and row.get(column) is None and time != FOREVER:
                row[column] = self._value_of_time(column, time)
        payload = self._payload(row)
        if self._times(payload, start, end) != (start, end):
            raise UnappliedError("the columns with its times say something else than start and end")
        at = np.array([start], np.int64)
        return EventBatch(payload, at, at, np.array([end], np.int64))

    def _replaced(self, old: EventBatch, line: CorrectionLine) -> EventBatch:
        """The row that takes the place of another; new times in its columns move it."""
        changed = self._typed(line.changed)
        row = {**old.payload.to_pylist()[0], **changed}
        start, end = int(old.start[0]), int(old.new_end[0])
        start, end = self._times(self._payload(row), start, end)
        return self._inserted(row, start, end)

    def _typed(
        self, row: Mapping[str, Any] | tuple[Any, ...], *, whole: bool = False
    ) -> dict[str, Any]:
        """The values as the columns have them; with `whole` what is not named is NULL."""
        given = columns_of(row, self._schema.names)
        fields = [each for each in self._schema if whole or each.name in given]
        return {each.name: _value(given.get(each.name), each) for each in fields}

    def _payload(self, row: Mapping[str, Any]) -> pa.RecordBatch:
        arrays = [pa.array([row.get(each.name)], each.type) for each in self._schema]
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)

    def _equal(self, events: EventBatch, row: Mapping[str, Any]) -> npt.NDArray[np.bool_]:
        """Which events have these values; NULL equals NULL."""
        if not row:
            return np.ones(len(events), np.bool_)
        wanted = [pa.array([row[name]], self._schema.field(name).type) for name in row]
        there = [events.payload.column(name) for name in row]
        both = stable_hashes(there, len(events), (0, 1)), stable_hashes(wanted, 1, (0, 1))
        found: npt.NDArray[np.bool_] = (both[0] == both[1]).all(axis=0)
        return found

    def _times(self, payload: pa.RecordBatch, start: int, end: int) -> tuple[int, int]:
        """The lifetime of a row by its columns; what they do not say stays as it is."""
        found = [start, end]
        for at, column in enumerate((self._source.start, self._source.end)):
            if column is None:
                continue
            times, there = instants(payload, column, where=self._source.name)
            if there[0]:
                time = Time(int(times[0]))
                found[at] = int(chronon_of_time(time, self._source.promise.step))
        if self._source.only_points:
            found[1] = found[0] + 1
        return found[0], found[1]

    def _value_of_time(self, column: str, time: int) -> Any:
        kind = self._schema.field(column).type
        number = pa.array([time * self._source.promise.step], pa.int64())
        if pa.types.is_integer(kind):
            return number.cast(kind)[0].as_py()
        return number.cast(pa.timestamp("us")).cast(pa.timestamp("us", tz="UTC")).cast(kind)[0]

    def _since(self, start: int) -> str:
        """What to add where the archive does not go back so far."""
        if start >= self._oldest:
            return ""
        clock = self._source.promise.clock
        return f": the archive begins at {clock.format(self._oldest)}"


def _are_equal(events: EventBatch) -> bool:
    """Whether events are copies of one: nothing but their number tells them apart."""
    times = pa.array(events.new_end)
    hashes = stable_hashes([*events.payload.columns, times], len(events), (0, 1))
    return bool((hashes == hashes[:, :1]).all())


def _value(value: Any, of: pa.Field) -> Any:
    """A value as JSON or Python has it, as the one of a column."""
    try:
        if value is None or type(value) in _JSON:
            return decode_value(value, of.type, of.name)
        return pa.scalar(value, of.type).as_py()
    except (MisfitError, pa.ArrowException, ValueError, TypeError) as problem:
        raise UnappliedError(str(problem).splitlines()[0]) from None


def starts_of(lines: Iterable[CorrectionLine]) -> list[int]:
    """The instants at which corrections name rows, in order."""
    return sorted({each.start for each in lines if each.kind != "insert"})
