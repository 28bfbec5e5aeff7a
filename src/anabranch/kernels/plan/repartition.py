"""The state of a stage for another number of shards."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np
import pyarrow as pa

from anabranch.kernels.columns.grouped import Ids, Ints
from anabranch.kernels.contract.column_names import CHECK, ID, SUM
from anabranch.kernels.contract.kernel import SortedRun, Stateful, Trace
from anabranch.kernels.contract.packed_events import payload_of
from anabranch.kernels.contract.routing import shard_of
from anabranch.kernels.trace.runs import TIMES
from anabranch.kernels.trace.timeline_rows import COUNT

Pieces = list[pa.RecordBatch | None]
"""Per shard what it gets of a run, or None."""


def repartitioned(
    kernel: Stateful, trace: Trace, shards: int, *, first: bool
) -> Iterator[tuple[str, Pieces]]:
    """The runs of a trace one by one, cut for so many shards, each with the name of its list.

    Rows keep their order, and so do runs. Keys of different shards have nothing to do with each
    other: the runs of one may follow those of another. What all shards have is taken from the
    `first` one, unless each has its own.
    """
    for name, runs in trace.runs.items():
        routing = kernel.routing(name)
        routed = None
        if routing.by in ("everywhere", "gathered"):
            if first or routing.by == "gathered":
                yield from ((name, [run.rows] * shards) for run in runs)
            continue
        if routing.by == "list":
            routed = _routes_by_id(kernel, routing.list, trace.runs.get(routing.list, ()))
        for run in runs:
            if routed is None:
                shard = shard_of(_routes(kernel, name, run), shards)
            else:
                shard = _found(routed, run, shards)
            yield name, _cut(run.rows, shard, shards)


def merged_stable(traces: Sequence[Trace], kernel: Stateful) -> int:
    """How far a kernel is settled in all of its shards."""
    stables = {int(trace.stable) for trace in traces}
    assert len(stables) == 1 or not kernel.looks_back, f"{kernel.label}: {stables}"
    return min(stables)


def _routes(kernel: Stateful, name: str, run: SortedRun) -> Ids:
    """The ids by which the rows of a run came to their shard, or what has the same upper half."""
    routing = kernel.routing(name)
    if routing.by == "payload":
        assert routing.route is not None
        assert routing.payload is not None
        return routing.route.ids(payload_of(run.rows, routing.payload))
    found: Ids = run.rows.column(CHECK if routing.by == "check" else ID).to_numpy()
    return found


def _routes_by_id(kernel: Stateful, name: str, runs: Sequence[SortedRun]) -> tuple[Ids, Ids]:
    """The ids in a list of runs, in order, and the route of each."""
    ids = [run.rows.column(ID).to_numpy() for run in runs]
    routes = [_routes(kernel, name, run) for run in runs]
    nothing = np.empty(0, np.uint64)
    every, first = np.unique(np.concatenate([nothing, *ids]), return_index=True)
    return every, np.concatenate([nothing, *routes])[first]


def _found(routed: tuple[Ids, Ids], run: SortedRun, shards: int) -> Ints:
    """The shard of each row, or -1: what is alive is known, and nobody asks for anything else."""
    ids, routes = routed
    wanted = run.rows.column(ID).to_numpy()
    if not len(ids):
        return np.full(len(wanted), -1)
    index = np.minimum(np.searchsorted(ids, wanted), len(ids) - 1)
    return np.where(ids[index] == wanted, shard_of(routes[index], shards), -1)


def _cut(rows: pa.RecordBatch, shard: Ints, shards: int) -> Pieces:
    order = np.argsort(shard, kind="stable")
    cuts = np.searchsorted(shard[order], np.arange(shards + 1))
    return [_piece(rows, order[low:high]) if high > low else None for low, high in pairwise(cuts)]


def _piece(rows: pa.RecordBatch, positions: Ints) -> pa.RecordBatch:
    piece = rows.take(pa.array(positions))
    if SUM in piece.schema.names:
        sums = np.cumsum(piece.column(COUNT).to_numpy())
        at = piece.schema.get_field_index(SUM)
        piece = piece.set_column(at, piece.schema.field(SUM), pa.array(sums))
    note = (rows.schema.metadata or {}).get(TIMES)
    if note is None:
        return piece
    # Times are spread as they were; of the rows that stay however old, this has its share.
    spread = json.loads(note)
    spread["ids"] = -(-spread["ids"] * len(positions) // rows.num_rows)
    return piece.replace_schema_metadata({TIMES: json.dumps(spread)})
