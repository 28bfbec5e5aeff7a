"""Hold rows for as long as others follow soon."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Final, final

import numpy as np
import pyarrow as pa

from anabranch.algebra.node import clock_of
from anabranch.algebra.session_window import SessionWindow
from anabranch.errors import StreamError
from anabranch.expressions.expression import evaluate_all
from anabranch.kernels.columns.grouped import Ids, Ints, Mask
from anabranch.kernels.contract.column_names import CHECK, END, ID, ROW, ROW_CHECK, TIME
from anabranch.kernels.contract.kernel import (
    RESTLESS,
    Arrived,
    Rest,
    SortedRun,
    Stateful,
    Trace,
)
from anabranch.kernels.contract.keys import key_checks, key_ids, needs_check
from anabranch.kernels.contract.packed_events import payload_of
from anabranch.kernels.contract.routing import Routing, by_payload, like
from anabranch.kernels.row_windows.element_trace import refuse_collisions
from anabranch.kernels.row_windows.session_trace import (
    SessionLayout,
    Sessions,
    add_points,
    add_sessions,
    open_since,
    points_in,
    points_order,
    touched,
)
from anabranch.kernels.stateless.window_columns import with_bounds
from anabranch.kernels.trace.runs import column
from anabranch.kernels.trace.timeline_rows import COUNT
from anabranch.model.batch import EventBatch, no_rows, take_rows
from anabranch.model.identity import Identity
from anabranch.model.netting import net
from anabranch.model.time import FOREVER, Duration, Time

POINTS: Final = "points"
SESSIONS: Final = "sessions"


@final
@dataclass(frozen=True, slots=True, eq=False)
class _SessionRevision:
    """Points around changes, by group and instant, each payload and instant once.

    `old` and `new` say how often it is there, before and after; `source` is its row of `rows`.
    """

    ids: Ids
    times: Ints
    old: Ints
    new: Ints
    source: Ints
    rows: pa.RecordBatch


@final
@dataclass(frozen=True, slots=True, eq=False)
class _State:
    """The sessions before or after a batch, and from when to when each point holds in them."""

    sessions: Sessions
    there: Mask
    start: Ints
    end: Ints

    @staticmethod
    def of(revision: _SessionRevision, counts: Ints, gap: Duration) -> _State:
        there = counts > 0
        sessions, number = Sessions.of(revision.ids[there], revision.times[there], gap)
        start, end = revision.times.copy(), revision.times.copy()
        start[there], end[there] = sessions.start[number], sessions.end[number]
        return _State(sessions, there, start, end)


@final
@dataclass(frozen=True, slots=True)
class SessionWindowKernel(Stateful):
    """Session windows, keyed by group.

    A batch touches the sessions that its points are in, join or leave. Only these are read, found
    anew from their points, and compared with what they were. The start of the earliest session
    that is still open says how far the output is settled.
    """

    identity: ClassVar[Identity] = Identity(
        "SessionWindowKernel", ("node",), form=("route", "columns=layout.schema")
    )

    node: SessionWindow
    layout: SessionLayout

    @staticmethod
    def of(node: SessionWindow) -> SessionWindowKernel:
        """The kernel of a node."""
        checked = needs_check([key.type for _, key in node.partition_by])
        return SessionWindowKernel(node, SessionLayout(node.input.schema, node.gap, checked))

    @property
    def label(self) -> str:
        """That of the node."""
        return self.node.label

    @property
    def schema(self) -> pa.Schema:
        """That of the input; the bounds of the session may follow."""
        return self.node.schema

    @property
    def spread(self) -> str:
        """The partitioning."""
        return ", ".join(key.sql for _, key in self.node.partition_by)

    @property
    def promises_by_state(self) -> bool:
        """Sessions that are open hold back the stable point."""
        return True

    def routing(self, name: str) -> Routing:
        """Points have their payload, and sessions have points."""
        if name == POINTS:
            return by_payload(self.route, self.layout.payload)
        return like(self.route, POINTS)

    def prepared_schema(self, side: int = 0) -> pa.Schema:
        """Points with their counts and both hashes."""
        del side
        return self.layout.schema()

    def prepare(self, batch: EventBatch, side: int = 0) -> pa.RecordBatch:
        """Points that come or go, with the ids of their groups."""
        del side
        batch = batch.where(batch.end != batch.new_end)
        parts = [key for _, key in self.node.partition_by]
        keys, columns = evaluate_all(parts, batch.payload, len(batch)), batch.payload.columns
        given = {
            ID: key_ids(keys, len(batch)),
            TIME: batch.start,
            COUNT: np.where(batch.new_end > batch.end, np.int64(1), np.int64(-1)),
            ROW: key_ids(columns, len(batch)),
            ROW_CHECK: key_checks(columns, len(batch)),
        }
        if self.layout.checked:
            given[CHECK] = key_checks(keys, len(batch))
        schema = self.layout.schema()
        arrays = [pa.array(given[name]) for name in schema.names if name in given]
        return pa.RecordBatch.from_arrays([*arrays, *columns], schema=schema)

    def rest(self, trace: Trace) -> Rest:
        """Until the first session is over; until then the earliest holds back what is settled."""
        sessions = trace.runs.get(SESSIONS, ())
        if not trace.runs:
            return Rest(FOREVER)
        if len(sessions) != 1 or (column(sessions[0], COUNT) < 0).any():
            # What is taken away again holds nothing back.
            return RESTLESS
        live = column(sessions[0], END) > trace.stable
        over = int(column(sessions[0], END)[live].min(initial=FOREVER))
        earliest = int(column(sessions[0], TIME)[live].min(initial=FOREVER))
        return Rest(Time(over - 1), Time(earliest))

    def step(self, trace: Trace, arrived: Arrived, stable: Time) -> tuple[Trace, EventBatch]:
        """Find the sessions around what arrived anew; revise the rows of those that changed."""
        (rows,) = arrived
        points, sessions = trace.runs.get(POINTS, ()), trace.runs.get(SESSIONS, ())
        output = EventBatch.empty(self.schema)
        fresh, old, new = no_rows(self.layout.schema()), _NO_SESSIONS, _NO_SESSIONS
        if rows.num_rows:
            revision = self._revise(points, sessions, rows)
            before = _State.of(revision, revision.old, self.node.gap)
            after = _State.of(revision, revision.new, self.node.gap)
            output = self._output(revision, before, after)
            fresh, old, new = _changed(revision), before.sessions, after.sessions
        if stable == FOREVER:
            return Trace({}, stable), output.with_stable(stable)
        if rows.num_rows or stable > trace.stable:
            sessions = add_sessions(sessions, old, new, stable)
            points = add_points(points, self.layout, fresh, sessions, stable)
        runs = {POINTS: points, SESSIONS: sessions}
        kept = {name: held for name, held in runs.items() if held}
        settled = Time(min(stable, open_since(sessions, stable)))
        return Trace(kept, stable), output.with_stable(settled)

    def _revise(
        self, points: Sequence[SortedRun], sessions: Sequence[SortedRun], arrived: pa.RecordBatch
    ) -> _SessionRevision:
        order, _ = points_order(arrived)
        ids, times = (arrived.column(name).to_numpy()[order] for name in (ID, TIME))
        # What a point covers overlaps the sessions that it joins, and the one that it was in.
        covered, _ = Sessions.of(ids, times, self.node.gap)
        held = points_in(points, self.layout, touched(sessions, covered))
        rows = pa.concat_batches([held, arrived])
        order, first = points_order(rows)
        begins = np.flatnonzero(first)
        counts = rows.column(COUNT).to_numpy()
        old = np.where(order < held.num_rows, counts[order], 0)
        if self.layout.checked:
            sorted_ids = rows.column(ID).to_numpy()[order]
            refuse_collisions(sorted_ids, rows.column(CHECK).to_numpy()[order], self.label)
        source = order[begins]
        revision = _SessionRevision(
            ids=rows.column(ID).to_numpy()[source],
            times=rows.column(TIME).to_numpy()[source],
            old=np.add.reduceat(old, begins),
            new=np.add.reduceat(counts[order], begins),
            source=source,
            rows=rows,
        )
        self._refuse_unknown(revision)
        return revision

    def _output(self, revision: _SessionRevision, before: _State, after: _State) -> EventBatch:
        """The moves that lead from the rows before to those after."""
        old, new = revision.old, revision.new
        same = before.there & after.there & (before.start == after.start)
        if self.node.columns is not None:
            same &= before.end == after.end
        both = np.where(same, np.minimum(old, new), 0)
        every = np.arange(len(old))
        gone, come = np.repeat(every, old - both), np.repeat(every, new - both)
        moved = np.repeat(every, np.where(before.end != after.end, both, 0))
        point = np.concatenate([gone, moved, come])
        start = np.concatenate([before.start[gone], after.start[moved], after.start[come]])
        end = np.concatenate([before.end[gone], before.end[moved], after.start[come]])
        new_end = np.concatenate([before.start[gone], after.end[moved], after.end[come]])
        rows = take_rows(revision.rows, revision.source[point])
        payload = payload_of(rows, self.layout.payload)
        if self.node.columns is not None:
            last = np.maximum(end, new_end)
            clock = clock_of(self.node.input)
            payload = with_bounds(payload, self.node.columns, clock, start, last)
        output = EventBatch(payload, start, end, new_end)
        # Points of one payload at several instants of a session are copies in the output.
        payloads = np.sort(revision.rows.column(ROW).to_numpy()[revision.source])
        return net(output) if (payloads[1:] == payloads[:-1]).any() else output

    def _refuse_unknown(self, revision: _SessionRevision) -> None:
        wrong = np.flatnonzero(revision.new < 0)
        if len(wrong):
            instant = int(revision.times[wrong[0]])
            shown = clock_of(self.node.input).format(instant)
            raise StreamError(
                "a withdrawal of a point that was never inserted",
                where=f"{self.label}: at instant {shown}",
                hint="run `anabranch check` on the source",
            )


_NO_SESSIONS: Final = Sessions(np.empty(0, np.uint64), np.empty(0, np.int64), np.empty(0, np.int64))


def _changed(revision: _SessionRevision) -> pa.RecordBatch:
    """What a batch adds to the points, as a run."""
    by = revision.new - revision.old
    nonzero = np.flatnonzero(by)
    rows = revision.rows.take(pa.array(revision.source[nonzero]))
    return rows.set_column(2, rows.schema.field(COUNT), pa.array(by[nonzero]))
