"""What query text means, found without our language: windows by definition, the rest by DuckDB."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, TypeAlias, final

import duckdb

from anabranch.algebra.count_window import order_key
from anabranch.model.logical import LogicalStream
from anabranch.model.payload import Payload, freeze
from anabranch.testing.sql.text import AxisSpec, FromEntry, Query, WindowSpec, entries, plain

Snapshots: TypeAlias = Mapping[int, Counter[Payload]]
"""What holds at each instant; nothing at instants that are not there."""

_TYPES: Final = {"int": "BIGINT", "float": "DOUBLE", "text": "VARCHAR", "bool": "BOOLEAN"}


@final
class Instants:
    """Answers to queries at instants, given what streams mean.

    Times are looked at from `low` up to `high`: nothing may hold before `low`, and what is said
    about the last instants may be wrong where a query looks ahead.
    """

    def __init__(
        self,
        streams: Mapping[str, LogicalStream],
        low: int,
        high: int,
    ) -> None:
        """Over some streams."""
        self._span = range(low, high)
        self._streams = {
            name: {t: stream.snapshot(t) for t in self._span} for name, stream in streams.items()
        }
        self._answers: dict[int, tuple[Query, Snapshots]] = {}
        self._tables: dict[int, tuple[FromEntry, str, Snapshots]] = {}
        self._connection = duckdb.connect(config={"threads": 1})
        # Some comparisons of a CASE with a column end in an internal error of its optimizer.
        self._connection.execute("PRAGMA disable_optimizer")
        self._connection.execute("SET order_by_non_integer_literal = true")

    def close(self) -> None:
        """Let go of what was computed."""
        self._connection.close()

    def answer(self, query: Query, most: int | None = None) -> Snapshots:
        """The answer of a query at every instant, or where at `most` so many are computed."""
        if id(query) in self._answers:
            return self._answers[id(query)][1]
        tables = {self._table(entry)[0]: self._table(entry)[1] for entry in entries(query)}
        run = self._prepared(query, len(self._answers))
        found: dict[int, Counter[Payload]] = {}
        results: dict[Any, Counter[Payload]] = {}
        contents = {
            t: tuple(frozenset(rows.get(t, Counter()).items()) for rows in tables.values())
            for t in self._span
        }
        different = list(dict.fromkeys(contents.values()))
        chosen = different if most is None else different[:: -(-len(different) // most)]
        for t, content in contents.items():
            if content not in results and content in chosen:
                results[content] = run(t)
            if content in results:
                found[t] = results[content]
        if most is None:
            self._answers[id(query)] = (query, found)
        return found

    def _prepared(self, query: Query, number: int) -> Callable[[int], Counter[Payload]]:
        sql = plain(query, lambda entry: self._table(entry)[0])
        self._connection.execute(f"PREPARE q{number} AS {sql}")

        def run(t: int) -> Counter[Payload]:
            self._connection.execute(f"EXECUTE q{number}({t})")
            return Counter(freeze(row) for row in self._connection.fetchall())

        return run

    def _table(self, entry: FromEntry) -> tuple[str, Snapshots]:
        """A table in parentheses that has the rows of an entry at the instant `$1`."""
        if id(entry) not in self._tables:
            rows = self._rows(entry)
            name = f"rows_{len(self._tables)}"
            columns = ", ".join(f'"{each.name}"' for each in entry.columns)
            declared = ", ".join(f'"{each.name}" {_TYPES[each.kind]}' for each in entry.columns)
            self._connection.execute(f"CREATE TEMP TABLE {name} (instant BIGINT, {declared})")
            values = [(t, *row) for t, snapshot in rows.items() for row in snapshot.elements()]
            if values:
                marks = ", ".join("?" * (len(entry.columns) + 1))
                self._connection.executemany(f"INSERT INTO {name} VALUES ({marks})", values)
            table = f"(SELECT {columns} FROM {name} WHERE instant = $1)"
            self._tables[id(entry)] = (entry, table, rows)
        return self._tables[id(entry)][1:]

    def _rows(self, entry: FromEntry) -> Snapshots:
        """What an entry of FROM holds at every instant."""
        base = entry.base
        rows = self._streams[base] if isinstance(base, str) else self.answer(base)
        names = [column.name for column in entry.columns]
        if entry.change is not None:
            rows = _changed(rows, entry.change, self._span)
        if entry.axis is not None:
            rows = _with_axis(rows, entry.axis, names, self._span)
        if entry.window is not None:
            rows = _held(rows, entry.window, names, self._span)
        if entry.granule > 1:
            rows = {t: rows.get(t - t % entry.granule, Counter()) for t in self._span}
        return rows


def _changed(rows: Snapshots, change: str, span: range) -> Snapshots:
    """Istream at t: what t has and t - 1 has not; Dstream: what t has and t + 1 has not."""
    if change == "Rstream":
        return rows
    step = -1 if change == "Istream" else 1
    nothing = Counter[Payload]()
    return {t: rows.get(t, nothing) - rows.get(t + step, nothing) for t in span}


def _held(rows: Snapshots, window: WindowSpec, names: list[str], span: range) -> Snapshots:
    if window.unit == "RANGE":
        return _held_by_time(rows, window.size, window.slide, span)
    indexes = [names.index(name) for name in window.partition_by]
    groups: dict[Payload, list[tuple[int, Payload]]] = defaultdict(list)
    for t in span:
        for row in rows.get(t, Counter()).elements():
            groups[tuple(row[index] for index in indexes)].append((t, row))
    found: dict[int, Counter[Payload]] = {t: Counter() for t in span}
    ties = [names.index(name) for name in window.order_by]
    for elements in groups.values():
        elements.sort(key=lambda e: (e[0], *(order_key(e[1][p]) for p in ties), _order(e[1])))
        for t in span:
            seen = sum(u <= t for u, _ in elements)
            last = seen // window.slide * window.slide
            first = 0 if window.size is None else max(last - window.size, 0)
            found[t].update(row for _, row in elements[first:last])
    return found


def _held_by_time(rows: Snapshots, size: int | None, slide: int, span: range) -> Snapshots:
    """At t, what was seen up to the last slide instant h, and not before h - size + 1."""
    found: dict[int, Counter[Payload]] = {}
    for t in span:
        last = (t + 1) // slide * slide - 1
        first = span.start if size is None else max(last - size + 1, span.start)
        found[t] = Counter()
        for u in range(first, last + 1):
            found[t] += rows.get(u, Counter())
    return found


def _with_axis(rows: Snapshots, axis: AxisSpec, names: list[str], span: range) -> Snapshots:
    """The rows of a window with its first instant and the first one behind it."""
    if axis.function == "SESSION":
        indexes = [names.index(name) for name in axis.partition_by]
        return _sessions(rows, axis.size, indexes, span)
    slide = axis.slide if axis.function == "HOP" else axis.size
    held = _held_by_time(rows, axis.size, slide, span)
    found: dict[int, Counter[Payload]] = {}
    for t in span:
        end = (t + 1) // slide * slide
        found[t] = Counter()
        for row, count in held[t].items():
            found[t][(*row, end - axis.size, end)] += count
    return found


def _sessions(rows: Snapshots, gap: int, indexes: list[int], span: range) -> Snapshots:
    """Points less than `gap` apart are in one session, and hold for all of it."""
    groups: dict[Payload, dict[int, Counter[Payload]]] = defaultdict(dict)
    for t in span:
        for row, count in rows.get(t, Counter()).items():
            group = groups[tuple(row[index] for index in indexes)]
            group.setdefault(t, Counter())[row] += count
    found: dict[int, Counter[Payload]] = {t: Counter() for t in span}
    for points in groups.values():
        for session in _chains(list(points), gap):
            start, end = session[0], session[-1] + gap
            for u in session:
                for row, count in points[u].items():
                    for t in range(start, min(end, span.stop)):
                        found[t][(*row, start, end)] += count
    return found


def _chains(times: list[int], gap: int) -> Iterator[list[int]]:
    chain: list[int] = []
    for t in times:
        if chain and t - chain[-1] >= gap:
            yield chain
            chain = []
        chain.append(t)
    if chain:
        yield chain


def _order(row: Payload) -> tuple[Any, ...]:
    return tuple(order_key(value) for value in row)
