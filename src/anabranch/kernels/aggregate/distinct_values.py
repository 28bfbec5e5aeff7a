"""The distinct values of an argument at each instant."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from anabranch.kernels.aggregate.measures import Measure
from anabranch.kernels.columns.grouped import Ids, is_first
from anabranch.kernels.contract.column_names import ID
from anabranch.kernels.contract.kernel import SortedRun
from anabranch.kernels.contract.routing import marked
from anabranch.kernels.trace.timeline import LaneMoves, Lanes, revise, settle
from anabranch.kernels.trace.timeline_rows import COUNT
from anabranch.model.numbers.hashing import stable_hash
from anabranch.model.time import Time


def count_distinct(
    runs: tuple[SortedRun, ...],
    arrived: pa.RecordBatch,
    moves: LaneMoves,
    measure: Measure,
    route: Ids | None,
    stable: Time,
) -> tuple[tuple[SortedRun, ...], LaneMoves]:
    """Keep a timeline per group and value; where a value comes or goes, the group's lanes move.

    `route` has the ids by which the rows came to their shard, where that is to be remembered.
    """
    values = arrived.column(measure.value_column)
    rows = np.flatnonzero(values.is_valid().to_numpy(zero_copy_only=False))
    values = values.take(pa.array(rows))
    groups = arrived.column(ID).to_numpy()[rows]
    both = [pa.array(groups), values]
    ids = stable_hash(both, len(rows))
    check = stable_hash(both, len(rows), salt=1)
    lanes = Lanes(checked=True)
    revision = revise(
        runs,
        lanes,
        LaneMoves(
            ids=ids,
            end=moves.end[rows],
            new_end=moves.new_end[rows],
            whole={COUNT: np.ones(len(rows), np.int64)},
            check=check if route is None else marked(route[rows], check),
        ),
    )
    nothing = np.zeros(len(revision.ids), np.bool_)
    runs, _ = settle(runs, lanes, revision, {}, nothing, nothing, stable)
    was, now = revision.old[COUNT] > 0, revision.new[COUNT] > 0
    positions = np.flatnonzero(revision.touched & (was != now))
    begin, finish = revision.times[positions], revision.times[positions + 1]
    appears = now[positions]
    order = np.argsort(ids, kind="stable")
    order = order[is_first(ids[order])]
    row = order[np.searchsorted(ids[order], revision.ids[positions])]
    weights = measure.weigh_distinct(values.take(pa.array(row)))
    nothing, none = np.zeros(len(positions), np.int64), np.zeros(len(moves.ids), np.int64)
    return runs, LaneMoves(
        ids=np.concatenate([moves.ids, groups[row]]),
        end=np.concatenate([moves.end, np.where(appears, begin, finish)]),
        new_end=np.concatenate([moves.new_end, np.where(appears, finish, begin)]),
        whole={
            name: np.concatenate([moves.whole.get(name, none), weights.get(name, nothing)])
            for name in dict.fromkeys([*moves.whole, *weights])
        },
        check=None
        if moves.check is None
        else np.concatenate([moves.check, moves.check[: arrived.num_rows][rows][row]]),
    )
