"""Estimate what a correction changes, from a summary, without replay and with bounds that hold.

A window covers some buckets wholly: these are exact. It may cut one at each end. Of the rows of a
cut bucket it is only known that some of them, none to all, are inside, and that each value lies
between the least and the greatest one. The estimate takes as many as the window covers of the
bucket; the bounds take the worst case. Where size and slide are multiples of the bucket nothing is
cut.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any, Final, Protocol, final

import pyarrow as pa

from anabranch.algebra.aggregate import Aggregation
from anabranch.algebra.map import Map
from anabranch.algebra.node import Node, clock_of
from anabranch.algebra.source import Source
from anabranch.algebra.time_window import UNBOUNDED, TimeWindow
from anabranch.errors import PlanError, StreamError
from anabranch.runtime.archive.summary import ArchiveSummary, SummaryBucket

_FUNCTIONS: Final = ("count", "sum", "avg")
_HINT: Final = (
    "estimates are for SELECT keys, COUNT(*) or SUM(x) or AVG(x) FROM stream WINDOW(RANGE ... "
    "SLIDE ...) GROUP BY keys, over the columns of the summary"
)


class AskedPlan(Protocol):
    """A query: `anabranch.Stream`."""

    @property
    def node(self) -> Node:
        """Its plan."""


@final
@dataclass(frozen=True, slots=True)
class BoundedEstimate:
    """A value, and between which bounds the exact one surely lies."""

    value: float
    low: float
    high: float


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class WindowedSum:
    """What an estimate is about.

    Attributes:
        function: `count`, `sum` or `avg`.
        size: How long a window is.
        slide: How often there is one.
    """

    function: str
    size: int
    slide: int

    def ends(self, instant: int) -> range:
        """The ends of the windows that a row at an instant is in."""
        first = (instant // self.slide + 1) * self.slide
        return range(first, instant + self.size + 1, self.slide)


@final
@dataclass(frozen=True, slots=True)
class CorrectedRow:
    """A row that is missing (`sign` 1) or wrong (-1)."""

    group: tuple[Any, ...]
    value: float
    instant: int
    sign: int


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
        own = [row for row in rows if row.group == group and end - asked.size <= row.instant < end]
        before, after = _window(asked, summary, group, end, own)
        times = (end - 1, end - 1 + asked.slide)
        for name, value in zip(
            found, (*group, *times, *_three(before), *_three(after)), strict=True
        ):
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


def _window(
    asked: WindowedSum,
    summary: ArchiveSummary,
    group: Sequence[Any],
    end: int,
    rows: Sequence[CorrectedRow],
) -> tuple[BoundedEstimate | None, BoundedEstimate | None]:
    """The answer of a window, without and with corrections of its rows."""
    start, width = end - asked.size, summary.width
    whole: list[SummaryBucket] = []
    cut: list[tuple[SummaryBucket, float]] = []
    for bucket in summary.buckets(group, start - width + 1, end):
        inside = min(end, bucket.start + width) - max(start, bucket.start)
        if inside == width:
            whole.append(bucket)
        else:
            cut.append((bucket, inside / width))
    count = sum(bucket.rows for bucket in whole)
    total = sum(bucket.total for bucket in whole)
    slack = sum(bucket.rounding for bucket in whole)
    before = _estimate(asked.function, count, total, slack, cut)
    for row in rows:
        unknown = [
            at for at, (bucket, _) in enumerate(cut) if 0 <= row.instant - bucket.start < width
        ]
        if row.sign < 0 and unknown:
            # It was one of the rows of which nobody knows whether they are inside.
            bucket, share = cut[unknown[0]]
            cut[unknown[0]] = (bucket.without(row.value), share)
        else:
            count, total = count + row.sign, total + row.sign * row.value
    return before, _estimate(asked.function, count, total, slack, cut)


def _estimate(
    function: str,
    count: int,
    total: float,
    slack: float,
    cut: Sequence[tuple[SummaryBucket, float]],
) -> BoundedEstimate | None:
    """The answer for rows that are inside, and buckets of which a share is.

    None where there is surely no row, or where it is more likely that there is none.
    """
    cut = [(bucket, share) for bucket, share in cut if bucket.rows > 0]
    rows = count + sum(share * bucket.rows for bucket, share in cut)
    most = count + sum(bucket.rows for bucket, _ in cut)
    if most <= 0:
        return None
    value = total + sum(share * bucket.total for bucket, share in cut)
    slack += sum(bucket.rounding for bucket, _ in cut)
    match function:
        case "count":
            return BoundedEstimate(rows, max(count, 0), most)
        case "sum":
            parts = [_part(bucket) for bucket, _ in cut]
            low = total + sum(least for least, _ in parts) - slack
            return BoundedEstimate(
                value, low, total + sum(greatest for _, greatest in parts) + slack
            )
        case _:
            # Linear over linear in how many rows of each cut bucket are inside: extremes are where
            # all of a bucket are, or none.
            lows, highs = [], []
            for chosen in product(*(((0, bucket), (bucket.rows, bucket)) for bucket, _ in cut)):
                number = count + sum(taken for taken, _ in chosen)
                if number > 0:
                    lows.append((total + sum(n * each.low for n, each in chosen)) / number)
                    highs.append((total + sum(n * each.high for n, each in chosen)) / number)
            off = slack / max(count, 1)
            return BoundedEstimate(value / rows, min(lows) - off, max(highs) + off)


def _part(bucket: SummaryBucket) -> tuple[float, float]:
    """Between which bounds the sum of some rows of a bucket lies, none of them to all of them.

    Of k rows it is at least k * low, and at least what the others, at most high each, leave of the
    total: the greater of both, which is least where they meet or at an end. With high and low
    exchanged it is the other bound.
    """

    def extreme(own: float, other: float) -> list[float]:
        spread = bucket.high - bucket.low
        meet = bucket.rows * (other - bucket.total / bucket.rows) / (other - own) if spread else 0
        chosen = min(max(meet, 0), bucket.rows)
        return [chosen * own, 0.0, bucket.total]

    return min(extreme(bucket.low, bucket.high)), max(extreme(bucket.high, bucket.low))


def _asked(node: Node, summary: ArchiveSummary) -> WindowedSum:
    """What a plan computes.

    Raises:
        PlanError: It is not a sum of a window.
    """
    renamed = node.input if isinstance(node, Map) else node
    if isinstance(node, Map) and not all(each.is_column for _, each in node.columns):
        raise _other(f"'{node.label}' computes something from the answers")
    if not isinstance(renamed, Aggregation) or len(renamed.aggregates) != 1:
        raise _other(f"'{renamed.label}' is not one aggregate")
    ((_, call),) = renamed.aggregates
    groups = tuple(key.is_column for _, key in renamed.group_by)
    window = renamed.input
    while isinstance(window, Map) and all(e.is_column == name for name, e in window.columns):
        window = window.input
    if not isinstance(window, TimeWindow) or window.columns or window.size == UNBOUNDED:
        raise _other(f"'{window.label}' is not a window of time")
    if not isinstance(window.input, Source) or not window.input.properties.only_points:
        raise _other(f"'{window.input.label}' is not a stream of points")
    if call.function not in _FUNCTIONS or call.distinct:
        raise _other(f"{call.label} is not COUNT, SUM or AVG")
    argument = None if call.argument is None else call.argument.is_column
    if groups != summary.by or (argument != summary.column and call.function != "count"):
        raise _other(
            f"the summary is of {summary.column} by {', '.join(summary.by) or 'nothing'}, the "
            f"query asks for {renamed.label}"
        )
    return WindowedSum(function=call.function, size=int(window.size), slide=int(window.slide))


def _other(what: str) -> PlanError:
    return PlanError(
        "the answers of this query cannot be estimated from the summary", where=what, hint=_HINT
    )


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


def _corrected(line: Mapping[str, Any], summary: ArchiveSummary, instant: Any) -> CorrectedRow:
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
    return CorrectedRow(group, float(row[summary.column]), int(instant(line["start"])), sign)


def _three(estimate: BoundedEstimate | None) -> tuple[float | None, float | None, float | None]:
    return (None, None, None) if estimate is None else (estimate.value, estimate.low, estimate.high)
