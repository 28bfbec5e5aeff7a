"""Results as a table of PostgreSQL, a transaction per batch."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, final

import numpy as np
import pyarrow as pa
import pyarrow.csv as pcsv

from anabranch.errors import EngineError, PlanError
from anabranch.model.batch import EventBatch
from anabranch.model.clock import INTEGERS
from anabranch.model.files.stream_parquet import ORDER_COLUMNS
from anabranch.model.revision import Revision
from anabranch.model.time import FOREVER, Time
from anabranch.runtime.elements.elements import (
    REVISION_FIELD,
    ElementPosition,
    element_schema,
    element_table,
    revised_table,
)
from anabranch.runtime.elements.event_revisions import TouchedRows
from anabranch.runtime.elements.event_table import (
    ALWAYS,
    COPIES,
    EVENT,
    FROM,
    KNOWN_FROM,
    KNOWN_UNTIL,
    NEVER,
    PAYLOAD_HASH,
    TO,
    EventColumns,
    EventRows,
    event_schema,
)
from anabranch.runtime.sinks.postgres_table import PostgresTable, as_text
from anabranch.runtime.sinks.sinks import (
    Begin,
    ShardResult,
    Sink,
    new_revisions,
    promised_before,
    rows_of_shards,
)
from anabranch.runtime.sinks.table_changes import refuse_unrevisable, table_changes

if TYPE_CHECKING:
    import psycopg
    from psycopg import sql

_PROGRESS: Final = "anabranch_batches"
# The first day that PostgreSQL has, 24 November of 4714 BC, in microseconds.
_FIRST_INSTANT: Final = -210_866_803_200_000_000
_ADD_UP: Final = (
    "INSERT INTO {table} AS t SELECT * FROM {news} ON CONFLICT ({event}, {start}) "
    "DO UPDATE SET {copies} = t.{copies} + excluded.{copies}"
)
_REMOVE: Final = (
    "DELETE FROM {table} AS t USING {news} AS s WHERE t.{event} = s.{event} "
    "AND t.{start} = s.{start} AND t.{copies} = 0"
)


@final
class PostgresSink(Sink):
    """A batch, its revisions and their numbers are written in one transaction.

    A batch or a revision that comes again is found in the table of batches and left alone.
    """

    def __init__(self, table: PostgresTable) -> None:
        """Write to this table."""
        self._table = table
        self._begin = Begin(pa.schema([]), "", INTEGERS, True)
        self._connection: psycopg.Connection | None = None
        self._revisable = False

    def open(self, begin: Begin) -> None:
        """Create the table, or take it up.

        Raises:
            PlanError: There is a table already, and the query begins; a column has no type there.
        """
        from psycopg import sql

        self._begin = begin
        self._revisable = begin.revisable
        columns = [(field.name, self._table.column_type(field)) for field in self._schema()]
        with self._transaction() as cursor:
            cursor.execute(
                f"CREATE TABLE IF NOT EXISTS {_PROGRESS} "
                "(query text PRIMARY KEY, batch bigint NOT NULL)"
            )
            if begin.revisable:
                cursor.execute(
                    f"ALTER TABLE {_PROGRESS} "
                    "ADD COLUMN IF NOT EXISTS revision bigint NOT NULL DEFAULT 0"
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
            found_by = [TO] if self._table.keep == "current" else []
            found_by += [PAYLOAD_HASH] if begin.revisable and self._table.keep != "log" else []
            for column in found_by:
                index = sql.SQL("CREATE INDEX ON {} ({})")
                cursor.execute(index.format(self._name(), sql.Identifier(column)))
            cursor.execute(f"INSERT INTO {_PROGRESS} (query, batch) VALUES (%s, -1)", [begin.query])

    def commit(
        self,
        batch: int,
        stable: Time,
        results: Sequence[ShardResult],
        revisions: Sequence[Revision] = (),
    ) -> None:
        """Write the batch and its revisions, as far as they are not there yet."""
        with self._transaction() as cursor:
            done = self._done(cursor)
            if done is None:
                raise EngineError(
                    "the database has no record of the query",
                    where=f"{self._table.shown}, table {_PROGRESS}",
                    hint="restore the tables, or start the query with a new checkpoint and a new "
                    "table",
                )
            last = self._last_revision(cursor)
            new = new_revisions(revisions, last)
            if batch <= done and not new:
                return
            rows = EventBatch.empty(self._begin.schema)
            if batch > done:
                rows = rows_of_shards(results, self._begin.schema).with_stable(stable)
            if self._table.keep == "log":
                after = promised_before(batch, self._begin, results)
                elements = self._elements(rows, new, after, ElementPosition(batch))
                self._copy(cursor, self._name(), elements)
            else:
                changes = table_changes(
                    rows.with_stable(stable),
                    new,
                    self._form,
                    revised=last > 0,
                    read=lambda touched: self._read(cursor, touched),
                )
                self._merge(cursor, pa.Table.from_batches([changes]))
            if self._table.keep == "current":
                self._forget(cursor, stable)
            self._note(cursor, max(batch, done), new)

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

    def _note(self, cursor: psycopg.Cursor, batch: int, revisions: Sequence[Revision]) -> None:
        query = self._begin.query
        cursor.execute(f"UPDATE {_PROGRESS} SET batch = %s WHERE query = %s", [batch, query])
        if revisions:
            number = revisions[-1].number
            cursor.execute(
                f"UPDATE {_PROGRESS} SET revision = %s WHERE query = %s", [number, query]
            )

    def _last_revision(self, cursor: psycopg.Cursor) -> int:
        if not self._revisable:
            return 0
        cursor.execute(f"SELECT revision FROM {_PROGRESS} WHERE query = %s", [self._begin.query])
        (found,) = cursor.fetchone() or (0,)
        return int(found)

    def _complete(self, cursor: psycopg.Cursor) -> None:
        """A table of elements from before there were columns for something gets them.

        Raises:
            PlanError: A table of events has no columns for the revisions that may come now.
        """
        from psycopg import sql

        if self._table.keep == "log":
            add = sql.SQL("ALTER TABLE {} ADD COLUMN IF NOT EXISTS {} bigint")
            more = (REVISION_FIELD.name,) if self._revisable else ()
            for name in (*ORDER_COLUMNS, *more):
                cursor.execute(add.format(self._name(), sql.Identifier(name)))
            return
        cursor.execute(sql.SQL("SELECT * FROM {} LIMIT 0").format(self._name()))
        names = [column.name for column in cursor.description or ()]
        if self._revisable:
            refuse_unrevisable(names, f"{self._table.shown}, table {'.'.join(self._table.table)}")
        self._revisable = PAYLOAD_HASH in names

    def _elements(
        self,
        rows: EventBatch,
        revisions: Sequence[Revision],
        after: Time,
        position: ElementPosition,
    ) -> pa.Table:
        if self._revisable:
            return revised_table(rows, revisions, after=after, position=position)
        return element_table([rows], self._begin.schema, after=after, position=position)

    def _read(self, cursor: psycopg.Cursor, touched: Sequence[TouchedRows]) -> EventRows:
        """The rows of payloads in a span of time."""
        from psycopg import sql

        known = [KNOWN_FROM, KNOWN_UNTIL] if self._form.keeps_versions else []
        number = "(extract(epoch FROM {}) * 1000000)::bigint"
        time = number if self._begin.clock.timestamps else "{}"
        columns: list[sql.Composable] = [
            sql.SQL(time).format(sql.Identifier(name)) for name in (FROM, TO)
        ]
        columns += [sql.Identifier(name) for name in (PAYLOAD_HASH, COPIES, *known)]
        query = sql.SQL("SELECT {} FROM {} WHERE {}").format(
            sql.SQL(", ").join(columns),
            self._name(),
            sql.SQL(" OR ").join(sql.SQL("({})").format(self._wanted(each)) for each in touched),
        )
        found = cursor.execute(query).fetchall()
        step = (self._begin.clock.chronon or 1) if self._begin.clock.timestamps else 1
        missing = (None, FOREVER, None, None, ALWAYS, NEVER)
        values = [
            [there if value is None else int(value) for value, there in zip(row, missing)]
            for row in found
        ]
        rows = np.array(values, np.int64).reshape(len(values), 4 + len(known)).T
        end = np.where(rows[1] == FOREVER, FOREVER, rows[1] // step)
        if not known:
            return EventRows.of(rows[2], rows[0] // step, end, rows[3])
        return EventRows.of(
            rows[2], rows[0] // step, end, rows[3], known_from=rows[4], known_until=rows[5]
        )

    def _wanted(self, touched: TouchedRows) -> sql.Composable:
        from psycopg import sql

        payloads = sql.Literal(touched.payloads.tolist())
        conditions: list[sql.Composable] = [
            sql.SQL("{} = ANY ({}::bigint[])").format(sql.Identifier(PAYLOAD_HASH), payloads)
        ]
        for condition, name, time in (
            ("({0} IS NULL OR {0} >= {1})", TO, touched.first),
            ("{} < {}", FROM, touched.last),
        ):
            instant = self._instant(time)
            if instant is not None:
                conditions.append(sql.SQL(condition).format(sql.Identifier(name), instant))
        return sql.SQL(" AND ").join(conditions)

    def _instant(self, time: Time) -> sql.Composable | None:
        """An instant as the database has it; None if all of its times are on one side of it."""
        from psycopg import sql

        if not self._begin.clock.timestamps:
            return sql.Literal(int(time))
        microseconds = int(time) * (self._begin.clock.chronon or 1)
        if time == FOREVER or microseconds < _FIRST_INSTANT:
            return None
        moment = sql.SQL("'epoch'::timestamptz + {} * interval '1 microsecond'")
        return moment.format(sql.Literal(microseconds))

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

        end, instant = sql.Identifier(TO), self._instant(stable)
        if stable == FOREVER:
            over = sql.SQL("{} IS NOT NULL").format(end)
        elif instant is None:
            return
        else:
            over = sql.SQL("{} < {}").format(end, instant)
        cursor.execute(sql.SQL("DELETE FROM {} WHERE {}").format(self._name(), over))

    def _copy(self, cursor: psycopg.Cursor, name: sql.Identifier, rows: pa.Table) -> None:
        from psycopg import sql

        data = io.BytesIO()
        # Texts are quoted and NULL is not, so that an empty text stays one.
        pcsv.write_csv(as_text(rows), data, pcsv.WriteOptions(include_header=False))
        names = sql.SQL(", ").join(sql.Identifier(column) for column in rows.column_names)
        with cursor.copy(
            sql.SQL("COPY {} ({}) FROM STDIN (FORMAT csv)").format(name, names)
        ) as copy:
            copy.write(data.getbuffer())

    def _name(self) -> sql.Identifier:
        from psycopg import sql

        return sql.Identifier(*self._table.table)

    @property
    def _form(self) -> EventColumns:
        return EventColumns(self._begin.clock, self._revisable, self._table.keep == "history")

    def _schema(self) -> pa.Schema:
        if self._table.keep == "log":
            revisable = self._begin.revisable
            return element_schema(self._begin.schema, ordered=True, revisable=revisable)
        return event_schema(self._begin.schema, self._form)
