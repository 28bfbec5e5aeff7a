"""Results as a Delta table: all elements, the events that are not over, or all events."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from functools import reduce
from typing import Final, final, get_args

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake

from anabranch.errors import EngineError, PlanError
from anabranch.model.batch import EventBatch
from anabranch.model.clock import INTEGERS
from anabranch.model.revision import Revision
from anabranch.model.time import BEGINNING, FOREVER, Time
from anabranch.runtime.elements.elements import (
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
    Numbers,
    event_schema,
)
from anabranch.runtime.sinks.sinks import (
    Begin,
    Keep,
    ShardResult,
    Sink,
    new_revisions,
    promised_before,
    rows_of_shards,
)
from anabranch.runtime.sinks.table_changes import refuse_unrevisable, table_changes

_TIMES: Final = (FROM, TO)


def parse_delta(to: str) -> tuple[str, Keep]:
    """What `delta:<path>` and `delta:<path>#current` mean.

    >>> parse_delta("delta:out/table"), parse_delta("delta:s3://bucket/t#history")
    (('out/table', 'log'), ('s3://bucket/t', 'history'))

    Raises:
        PlanError: There is no path, or no such kind of table.
    """
    path, _, keep = to.removeprefix("delta:").partition("#")
    for choice in get_args(Keep):
        if path and (keep or "log") == choice:
            return path, choice
    raise PlanError(
        "the path of the Delta table is missing" if not path else f"unknown '#{keep}'",
        where=f"to='{to}'",
        hint="write delta:<path> for all elements, delta:<path>#current for the events that are "
        "not over, delta:<path>#history for all events",
    )


@final
class DeltaSink(Sink):
    """One transaction per batch, with the query and the number of the batch in it.

    Revisions are written in the transaction of their batch, which then also has the number of the
    last one. A batch or a revision that comes again is found in the table and left alone.
    """

    def __init__(self, path: str, keep: Keep) -> None:
        """Write to the table at this path or URI."""
        self.path = path
        self._keep = keep
        self._begin = Begin(pa.schema([]), "", INTEGERS, True)
        self._stable = BEGINNING
        self._revisable = False

    def open(self, begin: Begin) -> None:
        """Create the table, or take it up.

        Raises:
            PlanError: There is a table already, and the query begins.
        """
        self._begin = begin
        self._revisable = begin.revisable
        schema = self._schema()
        if not DeltaTable.is_deltatable(self.path):
            DeltaTable.create(
                self.path,
                schema,
                description=f"anabranch {self._keep}",
                configuration={"delta.setTransactionRetentionDuration": "interval 365 days"},
                commit_properties=self._transaction(-1),
            )
            return
        table = DeltaTable(self.path)
        if table.transaction_version(begin.query) is None:
            raise PlanError(
                "the Delta table belongs to another query",
                where=self.path,
                hint="choose another path, or continue with the checkpoint of the query that "
                "wrote the table",
            )
        names = [field.name for field in table.schema().fields]
        if self._keep != "log":
            if begin.revisable:
                refuse_unrevisable(names, self.path)
            self._revisable = PAYLOAD_HASH in names

    def commit(
        self,
        batch: int,
        stable: Time,
        results: Sequence[ShardResult],
        revisions: Sequence[Revision] = (),
    ) -> None:
        """Write the batch, if it is not there yet."""
        table = DeltaTable(self.path)
        done = table.transaction_version(self._begin.query)
        if done is None:
            raise EngineError(
                "the Delta table has no record of the query",
                where=self.path,
                hint="the table was replaced; restore it, or start the query with a new "
                "checkpoint and a new table",
            )
        last = table.transaction_version(self._revisions) or 0
        new = new_revisions(revisions, last)
        if batch > done or new:
            rows = EventBatch.empty(self._begin.schema)
            if batch > done:
                rows = rows_of_shards(results, self._begin.schema).with_stable(stable)
            numbers = [revision.number for revision in new]
            transaction = self._transaction(max(batch, done), max(numbers, default=0))
            if self._keep == "log":
                position = ElementPosition(batch)
                after = promised_before(batch, self._begin, results)
                self._append(table, self._elements(rows, new, after, position), transaction)
            else:
                changes = table_changes(
                    rows.with_stable(stable),
                    new,
                    self._form,
                    revised=last > 0,
                    read=lambda touched: self._read(table, touched),
                )
                self._merge(table, changes, transaction)
        # A transaction of its own: if the query was killed before it, the batch comes again, is
        # found in the table, and only what is over is left to remove.
        if self._keep == "current" and stable > self._stable:
            self._forget(table, stable)
            self._stable = stable

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

    def _append(self, table: DeltaTable, found: pa.Table, done: CommitProperties) -> None:
        there = {field.name for field in table.schema().fields}
        # A table from before there were columns that tell the order, or revisions, gets them now.
        older = not there.issuperset(found.column_names)
        write_deltalake(
            table,
            found,
            mode="append",
            schema_mode="merge" if older else None,
            commit_properties=done,
        )

    def _merge(self, table: DeltaTable, changes: pa.RecordBatch, done: CommitProperties) -> None:
        total = f"t.{COPIES} + s.{COPIES}"
        merged = (
            table.merge(
                pa.Table.from_batches([changes]),
                f"t.{EVENT} = s.{EVENT} AND t.{FROM} = s.{FROM}",
                source_alias="s",
                target_alias="t",
                commit_properties=done,
            )
            .when_matched_update({COPIES: total}, predicate=f"{total} <> 0")
            .when_matched_delete(predicate=f"{total} = 0")
            .when_not_matched_insert_all()
        )
        merged.execute()

    def _read(self, table: DeltaTable, touched: Sequence[TouchedRows]) -> EventRows:
        """The rows of payloads in a span of time."""
        names = [PAYLOAD_HASH, FROM, TO, COPIES]
        names += [KNOWN_FROM, KNOWN_UNTIL] if self._form.keeps_versions else []
        wanted = reduce(operator.or_, map(self._wanted, touched))
        found = table.to_pyarrow_table(columns=names, filters=wanted).combine_chunks()
        clock = self._begin.clock
        step = (clock.chronon or 1) if clock.timestamps else 1

        def numbers(name: str, missing: int) -> Numbers:
            if name not in found.column_names:
                return np.full(len(found), missing, np.int64)
            column = pc.fill_null(found.column(name).cast(pa.int64()), missing)
            values: Numbers = column.to_numpy()
            return (
                np.where(values == missing, missing, values // step) if name in _TIMES else values
            )

        return EventRows(
            payload=numbers(PAYLOAD_HASH, 0),
            start=numbers(FROM, FOREVER),
            end=numbers(TO, FOREVER),
            known_from=numbers(KNOWN_FROM, ALWAYS),
            known_until=numbers(KNOWN_UNTIL, NEVER),
            copies=numbers(COPIES, 0),
        )

    def _wanted(self, touched: TouchedRows) -> pc.Expression:
        first, last = self._begin.clock.column(np.array([touched.first, touched.last], np.int64))
        payload = pc.field(PAYLOAD_HASH).isin(pa.array(touched.payloads))
        ends = pc.field(TO).is_null() | (pc.field(TO) >= first)
        return payload & ends & (pc.field(FROM) < last)

    def _forget(self, table: DeltaTable, stable: Time) -> None:
        """An event that ended before the stable point never changes again."""
        if stable == FOREVER:
            over = f"{TO} IS NOT NULL"
        elif self._begin.clock.timestamps:
            kind = 'Timestamp(Microsecond, Some("UTC"))'
            over = f"{TO} < arrow_cast({int(stable) * (self._begin.clock.chronon or 1)}, '{kind}')"
        else:
            over = f"{TO} < {int(stable)}"
        table.delete(over)

    @property
    def _form(self) -> EventColumns:
        return EventColumns(self._begin.clock, self._revisable, self._keep == "history")

    @property
    def _revisions(self) -> str:
        """What the transactions of revisions are of."""
        return f"{self._begin.query}/revisions"

    def _schema(self) -> pa.Schema:
        if self._keep == "log":
            clock, revisable = self._begin.clock, self._begin.revisable
            return element_schema(
                self._begin.schema, ordered=True, clock=clock, revisable=revisable
            )
        return event_schema(self._begin.schema, self._form)

    def _transaction(self, batch: int, revision: int = 0) -> CommitProperties:
        done = [Transaction(app_id=self._begin.query, version=batch)]
        done += [Transaction(app_id=self._revisions, version=revision)] if revision else []
        return CommitProperties(app_transactions=done)
