"""What the measurements of modules share: sizes, shapes, events, and one run in the kernel."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from time import process_time
from typing import Final, final

import numpy as np
import pyarrow as pa

from anabranch.algebra.modules.apply_operator import ApplyOperator, Call
from anabranch.algebra.modules.axis_window import Hopping
from anabranch.algebra.source import Source
from anabranch.bench.rows import draw_rows
from anabranch.expressions.expression import Expression
from anabranch.kernels.plan.local_runner import LocalRunner
from anabranch.language.fragments.operator_call import parse_operator_call
from anabranch.model.batch import EventBatch
from anabranch.model.time import Duration, Time
from anabranch.userops.library import default_library

SECOND: Final = 1_000_000
SHAPES: Final[Mapping[str, str]] = {
    "plain": "mean_plain",
    "vectorised": "mean_arrow",
    "incremental": "mean",
    "builtin": "avg",
}
"""The mean in every shape: of a list, of a table, with a state; and the aggregate of SQL."""

ROWS: Final = Source(
    name="rows",
    schema=pa.schema([("k", pa.int64()), ("v", pa.float64())]),
    insert_only=True,
    only_points=True,
)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class ModulesSize:
    """How much is measured.

    Attributes:
        events: Events where windows overlap.
        batch: How many of them come at once.
        overlaps: In how many windows an event is, one after the other.
        lengths: Seconds that a window lasts, one after the other.
        small: Batches of one second each where windows last longer and longer.
        warm_ups: Before a shape counts it runs up to so many times, until that is no faster.
        repeats: The median of so many counts.
        files: Files for Spark; none: not on Spark.
        rows_per_file: Rows in each of them.
        files_per_batch: How many of them come at once.
        on_spark: The shapes that are measured on Spark.
    """

    events: int
    batch: int
    overlaps: tuple[int, ...]
    lengths: tuple[int, ...]
    small: int
    warm_ups: int
    repeats: int
    files: int
    rows_per_file: int
    files_per_batch: int
    on_spark: tuple[str, ...]


@final
@dataclass(frozen=True, slots=True)
class RunCost:
    """What a run took: seconds of a core, events that came, windows that were answered for.

    A window is answered for again when events of it come late.
    """

    seconds: float
    events: int
    windows: int

    @property
    def events_per_s(self) -> float:
        """How many events a core takes in."""
        return self.events / self.seconds

    @property
    def windows_per_s(self) -> float:
        """How many windows a core answers for."""
        return self.windows / self.seconds

    @property
    def event_us(self) -> float:
        """Microseconds per event."""
        return self.seconds / self.events * 1e6


def feed(events: int, batch: int, keys: int, per_second: int) -> list[EventBatch]:
    """Points a little out of order, of which each batch promises what cannot come any more."""
    batches = []
    for first in range(0, events, batch):
        k, v, start = draw_rows(7, first, batch, keys, per_second)
        payload = pa.RecordBatch.from_arrays([pa.array(k), pa.array(v)], schema=ROWS.schema)
        stable = Time((first + batch) * SECOND // per_second - SECOND // 2)
        batches.append(EventBatch(payload, start, start, start + 1, stable))
    return batches


def plan(shape: str, size: int, hop: int, *, open_windows: bool = False) -> ApplyOperator:
    """The mean of `v` per `k`, in one of the shapes."""
    module, arguments = parse_operator_call(f"{SHAPES[shape]}(v)", ROWS, default_library())
    return ApplyOperator.over(
        ROWS,
        window=Hopping(Duration(size), Duration(hop)),
        calls=(Call(module, arguments, ("mean",)),),
        group_by=(("k", Expression.parse("k", ROWS.schema)),),
        open_windows=open_windows,
    )


def run(node: ApplyOperator, batches: Sequence[EventBatch]) -> RunCost:
    """All batches in the kernel, one behind the other."""
    runner = LocalRunner(node)
    seconds, windows = 0.0, 0
    for batch in batches:
        began = process_time()
        output = runner.step({ROWS.name: batch})
        seconds += process_time() - began
        windows += int(np.count_nonzero(output.new_end > output.start))
    return RunCost(seconds, sum(map(len, batches)), windows)
