"""What a merge remembers of events that are not settled: versions of nodes, and payloads.

A node is a payload with a start. Its newest version, in the newest run that has it, says what each
input and the output have of it; older versions do not count. The payload is stored once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, final

import numpy as np
import pyarrow as pa

from anabranch.kernels.columns.families import NODES
from anabranch.kernels.columns.grouped import (
    Ids,
    Ints,
    Mask,
    is_first,
    order_by_id_and_time,
    order_by_time,
    positions_of,
)
from anabranch.kernels.contract.column_names import CHECK, ID, TIME
from anabranch.kernels.contract.kernel import SortedRun
from anabranch.kernels.contract.packed_events import payload_names
from anabranch.kernels.trace.runs import Merge, Slices, add_run, with_times
from anabranch.model.batch import EventBatch, concat_rows, no_rows
from anabranch.model.time import BEGINNING, Time

GATHER_FROM_PIECES: Final = 64
"""Rows that alternate between parts more often than this are gathered part by part first."""


@final
@dataclass(frozen=True, slots=True, eq=False)
class Payloads:
    """Payloads where they arrived; only those that are needed are copied, once.

    `rows` says which rows of the parts, put one behind the other; None: all of them.
    """

    parts: tuple[pa.RecordBatch, ...]
    rows: Ints | None = None

    @property
    def schema(self) -> pa.Schema:
        """The user's columns."""
        return self.parts[0].schema

    def select(self, rows: Ints) -> Payloads:
        """The payloads at these rows, none copied."""
        return Payloads(self.parts, rows if self.rows is None else self.rows[rows])

    def take(self, rows: Ints) -> pa.RecordBatch:
        """Copy the payloads at these rows; faster where those of one part are adjacent."""
        if not len(rows) or not len(self.schema):
            return self.parts[0].slice(0, 0)
        rows = rows if self.rows is None else self.rows[rows]
        cuts = np.cumsum([0, *(part.num_rows for part in self.parts)])
        part = np.searchsorted(cuts, rows, side="right") - 1
        changes = np.flatnonzero(part[1:] != part[:-1]) + 1
        if len(changes) < GATHER_FROM_PIECES:
            bounds = [0, *changes.tolist(), len(rows)]
            return concat_rows(
                _take(self.parts[part[low]], rows[low:high] - cuts[part[low]])
                for low, high in pairwise(bounds)
            )
        grouped = np.argsort(part, kind="stable")
        back = np.empty(len(rows), np.int64)
        back[grouped] = np.arange(len(rows))
        grouped_rows = Payloads(self.parts).take(rows[grouped])
        return grouped_rows.take(pa.array(back))


def _take(part: pa.RecordBatch, rows: Ints) -> pa.RecordBatch:
    """Some rows of a part; neighbours stay where they are."""
    first, last = int(rows[0]), int(rows[-1])
    if last - first + 1 == len(rows) and (rows[1:] - rows[:-1] == 1).all():
        return part.slice(first, len(rows))
    return part.take(pa.array(rows))


@final
@dataclass(frozen=True, slots=True, eq=False)
class Elements:
    """Moves of ends in the order of each input.

    `column` is the index of the input, `promised` what it had promised before the batch.
    """

    ids: Ids
    check: Ids
    start: Ints
    end: Ints
    new_end: Ints
    column: Ints
    promised: Ints
    payload: Payloads

    def __len__(self) -> int:
        return len(self.start)


@final
@dataclass(frozen=True, slots=True, eq=False)
class Numbered:
    """Nodes numbered from 0: the number of each row's node, and each node's id, check and start.

    Numbers are in no order that may be relied upon, unless `number_nodes` gave them.
    """

    node: Ints
    ids: Ids
    check: Ids
    start: Ints

    def __len__(self) -> int:
        return len(self.start)

    def in_order(self, which: Ints) -> Ints:
        """Positions that sort some nodes by id and start, as rows of a run have to be."""
        return order_by_id_and_time(self.ids[which], self.start[which])


def number_nodes(ids: Ids, check: Ids, start: Ints) -> Numbered:
    """Number the nodes by id and start; rows of one node get one number."""
    order = order_by_id_and_time(ids, start)
    by_id, by_time, by_check = ids[order], start[order], check[order]
    first = is_first(by_id, by_time)
    if (by_check[1:] != by_check[:-1])[~first[1:]].any():
        # Two payloads under one id, which is nearly impossible.
        order = np.lexsort((check, start, ids))
        by_id, by_time, by_check = ids[order], start[order], check[order]
        first = is_first(by_id, by_time, by_check)
    node = np.empty(len(order), np.int64)
    node[order] = np.cumsum(first) - 1
    return Numbered(node, by_id[first], by_check[first], by_time[first])


def select(runs: Sequence[SortedRun], touched: Ids, before: Time | None) -> list[pa.RecordBatch]:
    """From each run the rows of some ids, and all that start before an instant."""
    found = []
    touched = np.sort(touched) if len(runs) else touched
    touched = touched[is_first(touched)]
    for run in runs:
        slices = Slices(run, touched)
        positions, _ = positions_of(slices.low, slices.high)
        wanted = np.zeros(len(run), np.bool_)
        wanted[positions] = True
        if before is not None:
            wanted |= run.rows.column(TIME).to_numpy() < before
        found.append(run.rows if wanted.all() else run.rows.take(pa.array(np.flatnonzero(wanted))))
    return found


def columns_of(
    parts: Sequence[pa.RecordBatch], name: str, absent: Callable[[pa.RecordBatch], Ints]
) -> Ints:
    """A column of several runs, some of which were written before it was there."""
    found = [
        part.column(name).to_numpy() if name in part.schema.names else absent(part)
        for part in parts
    ]
    return np.concatenate([np.empty(0, np.int64), *found])


def newest(parts: Sequence[pa.RecordBatch], node: Ints, count: int) -> Mask:
    """Which rows of some runs, oldest first, are of the newest version of their node."""
    part = np.repeat(np.arange(len(parts)), [part.num_rows for part in parts])
    latest = np.full(count, -1, np.int64)
    # Later runs come later, and the last one wins.
    latest[node] = part
    return np.asarray(part == latest[node])


def number_all(parts: Sequence[pa.RecordBatch], ids: Ids, check: Ids, start: Ints) -> Numbered:
    """Number the nodes of some runs and, behind them, of other rows.

    Most rows of a merge are the second or third of their node: a look into a table of those seen so
    far takes a third of the time of a sort of all rows.
    """
    ids = np.concatenate([fixed(parts, ID, np.uint64), ids])
    check = np.concatenate([fixed(parts, CHECK, np.uint64), check])
    start = np.concatenate([fixed(parts, TIME, np.int64), start])
    loops = NODES.loops(len(ids))
    if loops is None:
        return number_nodes(ids, check, start)
    node, first = loops.number_rows(ids, check, start)
    return Numbered(node, ids[first], check[first], start[first])


LastEnds = Callable[[Sequence[pa.RecordBatch], Ints, int], Ints]
"""From runs, the node of each row, and how many nodes there are: per node the last end that the
output has, BEGINNING where nothing is remembered."""

Absent = Callable[[pa.RecordBatch], Ints]
"""What a run says of an input that it does not know."""


def versions_merger(stable: Time, last_ends: LastEnds, absent: Absent) -> Merge:
    """Keep the newest version of each node; if no older run is left, only of those that matter."""

    def merge(runs: Sequence[SortedRun], whole: bool) -> pa.RecordBatch:
        parts = [run.rows for run in runs]
        nodes = number_nodes(
            fixed(parts, ID, np.uint64),
            fixed(parts, CHECK, np.uint64),
            fixed(parts, TIME, np.int64),
        )
        last = last_ends(parts, nodes.node, len(nodes))
        keep = newest(parts, nodes.node, len(nodes))
        if whole:
            keep &= ((nodes.start >= stable) | (last >= stable))[nodes.node]
        kept = np.flatnonzero(keep)
        kept = kept[np.argsort(nodes.node[kept], kind="stable")]
        names = dict.fromkeys(n for part in reversed(parts) for n in part.schema.names)
        values = {
            name: columns_of(parts, name, absent)[kept]
            for name in names
            if name not in (ID, TIME, CHECK)
        }
        which = nodes.node[kept]
        return version_rows(nodes, which, values, np.maximum(last, nodes.start)[which])

    return merge


def needed_until(
    runs: Sequence[SortedRun], ids: Ids, check: Ids, start: Ints, stable: Time, last_ends: LastEnds
) -> Ints:
    """How long nodes seem to matter; BEGINNING: they are over, or not remembered."""
    parts = select(runs, ids, None)
    nodes = number_all(parts, ids, check, start)
    held = nodes.node[: sum(part.num_rows for part in parts)]
    last = last_ends(parts, held, len(nodes))
    there = np.zeros(len(nodes), np.bool_)
    there[held] = True
    alive = there & ((nodes.start >= stable) | (last >= stable))
    until = np.where(alive, np.maximum(nodes.start, last), BEGINNING)
    return np.asarray(until[nodes.node[len(held) :]])


def fixed(parts: Sequence[pa.RecordBatch], name: str, kind: type) -> np.ndarray:
    """A column that all runs have."""
    return np.concatenate([np.empty(0, kind), *(part.column(name).to_numpy() for part in parts)])


Needed = Callable[[Ids, Ids, Ints], Ints]
"""How long nodes, by id, second hash and start, seem to matter; BEGINNING: not any more."""


def add_payloads(
    runs: tuple[SortedRun, ...],
    nodes: Numbered,
    which: Ints,
    payload: pa.RecordBatch,
    until: Ints,
    stable: Time,
    needed: Needed,
) -> tuple[SortedRun, ...]:
    """Remember the payloads of new nodes; forget, now and then, those of nodes that are over.

    `until` is how long a payload seems to be needed, as far as is known now.
    """
    names = payload_names(payload.schema)
    rows = pa.RecordBatch.from_arrays(
        [
            pa.array(nodes.ids[which]),
            pa.array(nodes.start[which]),
            pa.array(nodes.check[which]),
            *payload.columns,
        ],
        names=[ID, TIME, CHECK, *names],
    )

    def merge(merged: Sequence[SortedRun], whole: bool) -> pa.RecordBatch:
        del whole
        every = pa.concat_batches([run.rows for run in merged])
        ids, start = every.column(ID).to_numpy(), every.column(TIME).to_numpy()
        times = needed(ids, every.column(CHECK).to_numpy(), start)
        order = order_by_id_and_time(ids, start)
        order = order[times[order] > BEGINNING]
        # Ends may have moved: what was thought to be over by now may be needed for long.
        return with_times(every.take(pa.array(order)), times[order])

    return add_run(runs, with_times(rows, until), stable, merge, anchors=False)


def find_payloads(
    runs: Sequence[SortedRun], schema: pa.Schema, ids: Ids, check: Ids, start: Ints
) -> pa.RecordBatch:
    """The payloads of some nodes."""
    names = payload_names(schema)
    parts = [no_rows(pa.schema([(n, f.type) for n, f in zip(names, schema)]))]
    owners = [np.empty(0, np.int64)]
    for run in runs:
        slices = Slices(run, ids)
        low, high = slices.at_or_after(start), slices.after(start)
        positions, owner = positions_of(low, high)
        same = run.rows.column(CHECK).to_numpy()[positions] == check[owner]
        parts.append(run.rows.select(names).take(pa.array(positions[same])))
        owners.append(owner[same])
    rows, owner = concat_rows(parts), np.concatenate(owners)
    source = np.full(len(ids), -1, np.int64)
    source[owner] = np.arange(len(owner))
    assert (source >= 0).all(), "a payload is missing"
    if not names:
        return no_rows(schema)
    found = rows.take(pa.array(source))
    return pa.RecordBatch.from_arrays(found.columns, schema=schema)


def version_rows(
    nodes: Numbered, which: Ints, values: dict[str, Ints], until: Ints
) -> pa.RecordBatch:
    """A run with versions of some nodes; `until` says how long a row matters at least."""
    rows = pa.RecordBatch.from_pydict(
        {
            ID: pa.array(nodes.ids[which]),
            TIME: pa.array(nodes.start[which]),
            CHECK: pa.array(nodes.check[which]),
            **{name: pa.array(column) for name, column in values.items()},
        }
    )
    return with_times(rows, until)


def moves_of(
    held: Sequence[SortedRun],
    nodes: Numbered,
    which: Ints,
    first: Ints,
    elements: Elements,
    schema: pa.Schema,
    end: Ints,
    new_end: Ints,
) -> EventBatch:
    """Moves of some nodes, with payloads from what came, or else from what is remembered."""
    here = np.flatnonzero(first[which] >= 0)
    there = np.flatnonzero(first[which] < 0)
    # In the order of arrival: what lies together is copied together.
    here = here[order_by_time(first[which[here]])]
    new = elements.payload.take(first[which[here]])
    there = there[nodes.in_order(which[there])]
    at = which[there]
    order = np.concatenate([here, there])
    payload = new
    if len(there):
        old = find_payloads(held, schema, nodes.ids[at], nodes.check[at], nodes.start[at])
        payload = concat_rows([new, old])
    return EventBatch(payload, nodes.start[which][order], end[order], new_end[order])


def in_turn(
    held: Sequence[SortedRun],
    nodes: Numbered,
    which: Ints,
    first: Ints,
    elements: Elements,
    schema: pa.Schema,
) -> EventBatch:
    """Payloads and starts of a few nodes, in the order in which they are asked for."""
    starts = nodes.start[which]
    return EventBatch.concat(
        [
            moves_of(held, nodes, which[at : at + 1], first, elements, schema, *2 * (start,))
            for at, start in enumerate(np.split(starts, len(starts)))
        ]
    )
