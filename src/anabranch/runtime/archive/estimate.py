"""Estimate what a correction changes, from a summary, without replay and with bounds that hold."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, Protocol

import pyarrow as pa

from anabranch.algebra.node import Node, clock_of
from anabranch.display.option_hints import explained
from anabranch.errors import PlanError, StreamError
from anabranch.runtime.archive.summary import ArchiveSummary
from anabranch.runtime.archive.windowed_estimate import (
    BoundedEstimate,
    KnownRow,
    WindowedSum,
    estimated,
    windowed_sum,
)


class AskedPlan(Protocol):
    """A query: `anabranch.Stream`."""

    @property
    def node(self) -> Node:
        """Its plan."""


@explained("ab.estimate_revision")
def estimate_revision(
    query: AskedPlan,
    summary: ArchiveSummary,
    corrections: str | Path | Iterable[Mapping[str, Any]],
) -> pa.Table:
    """What corrections change in the answers of a query, estimated from a summary.

    Nothing is replayed, and nothing is written: a replay of the archive gives the exact answer.

    Args:
        query: COUNT, SUM or AVG of one column over a time window, by columns of the summary.
        summary: What `summarize` made of the archive, before the corrections.
        corrections: A file of JSON lines, or dictionaries: `{"insert": {row}, "start": t}`,
            `{"delete": {row}, "start": t}`, as `anabranch revise` takes them. A deleted row must be
            among those that were summed up.

    Returns:
        One row per group and window that changes: the columns of the group; `start` and `end`, the
        instants at which the answer holds; `before` and `after`, the estimated answers, NULL where
        there is none; `before_low`, `before_high`, `after_low`, `after_high`: between these the
        exact answers are.

    Raises:
        PlanError: The query is another one.
        StreamError: A correction cannot be read.
    """
    asked = _asked(query.node, summary)
    clock = clock_of(query.node)
    rows = [_corrected(each, summary, clock.instant) for each in _lines(corrections)]
    found: dict[str, list[Any]] = {name: [] for name in (*summary.by, *_COLUMNS)}
    affected = {(row.group, end) for row in rows for end in asked.ends(row.instant)}
    for group, end in sorted(affected, key=lambda each: (each[1], repr(each[0]))):
        own = [row for row in rows if row.group == group and asked.has(end, row.instant)]
        before, after = (estimated(asked, summary, group, end, known) for known in ((), own))
        times = (end - 1, end - 1 + asked.slide)
        for name, value in zip(found, (*group, *times, *three(before), *three(after)), strict=True):
            found[name].append(value)
    schema = pa.schema(
        [summary.table.schema.field(name) for name in summary.by]
        + [(name, pa.int64()) for name in _COLUMNS[:2]]
        + [(name, pa.float64()) for name in _COLUMNS[2:]]
    )
    return pa.table(found, schema)


_COLUMNS: Final = (
    "start",
    "end",
    *("before", "before_low", "before_high"),
    *("after", "after_low", "after_high"),
)


def _asked(node: Node, summary: ArchiveSummary) -> WindowedSum:
    """What a plan computes.

    Raises:
        PlanError: It is not a sum of a window, or the summary is of something else.
    """
    asked = windowed_sum(node)
    if asked.by != summary.by or (asked.column != summary.column and asked.function != "count"):
        raise PlanError(
            "the answers of this query cannot be estimated from the summary",
            where=f"the summary is of {summary.column} by {', '.join(summary.by) or 'nothing'}, "
            f"the query asks for {asked.function} of {asked.column or 'rows'} by "
            f"{', '.join(asked.by) or 'nothing'}",
            hint="make a summary of that: anabranch.summarize(..., by=..., column=...)",
        )
    return asked


def _lines(
    corrections: str | Path | Iterable[Mapping[str, Any]],
) -> Iterator[Mapping[str, Any]]:
    if not isinstance(corrections, (str, Path)):
        yield from corrections
        return
    try:
        text = Path(corrections).read_text(encoding="utf-8")
        for line in text.splitlines():
            if line.strip():
                yield json.loads(line)
    except (OSError, ValueError) as problem:
        raise StreamError(
            "the corrections cannot be read", where=f"{corrections}: {problem}", hint=_SHAPES
        ) from None


_SHAPES: Final = (
    'write {"insert": {row}, "start": t} or {"delete": {row}, "start": t}, one per line'
)


def _corrected(line: Mapping[str, Any], summary: ArchiveSummary, instant: Any) -> KnownRow:
    kind = next((each for each in ("insert", "delete") if each in line), None)
    row = None if kind is None else line[kind]
    wanted = (*summary.by, summary.column)
    if row is None or "start" not in line or any(name not in row for name in wanted):
        raise StreamError(
            "a correction cannot be estimated",
            where=json.dumps(line, default=str)[:200],
            hint=f"{_SHAPES}; the row needs the columns {', '.join(wanted)}",
        )
    group = tuple(row[name] for name in summary.by)
    sign = 1 if kind == "insert" else -1
    return KnownRow(group, float(row[summary.column]), int(instant(line["start"])), sign)


def three(estimate: BoundedEstimate | None) -> tuple[float | None, float | None, float | None]:
    """Value and bounds, or nothing three times."""
    return (None, None, None) if estimate is None else (estimate.value, estimate.low, estimate.high)
