"""The first rows in an order, at every instant: looked up again only where one of them leaves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, final

import numpy as np
import pyarrow as pa

from anabranch.algebra.expression import evaluate_all
from anabranch.algebra.top_k import TopK
from anabranch.errors import EngineError, StreamError
from anabranch.kernels.best_rows import (
    Changes,
    Stretches,
    Survey,
    keep_best,
    net,
    relevant_instants,
)
from anabranch.kernels.columns import Ids, Ints, Mask
from anabranch.kernels.coverage import Coverage
from anabranch.kernels.event_trace import END as EVENT_END
from anabranch.kernels.event_trace import event_rows, events_merger, events_over, events_schema
from anabranch.kernels.kernel import ID, Arrived, Run, Stateful, Trace
from anabranch.kernels.keys import key_checks, key_ids, needs_check
from anabranch.kernels.memberships import (
    ROW,
    ROW_CHECK,
    membership_rows,
    memberships_merger,
    memberships_of,
)
from anabranch.kernels.multiplicity import Runs, Steps, forget, revise_multiplicity
from anabranch.kernels.ranked_events import unknown_event
from anabranch.kernels.row_order import rank_rows
from anabranch.kernels.runs import TIME, add_run
from anabranch.kernels.timeline_rows import COUNT
from anabranch.model.batch import EventBatch, no_rows
from anabranch.model.time import Time

START: Final = "__start"
END: Final = "__end"
NEW_END: Final = "__new_end"
BEST: Final = "best"
EVENTS: Final = "events"


@final
@dataclass(frozen=True, slots=True, eq=False)
class Found:
    """So many more of a row are among the first k of a group from `low` to `high`."""

    ids: Ids
    rows: pa.RecordBatch
    low: Ints
    high: Ints
    change: Ints


@final
@dataclass(frozen=True, slots=True)
class TopKKernel(Stateful):
    """The first k rows of each group.

    One trace knows which rows are among the first k, and when. Against it, what comes is
    compared: behind k others it changes nothing. Where one of the first k goes, the one that
    follows is found among all events, which another trace keeps (none, where nothing ever goes).
    """

    node: TopK

    @property
    def label(self) -> str:
        """The node's, and whether events are kept."""
        return f"{self.node.label} [{'insert-only' if self._insert_only else 'keeps events'}]"

    @property
    def schema(self) -> pa.Schema:
        """That of the input."""
        return self.node.schema

    @property
    def spread(self) -> str:
        """The partitioning."""
        return ", ".join(expression.sql for _, expression in self.node.partition_by)

    @property
    def _insert_only(self) -> bool:
        return self.node.input.properties.insert_only

    @property
    def _row_schema(self) -> pa.Schema:
        """The hashes of a payload, and its columns by number."""
        columns = [(f"key{place}", field.type) for place, field in enumerate(self.schema)]
        return pa.schema([(ROW, pa.uint64()), (ROW_CHECK, pa.uint64()), *columns])

    def prepare(self, batch: EventBatch, side: int = 0) -> pa.RecordBatch:
        """The moves with their payloads; if nothing ever goes, without what never gets in."""
        del side
        parts = [part for _, part in self.node.partition_by]
        ids = key_ids(evaluate_all(parts, batch.payload, len(batch)), len(batch))
        if self._insert_only and len(batch):
            ranks = rank_rows(batch.payload, len(batch), self.node.order_by)
            once = np.ones(len(batch), np.int64)
            keep = keep_best(self.node.k, ids, batch.start, batch.new_end, ranks, once)
            keep |= batch.end > batch.start
            ids, batch = ids[keep], batch.where(keep)
        columns = {
            ID: pa.array(ids),
            START: pa.array(batch.start),
            END: pa.array(batch.end),
            NEW_END: pa.array(batch.new_end),
        }
        for place, column in enumerate(batch.payload.columns):
            columns[f"key{place}"] = column
        return pa.RecordBatch.from_pydict(columns)

    def step(self, trace: Trace, arrived: Arrived, stable: Time) -> tuple[Trace, EventBatch]:
        """Compare what came and went with the first k of the groups it belongs to."""
        (moves,) = arrived
        runs = dict(trace.runs)
        held = {name: runs.pop(name, ()) for name in (BEST, EVENTS)}
        output = EventBatch.empty(self.schema, stable)
        fresh: dict[str, pa.RecordBatch] = {}
        if moves.num_rows:
            rows = self._rows(moves)
            if not self._insert_only:
                fresh[EVENTS] = self._events(moves, rows)
            after = (*held[EVENTS], *(Run(part) for part in fresh.values()))
            found = self._find(held[BEST], after, moves, rows)
            if found is not None:
                fresh[BEST], output = self._write(runs, found, stable)
        # Whatever was not written to may be forgotten.
        runs = forget(runs, stable)
        for name, merge in (
            (BEST, memberships_merger(stable)),
            (EVENTS, events_merger(stable, [ROW, ROW_CHECK])),
        ):
            if held[name] or name in fresh:
                new = fresh.get(name)
                new = no_rows(held[name][0].rows.schema) if new is None else new
                runs[name] = add_run(held[name], new, stable, merge, anchors=False)
        return Trace({name: kept for name, kept in runs.items() if kept}, stable), output

    def _rows(self, moves: pa.RecordBatch) -> pa.RecordBatch:
        columns = [moves.column(f"key{place}") for place in range(len(self.schema))]
        count = moves.num_rows
        hashes = [pa.array(key_ids(columns, count)), pa.array(key_checks(columns, count))]
        return pa.RecordBatch.from_arrays([*hashes, *columns], schema=self._row_schema)

    def _events(self, moves: pa.RecordBatch, rows: pa.RecordBatch) -> pa.RecordBatch:
        names = (ID, START, END, NEW_END)
        ids, start, end, new_end = (moves.column(name).to_numpy() for name in names)
        return event_rows(ids, start, end, new_end, list(zip(rows.schema.names, rows.columns)))

    def _find(
        self,
        best_runs: Sequence[Run],
        events: Sequence[Run],
        moves: pa.RecordBatch,
        rows: pa.RecordBatch,
    ) -> Found | None:
        """What changes among the first k, if anything does."""
        ids, owner = np.unique(moves.column(ID).to_numpy(), return_inverse=True)
        best, whose = memberships_of(best_runs, self._row_schema, ids)
        table = pa.concat_batches([best.select(rows.schema.names), rows])
        self._refuse_collisions(table, np.concatenate([whose, owner]))
        codes = self._codes(table)

        def survey(more: tuple[Ints, Ints] | None) -> Survey:
            known, came = np.split(codes[: best.num_rows + moves.num_rows], [best.num_rows])
            times, change = (best.column(name).to_numpy() for name in (TIME, COUNT))
            moved = net(owner, came, *(moves.column(name).to_numpy() for name in (END, NEW_END)))
            moved = moved.take(self._may_matter(moved))
            return Survey.of(self.node.k, Changes(whose, times, known, change), moved, more)

        view, everything = survey(None), None
        if view.lost.any():
            if self._insert_only:
                raise StreamError(
                    "an adjust or withdrawal in a stream that was declared insert-only",
                    where=self.node.label,
                    hint="declare the source without insert_only",
                )
            group, low, high = view.lost_ranges()
            schema = events_schema([(field.name, field.type) for field in self._row_schema])
            alive, range_ = events_over(events, schema, [ROW, ROW_CHECK], ids[group], low, high)
            table = pa.concat_batches([table, alive.select(rows.schema.names)])
            codes = self._codes(table)
            count = alive.column(COUNT).to_numpy()
            if (count < 0).any():
                raise unknown_event()
            start = np.maximum(alive.column(TIME).to_numpy(), low[range_])
            end = np.minimum(alive.column(EVENT_END).to_numpy(), high[range_])
            code = codes[len(codes) - len(count) :]
            few = keep_best(self.node.k, range_, start, end, code, count)
            range_, start, end, code, count = (
                part[few] for part in (range_, start, end, code, count)
            )
            everything = Coverage.of_events(range_, start, end, code, count)
            more, times = relevant_instants(self.node.k, range_, start, end, code, everything)
            view = survey((group[more], times))
        parts = list(view.differences(everything))
        change = np.concatenate([part.change for part in parts])
        if not len(change):
            return None
        row_of = np.zeros(int(codes.max()) + 1, np.int64)
        row_of[codes] = np.arange(len(codes))
        row = row_of[np.concatenate([part.code for part in parts])]
        return Found(
            ids=ids[np.concatenate([part.owner for part in parts])],
            rows=table.take(pa.array(row)),
            low=np.concatenate([part.low for part in parts]),
            high=np.concatenate([part.high for part in parts]),
            change=change,
        )

    def _codes(self, table: pa.RecordBatch) -> Ints:
        columns = [table.column(f"key{place}") for place in range(len(self.schema))]
        payload = pa.RecordBatch.from_arrays(columns, schema=self.schema)
        return rank_rows(payload, table.num_rows, self.node.order_by)

    def _may_matter(self, moved: Stretches) -> Mask:
        """Without what comes behind k others that stay as long."""
        comes = moved.count > 0
        keep = np.ones(len(comes), np.bool_)
        come = moved.take(comes)
        keep[comes] = keep_best(self.node.k, come.owner, come.low, come.high, come.code, come.count)
        return keep

    def _refuse_collisions(self, table: pa.RecordBatch, owner: Ints) -> None:
        """Two groups under one id are found, never mixed."""
        parts = [part for _, part in self.node.partition_by]
        if not needs_check([part.type for part in parts]):
            return
        columns = [table.column(f"key{place}") for place in range(len(self.schema))]
        payload = pa.RecordBatch.from_arrays(columns, schema=self.schema)
        check = key_checks(evaluate_all(parts, payload, table.num_rows), table.num_rows)
        of_group = np.zeros(int(owner.max()) + 1, np.uint64)
        of_group[owner] = check
        if (of_group[owner] != check).any():
            raise EngineError(
                "two different keys have the same 64-bit hash",
                where=self.node.label,
                hint="please report this with the query; until then add a column to the "
                "partitioning",
            )

    def _write(self, runs: Runs, found: Found, stable: Time) -> tuple[pa.RecordBatch, EventBatch]:
        """The differences as new memberships, and as output in canonical form."""
        more = found.change > 0
        steps = Steps(
            ids=found.rows.column(ROW).to_numpy(),
            check=found.rows.column(ROW_CHECK).to_numpy(),
            end=np.where(more, found.low, found.high),
            new_end=np.where(more, found.high, found.low),
            count=np.abs(found.change),
        )
        moved = revise_multiplicity(runs, "", steps, "coalesce", stable, self.node.label)
        columns = [
            found.rows.column(f"key{place}").take(pa.array(moved.rows))
            for place in range(len(self.schema))
        ]
        payload = pa.RecordBatch.from_arrays(columns, schema=self.schema)
        output = EventBatch(payload, moved.start, moved.end, moved.new_end, stable)
        changes = membership_rows(
            np.concatenate([found.ids, found.ids]),
            pa.concat_batches([found.rows, found.rows]),
            np.concatenate([found.low, found.high]),
            np.concatenate([found.change, -found.change]),
        )
        return changes, output
