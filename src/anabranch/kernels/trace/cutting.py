"""Forget the snapshots before an instant, and take what arrives from there on.

After feedback nobody needs the snapshots of an input before some instant F. For an operator that
works snapshot by snapshot, they are cut off:

    held       n=1 on [1, 9), n=2 on [9, 30), n=1 on [30, 40)        F = 20
    forgotten  n=1 on [1, 9)
    arrives    [5, 12)                -> nothing
               [5, 25)                -> [20, 25)
               [9, 30) ends at 12     -> it ends at 20
               [3, 8) ends at 33      -> [20, 33): what was forgotten of it is not asked for

So adjusts of events that were forgotten are understood, whatever they say: their moves are
intervals between two ends, and only the part from F on counts. What has begun before F and holds
there keeps its start, so that what was put out of it can be moved. Kernels forget by what they
already have: the rule by which they forget what lies before the stable point.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa

from anabranch.kernels.contract.column_names import END, NEW_END, START
from anabranch.kernels.contract.kernel import Arrived, Stateful, Trace
from anabranch.model.batch import no_rows
from anabranch.model.time import BEGINNING, Time


def cut_before(
    kernel: Stateful, trace: Trace, arrived: Arrived, first: Time
) -> tuple[Trace, Arrived]:
    """The memory without snapshots before `first`, and what arrived cut there.

    For kernels whose step without rows puts nothing out and forgets what lies before the stable
    point: here they are told that it is further.
    """
    cut = Time(max(trace.cut, first))
    if cut == BEGINNING:
        return trace, arrived
    if cut > trace.stable and trace.runs:
        nothing = tuple(no_rows(rows.schema) for rows in arrived)
        forgotten, _ = kernel.step(trace, nothing, cut)
        trace = replace(forgotten, stable=trace.stable)
    return replace(trace, cut=cut), tuple(cut_moves(rows, cut) for rows in arrived)


def cut_moves(rows: pa.RecordBatch, cut: Time) -> pa.RecordBatch:
    """Prepared moves without what they say of instants before `cut`.

    An event that had not reached `cut` begins there, as far as anybody knows.
    """
    end, new_end = rows.column(END).to_numpy(), rows.column(NEW_END).to_numpy()
    before = np.minimum(end, new_end) < cut
    if not before.any():
        return rows
    changed = {END: np.maximum(end, cut), NEW_END: np.maximum(new_end, cut)}
    if START in rows.schema.names:
        start = rows.column(START).to_numpy()
        changed[START] = np.where(end <= cut, np.maximum(start, cut), start)
    for name, times in changed.items():
        at = rows.schema.get_field_index(name)
        rows = rows.set_column(at, rows.schema.field(name), pa.array(times))
    return rows.filter(pa.array(changed[END] != changed[NEW_END]))
