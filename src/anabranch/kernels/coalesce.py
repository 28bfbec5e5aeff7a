"""The canonical form of a stream: maximal lifetimes, level by level."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from anabranch.algebra.coalesce import Coalesce
from anabranch.errors import StreamError
from anabranch.kernels.columns import is_first, positions_of
from anabranch.kernels.kernel import ID, Stateful, Trace
from anabranch.kernels.keys import key_checks, key_ids
from anabranch.kernels.output import changed_events
from anabranch.kernels.runs import add_run
from anabranch.kernels.timeline import CHECK, Lanes, Moves, revise, settle
from anabranch.kernels.timeline_rows import COUNT, merger
from anabranch.model.batch import EventBatch, no_rows
from anabranch.model.hashing import stable_hash
from anabranch.model.time import Time

END = "__end"
NEW_END = "__new_end"


@final
@dataclass(frozen=True, slots=True)
class CoalesceKernel(Stateful):
    """Level k of a payload holds while at least k copies of it do.

    One timeline counts copies; a second one has a key per payload and level, whose segments are
    the lifetimes of the output. A change moves only ends within its own stretch of time (closing
    the oldest lifetime first would move ends far beyond it).
    """

    node: Coalesce

    @property
    def schema(self) -> pa.Schema:
        """Unchanged."""
        return self.node.schema

    def prepare(self, batch: EventBatch) -> pa.RecordBatch:
        """Moves of equal payloads and ends are added up."""
        columns = list(batch.payload.columns)
        ids = pa.array(key_ids(columns, len(batch)))
        table = pa.table(
            {
                ID: ids,
                CHECK: pa.array(key_checks(columns, len(batch))),
                END: pa.array(batch.end),
                NEW_END: pa.array(batch.new_end),
                "row": pa.array(np.arange(len(batch))),
            }
        )
        groups = table.group_by([ID, CHECK, END, NEW_END], use_threads=False).aggregate(
            [("row", "min"), ([], "count_all")]
        )
        groups = groups.take(pc.sort_indices(groups["row_min"])).combine_chunks()
        rows = groups["row_min"].combine_chunks()
        arrays = {name: groups[name].combine_chunks() for name in (ID, CHECK, END, NEW_END)}
        arrays[COUNT] = groups["count_all"].combine_chunks()
        for place, column in enumerate(columns):
            arrays[f"key{place}"] = column.take(rows)
        return pa.RecordBatch.from_pydict(arrays)

    def step(self, trace: Trace, arrived: pa.RecordBatch, stable: Time) -> tuple[Trace, EventBatch]:
        """Revise the counts, then the levels they change."""
        runs, lanes = dict(trace.runs), Lanes(checked=True)
        if not arrived.num_rows:
            for name, held in runs.items():
                fresh = no_rows(held[0].rows.schema)
                runs[name] = add_run(held, fresh, stable, merger(stable), anchors=True)
            kept = {name: held for name, held in runs.items() if held}
            return Trace(kept, stable), EventBatch.empty(self.schema, stable)
        ids, checks = arrived.column(ID).to_numpy(), arrived.column(CHECK).to_numpy()
        moves = Moves(
            ids=ids,
            end=arrived.column(END).to_numpy(),
            new_end=arrived.column(NEW_END).to_numpy(),
            whole={COUNT: arrived.column(COUNT).to_numpy()},
            doubled={},
            check=checks,
        )
        counts = revise(runs.get("counts", ()), lanes, moves)
        if (counts.new[COUNT] < 0).any():
            raise StreamError(
                "an adjust or withdrawal of an event that was never inserted",
                where=self.node.label,
                hint="run `anabranch check` on the source",
            )
        nothing = np.zeros(len(counts.ids), np.bool_)
        runs["counts"], _ = settle(
            runs.get("counts", ()), lanes, counts, {}, nothing, nothing, stable
        )
        was, now = counts.old[COUNT], counts.new[COUNT]
        changed = np.flatnonzero(counts.touched & (was != now))
        low, high = np.minimum(was, now)[changed], np.maximum(was, now)[changed]
        level, owner = positions_of(low, high)
        place = changed[owner]
        rises = now[place] > was[place]
        begin, finish = counts.times[place], counts.times[place + 1]
        order = np.argsort(ids, kind="stable")
        order = order[is_first(ids[order])]
        row = order[np.searchsorted(ids[order], counts.ids[place])]
        named = [pa.array(ids[row]), pa.array(level)]
        level_ids = stable_hash(named, len(level))
        levels = revise(
            runs.get("levels", ()),
            lanes,
            Moves(
                ids=level_ids,
                end=np.where(rises, begin, finish),
                new_end=np.where(rises, finish, begin),
                whole={COUNT: np.ones(len(level), np.int64)},
                doubled={},
                check=stable_hash([*named, pa.array(checks[row])], len(level), salt=1),
            ),
        )
        nothing = np.zeros(len(levels.ids), np.bool_)
        runs["levels"], new_row = settle(
            runs.get("levels", ()), lanes, levels, {}, nothing, nothing, stable
        )
        same = np.ones(len(levels.ids), np.bool_)
        changes = changed_events(
            levels, new_row, levels.old[COUNT] > 0, levels.new[COUNT] > 0, same
        )
        order = np.argsort(level_ids, kind="stable")
        order = order[is_first(level_ids[order])]
        source = row[order[np.searchsorted(level_ids[order], levels.ids[changes.places])]]
        columns = [
            arrived.column(f"key{place}").take(pa.array(source))
            for place in range(len(self.schema))
        ]
        payload = pa.RecordBatch.from_arrays(columns, schema=self.schema)
        output = EventBatch(payload, changes.start, changes.end, changes.new_end, stable)
        return Trace({name: held for name, held in runs.items() if held}, stable), output
