"""Results of aggregates where a timeline was revised: as they were, and as they are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from anabranch.kernels.aggregate.holistic import same_values
from anabranch.kernels.aggregate.measures import Measures
from anabranch.kernels.columns.grouped import Ints, Mask
from anabranch.kernels.trace.timeline import TimelineRevision
from anabranch.model.numbers.hashing import stable_hash


@final
@dataclass(frozen=True, slots=True, eq=False)
class Results:
    """Results of aggregates, computed only at the positions that are asked for."""

    measures: Measures
    revision: TimelineRevision
    old_values: Mapping[str, pa.Array]
    new_values: Mapping[str, pa.Array]

    def same(self, positions: Ints) -> Mask:
        """Marks the positions whose results are what they were."""
        same = np.zeros(len(self.revision.ids), np.bool_)
        if not len(positions):
            return same
        here = np.ones(len(positions), np.bool_)
        old, new = (self.at(positions, is_old) for is_old in (True, False))
        for was, now in zip(old, new, strict=True):
            here &= not_distinct(was, now)
        for measure in self.measures.holistic:
            if measure.writes_values:
                here &= same_values(measure, self.revision)[positions]
        same[positions] = here
        return same

    def at(self, positions: Ints, is_old: Mask | bool) -> list[pa.Array]:
        """The results at positions, one array per aggregate; as they were, or as they are."""
        revision = self.revision
        whole = {
            name: _chosen(was, revision.new[name], positions, is_old)
            for name, was in revision.old.items()
        }
        values = {
            name: _chosen_values(was, self.new_values[name], positions, is_old)
            for name, was in self.old_values.items()
        }
        return self.measures.finish(whole, values)


def _chosen(was: Ints, now: Ints, positions: Ints, is_old: Mask | bool) -> Ints:
    if isinstance(is_old, bool):
        return (was if is_old else now).take(positions)
    return np.where(is_old, was.take(positions), now.take(positions))


def _chosen_values(was: pa.Array, now: pa.Array, positions: Ints, is_old: Mask | bool) -> pa.Array:
    now = now.cast(was.type)
    if isinstance(is_old, bool):
        return (was if is_old else now).take(pa.array(positions))
    if was.type == pa.int64() and not was.null_count and not now.null_count:
        return pa.array(_chosen(was.to_numpy(), now.to_numpy(), positions, is_old))
    rows = pa.array(np.where(is_old, positions, positions + len(was)))
    return pa.concat_arrays([was, now]).take(rows)


def not_distinct(a: pa.Array, b: pa.Array) -> Mask:
    """Where two arrays hold the same: NULL equals NULL, NaN equals NaN."""
    b = b.cast(a.type)
    if pa.types.is_null(a.type):
        return np.ones(len(a), np.bool_)
    if pa.types.is_nested(a.type):
        hashes = (stable_hash([each], len(each), salt) for each in (a, b) for salt in (0, 1))
        one, one_more, other, other_more = hashes
        return np.asarray((one == other) & (one_more == other_more))
    if pa.types.is_floating(a.type):
        x = a.fill_null(0.0).to_numpy(zero_copy_only=False)
        y = b.fill_null(0.0).to_numpy(zero_copy_only=False)
        same = (x == y) | (np.isnan(x) & np.isnan(y))
    else:
        same = pc.equal(a, b).fill_null(True).to_numpy(zero_copy_only=False)
    nulls = a.is_null().to_numpy(zero_copy_only=False), b.is_null().to_numpy(zero_copy_only=False)
    result: Mask = np.where(nulls[0] | nulls[1], nulls[0] & nulls[1], same)
    return result
