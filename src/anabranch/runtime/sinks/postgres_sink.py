"""Results as a table of PostgreSQL, a transaction per batch."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, final, get_args
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pcsv

from anabranch.errors import EngineError, PlanError
from anabranch.model.clock import INTEGERS
from anabranch.model.files.stream_parquet import ORDER_COLUMNS
from anabranch.model.time import FOREVER, Time
from anabranch.runtime.elements.elements import ElementPosition, element_schema, element_table
from anabranch.runtime.elements.event_table import (
    COPIES,
    EVENT,
    FROM,
    TO,
    event_changes,
    event_schema,
)
from anabranch.runtime.sinks.sinks import (
    Begin,
    Keep,
    ShardResult,
    Sink,
    promised_before,
    rows_of_shards,
)

if TYPE_CHECKING:
    import psycopg
    from psycopg import sql

_PROGRESS: Final = "anabranch_batches"
_HOW: Final = "postgresql://user@host/database?table=<name>&keep=log|current|history"
_ADD_UP: Final = (
    "INSERT INTO {table} AS t SELECT * FROM {news} ON CONFLICT ({event}, {start}) "
    "DO UPDATE SET {copies} = t.{copies} + excluded.{copies}"
)
_REMOVE: Final = (
    "DELETE FROM {table} AS t USING {news} AS s WHERE t.{event} = s.{event} "
    "AND t.{start} = s.{start} AND t.{copies} = 0"
)
_TYPES: Final = {
    pa.bool_(): "boolean",
    pa.int8(): "smallint",
    pa.int16(): "smallint",
    pa.int32(): "integer",
    pa.int64(): "bigint",
    pa.float32(): "real",
    pa.float64(): "double precision",
    pa.string(): "text",
    pa.binary(): "bytea",
    pa.date32(): "date",
}


@final
@dataclass(frozen=True, slots=True)
class PostgresTable:
    """Where results go; `address` may hold a password and is never shown."""

    address: str
    shown: str
    table: tuple[str, ...]
    keep: Keep

    @staticmethod
    def parse(to: str) -> PostgresTable:
        """What `postgresql://host/database?table=name&keep=current` means.

        >>> place = PostgresTable.parse("postgresql://ann:secret@db/shop?table=sales.top")
        >>> place.shown, place.table, place.keep
        ('postgresql://db/shop', ('sales', 'top'), 'log')

        Raises:
            PlanError: The table is not named, or there is no such kind of table.
        """
        parts = urlsplit(to)
        options = dict(parse_qsl(parts.query))
        shown = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"
        table = tuple(options.pop("table", "").split("."))
        if not all(table):
            raise PlanError("the name of the table is missing", where=shown, hint=_HOW)
        keep = options.pop("keep", "log")
        for choice in get_args(Keep):
            if keep == choice:
                address = urlunsplit(parts._replace(query=urlencode(options)))
                return PostgresTable(address, shown, table, choice)
        raise PlanError(f"a table cannot keep '{keep}'", where=shown, hint=_HOW)


@final
class PostgresSink(Sink):
    """A batch and its number are written in one transaction.

    A batch that comes again is found in the table of batches and left alone.
    """

    def __init__(self, table: PostgresTable) -> None:
        """Write to this table."""
        self._table = table
        self._begin = Begin(pa.schema([]), "", INTEGERS, True)
        self._connection: psycopg.Connection | None = None

    def open(self, begin: Begin) -> None:
        """Create the table, or take it up.

        Raises:
            PlanError: There is a table already, and the query begins; a column has no type there.
        """
        from psycopg import sql

        self._begin = begin
        columns = [(field.name, self._type(field)) for field in self._schema()]
        with self._transaction() as cursor:
            cursor.execute(
                f"CREATE TABLE IF NOT EXISTS {_PROGRESS} "
                "(query text PRIMARY KEY, batch bigint NOT NULL)"
            )
            if self._done(cursor) is not None:
                self._complete(cursor)
                return
            cursor.execute("SELECT to_regclass(%s)", [self._name().as_string(cursor)])
            (there,) = cursor.fetchone() or (None,)
            if there is not None:
                raise PlanError(
                    "the table already exists",
                    where=f"{self._table.shown}, table {'.'.join(self._table.table)}",
                    hint="choose another name, or continue with the checkpoint of the query that "
                    "wrote it",
                )
            defined = [sql.SQL("{} " + kind).format(sql.Identifier(name)) for name, kind in columns]
            if self._table.keep != "log":
                key = sql.SQL(", ").join([sql.Identifier(EVENT), sql.Identifier(FROM)])
                defined.append(sql.SQL("PRIMARY KEY ({})").format(key))
            create = sql.SQL("CREATE TABLE {} ({})")
            cursor.execute(create.format(self._name(), sql.SQL(", ").join(defined)))
            if self._table.keep == "current":
                index = sql.SQL("CREATE INDEX ON {} ({})")
                cursor.execute(index.format(self._name(), sql.Identifier(TO)))
            cursor.execute(f"INSERT INTO {_PROGRESS} VALUES (%s, -1)", [begin.query])

    def commit(self, batch: int, stable: Time, results: Sequence[ShardResult]) -> None:
        """Write the batch, if it is not there yet."""
        rows = rows_of_shards(results, self._begin.schema).with_stable(stable)
        with self._transaction() as cursor:
            done = self._done(cursor)
            if done is None:
                raise EngineError(
                    "the database has no record of the query",
                    where=f"{self._table.shown}, table {_PROGRESS}",
                    hint="restore the tables, or start the query with a new checkpoint and a new "
                    "table",
                )
            if batch <= done:
                return
            if self._table.keep == "log":
                after = promised_before(batch, self._begin, results)
                position = ElementPosition(batch)
                found = element_table([rows], self._begin.schema, after=after, position=position)
                self._copy(cursor, self._name(), found)
            else:
                changes = event_changes(rows, clock=self._begin.clock)
                self._merge(cursor, pa.Table.from_batches([changes]))
            if self._table.keep == "current":
                self._forget(cursor, stable)
            cursor.execute(
                f"UPDATE {_PROGRESS} SET batch = %s WHERE query = %s", [batch, self._begin.query]
            )

    def close(self) -> None:
        """Let go of the connection."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    @contextmanager
    def _transaction(self) -> Iterator[psycopg.Cursor]:
        import psycopg

        try:
            if self._connection is None or self._connection.closed:
                self._connection = psycopg.connect(self._table.address)
            with self._connection.transaction(), self._connection.cursor() as cursor:
                yield cursor
        except psycopg.Error as problem:
            raise EngineError(
                f"PostgreSQL rejects it: {str(problem).strip().splitlines()[0]}",
                where=f"{self._table.shown}, table {'.'.join(self._table.table)}",
                hint="correct it and start the query again: the batch is repeated",
            ) from None

    def _done(self, cursor: psycopg.Cursor) -> int | None:
        """The last batch that is there; nobody else writes until this transaction ends."""
        cursor.execute(
            f"SELECT batch FROM {_PROGRESS} WHERE query = %s FOR UPDATE", [self._begin.query]
        )
        found = cursor.fetchone()
        return None if found is None else int(found[0])

    def _complete(self, cursor: psycopg.Cursor) -> None:
        """A table of elements from before there were columns that tell the order gets them."""
        from psycopg import sql

        if self._table.keep == "log":
            add = sql.SQL("ALTER TABLE {} ADD COLUMN IF NOT EXISTS {} bigint")
            for name in ORDER_COLUMNS:
                cursor.execute(add.format(self._name(), sql.Identifier(name)))

    def _merge(self, cursor: psycopg.Cursor, changes: pa.Table) -> None:
        from psycopg import sql

        news = sql.Identifier("anabranch_changes")
        create = sql.SQL("CREATE TEMPORARY TABLE {} (LIKE {}) ON COMMIT DROP")
        cursor.execute(create.format(news, self._name()))
        self._copy(cursor, news, changes)
        names = {
            "table": self._name(),
            "news": news,
            "event": sql.Identifier(EVENT),
            "start": sql.Identifier(FROM),
            "copies": sql.Identifier(COPIES),
        }
        for statement in (_ADD_UP, _REMOVE):
            cursor.execute(sql.SQL(statement).format(**names))

    def _forget(self, cursor: psycopg.Cursor, stable: Time) -> None:
        """An event that ended before the stable point never changes again."""
        from psycopg import sql

        end = sql.Identifier(TO)
        if stable == FOREVER:
            over = sql.SQL("{} IS NOT NULL").format(end)
        elif self._begin.clock.timestamps:
            over = sql.SQL("{} < 'epoch'::timestamptz + {} * interval '1 microsecond'").format(
                end, sql.Literal(int(stable) * (self._begin.clock.chronon or 1))
            )
        else:
            over = sql.SQL("{} < {}").format(end, sql.Literal(int(stable)))
        cursor.execute(sql.SQL("DELETE FROM {} WHERE {}").format(self._name(), over))

    def _copy(self, cursor: psycopg.Cursor, name: sql.Identifier, rows: pa.Table) -> None:
        from psycopg import sql

        data = io.BytesIO()
        # Texts are quoted and NULL is not, so that an empty text stays one.
        pcsv.write_csv(_as_text(rows), data, pcsv.WriteOptions(include_header=False))
        names = sql.SQL(", ").join(sql.Identifier(column) for column in rows.column_names)
        with cursor.copy(
            sql.SQL("COPY {} ({}) FROM STDIN (FORMAT csv)").format(name, names)
        ) as copy:
            copy.write(data.getbuffer())

    def _name(self) -> sql.Identifier:
        from psycopg import sql

        return sql.Identifier(*self._table.table)

    def _schema(self) -> pa.Schema:
        if self._table.keep == "log":
            return element_schema(self._begin.schema, ordered=True)
        return event_schema(self._begin.schema, clock=self._begin.clock)

    def _type(self, field: pa.Field) -> str:
        kind = field.type
        found = _TYPES.get(kind)
        if found is None and pa.types.is_timestamp(kind):
            found = "timestamp" if kind.tz is None else "timestamptz"
        if found is None and pa.types.is_decimal(kind):
            found = f"numeric({kind.precision}, {kind.scale})"
        if found is None:
            raise PlanError(
                f"column '{field.name}' holds {kind}, which has no column type in PostgreSQL",
                where=self._table.shown,
                hint="cast it to a string or a number in the query",
            )
        return found


def _as_text(rows: pa.Table) -> pa.Table:
    """Binary values in the way PostgreSQL reads them."""
    for position, field in enumerate(rows.schema):
        if pa.types.is_binary(field.type):
            digits = pa.chunked_array(
                [_hex(each) for each in rows.column(position).chunks], pa.string()
            )
            rows = rows.set_column(
                position, field.name, pc.binary_join_element_wise("\\x", digits, "")
            )
    return rows


def _hex(column: pa.Array) -> pa.Array:
    """Two digits per byte: those of all values at once, then cut."""
    valid, offsets, data = column.buffers()
    digits = (data or pa.py_buffer(b"")).to_pybytes().hex().encode()
    ends = np.frombuffer(offsets, np.int32)[: column.offset + len(column) + 1] * 2
    buffers = [valid, pa.py_buffer(ends.astype(np.int32)), pa.py_buffer(digits)]
    return pa.Array.from_buffers(pa.string(), len(column), buffers, offset=column.offset)
