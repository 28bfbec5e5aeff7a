"""The row and byte counts at which the code takes another path, in one table.

What a query means never depends on them. Tests set all of them to 1, 2 or 3, so that streams of a
few rows cross each of them inside a batch and between chunks, batches and shards; the environment
variable ANABRANCH_THRESHOLDS does the same in the workers of Spark.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from importlib import import_module
from typing import Final

from anabranch.errors import PlanError

VARIABLE: Final = "ANABRANCH_THRESHOLDS"
"""A number for all of them, or a JSON object of some of them by name."""

THRESHOLDS: Final[tuple[str, ...]] = (
    "model.numbers.hashing.COMPILE_FROM_ROWS",
    "model.numbers.hashing.COMPILE_FROM_BYTES",
    "model.numbers.hashing.COMPILED_FROM_ROWS",
    "model.history.NET_FROM_ROWS",
    "model.files.line_writer.BLOCK_ROWS",
    "model.files.stream_file.BLOCK_BYTES",
    "model.files.stream_parquet.ROW_GROUP_ROWS",
    "kernels.top_k.best_rows.BLOCK_ROWS",
    "kernels.top_k.next_rows.READ_ALL_UP_TO_ROWS",
    "kernels.top_k.next_rows.READ_ALL_PER_ARRIVED",
    "kernels.top_k.next_rows.RANK_FROM_ROWS",
    "kernels.top_k.next_rows.NEXT_ROWS",
    "kernels.top_k.rank_order.RANK_BLOCK_ROWS",
    "kernels.columns.grouped.COMPILE_FROM_ROWS",
    "kernels.columns.grouped.WAIT_FROM_ROWS",
    "kernels.columns.grouped.PACKED_SORT_FROM_ROWS",
    "kernels.columns.grouped.SAMPLE_ROWS",
    "kernels.row_windows.element_fetch.SKIP_FROM_ELEMENTS",
    "kernels.join.interval_trace.BLOCK_ROWS",
    "kernels.join.interval_trace.COMPARED_UP_TO_ROWS",
    "kernels.merge.nodes.GATHER_FROM_PIECES",
    "kernels.merge.order.RECENT_ROWS",
    "kernels.trace.ranked_events.FIRST_LOOK_ROWS",
    "kernels.trace.ranked_events.STEP_ROWS",
    "kernels.trace.ranked_values.FIRST_VALUES",
    "kernels.top_k.row_order.PACKED_SORT_FROM_ROWS",
    "kernels.plan.side_by_side.SIDE_BY_SIDE_UP_TO_ROWS",
    "kernels.trace.runs.MERGE_ALL_UP_TO_ROWS",
    "kernels.trace.runs.SIMILAR_RUNS",
    "kernels.trace.runs.MOST_RUNS",
    "kernels.trace.runs.SPREAD_SAMPLE_ROWS",
    "kernels.row_windows.session_trace.FIRST_LOOK_ROWS",
    "runtime.elements.exchange.BUNDLE_BYTES",
    "runtime.elements.exchange.PARCEL_BYTES",
    "runtime.sources.archived.index.ENTRIES_PER_SEGMENT",
    "runtime.sources.archived.index.SEGMENTS_PER_LEVEL",
    "runtime.sources.archived.index.LARGEST_SEGMENT_PIECES",
    "runtime.sources.archived.index.KEPT_SEGMENT_PIECES",
    "runtime.sources.archived.index.SEGMENTS_IN_MEMORY",
    "runtime.sources.archived.units.LOOK_AHEAD_BATCHES",
    "runtime.archive.bucket.BUCKET_GROUP_ROWS",
    "runtime.sources.files.reader.CHUNK_ROWS",
    "runtime.sources.files.units.BLOCK_BYTES",
    "runtime.store.folder.MAP_FROM_BYTES",
    "runtime.workers.source_task.PREPARE_FROM_ROWS",
    "runtime.workers.resting_shards.RESTING_FROM_SHARDS",
    "runtime.store.state_store.MOST_OPEN_RUNS",
    "runtime.query.driver_share.SIDE_BY_SIDE_FROM_ROWS",
    "runtime.query.tables.BROADCAST_UP_TO_BYTES",
    "runtime.query.asking.answers.HERE_UP_TO_BYTES",
    "runtime.revisions.large_replay.REPLAY_ON_SPARK_FROM_ROWS",
    "runtime.revisions.lineage.FILES_PER_LEVEL",
    "runtime.archive.cut_summary.MERGE_FROM_FILES",
)
"""Module and name; each module says what its number decides."""


def current() -> dict[str, int]:
    """Their values now."""
    return {name: getattr(*_found(name)) for name in THRESHOLDS}


def set_thresholds(values: Mapping[str, int]) -> None:
    """Set some of them in this process, from now on.

    Raises:
        PlanError: One of them does not exist, or is not a positive whole number.
    """
    for name, value in values.items():
        if name not in THRESHOLDS:
            raise PlanError(
                f"there is no threshold '{name}'",
                hint="names are listed in anabranch.runtime.thresholds.THRESHOLDS",
            )
        if type(value) is not int or value < 1:
            raise PlanError(f"{value!r} is not a positive whole number", where=f"threshold {name}")
    for name, value in values.items():
        setattr(*_found(name), value)


@contextmanager
def thresholds(*every: int, **some: int) -> Iterator[None]:
    """Set thresholds in this process for a while.

    Args:
        every: Values for all of them, handed out in turn: one value is for each of them.
        some: Values for those whose last part of the name is this, such as PARCEL_BYTES.
    """
    before = current()
    after = {name: every[at % len(every)] for at, name in enumerate(THRESHOLDS)} if every else {}
    for word, value in some.items():
        after.update({name: value for name in THRESHOLDS if name.rpartition(".")[2] == word})
    set_thresholds(after)
    try:
        yield
    finally:
        set_thresholds(before)


@lru_cache(maxsize=1)
def take_thresholds() -> None:
    """Set what the environment asks for, once per process.

    Raises:
        PlanError: The variable holds neither a number nor an object of numbers.
    """
    text = os.environ.get(VARIABLE, "")
    if not text:
        return
    try:
        asked = json.loads(text)
    except ValueError:
        asked = None
    if isinstance(asked, int) and not isinstance(asked, bool):
        asked = dict.fromkeys(THRESHOLDS, asked)
    if not isinstance(asked, dict):
        raise PlanError(
            f"'{text}' is not a value for thresholds",
            where=f"the environment variable {VARIABLE}",
            hint='write a number for all of them, or {"kernels.columns.grouped.SAMPLE_ROWS": 2}',
        )
    set_thresholds(asked)


def _found(name: str) -> tuple[object, str]:
    module, _, constant = name.rpartition(".")
    return import_module(f"anabranch.{module}"), constant
