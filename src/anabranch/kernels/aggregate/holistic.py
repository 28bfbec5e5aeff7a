"""Arguments of which all values are kept, in order: what arrives of them, and what they share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, final

import numpy as np
import pyarrow as pa

from anabranch.kernels.aggregate.measures import Measure
from anabranch.kernels.columns.codes import code_of, has_code
from anabranch.kernels.columns.grouped import Ids, Ints, Mask
from anabranch.kernels.contract.column_names import ID
from anabranch.kernels.contract.kernel import SortedRun
from anabranch.kernels.trace.ranked_events import ranked_rows
from anabranch.kernels.trace.timeline import LaneMoves, TimelineRevision
from anabranch.model.time import Time

_LEAST: Final = np.int64(-(2**63))
_MOST: Final = np.int64(2**63 - 1)


@final
@dataclass(frozen=True, slots=True, eq=False)
class ArgumentValues:
    """All values of an argument, before a batch and after it, and the promise before it."""

    before: tuple[SortedRun, ...]
    after: tuple[SortedRun, ...]
    stable: Time


def fresh_values(
    measure: Measure, arrived: pa.RecordBatch, start: Ints, moves: LaneMoves
) -> pa.RecordBatch:
    """What arrived of an argument, in the order of its values; NULLs do not count."""
    rows, values = present_values(measure, arrived)
    if has_code(measure.ranked):
        values = pa.array(code_of(values, measure.ranked))
    ids = arrived.column(ID).to_numpy()
    return ranked_rows(ids[rows], values, start[rows], moves.end[rows], moves.new_end[rows])


def present_values(measure: Measure, arrived: pa.RecordBatch) -> tuple[Ints, pa.Array]:
    """The rows of a batch that have a value of an argument, and these values."""
    values = arrived.column(measure.value_column)
    rows = np.flatnonzero(values.is_valid().to_numpy(zero_copy_only=False))
    return rows, values.take(pa.array(rows)).cast(measure.ranked, safe=False)


def same_values(measure: Measure, revision: TimelineRevision) -> Mask:
    """Where the values of an argument are what they were."""
    count, mix = measure.additive.count, measure.additive.mix
    same: Mask = revision.old[count] == revision.new[count]
    same &= revision.old[mix] == revision.new[mix]
    return same


def spans(ids: Ids, times: Ints) -> tuple[Ids, Ints, Ints, Ints]:
    """The different ids, the number of each row's, and the first and last instant of each id."""
    groups, owner = np.unique(ids, return_inverse=True)
    first, last = np.full(len(groups), _MOST), np.full(len(groups), _LEAST)
    np.minimum.at(first, owner, times)
    np.maximum.at(last, owner, times)
    return groups, owner, first, last
