"""Keep the last rows, of a stream or of each of its groups."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Final, final

import numpy as np
import pyarrow as pa

from anabranch.algebra.analysis.feedback_reach import only_newest
from anabranch.algebra.count_window import CountWindow
from anabranch.algebra.node import clock_of
from anabranch.algebra.time_window import UNBOUNDED
from anabranch.errors import StreamError
from anabranch.expressions.expression import evaluate_all
from anabranch.kernels.columns.grouped import (
    Ids,
    Ints,
    is_first,
    order_by_id_and_time,
    positions_of,
)
from anabranch.kernels.contract.column_names import CHECK, END, ID, NEW_END, TIME
from anabranch.kernels.contract.kernel import Arrived, Need, Rest, SortedRun, Stateful, Trace
from anabranch.kernels.contract.keys import key_checks, key_ids, needs_check
from anabranch.kernels.contract.prepared import assemble, hashes, numbers
from anabranch.kernels.contract.routing import Routing, by_payload, like
from anabranch.kernels.row_windows.element_trace import (
    ElementLayout,
    add_elements,
    forget,
    newest_elements,
)
from anabranch.kernels.row_windows.renumber import ElementRevision, changed_lifetimes, revise
from anabranch.kernels.stateless.time_window import MOST_LAYERS
from anabranch.kernels.trace.runs import column
from anabranch.model.batch import EventBatch, take_rows
from anabranch.model.identity import Identity
from anabranch.model.netting import net
from anabranch.model.payload import payloads, show_payload
from anabranch.model.time import FOREVER, Time

ELEMENTS: Final = "elements"
TIES: Final = "ties"
_MAX_ROWS: Final = 2**60
"""No window and no slide needs to be longer, and sums of them do not overflow."""


@final
@dataclass(frozen=True, slots=True)
class CountWindowKernel(Stateful):
    """Count-based and partitioned windows.

    Element i of a group, counted by time, is in the window from the element whose number is the
    next multiple of the slide at or after i, until the one whose number is that after i + rows.
    What nothing has pushed out yet holds forever, and gets another end later.

    A change moves the ends of as many elements before it as the window holds, and with a slide
    it gives all elements after it other numbers. Only these are read.
    """

    identity: ClassVar[Identity] = Identity(
        "CountWindowKernel", ("node",), form=("route", "columns=layout.schema")
    )

    node: CountWindow
    layout: ElementLayout

    @staticmethod
    def of(node: CountWindow) -> CountWindowKernel:
        """The kernel of a node."""
        layout = ElementLayout(
            payload=node.schema,
            order_by=node.order_by,
            rows=None if node.rows == UNBOUNDED else min(node.rows, _MAX_ROWS),
            slide=min(node.slide, _MAX_ROWS),
            checked=needs_check([key.type for _, key in node.partition_by]),
        )
        return CountWindowKernel(node, layout)

    @property
    def label(self) -> str:
        """That of the node."""
        return self.node.label

    @property
    def schema(self) -> pa.Schema:
        """Unchanged."""
        return self.node.schema

    @property
    def spread(self) -> str:
        """The partitioning."""
        return ", ".join(key.sql for _, key in self.node.partition_by)

    @property
    def looks_back(self) -> bool:
        """Instants with several elements count from there on."""
        return True

    def routing(self, name: str) -> Routing:
        """Elements have their payload, and at instants with several there are elements."""
        if name == ELEMENTS:
            return by_payload(self.route, self.schema)
        return like(self.route, ELEMENTS)

    def prepared_schema(self, side: int = 0) -> pa.Schema:
        """Moves with the ids of their groups."""
        del side
        checks = [CHECK] if self.layout.checked else []
        payload = zip(self.layout.values(), self.layout.payload.types)
        return pa.schema([*hashes(ID, *checks), *numbers(END, NEW_END), *payload])

    def prepare(self, batch: EventBatch, side: int = 0) -> pa.RecordBatch:
        """The moves with the ids of their groups."""
        del side
        parts = [key for _, key in self.node.partition_by]
        keys = evaluate_all(parts, batch.payload, len(batch))
        columns = {ID: pa.array(key_ids(keys, len(batch)))}
        if self.layout.checked:
            columns[CHECK] = pa.array(key_checks(keys, len(batch)))
        columns |= {END: pa.array(batch.end), NEW_END: pa.array(batch.new_end)}
        columns |= zip(self.layout.values(), batch.payload.columns)
        return assemble(self.prepared_schema(), columns)

    def purge(
        self, trace: Trace, arrived: Arrived, need: Need, sides: Sequence[Time]
    ) -> tuple[Trace, Arrived]:
        """Forget elements with so many newer ones before the instant that they leave before it.

        Example: ROWS 2, needed from 100 on. Of elements at 10, 40, 70 and 120, that at 10 left the
        window at 70. What comes late for 50 makes it leave earlier, and that at 40, too.
        """
        del sides
        instant = Time(min(need.instant, FOREVER - 1))
        if not only_newest(self.node) or instant <= trace.stable:
            return trace, arrived
        runs = dict(trace.runs)
        held = forget(runs.pop(ELEMENTS, ()), self.layout, instant)
        runs |= {ELEMENTS: held} if held else {}
        (rows,) = arrived
        assert self.layout.rows is not None
        rows = newest_elements(rows, self.layout.rows, instant)
        return replace(trace, runs=runs), (rows,)

    def rest(self, trace: Trace) -> Rest:
        """Until the next element is settled: others then leave the window, or have no order."""
        if not trace.runs:
            return Rest(FOREVER)
        times = [column(run, TIME) for held in trace.runs.values() for run in held]
        ahead = [int(each[each >= trace.stable].min(initial=FOREVER - 1)) for each in times]
        return Rest(Time(min(ahead, default=FOREVER - 1)))

    def step(self, trace: Trace, arrived: Arrived, stable: Time) -> tuple[Trace, EventBatch]:
        """Number the elements around what arrived anew, and move the ends that this moves."""
        (rows,) = arrived
        held, ties = trace.runs.get(ELEMENTS, ()), trace.runs.get(TIES, ())
        output = EventBatch.empty(self.schema, stable)
        row, times, by = self._elements(rows)
        if len(row):
            revision = revise(held, self.layout, rows, row, times, by)
            self._refuse_unknown(revision)
            fresh = _changed(revision, self.layout)
            if not self.node.order_by:
                ties = _ties(ties, revision, trace.stable)
                self._refuse_ties(ties, (*held, SortedRun(fresh)), stable)
            output = self._output(revision, stable)
            held = add_elements(held, self.layout, fresh, stable)
        elif stable > trace.stable:
            self._refuse_ties(ties, held, stable)
            held = forget(held, self.layout, stable)
        runs = {ELEMENTS: held, TIES: ties}
        return Trace({name: held for name, held in runs.items() if held}, stable), output

    def _elements(self, rows: pa.RecordBatch) -> tuple[Ints, Ints, Ints]:
        """Every instant that a move adds or takes away: its row, itself, and 1 or -1."""
        end, new_end = rows.column(END).to_numpy(), rows.column(NEW_END).to_numpy()
        low, high = np.minimum(end, new_end), np.maximum(end, new_end)
        lengths = high.view(np.uint64) - low.view(np.uint64)
        by = np.where(new_end > end, 1, -1)
        if (lengths == 1).all():
            return np.arange(len(low)), low, by
        if float(lengths.astype(np.float64).sum()) > MOST_LAYERS:
            longest = int(np.argmax(lengths))
            endless = int(high[longest]) == FOREVER
            length = "without end" if endless else f"of {int(lengths[longest])} instants"
            raise StreamError(
                f"a lifetime {length} cannot be counted",
                where=f"{self.label}: from instant {self._show(int(low[longest]))} on",
                hint="every instant of a lifetime counts as an element; put the window on a "
                "stream of points",
            )
        depth, row = positions_of(np.zeros(len(low), np.int64), lengths.astype(np.int64))
        return row, low[row] + depth, by[row]

    def _output(self, revision: ElementRevision, stable: Time) -> EventBatch:
        moves = changed_lifetimes(revision, self.layout)
        payload = self.layout.payload_of(take_rows(revision.rows, revision.source[moves.element]))
        batch = EventBatch(payload, moves.start, moves.end, moves.new_end, stable)
        # With a slide, other elements of one payload may get one start, as may its copies.
        several = self.layout.slide > 1 or not is_first(moves.element).all()
        return net(batch) if several else batch

    def _refuse_unknown(self, revision: ElementRevision) -> None:
        wrong = np.flatnonzero(revision.new < 0)
        if len(wrong):
            instant = self._show(int(revision.times[wrong[0]]))
            raise StreamError(
                "an adjust or withdrawal of an event that was never inserted",
                where=f"{self.label}: at instant {instant} more events end than ever began",
                hint="run `anabranch check` on the source; every adjust must name the end that was "
                "last announced",
            )

    def _refuse_ties(
        self, ties: tuple[SortedRun, ...], runs: tuple[SortedRun, ...], stable: Time
    ) -> None:
        """Elements of one group at one instant are an error once that instant is settled."""
        if not ties:
            return
        ids, times = (np.concatenate([column(run, name) for run in ties]) for name in (ID, TIME))
        settled = np.flatnonzero(times < stable)
        if not len(settled):
            return
        first = settled[np.lexsort((ids[settled], times[settled]))[0]]
        where = f"{self.label}: at instant {self._show(int(times[first]))}"
        if self.node.partition_by:
            where += f", group {self._group(runs, ids[first], times[first])}"
        raise StreamError(
            "two elements at one instant have no order",
            where=where,
            hint="give order_by, which decides between elements at one instant, or use times at "
            "which at most one element of a group occurs",
        )

    def _group(self, runs: tuple[SortedRun, ...], id: np.uint64, time: np.int64) -> str:
        """The values that a group with elements at an instant is partitioned by."""
        for run in runs:
            rows = np.flatnonzero((column(run, ID) == id) & (column(run, TIME) == time))
            if len(rows):
                payload = self.layout.payload_of(run.rows.take(pa.array(rows[:1])))
                keys = evaluate_all([key for _, key in self.node.partition_by], payload, 1)
                names = [name for name, _ in self.node.partition_by]
                return show_payload(payloads(pa.RecordBatch.from_arrays(keys, names=names), 1)[0])
        return "?"

    def _show(self, instant: int) -> str:
        return clock_of(self.node).format(instant)


def _changed(revision: ElementRevision, layout: ElementLayout) -> pa.RecordBatch:
    """What a batch adds to the elements, as a run."""
    by = revision.new - revision.old
    nonzero = np.flatnonzero(by)
    rows = take_rows(revision.rows, revision.source[nonzero])
    return layout.run_of(revision.ids[nonzero], revision.times[nonzero], by[nonzero], rows)


def _ties(
    held: tuple[SortedRun, ...], revision: ElementRevision, stable: Time
) -> tuple[SortedRun, ...]:
    """The instants from the stable point on at which a group has several elements."""
    begins = np.flatnonzero(revision.instant)
    ids, times = revision.ids[begins], revision.times[begins]
    tied = np.flatnonzero((np.add.reduceat(revision.new, begins) > 1) & (times >= stable))
    if not held and not len(tied):
        return ()
    if held:
        # What was seen again is known anew: of the earlier ones, the others stay.
        before = len(ids)
        ids = np.concatenate([ids, *(column(run, ID) for run in held)])
        times = np.concatenate([times, *(column(run, TIME) for run in held)])
        order = order_by_id_and_time(ids, times)
        others = order[is_first(ids[order], times[order])]
        tied = np.concatenate([tied, others[others >= before]])
    return (SortedRun(_instants(ids[tied], times[tied])),) if len(tied) else ()


def _instants(ids: Ids, times: Ints) -> pa.RecordBatch:
    order = order_by_id_and_time(ids, times)
    arrays = [pa.array(ids[order]), pa.array(times[order])]
    return pa.RecordBatch.from_arrays(arrays, names=[ID, TIME])
