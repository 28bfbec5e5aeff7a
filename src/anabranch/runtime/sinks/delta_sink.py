"""Results as a Delta table: all elements, the events that are not over, or all events."""

from __future__ import annotations

from collections.abc import Sequence
from typing import final, get_args

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake

from anabranch.errors import EngineError, PlanError
from anabranch.model.batch import EventBatch
from anabranch.model.clock import INTEGERS
from anabranch.model.files.stream_parquet import ORDER_COLUMNS
from anabranch.model.time import BEGINNING, FOREVER, Time
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

    A batch that comes again is found in the table and left alone.
    """

    def __init__(self, path: str, keep: Keep) -> None:
        """Write to the table at this path or URI."""
        self.path = path
        self._keep = keep
        self._begin = Begin(pa.schema([]), "", INTEGERS, True)
        self._stable = BEGINNING

    def open(self, begin: Begin) -> None:
        """Create the table, or take it up.

        Raises:
            PlanError: There is a table already, and the query begins.
        """
        self._begin = begin
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
        done = DeltaTable(self.path).transaction_version(begin.query)
        if done is None:
            raise PlanError(
                "the Delta table belongs to another query",
                where=self.path,
                hint="choose another path, or continue with the checkpoint of the query that "
                "wrote the table",
            )

    def commit(self, batch: int, stable: Time, results: Sequence[ShardResult]) -> None:
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
        if batch > done:
            rows = rows_of_shards(results, self._begin.schema).with_stable(stable)
            if self._keep == "log":
                self._append(table, rows, batch, promised_before(batch, self._begin, results))
            else:
                changes = event_changes(rows, clock=self._begin.clock)
                self._merge(table, changes, batch)
        # A transaction of its own: if the query was killed before it, the batch comes again, is
        # found in the table, and only what is over is left to remove.
        if self._keep == "current" and stable > self._stable:
            self._forget(table, stable)
            self._stable = stable

    def _append(self, table: DeltaTable, rows: EventBatch, batch: int, after: Time) -> None:
        found = element_table(
            [rows], self._begin.schema, after=after, position=ElementPosition(batch)
        )
        there = {field.name for field in table.schema().fields}
        # A table from before there were columns that tell the order gets them now.
        older = not there.issuperset(ORDER_COLUMNS)
        write_deltalake(
            table,
            found,
            mode="append",
            schema_mode="merge" if older else None,
            commit_properties=self._transaction(batch),
        )

    def _merge(self, table: DeltaTable, changes: pa.RecordBatch, batch: int) -> None:
        total = f"t.{COPIES} + s.{COPIES}"
        merged = (
            table.merge(
                pa.Table.from_batches([changes]),
                f"t.{EVENT} = s.{EVENT} AND t.{FROM} = s.{FROM}",
                source_alias="s",
                target_alias="t",
                commit_properties=self._transaction(batch),
            )
            .when_matched_update({COPIES: total}, predicate=f"{total} <> 0")
            .when_matched_delete(predicate=f"{total} = 0")
            .when_not_matched_insert_all()
        )
        merged.execute()

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

    def _schema(self) -> pa.Schema:
        if self._keep == "log":
            return element_schema(self._begin.schema, ordered=True, clock=self._begin.clock)
        return event_schema(self._begin.schema, clock=self._begin.clock)

    def _transaction(self, batch: int) -> CommitProperties:
        return CommitProperties(
            app_transactions=[Transaction(app_id=self._begin.query, version=batch)]
        )
