"""Add up rows that move the same ends of one key, before they are sent."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from anabranch.kernels.columns import grouped as columns
from anabranch.kernels.columns.grouped import Ids, Ints


@final
@dataclass(frozen=True, slots=True, eq=False)
class Combined:
    """Rows with equal keys as one: the first row of each group, in order, and what is added up."""

    first: Ints
    counts: Ints
    sums: dict[str, Ints]


def combine(
    ids: Ids, checks: Ids | None, end: Ints, new_end: Ints, lanes: Mapping[str, Ints]
) -> Combined:
    """Count rows that agree in both hashes and both ends, and add up their lanes."""
    if not columns.is_compiled(len(ids)):
        return _by_arrow(ids, checks, end, new_end, lanes)
    keys = (ids, ids if checks is None else checks, end, new_end)
    group, first = columns.native().group_rows(*map(np.ascontiguousarray, keys))
    counts = np.bincount(group, minlength=len(first))
    sums = {name: added_up(values, group, len(first)) for name, values in lanes.items()}
    return Combined(first, counts, sums)


def added_up(values: Ints, group: Ints, groups: int) -> Ints:
    """The sum of each group."""
    return np.asarray(columns.native().add_up(np.ascontiguousarray(values), group, groups))


def _by_arrow(
    ids: Ids, checks: Ids | None, end: Ints, new_end: Ints, lanes: Mapping[str, Ints]
) -> Combined:
    keys = {"id": ids, "end": end, "new end": new_end}
    keys |= {} if checks is None else {"check": checks}
    table = pa.table({**keys, "row": np.arange(len(ids)), **lanes})
    wanted: list[tuple[str | list[str], str]] = [("row", "min"), ([], "count_all")]
    wanted += [(name, "sum") for name in lanes]
    groups = table.group_by([*keys], use_threads=False).aggregate(wanted)
    groups = groups.take(pc.sort_indices(groups["row_min"]))
    sums = {name: groups[f"{name}_sum"].to_numpy() for name in lanes}
    return Combined(groups["row_min"].to_numpy(), groups["count_all"].to_numpy(), sums)
